"""Structured dumps of many logs, in parts that can be made apart and put together again in order.

A large log is cut. Without ``--resync`` its dump ends at the first damage: whoever dumps the part in which it lies does
with the rest of the log what a dump of the whole log does, and the parts after that one are left out. Where a part does
not end at an entry of the log, as the cut was false, this process dumps the rest itself: no other process reads more
than its part, whatever a log holds.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import IntEnum
from itertools import pairwise, takewhile
from typing import Final, NamedTuple

from kdump.codes import KdumpError
from kdump.dump.output import DumpOptions
from kdump.dump.run import DumpRun, PartBounds, ReadLog
from kdump.dump.targets import Target
from kdump.log import files
from kdump.log.extents import Extent, LogCuts, split_starts
from kdump.log.offsetindex import rising_entries
from kdump.log.source import Source
from kdump.reading.printing import Emit, TextBytes
from kdump.reading.reporter import Reporter
from kdump.tasks.plaindata import PlainData
from kdump.tasks.slots import SLOT_BYTES
from kdump.tasks.splits import OPEN_COST, SPLIT_BYTES
from kdump.tasks.work import Packed, Work, Workplace

PART_BYTES: Final = 8 << 20
"""Bytes of a log that one process of several dumps at a time. Rows are many times as large, and wait for their turn."""
_PIECE_BYTES: Final = SLOT_BYTES - 1
"""One byte is put before it."""
_FEW_BYTES: Final = 1 << 16
"""Rows that come in fewer bytes are put together."""


class PieceKind(IntEnum):
    """What a piece is."""

    BEGIN = 0
    """A part begins."""
    ROWS = 1
    """Output."""
    ERROR = 2
    """A KdumpError, packed."""
    NOTE = 3
    """A line for standard error."""
    END = 4
    """A PartEnd, packed."""


class DumpPiece(NamedTuple):
    """A piece of what a part gave, in its order."""

    kind: PieceKind
    data: bytes | memoryview


_BEGIN: Final = DumpPiece(PieceKind.BEGIN, b"")


class PartEnd(NamedTuple):
    """How a part ended.

    ``is_over``: nothing of the log comes after it. ``rest``: what comes after it in place of the parts that were
    planned; None: these come. ``damaged``, ``unreadable``: for the exit status.
    """

    is_over: bool
    rest: Extent | None
    damaged: bool
    unreadable: bool
    read: ReadLog | None


_PACKED: Final = PlainData((Extent, PartEnd, ReadLog))


class DumpPart(NamedTuple):
    """A file, or what starts in a log at file positions ``first`` to ``last`` (exclusive).

    ``size``: of the file, as it was planned. ``last``: None for a file that is not cut. ``extent``: what is read; None:
    that is found in the log.
    """

    target: Target
    size: int
    first: int = 0
    last: int | None = None
    extent: Extent | None = None


def plan_dump(
    targets: Iterable[Target],
    *,
    task_bytes: int = SPLIT_BYTES,
    split_bytes: int | None = None,
    whole_partitions: bool = False,
) -> list[list[DumpPart]]:
    """Files in their order, put together until a task has ``task_bytes``.

    ``split_bytes``: logs that are larger are cut; None: none is. ``whole_partitions``: a task goes on to the last log
    of a directory. For ``read_committed``: where the end of a transaction is lost, what is open in one log depends on
    those that were read before it.
    """
    parts = [part for target in targets for part in _parts(target, split_bytes)]
    folders = [os.path.dirname(part.target.path) for part in parts]
    lasts = {folder: number for number, folder in enumerate(folders)} if whole_partitions else {}
    tasks: list[list[DumpPart]] = []
    room = 0
    last = 0
    for number, (part, folder) in enumerate(zip(parts, folders, strict=True)):
        size = _size(part) + OPEN_COST
        if not tasks or (size > room and number > last):
            tasks.append([])
            room = task_bytes
        tasks[-1].append(part)
        room -= size
        last = max(last, lasts.get(folder, 0))
    return tasks


def _parts(target: Target, split_bytes: int | None) -> Iterator[DumpPart]:
    try:
        size = files.size(target.path)
    except KdumpError:
        # Opening it will say what is wrong.
        size = 0
    starts = [] if split_bytes is None or not target.is_log or target.is_07 else split_starts(size, split_bytes)
    if len(starts) < 2:
        yield DumpPart(target, size)
        return
    yield from (DumpPart(target, size, first, last) for first, last in pairwise((*starts, size)))


def dump_work(
    paths: Iterable[str], options: DumpOptions, *, verbose: bool, logs: Sequence[str] = ()
) -> Work[DumpPart, DumpPiece]:
    """The dump of parts that were planned for ``paths``; ``logs``: see PartDump."""
    # Rows show relative paths as they were given.
    place = Workplace.of(paths)
    function = PartDump(options, verbose=verbose, logs=logs)
    return Work(function, _packed, _unpacked, place, lost=_died, size=_size, shared_file=_file_of, is_large=True)


def _file_of(part: DumpPart) -> str:
    return part.target.path


def _size(part: DumpPart) -> int:
    return part.size if part.last is None else part.last - part.first


def _packed(piece: DumpPiece) -> Packed:
    """Output is most of the result, and stays as it is."""
    return bytes((piece.kind,)), piece.data


def _unpacked(data: bytes | memoryview) -> DumpPiece:
    return DumpPiece(PieceKind(data[0]), data[1:])


def _died(part: DumpPart, count: int, error: KdumpError) -> Iterator[DumpPiece]:
    """The process was killed that dumped a part; see ``Work.lost``. The dump of its log ends there."""
    if not count:
        yield _BEGIN
    yield DumpPiece(PieceKind.ERROR, _PACKED.pack(error.located(part.target.path)))
    yield DumpPiece(PieceKind.END, _PACKED.pack(PartEnd(True, None, False, False, None)))


class PartDump:
    """Dumps one part after the other; it remembers what the dump of the next one can use.

    Args:
        options: of the dump.
        verbose: say of each log what was read and how.
        logs: all logs of the run in their order, to follow the transactions of a partition as one process does that
            dumps all of them; none: only from the log on that is dumped.
    """

    def __init__(self, options: DumpOptions, *, verbose: bool = False, logs: Sequence[str] = ()) -> None:
        self._options = options
        self._verbose = verbose
        self._logs = tuple(logs)
        self._run: DumpRun | None = None
        self._pieces: list[DumpPiece] = []
        self._rows = bytearray()
        self._path = ""
        self._cuts = LogCuts(())

    def __call__(self, part: DumpPart) -> Iterator[DumpPiece]:
        """The pieces of a part as they are made."""
        yield _BEGIN
        if self._run is None:
            self._run = DumpRun(
                self._options,
                self._emit,
                Reporter(self._show_error, self._complain, verbose=self._verbose),
                is_first=False,
            )
        run, target = self._run, part.target
        run.damaged = run.unreadable = False
        if part.first == 0 or target.path != self._path:
            self._begin_log(run, target)
        for _ in run.steps(target, None if part.last is None else self._bounds(part)):
            yield from self._taken()
        self._flush()
        yield from self._taken()
        end = PartEnd(run.is_over, run.rest, run.damaged, run.unreadable, run.read)
        yield DumpPiece(PieceKind.END, _PACKED.pack(end))

    def _begin_log(self, run: DumpRun, target: Target) -> None:
        self._path = target.path
        self._cuts = LogCuts(rising_entries(target.path, target.base_offset) if target.is_log else ())
        folder = os.path.dirname(target.path)
        for path in takewhile(lambda path: path != target.path, self._logs):
            if os.path.dirname(path) == folder:
                run.pass_over(path)

    def _bounds(self, part: DumpPart) -> PartBounds:
        def extent(source: Source) -> Extent:
            assert part.last is not None, "the log is cut"
            if part.extent is not None:
                return part.extent
            return self._cuts.extent(source, part.first, part.last)

        return PartBounds(part.size, extent)

    def _emit(self, text: TextBytes) -> None:
        if len(text) < _FEW_BYTES:
            self._rows += text
            if len(self._rows) < _PIECE_BYTES - _FEW_BYTES:
                return
            text = b""
        self._flush()
        view = memoryview(text)
        for first in range(0, len(view), _PIECE_BYTES):
            self._pieces.append(DumpPiece(PieceKind.ROWS, view[first : first + _PIECE_BYTES]))

    def _flush(self) -> None:
        if self._rows:
            self._pieces.append(DumpPiece(PieceKind.ROWS, bytes(self._rows)))
            self._rows.clear()

    def _taken(self) -> Iterator[DumpPiece]:
        yield from self._pieces
        self._pieces.clear()

    def _show_error(self, error: KdumpError) -> None:
        self._flush()
        self._pieces.append(DumpPiece(PieceKind.ERROR, _PACKED.pack(error)))

    def _complain(self, line: str) -> None:
        self._flush()
        self._pieces.append(DumpPiece(PieceKind.NOTE, line.encode("utf-8", "surrogateescape")))


class CollectedRun:
    """Takes the pieces of all parts, in order, to where a run in this process would have put them.

    Args:
        run: the run in this process.
        emit: takes rows for stdout; they do not stay when it has returned.
        parts: all of them, in order.
        dump: dumps a part in this process.
    """

    def __init__(
        self,
        run: DumpRun,
        emit: Emit,
        parts: Iterable[DumpPart],
        dump: Callable[[DumpPart], Iterable[DumpPiece]],
    ) -> None:
        self._run = run
        self._emit = emit
        self._parts = iter(parts)
        self._dump = dump
        self._notes: set[str] = set()
        self._part: DumpPart
        self._read: ReadLog | None = None
        self._is_over = False

    def take(self, piece: DumpPiece) -> None:
        """The next one."""
        if piece.kind is PieceKind.BEGIN:
            self._part = next(self._parts)
            if self._part.first == 0:
                self._read, self._is_over = None, False
        elif not self._is_over:
            self._take(piece)

    def _take(self, piece: DumpPiece) -> None:
        match piece.kind:
            case PieceKind.ROWS:
                self._emit(piece.data)
            case PieceKind.ERROR:
                self._run.fail(_PACKED.unpack(piece.data))
            case PieceKind.NOTE:
                # Each process says of a partition what one run says once.
                line = bytes(piece.data).decode("utf-8", "surrogateescape")
                if line not in self._notes:
                    self._notes.add(line)
                    self._run.reporter.complain(line)
            case PieceKind.END:
                self._end(_PACKED.unpack(piece.data))

    def _end(self, end: PartEnd) -> None:
        self._run.damaged |= end.damaged
        self._run.unreadable |= end.unreadable
        if end.read is not None:
            self._read = end.read if self._read is None else self._read.followed_by(end.read)
        self._is_over = end.is_over
        if end.is_over and self._read is not None:
            self._run.sum_up(self._part.target.path, self._read)
        if end.rest is not None:
            for piece in self._dump(self._part._replace(extent=end.rest)):
                self._take(piece)
