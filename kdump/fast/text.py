"""Lines of text from columns.

A line is a row of columns (literal, integer, choice, bytes). Neighbouring columns whose text has the same length in all
rows are written together as a matrix; all others are byte ranges of different sizes. All lengths are known before
anything is written, so every piece goes straight to its place in one buffer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kdump.fast.digits import Field, FixedDigits, format_integers, write_fields
from kdump.fast.ragged import LARGEST_WINDOW, copy_ranges, copy_windows, windows

_WIDEST_FIELD: Final = 64
"""Columns of one size up to this many bytes become part of the fixed text around them."""
_FEW_ROWS: Final = 64
"""Up to this many rows are joined one by one: for each column numpy calls take 20 us, and a value 0.2 us."""


@dataclass(frozen=True, slots=True)
class Literal:
    """The same text in every line."""

    text: bytes


@dataclass(frozen=True, slots=True)
class Integer:
    """Decimal numbers; shape (rows,)."""

    values: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Choice:
    """One of a few texts; ``index`` (of shape (rows,), integer or bool) into ``options``."""

    index: NDArray[np.integer | np.bool_]
    options: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Bytes:
    """``source[start:start + size]`` as it is; nothing where the size is 0 or less. Shape (rows,)."""

    source: NDArray[np.uint8]
    start: NDArray[np.int64]
    size: NDArray[np.integer]


Column = Literal | Integer | Choice | Bytes


@dataclass(frozen=True, slots=True)
class RaggedText:
    """Pieces of text, one after the other in one buffer."""

    data: NDArray[np.uint8]
    bounds: NDArray[np.int64]
    """Shape (pieces + 1,): piece i is ``data[bounds[i]:bounds[i + 1]]``."""

    @classmethod
    def join(cls, pieces: Sequence[bytes]) -> RaggedText:
        """Join separate pieces."""
        data = np.frombuffer(b"".join(pieces), np.uint8)
        return cls(data, np.fromiter(accumulate(map(len, pieces), initial=0), np.int64, len(pieces) + 1))

    def split(self) -> list[bytes]:
        """The pieces as separate bytes objects."""
        whole = self.data.tobytes()
        return [whole[first:last] for first, last in pairwise(self.bounds.tolist())]


class _Fixed:
    """Columns in a row whose text has the same length in all rows."""

    def __init__(self, template: bytes, fields: list[Field] | None = None) -> None:
        self.template = template
        self.fields = fields or []
        self.size = self.smallest = len(template)

    def __add__(self, other: _Fixed) -> _Fixed:
        """Both, one after the other."""
        fields = self.fields + [(self.size + place, field) for place, field in other.fields]
        return _Fixed(self.template + other.template, fields)

    def rows(self, count: int) -> NDArray[np.void]:
        """The text of all rows, an element a row."""
        lines = np.empty(count, np.dtype((np.void, self.size)))
        lines[:] = np.void(self.template)
        write_fields(lines.view(np.uint8).reshape(count, self.size), self.fields)
        return lines

    def write(self, target: NDArray[np.uint8], at: NDArray[np.int64], room: int) -> None:
        """Write every row's text to its place ``at`` in ``target``."""
        if self.fields:
            windows(target, self.size)[at] = self.rows(at.size)
        elif self.size == 1:
            target[at] = self.template[0]
        else:
            windows(target, self.size)[at] = np.void(self.template)


class _Pieces:
    """``source[start:start + size]`` of each row; sizes are not negative.

    Where ``elements`` is given, each is a row's piece aligned to the right.
    """

    def __init__(
        self,
        source: NDArray[np.uint8],
        start: NDArray[np.int64],
        size: NDArray[np.int64],
        elements: NDArray[np.void] | None = None,
    ) -> None:
        self.source = source
        self.start = start
        self.size = size
        self.smallest, self.largest = int(size.min()), int(size.max())
        self.elements = elements

    def write(self, target: NDArray[np.uint8], at: NDArray[np.int64], room: int) -> None:
        """Copy every row's piece to its place ``at`` in ``target``.

        ``room``: bytes in front of it, in every row, that will be written later. If all pieces are about as long,
        as many bytes as the longest has are copied for each, up to its end; what is too much falls there.
        """
        if not self.largest:
            return
        if self.elements is not None and self.elements.itemsize - self.smallest <= room:
            width = self.elements.itemsize
            windows(target, width)[at + (self.size - width)] = self.elements
            return
        width = self.largest
        start = self.start + (self.size - width)
        if width - self.smallest <= room and width <= LARGEST_WINDOW and start.min() >= 0:
            copy_windows(self.source, start, width, target, at + (self.size - width))
        else:
            copy_ranges(self.source, self.start, self.size, target, at)


_Part = _Fixed | _Pieces


def assemble(columns: Sequence[Column], rows: int) -> RaggedText:
    """Write ``rows`` lines made of ``columns``. The end of a line is a column like any other."""
    if not rows:
        return RaggedText.join([])
    if rows <= _FEW_ROWS:
        return RaggedText.join(list(map(b"".join, zip(*[_texts(column, rows) for column in columns], strict=True))))
    parts = _parts(columns)
    if len(parts) == 1 and isinstance(parts[0], _Fixed):
        bounds = np.arange(rows + 1, dtype=np.int64) * parts[0].size
        return RaggedText(parts[0].rows(rows).view(np.uint8), bounds)
    bounds = np.zeros(rows + 1, np.int64)
    length = bounds[1:]
    for part in parts:
        length += part.size
    np.cumsum(length, out=length)
    target = np.empty(int(bounds[-1]), np.uint8)
    at = bounds[1:].copy()
    # From right to left: a part may spill into the room in front of it, which is written later.
    room = sum(part.smallest for part in parts)
    for part in reversed(parts):
        at -= part.size
        room -= part.smallest
        part.write(target, at, room)
    return RaggedText(target, bounds)


def _texts(column: Column, rows: int) -> Iterable[bytes]:
    """The text of one column in each row."""
    match column:
        case Literal(text):
            return [text] * rows
        case Integer(values):
            return [b"%d" % value for value in values.tolist()]
        case Choice(index, options):
            return [options[number] for number in index.tolist()]
        case Bytes(source, start, size):
            end = np.where(size > 0, start + size, 0)
            if end.max() > source.size:
                raise IndexError(f"a piece leaves its source of {source.size} bytes")
            return [source[first:last].tobytes() for first, last in zip(start.tolist(), end.tolist(), strict=True)]


def _parts(columns: Sequence[Column]) -> list[_Part]:
    """The columns as runs of fixed text and, between them, pieces of different lengths."""
    parts: list[_Part] = []
    for column in columns:
        part = _part(column)
        previous = parts[-1] if parts else None
        if isinstance(part, _Fixed) and isinstance(previous, _Fixed):
            parts[-1] = previous + part
        elif isinstance(part, _Pieces) or part.size:
            parts.append(part)
    return parts


def _part(column: Column) -> _Part:
    """What one column contributes."""
    match column:
        case Literal(text):
            return _Fixed(text)
        case Integer(values):
            digits = format_integers(values)
            if isinstance(digits, FixedDigits):
                return _Fixed(digits.template, digits.fields)
            count, width = digits.matrix.shape
            start = np.arange(width, width * (count + 1), width) - digits.size
            elements = digits.matrix.view(np.dtype((np.void, width))).reshape(-1)
            return _Pieces(digits.matrix.reshape(-1), start, digits.size, elements)
        case Choice(index, options):
            number = index.astype(np.intp)
            first, last = int(number.min()), int(number.max())
            if first == last:
                return _Fixed(options[first])
            texts = RaggedText.join(options)
            return _Pieces(texts.data, texts.bounds[number], np.diff(texts.bounds)[number])
        case Bytes(source, start, size):
            smallest, largest = int(size.min()), int(size.max())
            if largest <= 0:
                return _Fixed(b"")
            if smallest == largest <= _WIDEST_FIELD:
                return _Fixed(bytes(largest), [(0, windows(source, largest)[start])])
            return _Pieces(source, start, np.maximum(size, 0).astype(np.int64, copy=False))
