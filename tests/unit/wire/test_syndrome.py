"""A single flipped bit or changed byte is found from the two checksums alone."""

from __future__ import annotations

import zlib

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from kdump.wire.syndrome import (
    CRC32_POLYNOMIAL,
    CRC32C_POLYNOMIAL,
    LONGEST_BITS,
    LONGEST_BYTES,
    ByteFlip,
    flipped_bit,
    single_change,
)

CHECKSUMS = [(crc32c, CRC32C_POLYNOMIAL), (zlib.crc32, CRC32_POLYNOMIAL)]


@pytest.mark.parametrize(("checksum", "polynomial"), CHECKSUMS)
@given(st.binary(min_size=1, max_size=300), st.data())
def test_a_flipped_bit(checksum, polynomial: int, data: bytes, draw: st.DataObject) -> None:
    stored = checksum(data)
    place = draw.draw(st.integers(0, len(data) - 1))
    mask = 1 << draw.draw(st.integers(0, 7))
    damaged = bytearray(data)
    damaged[place] ^= mask
    assert single_change(stored, checksum(damaged), len(data), polynomial) == ByteFlip(place, mask)
    assert flipped_bit(stored, checksum(damaged), len(data), polynomial) == ByteFlip(place, mask)


@pytest.mark.parametrize(("checksum", "polynomial"), CHECKSUMS)
@given(st.binary(min_size=1, max_size=40), st.data())
def test_a_changed_byte(checksum, polynomial: int, data: bytes, draw: st.DataObject) -> None:
    stored = checksum(data)
    place = draw.draw(st.integers(0, len(data) - 1))
    mask = draw.draw(st.integers(1, 255))
    damaged = bytearray(data)
    damaged[place] ^= mask
    assert single_change(stored, checksum(damaged), len(data), polynomial) == ByteFlip(place, mask)


def test_a_flipped_bit_of_the_checksum() -> None:
    stored = crc32c(b"data")
    assert single_change(stored ^ 0x400, stored, 4, CRC32C_POLYNOMIAL) == ByteFlip(None, 0x400)
    assert flipped_bit(stored ^ 0x400, stored, 4, CRC32C_POLYNOMIAL) == ByteFlip(None, 0x400)


def test_more_than_a_byte_is_not_guessed() -> None:
    data = bytes(200)
    damaged = bytearray(data)
    damaged[3] ^= 0x81
    damaged[150] ^= 0x18
    assert single_change(crc32c(data), crc32c(damaged), 200, CRC32C_POLYNOMIAL) is None


def test_right_checksums_and_large_batches_are_left_alone() -> None:
    assert single_change(5, 5, 10, CRC32C_POLYNOMIAL) is None
    assert flipped_bit(5, 5, 10, CRC32C_POLYNOMIAL) is None
    assert single_change(5, 12345, LONGEST_BITS + 1, CRC32C_POLYNOMIAL) is None


@pytest.mark.parametrize(("checksum", "polynomial"), CHECKSUMS)
@given(st.integers(LONGEST_BYTES + 1, 3 * LONGEST_BYTES), st.data())
def test_a_flipped_bit_in_a_long_range(checksum, polynomial: int, size: int, draw: st.DataObject) -> None:
    place = draw.draw(st.one_of(st.integers(0, size - 1), st.just(0), st.just(size - 1)))
    mask = 1 << draw.draw(st.integers(0, 7))
    damaged = bytearray(size)
    damaged[place] = mask
    assert single_change(checksum(bytes(size)), checksum(damaged), size, polynomial) == ByteFlip(place, mask)


def test_two_flipped_bits_in_a_long_range_are_not_guessed() -> None:
    size = 1 << 20
    damaged = bytearray(size)
    damaged[5] = damaged[900_000] = 1
    assert single_change(crc32c(bytes(size)), crc32c(damaged), size, CRC32C_POLYNOMIAL) is None


def test_only_bits_are_looked_for_in_more_than_a_few_bytes() -> None:
    size = LONGEST_BYTES + 1
    data, one_bit, one_byte = bytes(size), bytearray(size), bytearray(size)
    one_bit[9], one_byte[9] = 0x10, 0x11
    assert single_change(crc32c(data), crc32c(one_bit), size, CRC32C_POLYNOMIAL) == ByteFlip(9, 0x10)
    assert single_change(crc32c(data), crc32c(one_byte), size, CRC32C_POLYNOMIAL) is None
