"""Findings in the order of batches: one pass over the batch tables of a partition's segments, in offset order.

Source: docs/spec/recovery.md#2-the-walk-over-the-entries (rules 3 and 5),
docs/spec/recovery.md#4-what-recovery-does-not-notice; docs/spec/formats.md#3-record-batches-v2 for what the log cleaner
leaves. A batch is compared with the valid one before it. A prefilter by columns (``verify.prefilter``) leaves out the
rows of large tables that need no Python statement.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Set
from dataclasses import replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from kdump.codes import Codes, Finding
from kdump.format.batch import MAX_INT32
from kdump.format.index import AbortedTxn
from kdump.format.snapshot import ProducerEntry
from kdump.kafka.transactionends import EndingOf, not_at_hand
from kdump.verify.missing import MissingOffsets
from kdump.verify.prefilter import prefilter
from kdump.verify.producers import ProducerChecks
from kdump.verify.table import UNKNOWN_OFFSET, BatchRow, first_offset, missing_inside, row_at

MOST_ROWS = 1 << 17
"""How many batches back a duplicate is recognized; an older one counts as an overlap."""

_Key: TypeAlias = tuple[int, int, int, int, int]
_KEY_COLUMNS = ["base_offset", "last_offset", "size", "crc", "leader_epoch"]


class History:
    """Rows of valid batches, newest last. The lookup table is made at the first question."""

    def __init__(self) -> None:
        self._parts: deque[NDArray[np.void]] = deque()
        self._count = 0
        self._positions: dict[_Key, int] | None = None

    def add(self, rows: NDArray[np.void]) -> None:
        """Add the next rows in file order."""
        self._parts.append(rows)
        self._count += len(rows)
        while self._count > MOST_ROWS and len(self._parts) > 1:
            self._count -= len(self._parts.popleft())
        if self._positions is not None:
            if len(self._positions) > 2 * MOST_ROWS:
                self._positions = None
            else:
                self._fill(self._positions, rows)

    def find(self, row: BatchRow) -> int | None:
        """Position of an earlier batch with the same bytes as ``row``: same header fields, same right CRC.

        Among the rows added last, only batches before ``row`` count.
        """
        if self._positions is None:
            self._positions = {}
            for part in self._parts:
                self._fill(self._positions, part)
        position = self._positions.get((row.base_offset, row.last_offset, row.size, row.crc, row.leader_epoch))
        return None if position == row.position else position

    @staticmethod
    def _fill(positions: dict[_Key, int], rows: NDArray[np.void]) -> None:
        valid = rows[rows["is_valid"]]
        keys = zip(*(valid[name].tolist() for name in _KEY_COLUMNS), strict=True)
        pairs = zip(keys, valid["position"].tolist(), strict=True)
        for key, position in pairs:
            positions.setdefault(key, position)


class OrderedChecks:
    """The ordered checks of one partition. Call ``start_segment``, ``see``, ``finish_segment``, and ``finish`` last.

    Args:
        producers: the entries of the producer snapshot at the first segment's base offset.
        is_compacted: the topic is compacted; None: the batches decide.
        is_coordinator: a coordinator's topic (``__consumer_offsets``, ``__transaction_state``), whose transactional
            batches always have sequence 0.
        ending: says what becomes of an open transaction.
        lists_gaps: see ``CheckOptions``.
        follows_producers: check producers and transactions too.
    """

    def __init__(
        self,
        *,
        producers: Iterable[ProducerEntry] = (),
        is_compacted: bool | None = None,
        is_coordinator: bool = False,
        ending: EndingOf = not_at_hand,
        lists_gaps: bool = False,
        follows_producers: bool = True,
    ) -> None:
        self._producers = ProducerChecks(producers, is_coordinator=is_coordinator, ending=ending)
        self._missing = MissingOffsets(is_compacted, lists_all=lists_gaps)
        self._lists_gaps = lists_gaps
        self._follows_producers = follows_producers
        self._history = History()
        self._path: str | None = None
        self._base_offset: int | None = None
        self._previous: BatchRow | None = None
        # The largest last offset within the range of its segment.
        self._highest: int | None = None
        self._is_after_gap = self._is_first = self._was_out_of_range = False

    @property
    def aborted(self) -> list[AbortedTxn]:
        """The aborted transactions that markers in the current segment end, as its .txnindex should list them."""
        return self._producers.aborted

    @property
    def begun_before(self) -> Set[tuple[int, int]]:
        """(producer id, offset) of ABORT markers in the segment whose transaction may begin before what was read."""
        return self._producers.begun_before

    @property
    def idle_aborts(self) -> Set[tuple[int, int]]:
        """(producer id, offset) of ABORT markers in the segment for which no record was read."""
        return self._producers.idle_aborts

    @property
    def is_compacted(self) -> bool:
        """Whether the batches so far show compaction: records are gone that once were there."""
        return self._missing.is_compacted

    @property
    def misses_offsets(self) -> bool:
        """Whether offsets are missing so far, and nothing shows that compaction took them."""
        return self._missing.is_suspect

    def note_cleaned(self) -> None:
        """Note that the log cleaner works on the partition, or did."""
        self._missing.note_rows(0, are_cleaned=True)

    def start_segment(self, base_offset: int | None, path: str | None = None) -> Iterator[Finding]:
        """Start the next segment; ``base_offset`` is that of its name, None if it is not known (a stream)."""
        highest = self._highest
        self._path, self._base_offset = path, base_offset
        self._is_first, self._was_out_of_range = True, False
        self._missing.start_segment(path)
        self._producers.start_segment(base_offset, path)
        if highest is None or base_offset is None:
            return
        if base_offset <= highest:
            message = f"the segment begins at {base_offset}, the one before ends with offset {highest}"
            yield self._at(Finding(Codes.SEGMENT_OVERLAP, message, 0))
        elif base_offset > highest + 1 and not self._is_after_gap:
            self._missing.note_before(highest + 1, base_offset)

    def skip_segment(self) -> None:
        """Skip the next segment: it is gone or not read, so its contents are not known."""
        self._is_after_gap = True
        self._producers.forget()

    def see(self, rows: NDArray[np.void]) -> Iterator[Finding]:
        """Check the next rows of the segment, in file order, of ``table.row_dtype``."""
        if rows.size:
            self._history.add(rows)
            yield from map(self._at, self._see(rows))

    def finish_segment(self, *, ends_in_gap: bool) -> Iterator[Finding]:
        """End the segment; ``ends_in_gap``: damage follows its last row."""
        if ends_in_gap:
            self._is_after_gap = True
            self._producers.see_gap()
        yield from self._missing.finish_segment()
        if self._missing.is_decided:
            yield from self._producers.sequence_gaps(is_compacted=self._missing.is_compacted)
        yield from map(self._at, self._producers.finish_segment())

    def finish(self) -> Iterator[Finding]:
        """End the partition: what is missing, and what is left open."""
        yield from self._missing.finish()
        yield from self._producers.sequence_gaps(is_compacted=self._missing.is_compacted)
        yield from map(self._at, self._producers.finish())

    def _at(self, finding: Finding) -> Finding:
        return finding if self._path is None or finding.path is not None else replace(finding, path=self._path)

    def _see(self, rows: NDArray[np.void]) -> Iterator[Finding]:
        sieved = prefilter(rows, self._base_offset)
        self._missing.note_rows(len(rows), are_cleaned=sieved.are_cleaned)
        if self._lists_gaps:
            self._missing.note_inside(missing_inside(rows))
        self._producers.latest = max(self._producers.latest, sieved.latest)
        for number, by_order, before in sieved.steps:
            row = row_at(rows, number)
            if by_order and number and rows["is_valid"][number - 1]:
                self._step_over(row_at(rows, number - 1))
            if not row.is_valid:
                self._producers.see_gap()
                self._is_after_gap = True
                continue
            if by_order:
                yield from self._see_order(row)
            if before is not None and self._follows_producers:
                if before >= 0:
                    self._producers.step_over(row_at(rows, before))
                yield from self._producers.see(row)
        if rows["is_valid"][-1]:
            self._step_over(row_at(rows, len(rows) - 1))
        for number in sieved.last_of_producers:
            self._producers.step_over(row_at(rows, number))

    def _step_over(self, row: BatchRow) -> None:
        """Take over the newest row of a run of rows without a finding; the first row of the run was checked."""
        if not self._is_out_of_range(row):
            self._previous = row
            self._highest = row.last_offset if self._highest is None else max(self._highest, row.last_offset)

    def _is_out_of_range(self, row: BatchRow) -> bool:
        base = self._base_offset
        return base is not None and not (base <= row.last_offset <= base + MAX_INT32 and first_offset(row) >= base)

    def _see_order(self, row: BatchRow) -> Iterator[Finding]:
        """Compare a valid row with the valid one before it."""
        previous, base = self._previous, self._base_offset
        if row.is_after_gap:
            self._producers.see_gap()
        is_after_gap = row.is_after_gap or self._is_after_gap
        is_first, self._is_first = self._is_first, False
        was_out_of_range, self._was_out_of_range = self._was_out_of_range, self._is_out_of_range(row)
        self._is_after_gap = self._was_out_of_range
        if self._was_out_of_range:
            # A wrong name concerns all batches and is reported once.
            if not was_out_of_range:
                message = f"offsets {_span(row)} do not fit the file name's {base}"
                yield Finding(Codes.OFFSET_RANGE, message, row.position, row.size)
            return
        first = first_offset(row)
        expected = base if previous is None else max(previous.last_offset, self._highest or 0) + 1
        if is_first and base is not None and expected is not None:
            # What is missing before the segment was reported at its start.
            expected = max(expected, base)
        if previous is not None:
            yield from self._compare(previous, row)
        if expected is not None and first > expected and row.base_offset != UNKNOWN_OFFSET and not is_after_gap:
            self._missing.note_gap(row, expected)
        self._step_over(row)

    def _compare(self, previous: BatchRow, row: BatchRow) -> Iterator[Finding]:
        if first_offset(row) <= previous.last_offset:
            yield self._backwards(previous, row)
        if previous.magic >= 2 > row.magic:
            message = f"a message of magic {row.magic} after a batch of magic {previous.magic}"
            yield Finding(Codes.MAGIC_BACKWARDS, message, row.position, row.size)
        elif previous.magic >= 2 and row.leader_epoch < previous.leader_epoch:
            message = f"leader epoch {row.leader_epoch} after {previous.leader_epoch}"
            yield Finding(Codes.LEADER_EPOCH_BACKWARDS, message, row.position, row.size)

    def _backwards(self, previous: BatchRow, row: BatchRow) -> Finding:
        earlier = self._history.find(row)
        if earlier is not None:
            message = f"the batch of offsets {_span(row)} is there twice, with equal bytes: also at {earlier}"
            return Finding(Codes.DUPLICATE_BATCH, message, row.position, row.size)
        code = Codes.OFFSETS_OVERLAP if first_offset(row) >= first_offset(previous) else Codes.OFFSETS_BACKWARDS
        message = f"offsets {_span(row)} follow {_span(previous)}"
        return Finding(code, message, row.position, row.size)


def _span(row: BatchRow) -> str:
    return f"{first_offset(row)}..{row.last_offset}"
