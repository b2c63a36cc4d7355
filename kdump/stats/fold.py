"""The figures of logs as one fold: rows of batches and records go in, folds of logs are merged, figures come out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kdump.format.batch import CODEC_MASK, CONTROL, DELETE_HORIZON, LOG_APPEND_TIME
from kdump.limits import GROUPS, most
from kdump.reading.outcomes import OPEN, OUTCOMES
from kdump.stats.grouping import MOST_CONTENTS, OTHER_NUMBERS, Assigned, By, GroupFiles, Groups
from kdump.stats.keys import KEY_CLASSES, KeySketches
from kdump.stats.offsettimes import CURVE_CLASSES, OffsetTimes
from kdump.stats.order import LogEnds, LogPlace, between_runs
from kdump.stats.producers import Producers
from kdump.stats.sizes import Sizes
from kdump.stats.tally import LEAST, MOST, Columns, Tally, group_counts
from kdump.stats.timeline import Timeline
from kdump.stats.transactions import GroupOutcomes, OutcomeAfter, TransactionRun, outcomes_of_runs
from kdump.verify.table import joined

NO_TIMESTAMP_TYPE: Final = 0
CREATE_TIME_TYPE: Final = 1
LOG_APPEND_TIME_TYPE: Final = 2

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
"""Rows that are counted together, be they of one log or of several small ones."""
Count: TypeAlias = Callable[..., None]
"""A method of a fold that adds rows: it takes their groups, and columns of them."""
_CODEC_BITS: Final = 3
_MAGIC_BITS: Final = 8
_TYPE_BITS: Final = 2


class RecordFigures(NamedTuple):
    """What is counted of records; shapes (records,). Sizes are in bytes, -1 for null; times in ms.

    ``step_back``: by how much the timestamp is below the one before. ``size``: of key, value and headers.
    """

    offset: NDArray[np.int64]
    timestamp: NDArray[np.int64]
    step_back: NDArray[np.int64]
    key_size: NDArray[np.int64]
    value_size: NDArray[np.int64]
    size: NDArray[np.int64]
    header_count: NDArray[np.int32]
    is_control: NDArray[np.bool_]


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
        self._runs: dict[LogPlace, LogEnds] = {}
        self._transactions: dict[LogPlace, TransactionRun] = {}
        # Columns that were not counted yet, each part of one group, by the method that counts them; and their rows.
        self._waiting: dict[Count, list[tuple[int, tuple[NDArray[Any], ...]]]] = {}
        self._waiting_rows: dict[Count, int] = {}

    def __getstate__(self) -> dict[str, object]:
        self._count_waiting()
        return self.__dict__

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
        self._runs |= {place: run.with_groups(ids) for place, run in other._runs.items()}
        self._transactions |= {place: run.with_groups(ids) for place, run in other._transactions.items()}

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

    def count_later(self, count: Count, assigned: Assigned, *columns: NDArray[Any]) -> None:
        """Add rows of one group as ``count``, a method of this fold, does, together with others."""
        self._waiting.setdefault(count, []).append((int(assigned.ids[0]), columns))
        rows = self._waiting_rows[count] = self._waiting_rows.get(count, 0) + columns[0].size
        if rows >= _TOGETHER:
            self._count_parts(count)

    def _count_waiting(self) -> None:
        """Add what waits: a step by columns costs as much for a few as for thousands."""
        for count in list(self._waiting):
            self._count_parts(count)

    def _count_parts(self, count: Count) -> None:
        groups, parts = zip(*self._waiting.pop(count), strict=True)
        del self._waiting_rows[count]
        numbers: dict[int, int] = {}
        index = [numbers.setdefault(group, len(numbers)) for group in groups]
        of_rows = None if len(numbers) == 1 else np.repeat(index, [columns[0].size for columns in parts])
        count(Assigned(np.array(list(numbers)), of_rows), *map(joined, zip(*parts, strict=True)))

    def count_indexes(self, assigned: Assigned, *columns: NDArray[np.int64]) -> None:
        """Add the index files of logs; ``columns``: those of INDEX_SUMS."""
        self.sums.add(assigned.ids, **dict(zip(INDEX_SUMS, map(assigned.sums, columns), strict=True)))

    def count_batches(self, assigned: Assigned, rows: NDArray[np.void], *, is_untimed: bool = False) -> None:
        """Add batches to the figures that no other batch changes; ``is_untimed``: none has a timestamp."""
        size, count = rows["size"], np.maximum(rows["record_count"], 0).astype(np.int64)
        is_control = (rows["attributes"] & CONTROL != 0) & (rows["magic"] >= 2)
        is_valid = rows["is_valid"]
        self.sums.add(
            assigned.ids,
            bytes=assigned.sums(size),
            batches=assigned.counts(np.ones(rows.size, np.bool_)),
            control_batches=assigned.counts(is_control),
            damaged_batches=assigned.counts(~is_valid),
            damaged_bytes=assigned.sums(np.where(is_valid, 0, size)),
        )
        self.sizes["batch"].add(assigned, size)
        codec, magic = (rows["attributes"] & CODEC_MASK).astype(np.int64), rows["magic"].astype(np.int64)
        nothing = np.zeros_like(size)
        one = np.ones_like(size)
        # If records are added, they are counted there.
        counted = nothing if self.with_records else count
        group_counts(self.codecs, assigned, codec, one, counted, size, nothing, nothing)
        group_counts(self.magics, assigned, magic, one, counted, size)
        self.timeline.add_bytes(assigned, rows["max_timestamp"], size)
        if not self.with_records:
            is_log_append_time = (rows["attributes"] & LOG_APPEND_TIME != 0) & (rows["magic"] > 0)
            types = timestamp_types(rows["magic"], is_log_append_time, is_untimed=is_untimed)
            group_counts(self.timestamp_types, assigned, types, count)
            self._count_headers(rows, assigned, count, is_control)

    def _count_headers(
        self,
        rows: NDArray[np.void],
        assigned: Assigned,
        count: NDArray[np.int64],
        is_control: NDArray[np.bool_],
    ) -> None:
        """Add what the headers of batches show of their records."""
        self.sums.add(
            assigned.ids,
            records=assigned.sums(count),
            control_records=assigned.sums(np.where(is_control, count, 0)),
        )
        is_known = rows["base_offset"] > LEAST
        first = np.where(is_known, rows["base_offset"], rows["last_offset"])
        latest = rows["max_timestamp"]
        # The cleaner stores the delete horizon in the place of the first timestamp (KIP-534).
        is_stored = (rows["attributes"] & (DELETE_HORIZON | LOG_APPEND_TIME) == 0) | (rows["magic"] < 2)
        is_first = is_stored & (rows["base_timestamp"] >= 0) & (rows["base_timestamp"] < latest)
        earliest = np.where(is_first, rows["base_timestamp"], latest)
        self.least.add(
            assigned.ids,
            offset=assigned.minima(first, MOST),
            timestamp=assigned.minima(np.where(earliest < 0, MOST, earliest), MOST),
        )
        self.most.add(
            assigned.ids,
            offset=assigned.maxima(rows["last_offset"], LEAST),
            timestamp=assigned.maxima(np.where(latest < 0, LEAST, latest), LEAST),
        )
        self.timeline.add_records(assigned, latest, count)

    def count_stored(
        self,
        assigned: Assigned,
        codec: NDArray[np.int64],
        stored: NDArray[np.int64],
        uncompressed: NDArray[np.int64],
    ) -> None:
        """Add the bytes of the records of entries; shapes (entries,)."""
        nothing = np.zeros_like(stored)
        group_counts(self.codecs, assigned, codec, nothing, nothing, nothing, stored, uncompressed)

    def count_entries(
        self,
        assigned: Assigned,
        codec: NDArray[np.int64],
        magic: NDArray[np.int64],
        timestamp_type: NDArray[np.int64],
        count: NDArray[np.int64],
    ) -> None:
        """Add ``count`` records of entries by what these show; shapes (entries,)."""
        nothing = np.zeros_like(count)
        group_counts(self.codecs, assigned, codec, nothing, count, nothing, nothing, nothing)
        group_counts(self.magics, assigned, magic, nothing, count, nothing)
        group_counts(self.timestamp_types, assigned, timestamp_type, count)

    def count_records(self, assigned: Assigned, *columns: NDArray[Any]) -> None:
        """Add records; ``columns``: those of RecordFigures."""
        records = RecordFigures(*columns)
        key_size, value_size, timestamp = records.key_size, records.value_size, records.timestamp
        is_timed = timestamp >= 0
        figures = {
            "records": assigned.counts(np.ones(timestamp.size, np.bool_)),
            "null_keys": assigned.counts(key_size < 0),
            "tombstones": assigned.counts((key_size >= 0) & (value_size < 0)),
            "key_bytes": assigned.sums(np.maximum(key_size, 0)),
            "value_bytes": assigned.sums(np.maximum(value_size, 0)),
            "timestamps_back": assigned.counts(records.step_back > 0),
        }
        if records.is_control.any():
            figures["control_records"] = assigned.counts(records.is_control)
        if records.header_count.any():
            figures["headers"] = assigned.sums(records.header_count)
            figures["header_bytes"] = assigned.sums(records.size) - figures["key_bytes"] - figures["value_bytes"]
            figures["records_with_headers"] = assigned.counts(records.header_count > 0)
        self.sums.add(assigned.ids, **figures)
        self.least.add(
            assigned.ids,
            offset=assigned.minima(records.offset, MOST),
            timestamp=assigned.minima(np.where(is_timed, timestamp, MOST), MOST),
        )
        self.most.add(
            assigned.ids,
            offset=assigned.maxima(records.offset, LEAST),
            timestamp=assigned.maxima(np.where(is_timed, timestamp, LEAST), LEAST),
            step_back=assigned.maxima(records.step_back, 0),
        )
        self.sizes["record"].add(assigned, records.size)
        self.sizes["key"].add(assigned, key_size)
        self.sizes["value"].add(assigned, value_size)
        self.timeline.add_records(assigned, timestamp, np.ones_like(timestamp))

    def run(self, place: LogPlace) -> LogEnds:
        """The ends of the log at ``place``, for figures that depend on the order of offsets and timestamps."""
        return self._runs.setdefault(place, LogEnds())

    def transactions(self, place: LogPlace) -> TransactionRun:
        """The transactions of the log at ``place``, for figures that depend on the order of markers."""
        return self._transactions.setdefault(place, TransactionRun())

    def settle(self, following: OutcomeAfter = lambda file, producer, offset: OPEN) -> None:
        """Add what lies between the parts, once all of them are merged.

        ``following``: what became of transactions that no marker in the parts ends.
        """
        self._count_waiting()
        for between in between_runs(self._runs):
            group = np.array([between.group])
            self.sums.add(
                group,
                missing_offsets=np.array([between.missing_offsets]),
                timestamps_back=np.array([int(between.step_back > 0)]),
            )
            if between.step_back:
                self.most.add(group, step_back=np.array([between.step_back]))
        self.add_outcomes(outcomes_of_runs(self._transactions, following))
        self._runs, self._transactions = {}, {}

    def add_outcomes(self, found: Iterable[GroupOutcomes]) -> None:
        """Add the outcomes of transactions."""
        for outcome, groups, *columns in found:
            names = (f"{outcome}_{what}" for what in ("bytes", "records", "transactions"))
            self.sums.add(groups, **dict(zip(names, columns, strict=True)))


def timestamp_types(
    magic: NDArray[np.int64], is_log_append_time: NDArray[np.bool_], *, is_untimed: bool
) -> NDArray[np.int64]:
    """The timestamp type of each row; ``is_untimed``: none has a timestamp."""
    return np.where(
        (magic == 0) | is_untimed,
        NO_TIMESTAMP_TYPE,
        np.where(is_log_append_time, LOG_APPEND_TIME_TYPE, CREATE_TIME_TYPE),
    )


FOLD_CLASSES: Final = (
    By, Columns, GroupFiles, Groups, KeySketches, OffsetTimes, Producers, LogEnds, LogPlace,
    Sizes, StatsFold, Tally, Timeline, TransactionRun, *CURVE_CLASSES, *KEY_CLASSES,
)  # fmt: skip
"""The classes inside of a fold, for those who send one to another process."""
