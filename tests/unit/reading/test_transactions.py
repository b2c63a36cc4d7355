"""Outcomes of transactions and ``read_committed``, against what the control records of a whole partition say."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from random import Random

import pytest

from kdump.format.index import TXN_ENTRY
from kdump.reading.transactionreader import TransactionReader
from kdump.reading.transactions import AbortedRanges, OpenTransactions, Transactions, indexed_aborts
from kdump.reading.view import DecodePath
from kdump.rows.tables import BATCH
from tests.harness.batches import ABORT, COMMIT, CONTROL, TRANSACTIONAL, marker, plain_rows, v2_batch
from tests.harness.captures import Captures
from tests.harness.cli_runs import CLEAN, UNREADABLE, kdump
from tests.harness.fast_reference import Row as RecordRow
from tests.harness.row_runs import BOTH_PATHS, Row, batches, records, run_rows
from tests.harness.row_text import batch_line, record_line

PARTITIONS = ["2.8.2/v2-txn-0", "3.9.1/v2-txn-0", "4.3.1/v2-txn-0"]


def logs(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.log"))


def outcomes(rows: list[Row]) -> list[str | None]:
    """The outcome of every record of a partition, from its markers alone."""
    ends = [row for row in rows if row["controlType"] in ("COMMIT", "ABORT")]
    found: list[str | None] = []
    for row in rows:
        outcome = None
        if row["isTransactional"] and not row["isControl"]:
            later = [
                end["controlType"]
                for end in ends
                if end["producerId"] == row["producerId"] and end["offset"] > row["offset"]
            ]
            outcome = {"COMMIT": "committed", "ABORT": "aborted"}[later[0]] if later else "open"
        found.append(outcome)
    return found


def committed(rows: list[Row], states: list[str | None]) -> list[Row]:
    """What a consumer with read_committed gets, and the markers before the place where it stops."""
    end = min((row["offset"] for row, state in zip(rows, states, strict=True) if state == "open"), default=None)
    return [
        row
        for row, state in zip(rows, states, strict=True)
        if state != "aborted" and (end is None or row["offset"] < end)
    ]


@pytest.fixture
def folder(request: pytest.FixtureRequest, captures: Captures, tmp_path: Path) -> Path:
    """A copy of a partition."""
    return Path(shutil.copytree(captures.root / request.param, tmp_path / "t-0", ignore=lambda *_: {"golden"}))


def data(offset: int, producer_id: int) -> bytes:
    return v2_batch(plain_rows(2), base_offset=offset, producer_id=producer_id, attributes=TRANSACTIONAL)


@pytest.mark.parametrize("path", BOTH_PATHS, ids=lambda path: path.name.lower())
@pytest.mark.parametrize("without", [[], ["*.snapshot"], ["*.txnindex", "*.snapshot", "*index"]], ids=str)
@pytest.mark.parametrize("folder", PARTITIONS[1:], indirect=True)
@pytest.mark.slow
def test_outcomes_of_a_partition(folder: Path, without: list[str], path: DecodePath) -> None:
    for pattern in without:
        for sibling in folder.glob(pattern):
            sibling.unlink()
    rows = records(*logs(folder), path=path)
    states = outcomes(rows)
    assert {"committed", "aborted"} <= set(states)
    assert [row["txnState"] for row in rows] == states
    kept = committed(rows, states)
    assert records(*logs(folder), path=path, read_committed=True) == kept
    positions = {(row["file"], row["position"]) for row in kept}
    whole = batches(*logs(folder))
    assert batches(*logs(folder), path=path, read_committed=True) == [
        row for row in whole if (row["file"], row["position"]) in positions
    ]


@pytest.mark.parametrize("folder", PARTITIONS, indirect=True)
def test_outcomes_of_each_segment_alone(folder: Path) -> None:
    rows = records(*logs(folder))
    kept = committed(rows, outcomes(rows))
    for log in logs(folder):
        assert records(log) == [row for row in rows if row["file"] == str(log)]
        assert records(log, read_committed=True) == [row for row in kept if row["file"] == str(log)]


@pytest.mark.parametrize("folder", PARTITIONS[1:], indirect=True)
def test_open_transaction_in_a_copy_that_ends_early(folder: Path) -> None:
    """Without its last segments more is open."""
    for log in logs(folder)[2:]:
        log.unlink()
    rows = records(*logs(folder))
    states = outcomes(rows)
    assert "open" in states
    assert [row["txnState"] for row in rows] == states
    assert records(*logs(folder), read_committed=True) == committed(rows, states)


@pytest.mark.parametrize("folder", PARTITIONS[2:], indirect=True)
def test_text(folder: Path) -> None:
    rows = records(*logs(folder))
    kept = committed(rows, outcomes(rows))
    expected: list[str] = []
    for log in logs(folder):
        own = [row for row in kept if row["file"] == str(log)]
        if own:
            expected += [f"Dumping {log}", f"Log starting offset: {int(log.stem)}"]
        for row in batches(log):
            below = [record_line(item) for item in own if item["position"] == row["position"]]
            expected += [batch_line(row), *below] if below else []
    run = kdump("dump", "--print-data-log", "--isolation", "read_committed", str(folder), cwd=folder)
    assert run.returncode == CLEAN
    assert run.stderr.decode().splitlines() == [
        f"kdump: {logs(folder)[-1]}: read_committed ends at offset 442: producer 12 has a transaction open"
    ]
    assert run.stdout.decode("utf-8", "surrogateescape").splitlines() == "\n".join(expected).splitlines()


def test_open_transaction_that_began_in_an_earlier_segment(tmp_path: Path) -> None:
    (tmp_path / "0.log").write_bytes(data(0, 1) + data(2, 2) + marker(4, 2, COMMIT))
    (tmp_path / "5.log").write_bytes(data(5, 2) + marker(7, 2, COMMIT) + data(8, 1))
    first, second = tmp_path / "0.log", tmp_path / "5.log"
    assert [row["txnState"] for row in records(first, second)] == [
        *(["open"] * 2 + ["committed"] * 2 + [None]),
        *(["committed"] * 2 + [None] + ["open"] * 2),
    ]
    assert records(first, second, read_committed=True) == []
    assert records(second, read_committed=True) == []


def test_several_transactions_of_one_producer(tmp_path: Path) -> None:
    log = tmp_path / "0.log"
    log.write_bytes(
        data(0, 1)
        + marker(2, 1, ABORT)
        + data(3, 1)
        + data(5, 1)
        + marker(7, 1, COMMIT)
        + data(8, 1)
        + data(10, 2)
        + marker(12, 1, ABORT)
        + marker(13, 2, COMMIT)
    )
    states = ["aborted"] * 2 + [None] + ["committed"] * 4 + [None] + ["aborted"] * 2 + ["committed"] * 2 + [None] * 2
    for path in BOTH_PATHS:
        assert [row["txnState"] for row in records(log, path=path)] == states


def test_marker_is_lost_but_the_index_names_the_transaction(tmp_path: Path) -> None:
    log = tmp_path / "0.log"
    log.write_bytes(data(0, 1) + marker(3, 2, COMMIT))
    assert [row["txnState"] for row in records(log)] == ["open", "open", None]
    entry = b"\0\0" + b"".join(number.to_bytes(8, "big") for number in (1, 0, 2, 3))
    (tmp_path / "0.txnindex").write_bytes(entry)
    assert [row["txnState"] for row in records(log)] == ["aborted", "aborted", None]
    (tmp_path / "0.txnindex").write_bytes(b"\7" + entry[1:])
    assert [row["txnState"] for row in records(log)] == ["open", "open", None]


def test_falling_offsets_are_put_in_order_together(tmp_path: Path) -> None:
    """Not one by one: each in front of all others moves them. A later segment may bring offsets between them too."""
    count = 50
    low, high = tmp_path / "0.log", tmp_path / f"{4 * count}.log"
    low.write_bytes(data(0, 1) + b"".join(marker(4 * number, 1, ABORT) for number in range(count, 0, -1)))
    high.write_bytes(b"".join(marker(4 * number + 2, 1, COMMIT) for number in range(count, 0, -1)))
    aborted = [(number, 4 * number + 1) for number in range(count, 0, -1)]
    low.with_suffix(".txnindex").write_bytes(b"".join(TXN_ENTRY.pack(0, 1, *one, 0) for one in aborted))
    moves = 0

    def count_moves(_: object, event: str, function: object) -> None:
        nonlocal moves
        moves += event == "c_call" and getattr(function, "__name__", "") in {"insort", "insort_right", "insert"}

    read, ranges = Transactions(), AbortedRanges()
    sys.setprofile(count_moves)
    try:
        read.read_segment(str(low), 4 * count)
        read.read_segment(str(high))
        ranges.add(indexed_aborts(str(low)))
    finally:
        sys.setprofile(None)
    assert moves == 0
    assert [read.end(1, offset) for offset in range(4 * count)] == [
        offset // 2 * 2 + 2 if offset > 3 else 4 for offset in range(4 * count)
    ]
    assert [ranges.transaction(1, 4 * first) for first, _ in aborted] == aborted


@pytest.mark.parametrize("seed", range(20))
def test_what_is_open_after_each_segment(seed: int) -> None:
    chance, opened = Random(seed), OpenTransactions()
    is_open: dict[int, int] = {}
    after: list[dict[int, int]] = []
    for segment in range(8):
        if segment:
            opened.next_segment()
        for number in range(chance.randrange(9)):
            producer_id = chance.randrange(4)
            if producer_id in is_open:
                opened.end(producer_id, is_open.pop(producer_id))
            else:
                is_open[producer_id] = 10 * segment + number
                opened.begin(producer_id, is_open[producer_id])
        after.append(dict(is_open))
        for asked in chance.choices(range(segment + 1), k=3):
            still = sorted((first, producer) for producer, first in after[asked].items() & is_open.items())
            assert opened.after(asked) == after[asked]
            assert opened.is_any_still(asked) == bool(still)
            assert opened.first_still(asked) == next(iter(still), None)


def test_segments_do_not_cost_all_that_is_open(tmp_path: Path) -> None:
    """Each transaction that is open over a gap was looked at after each segment, and kept for each."""
    count = 50
    first = b"".join(data(2 * number, number) for number in range(count)) + bytes(20) + data(3 * count, count)
    logs = {0: first} | {3 * count + 2 * number: data(3 * count + 2 * number, count) for number in range(1, count)}
    for base, log in logs.items():
        (tmp_path / f"{base}.log").write_bytes(log)
    reader = TransactionReader()
    calls = 0

    def count_calls(_: object, event: str, __: object) -> None:
        nonlocal calls
        calls += event == "call"

    paths = [str(tmp_path / f"{base}.log") for base in logs]
    reader.first_open(paths[0])
    sys.setprofile(count_calls)
    try:
        found = [reader.first_open(path) for path in paths]
    finally:
        sys.setprofile(None)
    assert found == [(0, 0)] * count
    assert calls < 50 * count


def test_markers_that_cannot_be_read_end_nothing(tmp_path: Path) -> None:
    log = tmp_path / "0.log"
    attributes = CONTROL | TRANSACTIONAL
    unreadable = v2_batch([RecordRow(0, 0, b"?", None)], base_offset=2, producer_id=1, attributes=attributes)
    log.write_bytes(data(0, 1) + unreadable)
    rows = records(log)
    assert [row["txnState"] for row in rows] == ["open", "open", None]
    assert rows[2]["controlType"] is None
    assert rows[2]["problem"]


def test_a_wrong_length_hides_no_marker(tmp_path: Path) -> None:
    log = tmp_path / "0.log"
    wrong = bytearray(marker(2, 2, COMMIT))
    wrong[11] += 4
    log.write_bytes(data(0, 1) + wrong + marker(3, 1, ABORT) + data(4, 1) + marker(6, 1, COMMIT))
    assert records(log)[0]["txnState"] == "aborted"


def test_the_key_tells_the_type_of_a_control_record_whose_value_cannot_be_read(tmp_path: Path) -> None:
    log = tmp_path / "0.log"
    attributes = CONTROL | TRANSACTIONAL
    for key, name in ((b"\0\0\0\1", "COMMIT"), (b"\0\0\0\2", "LEADER_CHANGE")):
        log.write_bytes(v2_batch([RecordRow(0, 0, key, b"\0")], producer_id=1, attributes=attributes))
        (row,) = records(log)
        assert (row["controlType"], row["control"]) == (name, None)
        assert row["problem"]


def test_streams_have_no_outcome(tmp_path: Path) -> None:
    stream = data(0, 1) + marker(2, 1, COMMIT)
    words = ("dump", "--output", "jsonl", "--records", "--fields", "txnState", "-")
    run = kdump(*words, cwd=tmp_path, stdin=stream)
    assert (run.returncode, run.stdout, run.stderr) == (CLEAN, b'{"txnState":null}\n' * 3, b"")
    for output in ([], ["--output", "jsonl"]):
        run = kdump("dump", "--isolation", "read_committed", *output, "-", cwd=tmp_path, stdin=stream)
        assert run.returncode == UNREADABLE
        assert b"stream" in run.stderr
        assert b"ffset: 0" not in run.stdout


def test_outcomes_are_only_looked_for_when_they_are_shown(tmp_path: Path) -> None:
    """The view of batches has no such column, so the segments after are not read."""
    (tmp_path / "0.log").write_bytes(data(0, 1))
    (tmp_path / "2.log").symlink_to("nowhere")
    assert not run_rows([tmp_path / "0.log"], BATCH).errors
