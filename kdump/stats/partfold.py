"""One log of a fold: its rows and records by group.

Every row has a group key (``stats.grouping``). A key of contents is that of a record, or the value of a header.
"""

from __future__ import annotations

import base64
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from kdump.fast.hashing import hash_ranges
from kdump.stats.fold import Count, RecordFigures, StatsFold, timestamp_types
from kdump.stats.grouping import ABSENT, CONTROL_RECORDS, NULL, OF_BATCHES, Assigned, By, Groups, Key
from kdump.stats.keys import KeySketches
from kdump.stats.order import LogPlace, missing_offsets, steps_back
from kdump.verify.table import NO_PRODUCER

if TYPE_CHECKING:
    from kdump.fast.recordtable import RecordTable
    from kdump.stats.records import EntryRecords

_LONGEST: Final = 128
"""Bytes of a key that are shown; a longer one is its beginning and a hash."""


@dataclass(frozen=True, slots=True)
class LogPart:
    """Where rows come from: a log. ``topic`` and ``partition`` as in ``dump``.

    ``has_positions``: its offsets are byte positions, and it has no timestamps.
    """

    file: str
    topic: str | None
    partition: int | None
    place: LogPlace
    has_positions: bool = False

    def key(self, by: By) -> Key:
        """The group of all its rows, if files decide."""
        # A stream is in no directory.
        is_alone = self.place.directory == self.place.file
        folder = (not is_alone and os.path.basename(self.place.directory)) or self.file
        match by:
            case By.SEGMENT:
                return self.file
            case By.PARTITION:
                return folder if self.topic is None else f"{self.topic}-{self.partition}"
            case By.TOPIC:
                return self.topic or folder
        raise ValueError(by)


class PartFold:
    """Adds the rows of one log to a fold."""

    def __init__(self, fold: StatsFold, part: LogPart) -> None:
        self.fold = fold
        self._part = part
        self._run = fold.run(part.place)
        self._keys = KeySketches()
        """Of this log: what a sketch leaves out depends on what comes together."""
        self._own: Assigned | None = None
        if fold.by.is_of_files:
            self._own = fold.groups.one(part.key(fold.by))
            self._note_file(self._own)

    @property
    def path(self) -> str:
        """Of the log."""
        return self._part.place.file

    def see_indexes(self, size: int, index_entries: int | None, time_index_entries: int | None) -> None:
        """Note the index entries beside the log of ``size`` bytes; None: there is no index file."""
        if self._own is None:
            return
        index_bytes = 0 if index_entries is None else size
        figures = np.array([[index_entries or 0], [index_bytes], [time_index_entries or 0]])
        self._count(self.fold.count_indexes, self._own, *figures)

    def see_end(self, *, in_gap: bool) -> None:
        """All rows of the part were added; ``in_gap``: damage follows the last one."""
        self._run.ends_in_gap = in_gap

    def finish(self) -> None:
        """No more rows of the log come."""
        self.fold.keys.merge(self._keys, range(self.fold.groups.count))
        self._keys = KeySketches()

    def see_batches(self, rows: NDArray[np.void]) -> None:
        """Add the next rows of the batch table (``verify.table``)."""
        fold = self.fold
        if not rows.size:
            return
        assigned = self._own or fold.groups.assign(fold.by.keys_of_batches(rows))
        self._note_file(assigned)
        if self._part.has_positions:
            fold.count_batches(assigned, rows, is_untimed=True)
        else:
            self._count(fold.count_batches, assigned, rows)
        if not rows["is_valid"].all():
            rows, assigned = rows[rows["is_valid"]], assigned.rows(rows["is_valid"])
        if rows.size and not self._part.has_positions:
            self._see_valid(rows, assigned)

    def _see_valid(self, rows: NDArray[np.void], assigned: Assigned) -> None:
        fold = self.fold
        if fold.offset_times is not None:
            fold.offset_times.add(self._part.place.directory, rows["last_offset"], rows["max_timestamp"])
        missing, earlier = missing_offsets(self._run, rows, assigned)
        if missing.any():
            fold.sums.add(assigned.ids, missing_offsets=assigned.sums(missing))
        if earlier is not None:
            fold.sums.add(np.array([earlier.group]), missing_offsets=np.array([earlier.missing_offsets]))
        if (rows["producer_id"] != NO_PRODUCER).any():
            fold.producers.add(rows, assigned)
            fold.add_outcomes(fold.transactions(self._part.place).see(rows, assigned))

    def see_records(self, entries: EntryRecords) -> None:
        """Add the next entries with their records."""
        fold, groups, table = self.fold, entries.groups, entries.groups.table
        of_entries = self._of_entries(entries)
        self._count(fold.count_stored, of_entries, groups.codec, entries.stored, entries.uncompressed)
        if not table.rows:
            return
        entry = np.repeat(np.arange(groups.count), groups.rows)
        assigned = self._of_records(entries, entry)
        if assigned is None:
            assigned = of_entries.rows(entry)
            run, of_runs, count = np.arange(groups.count), of_entries, groups.rows
        else:
            is_first = np.diff(entry, prepend=-1) != 0
            if assigned.index is not None:
                is_first[1:] |= np.diff(assigned.index) != 0
            first = np.flatnonzero(is_first)
            run, of_runs, count = entry[first], assigned.rows(first), np.diff(first, append=table.rows)
        types = timestamp_types(groups.magic, groups.is_log_append_time, is_untimed=self._part.has_positions)
        self._count(fold.count_entries, of_runs, groups.codec[run], groups.magic[run], types[run], count)
        self._note_file(assigned)
        key_size, value_size = table.key_size.astype(np.int64), table.value_size.astype(np.int64)
        size = np.maximum(key_size, 0) + np.maximum(value_size, 0)
        header_bytes = _header_bytes(table.header_count, table.headers.key_size, table.headers.value_size)
        if header_bytes is not None:
            size += header_bytes
        is_control = entries.is_control[entry]
        figures = RecordFigures(
            offset=table.offset,
            timestamp=table.timestamp,
            step_back=steps_back(self._run, table.timestamp, assigned),
            key_size=key_size,
            value_size=value_size,
            size=size,
            header_count=table.header_count,
            is_control=is_control,
        )
        self._count(fold.count_records, assigned, *figures)
        self._keys.add(assigned, table.arena, table.key_start, np.where(is_control, -1, key_size), size)

    def _count(self, count: Count, assigned: Assigned, *columns: NDArray[Any]) -> None:
        """Add rows to the fold, together with those of other logs if a log is of one group."""
        if self._own is None:
            count(assigned, *columns)
        else:
            self.fold.count_later(count, assigned, *columns)

    def _of_entries(self, entries: EntryRecords) -> Assigned:
        """The groups of entries, as ``By.keys_of_batches`` assigns them."""
        fold, groups = self.fold, entries.groups
        if self._own is not None:
            return self._own
        match fold.by:
            case By.PRODUCER:
                keys = entries.producer_id
            case By.CODEC:
                keys = groups.codec
            case By.MAGIC:
                keys = groups.magic
            case By.LEADER_EPOCH:
                keys = entries.leader_epoch
            case By.KEY | By.HEADER:
                keys = np.full(groups.count, OF_BATCHES)
            case _:
                keys = fold.by.spans(groups.timestamp)
        return fold.groups.assign(keys)

    def _of_records(self, entries: EntryRecords, entry: NDArray[np.intp]) -> Assigned | None:
        """The groups of records that need not be those of their entries; None: they are. ``entry``: of each record."""
        fold, table = self.fold, entries.groups.table
        if fold.by.span is not None:
            return fold.groups.assign(fold.by.spans(table.timestamp))
        if not fold.by.is_of_contents:
            return None
        is_control = entries.is_control[entry]
        if fold.by is By.KEY:
            return _assign_keys(fold.groups, table, is_control)
        return _assign_headers(fold.groups, table, fold.header, is_control)

    def _note_file(self, assigned: Assigned) -> None:
        self.fold.note_file(assigned, self._part.file)


def _header_bytes(
    count: NDArray[np.int32], key_size: NDArray[np.int32], value_size: NDArray[np.int32]
) -> NDArray[np.int64] | None:
    """Bytes of each record's header keys and values; shape (rows,). None: no record has headers."""
    if not key_size.size:
        return None
    sizes = np.append(0, np.cumsum(np.maximum(key_size, 0).astype(np.int64) + np.maximum(value_size, 0)))
    ends = np.cumsum(count, dtype=np.int64)
    found: NDArray[np.int64] = sizes[ends] - sizes[ends - count]
    return found


def _assign_keys(groups: Groups, table: RecordTable, is_control: NDArray[np.bool_]) -> Assigned:
    """The groups of records by their keys.

    Args:
        groups: of the fold.
        table: the records, one or more.
        is_control: which are control records; shape (rows,).
    """
    special = np.where(table.key_size < 0, NULL, 0)
    special[is_control] = CONTROL_RECORDS
    return _assigned(groups, table, table.key_start, table.key_size, special)


def _assign_headers(groups: Groups, table: RecordTable, name: bytes, is_control: NDArray[np.bool_]) -> Assigned:
    """As ``_assign_keys``, by the value of the last header of this name, as Kafka's ``lastHeader`` gives it."""
    headers = table.headers
    row = np.repeat(np.arange(table.rows), table.header_count)
    named = np.flatnonzero(headers.key_size == len(name))
    at = headers.key_start[named][:, np.newaxis] + np.arange(len(name))
    named = named[(table.arena[at] == np.frombuffer(name, np.uint8)).all(axis=1)]
    # Of several headers of a record the last one is written last.
    start, size = np.zeros(table.rows, np.int64), np.full(table.rows, -1, np.int32)
    start[row[named]], size[row[named]] = headers.value_start[named], headers.value_size[named]
    special = np.full(table.rows, ABSENT)
    special[row[named]] = np.where(size[row[named]] < 0, NULL, 0)
    special[is_control] = CONTROL_RECORDS
    return _assigned(groups, table, start, size, special)


def _assigned(
    groups: Groups, table: RecordTable, start: NDArray[np.int64], size: NDArray[np.int32], special: NDArray[np.int64]
) -> Assigned:
    """The groups of rows. Where not all names can have a group, the heavy ones of a chunk come first.

    ``special``: the keys of the rows without a name, 0 for the others; shapes (rows,).
    """
    group = np.empty(table.rows, np.int64)
    for key in np.unique(special).tolist():
        if key:
            group[special == key] = groups.id_of(key)
    rows = np.flatnonzero(special == 0)
    if rows.size:
        hashes = hash_ranges(table.arena, start[rows], size[rows])
        _, first, index = np.unique(hashes, return_index=True, return_inverse=True)
        index = index.reshape(-1)
        ids = np.empty(first.size, np.int64)
        weight = np.maximum(table.key_size[rows], 0) + np.maximum(table.value_size[rows], 0)
        heaviest_first = np.argsort(-np.bincount(index, weight), kind="stable")
        for number in heaviest_first.tolist():
            row = rows[first[number]]
            begin, length = int(start[row]), int(size[row])
            data = table.arena[begin : begin + min(length, _LONGEST)].tobytes()
            ids[number] = groups.id_of(_name(data, length, int(hashes[first[number]])))
        group[rows] = ids[index]
    found, index = np.unique(group, return_inverse=True)
    return Assigned(found, index.reshape(-1))


def _name(data: bytes, length: int, hashed: int) -> str:
    """The name of a group: text, or base64 where the bytes are none."""
    is_cut = length > len(data)
    end = f"\N{HORIZONTAL ELLIPSIS}#{hashed & 0xFFFF_FFFF_FFFF_FFFF:x}" if is_cut else ""
    for cut in range(4 if is_cut else 1):
        try:
            return data[: len(data) - cut].decode() + end
        except UnicodeDecodeError:
            continue
    return f"base64:{base64.b64encode(data).decode()}{end}"
