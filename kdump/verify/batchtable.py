"""The batch table of a whole segment. The files beside the log are checked against it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kdump.format.batch import CONTROL, HEADER_SIZE, MAGIC_OFFSET, parse_header
from kdump.log.gaps import Gap
from kdump.log.resync import CheckedChunk, ResyncWalk
from kdump.log.source import Source
from kdump.verify.indexedlog import IndexedLog, LogColumns
from kdump.verify.segment import Rows
from kdump.verify.siblings import EpochRange
from kdump.verify.table import UNKNOWN_OFFSET, cleaned, first_offset, read_rows, row_at


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
        names = ("position", "size", "base_offset", "last_offset", "max_timestamp")
        position, sizes, *others = (_column(parts, name) for name in names)
        columns = LogColumns(position, position + sizes, *others)
        return IndexedLog(base_offset, size, columns, sorted(gaps), is_legacy=is_legacy, next_base=next_base)

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


def _column(parts: Sequence[Rows], name: str) -> NDArray[np.int64]:
    """A column of some tables. Whole rows are never joined: they would be there twice."""
    return np.concatenate([np.empty(0, np.int64), *(part[name] for part in parts)])


@dataclass(frozen=True, slots=True)
class ValidData:
    """Batches whose framing and CRC hold.

    ``records`` counts by the headers, without control records; a compressed message of magic 0 or 1 counts as one.
    ``first_offset`` and ``last_offset`` are the lowest and highest, None without a batch.
    """

    batches: int = 0
    records: int = 0
    first_offset: int | None = None
    last_offset: int | None = None

    def __add__(self, other: ValidData) -> ValidData:
        firsts = [offset for offset in (self.first_offset, other.first_offset) if offset is not None]
        lasts = [offset for offset in (self.last_offset, other.last_offset) if offset is not None]
        return ValidData(
            self.batches + other.batches,
            self.records + other.records,
            min(firsts, default=None),
            max(lasts, default=None),
        )


def valid_data(source: Source, position: int = 0) -> ValidData:
    """The good data of a log from file position ``position`` on.

    Raises:
        KdumpError: a stream cannot be read. What cannot be read of a file is damage.
    """
    found = ValidData()
    for item in ResyncWalk(source, start=position).items():
        if not isinstance(item, Gap):
            found += _of_chunk(item)
    return found


class TailEnd(NamedTuple):
    """The end offset of a log (exclusive) with the damaged batches at its end, as far as their headers are believed.

    ``whole``: with those that the file has whole. ``torn``: also with one that the file cuts.
    """

    whole: int
    torn: int


def tail_end(source: Source, position: int, next_offset: int, first_after: int | None = None) -> TailEnd:
    """Where the damaged batches from ``position`` on end.

    Args:
        source: a log.
        position: where its good part ends.
        next_offset: the offset with which the first of them must begin; the result if it does not.
        first_after: the lowest offset of a good batch after them, None without one.
    """
    size = source.size or 0
    whole = next_offset
    while len(data := source.read(position, HEADER_SIZE)) == HEADER_SIZE and data[MAGIC_OFFSET] == 2:
        header = parse_header(data)
        is_next = header.base_offset == next_offset != first_after
        if not is_next or not 0 < header.record_count == header.last_offset_delta + 1:
            break
        next_offset, position = header.last_offset + 1, position + max(header.size, HEADER_SIZE)
        whole = next_offset if position <= size else whole
    return TailEnd(whole, next_offset)


def _of_chunk(chunk: CheckedChunk) -> ValidData:
    rows = read_rows(chunk, is_after_gap=False)
    rows = rows[rows["is_valid"]]
    if not rows.size:
        return ValidData()
    is_data = (rows["magic"] < 2) | (rows["attributes"] & CONTROL == 0)
    base_offset = rows["base_offset"]
    base_offset[base_offset == UNKNOWN_OFFSET] = rows["last_offset"][base_offset == UNKNOWN_OFFSET]
    return ValidData(
        rows.size,
        int(rows["record_count"][is_data & (rows["record_count"] > 0)].sum(dtype="i8")),
        int(base_offset.min()),
        int(rows["last_offset"].max()),
    )
