"""Decoded records: the scalar and the columnar path print the same, and say the same of what does not decode."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.payloads.choice import DecoderChoice
from kdump.payloads.topics import INTERNAL_TOPICS
from kdump.reading.selection import Range, Selection
from kdump.reading.view import DecodePath
from kdump.rows.tables import RECORD_DECODED
from kdump.schemas.topic import schema_places
from tests.harness.decoder_logs import commit, random_row, write_log
from tests.harness.dumpoptions import text_dump
from tests.harness.examples import examples
from tests.harness.inprocess import Door, Way, run_in_process
from tests.harness.outcome import Outcome
from tests.harness.row_runs import BOTH_PATHS, RowRun, run_rows
from tests.harness.schemas import schema_cases

PATHS = {path: Way(Door.PATH, path) for path in BOTH_PATHS}


def text(path: Path, choice: DecoderChoice, decode_path: DecodePath, **options: bool) -> Outcome:
    return run_in_process([str(path)], text_dump(print_data_log=True, decoding=choice, **options), PATHS[decode_path])


@pytest.mark.parametrize("decoder", INTERNAL_TOPICS)
@given(st.randoms(use_true_random=False), st.integers(1, 4), st.booleans())
@examples(40)
def test_text(tmp_path: Path, decoder: str, random: Random, per_batch: int, skip: bool) -> None:
    path = write_log(tmp_path, "x-0", [random_row(decoder, random) for _ in range(12)], per_batch=per_batch)
    choice = DecoderChoice(internal=decoder)
    options = {"skip_record_metadata": skip, "resync": random.random() < 0.5}
    one, other = (text(path, choice, decode_path, **options) for decode_path in BOTH_PATHS)
    assert one == other
    assert one.failure is None


@pytest.mark.parametrize("decoder", INTERNAL_TOPICS)
@given(st.randoms(use_true_random=False))
@examples(40)
def test_rows(tmp_path: Path, decoder: str, random: Random) -> None:
    rows = [random_row(decoder, random) for _ in range(12)]
    path = write_log(tmp_path, "x-0", rows, per_batch=random.randint(1, 4))
    take, skip = random.choice((None, random.randrange(9))), random.randrange(5)

    def run(decode_path: DecodePath, **options: object) -> RowRun:
        choice = DecoderChoice(internal=decoder)
        return run_rows([path], RECORD_DECODED, path=decode_path, decoding=choice, take=take, skip=skip, **options)

    syntax = random.choice(("jsonl", "csv"))
    selection = random.choice((Selection(), Selection(offsets=Range(2, 7))))
    fields = random.choice((None, ("decodedValue",), ("offset", "decodedKey", "key", "problem")))
    one, other = (run(path, syntax=syntax, fields=fields, selection=selection) for path in BOTH_PATHS)
    assert one == other
    assert not one.errors
    assert not one.damaged


@pytest.mark.parametrize("decode_path", BOTH_PATHS)
def test_odd_strings(tmp_path: Path, decode_path: DecodePath) -> None:
    """What JSON must escape, what is no ASCII, and what is no UTF-8, among plain ones."""
    groups = ["plain", 'quo"te', "back\\slash", "\x1f", "\n", "caf\u00e9", "\u2028", "\U0001f600", "", "a" * 300]
    rows = [commit(group) for group in groups]
    broken = commit("xyz")
    assert broken.key is not None
    rows.append(replace(broken, key=broken.key.replace(b"y", b"\xff")))
    path = write_log(tmp_path, "__consumer_offsets-0", rows)
    choice = DecoderChoice(by_topic=True)
    lines = text(path, choice, decode_path, skip_record_metadata=True).stdout.decode().split("\n")
    shown = [line.partition('"group":')[2].partition(',"topic"')[0] for line in lines if line.startswith("|")]
    expected = [
        '"plain"',
        '"quo\\"te"',
        '"back\\\\slash"',
        '"\\u001F"',
        '"\\n"',
        '"caf\u00e9"',
        '"\u2028"',
        '"\U0001f600"',
    ]
    assert shown == [*expected, '""', f'"{"a" * 300}"', '"x\ufffdz"']
    rows_run = run_rows([path], RECORD_DECODED, path=decode_path, decoding=choice)
    assert [row["decodedKey"]["data"]["group"] for row in rows_run.rows] == [*groups, "x\ufffdz"]


@pytest.mark.slow
def test_many_commits(tmp_path: Path) -> None:
    """Of every version, with tombstones between; enough of them for several blocks of rows."""
    random = Random(1)
    rows = [
        commit(f"group-{random.randrange(9)}", f"topic-{n % 7}", n % 50, random.choice((None, n, -1, 2**63 - 1)), n % 5)
        for n in range(9000)
    ]
    path = write_log(tmp_path, "__consumer_offsets-0", rows, per_batch=700)
    choice = DecoderChoice(by_topic=True)
    one, other = (text(path, choice, decode_path) for decode_path in BOTH_PATHS)
    assert one == other
    assert one.stdout.count(b'payload: {"version":') + one.stdout.count(b"payload: <DELETE>") == 9000
    json_runs = [run_rows([path], RECORD_DECODED, path=decode_path, decoding=choice) for decode_path in BOTH_PATHS]
    assert json_runs[0].output == json_runs[1].output


def test_control_batches_are_not_decoded(tmp_path: Path) -> None:
    from tests.harness.batches import CONTROL, v2_batch
    from tests.harness.fast_reference import Row

    path = write_log(tmp_path, "__consumer_offsets-0", [commit("g")])
    marker = v2_batch([Row(0, 0, b"\0\0\0\1", b"\0\0\0\0\0\5")], attributes=CONTROL | 0x10, base_offset=1)
    path.write_bytes(path.read_bytes() + marker)
    choice = DecoderChoice(by_topic=True)
    for decode_path in BOTH_PATHS:
        outcome = text(path, choice, decode_path)
        assert b"endTxnMarker: COMMIT coordinatorEpoch: 5\n" in outcome.stdout
        assert (outcome.stderr, outcome.status) == (b"", 0)
        run = run_rows([path], RECORD_DECODED, path=decode_path, decoding=choice)
        assert [row["decodedKey"] is None for row in run.rows] == [False, True]
        assert run.rows[1]["controlType"] == "COMMIT"


def test_a_record_without_key_ends_the_text_and_not_the_rows(tmp_path: Path) -> None:
    rows = [commit("g"), replace(commit("g"), key=None), commit("h")]
    path = write_log(tmp_path, "__consumer_offsets-0", rows)
    choice = DecoderChoice(by_topic=True)
    for decode_path in BOTH_PATHS:
        outcome = text(path, choice, decode_path)
        assert outcome.stdout.count(b"| offset: ") == 1
        assert b"Failed to decode message at offset 1" in outcome.stderr
        assert outcome.status == 1
        run = run_rows([path], RECORD_DECODED, path=decode_path, decoding=choice)
        assert [row["type"] for row in run.rows] == ["record", "record", "finding", "record"]
        assert run.rows[1]["problem"] == "the key is null, it says what the record is"
        assert not run.damaged


def test_options_work_as_copies(tmp_path: Path) -> None:
    """As they do in the workers of Spark."""
    path = write_log(tmp_path, "__consumer_offsets-0", [commit("g")])
    choice = pickle.loads(pickle.dumps(DecoderChoice(by_topic=True)))
    table = pickle.loads(pickle.dumps(RECORD_DECODED))
    assert run_rows([path], table, decoding=choice).rows[0]["decodedKey"]["data"]["group"] == "g"


@pytest.mark.parametrize("topic", ["bad", "orders", "events-guid", "events-txn", "invoices-guid", "profiles"])
@pytest.mark.parametrize("syntax", ["jsonl", "csv"])
def test_values_by_a_schema(topic: str, syntax: str) -> None:
    """With ids and GUIDs in front of values, in headers, and in neither."""
    logdir = schema_cases() / "logdir"
    choice = DecoderChoice(value="schema", schemas=schema_places(str(logdir)))
    log = logdir / f"{topic}-0" / f"{0:020}.log"
    one, other = (
        run_rows([log], RECORD_DECODED, path=decode_path, decoding=choice, syntax=syntax) for decode_path in BOTH_PATHS
    )
    assert one == other
    assert one.output.count(b"subjects") > 2
    assert bool(one.notes) == (topic == "bad")
