"""Arrow arrays against those that pyarrow's own functions make."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kdump.rows import arrowarrays
from kdump.rows.arrowarrays import constant_array, number_array, value_array

VALUES: list[tuple[pa.DataType, list[Any]]] = [
    (pa.int64(), [1, None, -(2**63), 2**63 - 1]),
    (pa.int32(), [-(2**31), 2**31 - 1]),
    (pa.bool_(), [True, None, False] * 7),
    (pa.string(), ["", "ü", None, "long" * 100]),
    (pa.binary(), [b"", b"\xff", None]),
    (pa.timestamp("us", tz="UTC"), [0, None, -5]),
]


@pytest.mark.parametrize(("kind", "values"), VALUES, ids=[str(kind) for kind, _ in VALUES])
def test_values(kind: pa.DataType, values: list[Any]) -> None:
    known = [value for value in values if value is not None]
    for some in (values, known, [], [None]):
        made = value_array(some, kind)
        made.validate(full=True)
        assert made.equals(pa.array(some, kind))
        assert made.null_count == some.count(None)
    for value in (*values[:2], None):
        assert constant_array(value, kind, 3).equals(pa.array([value] * 3, kind))
        assert constant_array(value, kind, 0).equals(pa.array([], kind))


@pytest.mark.parametrize("kind", [np.int32, np.int64, np.bool_])
def test_numbers(kind: type[Any]) -> None:
    values = np.arange(-9, 40).astype(kind)
    is_set = np.arange(values.size) % 3 > 0
    for some in (slice(None), slice(5, 5), slice(1, None, 2)):
        assert number_array(values[some]).equals(pa.array(values[some]))
        made = number_array(values[some], is_set[some])
        made.validate(full=True)
        assert made.equals(pa.array(values[some], mask=~is_set[some]))


def test_too_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrowarrays, "MAX_BYTES", 9)
    assert len(value_array([b"12345", b"6789"], pa.binary())) == 2
    with pytest.raises(OverflowError, match="values of 10 bytes do not fit"):
        value_array([b"12345", b"67890"], pa.binary())
