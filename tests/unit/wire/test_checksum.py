"""wire.checksum: published check values, and CRC-32C against its definition bit by bit."""

from __future__ import annotations

import sys
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.wire import checksum
from kdump.wire.checksum import crc32, crc32c
from kdump.wire.lz4frame import xxhash32

# RFC 3720 appendix B.4, and the check value of the CRC catalogues.
CRC32C = [
    (b"", 0),
    (bytes(32), 0x8A9136AA),
    (b"\xff" * 32, 0x62A8AB43),
    (bytes(range(32)), 0x46DD794E),
    (bytes(range(31, -1, -1)), 0x113FDB5C),
    (b"123456789", 0xE3069283),
]
CRC32 = [(b"", 0), (b"123456789", 0xCBF43926), (b"The quick brown fox jumps over the lazy dog", 0x414FA339)]
XXHASH32 = [
    (b"", 0x02CC5D05),
    (b"a", 0x550D7456),
    (b"abc", 0x32D153FF),
    (b"Nobody inspects the spammish repetition", 0xE2293B2F),
]


def reflected_crc(data: bytes, polynomial: int) -> int:
    value = 0xFFFF_FFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (polynomial if value & 1 else 0)
    return value ^ 0xFFFF_FFFF


@pytest.mark.parametrize(("data", "value"), CRC32C)
def test_crc32c_vectors(data: bytes, value: int) -> None:
    assert crc32c(data) == crc32c(memoryview(data)) == crc32c(bytearray(data)) == value


@pytest.mark.parametrize(("data", "value"), CRC32)
def test_crc32_vectors(data: bytes, value: int) -> None:
    assert crc32(data) == crc32(memoryview(data)) == value


def test_crc32_without_isal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "isal.isal_zlib", None)
    assert checksum._load_crc32() is zlib.crc32


@given(st.binary(max_size=100))
def test_crcs_by_their_polynomials(data: bytes) -> None:
    assert crc32c(data) == reflected_crc(data, 0x82F63B78)
    assert crc32(data) == reflected_crc(data, 0xEDB88320)


@pytest.mark.parametrize(("data", "value"), XXHASH32)
def test_xxhash32_vectors(data: bytes, value: int) -> None:
    assert xxhash32(data) == xxhash32(memoryview(data)) == value
