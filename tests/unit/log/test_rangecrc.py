"""log.rangecrc: the CRC of every range, as if each were computed alone."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from kdump.log.rangecrc import CASTAGNOLI, IEEE, range_crcs


@given(st.binary(min_size=1, max_size=300), st.data())
def test_ranges(data: bytes, draw: st.DataObject) -> None:
    bound = st.integers(0, len(data))
    ranges = sorted(map(sorted, draw.draw(st.lists(st.tuples(bound, bound), min_size=1, max_size=40))))
    starts, ends = np.array(ranges, np.int64).T
    for polynomial, checksum in ((CASTAGNOLI, crc32c), (IEEE, zlib.crc32)):
        expected = [checksum(data[start:end]) for start, end in ranges]
        assert range_crcs(memoryview(data), starts, ends, polynomial).tolist() == expected


@pytest.mark.parametrize("polynomial", [CASTAGNOLI, IEEE])
def test_many_long_ranges(polynomial: int) -> None:
    generator = np.random.default_rng(5)
    data = generator.bytes(1 << 20)
    starts = np.sort(generator.integers(0, 1 << 19, 2000))
    ends = starts + generator.integers(0, 1 << 19, 2000)
    checksum = crc32c if polynomial == CASTAGNOLI else zlib.crc32
    found = range_crcs(memoryview(data), starts, ends, polynomial)
    assert found.tolist() == [checksum(data[start:end]) for start, end in zip(starts, ends, strict=True)]


def test_no_ranges() -> None:
    none = np.empty(0, np.int64)
    assert range_crcs(memoryview(b""), none, none, IEEE).size == 0
