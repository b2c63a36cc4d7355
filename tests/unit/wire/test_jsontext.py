"""JSON that somebody else may have written, and JSON that is made in blocks."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.codes import Severity
from kdump.wire.jsontext import json_blocks, read_json, read_shown_json
from tests.harness.examples import examples

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inside: st.lists(inside, max_size=4) | st.dictionaries(st.text(), inside, max_size=4),
    max_leaves=20,
)


@pytest.mark.parametrize(
    "data",
    [
        *(
            b"",
            b"{",
            b"[" * 100_000,
            b"[" + b"[]," * 300_000 + b"1]",
            b'["\xff",' + b"0," * 400_000 + b"1]",
            b'{"a":1}{',
        ),
        *(b'"\\ud800"', b'{"\\udbff": 1}'),
    ],
    ids=range(8),
)
def test_what_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # json says many things
        read_json(data)


def test_values_that_are_shown_are_bounded_too() -> None:
    with pytest.raises(ValueError, match="600,003 characters of JSON hold more values"):
        read_shown_json("[" + "1," * 300_000 + "1]")
    assert read_shown_json("[" + "1," * 100_000 + "1]") == [1] * 100_001


def test_many_values_are_read_where_they_take_the_bytes() -> None:
    assert len(read_json(b"[" + b"12345678901,\n" * 300_000 + b"1]")) == 300_001
    assert read_json(b'{"a": ["\xff", 1]}') == {"a": ["\udcff", 1]}
    assert read_json(b"[1]", parse_int=str) == ["1"]


@pytest.mark.parametrize(
    "text",
    ["", "{", "[" * 100_000, "[" * 101 + "]" * 101, "NaN", '{"a": [-Infinity]}', "[1e999]", "9" * 5000],
    ids=range(8),
)
def test_what_cannot_be_shown(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # json says many things
        read_shown_json(text)


@examples(200)
@given(VALUES.filter(lambda value: "Infinity" not in json.dumps(value) and "NaN" not in json.dumps(value)))
def test_what_is_shown_is_what_json_says(value: Any) -> None:
    assert read_shown_json(json.dumps(value)) == value


def test_half_a_character_is_shown_as_java_does() -> None:
    shown = read_shown_json('{"\\ud800": ["a\\udcff", "\\ud83d\\ude00", "\\\\ud800"]}')
    assert shown == {"?": ["a?", "\U0001f600", "\\ud800"]}
    assert read_shown_json("[" * 100 + "]" * 100)


@examples(200)
@given(VALUES, st.none() | st.integers(0, 3))
def test_blocks_are_the_same_json(value: Any, indent: int | None) -> None:
    assert b"".join(json_blocks(value, indent)) == f"{json.dumps(value, indent=indent)}\n".encode()


@pytest.mark.parametrize("count", [0, 1, 3])
def test_enums_are_their_values(count: int) -> None:
    rows = [{"number": number, "severity": Severity.ERROR} for number in range(count)]
    plain = [{"number": number, "severity": Severity.ERROR.value} for number in range(count)]
    for indent in (None, 1):
        assert (
            b"".join(json_blocks({"rows": rows}, indent)) == f"{json.dumps({'rows': plain}, indent=indent)}\n".encode()
        )
    with pytest.raises(TypeError):
        list(json_blocks(object()))
