"""Two copies of a partition, aligned by offset: which batches are the same, which records only one of them has.

Positions and segment boundaries play no part. Batches are the same if they end at the same offset with the same size
and CRC, and the CRC is right in both. Records are read only where that does not hold.

Source: docs/spec/replicas.md#5-what-differs-between-healthy-replicas.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property, partial
from typing import Final, NamedTuple

import numpy as np

from kdump.diff.cleaning import CleanedCopy
from kdump.diff.contents import CopyContents, RecordDigests, same_records
from kdump.diff.copies import LoadedCopy
from kdump.diff.table import Mask, Offsets, aligned, are_same

MISSING: Final = 1
"""The label of records that only one of two copies has."""
_ROWS_AT_ONCE: Final = 1 << 16
"""Rows of two copies that are compared at once: the comparison copies them."""


def _side_by_side(
    ours: Iterator[RecordDigests], theirs: Iterator[RecordDigests]
) -> Iterator[tuple[RecordDigests, RecordDigests]]:
    """Two runs of records with rising offsets in parts that end at the same offset."""
    left, right = next(ours, None), next(theirs, None)
    while left is not None and right is not None:
        end = min(int(left.offset[-1]), int(right.offset[-1]))
        cuts = [int(np.searchsorted(part.offset, end, side="right")) for part in (left, right)]
        yield left.take(slice(0, cuts[0])), right.take(slice(0, cuts[1]))
        left = left.take(slice(cuts[0], None)) if cuts[0] < left.offset.size else next(ours, None)
        right = right.take(slice(cuts[1], None)) if cuts[1] < right.offset.size else next(theirs, None)
    while left is not None:
        yield left, left.take(slice(0, 0))
        left = next(ours, None)
    while right is not None:
        yield right.take(slice(0, 0)), right
        right = next(theirs, None)


class Held(IntEnum):
    """What two copies hold at some offsets. ``Comparison`` gives DAMAGED, ``CopyPair`` the others."""

    SAME_BATCH = 0
    SAME_RECORD = 1
    """In batches that are not the same."""
    OTHER_EPOCH = 2
    """The same record, or another one, under another leader epoch."""
    OTHER_RECORD = 3
    ONLY_FIRST = 4
    ONLY_SECOND = 5
    DAMAGED = 6
    """One of the copies is damaged there."""
    CLEANED_FIRST = 7
    """The log cleaner removed the records from the first copy."""
    CLEANED_SECOND = 8
    UNREPLACED_FIRST = 9
    """As CLEANED_FIRST, and no later record replaces them."""
    UNREPLACED_SECOND = 10


ONLY: Final = (Held.ONLY_FIRST, Held.ONLY_SECOND)
_CLEANED: Final = (Held.CLEANED_SECOND, Held.CLEANED_FIRST)
_UNREPLACED: Final = (Held.UNREPLACED_SECOND, Held.UNREPLACED_FIRST)
"""By the side that has the records which the cleaner took from the other one."""
Cleaned = tuple[CleanedCopy, CleanedCopy]


class Stretch(NamedTuple):
    """Offsets, ``first`` to ``last`` (inclusive), at which two copies hold the same: neighbours that are held."""

    held: int
    first: int
    last: int
    records: int


@dataclass(frozen=True, slots=True)
class Intervals:
    """Held offsets, from ``first`` to ``last`` (inclusive); all arrays have shape (intervals,).

    ``label``: what is held. ``count``: how many records.
    """

    first: Offsets
    last: Offsets
    label: Offsets
    count: Offsets

    @classmethod
    def of(cls, first: Offsets, last: Offsets, label: int | Offsets) -> Intervals:
        """With one label for all, or one for each; each offset has a record."""
        labels = np.full(first.size, label, np.int64) if isinstance(label, int) else label
        return cls(first, last, labels, last - first + 1)

    @classmethod
    def of_records(cls, offset: Offsets, label: int | Offsets) -> Intervals:
        """Of single records in the order of their offsets: neighbours with one label are one interval."""
        labels = np.full(offset.size, label, np.int64) if isinstance(label, int) else label.astype(np.int64)
        apart = (np.diff(offset) > 1) | (np.diff(labels) != 0)
        starts = np.flatnonzero(np.concatenate((np.ones(min(offset.size, 1), np.bool_), apart)))
        ends = np.append(starts[1:], offset.size)[: starts.size]
        return cls(offset[starts], offset[ends - 1], labels[starts], ends - starts)

    @classmethod
    def joined(cls, parts: list[Intervals]) -> Intervals:
        """In the order of their offsets."""
        columns = [
            np.concatenate([np.empty(0, np.int64), *(getattr(part, name) for part in parts)])
            for name in ("first", "last", "label", "count")
        ]
        order = np.argsort(columns[0], kind="stable")
        return cls(*(column[order] for column in columns))

    def where(self, label: int) -> tuple[Offsets, Offsets]:
        """First and last offsets of the intervals with one label."""
        has = self.label == label
        return self.first[has], self.last[has]

    def restricted(self, first: Offsets, last: Offsets, label: int) -> Intervals:
        """Itself, but that a label stays only at offsets within other intervals, which rise; elsewhere it is 0."""
        bounds = np.unique(np.concatenate((first, last + 1)))
        has = np.flatnonzero(self.label == label)
        # Intervals of batches are cut where an other interval begins or ends within them.
        begin = np.searchsorted(bounds, self.first[has], side="right")
        cuts = np.searchsorted(bounds, self.last[has], side="right") - begin
        owner = np.repeat(has, cuts + 1)
        number = np.arange(owner.size) - np.repeat(np.cumsum(cuts + 1) - cuts - 1, cuts + 1)
        at = np.repeat(begin, cuts + 1) + number
        starts = np.where(number == 0, self.first[owner], bounds[np.maximum(at - 1, 0)] if bounds.size else 0)
        is_last = number == np.repeat(cuts, cuts + 1)
        ends = np.where(is_last, self.last[owner], (bounds[np.minimum(at, bounds.size - 1)] - 1) if bounds.size else 0)
        place = np.searchsorted(first, starts, side="right") - 1
        inside = (
            (place >= 0) & (last[np.maximum(place, 0)] >= starts) if first.size else np.zeros(starts.size, np.bool_)
        )
        others = self.label != label
        rest = Intervals(self.first[others], self.last[others], self.label[others], self.count[others])
        return Intervals.joined([rest, Intervals.of(starts, ends, np.where(inside, label, 0))])

    def stretches(self) -> Iterator[Stretch]:
        """Neighbours with one label, joined where nothing that is held lies between."""
        if not self.first.size:
            return
        starts = np.flatnonzero(np.diff(self.label, prepend=self.label[0] - 1))
        last, count = np.maximum.reduceat(self.last, starts), np.add.reduceat(self.count, starts)
        columns = (self.label[starts], self.first[starts], last, count)
        yield from map(Stretch._make, zip(*(column.tolist() for column in columns), strict=True))


class CopyPair:
    """Two copies."""

    def __init__(self, first: CopyContents, second: CopyContents) -> None:
        self.first = first
        self.second = second

    @cached_property
    def matches(self) -> tuple[Offsets, Offsets]:
        """Numbers of the rows that are the same batch in both, leader epochs aside; both rise."""
        ours, theirs = self.first.copy.table, self.second.copy.table
        mine, their = aligned(ours.last, theirs.last)
        same = np.empty(mine.size, np.bool_)
        for start in range(0, mine.size, _ROWS_AT_ONCE):
            part = slice(start, start + _ROWS_AT_ONCE)
            left, right = ours.rows[mine[part]], theirs.rows[their[part]]
            same[part] = left["is_valid"] & right["is_valid"] & are_same(left, right)
        return mine[same], their[same]

    @cached_property
    def has_match(self) -> tuple[Mask, Mask]:
        """Of the rows of both, which are in ``matches``."""
        found = []
        for side, contents in zip(self.matches, (self.first, self.second), strict=True):
            mask = np.zeros(contents.copy.table.rows.size, np.bool_)
            mask[side] = True
            found.append(mask)
        return found[0], found[1]

    def are_equal(self, lower: int, upper: int) -> bool:
        """Between two offsets (the upper one exclusive) both have the same batches, with the same leader epochs."""
        inside = self._inside(lower, upper)
        if any((rows & ~matched).any() for rows, matched in zip(inside, self.has_match, strict=True)):
            return False
        return not self._other_epoch(inside[0]).any()

    def held(self, lower: int, upper: int, cleaned: Cleaned | None = None) -> Intervals:
        """What both hold between two offsets (the upper one exclusive); ``label`` is of ``Held``.

        Args:
            lower: the first offset.
            upper: the one after the last.
            cleaned: both copies as far as the log cleaner may have been at them; None: it has been at neither, so that
                records that only one has are not read where the headers tell enough.

        Raises:
            KdumpError: a log cannot be read.
        """
        inside = self._inside(lower, upper)
        other_epoch = self._other_epoch(inside[0])
        mine = self.matches[0][inside[0][self.matches[0]]]
        table = self.first.copy.table
        label = np.where(other_epoch[mine], Held.OTHER_EPOCH, Held.SAME_BATCH).astype(np.int64)
        parts = [Intervals.of(table.first[mine], table.last[mine], label)]
        read = []
        for number, (rows, matched) in enumerate(zip(inside, self.has_match, strict=True)):
            mine_, theirs = (self.first, self.second) if number == 0 else (self.second, self.first)
            open_rows = rows & ~matched
            lone = open_rows & mine_.copy.table.is_full & ~_overlaps(mine_.copy, theirs.copy) & (cleaned is None)
            at = np.flatnonzero(lone)
            parts.append(Intervals.of(mine_.copy.table.first[at], mine_.copy.table.last[at], ONLY[number]))
            read.append(open_rows & ~lone)
        if read[0].any() or read[1].any():
            parts += self._by_record(read[0], read[1], lower, upper, cleaned)
        return Intervals.joined(parts)

    def missing(self, offset: int | None) -> Intervals:
        """The offsets of the first copy from ``offset`` on (None: all), by records that the second has or has not.

        ``label``: MISSING where the second has not the same record, else 0.

        Raises:
            KdumpError: a log cannot be read.
        """
        table = self.first.copy.table
        wanted = np.ones(table.rows.size, np.bool_) if offset is None else table.last >= offset
        least = -(2**63) if offset is None else offset
        matched = self.has_match[0]
        kept = np.flatnonzero(wanted & matched)
        lone = (
            wanted & ~matched & table.is_full & (table.first >= least) & ~_overlaps(self.first.copy, self.second.copy)
        )
        gone = np.flatnonzero(lone)
        parts = [
            Intervals.of(table.first[kept], table.last[kept], 0),
            Intervals.of(table.first[gone], table.last[gone], MISSING),
        ]
        rows = wanted & ~matched & ~lone
        if rows.any():

            def add(ours: RecordDigests, label: int | Offsets) -> None:
                after = ours.offset >= least
                parts.append(
                    Intervals.of_records(ours.offset[after], label if isinstance(label, int) else label[after])
                )

            our_records = self.first.rising(rows, lambda late: add(late, MISSING))
            their_records = self.second.rising(self._beside(rows), lambda late: None)
            for ours, theirs in _side_by_side(our_records, their_records):
                _, mine, their = np.intersect1d(ours.offset, theirs.offset, assume_unique=True, return_indices=True)
                label = np.full(ours.offset.size, MISSING, np.int64)
                label[mine[same_records(ours.take(mine), theirs.take(their), self.first.options)]] = 0
                add(ours, label)
        return Intervals.joined(parts)

    def _beside(self, rows: Mask) -> Mask:
        """The rows of the second copy that share an offset with some rows of the first."""
        table, other = self.first.copy.table, self.second.copy.table
        bounds = np.zeros(other.rows.size + 1, np.int64)
        low = np.searchsorted(other.last_sorted, table.first[rows])
        high = np.searchsorted(other.first_sorted, table.last[rows], side="right")
        np.add.at(bounds, low, 1)
        np.add.at(bounds, np.maximum(high, low), -1)
        found = np.zeros(other.rows.size, np.bool_)
        found[other.order] = np.cumsum(bounds)[:-1] > 0
        return found

    def _by_record(
        self, ours: Mask, theirs: Mask, lower: int, upper: int, cleaned: Cleaned | None
    ) -> Iterator[Intervals]:
        """What both hold in batches that are not the same."""
        alone: list[Intervals] = []

        def add(side: int, records: RecordDigests) -> None:
            """Records that only one side has."""
            records = records.take((records.offset >= lower) & (records.offset < upper))
            label = np.full(records.offset.size, int(ONLY[side]), np.int64)
            if cleaned is not None and cleaned[1 - side].may_be_cleaned and label.size:
                copies = self.first.copy, self.second.copy
                explained, unreplaced = cleaned[1 - side].explains(records, copies[side])
                label[explained] = np.where(unreplaced, _UNREPLACED[side], _CLEANED[side])[explained]
            alone.append(Intervals.of_records(records.offset, label))

        streams = (self.first.rising(ours, partial(add, 0)), self.second.rising(theirs, partial(add, 1)))
        for left, right in _side_by_side(*streams):
            offset, mine, their = np.intersect1d(left.offset, right.offset, True, return_indices=True)
            within = (offset >= lower) & (offset < upper)
            offset, mine, their = offset[within], mine[within], their[within]
            yield Intervals.of_records(offset, self._labels(left.take(mine), right.take(their)))
            for side, records, at in ((0, left, mine), (1, right, their)):
                is_alone = np.ones(records.offset.size, np.bool_)
                is_alone[at] = False
                add(side, records.take(is_alone))
        yield from alone

    def _labels(self, left: RecordDigests, right: RecordDigests) -> Offsets:
        """What records of the same offsets are, row by row: of ``Held``."""
        label = np.where(same_records(left, right, self.first.options), Held.SAME_RECORD, Held.OTHER_RECORD)
        if not self.first.options.only_content:
            epochs = [
                contents.copy.table.rows["leader_epoch"][records.row]
                for contents, records in ((self.first, left), (self.second, right))
            ]
            label[left.is_readable & right.is_readable & (epochs[0] != epochs[1])] = Held.OTHER_EPOCH
        return label.astype(np.int64)

    def _inside(self, lower: int, upper: int) -> tuple[Mask, Mask]:
        """Which rows of both have an offset between two. Markers are no content."""
        found = []
        for contents in (self.first, self.second):
            table = contents.copy.table
            rows = (table.last >= lower) & (table.first < upper)
            found.append(rows & ~table.is_control if contents.options.only_content else rows)
        return found[0], found[1]

    def _other_epoch(self, inside: Mask) -> Mask:
        """Of the rows of the first copy, which the second has under another leader epoch."""
        mine, their = self.matches
        found = np.zeros(inside.size, np.bool_)
        if self.first.options.only_content:
            return found
        epochs = self.first.copy.table.rows["leader_epoch"][mine], self.second.copy.table.rows["leader_epoch"][their]
        found[mine[epochs[0] != epochs[1]]] = True
        found &= inside
        return found


def _overlaps(copy: LoadedCopy, other: LoadedCopy) -> Mask:
    """Which rows of a copy share an offset with some row of the other."""
    low = np.searchsorted(other.table.last_sorted, copy.table.first)
    high = np.searchsorted(other.table.first_sorted, copy.table.last, side="right")
    found: Mask = high > low
    return found
