"""``kdump.open``: one segment or partition as an object."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator
from types import TracebackType
from typing import Any, NamedTuple, Self
from weakref import WeakSet

from kdump.codes import raise_error
from kdump.format.index import AbortedTxn, parse_offset_index, parse_time_index, parse_txn_index, used_entries
from kdump.inputs import LogSegment, OtherFile, PathDirectory, Sibling, Stream, inputs_of
from kdump.library.arguments import Headers, Pattern, Time
from kdump.library.records import LogBatch, LogRecord
from kdump.library.scans import ObjectIterator, OnDamage, Scan, scan
from kdump.log import files
from kdump.log.names import Kind, sibling
from kdump.log.opening import open_source, read_whole
from kdump.wire.compression import DEFAULT_LIMIT


class IndexedOffset(NamedTuple):
    """An entry of an offset index: the last offset of a batch, and where the batch begins in the log (bytes)."""

    offset: int
    position: int


class IndexedTime(NamedTuple):
    """An entry of a time index: the largest timestamp so far (ms since 1970), and the offset that it belongs to."""

    timestamp: int
    offset: int


class OpenedSegment:
    """A segment of an opened log.

    ``path``: of the log file. ``base_offset``: by its name; None: standard input.
    """

    def __init__(self, log: OpenedLog, path: str, base_offset: int | None) -> None:
        self._log = log
        self.path = path
        self.base_offset = base_offset

    @property
    def offset_index(self) -> list[IndexedOffset]:
        """The entries of the .index. KdumpError: it cannot be read."""
        entries = parse_offset_index(self._sibling(Kind.INDEX), self.base_offset or 0)
        return [
            IndexedOffset(entry.offset, entry.position) for _, entry in used_entries(entries, self.base_offset or 0)
        ]

    @property
    def time_index(self) -> list[IndexedTime]:
        """The entries of the .timeindex. KdumpError: it cannot be read."""
        base = self.base_offset or 0
        entries = used_entries(parse_time_index(self._sibling(Kind.TIME_INDEX), base), base)
        return [IndexedTime(entry.timestamp, entry.offset) for _, entry in entries]

    @property
    def aborted_transactions(self) -> list[AbortedTxn]:
        """The entries of the .txnindex; a segment without one has none. KdumpError: it cannot be read."""
        is_there = files.exists(self._path_of(Kind.TXN_INDEX))
        return list(parse_txn_index(self._sibling(Kind.TXN_INDEX))) if is_there else []

    def records(self, **filters: Any) -> ObjectIterator[LogRecord]:
        """As ``OpenedLog.records``, of this segment alone."""
        return self._log.records_of([self.path], **filters)

    def batches(self, **ranges: Any) -> ObjectIterator[LogBatch]:
        """As ``OpenedLog.batches``, of this segment alone."""
        return self._log.batches_of([self.path], **ranges)

    def explain(self, position: int) -> str:
        """The bytes around a position of the log as text, field by field, as ``kdump dump --explain`` shows them.

        Raises:
            ValueError: a position below 0.
            KdumpError: the file cannot be read.
        """
        from kdump.explain import explain
        from kdump.explain.layout import report

        self._log.check_open()
        with open_source(self.path) as source:
            return report(explain(source, position, limit=self._log.limit))

    def _sibling(self, kind: Kind) -> bytes:
        self._log.check_open()
        return read_whole(self._path_of(kind))

    def _path_of(self, kind: Kind) -> str:
        return sibling(self.path, kind)

    def __repr__(self) -> str:
        return f"<Segment {self.path}>"


class OpenedLog:
    """One segment or partition. A context manager, which closes it. See ``kdump.open``."""

    def __init__(self, path: str, segments: list[tuple[str, int | None]], on_damage: OnDamage, limit: int) -> None:
        self.path = path
        self.limit = limit
        self.segments = tuple(OpenedSegment(self, segment, base_offset) for segment, base_offset in segments)
        """In the order of their offsets."""
        self._on_damage = on_damage
        self._iterators: WeakSet[ObjectIterator[Any]] = WeakSet()
        self._is_closed = False

    @property
    def base_offset(self) -> int | None:
        """The base offset of the first segment."""
        return self.segments[0].base_offset

    @property
    def offset_index(self) -> list[IndexedOffset]:
        """The entries of the offset indexes of all segments. Positions belong to the log of the segment."""
        return [entry for segment in self.segments for entry in segment.offset_index]

    def records(
        self,
        *,
        offsets: tuple[int | None, int | None] | None = None,
        time: tuple[Time, Time] | None = None,
        keys: Pattern | None = None,
        headers: Headers | None = None,
    ) -> ObjectIterator[LogRecord]:
        """The records, as ``kdump.scan`` with these arguments gives them."""
        return self.records_of(self._paths(), offsets=offsets, time=time, keys=keys, headers=headers)

    def batches(
        self,
        *,
        offsets: tuple[int | None, int | None] | None = None,
        time: tuple[Time, Time] | None = None,
    ) -> ObjectIterator[LogBatch]:
        """The batches that overlap the ranges, by their headers."""
        return self.batches_of(self._paths(), offsets=offsets, time=time)

    def record_at(self, offset: int) -> LogRecord | None:
        """The record with this offset; None: the log has none. Index files are used where they fit the log."""
        bases = [segment.base_offset or 0 for segment in self.segments]
        segment = self.segments[max(0, bisect_right(bases, offset) - 1)]
        found = segment.records(offsets=(offset, offset + 1))
        try:
            return next(found, None)
        finally:
            found.close()

    def explain(self, position: int) -> str:
        """As ``OpenedSegment.explain``. ValueError: there are several segments; each has positions of its own."""
        if len(self.segments) > 1:
            raise ValueError("a position belongs to one segment: call explain() of one of segments")
        return self.segments[0].explain(position)

    def close(self) -> None:
        """Close all that is open. Iterators end with the records that they have read already."""
        self._is_closed = True
        for iterator in list(self._iterators):
            iterator.close()

    def check_open(self) -> None:
        """Raise ValueError if it was closed."""
        if self._is_closed:
            raise ValueError(f"{self.path} is closed")

    def records_of(self, paths: list[str], **filters: Any) -> ObjectIterator[LogRecord]:
        """The records of some of the segments."""
        return self._noted(iter(self._scan(paths, **filters)))

    def batches_of(self, paths: list[str], **ranges: Any) -> ObjectIterator[LogBatch]:
        """The batches of some of the segments."""
        return self._noted(self._scan(paths, **ranges).batches())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Iterator[LogRecord]:
        return self.records()

    def __repr__(self) -> str:
        return f"<Log {self.path}, {len(self.segments)} segments>"

    def _scan(self, paths: list[str], **filters: Any) -> Scan:
        self.check_open()
        return scan(paths, on_damage=self._on_damage, max_decompressed_size=self.limit, **filters)

    def _noted(self, iterator: ObjectIterator[Any]) -> ObjectIterator[Any]:
        self._iterators.add(iterator)
        return iterator

    def _paths(self) -> list[str]:
        return [segment.path for segment in self.segments]


def open_log(
    path: str | os.PathLike[str], *, on_damage: OnDamage = "raise", max_decompressed_size: int = DEFAULT_LIMIT
) -> OpenedLog:
    """Open one segment, or all segments of a partition directory, as an object.

    Args:
        path: a .log file, a partition directory, a URI of one, or ``-``.
        on_damage: as in ``kdump.scan``.
        max_decompressed_size: bytes; a batch that decompresses to more is damage.

    Raises:
        KdumpError: the path cannot be read, or holds no segment.
        ValueError: a directory of several partitions.
    """
    (found,) = inputs_of([path], raise_error)
    named = found.path
    match found:
        case PathDirectory() as directory:
            folders = [folder for folder in directory.partitions(raise_error) if folder.names]
            if len(folders) > 1:
                raise ValueError(f"{named} is a directory of {len(folders)} partitions: open one of them")
            logs = [(log.path, log.base_offset) for log in directory.logs(raise_error)]
        case Stream():
            logs = [(named, None)]
        case LogSegment(base_offset=base_offset) as log:
            log.open().close()
            logs = [(named, base_offset)]
        case OtherFile() as file:
            raise file.error
        case Sibling():
            raise OtherFile(named).error
    return OpenedLog(named, logs, on_damage, max_decompressed_size)
