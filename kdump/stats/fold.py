"""The figures of logs as one fold: rows of batches and records go in, folds of logs are merged, figures come out."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from kdump.limits import GROUPS, most
from kdump.reading.outcomes import OPEN, OUTCOMES
from kdump.stats.batchcounts import count_batches, timestamp_types
from kdump.stats.grouping import MOST_CONTENTS, OF_BATCHES, OTHER_NUMBERS, Assigned, By, GroupFiles, Groups, Key
from kdump.stats.keys import KEY_CLASSES, KeySketches
from kdump.stats.offsettimes import CURVE_CLASSES, OffsetTimes
from kdump.stats.order import LogEnds, LogPlace, Runs, missing_offsets, steps_back
from kdump.stats.producers import Producers
from kdump.stats.sizes import Sizes
from kdump.stats.tally import LEAST, MOST, Columns, GroupNumbers, Tally, group_counts
from kdump.stats.timeline import Timeline
from kdump.stats.transactions import GroupOutcomes, OutcomeAfter, TransactionRun, TransactionRuns
from kdump.verify.table import NO_PRODUCER, joined

if TYPE_CHECKING:
    from kdump.fast.recordtable import RecordGroups
    from kdump.stats.records import EntryRecords

INDEX_SUMS: Final = ("index_entries", "index_bytes", "time_index_entries")
SUMS: Final = (
    "bytes", "batches", "control_batches", "records", "control_records", "null_keys", "tombstones",
    "key_bytes", "value_bytes", "headers", "header_bytes", "records_with_headers",
    "damaged_batches", "damaged_bytes", "missing_offsets", "timestamps_back",
    *(f"{outcome}_{what}" for outcome in OUTCOMES for what in ("transactions", "bytes", "records")),
    *INDEX_SUMS,
)  # fmt: skip
LEASTS: Final = ("offset", "timestamp")
MOSTS: Final = ("offset", "timestamp", "step_back")
SIZES: Final = ("batch", "record", "key", "value")
_FIGURES: Final = (
    "sums", "least", "most", "codecs", "magics", "timestamp_types", "timeline", "producers",
)  # fmt: skip
"""The attributes of a fold with exact figures by group; ``sizes`` has more of them."""
_TOGETHER: Final = 4096
"""Batches of several small logs that are counted together."""
_CODEC_BITS: Final = 3
_MAGIC_BITS: Final = 8
_TYPE_BITS: Final = 2


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


class StatsFold:
    """Figures by group.

    Args:
        by: what makes a group.
        header: by the values of this header, see ``By.HEADER``.
        with_records: records are added too; else figures of records come from the batch headers.
        with_curves: follow timestamps along the offsets.
    """

    def __init__(self, by: By, *, with_records: bool, with_curves: bool = False, header: str = "") -> None:
        self.by = by
        self.header = header.encode("utf-8", "surrogateescape")
        self.with_records = with_records
        if by.is_of_files:
            self.groups = Groups()
        elif by.is_of_contents:
            self.groups = Groups(MOST_CONTENTS)
        else:
            self.groups = Groups(most(GROUPS), OTHER_NUMBERS)
        self.paths: dict[str, int] = {}
        """The numbers of the files that were read."""
        self.files = GroupFiles()
        self.sums = Columns(SUMS, 0, np.add)
        self.least = Columns(LEASTS, MOST, np.minimum)
        self.most = Columns(MOSTS, LEAST, np.maximum)
        self.sizes = {name: Sizes() for name in SIZES}
        self.codecs = Tally(_CODEC_BITS, 5)
        """Batches, records, bytes, stored and uncompressed bytes of records, by codec."""
        self.magics = Tally(_MAGIC_BITS, 3)
        """Batches, records, bytes, by magic."""
        self.timestamp_types = Tally(_TYPE_BITS)
        """Records by timestamp type."""
        self.timeline = Timeline()
        self.producers = Producers()
        self.keys = KeySketches()
        self.offset_times = OffsetTimes() if with_curves else None
        self._runs = Runs()
        self._transactions = TransactionRuns()
        # Batches that were not counted yet, each part of one group.
        self._waiting: list[tuple[NDArray[np.void], Assigned]] = []
        self._waiting_rows = 0
        self._waiting_indexes: dict[int, list[int]] = {}
        """Entries and bytes of logs that were not counted yet, by group; see ``count_indexes``."""

    def __getstate__(self) -> dict[str, object]:
        self._count_waiting()
        return self.__dict__

    def part(self, part: LogPart) -> PartFold:
        """Takes the rows of a log, in file order."""
        return PartFold(self, part)

    def merge(self, other: StatsFold, *, into_one: bool = False) -> None:
        """Merge another fold into this one; ``into_one``: all of its groups become the one with the key None.

        If not ``into_one``, the other fold is not used any more.
        """
        self._count_waiting()
        other._count_waiting()
        if into_one:
            ids = np.full(other.groups.count, self.groups.id_of(None))
            self._merge_figures(other, ids)
        elif self.groups.count:
            ids = self.groups.taken_in(other.groups)
            self._merge_figures(other, ids)
        else:
            ids = np.arange(other.groups.count)
            for name in ("groups", "paths", "files", "sizes", "keys", *_FIGURES):
                setattr(self, name, getattr(other, name))
        if self.offset_times is not None and other.offset_times is not None:
            self.offset_times.merge(other.offset_times)
        self._runs.merge(other._runs, ids)
        self._transactions.merge(other._transactions, ids)

    def _merge_figures(self, other: StatsFold, ids: NDArray[np.int64]) -> None:
        self.files.merge(other.files, ids, np.array([self._file(path) for path in other.paths], np.int64))
        for name, sizes in self.sizes.items():
            sizes.merge(other.sizes[name], ids)
        for name in _FIGURES:
            getattr(self, name).merge(getattr(other, name), ids)
        self.keys.merge(other.keys, ids)

    def note_file(self, assigned: Assigned, path: str) -> None:
        """Note that the groups have rows of a file."""
        self.files.add(assigned.ids, self._file(path))

    def _file(self, path: str) -> int:
        return self.paths.setdefault(path, len(self.paths))

    def count_later(self, rows: NDArray[np.void], assigned: Assigned) -> None:
        """Add batches of one group to the figures that no other batch changes, together with others."""
        self._waiting.append((rows, assigned))
        self._waiting_rows += rows.size
        if self._waiting_rows >= _TOGETHER:
            self._count_waiting()

    def count_indexes(self, group: int, *figures: int) -> None:
        """Add the figures of INDEX_SUMS of one log, together with those of others."""
        own = self._waiting_indexes.setdefault(group, [0] * len(INDEX_SUMS))
        own[:] = map(operator.add, own, figures)

    def _count_waiting(self) -> None:
        """Add what waits: a step by columns costs as much for a few as for thousands."""
        if self._waiting_indexes:
            columns = np.array(list(self._waiting_indexes.values()), np.int64).T
            self.sums.add(np.array(list(self._waiting_indexes)), **dict(zip(INDEX_SUMS, columns, strict=True)))
            self._waiting_indexes = {}
        if not self._waiting:
            return
        parts, groups = zip(*self._waiting, strict=True)
        self._waiting, self._waiting_rows = [], 0
        numbers: dict[int, int] = {}
        index = [numbers.setdefault(int(assigned.ids[0]), len(numbers)) for assigned in groups]
        of_rows = None if len(numbers) == 1 else np.repeat(index, [rows.size for rows in parts])
        count_batches(self, joined(parts), Assigned(np.array(list(numbers)), of_rows))

    def run(self, place: LogPlace) -> LogEnds:
        """The ends of the log at ``place``, for figures that depend on the order of offsets and timestamps."""
        return self._runs.at(place)

    def transactions(self, place: LogPlace) -> TransactionRun:
        """The transactions of the log at ``place``, for figures that depend on the order of markers."""
        return self._transactions.at(place)

    def settle(self, following: OutcomeAfter = lambda file, producer, offset: OPEN) -> None:
        """Add what lies between the parts, once all of them are merged.

        ``following``: what became of transactions that no marker in the parts ends.
        """
        self._count_waiting()
        for between in self._runs.between():
            group = np.array([between.group])
            self.sums.add(
                group,
                missing_offsets=np.array([between.missing_offsets]),
                timestamps_back=np.array([int(between.step_back > 0)]),
            )
            if between.step_back:
                self.most.add(group, step_back=np.array([between.step_back]))
        self._runs = Runs()
        self.add_outcomes(self._transactions.outcomes(following))
        self._transactions = TransactionRuns()

    def add_outcomes(self, found: Iterable[GroupOutcomes]) -> None:
        """Add the outcomes of transactions."""
        for outcome, groups, *columns in found:
            names = (f"{outcome}_{what}" for what in ("bytes", "records", "transactions"))
            self.sums.add(groups, **dict(zip(names, columns, strict=True)))


FOLD_CLASSES: Final = (
    By, Columns, GroupFiles, GroupNumbers, Groups, KeySketches, OffsetTimes, Producers, LogEnds, LogPlace, Runs,
    Sizes, StatsFold, Tally, Timeline, TransactionRun, TransactionRuns, *CURVE_CLASSES, *KEY_CLASSES,
)  # fmt: skip
"""The classes inside of a fold, for those who send one to another process."""


class PartFold:
    """Adds the rows of one log to a fold."""

    def __init__(self, fold: StatsFold, part: LogPart) -> None:
        self._fold = fold
        self._part = part
        self._run = fold.run(part.place)
        self._transactions = fold.transactions(part.place)
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
        self._fold.count_indexes(int(self._own.ids[0]), index_entries or 0, index_bytes, time_index_entries or 0)

    def see_end(self, *, in_gap: bool) -> None:
        """All rows of the part were added; ``in_gap``: damage follows the last one."""
        self._run.ends_in_gap = in_gap

    def see_batches(self, rows: NDArray[np.void]) -> None:
        """Add the next rows of the batch table (``verify.table``)."""
        fold = self._fold
        if not rows.size:
            return
        assigned = self._own or fold.groups.assign(fold.by.keys_of_batches(rows))
        self._note_file(assigned)
        if self._own is not None and rows.size < _TOGETHER and not self._part.has_positions:
            fold.count_later(rows, self._own)
        else:
            count_batches(fold, rows, assigned, is_untimed=self._part.has_positions)
        if not rows["is_valid"].all():
            rows, assigned = rows[rows["is_valid"]], assigned.rows(rows["is_valid"])
        if rows.size and not self._part.has_positions:
            self._see_valid(rows, assigned)

    def _see_valid(self, rows: NDArray[np.void], assigned: Assigned) -> None:
        fold = self._fold
        if fold.offset_times is not None:
            fold.offset_times.add(self._part.place.directory, rows["last_offset"], rows["max_timestamp"])
        missing, earlier = missing_offsets(self._run, rows, assigned)
        if missing.any():
            fold.sums.add(assigned.ids, missing_offsets=assigned.sums(missing))
        if earlier is not None:
            fold.sums.add(np.array([earlier.group]), missing_offsets=np.array([earlier.missing_offsets]))
        if (rows["producer_id"] != NO_PRODUCER).any():
            fold.producers.add(rows, assigned)
            fold.add_outcomes(self._transactions.see(rows, assigned))

    def see_records(self, entries: EntryRecords) -> None:
        """Add the next entries with their records."""
        fold, groups, table = self._fold, entries.groups, entries.groups.table
        of_entries = self._of_entries(entries)
        counts = groups.rows
        nothing = np.zeros_like(counts)
        group_counts(
            fold.codecs, of_entries, groups.codec, nothing, nothing, nothing, entries.stored, entries.uncompressed
        )
        if not table.rows:
            return
        entry = np.repeat(np.arange(groups.count), counts)
        assigned = of_entries.rows(entry)
        own = self._of_records(entries, entry)
        if own is not None:
            assigned = own
            is_first = np.diff(entry, prepend=-1) != 0
            if assigned.index is not None:
                is_first[1:] |= np.diff(assigned.index) != 0
            first = np.flatnonzero(is_first)
            self._count_records(groups, entry[first], assigned.rows(first), np.diff(first, append=table.rows))
        else:
            self._count_records(groups, np.arange(groups.count), of_entries, counts)
        self._note_file(assigned)
        key_size, value_size = table.key_size.astype(np.int64), table.value_size.astype(np.int64)
        header_bytes = _header_bytes(table.header_count, table.headers.key_size, table.headers.value_size)
        key_bytes, value_bytes = np.maximum(key_size, 0), np.maximum(value_size, 0)
        size = key_bytes + value_bytes
        figures = {
            "records": assigned.counts(np.ones(table.rows, np.bool_)),
            "null_keys": assigned.counts(key_size < 0),
            "tombstones": assigned.counts((key_size >= 0) & (value_size < 0)),
            "key_bytes": assigned.sums(key_bytes),
            "value_bytes": assigned.sums(value_bytes),
        }
        is_control = entries.is_control
        has_control = bool(is_control.any())
        if has_control:
            figures["control_records"] = assigned.counts(is_control[entry])
        if header_bytes is not None:
            size = size + header_bytes
            figures["headers"] = assigned.sums(table.header_count)
            figures["header_bytes"] = assigned.sums(header_bytes)
            figures["records_with_headers"] = assigned.counts(table.header_count > 0)
        fold.sums.add(assigned.ids, **figures)
        fold.sizes["record"].add(assigned, size)
        fold.sizes["key"].add(assigned, key_size)
        fold.sizes["value"].add(assigned, value_size)
        self._see_times(table.offset, table.timestamp, assigned)
        if has_control:
            key_size = np.where(is_control[entry], -1, key_size)
        fold.keys.add(assigned, table.arena, table.key_start, key_size, size)

    def _count_records(
        self, groups: RecordGroups, entry: NDArray[np.intp], assigned: Assigned, count: NDArray[np.int64]
    ) -> None:
        """Count records by what their entry shows: ``count`` of each ``entry``; shapes (rows,), as ``assigned``."""
        fold, nothing = self._fold, np.zeros_like(count)
        codec, magic = groups.codec[entry], groups.magic[entry]
        group_counts(fold.codecs, assigned, codec, nothing, count, nothing, nothing, nothing)
        group_counts(fold.magics, assigned, magic, nothing, count, nothing)
        types = timestamp_types(magic, groups.is_log_append_time[entry], is_untimed=self._part.has_positions)
        group_counts(fold.timestamp_types, assigned, types, count)

    def _see_times(self, offset: NDArray[np.int64], timestamp: NDArray[np.int64], assigned: Assigned) -> None:
        fold = self._fold
        fold.least.add(assigned.ids, offset=assigned.minima(offset, MOST))
        fold.most.add(assigned.ids, offset=assigned.maxima(offset, LEAST))
        is_there = timestamp >= 0
        if not is_there.all():
            timestamp, assigned = timestamp[is_there], assigned.rows(is_there)
            if not timestamp.size:
                return
        back = steps_back(self._run, timestamp, assigned)
        fold.least.add(assigned.ids, timestamp=assigned.minima(timestamp, MOST))
        fold.most.add(assigned.ids, timestamp=assigned.maxima(timestamp, LEAST), step_back=assigned.maxima(back, 0))
        fold.sums.add(assigned.ids, timestamps_back=assigned.counts(back > 0))
        fold.timeline.add_records(assigned, timestamp, np.ones_like(timestamp))

    def _of_entries(self, entries: EntryRecords) -> Assigned:
        """The groups of entries, as ``By.keys_of_batches`` assigns them."""
        fold, groups = self._fold, entries.groups
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
        fold, table = self._fold, entries.groups.table
        if fold.by.span is not None:
            return fold.groups.assign(fold.by.spans(table.timestamp))
        if not fold.by.is_of_contents:
            return None
        from kdump.stats.contents import assign_headers, assign_keys  # headers of batches need no decoders of records

        is_control = entries.is_control[entry]
        if fold.by is By.KEY:
            return assign_keys(fold.groups, table, is_control)
        return assign_headers(fold.groups, table, fold.header, is_control)

    def _note_file(self, assigned: Assigned) -> None:
        self._fold.note_file(assigned, self._part.file)


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
