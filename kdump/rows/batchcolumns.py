"""The values of batches as columns of text."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from kdump.fast.text import Bytes, Choice, Column, Integer, Literal, assemble
from kdump.rows.columns import BatchValue, Choices, Flags, Numbers, Same
from kdump.rows.syntax import Syntax

_BOOLEANS: Final = (b"false", b"true")


def text_columns(value: BatchValue, syntax: Syntax) -> list[Column]:
    """``value`` as ``syntax`` spells it."""
    match value:
        case Same(constant):
            return [Literal(b"%d" % constant if isinstance(constant, int) else _text(constant, syntax))]
        case Choices(index, options):
            return [Choice(index, tuple(_text(option, syntax) for option in options))]
        case Flags(values):
            return [Choice(values, _BOOLEANS)]
        case Numbers(values, is_set):
            return [Integer(values)] if is_set is None else _nullable(values, is_set, syntax)


def _text(value: str | None, syntax: Syntax) -> bytes:
    return syntax.null if value is None else syntax.text(value)


def _nullable(values: NDArray[np.int64], is_set: NDArray[np.bool_], syntax: Syntax) -> list[Column]:
    """``values`` where they are set, else null."""
    digits = assemble([Integer(values)], values.size)
    return [
        Choice(is_set, (syntax.null, b"")),
        Bytes(digits.data, digits.bounds[:-1], np.where(is_set, np.diff(digits.bounds), 0)),
    ]
