"""The producer state: batches, markers, snapshots."""

from __future__ import annotations

import heapq
import struct
from contextlib import suppress
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.format.batch import parse_header
from kdump.format.snapshot import ProducerEntry, parse_snapshot
from kdump.kafka.failures import FailureKind, KafkaFailureError
from kdump.kafka.markers import EndTxnMarker, InvalidRecordError, read_marker
from kdump.kafka.producers import CompletedTxn, ProducerState, ProducerStates, long_hash_order
from kdump.repair.plan.producersat import ProducersAt
from tests.harness import batches
from tests.harness.captures import FIXTURES
from tests.harness.fast_reference import Row

ABORT, COMMIT = range(2)
VALUE = struct.pack(">hi", 0, 5)
PRODUCER = 7


def apply(states: ProducerStates, batch: bytes) -> CompletedTxn | None:
    return states.append(parse_header(batch), memoryview(batch))


def data(
    offset: int,
    *,
    count: int = 1,
    transactional: bool = False,
    producer_id: int = PRODUCER,
    epoch: int = 0,
    sequence: int = 0,
) -> bytes:
    return batches.v2_batch(
        batches.plain_rows(count),
        base_offset=offset,
        attributes=batches.TRANSACTIONAL if transactional else 0,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
    )


def control(key: bytes | None, value: bytes | None, offset: int = 0, **header: int) -> bytes:
    attributes = header.pop("attributes", 0) | batches.CONTROL | batches.TRANSACTIONAL
    rows = [Row(3, 0, key, value)]
    header.setdefault("producer_id", PRODUCER)
    return batches.v2_batch(rows, base_offset=offset, attributes=attributes, **header)


def marker(offset: int, control_type: int, *, epoch: int = 0, producer_id: int = PRODUCER) -> bytes:
    key = struct.pack(">hh", 0, control_type)
    return control(key, VALUE, offset, producer_epoch=epoch, producer_id=producer_id)


def test_data_batches() -> None:
    states = ProducerStates()
    assert apply(states, data(10, count=3, sequence=2**31 - 2)) is None
    assert states.by_id[PRODUCER] == ProducerState(0, 0, 12, 2, batches.NOW + 2, -1, None)
    apply(states, data(13, epoch=1, sequence=4))
    assert states.by_id[PRODUCER] == ProducerState(1, 4, 13, 0, batches.NOW, -1, None)


def test_a_transaction_and_its_end() -> None:
    states = ProducerStates()
    apply(states, data(10, transactional=True))
    apply(states, data(11, transactional=True, sequence=1))
    assert dict(states.ongoing) == {10: PRODUCER}
    completed = apply(states, marker(12, ABORT))
    assert completed == CompletedTxn(PRODUCER, 10, 12, is_aborted=True)
    assert states.last_stable_offset(completed) == 13
    states.complete(completed)
    assert dict(states.ongoing) == {}
    assert states.by_id[PRODUCER] == ProducerState(0, 1, 11, 0, batches.NOW + 3, 5, None)


def test_a_marker_of_a_new_epoch_forgets_the_data() -> None:
    states = ProducerStates()
    apply(states, data(10, transactional=True))
    completed = apply(states, marker(11, COMMIT, epoch=1))
    assert completed == CompletedTxn(PRODUCER, 10, 11, is_aborted=False)
    assert states.by_id[PRODUCER] == ProducerState(1, -1, -1, 0, batches.NOW + 3, 5, None)


def test_a_marker_without_transaction() -> None:
    states = ProducerStates()
    assert apply(states, marker(11, COMMIT)) is None
    assert states.by_id[PRODUCER] == ProducerState(0, -1, -1, 0, batches.NOW + 3, 5, None)


def test_a_control_batch_without_records_only_makes_the_producer_known() -> None:
    states = ProducerStates()
    assert apply(states, control(b"", b"", record_count=0)) is None
    assert states.by_id[PRODUCER] == ProducerState()


def test_data_outside_of_the_open_transaction() -> None:
    states = ProducerStates()
    apply(states, data(10, transactional=True))
    before = dict(states.by_id)
    with pytest.raises(KafkaFailureError) as error:
        apply(states, data(11))
    assert error.value.kind is FailureKind.INVALID_TXN_STATE
    assert states.by_id == before


def test_two_transactions_from_one_offset() -> None:
    entries = [ProducerEntry(number, 0, 0, 5, 0, 0, 0, 5) for number in (PRODUCER, 8)]
    states = ProducerStates.from_snapshot(entries)
    assert dict(states.ongoing) == {5: 8}
    completed = apply(states, marker(9, COMMIT))
    assert completed is not None
    states.complete(completed)
    with pytest.raises(KafkaFailureError) as error:
        states.complete(CompletedTxn(8, 5, 10, is_aborted=False))
    assert error.value.kind is FailureKind.TXN_NOT_STARTED


def test_the_last_stable_offset_is_another_producers_first() -> None:
    entries = [ProducerEntry(number, 0, 0, 5, 0, 0, 0, first) for number, first in ((8, 30), (9, 20), (PRODUCER, 10))]
    states = ProducerStates.from_snapshot(entries)
    assert states.last_stable_offset(CompletedTxn(PRODUCER, 10, 40, is_aborted=True)) == 20
    assert states.last_stable_offset(CompletedTxn(8, 30, 40, is_aborted=True)) == 10


@pytest.mark.parametrize("kind", [ProducerStates, ProducersAt])
@pytest.mark.parametrize("seed", range(8))
def test_the_last_stable_offset_of_many_transactions(seed: int, kind: type[ProducerStates]) -> None:
    """ProducerStateManager.findNextIncompleteTxn goes through all. A producer may have many in a snapshot."""
    chance = Random(seed)
    entries = [
        ProducerEntry(chance.randrange(3), 0, 0, 5, 0, 0, 0, chance.randrange(20)) for _ in range(chance.randrange(20))
    ]
    states = kind.from_snapshot(entries)
    for offset in range(20, 60):
        producer_id = chance.randrange(4)
        begin, end = (
            data(offset, transactional=True, producer_id=producer_id),
            marker(offset, ABORT, producer_id=producer_id),
        )
        completed = apply(states, chance.choice((begin, end)))
        if isinstance(states, ProducersAt) and chance.random() < 0.2:
            states = states.copy()
        if completed is None:
            continue
        others = [first for first, owner in states.ongoing.items() if owner != producer_id]
        assert states.last_stable_offset(completed) == min(others, default=offset + 1)
        with suppress(KafkaFailureError):
            states.complete(completed)


def test_many_transactions_of_one_producer_are_passed_over_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of its markers went through all of them."""
    pops: list[object] = []
    pop = heapq.heappop
    monkeypatch.setattr(heapq, "heappop", lambda heap: pops.append(heap) or pop(heap))
    count = 100
    states = ProducerStates.from_snapshot(ProducerEntry(PRODUCER, 0, 0, 5, 0, 0, 0, first) for first in range(count))
    for first in range(count, 3 * count, 2):
        apply(states, data(first, transactional=True))
        completed = apply(states, marker(first + 1, ABORT))
        assert completed is not None
        assert states.last_stable_offset(completed) == first + 2
        states.complete(completed)
    assert count < len(pops) < 5 * count


KEY = struct.pack(">hh", 0, ABORT)


@pytest.mark.parametrize("key", [b"", bytes(3), b"\xff\xff\0\0"])
def test_markers_with_unreadable_keys(key: bytes) -> None:
    batch = control(key, VALUE)
    with pytest.raises(InvalidRecordError):
        read_marker(parse_header(batch), memoryview(batch))


@pytest.mark.parametrize(
    ("batch", "kind"),
    [
        (control(None, VALUE), FailureKind.MARKER_NULL),
        (control(KEY, None), FailureKind.MARKER_NULL),
        (control(KEY, b"\0"), FailureKind.MARKER_VALUE_CUT),
        (control(KEY, VALUE[:5]), FailureKind.MARKER_VALUE_CUT),
        (control(struct.pack(">hh", 0, 2), VALUE), FailureKind.MARKER_TYPE),
        (control(KEY, VALUE, attributes=7), FailureKind.CODEC),
        (control(KEY, VALUE, attributes=batches.GZIP), FailureKind.MARKER_PAYLOAD),
        (
            batches.v2_batch(body=b"\xff" * 5, attributes=batches.CONTROL, producer_id=1, record_count=1),
            FailureKind.MARKER_LENGTH,
        ),
    ],
)
def test_markers_that_make_recovery_fail(batch: bytes, kind: FailureKind) -> None:
    with pytest.raises(KafkaFailureError) as error:
        read_marker(parse_header(batch), memoryview(batch))
    assert error.value.kind is kind


@pytest.mark.parametrize("codec", [batches.NONE, *batches.CODECS])
def test_longer_keys_and_values_and_higher_versions_are_read(codec: int) -> None:
    row = Row(1, 0, struct.pack(">hh", 3, COMMIT) + b"more", struct.pack(">hi", 9, 6) + b"more")
    batch = batches.v2_batch([row], codec=codec, attributes=batches.CONTROL, producer_id=1)
    assert read_marker(parse_header(batch), memoryview(batch)) == EndTxnMarker(False, 6, batches.NOW + 1)


ENTRIES = st.builds(
    ProducerEntry,
    producer_id=st.integers(0, 2**63 - 1) | st.integers(0, 200),
    producer_epoch=st.integers(-1, 2**15 - 1),
    last_sequence=st.integers(0, 2**31 - 1),
    last_offset=st.integers(0, 2**40),
    offset_delta=st.integers(0, 100),
    timestamp=st.integers(-1, 2**50),
    coordinator_epoch=st.integers(-1, 9),
    current_txn_first_offset=st.integers(-1, 2**40),
)


@given(st.lists(ENTRIES, unique_by=lambda entry: entry.producer_id, max_size=60))
def test_snapshots_are_read_back(entries: list[ProducerEntry]) -> None:
    states = ProducerStates.from_snapshot(entries, 9)
    snapshot = states.snapshot()
    assert sorted(parse_snapshot(snapshot)) == sorted(entries)
    assert parse_snapshot(snapshot) == list(states.entries())
    copied = ProducersAt.from_snapshot(entries, 9).copy()
    assert (list(copied.entries()), copied.end_offset) == (list(states.entries()), 9)


def test_an_entry_without_offset_has_no_last_batch() -> None:
    entry = ProducerEntry(PRODUCER, 3, 44, -1, 7, 100, 2, -1)
    found = list(ProducerStates.from_snapshot([entry]).entries())
    assert found == [ProducerEntry(PRODUCER, 3, -1, -1, 0, 100, 2, -1)]


def test_the_order_of_a_brokers_own_snapshots() -> None:
    files = sorted((FIXTURES / "segments" / "v2-txn-0").glob("*.snapshot"))
    assert files
    for path in files:
        entries = parse_snapshot(path.read_bytes())
        assert ProducerStates.from_snapshot(entries).snapshot() == path.read_bytes()


def test_the_order_is_by_hash() -> None:
    assert long_hash_order([17, 16, 1, 0, 1 << 32]) == [16, 0, 17, 1, 1 << 32]
    assert long_hash_order(range(12, -1, -1)) == list(range(13))
    assert long_hash_order([0x1_0000, 0]) == [0, 0x1_0000]
