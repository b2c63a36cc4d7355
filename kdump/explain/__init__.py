"""A position in a file as labelled bytes: ``kdump dump --explain POSITION FILE``.

``explain`` yields lines, ``layout.report`` renders them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from kdump.explain.entries import KINDS, entry_lines
from kdump.explain.lines import Labelled, Labeller, Line, Statement, Tone
from kdump.explain.locate import seekable
from kdump.explain.log import log_lines
from kdump.explain.values import count, escaped
from kdump.log.names import parse_file_name
from kdump.log.source import Source
from kdump.wire.compression import DEFAULT_LIMIT
from kdump.worlds import World

if TYPE_CHECKING:
    from kdump.log.filetypes import FileType
    from kdump.payloads.decoded import RecordDecoder

_RAW_SHOWN: Final = 32
"""How many bytes of a file of another type are shown."""


class WorldExplanation(Protocol):
    """How the bytes of another world are explained: the module ``explain`` of its package."""

    def log_lines(self, source: Source, position: int, size: int, limit: int) -> Iterator[Line]:
        """Everything about a position of a log, see ``log.log_lines``."""

    def frame_lines(self, kind: str, source: Source, position: int, limit: int) -> Iterator[Line]:
        """The saved request or response that covers a position of a file of them; ``kind``: of the requests."""

    def place_of(self, paths: Sequence[str], offset: int) -> tuple[str, int]:
        """The log and the position in it of an offset.

        Args:
            paths: the logs of one partition.
            offset: at least 0.

        Raises:
            KdumpError: MISSING where none of them has it.
        """


def explain(
    source: Source,
    position: int,
    *,
    limit: int = DEFAULT_LIMIT,
    world: World | None = None,
    frame: str | None = None,
    decoder: RecordDecoder | None = None,
) -> Iterator[Line]:
    """The lines about ``position``: of a log the whole entry that covers it, of an index or a snapshot one entry.

    Args:
        source: the file. Its name tells its kind; a file that is no index and no snapshot counts as a log.
        position: a file position, at least 0.
        limit: most bytes to which a batch may decompress, and that a stream may have.
        world: whose file it is; None: that of its name.
        frame: the file holds saved requests of the world of this kind, or responses to them; None: it is no such file.
        decoder: of the keys and values of a batch that is explained in full.

    Raises:
        KdumpError: UNREADABLE.
        ValueError: a position below 0.
    """
    if position < 0:
        raise ValueError(f"position {position}")
    source = seekable(source, limit)
    size = source.size or 0
    yield Statement(Tone.TITLE, f"{escaped(source.path)}: byte {position} of {size:,}")
    if size == 0:
        yield Statement(Tone.TEXT, "The file is empty.")
        return
    if position >= size:
        yield Statement(
            Tone.TEXT, f"Byte {position} is beyond the end: the file has {count(size, 'byte')}, 0 to {size - 1}."
        )
        return
    name = parse_file_name(source.path)
    world = world or (None if name is None else name.world)
    if world is not None:
        explanation: WorldExplanation = world.answer("explain")
        if frame is None:
            yield from explanation.log_lines(source, position, size, limit)
        else:
            yield from explanation.frame_lines(frame, source, position, limit)
    elif name is not None and name.kind in KINDS:
        yield from entry_lines(source, name.kind, position, size, name.base_offset)
    elif (foreign := _foreign(source)) is not None:
        yield Statement(Tone.DAMAGE, f"The file is {escaped(foreign.message(source.path))}")
        data = memoryview(source.read(position, _RAW_SHOWN))
        yield Labeller(data, position, target=position).field(0, len(data), "bytes", count(len(data), "byte"))
    else:
        yield from log_lines(source, position, size, limit, decoder)


def _foreign(source: Source) -> FileType | None:
    from kdump.log.filetypes import identify  # repair corrects bits with this package and hardly ever needs it

    return identify(source)


def is_damage(line: Line) -> bool:
    """Whether a line shows damage."""
    if isinstance(line, Labelled):
        return line.is_damaged
    return isinstance(line, Statement) and line.tone is Tone.DAMAGE
