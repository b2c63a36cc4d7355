"""wire.cursor: fields of every size, and that no read leaves the range."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.codes import Codes, DamageError
from kdump.wire.cursor import Cursor


@given(st.sampled_from([(1, "b"), (2, "h"), (4, "i"), (8, "q")]), st.booleans(), st.binary(min_size=8, max_size=8))
def test_integers(layout: tuple[int, str], signed: bool, data: bytes) -> None:
    size, code = layout
    cursor = Cursor(data)
    assert cursor.integer(size, signed=signed) == struct.unpack_from(">" + (code if signed else code.upper()), data)[0]
    assert (cursor.position, cursor.remaining) == (size, 8 - size)


def test_fields_in_a_row() -> None:
    cursor = Cursor(b"\xff\x80\x01" + struct.pack(">d", -0.5) + b"abc")
    assert [cursor.integer(1), cursor.unsigned_varint(), cursor.float64(), cursor.take(2)] == [-1, 128, -0.5, b"ab"]
    assert cursor.remaining == 1


@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_integers_beyond_the_end(size: int) -> None:
    cursor = Cursor(bytes(16), 3, end=3 + size - 1, code=Codes.CONTROL_RECORD)
    with pytest.raises(DamageError, match=f"{size} bytes asked for where {size - 1} are left") as caught:
        cursor.integer(size)
    assert caught.value.code is Codes.CONTROL_RECORD
    assert cursor.position == 3


def test_take_beyond_the_end() -> None:
    for size in (-1, 5):
        with pytest.raises(DamageError):
            Cursor(bytes(9), 5).take(size)
    assert Cursor(bytes(9), 5).take(4) == bytes(4)


def test_varint_beyond_the_end() -> None:
    with pytest.raises(DamageError):
        Cursor(b"\x80\x01", end=1).unsigned_varint()
