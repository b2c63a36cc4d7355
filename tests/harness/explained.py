"""Helpers of the tests of ``kdump.explain``: explain bytes, look at the lines."""

from __future__ import annotations

from collections.abc import Iterable

from kdump.explain import explain
from kdump.explain.layout import report
from kdump.explain.lines import Labelled, Line, Space, Statement, Tone
from kdump.explain.locate import MemorySource

NAME = "00000000000000000000.log"


def lines_of(data: bytes, position: int = 0, name: str = NAME) -> list[Line]:
    return list(explain(MemorySource(name, data), position))


def text_of(data: bytes, position: int = 0, name: str = NAME) -> str:
    return report(explain(MemorySource(name, data), position))


def statements(lines: Iterable[Line], tone: Tone) -> list[str]:
    return [line.text for line in lines if isinstance(line, Statement) and line.tone is tone]


def labelled(lines: Iterable[Line], space: Space = Space.FILE) -> list[Labelled]:
    return [line for line in lines if isinstance(line, Labelled) and line.space is space]


def named(lines: Iterable[Line], name: str) -> list[Labelled]:
    return [line for line in lines if isinstance(line, Labelled) and line.name == name]


def assert_tiles(lines: Iterable[Line], start: int, end: int, space: Space = Space.FILE) -> None:
    """Every byte from ``start`` to ``end`` is in exactly one labelled line, in the order of the file."""
    position = start
    for line in labelled(lines, space):
        assert line.position == position, f"{line.name} at {line.position}, {position} expected"
        assert line.end > position, f"{line.name} is empty"
        position = line.end
    assert position == end
