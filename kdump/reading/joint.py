"""Small logs that a run shows one after the other: their records are decoded and printed at once.

A call of numpy costs as much for a few records as for thousands, so logs of some hundred kilobytes would take twice the
time of one log of their size. It only accepts: a log of which more is to be said than its records is shown by itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Final, Generic, NamedTuple

from kdump.codes import KdumpError
from kdump.log.context import FileContext
from kdump.log.source import Source
from kdump.log.walk import Chunk, whole_chunk
from kdump.reading.printing import BlockPrinter, RowsT

if TYPE_CHECKING:
    from kdump.fast.blocks import BlockReader
    from kdump.reading.jointrows import JointRows

_SMALL: Final = 1 << 20
"""Bytes of the largest log that is shown with others."""
_MOST_LOGS: Final = 128
"""Logs that are open at a time."""


class JointLog(NamedTuple, Generic[RowsT]):
    """A log whose rows are made."""

    chunk: Chunk
    """All of it."""
    shown: list[JointRows[RowsT]]


class JointLogs(Generic[RowsT]):
    """The logs that come next, some of which are read before they are asked for.

    Args:
        paths: of the logs, in their order.
        opened: opens one of them.
        enough: bytes that are decoded together.
    """

    def __init__(self, paths: Iterable[str], opened: Callable[[str], Source], enough: int) -> None:
        self._coming = deque(paths)
        self._open = opened
        self._enough = enough
        self._opened: dict[str, Source] = {}
        self._made: dict[Source, JointLog[RowsT]] = {}

    def take(self, path: str) -> Source | None:
        """The log that is asked for, if it is open already. What came before it comes no more."""
        source = self._opened.pop(path, None)
        while source is None and self._coming and self._coming.popleft() != path:
            pass
        return source

    def close(self) -> None:
        """Close what nobody asked for."""
        for source in self._opened.values():
            source.close()
        self._opened.clear()
        self._made.clear()

    @property
    def are_coming(self) -> bool:
        """More logs follow."""
        return bool(self._coming)

    def made(self, source: Source) -> JointLog[RowsT] | None:
        """The rows of a log that ``take`` gave, if they are made already."""
        return self._made.pop(source, None)

    def make(
        self, source: Source, chunk: Chunk, reader: BlockReader, printer: BlockPrinter[RowsT]
    ) -> JointLog[RowsT] | None:
        """Make the rows of a log, of which ``chunk`` is all, and of those after it; None: it is shown by itself."""
        from kdump.reading.jointrows import joint_rows

        if chunk.end > _SMALL or self._opened or not self._coming:
            # Those that are open come before any others. Without others there is nothing to join.
            return None
        self._data[: chunk.end] = chunk.data[: chunk.end]
        logs = [(source, chunk), *self._read(chunk.end)]
        if len(logs) > 1:
            contexts = tuple(FileContext.of(one.path) for one, _ in logs)
            made = joint_rows(self._data, [chunk for _, chunk in logs], contexts, reader, printer)
            self._made = {
                one: JointLog(chunk, shown) for (one, chunk), shown in zip(logs, made, strict=True) if shown is not None
            }
        return self.made(source)

    @cached_property
    def _data(self) -> memoryview:
        """The buffer. Its last log may begin just before there is enough."""
        return memoryview(bytearray(self._enough + _SMALL))

    def _read(self, filled: int) -> Iterator[tuple[Source, Chunk]]:
        """The small logs that come next, one after the other in the buffer, up to one that is shown by itself."""
        while filled < self._enough and self._coming and len(self._opened) < _MOST_LOGS:
            try:
                source = self._open(self._coming[0])
            except KdumpError:
                # Who asks for it is told.
                return
            self._opened[self._coming.popleft()] = source
            if source.size is None or source.size > _SMALL or source.first_offset is not None:
                return
            data = self._data[filled : filled + source.size]
            try:
                if source.read_into(data, 0) < source.size:
                    return
            except KdumpError:
                return
            chunk = whole_chunk(data)
            if chunk is None:
                return
            yield source, chunk
            filled += source.size
