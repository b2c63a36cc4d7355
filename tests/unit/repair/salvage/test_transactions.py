"""Transactions that touch a hole, and batches that contradict a transaction."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from kdump.format.batch import parse_header
from kdump.format.checkpoint import EpochEntry
from kdump.format.index import AbortedTxn
from kdump.format.snapshot import ProducerEntry
from kdump.kafka.producers import ProducerStates
from kdump.repair.salvage.later import ENDLESS
from kdump.repair.salvage.pieces import JudgedBefore, PieceOrigin, TxnOutcome, TxnPolicy
from kdump.repair.salvage.siblingcontext import SiblingContext
from tests.harness.batches import ABORT, COMMIT, NOW, TRANSACTIONAL, entries, marker, plain_rows, v2_batch
from tests.harness.salvaged import Mended, mend

HOLE = b"\x55" * 150
COORDINATOR = 9


class Log:
    """Writes batches of two producers, and plain ones between."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.offset = 0
        self.sequence: dict[int, int] = {}

    def data(self, producer: int = 7, *, epoch: int = 3, transactional: bool = True) -> Log:
        sequence = self.sequence.get(producer, 0)
        self.sequence[producer] = sequence + 2
        self._add(
            v2_batch(
                plain_rows(2),
                base_offset=self.offset,
                attributes=TRANSACTIONAL if transactional else 0,
                producer_id=producer,
                producer_epoch=epoch,
                base_sequence=sequence,
            ),
            2,
        )
        return self

    def marker(self, kind: int, producer: int = 7, *, epoch: int = 3) -> Log:
        self._add(marker(self.offset, producer, kind, epoch=epoch, coordinator_epoch=COORDINATOR), 1)
        return self

    def plain(self, count: int = 1) -> Log:
        for _ in range(count):
            self._add(v2_batch(plain_rows(3), base_offset=self.offset), 3)
        return self

    def hole(self, offsets: int = 4) -> Log:
        self.parts.append(HOLE)
        self.offset += offsets
        return self

    def _add(self, batch: bytes, offsets: int) -> None:
        self.parts.append(batch)
        self.offset += offsets

    def mended(self, policy: TxnPolicy = TxnPolicy.LEAVE, **around: object) -> Mended:
        around.setdefault("base_offset", 0)
        return mend(b"".join(self.parts), SiblingContext(**around), transactions=policy)  # type: ignore[arg-type]


def outcomes(result: Mended) -> list[TxnOutcome]:
    return [one.outcome for one in result.log.transactions]


def markers(result: Mended) -> list[tuple[int, int, int, int, int]]:
    """(offset, producer id, epoch, type, coordinator epoch) of the made markers."""
    made = [piece.data for piece in result.log.pieces if piece.origin is PieceOrigin.MARKER]
    return [
        (
            *struct.unpack_from(">q", batch),
            *struct.unpack_from(">qh", batch, 43),
            *struct.unpack_from(">h", batch, 68),
            *struct.unpack_from(">i", batch, 73),
        )
        for batch in made
    ]


def test_a_transaction_that_is_over_before_the_hole_is_not_touched() -> None:
    assert outcomes(Log().data().marker(COMMIT).plain().hole().plain().mended()) == []


@pytest.mark.parametrize(
    ("kind", "outcome"), [(ABORT, TxnOutcome.INFERRED_ABORTED), (COMMIT, TxnOutcome.INFERRED_COMMITTED)]
)
def test_a_marker_of_the_same_epoch_after_the_hole(kind: int, outcome: TxnOutcome) -> None:
    """Another transaction of the epoch may have begun in the gap: nothing is inferred."""
    log = Log().data().hole().marker(kind).plain()
    (left,) = log.mended().log.transactions
    assert (left.outcome, left.done, left.ends_at, left.is_guessed) == (outcome, TxnPolicy.LEAVE, 6, True)
    assert markers(log.mended()) == []
    # The other kind of marker is made; for the same one the next marker will do.
    made = {ABORT: [(2, 7, 3, ABORT, 0)], COMMIT: [(2, 7, 3, COMMIT, 0)], kind: []}
    assert markers(log.mended(TxnPolicy.ABORT)) == made[ABORT]
    assert markers(log.mended(TxnPolicy.COMMIT)) == made[COMMIT]


@pytest.mark.parametrize(("kind", "outcome"), [(ABORT, TxnOutcome.ABORTED), (COMMIT, TxnOutcome.COMMITTED)])
def test_a_marker_of_the_next_epoch_ends_it_for_certain(kind: int, outcome: TxnOutcome) -> None:
    """With KIP-890 each transaction has an epoch of its own, and the marker the next."""
    log = Log().data(epoch=2).marker(COMMIT, epoch=3).data().hole().marker(kind, epoch=4)
    assert outcomes(log.mended()) == [outcome]


def test_a_producer_that_was_fenced_is_aborted_with_the_next_epoch() -> None:
    """Before KIP-890, too: a transaction of the same epoch may have ended in the gap."""
    assert outcomes(Log().data().hole().marker(ABORT, epoch=4).mended()) == [TxnOutcome.INFERRED_ABORTED]
    log = Log().data().marker(COMMIT).data().hole().marker(ABORT, epoch=4)
    assert outcomes(log.mended()) == [TxnOutcome.INFERRED_ABORTED]
    assert outcomes(Log().data().hole().marker(COMMIT, epoch=4).mended()) == [TxnOutcome.COMMITTED]


def test_a_later_epoch_shows_that_it_ended() -> None:
    assert outcomes(Log().data().hole().data(epoch=4).mended()) == [TxnOutcome.INFERRED_ENDED]
    assert outcomes(Log().data().hole().marker(COMMIT, epoch=6).mended()) == [TxnOutcome.INFERRED_ENDED]


def test_it_goes_on_after_the_hole() -> None:
    result = Log().data().hole().data().plain().mended(TxnPolicy.ABORT)
    assert outcomes(result) == [TxnOutcome.INFERRED_OPEN]
    assert markers(result) == [(2, 7, 3, ABORT, 0)]
    log = Log().data(epoch=2).marker(COMMIT, epoch=3).data().hole().data().plain()
    assert outcomes(log.mended(TxnPolicy.ABORT)) == [TxnOutcome.OPEN]


def test_nothing_is_known() -> None:
    result = Log().plain().data().plain().hole().plain().mended()
    (touched,) = result.log.transactions
    assert (touched.producer_id, touched.producer_epoch, touched.first_offset, touched.gap_offset) == (7, 3, 3, 8)
    assert (touched.outcome, touched.done) == (TxnOutcome.UNKNOWN, TxnPolicy.LEAVE)


def test_abort_makes_a_marker_in_the_hole() -> None:
    result = Log().data(8).marker(COMMIT, 8).data().data(8).hole(4).plain().mended(TxnPolicy.ABORT)
    assert markers(result) == [(7, 7, 3, ABORT, 0), (8, 8, 3, ABORT, COORDINATOR)]
    assert [span for span in result.spans if span[0] in ("marker", "held")] == [
        ("marker", 7, 7),
        ("marker", 8, 8),
        ("held", 9, 10),
    ]
    assert {one.done for one in result.log.transactions} == {TxnPolicy.ABORT}


def test_more_transactions_than_offsets_in_the_hole() -> None:
    result = Log().data(1).data(2).data(3).hole(2).plain().mended(TxnPolicy.ABORT)
    assert len(markers(result)) == 2
    assert [one.done for one in result.log.transactions] == [TxnPolicy.ABORT, TxnPolicy.ABORT, TxnPolicy.LEAVE]


def test_drop_holds_the_offsets_of_the_batches() -> None:
    result = Log().plain().data().plain().data().hole(4).plain().mended(TxnPolicy.DROP)
    assert result.spans == [("kept", 0, 2), ("held", 3, 4), ("kept", 5, 7), ("held", 8, 13), ("kept", 14, 16)]
    assert result.log.dropped[0].reason == "its transaction has lost its end"
    assert (result.log.dropped[0].records, result.log.transactions[0].done) == (2, TxnPolicy.DROP)


def test_a_torn_tail_without_a_known_end() -> None:
    result = Log().data().hole(0).mended(TxnPolicy.ABORT)
    assert markers(result) == [(2, 7, 3, ABORT, 0)]


def test_the_txnindex_knows_the_lost_marker() -> None:
    """It is made again where it was, whatever the policy."""
    log = Log().data().plain().hole(4).data().marker(COMMIT)
    result = log.mended(TxnPolicy.LEAVE, aborted=[AbortedTxn(0, 7, 0, 7, 8)])
    assert outcomes(result) == [TxnOutcome.ABORTED]
    assert markers(result) == [(7, 7, 3, ABORT, 0)]


def test_a_txnindex_of_another_log_says_nothing() -> None:
    log = Log().data().plain().hole(4).plain()
    aborted = [AbortedTxn(0, 7, 0, 7, 8), AbortedTxn(0, 5, 1, 2, 3)]
    assert outcomes(log.mended(aborted=aborted)) == [TxnOutcome.UNKNOWN]


def test_the_next_segment_has_the_marker(tmp_path: Path) -> None:
    log = Log().data().hole(4).plain()
    following = Log()
    following.offset = log.offset
    path = tmp_path / "following.log"
    path.write_bytes(b"".join(following.plain().marker(ABORT).parts))
    result = log.mended(next_base=log.offset, following=[str(path)])
    assert outcomes(result) == [TxnOutcome.INFERRED_ABORTED]
    missing = log.mended(next_base=log.offset, following=[str(tmp_path / "gone.log")])
    assert outcomes(missing) == [TxnOutcome.UNKNOWN]


def test_a_transaction_from_an_earlier_segment() -> None:
    entry = ProducerEntry(7, 3, 5, 90, 1, NOW, 4, 80)
    log = Log()
    log.offset = 100
    log.plain().hole(4).plain()
    states = ProducerStates.from_snapshot([entry], 100)
    result = log.mended(TxnPolicy.ABORT, base_offset=100, producers=states)
    (touched,) = result.log.transactions
    assert (touched.first_offset, touched.outcome) == (80, TxnOutcome.UNKNOWN)
    assert markers(result) == [(103, 7, 3, ABORT, 4)]


def test_batches_in_an_earlier_segment_are_not_dropped() -> None:
    """So none of the transaction are: readers would get a part of it, and the report would say that all are gone."""
    log = Log()
    log.offset = 100
    log.data().plain().hole(4).plain()
    states = ProducerStates.from_snapshot([ProducerEntry(7, 3, -1, 90, 0, NOW, 4, 80)], 100)
    result = log.mended(TxnPolicy.DROP, base_offset=100, producers=states)
    (touched,) = result.log.transactions
    assert (touched.first_offset, touched.done) == (80, TxnPolicy.LEAVE)
    assert result.spans == [("kept", 100, 104), ("held", 105, 108), ("kept", 109, 111)]
    assert result.log.judged[7, 80] == JudgedBefore(is_left=True, until=ENDLESS)


@pytest.mark.parametrize(
    ("after", "epoch"), [((), 5), ((v2_batch(plain_rows(3), base_offset=6, partition_leader_epoch=4),), 4)]
)
def test_a_made_marker_has_the_leader_epoch_of_its_place(after: tuple[bytes, ...], epoch: int) -> None:
    """That of the checkpoint, unless what is after contradicts it, also where no batch comes before."""
    log = Log().hole(6)
    log.parts += after
    states = ProducerStates.from_snapshot([ProducerEntry(7, 3, 5, -1, 1, NOW, 4, 0)], 0)
    epochs = [EpochEntry(5, 0)]
    result = log.mended(TxnPolicy.ABORT, producers=states, epochs=epochs, next_base=6 if not after else None)
    assert [origin for origin in result.origins if origin is not PieceOrigin.KEPT] == [
        PieceOrigin.MARKER,
        PieceOrigin.HELD,
    ]
    assert {parse_header(batch).partition_leader_epoch for batch in result.batches} == {epoch}


class TestContradictions:
    def test_a_plain_batch_inside_a_transaction(self) -> None:
        result = Log().data().marker(COMMIT).data().data(transactional=False).data().marker(COMMIT).mended()
        assert result.spans == [("kept", 0, 4), ("held", 5, 6), ("kept", 7, 9)]

    def test_a_transactional_batch_of_a_plain_producer(self) -> None:
        log = Log()
        for number in range(6):
            log.data(transactional=number == 2)
        result = log.mended()
        assert result.spans == [("kept", 0, 3), ("held", 4, 5), ("kept", 6, 11)]

    def test_a_transaction_that_began_before_the_segment(self) -> None:
        states = ProducerStates.from_snapshot([ProducerEntry(7, 3, -1, -1, 0, NOW, 4, 0)], 0)
        log = Log()
        log.offset = 10
        result = log.data(transactional=False).plain().mended(base_offset=10, producers=states)
        assert result.spans == [("held", 10, 11), ("kept", 12, 14)]

    def test_other_producers_are_left_alone(self) -> None:
        data = b"".join(Log().data(1).data(2, transactional=False).marker(ABORT, 1).data(1).parts)
        assert entries(mend(data).data) == entries(data)
