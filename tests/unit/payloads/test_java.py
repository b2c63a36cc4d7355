"""payloads.java: how Java hashes, splits and prints (docs/spec/dump-output.md sections 2, 3 and 10)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.payloads.java import hash_map_order, hash_map_order_of, json_string, normalize_path, parse_long, split_commas


class HashMap:
    """java.util.HashMap as far as iteration order goes: buckets, and doubling when 0.75 of them are used."""

    def __init__(self) -> None:
        self.buckets: list[list[str]] = [[] for _ in range(16)]
        self.size = 0

    @staticmethod
    def spread(key: str) -> int:
        value = 0
        for unit in memoryview(key.encode("utf-16-le")).cast("H"):
            value = (31 * value + unit) % 2**32
        return value ^ value >> 16

    def compute_if_absent(self, key: str) -> None:
        if self.size > len(self.buckets) * 0.75:
            old = self.keys()
            self.buckets = [[] for _ in range(2 * len(self.buckets))]
            for item in old:
                self.buckets[self.spread(item) % len(self.buckets)].append(item)
        if key in self.keys():
            return
        self.buckets[self.spread(key) % len(self.buckets)].insert(0, key)
        self.size += 1

    def keys(self) -> list[str]:
        return [item for items in self.buckets for item in items]


PATH = st.integers(0, 10**6).map(lambda number: f"/data/orders-{number % 7}/{number:020}.log") | st.text(max_size=3)


@given(st.lists(PATH, max_size=120))
def test_hash_map_order(keys: list[str]) -> None:
    table = HashMap()
    for key in keys:
        table.compute_if_absent(key)
    assert hash_map_order(keys, asked_again=keys[-1:] != [] and keys[-1] in keys[:-1]) == table.keys()


@given(st.lists(PATH, max_size=60, unique=True))
def test_hash_map_order_of(keys: list[str]) -> None:
    """``put`` puts a key at the end of its bucket, and a growing table keeps the order within buckets."""
    buckets: list[list[str]] = [[] for _ in range(16)]
    for count, key in enumerate(keys, 1):
        buckets[HashMap.spread(key) % len(buckets)].append(key)
        if count > len(buckets) * 0.75:
            old, buckets = buckets, [[] for _ in range(2 * len(buckets))]
            for other in (item for items in old for item in items):
                buckets[HashMap.spread(other) % len(buckets)].append(other)
    assert hash_map_order_of(keys, 16) == [item for items in buckets for item in items]


@pytest.mark.parametrize("count", [12, 13, 14, 24, 25, 26, 48, 49, 50])
def test_a_full_table_is_doubled_when_a_key_is_asked_for_again(count: int) -> None:
    keys = [f"/data/orders-0/{number:020}.log" for number in range(count)]
    table = HashMap()
    for key in (*keys, keys[0]):
        table.compute_if_absent(key)
    assert hash_map_order(keys, asked_again=True) == table.keys()
    assert (hash_map_order(keys) == table.keys()) == (count not in (13, 25, 49))


def test_known_string_hashes() -> None:
    # "Aa" and "BB" have one hash: the newest comes first.
    assert hash_map_order(["BB", "Aa"]) == ["Aa", "BB"]
    assert hash_map_order(["Aa", "BB"]) == ["BB", "Aa"]
    assert hash_map_order(["b", "a", "b"]) == ["a", "b"]
    assert hash_map_order([]) == []


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", [""]),
        (",", []),
        (",,", []),
        ("a", ["a"]),
        ("a,b", ["a", "b"]),
        ("a,,b", ["a", "", "b"]),
        ("a,b,,", ["a", "b"]),
        (",a", ["", "a"]),
        (" a, b ", [" a", " b "]),
    ],
)
def test_split_commas(text: str, parts: list[str]) -> None:
    assert split_commas(text) == parts


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("", ""),
        ("/", "/"),
        ("//", "/"),
        ("./good//x.log", "./good/x.log"),
        ("a/", "a"),
        ("a///", "a"),
        ("/data/../d/x.log", "/data/../d/x.log"),
        ("//data///x.log", "/data/x.log"),
        ("a b.log ", "a b.log "),
    ],
)
def test_normalize_path(path: str, expected: str) -> None:
    assert normalize_path(path) == expected


@given(st.text(alphabet="/.ab", max_size=12))
def test_normalized_paths_stay_as_they_are(path: str) -> None:
    once = normalize_path(path)
    assert "//" not in once
    assert normalize_path(once) == once


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("00000000000000000007", 7),
        ("+5", 5),
        ("-5", -5),
        ("0" * 50 + "1", 1),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("9223372036854775808", None),
        ("-9223372036854775809", None),
        ("", None),
        ("+", None),
        ("-", None),
        ("+-5", None),
        ("5 ", None),
        (" 5", None),
        ("5\n", None),
        ("0x5", None),
        ("1_000", None),
        ("5L", None),
        ("1.0", None),
    ],
)
def test_parse_long(text: str, value: int | None) -> None:
    assert parse_long(text) == value


@given(st.text())
def test_json_strings_are_json(text: str) -> None:
    assert json.loads(json_string(text)) == text


def test_json_escapes() -> None:
    assert json_string('a"b\\c/\u00e9\u2028\x7f') == '"a\\"b\\\\c/\u00e9\u2028\x7f"'
    assert json_string("\b\f\n\r\t\x00\x1f\x0b") == '"\\b\\f\\n\\r\\t\\u0000\\u001F\\u000B"'


def test_numbers_of_any_length() -> None:
    zeros = "0" * 5000
    assert parse_long(zeros) == 0
    assert parse_long(f"-{zeros}7") == -7
    assert parse_long("1" * 5000) is None
    assert parse_long("+" + "9" * 120) is None
