"""Checksums of ranges are those of their bytes."""

from __future__ import annotations

from random import Random
from zlib import adler32

import pytest

from kdump.wire.rangeadler import RangeAdler


@pytest.mark.parametrize("size", [0, 1, 1023, 1024, 1025, 10_000])
def test_every_range(size: int) -> None:
    random = Random(size)
    for data in (random.randbytes(size), b"\xff" * size, bytes(size)):
        checksum = RangeAdler(data)
        for _ in range(200):
            start = random.randrange(size + 1)
            end = random.randrange(start, size + 1)
            assert checksum(start, end) == adler32(data[start:end])
