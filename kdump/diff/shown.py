"""The records in which copies differ, side by side, for ``--records``."""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Iterator
from itertools import groupby
from typing import Final, NamedTuple

import numpy as np

from kdump.diff.comparison import Comparison, CopyDifference, DifferenceKind
from kdump.diff.contents import StoredRecord, read_stored
from kdump.diff.places import PartitionName

_SHOWN: Final = frozenset(
    {DifferenceKind.RECORD, DifferenceKind.LEADER_EPOCH, DifferenceKind.GAP, DifferenceKind.TAIL, DifferenceKind.DAMAGE}
)


class RecordDifference(NamedTuple):
    """An offset at which the copies of a partition differ.

    ``copies``: their PATHs. ``records``: what each copy holds there, None where it holds nothing.
    """

    name: PartitionName | None
    copies: tuple[str, ...]
    offset: int
    kind: DifferenceKind
    records: tuple[StoredRecord | None, ...]


class _Ranges:
    """The offsets of findings, in order; where they overlap the first one counts."""

    def __init__(self, differences: list[CopyDifference]) -> None:
        shown = [
            (one.first_offset, one.first_offset if one.last_offset is None else one.last_offset, one.kind)
            for one in differences
            if one.kind in _SHOWN and one.first_offset is not None
        ]
        shown.sort(key=lambda one: one[:2])
        self.first: list[int] = []
        self.last: list[int] = []
        self._kinds: list[DifferenceKind] = []
        reached = -1
        for begin, last, kind in shown:
            first = max(begin, reached + 1)
            if first <= last:
                self.first.append(first)
                self.last.append(last)
                self._kinds.append(kind)
            reached = max(reached, last)

    def kind(self, offset: int) -> DifferenceKind | None:
        """What an offset is in; None: in nothing."""
        number = bisect_right(self.first, offset) - 1
        return self._kinds[number] if number >= 0 and offset <= self.last[number] else None


def shown_records(
    comparison: Comparison, differences: list[CopyDifference], name: PartitionName | None, paths: tuple[str, ...]
) -> Iterator[RecordDifference]:
    """What the copies hold at the offsets of findings, in order. Each batch is read once.

    Args:
        comparison: the copies.
        differences: between them.
        name: of the partition.
        paths: of the copies.

    Raises:
        KdumpError: a log cannot be read.
    """
    ranges = _Ranges(differences)
    streams = [_records(comparison, number, ranges) for number in range(len(comparison.copies))]
    merged = heapq.merge(*streams, key=lambda item: item[0].offset)
    for offset, items in groupby(merged, key=lambda item: item[0].offset):
        kind = ranges.kind(offset)
        if kind is None:
            continue
        held: list[StoredRecord | None] = [None] * len(comparison.copies)
        for record, number in items:
            held[number] = record
        if len(set(held)) > 1:
            yield RecordDifference(name, paths, offset, kind, tuple(held))


def _records(comparison: Comparison, number: int, ranges: _Ranges) -> Iterator[tuple[StoredRecord, int]]:
    """The records of one copy in the batches that hold an offset of a range."""
    copy = comparison.copies[number]
    table = copy.table
    first, last = np.array(ranges.first, np.int64), np.array(ranges.last, np.int64)
    at = np.searchsorted(last, table.first)
    is_there = at < last.size
    is_there[is_there] = first[at[is_there]] <= table.last[is_there]
    rows = np.flatnonzero(is_there & table.rows["is_valid"])
    for record in read_stored(table, rows, comparison.options.limit):
        yield record, number
