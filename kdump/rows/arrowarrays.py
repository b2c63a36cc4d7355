"""Arrow arrays of numpy arrays and of Python values.

pyarrow's own ``array()`` and ``scalar()`` import pandas where it is installed. That takes 0.2 s and 60 MB.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

MAX_BYTES: Final = 2**31 - 1
"""Most bytes of all values of a binary or string array."""
_NUMPY_TYPES: Final = {pa.bool_(): np.bool_, pa.int32(): np.int32, pa.int64(): np.int64}


def number_array(values: NDArray[Any], is_set: NDArray[np.bool_] | None = None) -> pa.Array:
    """Integers or booleans, shape (rows,). Null where ``is_set`` (of the same shape) is false."""
    data = bits(values) if values.dtype == np.bool_ else pa.py_buffer(np.ascontiguousarray(values))
    known = None if is_set is None else bits(is_set)
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), values.size, [known, data])


def value_array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Python values, null for None. ``kind``: bool, int32, int64, a time in int64, string or binary.

    Raises:
        OverflowError: a number does not fit, or the bytes of all values are more than MAX_BYTES.
    """
    if kind in (pa.string(), pa.binary()):
        return _bytes_array([value.encode() if isinstance(value, str) else value for value in values], kind)
    is_set = np.fromiter((value is not None for value in values), np.bool_, len(values))
    numbers: NDArray[Any] = np.array(
        [0 if value is None else value for value in values], _NUMPY_TYPES.get(kind, np.int64)
    )
    array = number_array(numbers, None if is_set.all() else is_set)
    return array if array.type == kind else array.view(kind)


def taken(values: pa.Array, index: NDArray[np.int32], is_set: NDArray[np.bool_] | None = None) -> pa.Array:
    """The ``values`` at ``index``; shape (rows,). Null where ``is_set`` is false."""
    return pc.take(values, number_array(index, is_set), boundscheck=False)


def constant_array(value: Any, kind: pa.DataType, count: int) -> pa.Array:
    """One value, or None, ``count`` times."""
    # The blocks of a run share most constants: each is made once, for blocks of about this size.
    return _repeated(value, kind, 1 << count.bit_length()).slice(0, count)


@lru_cache(maxsize=32)
def _repeated(value: Any, kind: pa.DataType, count: int) -> pa.Array:
    return pa.nulls(count, kind) if value is None else pa.repeat(value_array([value], kind)[0], count)


def _bytes_array(values: Sequence[bytes | None], kind: pa.DataType) -> pa.Array:
    is_set = np.fromiter((value is not None for value in values), np.bool_, len(values))
    bounds = np.zeros(len(values) + 1, np.int64)
    np.cumsum(np.fromiter((len(value or b"") for value in values), np.int64, len(values)), out=bounds[1:])
    if bounds[-1] > MAX_BYTES:
        raise OverflowError(f"values of {bounds[-1]} bytes do not fit into an Arrow array")
    data = pa.py_buffer(b"".join(value for value in values if value))
    known = None if is_set.all() else bits(is_set)
    return pa.Array.from_buffers(kind, len(values), [known, pa.py_buffer(bounds.astype(np.int32)), data])


def bits(flags: NDArray[np.bool_]) -> pa.Buffer:
    """A bit for each flag."""
    return pa.py_buffer(np.packbits(flags, bitorder="little"))
