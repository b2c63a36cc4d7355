"""The batch table of a whole segment. The files beside the log are checked against it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Final

import numpy as np

from kdump.format.batch import MAGIC
from kdump.log.gaps import Gap
from kdump.log.resync import ResyncWalk
from kdump.log.source import Source
from kdump.verify.indexedlog import AskedPlaces, IndexedBatches, IndexedLog
from kdump.verify.segment import Rows
from kdump.verify.siblings import EpochRange
from kdump.verify.table import cleaned, first_offset, read_rows, row_at
from kdump.verify.validdata import TailEnd, tail_end

_NO_TIME: Final = 2**63 - 1


class BatchTable:
    """What the checks of the files beside a log need of its rows, gathered while they come.

    The sound part of a log ends with the last batch whose CRC is right. What follows is its tail: a recovery cuts it
    (LogSegment.recover). ``end_offset`` comes after the highest offset of the sound batches, None without one.
    ``sound_size`` is where the last of them ends in the file.

    Args:
        asked: says which places of the log its index files name. Only those batches are kept: a log may have millions.
            None: all are.
    """

    def __init__(self, asked: Callable[[], AskedPlaces] | None = None) -> None:
        self._asked = asked
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
        if before is not None and self._asked is not None:
            self._parts[-1] = before.asked(self._places)
        end = rows["position"] + rows["size"]
        columns = rows["position"], end, rows["base_offset"], rows["last_offset"], rows["max_timestamp"]
        part = IndexedBatches.in_order(*columns, before=before)
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
    def _places(self) -> AskedPlaces:
        assert self._asked is not None
        return self._asked()

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


def read_table(source: Source, asked: Callable[[], AskedPlaces] | None = None) -> BatchTable:
    """Read the rows of a whole log; ``asked``: see BatchTable. Raises KdumpError if it cannot be read."""
    rows = BatchTable(asked)
    for item in ResyncWalk(source).items():
        if not isinstance(item, Gap):
            rows.add(read_rows(item, is_after_gap=False))
    return rows
