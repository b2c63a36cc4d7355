"""Results of tasks as plain data: they come back as they were, and nothing else comes out of them."""

from __future__ import annotations

import json
import pickle
import struct
from collections import Counter
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.codes import Codes, DamageError, KdumpError
from kdump.tasks.plaindata import PlainData


class Colour(Enum):
    RED = "red"


class Pair(NamedTuple):
    first: object
    second: object


@dataclass(frozen=True, slots=True)
class Frozen:
    name: str
    inner: object = None


@dataclass(slots=True)
class Open:
    number: int


class Stateful:
    """Leaves ``cache`` at home."""

    def __init__(self) -> None:
        self.kept = 1
        self.cache = 2

    def __getstate__(self) -> list[int]:
        return [self.kept]

    def __setstate__(self, state: list[int]) -> None:
        (self.kept,) = state
        self.cache = 0


PLAIN = PlainData((Colour, Pair, Frozen, Open, Stateful))

_LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.binary() | st.text()
_KEYS = st.integers() | st.text() | st.tuples(st.integers(), st.binary())


def _nested(of: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    return (
        st.lists(of)
        | st.tuples(of, of)
        | st.dictionaries(_KEYS, of)
        | st.sets(_KEYS)
        | st.builds(Pair, of, of)
        | st.builds(Frozen, st.text(), of)
        | st.builds(Open, st.integers())
        | st.just(Colour.RED)
    )


@given(st.recursive(_LEAVES, _nested, max_leaves=20))
def test_values_come_back(value: object) -> None:
    back = PLAIN.unpack(PLAIN.pack(value))
    assert back == value
    assert type(back) is type(value)


def test_arrays_counters_and_own_states_come_back() -> None:
    rows = np.array([(1, -2), (3, 2**62)], np.dtype([("a", "u1"), ("b", "i8")]))
    made = Stateful()
    array, function, counter, number, state = PLAIN.unpack(
        PLAIN.pack([rows, np.minimum, Counter({Colour.RED: 3}), np.int64(2**62), made])
    )
    assert array.dtype == rows.dtype
    assert (array == rows).all()
    assert array.flags.writeable
    assert function is np.minimum
    assert counter == Counter({Colour.RED: 3})
    assert isinstance(counter, Counter)
    assert number == 2**62
    assert (state.kept, state.cache) == (1, 0)


@pytest.mark.parametrize("kind", [KdumpError, DamageError])
def test_errors_come_back(kind: type[KdumpError]) -> None:
    back = PLAIN.unpack(PLAIN.pack(kind(Codes.BATCH_CRC, "it is wrong", path="a\udcff", position=7)))
    assert type(back) is kind
    assert (back.code, str(back)) == (Codes.BATCH_CRC, "a\udcff: at 7: it is wrong")


def test_other_classes_do_not_travel() -> None:
    with pytest.raises(TypeError):
        PLAIN.pack(object())
    with pytest.raises(ValueError, match="Object arrays"):
        PLAIN.pack(np.array([object()]))


@pytest.mark.parametrize(
    "hostile",
    [
        b"",
        b"\x80\x04.",
        b"{}",
        b"[]",
        b'["system", "id"]',
        b'["class", "Popen", ["list", "id"]]',
        b'["class", "os.system", "id"]',
        b'["class", "Colour", "BLUE"]',
        b'["class", "Pair", 1]',
        b'["class", "Open", ["list", 1, 2, 3]]',
        b'["ufunc", "frompyfunc"]',
        b'["bytes", 1]',
        b'["bytes", -1]',
        b'["bytes", "1"]',
        b'["array", "<i8", [1]]',
        b'["array", "<i8", [-1]]',
        b'["array", "<i8", [9223372036854775807, 9]]',
        b'["array", "<i8", 0]',
        b'["array", "*", [0]]',
        b'["array", "|O", [0]]',
        b'["array", [["a", "|O"]], [0]]',
        b'["error", true, "NONE", "", null, null]',
        b'["dict", ["list"]]',
        b'["set", ["list", 1]]',
        b"[" * 100_000,
    ],
)
def test_hostile_data_are_an_error(hostile: bytes) -> None:
    for data in (hostile, struct.pack("<Q", len(hostile)) + hostile, struct.pack("<Q", len(hostile) + 1) + hostile):
        with pytest.raises(KdumpError, match="the result of a worker is not readable") as caught:
            PLAIN.unpack(data)
        assert caught.value.code is Codes.UNREADABLE


def test_pickled_arrays_are_refused() -> None:
    stored = pickle.dumps(np.array([{}]))
    for shape in ([1], [len(stored) // 8]):
        text = json.dumps(["array", "|O", shape]).encode()
        with pytest.raises(KdumpError, match="not readable"):
            PLAIN.unpack(struct.pack("<Q", len(text)) + text + stored)


def test_arrays() -> None:
    array = np.arange(1000)
    value = {"first": array, "other": [b"b" * 1000, array[::2], array.reshape(10, 100)]}
    back = PLAIN.unpack(PLAIN.pack(value))
    assert back["other"][0] == b"b" * 1000
    for one, expected in zip(
        (back["first"], *back["other"][1:]), (array, array[::2], array.reshape(10, 100)), strict=True
    ):
        assert one.flags.writeable
        assert np.array_equal(one, expected)


def test_two_classes_of_one_name_are_refused() -> None:
    other = type("Pair", (), {})
    with pytest.raises(ValueError, match="same name"):
        PlainData((Pair, other))
