"""Committed offsets and transactional ids at a point in time, against records applied one by one."""

from __future__ import annotations

import gc
import json
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.fast import blocks
from kdump.format import record as format_record
from kdump.inputs import resolve
from kdump.kafka.coordinatorstate import OFFSETS, CoordinatorState
from kdump.payloads.internal import DecodedMessage
from kdump.verify.coordinators import coordinator_states
from kdump.verify.partitionentries import PartitionEntries
from tests.harness.batches import CONTROL, GZIP, NOW, TRANSACTIONAL, v2_batch
from tests.harness.captures import Captures
from tests.harness.decoder_logs import commit, transaction
from tests.harness.examples import examples
from tests.harness.fast_reference import Row

ABORT, COMMIT = 0, 1


@dataclass(frozen=True)
class Step:
    """A batch: what it commits, in a producer's transaction or in none (-1), or the marker of one."""

    producer: int
    commits: tuple[tuple[str, int | None], ...] = ()
    marker: int | None = None


GROUPS = st.sampled_from(["a", "b", "c"])
STEPS = st.lists(
    st.builds(
        Step,
        st.sampled_from([-1, -1, 1, 2]),
        st.lists(st.tuples(GROUPS, st.none() | st.integers(0, 99)), min_size=1, max_size=3).map(tuple),
    )
    | st.builds(Step, st.sampled_from([1, 2]), st.just(()), st.sampled_from([ABORT, COMMIT])),
    max_size=14,
)


def encoded(steps: list[Step]) -> bytes:
    """Batch i has timestamp NOW + i."""
    parts, offset = [], 0
    for number, step in enumerate(steps):
        rows = [replace(commit(group, offset=value), offset_delta=at) for at, (group, value) in enumerate(step.commits)]
        attributes = TRANSACTIONAL if step.producer >= 0 else 0
        if step.marker is not None:
            rows, attributes = [Row(0, 0, b"\0\0" + step.marker.to_bytes(2, "big"), bytes(6))], attributes | CONTROL
        fields = {"base_offset": offset, "base_timestamp": NOW + number, "producer_id": step.producer}
        parts.append(v2_batch(rows, attributes=attributes, codec=GZIP if number % 3 == 2 else 0, **fields))
        offset += len(rows)
    return b"".join(parts)


def expected(steps: list[Step], until: int) -> dict[str, int]:
    newest: dict[str, tuple[int, int | None]] = {}
    pending: dict[int, list[tuple[str, tuple[int, int | None]]]] = {}
    offset = 0
    for number, step in enumerate(steps):
        records = [(group, (offset + at, value)) for at, (group, value) in enumerate(step.commits)]
        offset += len(records) or 1
        if number > until:
            continue
        if step.marker is not None:
            ended = pending.pop(step.producer, [])
            records = ended if step.marker == COMMIT else []
        elif step.producer >= 0:
            pending.setdefault(step.producer, []).extend(records)
            continue
        for group, record in records:
            if group not in newest or newest[group][0] < record[0]:
                newest[group] = record
    return {group: value for group, (_, value) in newest.items() if value is not None}


def states(path: Path, at: int | None) -> list[Any]:
    return list(coordinator_states(PartitionEntries([resolve(str(path))], on_error=pytest.fail), at, pytest.fail))


def write(folder: Path, partition: str, log: bytes) -> Path:
    (folder / partition).mkdir(exist_ok=True)
    path = folder / partition / f"{0:020}.log"
    path.write_bytes(log)
    return path


@examples(60)
@given(STEPS, st.integers(-1, 14))
def test_committed_offsets(tmp_path_factory: pytest.TempPathFactory, steps: list[Step], until: int) -> None:
    path = write(tmp_path_factory.mktemp("logs"), "__consumer_offsets-3", encoded(steps))
    (state,) = states(path, NOW + until)
    assert {row["group"]: row["offset"] for row in state.rows} == expected(steps, until)
    (state,) = states(path, None)
    assert {row["group"]: row["offset"] for row in state.rows} == expected(steps, 99)


def living() -> int:
    """Decoded messages that something still refers to."""
    gc.collect()
    return sum(isinstance(one, DecodedMessage) for one in gc.get_objects())


def test_decoded_messages_are_not_kept(tmp_path: Path) -> None:
    """While the rows are made, one key and one value are decoded, however many there are."""
    records = [replace(commit(f"group-{number}"), offset_delta=number) for number in range(20)]
    path = write(tmp_path, "__consumer_offsets-0", v2_batch(records))
    state = CoordinatorState(OFFSETS, None)
    logs = PartitionEntries([resolve(str(path))], on_error=lambda error: None)
    for entries in logs.of(logs.partitions[0].logs[0]):
        state.update(entries)
    rows, before = state.rows(), living()
    next(rows)
    assert living() <= before + 2
    assert len(list(rows)) == 19


@examples(60)
@given(st.lists(st.tuples(st.text("a\0\1\xff\ud7ff\ue000\U0001f600", max_size=3), st.integers(0, 2)), unique=True))
def test_rows_are_sorted_as_their_names(tmp_path_factory: pytest.TempPathFactory, names: list[tuple[str, int]]) -> None:
    records = [
        replace(commit(group, partition=partition), offset_delta=at) for at, (group, partition) in enumerate(names)
    ]
    path = write(tmp_path_factory.mktemp("logs"), "__consumer_offsets-3", v2_batch(records))
    (state,) = states(path, None)
    assert [(row["group"], row["partition"]) for row in state.rows] == sorted(names)


@pytest.mark.parametrize("codec", [0, GZIP])
def test_a_batch_that_is_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, codec: int) -> None:
    monkeypatch.setattr(format_record, "PIECE_RECORDS", 4)
    monkeypatch.setattr(blocks, "_LARGEST_BODY", 100)
    rows = [replace(commit(f"group-{number % 7}", offset=number), offset_delta=number) for number in range(10)]
    log = tmp_path / "__consumer_offsets-0" / f"{0:020}.log"
    log.parent.mkdir()
    log.write_bytes(v2_batch(rows, codec=codec) + v2_batch(rows[:1], base_offset=10))
    (state,) = states(log.parent, None)
    found = {row["group"]: row["offset"] for row in state.rows}
    assert found == {f"group-{number % 7}": number for number in range(1, 10)} | {"group-0": 0}


def test_commits_of_an_open_transaction_are_told(tmp_path: Path) -> None:
    path = write(tmp_path, "__consumer_offsets-3", encoded([Step(1, (("a", 5),))]))
    (state,) = states(path, NOW)
    assert not state.rows
    assert any("open" in note for note in state.notes)
    (state,) = states(path, NOW - 1)
    assert any("later records" in note for note in state.notes)


def test_both_versions_of_a_key_are_one(tmp_path: Path) -> None:
    old = replace(commit("a", offset=1, version=0), offset_delta=0)
    assert old.key is not None
    rows = [replace(old, key=b"\0\0" + old.key[2:]), replace(commit("a", offset=2), offset_delta=1)]
    (state,) = states(write(tmp_path, "__consumer_offsets-0", v2_batch(rows)), None)
    assert [(row["group"], row["offset"], row["recordOffset"]) for row in state.rows] == [("a", 2, 1)]


def test_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    rows = [replace(commit("a"), value=b"\0\x63"), replace(commit("b", offset=3), offset_delta=1)]
    (state,) = states(write(tmp_path, "__consumer_offsets-0", v2_batch(rows)), None)
    assert [row["group"] for row in state.rows] == ["b"]
    assert state.notes[0].startswith("offset 0: KD")


def test_transactional_ids(tmp_path: Path) -> None:
    rows = [replace(transaction(name), offset_delta=at) for at, name in enumerate(("t2", "t1", "t2"))]
    removed = replace(transaction("t1"), value=None)
    log = v2_batch(rows) + v2_batch([removed], base_offset=3, base_timestamp=NOW + 10)
    path = write(tmp_path, "__transaction_state-0", log)
    (state,) = states(path, NOW)
    assert [(row["transactionalId"], row["recordOffset"]) for row in state.rows] == [("t1", 1), ("t2", 2)]
    (state,) = states(path, NOW + 10)
    assert [row["transactionalId"] for row in state.rows] == ["t2"]
    assert set(next(iter(state.rows))) >= {"producerId", "producerEpoch", "state", "partitions", "timestamp"}


def test_other_topics_are_passed_over(tmp_path: Path) -> None:
    write(tmp_path, "orders-0", encoded([Step(-1, (("a", 5),))]))
    assert states(tmp_path / "orders-0", None) == []
    write(tmp_path, "__consumer_offsets-1", encoded([Step(-1, (("a", 5),))]))
    assert [state.partition.logs[0].context.partition for state in states(tmp_path, None)] == [1]


RECORD = re.compile(r"\| offset: (\d+) .*? key: (\{.*\}) payload: (.*)")
BATCH = re.compile(r"producerId: (-?\d+) .*isTransactional: (\w+) isControl: (\w+)")
MARKER = re.compile(r"\| offset: .* endTxnMarker: (\w+)")


@pytest.mark.parametrize(
    "name", ["0.10.2.2/__consumer_offsets-1", "2.8.2/__consumer_offsets-1", "4.3.1/__consumer_offsets-0"]
)
def test_captures_against_what_the_java_tool_prints(captures: Captures, name: str) -> None:
    golden = next(each for each in captures.goldens(name) if each.flags.name == "decoder" and ".log" in each.name)
    newest: dict[tuple[Any, ...], int | None] = {}
    pending: dict[str, list[tuple[tuple[Any, ...], int | None]]] = {}
    producer, is_transactional = "-1", False
    for line in golden.outcome().stdout.decode().splitlines():
        if (batch := BATCH.search(line)) is not None:
            producer, is_transactional = batch[1], batch[2] == "true"
        elif (marker := MARKER.search(line)) is not None:
            newest.update(pending.pop(producer, []) if marker[1] == "COMMIT" else [])
        elif (record := RECORD.search(line)) is not None and json.loads(record[2])["type"] in ("0", "1"):
            value = None if record[3] == "<DELETE>" else json.loads(record[3])["data"]["offset"]
            entry = tuple(json.loads(record[2])["data"].values()), value
            if is_transactional:
                pending.setdefault(producer, []).append(entry)
            else:
                newest[entry[0]] = value
    (state,) = states(captures.root / name, None)
    found = {(row["group"], row["topic"], row["partition"]): row["offset"] for row in state.rows}
    assert found == {key: value for key, value in newest.items() if value is not None}
    assert found
