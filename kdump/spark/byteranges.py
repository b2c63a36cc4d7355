"""What lies between two places of a partition, as work that is packed like whole logs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kdump.codes import Codes, KdumpError
from kdump.log import files
from kdump.log.context import FileContext
from kdump.log.named import is_named
from kdump.log.source import Source
from kdump.spark.partitions import PartitionLog
from kdump.spark.positions import DataLossError, StreamPosition, StreamTracker
from kdump.tasks.logs import LogFile


class ChangedError(Exception):
    """A file was cut or replaced between planning and reading. The work must be planned again."""


@dataclass(frozen=True, slots=True)
class ByteRange:
    """The batches of ``log`` from the file position ``first`` on, up to its size. A batch begins or ends at both.

    ``first_offset``: rows with lower offsets are not wanted. ``rolled_size``: the size of a file that does not grow any
    more.
    """

    log: LogFile
    first: int
    first_offset: int | None = None
    rolled_size: int | None = None

    @property
    def size(self) -> int:
        """Bytes."""
        return self.log.size - self.first

    def open_planned(self) -> Source:
        """The log up to the end of the byte range.

        Raises:
            DataLossError: the file is gone.
            ChangedError: it is not the one that was planned.
            KdumpError: it cannot be read.
        """
        try:
            source = self.log.open()
        except KdumpError as error:
            if error.code is Codes.MISSING:
                raise DataLossError(f"{self.log.path} was deleted before it was read") from None
            raise
        size = source.size or 0
        if size < self.log.size or self.rolled_size not in (None, size):
            source.close()
            raise ChangedError(f"{self.log.path} was cut or replaced while it was read: start the query again")
        source.size = self.log.size
        return source


def byte_ranges_between(
    tracker: StreamTracker, log: PartitionLog, start: StreamPosition | None, end: StreamPosition
) -> Iterator[ByteRange]:
    """What lies between the places ``start`` (None: the beginning) and ``end``, in file order.

    Raises:
        KdumpError: the status of a file cannot be read.
    """
    start = tracker.earliest(log) if start is None else tracker.located(log, start)
    end = tracker.located(log, end)
    first, last = log.number_of(start.segment), log.number_of(end.segment)
    assert first is not None, "the start is located"
    assert last is not None, "the end is located"
    for number in range(first, last + 1):
        begins = start.position if number == first else 0
        ends = end.position if number == last else tracker.size(log, number)
        if begins < ends:
            path = log.path(number)
            given = files.with_credentials(path)
            file = LogFile(path, FileContext.of(path), log.bases[number], ends, given=given, is_named=is_named(path))
            rolled_size = tracker.size(log, number) if number < log.newest else None
            yield ByteRange(file, begins, start.first, rolled_size)
