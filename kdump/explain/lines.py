"""What an explanation is made of: labelled bytes, bit fields, statements.

Renderers (``kdump.explain.layout`` and those that use it) know nothing of Kafka. All other modules make these lines.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple, TypeAlias

from kdump.explain.values import count
from kdump.wire.checksum import Buffer

Layout: TypeAlias = tuple[tuple[str, int], ...]
"""The names and sizes of integers that follow one another."""


class Space(Enum):
    """What a position counts."""

    FILE = auto()
    PAYLOAD = auto()
    """The decompressed records of one batch or wrapper."""


class Tone(Enum):
    """What a statement is about."""

    TITLE = auto()
    GROUP = auto()
    TEXT = auto()
    DAMAGE = auto()
    KAFKA = auto()
    """What Kafka's own code does at this place."""


@dataclass(frozen=True, slots=True)
class Labelled:
    """A byte range and what it is.

    ``data`` are the bytes at ``position``. The bytes of a summary, which stands for several fields, are not shown.
    ``is_target``: the requested position is in it. ``is_covered``: the entry's CRC covers it.
    """

    position: int
    data: Buffer
    name: str
    value: str
    note: str = ""
    space: Space = Space.FILE
    is_covered: bool = False
    is_target: bool = False
    is_damaged: bool = False
    is_summary: bool = False

    @property
    def end(self) -> int:
        """The position after the last byte."""
        return self.position + len(self.data)


@dataclass(frozen=True, slots=True)
class Bits:
    """Some bits of the field above: ``pattern`` has a dot for every bit that belongs to other fields."""

    pattern: str
    name: str
    value: str
    is_covered: bool = False
    is_damaged: bool = False


@dataclass(frozen=True, slots=True)
class Statement:
    """One or more sentences."""

    tone: Tone
    text: str


Line: TypeAlias = Labelled | Bits | Statement


class Labeller:
    """Makes labelled lines of one buffer.

    Args:
        data: the buffer; every ``start`` and ``end`` of the methods is an index into it.
        position: of its first byte, in ``space``.
        covered: the indexes that a CRC covers.
        target: the requested file position.
        suspect: index of the byte that the CRC proves wrong.
        space: what positions count.
    """

    def __init__(
        self,
        data: memoryview,
        position: int = 0,
        *,
        covered: range = range(0),
        target: int | None = None,
        suspect: int | None = None,
        space: Space = Space.FILE,
    ) -> None:
        self.data = data
        self.position = position
        self.target = target if space is Space.FILE else None
        self.space = space
        self._covered = covered
        self._suspect = suspect

    def at(self, index: int) -> int:
        """The position of an index."""
        return self.position + index

    def holds_target(self, start: int, end: int) -> bool:
        """Whether the requested position is one of these bytes."""
        return self.target is not None and start <= self.target - self.position < end

    def holds_suspect(self, start: int, end: int) -> bool:
        """Whether the byte that the CRC proves wrong is one of these."""
        return self._suspect is not None and start <= self._suspect < end

    @property
    def interest(self) -> list[int]:
        """The indexes of the requested position and of the byte that the CRC proves wrong."""
        target = None if self.target is None else self.target - self.position
        return [index for index in (target, self._suspect) if index is not None]

    def is_covered(self, index: int) -> bool:
        """Whether the CRC covers the byte."""
        return index in self._covered

    def field(
        self,
        start: int,
        end: int,
        name: str,
        value: str = "",
        note: str = "",
        *,
        is_damaged: bool = False,
        is_summary: bool = False,
    ) -> Labelled:
        """The line of ``data[start:end]``."""
        return Labelled(
            self.position + start,
            self.data[start:end],
            name,
            value,
            note,
            space=self.space,
            is_covered=start in self._covered,
            is_target=self.holds_target(start, end),
            is_damaged=is_damaged or self.holds_suspect(start, end),
            is_summary=is_summary,
        )

    def bits(self, index: int, size: int, masks: dict[str, tuple[int, str]]) -> Iterator[Bits]:
        """Lines of the bit fields in the ``size`` bytes at ``index``: name to (mask, value as text)."""
        number = int.from_bytes(self.data[index : index + size], "big")
        for name, (mask, value) in masks.items():
            yield Bits(_pattern(number, mask, 8 * size), name, value, is_covered=self.is_covered(index))


class FixedField(NamedTuple):
    """An integer at ``data[start:end]``; ``cut``: how much of it is there where the bytes end in it, else ''."""

    name: str
    start: int
    end: int
    number: int
    cut: str

    @property
    def value(self) -> str:
        """The number as text; '' for one that is cut."""
        return "" if self.cut else str(self.number)


def fixed_fields(data: memoryview, layout: Layout, start: int = 0) -> Iterator[FixedField]:
    """The integers that follow one another from ``start`` on, as far as they are there."""
    for name, size in layout:
        end = min(start + size, len(data))
        if start >= end:
            return
        number = int.from_bytes(data[start:end], "big", signed=name != "crc")
        cut = "" if end - start == size else f"cut: {end - start} of {count(size, 'byte')}"
        yield FixedField(name, start, end, number, cut)
        start = end


def _pattern(number: int, mask: int, width: int) -> str:
    bits = "".join(str(number >> place & 1) if mask >> place & 1 else "." for place in range(width - 1, -1, -1))
    return " ".join(bits[start : start + 8] for start in range(0, width, 8))


class StuckError(Exception):
    """The bytes cannot be read from index ``start`` of the buffer on.

    ``kafka``: what Kafka's code does there, '' if nobody measured it. ``blamed``: the name of the field whose number
    does not fit, None if the bytes at ``start`` are wrong themselves.
    """

    def __init__(self, start: int, reason: str, kafka: str = "", *, blamed: str | None = None) -> None:
        super().__init__(reason)
        self.start = start
        self.reason = reason
        self.kafka = kafka
        self.blamed = blamed
