"""Columns of JSON and CSV values against the standard library."""

from __future__ import annotations

import json
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.fast.quoting import csv_strings, csv_text, json_strings
from kdump.fast.text import Literal, RaggedText, assemble
from tests.harness.plainoutput import bytes_of, csv_field, csv_line, dumps, json_value

STRINGS = st.lists(
    st.none()
    | st.binary(max_size=8)
    | st.text(max_size=8).map(str.encode)
    | st.text('ab"\\,\r\n\t\x00\x1f\x7fé\u2028\U0001f600 ', max_size=8).map(str.encode),
    min_size=1,
    max_size=12,
)
EDGES = [0x00, 0x22, 0x41, 0x5C, 0x80, 0x90, 0xA0, 0xBF, 0xC1, 0xC2, 0xE0, 0xE2, 0xED, 0xF0, 0xF4, 0xF5]


def column(strings: list[bytes | None]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    text = RaggedText.join([string or b"" for string in strings])
    size = np.array([-1 if string is None else len(string) for string in strings], np.int32)
    return text.data, text.bounds[:-1], size


def as_json(strings: list[bytes | None]) -> list[str]:
    columns = [*json_strings(*column(strings)), Literal(b"\xff")]
    return [piece[:-1].decode() for piece in assemble(columns, len(strings)).split()]


def as_csv(strings: list[bytes | None], *, alone: bool = False) -> list[str]:
    columns = csv_strings(*column(strings), alone=alone)
    return [piece.decode() for piece in assemble(columns, len(strings)).split()]


@given(STRINGS)
def test_json_strings(strings: list[bytes | None]) -> None:
    values = as_json(strings)
    assert values == [dumps(json_value(string)) for string in strings]
    assert [bytes_of(json.loads(value)) for value in values] == strings


@given(STRINGS)
def test_csv_strings(strings: list[bytes | None]) -> None:
    fields = [csv_field(json_value(string)) for string in strings]
    assert [f"x,{field}\n" for field in as_csv(strings)] == [csv_line(["x", field]) for field in fields]
    assert [f"{field}\n" for field in as_csv(strings, alone=True)] == [csv_line([field]) for field in fields]


@pytest.mark.slow
def test_every_character() -> None:
    characters = [chr(code).encode() for code in range(0x11_0000) if not 0xD800 <= code < 0xE000]
    assert as_json(characters) == [dumps(character.decode()) for character in characters]


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_validity_of_each_string_alone(size: int) -> None:
    """Cut sequences stand beside their ends here; neither may complete the other."""
    strings: list[bytes | None] = [bytes(piece) for piece in product(EDGES, repeat=size)]
    assert as_json(strings) == [dumps(json_value(string)) for string in strings]
    assert as_json([b"\xe2\x82", b"\xac"]) == ['{"base64":"4oI="}', '{"base64":"rA=="}']


@given(st.text(max_size=6), st.booleans())
def test_csv_text(text: str, alone: bool) -> None:
    expected = csv_line([text] if alone else [text, "x"]).removesuffix("\n" if alone else ",x\n")
    assert csv_text(text.encode(), alone=alone).decode() == expected
