"""Findings about idempotent producers and transactions, in the order of the batches.

Source: KIP-98, KIP-360, KIP-890; docs/spec/recovery.md#2-the-walk-over-the-entries (rules 7 to 9);
docs/spec/formats.md#3-record-batches-v2. A log may begin anywhere, so the first sequence of a producer may be any.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Final

from kdump.codes import Codes, Finding, Severity
from kdump.format import control
from kdump.format.batch import MAX_INT32, increment_sequence
from kdump.format.index import AbortedTxn
from kdump.format.snapshot import ProducerEntry
from kdump.kafka.transactionends import EndingOf, not_at_hand
from kdump.system.units import span_text, time_text
from kdump.verify.table import END_TXN, BatchRow

HANGING_AFTER_MS: Final = 15 * 60 * 1000
"""transaction.max.timeout.ms by default: a coordinator aborts older transactions."""
_MOST_SEQUENCE_GAPS: Final = 1000
_MOST_PRODUCERS: Final = 1 << 18
"""Limits memory. No partition has more producers at a time; brokers forget them after a day. Those with an open
transaction are kept all the same."""
_NO_SEQUENCE: Final = -1
"""Last sequence of a producer whose next batch starts a new epoch: the next sequence is 0."""
_TXN_BEGIN: Final = struct.Struct("<qqq")
"""The first batch of a transaction: its position, its base timestamp (-1: not known) and its largest timestamp."""


@dataclass(slots=True)
class _Producer:
    """What the batches so far show of a producer; None if they show nothing."""

    epoch: int
    last_sequence: int | None
    gaps: int
    coordinator_epoch: int = -1
    txn_first_offset: int | None = None
    txn_path: str | None = None
    txn_begin: bytes = b""
    """See _TXN_BEGIN. A log may leave a million transactions open; these numbers take half the memory as bytes."""
    has_transactions: bool | None = None
    """Whether its newest data batch is transactional; None before the first one."""
    txn_has_records: bool = False
    """Whether the log cleaner left part of its open transaction, or part was written before what was read."""
    is_amid: bool = False
    """Whether a transaction of it may have begun before what was read, and not have ended since."""


class ProducerChecks:
    """The producers of one partition.

    ``latest``: the largest timestamp (ms) so far; the age of open transactions is counted from there. See
    ``OrderedChecks`` for the arguments.
    """

    def __init__(
        self,
        producers: Iterable[ProducerEntry] = (),
        *,
        is_coordinator: bool = False,
        ending: EndingOf = not_at_hand,
    ) -> None:
        self._producers: dict[int, _Producer] = {}
        self._most_producers = _MOST_PRODUCERS
        # The first offsets of transactions, and of those among them that have ended: heaps. Both drop their least
        # offset while it is equal, so the least of the first one is that of an open transaction.
        self._begun: list[int] = []
        self._ended: list[int] = []
        self._is_coordinator = is_coordinator
        self._ending = ending
        self._path: str | None = None
        self._gaps = 0
        self._sequence_gaps: list[Finding] = []
        # How many markers of the segment end nothing, and the first of them.
        self._idle_markers = 0
        self._idle_marker: BatchRow | None = None
        self.aborted: list[AbortedTxn] = []
        self.begun_before: set[tuple[int, int]] = set()
        self.idle_aborts: set[tuple[int, int]] = set()
        # Producers may have written before the first segment; None: the first segment is yet to come.
        self._begins_late: bool | None = None
        self.latest = -1
        for entry in producers:
            producer = _Producer(entry.producer_epoch, entry.last_sequence, 0, entry.coordinator_epoch)
            if entry.current_txn_first_offset >= 0:
                producer.txn_first_offset = entry.current_txn_first_offset
                producer.txn_begin = _TXN_BEGIN.pack(0, -1, entry.timestamp)
                producer.txn_has_records = producer.has_transactions = True
            self._producers[entry.producer_id] = producer
        first_offsets = (producer.txn_first_offset for producer in self._producers.values())
        self._begun = sorted(offset for offset in first_offsets if offset is not None)

    def start_segment(self, base_offset: int | None, path: str | None) -> None:
        """Start a segment: the next batches are in this file. Aborted transactions and idle markers count anew."""
        if self._begins_late is None:
            self._begins_late = base_offset != 0 and not self._producers
        self._path = path
        self.aborted, self.begun_before, self.idle_aborts = [], set(), set()
        self._idle_markers, self._idle_marker = 0, None

    def see_gap(self) -> None:
        """Note that batches may be lost here, so that producers may have done anything."""
        self._gaps += 1

    def forget(self) -> None:
        """Skip a whole segment: nothing is known of any producer, as at the start of a log that begins late."""
        self._producers, self._begun, self._ended = {}, [], []
        self._begins_late = True

    def see(self, row: BatchRow) -> Iterator[Finding]:
        """Check the next valid batch."""
        self.latest = max(self.latest, row.max_timestamp)
        if row.producer_id < 0:
            return
        producer = self._producers.get(row.producer_id)
        if producer is None:
            if len(self._producers) >= self._most_producers:
                self._forget_idle()
            sequence = None if row.is_control else row.last_sequence
            producer = self._producers[row.producer_id] = _Producer(row.producer_epoch, sequence, self._gaps)
            producer.is_amid = bool(self._begins_late) and (row.is_control or row.base_sequence != 0)
        elif row.producer_epoch < producer.epoch:
            message = f"producer {row.producer_id} has epoch {row.producer_epoch} after {producer.epoch}"
            yield Finding(Codes.PRODUCER_EPOCH_BACKWARDS, message, row.position, row.size)
        elif not row.is_control:
            yield from self._see_sequence(producer, row)
        if row.is_control:
            yield from self._see_marker(producer, row)
        else:
            yield from self._see_data(producer, row)
        producer.gaps = self._gaps

    def step_over(self, row: BatchRow) -> None:
        """Take over the newest row of a run of data batches of one producer without gaps; the first was checked."""
        producer = self._producers.get(row.producer_id)
        if producer is not None:
            producer.last_sequence = row.last_sequence

    def sequence_gaps(self, *, is_compacted: bool) -> Iterator[Finding]:
        """The findings that waited until this is known. The cleaner removes batches, and with them their sequences."""
        if not is_compacted:
            yield from self._sequence_gaps
        self._sequence_gaps = []

    def finish_segment(self) -> Iterator[Finding]:
        """End the segment: one finding for all its idle markers."""
        marker = self._idle_marker
        if marker is not None:
            others = f", nor do {self._idle_markers - 1:,} others in the segment" if self._idle_markers > 1 else ""
            message = f"a marker of producer {marker.producer_id} ends no transaction seen here{others}"
            yield Finding(Codes.MARKER_WITHOUT_TRANSACTION, message, marker.position, marker.size)

    def finish(self) -> Iterator[Finding]:
        """End the partition: the transactions that are left open."""
        for producer_id, producer in self._producers.items():
            if producer.txn_first_offset is None:
                continue
            position, start, timestamp = _TXN_BEGIN.unpack(producer.txn_begin)
            age = max(0, self.latest - timestamp)
            lost = "; its end may lie in a gap" if producer.gaps != self._gaps else ""
            answer = self._ending(producer_id, producer.epoch)
            since = f" ({time_text(start)} UTC)" if start >= 0 else ""
            message = (
                f"the transaction{answer.whose} of producer {producer_id} (epoch {producer.epoch}) is open since "
                f"offset {producer.txn_first_offset}{since}, {span_text(age)} before the newest batch{lost}; "
                f"{answer}"
            )
            yield Finding(
                Codes.TRANSACTION_OPEN,
                message,
                position,
                path=producer.txn_path,
                graded=None if age > HANGING_AFTER_MS else Severity.INFO,
            )

    def _see_sequence(self, producer: _Producer, row: BatchRow) -> Iterator[Finding]:
        if self._is_coordinator or row.base_sequence < 0:
            return
        is_new_epoch = row.producer_epoch > producer.epoch
        last = _NO_SEQUENCE if is_new_epoch else producer.last_sequence
        if last is None:
            return
        expected = 0 if last == _NO_SEQUENCE else increment_sequence(last, 1)
        missing = row.base_sequence - expected & MAX_INT32
        if not missing:
            return
        if missing > MAX_INT32 // 2:
            message = f"producer {row.producer_id}: sequence {row.base_sequence} after {last}"
            yield Finding(Codes.SEQUENCE_DUPLICATE, message, row.position, row.size)
        elif producer.gaps == self._gaps and len(self._sequence_gaps) < _MOST_SEQUENCE_GAPS:
            epoch = f" of the new epoch {row.producer_epoch}" if is_new_epoch else ""
            message = f"producer {row.producer_id}: {missing:,} sequence numbers{epoch} are missing from {expected} on"
            finding = Finding(Codes.SEQUENCE_GAP, message, row.position, row.size, path=self._path)
            self._sequence_gaps.append(finding)

    def _see_data(self, producer: _Producer, row: BatchRow) -> Iterator[Finding]:
        if producer.has_transactions is not None and row.is_transactional != producer.has_transactions:
            yield self._mixed(producer, row)
        producer.has_transactions = row.is_transactional
        if row.is_transactional and producer.txn_first_offset is None:
            producer.txn_first_offset = row.base_offset
            heappush(self._begun, row.base_offset)
            producer.txn_begin = _TXN_BEGIN.pack(row.position, row.base_timestamp, row.max_timestamp)
            producer.txn_path, producer.txn_has_records = self._path, False
        producer.txn_has_records |= row.record_count != 0
        producer.epoch = row.producer_epoch
        producer.last_sequence = row.last_sequence if row.base_sequence >= 0 else None

    @staticmethod
    def _mixed(producer: _Producer, row: BatchRow) -> Finding:
        """The finding of a producer that writes in transactions only sometimes."""
        if row.is_transactional:
            message = f"a transactional batch of producer {row.producer_id}, which wrote without transactions before"
        elif producer.txn_first_offset is None:
            message = f"a batch of producer {row.producer_id} without a transaction, which wrote in transactions before"
        else:
            message = (
                f"a batch of producer {row.producer_id} outside of its transaction, which is open since offset "
                f"{producer.txn_first_offset}"
            )
            return Finding(Codes.TRANSACTION_STATE, message, row.position, row.size)
        return Finding(Codes.TRANSACTION_STATE, message, row.position, row.size, graded=Severity.WARNING)

    def _see_marker(self, producer: _Producer, row: BatchRow) -> Iterator[Finding]:
        if row.marker_type not in END_TXN:
            return
        if row.coordinator_epoch < max(producer.coordinator_epoch, 0):
            before = f" after {producer.coordinator_epoch}" if producer.coordinator_epoch >= 0 else ""
            message = f"a marker of producer {row.producer_id} has coordinator epoch {row.coordinator_epoch}{before}"
            yield Finding(Codes.COORDINATOR_EPOCH_BACKWARDS, message, row.position, row.size)
        producer.coordinator_epoch = row.coordinator_epoch
        if row.producer_epoch > producer.epoch:
            # The marker of a broker that bumps epochs (KIP-890): the producer starts at 0 again.
            producer.epoch, producer.last_sequence = row.producer_epoch, _NO_SEQUENCE
        first, producer.txn_first_offset = producer.txn_first_offset, None
        if producer.is_amid and row.marker_type == control.ABORT:
            self.begun_before.add((row.producer_id, row.base_offset))
        producer.is_amid = False
        if first is None:
            self._idle_markers += 1
            self._idle_marker = self._idle_marker or row
        else:
            self._end(first)
            if row.marker_type == control.ABORT:
                last_stable_offset = self._begun[0] if self._begun else row.base_offset + 1
                self.aborted.append(AbortedTxn(0, row.producer_id, first, row.base_offset, last_stable_offset))
        if row.marker_type == control.ABORT and (first is None or not producer.txn_has_records):
            self.idle_aborts.add((row.producer_id, row.base_offset))

    def _end(self, first_offset: int) -> None:
        """Note that a transaction that began at this offset is open no longer."""
        heappush(self._ended, first_offset)
        while self._ended and self._ended[0] == self._begun[0]:
            heappop(self._begun)
            heappop(self._ended)

    def _forget_idle(self) -> None:
        """Keep the producers with an open transaction and the newer half; a forgotten one counts as new later."""
        half = len(self._producers) // 2
        self._producers = {
            producer_id: producer
            for number, (producer_id, producer) in enumerate(self._producers.items())
            if number >= half or producer.txn_first_offset is not None
        }
        # All of them may be kept: they are not looked through again for each new one.
        self._most_producers = max(_MOST_PRODUCERS, 2 * len(self._producers))
