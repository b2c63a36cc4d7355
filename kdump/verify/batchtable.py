"""The batch table of a whole segment. The files beside the log are checked against it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from kdump.format.batch import CONTROL, HEADER_SIZE, MAGIC, MAGIC_OFFSET, parse_header
from kdump.log.gaps import Gap
from kdump.log.resync import CheckedChunk, ResyncWalk
from kdump.log.source import Source
from kdump.verify.indexedlog import IndexedBatches, IndexedLog, LogColumns, NamedPlaces
from kdump.verify.segment import Rows
from kdump.verify.siblings import EpochRange
from kdump.verify.table import UNKNOWN_OFFSET, cleaned, first_offset, read_rows, row_at

_NO_TIME: Final = 2**63 - 1


class BatchTable:
    """What the checks of the files beside a log need of its rows, gathered while they come.

    The sound part of a log ends with the last batch whose CRC is right. What follows is its tail: a recovery cuts it
    (LogSegment.recover). ``end_offset`` comes after the highest offset of the sound batches, None without one.
    ``sound_size`` is where the last of them ends in the file.

    Args:
        named: says which places of the log its index files name. Only those batches are kept: a log may have millions.
            None: all are.
    """

    def __init__(self, named: Callable[[], NamedPlaces] | None = None) -> None:
        self._named = named
        # All of the batches of the last part, and those of the others that are kept.
        self._parts: list[IndexedBatches] = []
        self._epochs: list[EpochRange] = []
        self._are_cleaned = False
        self._is_legacy = True
        self._earliest = _NO_TIME
        self.count = 0
        self.first_offset: int | None = None
        self.last_offset: int | None = None
        self.end_offset: int | None = None
        self.sound_size = 0

    def add(self, rows: Rows) -> None:
        """Add the next rows in file order."""
        if not len(rows):
            return
        self.count += len(rows)
        if self.first_offset is None:
            self.first_offset = first_offset(row_at(rows, 0))
        self.last_offset = int(rows["last_offset"][-1])
        sound = rows if rows["is_valid"].all() else rows[rows["is_valid"]]
        if sound.size:
            self._add_sound(sound)

    def _add_sound(self, rows: Rows) -> None:
        before = self._parts[-1] if self._parts else None
        if before is not None and self._named is not None:
            self._parts[-1] = before.named(self._places)
        end = rows["position"] + rows["size"]
        columns = LogColumns(rows["position"], end, rows["base_offset"], rows["last_offset"], rows["max_timestamp"])
        part = IndexedBatches.of(columns, before)
        self._parts.append(part)
        self.end_offset = max(self.end_offset or 0, int(part.last.max()) + 1)
        self.sound_size = int(end[-1])
        times = part.max_timestamp
        self._earliest = min(self._earliest, int(times.min(where=times >= 0, initial=_NO_TIME)))
        self._are_cleaned = self._are_cleaned or bool(cleaned(rows).any())
        self._is_legacy = self._is_legacy and bool((rows["magic"] < MAGIC).all())
        for run in _runs(rows):
            if self._epochs and self._epochs[-1].epoch == run.epoch:
                self._epochs[-1] = self._epochs[-1]._replace(last_offset=run.last_offset)
            else:
                self._epochs.append(run)

    @cached_property
    def _places(self) -> NamedPlaces:
        assert self._named is not None
        return self._named()

    @property
    def times(self) -> tuple[int, int] | None:
        """The smallest and the largest timestamp of the sound batches (ms); None: they have none."""
        return None if self._earliest == _NO_TIME else (self._earliest, int(self._parts[-1].largest[-1]))

    def log_view(
        self, base_offset: int, size: int, gaps: Sequence[tuple[int, int]], next_base: int | None = None
    ) -> IndexedLog:
        """The valid batches as the indexes see them; for the arguments see IndexedLog."""
        batches = IndexedBatches.joined(self._parts)
        return IndexedLog(base_offset, size, batches, sorted(gaps), is_legacy=self._is_legacy, next_base=next_base)

    def was_cleaned(self, base_offset: int) -> bool:
        """Whether the log cleaner compacted the segment: some batch shows it, or a gap before the first batch."""
        return (self.first_offset or 0) > base_offset or self._are_cleaned

    def tail_end(self, source: Source, base_offset: int) -> TailEnd:
        """The end offset of the log with its tail."""
        return tail_end(source, self.sound_size, max(base_offset, self.end_offset or 0))

    @property
    def epochs(self) -> Sequence[EpochRange]:
        """Runs of sound batches of magic 2 with the same leader epoch."""
        return self._epochs


def _runs(rows: Rows) -> Iterator[EpochRange]:
    """As ``BatchTable.epochs``, of some sound rows."""
    has_epoch = rows["leader_epoch"] >= 0
    rows = rows if has_epoch.all() else rows[has_epoch]
    if rows.size:
        epoch = rows["leader_epoch"]
        starts = [0, *(np.flatnonzero(epoch[1:] != epoch[:-1]) + 1).tolist()]
        ends = [start - 1 for start in (*starts[1:], rows.size)]
        for start, end in zip(starts, ends, strict=True):
            yield EpochRange(int(epoch[start]), int(rows["base_offset"][start]), int(rows["last_offset"][end]))


def read_table(source: Source, named: Callable[[], NamedPlaces] | None = None) -> BatchTable:
    """Read the rows of a whole log; ``named``: see BatchTable. Raises KdumpError if it cannot be read."""
    rows = BatchTable(named)
    for item in ResyncWalk(source).items():
        if not isinstance(item, Gap):
            rows.add(read_rows(item, is_after_gap=False))
    return rows


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
