"""Structured dumps of many logs, in pieces that are made apart and joined in order.

A log is not cut here: without ``--resync`` its dump ends at the first damage.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from enum import IntEnum
from functools import partial
from typing import Final, NamedTuple

from kdump.codes import KdumpError
from kdump.dump.output import DumpOptions
from kdump.dump.run import DumpRun
from kdump.dump.targets import target_of
from kdump.log import files
from kdump.log.paths import file_by_name
from kdump.reading.printing import Emit
from kdump.reading.reporter import Reporter
from kdump.tasks.plaindata import PlainData
from kdump.tasks.splits import OPEN_COST, SPLIT_BYTES
from kdump.tasks.work import Work, Workplace

_PIECE_BYTES: Final = 1 << 20
_ERROR: Final = PlainData(())


class PieceKind(IntEnum):
    """What a piece is."""

    ROWS = 0
    """Output."""
    ERROR = 1
    """A KdumpError, packed."""
    NOTE = 2
    """A line for standard error."""
    STATUS = 3
    """A JSON array of two: the run met damage, the run met something unreadable."""


class DumpPiece(NamedTuple):
    """A part of the result of a task, in its order."""

    kind: PieceKind
    data: bytes


class DumpTask(NamedTuple):
    """Logs that are dumped one after the other. ``is_first``: nothing comes before them."""

    paths: tuple[str, ...]
    is_first: bool


def plan_dump(paths: Iterable[str], *, task_bytes: int = SPLIT_BYTES, whole_partitions: bool = False) -> list[DumpTask]:
    """Logs in their order, put together until a task has ``task_bytes``.

    ``whole_partitions``: a task ends only after the last log of a directory. ``read_committed`` needs it: where the end
    of a transaction is lost, what is open in one log depends on the logs before it.
    """
    paths = list(paths)
    lasts = {os.path.dirname(path): number for number, path in enumerate(paths)} if whole_partitions else {}
    tasks: list[list[str]] = []
    room = 0
    last = 0
    for number, path in enumerate(paths):
        try:
            size = files.size(path) + OPEN_COST
        except KdumpError:
            # Opening it reports what is wrong.
            size = OPEN_COST
        if not tasks or (size > room and number > last):
            tasks.append([])
            room = task_bytes
        tasks[-1].append(path)
        room -= size
        last = max(last, lasts.get(os.path.dirname(path), 0))
    return [DumpTask(tuple(task), not number) for number, task in enumerate(tasks)]


def dump_work(paths: Iterable[str], options: DumpOptions, *, verbose: bool) -> Work[DumpTask, DumpPiece]:
    """The dump of tasks that were planned for ``paths``."""
    function = partial(dump_task, options=options, verbose=verbose)
    # Rows show relative paths as they were given.
    return Work(function, _packed, _unpacked, Workplace.of(paths), is_large=True)


def _packed(piece: DumpPiece) -> bytes:
    """A piece as bytes. Most of the result is output, which stays as it is after one byte."""
    return b"%c%b" % (piece.kind, piece.data)


def _unpacked(data: bytes) -> DumpPiece:
    return DumpPiece(PieceKind(data[0]), data[1:])


def dump_task(task: DumpTask, options: DumpOptions, *, verbose: bool = False) -> Iterator[DumpPiece]:
    """The pieces of a task as they are made."""
    pieces: list[DumpPiece] = []
    held = bytearray()

    def flush() -> None:
        if held:
            pieces.append(DumpPiece(PieceKind.ROWS, bytes(held)))
            held.clear()

    def show_error(error: KdumpError) -> None:
        flush()
        pieces.append(DumpPiece(PieceKind.ERROR, _ERROR.pack(error)))

    def complain(line: str) -> None:
        flush()
        pieces.append(DumpPiece(PieceKind.NOTE, line.encode("utf-8", "surrogateescape")))

    run = DumpRun(options, held.extend, Reporter(show_error, complain, verbose=verbose), is_first=task.is_first)
    for path in task.paths:
        file = file_by_name(path)
        if file is None:
            continue
        for _ in run.steps(target_of(file)):
            if len(held) >= _PIECE_BYTES:
                flush()
            yield from pieces
            pieces.clear()
    flush()
    yield from pieces
    yield DumpPiece(PieceKind.STATUS, json.dumps([run.damaged, run.unreadable]).encode())


class CollectedRun:
    """Takes the pieces of all tasks, in order, to where a run in this process would have put them."""

    def __init__(self, run: DumpRun, emit: Emit) -> None:
        self._run = run
        self._emit = emit
        self._notes: set[bytes] = set()

    def take(self, piece: DumpPiece) -> None:
        """The next one."""
        match piece.kind:
            case PieceKind.ROWS:
                self._emit(piece.data)
            case PieceKind.ERROR:
                self._run.fail(_ERROR.unpack(piece.data))
            case PieceKind.NOTE:
                # Each task reports about a partition what one run reports once.
                if piece.data not in self._notes:
                    self._notes.add(piece.data)
                    self._run.reporter.complain(piece.data.decode("utf-8", "surrogateescape"))
            case PieceKind.STATUS:
                damaged, unreadable = json.loads(piece.data)
                self._run.damaged |= damaged
                self._run.unreadable |= unreadable
