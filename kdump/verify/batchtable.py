"""The batch table of a whole segment. The files beside the log are checked against it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kdump.log.gaps import Gap
from kdump.log.resync import ResyncWalk
from kdump.log.source import Source
from kdump.verify.indexedlog import IndexedLog
from kdump.verify.segment import Rows
from kdump.verify.siblings import EpochRange
from kdump.verify.table import cleaned, first_offset, read_rows, row_at
from kdump.verify.validdata import TailEnd, tail_end


class BatchTable:
    """The rows of a segment, with the columns that the checks of its siblings need.

    The sound part of a log ends with the last batch whose CRC is right. What follows is its tail: a recovery cuts it
    (LogSegment.recover). ``end_offset`` comes after the highest offset of the sound batches, None without one.
    ``sound_size`` is where the last of them ends in the file.
    """

    def __init__(self) -> None:
        self._parts: list[Rows] = []
        self.count = 0
        self.first_offset: int | None = None
        self.last_offset: int | None = None
        self.end_offset: int | None = None
        self.sound_size = 0

    def add(self, rows: Rows) -> None:
        """Add the next rows in file order."""
        if not len(rows):
            return
        self._parts.append(rows)
        self.count += len(rows)
        if self.first_offset is None:
            self.first_offset = first_offset(row_at(rows, 0))
        self.last_offset = int(rows["last_offset"][-1])
        sound = _sound(rows)
        if sound.size:
            self.end_offset = max(self.end_offset or 0, int(sound["last_offset"].max()) + 1)
            self.sound_size = _end(sound)

    @property
    def times(self) -> tuple[int, int] | None:
        """The smallest and the largest timestamp of the sound batches (ms); None: they have none."""
        least = [int(part["max_timestamp"][known].min()) for part, known in self._with_times()]
        return (min(least), max(int(part["max_timestamp"].max()) for part, _ in self._with_times())) if least else None

    def _with_times(self) -> Iterator[tuple[Rows, NDArray[np.bool_]]]:
        for part in map(_sound, self._parts):
            known = part["max_timestamp"] >= 0
            if known.any():
                yield part, known

    def log_view(
        self, base_offset: int, size: int, gaps: list[tuple[int, int]], next_base: int | None = None
    ) -> IndexedLog:
        """The valid batches as the indexes see them; for the arguments see IndexedLog."""
        parts = [_sound(part) for part in self._parts]
        is_legacy = all((part["magic"] < 2).all() for part in parts)
        return IndexedLog(
            base_offset, size, _TableColumns(parts), sorted(gaps), is_legacy=is_legacy, next_base=next_base
        )

    def was_cleaned(self, base_offset: int) -> bool:
        """Whether the log cleaner compacted the segment: some batch shows it, or a gap before the first batch."""
        return (self.first_offset or 0) > base_offset or any(cleaned(part).any() for part in self._parts)

    def tail_end(self, source: Source, base_offset: int) -> TailEnd:
        """The end offset of the log with its tail."""
        return tail_end(source, self.sound_size, max(base_offset, self.end_offset or 0))

    def epochs(self) -> Iterator[EpochRange]:
        """Runs of batches of magic 2 with the same leader epoch."""
        before: EpochRange | None = None
        for run in self._runs():
            if before is not None and run.epoch == before.epoch:
                before = before._replace(last_offset=run.last_offset)
                continue
            if before is not None:
                yield before
            before = run
        if before is not None:
            yield before

    def _runs(self) -> Iterator[EpochRange]:
        """As ``epochs``; a run ends where a part ends."""
        for part in self._parts:
            has_epoch = part["is_valid"] & (part["leader_epoch"] >= 0)
            table = part if has_epoch.all() else part[has_epoch]
            if not table.size:
                continue
            epoch = table["leader_epoch"]
            starts = [0, *(np.flatnonzero(epoch[1:] != epoch[:-1]) + 1).tolist()]
            ends = [start - 1 for start in (*starts[1:], table.size)]
            for start, end in zip(starts, ends, strict=True):
                yield EpochRange(int(epoch[start]), int(table["base_offset"][start]), int(table["last_offset"][end]))


def sound_size(parts: Iterable[Rows]) -> int:
    """As ``BatchTable.sound_size``, of the rows of a whole log."""
    return max((_end(sound) for part in parts if (sound := _sound(part)).size), default=0)


def _sound(rows: Rows) -> Rows:
    """The rows of batches whose CRC is right."""
    return rows if rows["is_valid"].all() else rows[rows["is_valid"]]


def _end(rows: Rows) -> int:
    """Where the last row ends in the file."""
    return int(rows["position"][-1] + rows["size"][-1])


def read_table(source: Source) -> BatchTable:
    """Read the rows of a whole log. Raises KdumpError if it cannot be read."""
    rows = BatchTable()
    for item in ResyncWalk(source).items():
        if not isinstance(item, Gap):
            rows.add(read_rows(item, is_after_gap=False))
    return rows


@dataclass(frozen=True, slots=True)
class _TableColumns:
    """The columns of ``verify.indexedlog.IndexedBatches``. Whole rows are never joined: they would be there twice."""

    parts: Sequence[Rows]

    @property
    def position(self) -> NDArray[np.int64]:
        """See IndexedBatches."""
        return self._column("position")

    @property
    def end(self) -> NDArray[np.int64]:
        """See IndexedBatches."""
        return self._column("position") + self._column("size")

    @property
    def base_offset(self) -> NDArray[np.int64]:
        """See IndexedBatches."""
        return self._column("base_offset")

    @property
    def last_offset(self) -> NDArray[np.int64]:
        """See IndexedBatches."""
        return self._column("last_offset")

    @property
    def max_timestamp(self) -> NDArray[np.int64]:
        """See IndexedBatches."""
        return self._column("max_timestamp")

    def _column(self, name: str) -> NDArray[np.int64]:
        if len(self.parts) == 1:
            return self.parts[0][name]
        return np.concatenate([np.empty(0, np.int64), *(part[name] for part in self.parts)])
