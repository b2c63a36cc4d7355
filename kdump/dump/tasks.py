"""Structured dumps of many files on Spark: each is dumped apart, and put together again in order."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import Final, NamedTuple

from kdump.codes import KdumpError
from kdump.dump.output import DumpOptions
from kdump.dump.run import DumpRun, ReadLog
from kdump.dump.targets import Target
from kdump.log import files
from kdump.reading.printing import Emit, TextBytes
from kdump.reading.reporter import Reporter
from kdump.tasks.logs import OPEN_COST, TASK_BYTES
from kdump.tasks.plaindata import PlainData
from kdump.tasks.work import Work, Workplace

_PIECE_BYTES: Final = 4 << 20
_FEW_BYTES: Final = 1 << 16
"""Rows that come in fewer bytes are put together."""


class PieceKind(IntEnum):
    """What a piece is."""

    BEGIN = 0
    """A file begins."""
    ROWS = 1
    """Output."""
    ERROR = 2
    """A KdumpError, packed."""
    NOTE = 3
    """A line for standard error."""
    END = 4
    """The dump of a file is over. Packed: whether it is damaged, and unreadable, and the ReadLog, if it is a log."""


class DumpPiece(NamedTuple):
    """A piece of what the dump of a file gave, in its order."""

    kind: PieceKind
    data: bytes | memoryview


_BEGIN: Final = DumpPiece(PieceKind.BEGIN, b"")


_PACKED: Final = PlainData((ReadLog,))


def plan_dump(
    targets: Iterable[Target], *, task_bytes: int = TASK_BYTES, whole_partitions: bool = False
) -> list[list[Target]]:
    """Files in their order, put together until a task has ``task_bytes``.

    ``whole_partitions``: a task goes on to the last log of a directory. For ``read_committed``: where the end of a
    transaction is lost, what is open in one log depends on those that were read before it.
    """
    targets = list(targets)
    folders = [os.path.dirname(target.path) for target in targets]
    lasts = {folder: number for number, folder in enumerate(folders)} if whole_partitions else {}
    tasks: list[list[Target]] = []
    room = 0
    last = 0
    for number, (target, folder) in enumerate(zip(targets, folders, strict=True)):
        size = _size(target) + OPEN_COST
        if not tasks or (size > room and number > last):
            tasks.append([])
            room = task_bytes
        tasks[-1].append(target)
        room -= size
        last = max(last, lasts.get(folder, 0))
    return tasks


def _size(target: Target) -> int:
    try:
        return files.size(target.path)
    except KdumpError:
        # Opening it will say what is wrong.
        return 0


def dump_work(paths: Iterable[str], options: DumpOptions, *, verbose: bool) -> Work[Target, DumpPiece]:
    """The dump of files that were planned for ``paths``."""
    # Rows show relative paths as they were given.
    return Work(FileDump(options, verbose=verbose), _packed, _unpacked, Workplace.of(paths), is_large=True)


def _packed(piece: DumpPiece) -> bytes:
    """Output is most of the result, and stays as it is."""
    return b"".join((bytes((piece.kind,)), piece.data))


def _unpacked(data: bytes) -> DumpPiece:
    return DumpPiece(PieceKind(data[0]), memoryview(data)[1:])


class FileDump:
    """Dumps one file after the other; it remembers what the dump of the next one can use.

    Args:
        options: of the dump.
        verbose: say of each log what was read and how.
    """

    def __init__(self, options: DumpOptions, *, verbose: bool = False) -> None:
        self._options = options
        self._verbose = verbose
        self._run: DumpRun | None = None
        self._pieces: list[DumpPiece] = []
        self._rows = bytearray()

    def __call__(self, target: Target) -> Iterator[DumpPiece]:
        """The pieces of a file as they are made."""
        yield _BEGIN
        if self._run is None:
            reporter = Reporter(self._show_error, self._complain, verbose=self._verbose)
            self._run = DumpRun(self._options, self._emit, reporter, is_first=False)
        run = self._run
        run.damaged = run.unreadable = False
        for _ in run.steps(target):
            yield from self._taken()
        self._flush()
        yield from self._taken()
        yield DumpPiece(PieceKind.END, _PACKED.pack((run.damaged, run.unreadable, run.read)))

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
    """Takes the pieces of all files, in order, to where a run in this process would have put them.

    Args:
        run: the run in this process.
        emit: takes rows for stdout; they do not stay when it has returned.
        targets: all of them, in order.
    """

    def __init__(self, run: DumpRun, emit: Emit, targets: Iterable[Target]) -> None:
        self._run = run
        self._emit = emit
        self._targets = iter(targets)
        self._notes: set[str] = set()
        self._target: Target

    def take(self, piece: DumpPiece) -> None:
        """The next one."""
        match piece.kind:
            case PieceKind.BEGIN:
                self._target = next(self._targets)
            case PieceKind.ROWS:
                self._emit(piece.data)
            case PieceKind.ERROR:
                self._run.fail(_PACKED.unpack(bytes(piece.data)))
            case PieceKind.NOTE:
                # Each task says of a partition what one run says once.
                line = bytes(piece.data).decode("utf-8", "surrogateescape")
                if line not in self._notes:
                    self._notes.add(line)
                    self._run.reporter.complain(line)
            case PieceKind.END:
                damaged, unreadable, read = _PACKED.unpack(bytes(piece.data))
                self._run.damaged |= damaged
                self._run.unreadable |= unreadable
                if read is not None:
                    self._run.sum_up(self._target.path, read)
