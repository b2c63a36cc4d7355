"""Whether the log cleaner explains that a copy has not the records that another one has.

Each broker cleans when it likes. A record may be gone that a later one of its key replaced in that copy, an old
tombstone, a marker, a record of an aborted transaction. Offsets that are missing within a segment whose bytes lie side
by side are the cleaner's work, whatever they held: a truncation after it, or a tombstone that expired, leaves no trace.
Offsets that are missing at the end of a segment may be a lost segment.

Source: docs/spec/replicas.md#5-what-differs-between-healthy-replicas.
"""

from __future__ import annotations

from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kdump.diff.contents import CopyContents, RecordDigests
from kdump.diff.copies import LoadedCopy
from kdump.format.batch import MAGIC, TRANSACTIONAL
from kdump.format.control import ABORT

Mask = NDArray[np.bool_]
_Keys = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]
"""Hashes of keys with the newest and the oldest offset of each; all of one shape."""
_KEYS_TOGETHER: Final = 1 << 20
"""Records whose keys are looked at together, at least."""


def cleaned_last(copy: LoadedCopy) -> bool:
    """The log cleaner has been in the last segment of a copy that holds entries.

    Then a truncation may leave no record up to the log end offset.
    """
    rows = copy.table.rows
    if not rows.size:
        return False
    in_last = rows["segment"] == rows["segment"][-1]
    base = copy.table.segments[int(rows["segment"][-1])].base_offset
    return bool(rows["is_cleaned"][in_last].any()) or int(copy.table.first[in_last][0]) > base


def is_compacted(copy: LoadedCopy) -> bool:
    """The copy says itself that its topic is compacted: in the log cleaner's checkpoint, or in a batch."""
    return copy.place.cleaned_to is not None or bool(copy.table.rows["is_cleaned"].any())


class CleanedCopy:
    """A copy as far as the log cleaner may have been at it.

    Args:
        contents: of the copy.
        is_topic_compacted: this copy or another one says that the topic is compacted.
    """

    def __init__(self, contents: CopyContents, *, is_topic_compacted: bool) -> None:
        self._contents = contents
        self._is_topic_compacted = is_topic_compacted

    @property
    def may_be_cleaned(self) -> bool:
        """The log cleaner may have removed offsets: its checkpoint has a line for each log that it cleaned."""
        has_no_line = self._contents.copy.place.has_cleaner_checkpoint
        return self._is_topic_compacted or (bool(self._gap_first.size) and not has_no_line)

    def explains(self, missing: RecordDigests, other: LoadedCopy) -> tuple[Mask, Mask]:
        """Which records of another copy the cleaner took from this one, and which of these nothing here replaces.

        Nothing replaces them where the log was truncated after it was cleaned, or where a tombstone came and went.

        Args:
            missing: records of ``other`` that this copy has not.
            other: the copy that has them.

        Returns:
            Two arrays of shape (records,).

        Raises:
            KdumpError: a log cannot be read.
        """
        none = np.zeros(missing.offset.size, np.bool_)
        within = self._is_within_segment(missing.offset)
        possible = within & self.may_be_cleaned | self._is_topic_compacted
        if not possible.any():
            return none, none
        newest, oldest = self._offsets_of(missing.key[:, 0])
        replaced = missing.has_key & (newest > missing.offset)
        replaced |= missing.has_key & ~missing.has_value & (oldest > missing.offset)
        replaced |= other.table.is_control[missing.row]
        if not self._is_topic_compacted:
            return replaced & possible, none
        replaced |= _is_aborted(other)[missing.row]
        unreplaced = ~replaced & (within | self._is_missing_after(other.log_end))
        return replaced | unreplaced, unreplaced

    def _is_missing_after(self, offset: int) -> bool:
        """Offsets from this one on are missing within a segment: among them may have been a tombstone."""
        return bool((self._gap_last >= offset).any())

    def _is_within_segment(self, offset: NDArray[np.int64]) -> Mask:
        """Which offsets are missing where the bytes of a segment lie side by side."""
        number = np.searchsorted(self._gap_first, offset, side="right") - 1
        found: Mask = np.zeros(offset.size, np.bool_)
        at = number >= 0
        found[at] = offset[at] <= self._gap_last[number[at]]
        table = self._contents.copy.table
        holding = np.minimum(np.searchsorted(table.last_sorted, offset), max(table.last.size - 1, 0))
        if table.last.size:
            found |= (table.first_sorted[holding] <= offset) & (offset <= table.last_sorted[holding])
        return found

    @cached_property
    def _gaps(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        table = self._contents.copy.table
        rows = table.rows
        if not rows.size:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        bases = np.array([segment.base_offset for segment in table.segments], np.int64)
        is_first = np.diff(rows["segment"], prepend=-1) != 0
        ends = np.concatenate(([0], rows["position"][:-1] + rows["size"][:-1]))
        before = np.concatenate(([0], table.last[:-1] + 1))
        begin = np.where(is_first, bases[rows["segment"]], before)
        is_beside = np.where(is_first, rows["position"] == 0, rows["position"] == ends)
        at = np.flatnonzero(is_beside & rows["is_valid"] & (table.first > begin))
        order = np.argsort(begin[at], kind="stable")
        return begin[at][order], table.first[at][order] - 1

    @property
    def _gap_first(self) -> NDArray[np.int64]:
        return self._gaps[0]

    @property
    def _gap_last(self) -> NDArray[np.int64]:
        return self._gaps[1]

    def _offsets_of(self, keys: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The newest and the oldest offset at which this copy has a record of each key; where none: -1, and 2^63-1."""
        known, newest, oldest = self._keys
        newest_of, oldest_of = np.full(keys.size, -1, np.int64), np.full(keys.size, 2**63 - 1, np.int64)
        if known.size:
            at = np.minimum(np.searchsorted(known, keys), known.size - 1)
            is_there = known[at] == keys
            newest_of[is_there], oldest_of[is_there] = newest[at[is_there]], oldest[at[is_there]]
        return newest_of, oldest_of

    @cached_property
    def _keys(self) -> _Keys:
        """The keys of the copy as hashes, rising, with the newest and the oldest offset of each."""
        everything = np.ones(self._contents.copy.table.rows.size, np.bool_)
        none = np.empty(0, np.int64)
        known, parts, count = (none, none, none), [], 0
        for records in self._contents.records(everything):
            key, offset = records.key[records.has_key, 0], records.offset[records.has_key]
            parts.append((key, offset, offset))
            count += key.size
            if count >= max(_KEYS_TOGETHER, known[0].size):
                known, parts, count = _newest_and_oldest([known, *parts]), [], 0
        return _newest_and_oldest([known, *parts])


def _newest_and_oldest(parts: list[_Keys]) -> _Keys:
    """The newest and the oldest offset of each key of the parts, which has some in each of them."""
    key, newest, oldest = (np.concatenate(column) for column in zip(*parts, strict=True))
    if not key.size:
        return key, newest, oldest
    order = np.argsort(key, kind="stable")
    key = key[order]
    starts = np.flatnonzero(np.concatenate(([True], key[1:] != key[:-1])))
    return key[starts], np.maximum.reduceat(newest[order], starts), np.minimum.reduceat(oldest[order], starts)


def _is_aborted(copy: LoadedCopy) -> Mask:
    """Which batches of a copy belong to a transaction whose next marker is ABORT, shape (rows,)."""
    rows = copy.table.rows
    is_marker = copy.table.is_control & (rows["producer_id"] >= 0)
    is_data = (rows["magic"] >= MAGIC) & (rows["attributes"] & TRANSACTIONAL != 0) & ~is_marker
    found = np.zeros(rows.size, np.bool_)
    if not is_marker.any() or not is_data.any():
        return found
    order = np.lexsort((copy.table.last, rows["producer_id"]))
    # The number of the next marker in this order; after the last one there is none.
    numbers = np.where(is_marker[order], np.arange(order.size), order.size)
    following = np.minimum.accumulate(numbers[::-1])[::-1]
    at = np.flatnonzero(is_data[order] & (following < order.size))
    marker = order[following[at]]
    own = order[at]
    is_same = rows["producer_id"][marker] == rows["producer_id"][own]
    found[own] = is_same & (rows["marker_type"][marker] == ABORT)
    return found
