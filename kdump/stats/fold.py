"""The figures of logs as one fold: rows of batches and records go in, folds of logs are merged, figures come out."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Final

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
TOGETHER: Final = 4096
"""Batches of several small logs that are counted together."""
_CODEC_BITS: Final = 3
_MAGIC_BITS: Final = 8
_TYPE_BITS: Final = 2


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
        # Batches that were not counted yet, each part of one group.
        self._waiting: list[tuple[NDArray[np.void], Assigned]] = []
        self._waiting_rows = 0
        self._waiting_indexes: dict[int, list[int]] = {}
        """Entries and bytes of logs that were not counted yet, by group; see ``count_indexes``."""

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

    def count_later(self, rows: NDArray[np.void], assigned: Assigned) -> None:
        """Add batches of one group to the figures that no other batch changes, together with others."""
        self._waiting.append((rows, assigned))
        self._waiting_rows += rows.size
        if self._waiting_rows >= TOGETHER:
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
        self.count_batches(joined(parts), Assigned(np.array(list(numbers)), of_rows))

    def count_batches(self, rows: NDArray[np.void], assigned: Assigned, *, is_untimed: bool = False) -> None:
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
