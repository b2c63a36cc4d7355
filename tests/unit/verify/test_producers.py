"""Producers and transactions: sequences, epochs, markers."""

from __future__ import annotations

import struct
from unittest import mock

import pytest

from kdump.codes import Codes, Finding, Severity
from kdump.format.index import AbortedTxn
from kdump.format.snapshot import ProducerEntry
from kdump.verify.ordered import OrderedChecks
from kdump.verify.producers import ProducerChecks
from kdump.verify.segment import CheckOptions
from tests.harness.batches import CONTROL, NOW, TRANSACTIONAL, v2_batch
from tests.harness.checked import both_ways, check, codes
from tests.harness.fast_reference import Row

MINUTE = 60_000


class Log:
    """A segment that grows batch by batch; offsets go on by themselves."""

    def __init__(self) -> None:
        self.data = b""
        self.end = 0

    def write(
        self, producer: int, sequence: int, *, epoch: int = 0, count: int = 2, txn: bool = False, time: int = NOW
    ) -> Log:
        rows = [Row(0, number, b"k", b"v") for number in range(count)]
        self._append(
            rows, attributes=TRANSACTIONAL * txn, producer_id=producer, producer_epoch=epoch, base_sequence=sequence,
            base_timestamp=time,
        )  # fmt: skip
        return self

    def leave_empty(self, producer: int, sequence: int) -> Log:
        """A transactional batch of two records that are gone."""
        header = {"attributes": TRANSACTIONAL, "producer_id": producer, "base_sequence": sequence}
        self.data += v2_batch([], base_offset=self.end, last_offset_delta=1, **header)
        self.end += 2
        return self

    def mark(self, producer: int, kind: int = 1, *, epoch: int = 0, coordinator_epoch: int = 0) -> Log:
        row = Row(0, 0, struct.pack(">hh", 0, kind), struct.pack(">hi", 0, coordinator_epoch))
        self._append([row], attributes=CONTROL | TRANSACTIONAL, producer_id=producer, producer_epoch=epoch)
        return self

    def _append(self, rows: list[Row], **header: int) -> None:
        self.data += v2_batch(rows, base_offset=self.end, **header)
        self.end += len(rows)


def found_in(log: Log) -> list[Finding]:
    return both_ways(log.data)


def test_sequences_that_go_on() -> None:
    log = Log().write(1, 50).write(2, 0).write(1, 52).write(2, 2).write(1, 54)
    assert found_in(log) == []
    assert found_in(Log().write(1, 2**31 - 3, count=3).write(1, 0)) == []
    assert found_in(Log().write(1, 2**31 - 2, count=4).write(1, 2)) == []


def test_sequence_gaps() -> None:
    log = Log().write(1, 0).write(1, 4).write(1, 6)
    (found,) = found_in(log)
    assert (found.code, found.severity) == (Codes.SEQUENCE_GAP, Severity.WARNING)
    assert "2 sequence numbers are missing from 2 on" in found.message


def test_sequence_gaps_are_normal_on_compacted_logs() -> None:
    assert check(Log().write(1, 0).write(1, 4).data, ordered=OrderedChecks(is_compacted=True)) == []


def test_no_sequence_gap_across_a_hole() -> None:
    log = Log().write(1, 0).write(1, 2).write(1, 4).write(2, 7).write(1, 6)
    middle = len(Log().write(1, 0).data)
    damaged = bytearray(log.data)
    damaged[middle + 65] ^= 4
    assert codes(both_ways(bytes(damaged))) == [Codes.BATCH_CRC]


def test_duplicate_sequences() -> None:
    assert codes(found_in(Log().write(1, 0).write(1, 2).write(1, 2).write(1, 4))) == [Codes.SEQUENCE_DUPLICATE]


def test_producer_epochs() -> None:
    assert found_in(Log().write(1, 5, epoch=0).write(1, 0, epoch=1).write(1, 2, epoch=1)) == []
    assert codes(found_in(Log().write(1, 5).write(1, 7, epoch=1))) == [Codes.SEQUENCE_GAP]
    assert codes(found_in(Log().write(1, 5, epoch=3).write(1, 7, epoch=2))) == [Codes.PRODUCER_EPOCH_BACKWARDS]


def test_coordinators_always_write_sequence_0() -> None:
    log = Log().write(1, 0, txn=True).mark(1).write(1, 0, txn=True).write(1, 0, txn=True).mark(1)
    assert check(log.data, ordered=OrderedChecks(is_coordinator=True)) == []
    assert codes(found_in(log)) == [Codes.SEQUENCE_DUPLICATE] * 2


def test_transactions() -> None:
    log = (
        Log().write(1, 0, txn=True).write(2, 0, txn=True).write(1, 2, txn=True).mark(2, 0).mark(1).write(1, 4, txn=True)
    )
    assert found_in(log.mark(1)) == []


def test_markers_that_bump_the_epoch_start_sequences_anew() -> None:
    log = Log().write(1, 3, txn=True).mark(1, epoch=1).write(1, 0, epoch=1, txn=True).mark(1, epoch=2)
    assert found_in(log) == []


def test_markers_without_a_transaction_are_counted() -> None:
    (found,) = found_in(Log().mark(1).mark(2, 0).mark(1))
    assert (found.code, found.severity, found.position) == (Codes.MARKER_WITHOUT_TRANSACTION, Severity.INFO, 0)
    assert "2 others" in found.message


@pytest.mark.parametrize(("age", "severity"), [(MINUTE, Severity.INFO), (16 * MINUTE, Severity.WARNING)])
def test_transactions_that_stay_open(age: int, severity: Severity) -> None:
    log = Log().write(7, 0).write(1, 0, txn=True).write(1, 2, txn=True, time=NOW + 5).write(7, 2, time=NOW + age)
    (found,) = found_in(log)
    assert (found.code, found.severity) == (Codes.TRANSACTION_OPEN, severity)
    assert found.position == len(Log().write(7, 0).data)
    assert "producer 1 (epoch 0) is open since offset 2" in found.message


def test_a_plain_batch_inside_a_transaction_fails_recovery() -> None:
    log = Log().write(1, 0, txn=True).write(1, 2).write(1, 4).mark(1)
    (found,) = found_in(log)
    assert (found.code, found.severity) == (Codes.TRANSACTION_STATE, Severity.ERROR)
    assert found.position == len(Log().write(1, 0).data)


def test_a_plain_batch_between_transactions_is_a_warning() -> None:
    for log in (
        Log().write(1, 0, txn=True).mark(1).write(1, 2),
        Log().write(1, 0).write(1, 2, txn=True).mark(1),
    ):
        (found,) = found_in(log)
        assert (found.code, found.severity) == (Codes.TRANSACTION_STATE, Severity.WARNING)


@pytest.mark.parametrize("epochs", [(4, 3), (-1,), (0, -5)])
def test_coordinator_epochs(epochs: tuple[int, ...]) -> None:
    log = Log()
    for number, epoch in enumerate(epochs):
        log.write(1, 2 * number, txn=True).mark(1, coordinator_epoch=epoch)
    assert codes(found_in(log)) == [Codes.COORDINATOR_EPOCH_BACKWARDS]


def test_aborted_transactions_are_those_of_the_txn_index() -> None:
    log = Log().write(1, 0, txn=True).write(2, 0, txn=True).mark(1, 0).mark(2, 0).write(2, 2, txn=True).mark(2, 1)
    ordered = OrderedChecks()
    assert check(log.data, ordered=ordered) == []
    assert ordered.aborted == [AbortedTxn(0, 1, 0, 4, 2), AbortedTxn(0, 2, 2, 5, 6)]


def test_the_last_stable_offset_is_that_of_the_oldest_open_transaction() -> None:
    log = Log()
    for producer in range(4):
        log.write(producer, 0, txn=True)
    # Those of 1 and 2 end before the oldest one, and 1 begins again.
    log.mark(2, 0).mark(1, 1).write(1, 2, txn=True).mark(0, 0).mark(3, 0).mark(1, 0)
    ordered = OrderedChecks()
    assert check(log.data, ordered=ordered) == []
    assert [(one.producer_id, one.first_offset, one.last_stable_offset) for one in ordered.aborted] == [
        (2, 4, 0), (0, 0, 6), (3, 6, 10), (1, 10, 15),
    ]  # fmt: skip


def test_a_producer_that_a_snapshot_names_twice_is_as_its_last_entry_says() -> None:
    entries = [ProducerEntry(1, 0, 9, 99, 0, NOW, 0, 90), ProducerEntry(1, 0, 9, 99, 0, NOW, 0, -1)]
    log = Log().write(2, 0, txn=True).mark(2, 0)
    ordered = OrderedChecks(producers=entries)
    assert check(log.data, ordered=ordered) == []
    assert ordered.aborted == [AbortedTxn(0, 2, 0, 2, 3)]


@pytest.mark.parametrize(
    ("base_offset", "begun_before"), [(0, set()), (None, {(1, 0), (2, 3)}), (-9, {(1, 0), (2, 3)})]
)
@pytest.mark.parametrize("columnar", [False, True])
def test_transactions_that_may_begin_before_the_first_segment(
    base_offset: int | None, begun_before: set[tuple[int, int]], columnar: bool
) -> None:
    """Once for each producer that comes from before, until a marker; not when it is seen to begin."""
    log = Log().mark(1, 0).write(2, 5, txn=True).mark(2, 0).write(1, 0, txn=True).mark(1, 0).mark(3, 1).mark(2, 0)
    ordered = OrderedChecks()
    check(log.data, base_offsets=[base_offset], ordered=ordered, options=CheckOptions(columnar=columnar))
    assert ordered.begun_before == begun_before
    assert [(one.producer_id, one.first_offset, one.last_offset) for one in ordered.aborted] == [(2, 1, 3), (1, 4, 6)]


@pytest.mark.parametrize("columnar", [False, True])
def test_abort_markers_for_which_no_record_is_seen(columnar: bool) -> None:
    """Nothing is open, or the log cleaner left only empty batches."""
    log = Log().write(1, 0, txn=True).mark(1, 0).mark(1, 0).mark(1, 1)
    log.leave_empty(2, 0).mark(2, 0).leave_empty(2, 2).write(2, 4, txn=True).mark(2, 0)
    ordered = OrderedChecks()
    check(log.data, ordered=ordered, options=CheckOptions(columnar=columnar))
    assert ordered.idle_aborts == {(1, 3), (2, 7)}


def test_a_snapshot_says_what_was_before() -> None:
    entries = [
        ProducerEntry(1, 3, 9, 99, 0, NOW, 5, 90),
        ProducerEntry(2, 0, 4, 98, 0, NOW, -1, -1),
    ]
    log = Log().write(1, 10, epoch=3, txn=True).mark(1, 0, epoch=3, coordinator_epoch=5).write(2, 5)
    ordered = OrderedChecks(producers=entries)
    assert check(log.data, ordered=ordered) == []
    assert ordered.aborted == [AbortedTxn(0, 1, 90, 2, 3)]
    wrong = Log().write(1, 10, epoch=2, txn=True).write(2, 7)
    assert Codes.PRODUCER_EPOCH_BACKWARDS in codes(check(wrong.data, ordered=OrderedChecks(producers=entries)))
    assert Codes.SEQUENCE_GAP in codes(check(wrong.data, ordered=OrderedChecks(producers=entries)))


def test_many_producers_are_forgotten_but_not_their_open_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kdump.verify.producers._MOST_PRODUCERS", 8)
    log = Log().write(1000, 0, txn=True)
    for number in range(50):
        log.write(number, 7)
    log.write(0, 3)
    found = found_in(log.mark(1000, 0))
    assert found == []


def test_open_transactions_are_not_looked_through_for_each_new_producer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kdump.verify.producers._MOST_PRODUCERS", 8)
    log = Log()
    for number in range(1000):
        log.write(number, 0, txn=True)
    forget = ProducerChecks._forget_idle
    with mock.patch.object(ProducerChecks, "_forget_idle", autospec=True, side_effect=forget) as forgetting:
        assert Codes.TRANSACTION_OPEN in codes(found_in(log))
    assert 0 < forgetting.call_count < 50
