"""wire.varint: zig-zag varints, varlongs and unsigned varints, whole, cut and too long."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kdump.codes import Codes, DamageError
from kdump.wire.varint import read_unsigned_varint, read_varint, read_varlong
from tests.harness.fast_reference import INT32, INT64, varint

Reader = Callable[[bytes, int, int], tuple[int, int]]
READERS = [(read_varint, 5), (read_varlong, 10), (read_unsigned_varint, 5)]


def unsigned(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


@given(INT32)
@example(0)
@example(-1)
@example(63)
@example(64)
@example(-64)
@example(-65)
@example(2**31 - 1)
@example(-(2**31))
def test_varint_round_trip(value: int) -> None:
    data = b"x" + varint(value) + b"y"
    assert read_varint(data, 1, len(data)) == (value, len(data) - 1)


@given(INT64)
@example(2**63 - 1)
@example(-(2**63))
@example(2**31)
def test_varlong_round_trip(value: int) -> None:
    data = b"x" + varint(value, 64) + b"y"
    assert read_varlong(data, 1, len(data)) == (value, len(data) - 1)


@given(st.integers(0, 2**32 - 1))
@example(127)
@example(128)
@example(2**32 - 1)
def test_unsigned_round_trip(value: int) -> None:
    data = unsigned(value)
    assert read_unsigned_varint(data, 0, len(data)) == (value, len(data))


@given(INT32, st.integers(1, 4))
def test_superfluous_bytes_are_taken(value: int, padding: int) -> None:
    data = varint(value, padding=padding)
    assert read_varint(data, 0, len(data)) == (value, len(data))


@pytest.mark.parametrize(("reader", "longest"), READERS)
def test_cut(reader: Reader, longest: int) -> None:
    whole = b"\xff" * (longest - 1) + b"\0"
    for size in range(longest):
        with pytest.raises(DamageError, match="cut short") as caught:
            reader(whole[:size], 0, size)
        assert caught.value.code is Codes.RECORD
        # The bytes are there but after the end.
        with pytest.raises(DamageError, match="cut short"):
            reader(whole, 0, size)
    assert reader(whole, 0, longest)[1] == longest


@pytest.mark.parametrize(("reader", "longest"), READERS)
def test_too_long(reader: Reader, longest: int) -> None:
    with pytest.raises(DamageError, match=f"longer than {longest} bytes"):
        reader(b"\x80" * longest + b"\0", 0, longest + 1)


@pytest.mark.parametrize(
    ("last", "value"), [(0x0F, -(2**31)), (0x7F, -(2**31)), (0x70, 0x07FFFFFF), (0x10, 0x07FFFFFF)]
)
def test_bits_beyond_32_fall_away(last: int, value: int) -> None:
    # Java: (raw >>> 1) ^ -(raw & 1) of an int that kept the low 32 bits.
    low = 0xFF if last & 0x0F else 0xFE
    data = bytes([low, 0xFF, 0xFF, 0xFF, last])
    assert read_varint(data, 0, 5) == (value, 5)
