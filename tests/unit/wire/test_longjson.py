"""JSON of which a part at a time becomes objects: it says what ``json.loads`` says, and refuses what that refuses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.wire import longjson
from kdump.wire.longjson import LongArray, LongObject, LongText, read_long
from tests.harness.examples import examples

NAMES = st.text('ab"\\é', max_size=2)
TEXTS = st.text(st.sampled_from('ab "\\/\n\té\U0001f600[]{},:'), max_size=40)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.just(0.5) | TEXTS,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=20,
)


@pytest.fixture(autouse=True)
def everything_is_long() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(longjson, "LONG", 16)
        yield


def whole(value: Any) -> Any:
    """What a value says, with all that is in it."""
    match value:
        case LongText():
            return value.encode().decode()
        case LongArray() | list():
            return [whole(one) for one in value]
        case LongObject():
            return {name: whole(one) for name, one in value}
        case dict():
            return {name: whole(one) for name, one in value.items()}
    return value


@given(VALUES, st.booleans(), st.sampled_from([None, 1]))
@examples(300)
def test_as_json(value: object, is_ascii: bool, indent: int | None) -> None:
    text = json.dumps(value, ensure_ascii=is_ascii, indent=indent)
    assert whole(read_long(f" {text}\n".encode())) == value


@given(VALUES, st.data())
@examples(500)
def test_refuses_what_json_refuses(value: object, data: st.DataObject) -> None:
    text = json.dumps(value, ensure_ascii=data.draw(st.booleans()))
    at = data.draw(st.integers(0, len(text)))
    text = text[:at] + data.draw(st.text('[]{},:"\\u0 \n', max_size=2)) + text[at + data.draw(st.integers(0, 2)) :]
    try:
        expected = json.loads(text)
    except ValueError:
        with pytest.raises(ValueError, match=r"JSON|surrogates"):
            whole(read_long(text.encode()))
    else:
        try:
            text.encode()
            json.dumps(expected, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            return
        assert whole(read_long(text.encode())) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[1, 2, "aaaaaaaaaaaaaaaaaaaaaaaaaaaa",]', "no value at byte 38"),
        ('["aaaaaaaaaaaaaaaaaaaaaaa",,"aaaaaaaaaaaaaaaaaaaa"]', "no value at byte 27"),
        ('["aaaaaaaaaaaaaaaaaaaaaaa"', "does not end"),
        ('"aaaaaaaaaaaaaaaaaaaaaaa', "does not end"),
        ('["aaaaaaaaaaaaaaaaaaaaaaa, 1, 2]', "does not end"),
        ('{"a": "aaaaaaaaaaaaaaaaaaaaaa"}, {"a": 1}', "there is more"),
        ('{1: "aaaaaaaaaaaaaaaaaaaaaa"}', "no short name at byte 1"),
        ('{"a": 1, "aaaaaaaaaaaaaaaaaaaaaa": 2}', "no short name"),
        ("[" * 2000 + "]" * 2000, "levels"),
        ('["aaaaaaaaaaaaaaaaa\naaaaaa"]', "control character"),
    ],
)
def test_why(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=f"^no JSON: .*{said}"):
        whole(read_long(text.encode()))


def test_a_lone_surrogate_is_no_text() -> None:
    with pytest.raises(UnicodeEncodeError):
        whole(read_long(rb'"aaaaaaaaaaaaaaaaaaaaaa\ud800"'))


def test_a_name_comes_again() -> None:
    members = list(read_long(b'{"a": 1, "b": "aaaaaaaaaaaaaaaaaaaa", "a": 2}'))
    assert [name for name, _ in members] == ["a", "b", "a"]
