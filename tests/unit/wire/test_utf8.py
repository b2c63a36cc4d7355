"""wire.utf8: as many U+FFFD as Java makes (docs/spec/dump-output.md#54-utf-8-decoding)."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.wire.utf8 import decode_utf8

REPLACEMENT = "\ufffd"
CONTINUATION = range(0x80, 0xC0)
# On both sides of every boundary in the table of docs/spec/dump-output.md#54-utf-8-decoding.
BOUNDARIES = bytes.fromhex("00 41 7f 80 8f 90 9f a0 bf c0 c1 c2 df e0 e1 ec ed ee ef f0 f1 f3 f4 f5 f8 ff")


def java_decode(data: bytes) -> str:
    """The table of docs/spec/dump-output.md#54-utf-8-decoding, a row after the other."""
    out = []
    position = 0

    def among(index: int, allowed: range) -> bool:
        return index < len(data) and data[index] in allowed

    while position < len(data):
        first = data[position]
        if first <= 0x7F:
            size, character = 1, chr(first)
        elif 0xC2 <= first <= 0xDF and among(position + 1, CONTINUATION):
            size, character = 2, data[position : position + 2].decode()
        elif 0xE0 <= first <= 0xEF and among(position + 1, range(0xA0, 0xC0) if first == 0xE0 else CONTINUATION):
            if not among(position + 2, CONTINUATION):
                size, character = 2, REPLACEMENT
            elif first == 0xED and data[position + 1] >= 0xA0:
                size, character = 3, REPLACEMENT
            else:
                size, character = 3, data[position : position + 3].decode()
        elif 0xF0 <= first <= 0xF4 and among(
            position + 1, {0xF0: range(0x90, 0xC0), 0xF4: range(0x80, 0x90)}.get(first, CONTINUATION)
        ):
            if not among(position + 2, CONTINUATION):
                size, character = 2, REPLACEMENT
            elif not among(position + 3, CONTINUATION):
                size, character = 3, REPLACEMENT
            else:
                size, character = 4, data[position : position + 4].decode()
        else:
            size, character = 1, REPLACEMENT
        out.append(character)
        position += size
    return "".join(out)


@given(st.text() | st.binary().map(java_decode))
def test_valid_utf8(text: str) -> None:
    assert decode_utf8(text.encode()) == text


@given(st.binary(max_size=40) | st.lists(st.sampled_from(BOUNDARIES), max_size=12).map(bytes))
def test_any_bytes(data: bytes) -> None:
    assert decode_utf8(data) == java_decode(data)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_all_sequences_of_boundary_bytes(size: int) -> None:
    for values in product(BOUNDARIES, repeat=size):
        data = bytes(values)
        assert decode_utf8(data) == java_decode(data), data.hex(" ")


@pytest.mark.parametrize(
    ("data", "count"),
    [("ed a0 80", 1), ("ed a0", 1), ("ed", 1), ("ed a0 80 ed b0 80", 2), ("ed a0 41", 1), ("f0 9f 98", 1)],
)
def test_surrogates(data: str, count: int) -> None:
    assert decode_utf8(bytes.fromhex(data)).count(REPLACEMENT) == count
