"""Recovery of a segment: Kafka's own answers, the rules one by one, and columns against single batches."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.format.batch import MAX_INT32
from kdump.kafka import recover as recover_module
from kdump.kafka.failures import FailureKind
from kdump.kafka.producers import ProducerStates
from kdump.kafka.recover import CutReason, Recovery, RecoveryOutcome, recover
from kdump.kafka.segmentindexes import IndexBuilder
from kdump.log.opening import open_source
from kdump.reading.view import DecodePath
from tests.harness import batches
from tests.harness.archives import case_files
from tests.harness.batches import marker
from tests.harness.captures import FIXTURES
from tests.harness.examples import examples
from tests.harness.memory import MemorySource
from tests.harness.recoverypaths import recovering

PATHS = (DecodePath.SCALAR, DecodePath.COLUMNAR)


def recovered(
    data: bytes, base_offset: int = 0, path: DecodePath = DecodePath.AUTO, **options: Any
) -> tuple[Recovery, ProducerStates]:
    """The result, and the producers after it."""
    producers = ProducerStates(base_offset)
    with recovering(path):
        return recover(MemorySource(data), base_offset, producers, **options), producers


def outline(recovery: Recovery, producers: ProducerStates) -> tuple[object, ...]:
    """All that has a meaning, as values that can be compared."""
    if recovery.outcome is RecoveryOutcome.FAILED:
        return (recovery,)
    return recovery, producers.snapshot(), producers.end_offset, list(producers.by_id), dict(producers.ongoing)


def both_with_producers(data: bytes, base_offset: int = 0, **options: Any) -> tuple[Recovery, ProducerStates]:
    """The result and the producers after it, the same on both paths."""
    scalar, columnar = (recovered(data, base_offset, path, **options) for path in PATHS)
    assert outline(*scalar) == outline(*columnar)
    return scalar


def both(data: bytes, base_offset: int = 0, **options: Any) -> Recovery:
    """The result, the same on both paths."""
    return both_with_producers(data, base_offset, **options)[0]


def data_batch(
    offset: int, producer_id: int = -1, *, count: int = 1, transactional: bool = False, **header: int
) -> bytes:
    return batches.v2_batch(
        batches.plain_rows(count),
        base_offset=offset,
        attributes=batches.TRANSACTIONAL if transactional else 0,
        producer_id=producer_id,
        **{"producer_epoch": 0, "base_sequence": 0, **header},
    )


# Kafka's own answers


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def differences(case: dict[str, Any], data: bytes, recovery: Recovery, producers: ProducerStates) -> Iterator[str]:
    """In what a recovery is not Kafka's."""
    expected = case["recover"]
    if case["outcome"] == "exception":
        if recovery.failure is None or recovery.failure.kind.java_class != expected["exception"]["class"]:
            yield f"failure {recovery.failure}"
        elif case["loader_outcome"] == "wiped" and not recovery.failure.kind.empties_segment:
            yield "empties_segment"
        return
    indexes = recovery.indexes
    assert indexes is not None
    files = {
        "log": data[: recovery.end],
        "index": indexes.index,
        "timeindex": indexes.time_index,
        # Kafka empties a .txnindex that was there, and does not make one.
        "txnindex": b"" if indexes.txn_index is None and "txnindex" in case["with_indexes"] else indexes.txn_index,
    }
    for name, content in files.items():
        found = None if content is None else {"size": len(content), "sha256": digest(content)}
        if found != expected["files"][name]:
            yield name
    found_producers = {
        str(producer_id): {
            "epoch": state.epoch,
            "last_offset": state.last_offset,
            "txn_first": -1 if state.txn_first_offset is None else state.txn_first_offset,
        }
        for producer_id, state in producers.by_id.items()
    }
    found = {
        "outcome": recovery.outcome.value,
        "truncated": recovery.bytes_cut,
        "size": recovery.end,
        "max_timestamp": recovery.max_timestamp,
        "producers": found_producers,
        "leader_epochs": [list(entry) for entry in recovery.leader_epochs],
    }
    known = {**expected, "outcome": case["outcome"]}
    yield from (name for name, value in found.items() if value != known[name])


@pytest.mark.parametrize("path", PATHS)
def test_kafkas_own_answers(path: DecodePath) -> None:
    files = case_files("repair")
    cases = [json.loads(line) for line in files["repair/results.jsonl"].splitlines()]
    assert len(cases) > 200
    differing = []
    for case in cases:
        data = files[f"repair/mutants/{case['id']}/{case['name']}.log"]
        recovery, producers = recovered(data, int(case["name"]), path)
        differing += [
            f"{case['id']} {case['mutation']}: {what}" for what in differences(case, data, recovery, producers)
        ]
    assert not differing


def test_the_segments_of_a_broker_one_after_the_other() -> None:
    """Index files, aborted transactions and snapshots are those that the broker wrote."""
    logs = sorted((FIXTURES / "segments" / "v2-txn-0").glob("*.log"))
    producers = ProducerStates()
    for log in logs:
        if producers.end_offset:
            assert log.with_suffix(".snapshot").read_bytes() == producers.snapshot()
        with open_source(str(log)) as source:
            recovery = recover(source, int(log.stem), producers)
        assert (recovery.outcome, recovery.end) == (RecoveryOutcome.UNCHANGED, log.stat().st_size)
        assert recovery.indexes is not None
        assert (recovery.indexes.txn_index or b"") == log.with_suffix(".txnindex").read_bytes()
    assert len(logs) == 5


# The rules one by one


def test_an_empty_log() -> None:
    recovery = both(b"", 7)
    assert (recovery.outcome, recovery.end, recovery.next_offset) == (RecoveryOutcome.UNCHANGED, 0, 7)
    assert recovery.indexes is not None
    assert (recovery.indexes.index, recovery.indexes.time_index, recovery.indexes.txn_index) == (b"", b"", None)


GOOD = data_batch(0)
SHORT_BATCH = struct.pack(">qiib", 1, 40, 0, 2) + bytes(35)


@pytest.mark.parametrize(
    ("tail", "reason"),
    [
        (b"\0" * 17, CutReason.TRAILING_BYTES),
        (b"\0" * 18, CutReason.LENGTH_TOO_SMALL),
        (batches.message(1, 1, b"k", b"v", crc=1), CutReason.CRC),
        (SHORT_BATCH, CutReason.HEADER_CUT),
    ],
)
def test_cut_after_the_last_good_batch(tail: bytes, reason: CutReason) -> None:
    recovery = both(GOOD + tail)
    assert (recovery.outcome, recovery.end, recovery.bytes_cut) == (RecoveryOutcome.TRUNCATED, len(GOOD), len(tail))
    assert recovery.cut is not None
    assert recovery.cut.reason is reason


def test_a_bad_marker_is_the_last_batch_kept() -> None:
    log = data_batch(0, 9, transactional=True) + marker(1, 9, 0, value=b"\xff\xff" + bytes(4))
    recovery, producers = both_with_producers(log + data_batch(2))
    assert (recovery.outcome, recovery.end, recovery.next_offset) == (RecoveryOutcome.TRUNCATED, len(log), 2)
    assert recovery.cut is not None
    assert recovery.cut.reason is CutReason.MARKER
    assert producers.end_offset == 1
    assert producers.by_id[9].txn_first_offset == 0
    assert both(log).outcome is RecoveryOutcome.UNCHANGED


@pytest.mark.parametrize(
    ("batch", "base_offset", "kind"),
    [
        (data_batch(4), 5, FailureKind.OFFSET_OVERFLOW),
        (data_batch(5 + 2**31), 5, FailureKind.OFFSET_OVERFLOW),
        (data_batch(-1, last_offset_delta=2), 0, FailureKind.LEADER_EPOCH),
        (marker(5, 1, 7), 5, FailureKind.MARKER_TYPE),
        (data_batch(5, 1, transactional=True) + data_batch(6, 1), 5, FailureKind.INVALID_TXN_STATE),
    ],
)
def test_failures(batch: bytes, base_offset: int, kind: FailureKind) -> None:
    recovery = both(batch, base_offset)
    assert (recovery.outcome, recovery.bytes_cut) == (RecoveryOutcome.FAILED, 0)
    assert recovery.failure is not None
    assert recovery.failure.kind is kind
    assert not kind.empties_segment


def test_a_log_over_2_gib_is_refused() -> None:
    source = MemorySource(GOOD, size=MAX_INT32 + 1)
    recovery = recover(source, 0, ProducerStates())
    assert recovery.failure is not None
    assert recovery.failure.kind is FailureKind.FILE_TOO_LARGE


def test_a_stream_is_refused() -> None:
    source = MemorySource(GOOD)
    source.size = None
    with pytest.raises(ValueError, match="size"):
        recover(source, 0, ProducerStates())


def test_index_entries_are_more_than_an_interval_apart() -> None:
    batch = len(data_batch(0))
    log = b"".join(data_batch(offset, max_timestamp=offset // 3) for offset in range(9))
    recovery = both(log, index_interval_bytes=2 * batch - 1)
    assert recovery.indexes is not None
    assert list(struct.iter_unpack(">ii", recovery.indexes.index)) == [(n, n * batch) for n in (2, 4, 6, 8)]
    assert list(struct.iter_unpack(">qi", recovery.indexes.time_index)) == [(0, 0), (1, 3), (2, 6)]
    assert both(log, index_interval_bytes=len(log)).indexes != recovery.indexes


def test_offsets_of_index_entries_must_rise() -> None:
    log = data_batch(0) + data_batch(3) + data_batch(3)
    recovery = both(log, index_interval_bytes=0)
    assert recovery.failure is not None
    assert recovery.failure.kind is FailureKind.INVALID_OFFSET
    assert recovery.failure.kind.empties_segment
    assert recovery.end == len(data_batch(0) + data_batch(3))
    assert both(log).outcome is RecoveryOutcome.UNCHANGED


def test_the_last_time_entry_may_fail_after_the_truncation() -> None:
    second = data_batch(10, max_timestamp=1)
    log = data_batch(9, count=2, max_timestamp=1, last_offset_delta=0) + second + data_batch(3, max_timestamp=5)
    recovery = both(log + b"\0", index_interval_bytes=len(second))
    assert recovery.failure is not None
    assert (recovery.failure.kind, recovery.failure.after_truncation) == (FailureKind.INVALID_OFFSET, True)
    assert (recovery.end, recovery.bytes_cut) == (len(log), 0)


def test_a_full_index_fails() -> None:
    log = b"".join(data_batch(offset) for offset in range(9))
    assert both(log, index_interval_bytes=0, index_size=8 * 20).outcome is RecoveryOutcome.UNCHANGED
    recovery = both(log, index_interval_bytes=0, index_size=8 * 7)
    assert recovery.failure is not None
    assert recovery.failure.kind is FailureKind.INDEX_FULL


def test_new_leader_epochs() -> None:
    epochs = (-1, 0, 0, 3, 2, 3, 4)
    log = b"".join(data_batch(offset, partition_leader_epoch=epoch) for offset, epoch in enumerate(epochs))
    assert both(log).leader_epochs == [(0, 1), (3, 3), (4, 6)]
    assert both(log, latest_leader_epoch=3).leader_epochs == [(4, 6)]


def test_the_columns_are_used_for_many_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    added: list[int] = []
    monkeypatch.setattr(recover_module, "RECOVERED_BATCHES", 0)
    monkeypatch.setattr(IndexBuilder, "add_batches", lambda _, plan: added.append(len(plan.positions)))
    recovered(b"".join(data_batch(offset) for offset in range(200)), index_interval_bytes=0)
    assert added == [199]


# Columns against single batches

SMALL = st.integers(0, 3)


@st.composite
def any_batch(draw: st.DrawFn) -> tuple[bytes, int]:
    """A batch and how far the offset moves after it; its offset is filled in later."""
    producer_id = draw(st.sampled_from([-1, 0, 1, 2, 2**40, -5]))
    kind = draw(st.sampled_from(["data"] * 6 + ["marker", "legacy", "damaged"]))
    step = draw(st.sampled_from([1, 1, 1, 1, 1, 3, 0, -2]))
    timestamp = draw(st.sampled_from([-1, 5, 6, 7, 2**63 - 1]))
    if kind == "legacy":
        return batches.message(draw(st.sampled_from([0, 1])), 0, b"k", b"v" * draw(SMALL), timestamp=timestamp), step
    if kind == "marker":
        value = draw(st.sampled_from([None] * 12 + [b"", bytes(5), b"\xff" * 6]))
        return marker(0, producer_id, draw(st.sampled_from([0, 1] * 6 + [2])), epoch=draw(SMALL), value=value), step
    header = {
        "producer_epoch": draw(SMALL),
        "base_sequence": draw(SMALL),
        "partition_leader_epoch": draw(st.integers(-1, 3)),
        "max_timestamp": timestamp,
        "magic": draw(st.sampled_from([2, 2, 2, 9])),
        "last_offset_delta": draw(st.sampled_from([0, 0, 0, 0, 2])),
    }
    if kind == "damaged" and draw(st.integers(0, 5)) == 0:
        header["crc"] = 1
    transactional = draw(st.booleans())
    return data_batch(0, producer_id, transactional=transactional, **header), step


@examples(400)
@given(
    st.lists(any_batch(), max_size=60),
    st.sampled_from([0, 3]),
    st.sampled_from([0, 150, 4096]),
    st.sampled_from([96, 10 << 20]),
)
def test_columns_agree_with_single_batches(
    parts: list[tuple[bytes, int]], first: int, interval: int, index_size: int
) -> None:
    offset = 4
    log = b""
    for part, step in parts:
        # Offset and CRC are apart in v2; in legacy entries too.
        log += struct.pack(">q", offset) + part[8:]
        offset += step
    both(log, first, index_interval_bytes=interval, index_size=index_size)
