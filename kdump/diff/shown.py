"""The records in which copies differ, side by side, for ``--records``."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from itertools import groupby
from typing import Final, NamedTuple

import numpy as np

from kdump.diff.comparison import Comparison, CopyDifference, DifferenceKind
from kdump.diff.contents import StoredRecord, read_stored

_SHOWN: Final = frozenset(
    {DifferenceKind.RECORD, DifferenceKind.LEADER_EPOCH, DifferenceKind.GAP, DifferenceKind.TAIL, DifferenceKind.DAMAGE}
)


class RecordDifference(NamedTuple):
    """An offset at which copies differ. ``records``: what each copy holds there, None where it holds nothing."""

    offset: int
    kind: DifferenceKind
    records: tuple[StoredRecord | None, ...]


def shown_records(comparison: Comparison, differences: list[CopyDifference]) -> Iterator[RecordDifference]:
    """What the copies hold at the offsets of findings, in order.

    Raises:
        KdumpError: a log cannot be read.
    """
    shown = [one for one in differences if one.kind in _SHOWN and one.first_offset is not None]
    shown.sort(key=lambda one: (one.first_offset or 0, one.last_offset or 0))
    reached = -1
    for difference in shown:
        first = max(difference.first_offset or 0, reached + 1)
        last = difference.first_offset if difference.last_offset is None else difference.last_offset
        assert last is not None
        reached = max(reached, last)
        if first <= last:
            yield from _between(comparison, difference.kind, first, last)


def _between(comparison: Comparison, kind: DifferenceKind, first: int, last: int) -> Iterator[RecordDifference]:
    streams = [_records(comparison, number, first, last) for number in range(len(comparison.copies))]
    merged = heapq.merge(*streams, key=lambda item: item[0].offset)
    for offset, items in groupby(merged, key=lambda item: item[0].offset):
        held: list[StoredRecord | None] = [None] * len(comparison.copies)
        for record, number in items:
            held[number] = record
        if len(set(held)) > 1:
            yield RecordDifference(offset, kind, tuple(held))


def _records(comparison: Comparison, number: int, first: int, last: int) -> Iterator[tuple[StoredRecord, int]]:
    copy = comparison.copies[number]
    table = copy.table
    begin = int(np.searchsorted(table.last_sorted, first))
    end = int(np.searchsorted(table.first_sorted, last, side="right"))
    rows = np.sort(table.order[begin:end])
    rows = rows[table.rows["is_valid"][rows]]
    for record in read_stored(table, rows, copy.opened, comparison.options.limit):
        if first <= record.offset <= last:
            yield record, number
