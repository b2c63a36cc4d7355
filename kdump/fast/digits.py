"""Decimal digits of integer columns, by table, without a Python string for each number.

What all rows of a column share (sign, number of digits, leading digits) is found from its minimum and maximum, and
becomes fixed text. Only the digits that differ are written, four at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray


def _digit_table(digits: int) -> NDArray[Any]:
    """Element i: the ``digits`` characters of i with leading zeros, as one unsigned integer of that many bytes."""
    numbers = np.arange(10**digits)
    characters = np.stack([numbers // 10 ** (digits - 1 - at) % 10 + ord("0") for at in range(digits)], axis=1)
    return np.ascontiguousarray(characters, np.uint8).view(f"u{digits}").ravel()


_TABLES: Final = {digits: _digit_table(digits) for digits in (1, 2, 4)}

Field = tuple[int, NDArray[Any]]
"""Place (characters from the left) and its text in every row: unsigned integers of 1, 2 or 4 bytes, shape (rows,)."""


@dataclass(frozen=True, slots=True)
class FixedDigits:
    """A column whose numbers all have the same number of characters."""

    template: bytes
    """The text of a row; the places of ``fields`` are filled with anything."""
    fields: list[Field]


@dataclass(frozen=True, slots=True)
class RaggedDigits:
    """A column of numbers of different lengths."""

    matrix: NDArray[np.uint8]
    """Shape (rows, width): the numbers aligned to the right, anything in front of them."""
    size: NDArray[np.int64]
    """Shape (rows,): characters of each number."""


def format_integers(values: NDArray[np.int64]) -> FixedDigits | RaggedDigits:
    """Decimal text of ``values`` (shape (rows,), one row or more, the whole int64 range)."""
    lowest, highest = int(values.min()), int(values.max())
    if lowest == highest:
        return FixedDigits(b"%d" % lowest, [])
    if lowest < 0 <= highest:
        return _ragged_digits(values, 1, len(str(max(highest, -lowest))))
    fewest, most = sorted((abs(lowest), abs(highest)))
    digits = len(str(most))
    if len(str(fewest)) != digits:
        return _ragged_digits(values, len(str(fewest)), digits)
    varying = 1
    while fewest // 10**varying != most // 10**varying:
        varying += 1
    shared = most // 10**varying
    magnitudes = np.abs(values).view(np.uint64)
    prefix = (b"-" if lowest < 0 else b"") + (b"%d" % shared if shared else b"")
    fields = _digit_fields(magnitudes - np.uint64(shared * 10**varying), varying)
    return FixedDigits(prefix + b"0" * varying, [(len(prefix) + place, field) for place, field in fields])


def _ragged_digits(values: NDArray[np.int64], fewest: int, most: int) -> RaggedDigits:
    """``fewest`` and ``most``: bounds of the number of digits, without the sign."""
    is_negative = values < 0
    sign = int(is_negative.any())
    magnitudes = np.abs(values).view(np.uint64)  # of -2^63 too: abs() wraps, the view reads it as 2^63
    matrix = np.empty((values.size, sign + most), np.uint8)
    write_fields(matrix, [(sign + place, field) for place, field in _digit_fields(magnitudes, most)])
    size = np.full(values.size, fewest, np.int64)
    for digits in range(fewest, most):
        size += magnitudes >= np.uint64(10**digits)
    if sign:
        size += is_negative
        rows = np.flatnonzero(is_negative)
        matrix[rows, sign + most - size[rows]] = ord("-")
    return RaggedDigits(matrix, size)


def _digit_fields(magnitudes: NDArray[np.uint64], digits: int) -> list[Field]:
    """Fields that cover exactly ``digits`` characters; every magnitude is below 10^digits."""
    fields: list[Field] = []
    rest: NDArray[Any] = magnitudes
    while digits:
        if rest.dtype != np.uint32 and digits <= 9:
            rest = rest.astype(np.uint32)  # divides twice as fast
        width = 4 if digits >= 4 else 2 if digits >= 2 else 1
        digits -= width
        low = rest
        if digits:
            base = rest.dtype.type(10**width)
            rest = low // base
            low = low - rest * base
        fields.append((digits, _TABLES[width].take(low.astype(np.intp))))
    return fields


def write_fields(matrix: NDArray[np.uint8], fields: list[Field]) -> None:
    """Write fields into their columns of ``matrix`` (contiguous, shape (rows, width))."""
    rows, width = matrix.shape
    for place, field in fields:
        np.ndarray((rows,), field.dtype, matrix, place, (width,))[...] = field
