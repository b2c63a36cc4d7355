"""Values of the options for ranges and filters."""

from __future__ import annotations

import os
import time
from datetime import date
from pathlib import Path
from typing import Any

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.cli.options.declaring import PATH
from kdump.cli.params import CLOCK_TIMES, HEADER, OFFSETS, PATTERN, TIMES
from kdump.reading.selection import Range
from kdump.reading.timerange import ClockRange
from tests.harness.batches import NOW

HOUR = 3_600_000
DAY = 86_400_000


def converted(kind: click.ParamType[Any], text: str) -> Any:
    return kind.convert(text, None, None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("5:9", Range(5, 9)), (":9", Range(None, 9)), ("5:", Range(5)), (":", Range()), ("-1:-1", Range(-1, -1))],
)
def test_offsets(text: str, expected: Range) -> None:
    assert converted(OFFSETS, text) == expected


@pytest.mark.parametrize(
    ("kind", "text", "said"),
    [
        (OFFSETS, "5:4", "kdump: 5:4 ends before it begins: nothing is in it\n"),
        (OFFSETS, "5:5", ""),
        (
            TIMES,
            "1970-01-02..1970-01-01",
            "kdump: 1970-01-02..1970-01-01 ends before it begins: nothing is in it\n",
        ),
        (TIMES, "5..5", ""),
    ],
)
def test_bounds_the_wrong_way_round_are_told(
    capfd: pytest.CaptureFixture[str], kind: click.ParamType[Any], text: str, said: str
) -> None:
    assert converted(kind, text).is_empty
    assert capfd.readouterr() == ("", said)


@pytest.mark.parametrize("text", ["", "5:9:1", "a:b", "1.5:2", "5..9", " 5:9", "5:9 ", "0x5:"])
def test_no_offsets(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not A:B"):
        converted(OFFSETS, text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{NOW}..{NOW + 1}", Range(NOW, NOW + 1)),
        ("..", Range()),
        ("-5..", Range(-5)),
        ("1970-01-02..", Range(DAY)),
        ("..1970-01-02T00:00:00", Range(None, DAY)),
        ("1970-01-02T00:00Z..1970-01-02T00:00:00.001+00:00", Range(DAY, DAY + 1)),
        ("1970-01-02T02:00+02:00..", Range(DAY)),
        ("1969-12-31..", Range(-DAY)),
        ("9999-12-31T23:59:59.999..", Range(253402300799999)),
    ],
)
def test_times(text: str, expected: Range) -> None:
    assert converted(TIMES, text) == expected


@pytest.mark.parametrize(("unit", "size"), [("s", 1000), ("m", 60_000), ("h", 3_600_000), ("d", DAY), ("w", 7 * DAY)])
def test_times_ago(unit: str, size: int) -> None:
    before = int(time.time() * 1000)
    found = converted(TIMES, f"-3{unit}..-1{unit}")
    after = int(time.time() * 1000)
    assert before - 3 * size <= found.first <= after - 3 * size
    assert before - size <= found.end <= after - size


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("12:21..12:22", ClockRange(12 * HOUR + 21 * 60_000, 12 * HOUR + 22 * 60_000)),
        ("9:00..", ClockRange(9 * HOUR)),
        ("..09:00:00.5Z", ClockRange(None, 9 * HOUR + 500)),
        ("1970-01-02T12:00..13:00", Range(DAY + 12 * HOUR, DAY + 13 * HOUR)),
        ("12:00..1970-01-02T13:00", Range(DAY + 12 * HOUR, DAY + 13 * HOUR)),
        (f"{DAY}..1:00", Range(DAY, DAY + HOUR)),
        ("-5..-4", Range(-5, -4)),
    ],
)
def test_times_of_a_day(text: str, expected: Range) -> None:
    found = converted(CLOCK_TIMES, text)
    assert (type(found), found.first, found.end) == (type(expected), expected.first, expected.end)


def test_times_on_a_day() -> None:
    day = date(1970, 1, 3)
    assert ClockRange(HOUR, 2 * HOUR).on(day) == Range(2 * DAY + HOUR, 2 * DAY + 2 * HOUR)
    assert ClockRange(23 * HOUR, HOUR).on(day) == Range(2 * DAY + 23 * HOUR, 3 * DAY + HOUR)
    assert ClockRange(None, HOUR).on(day) == Range(None, 2 * DAY + HOUR)
    assert ClockRange(HOUR, HOUR).on(day).is_empty


@pytest.mark.parametrize("text", ["24:00..", "12:60..", f"{2**62}..12:00", "12:00", "12:00..x", "x..12:00"])
def test_no_times_of_a_day(text: str) -> None:
    with pytest.raises(click.BadParameter):
        converted(CLOCK_TIMES, text)


@pytest.mark.parametrize("text", ["", "5", "1h..", "-1y..", "yesterday..", "2020-13-01..", "1e3..", "5...6", "-h.."])
def test_no_times(text: str) -> None:
    with pytest.raises(click.BadParameter):
        converted(TIMES, text)


@given(st.binary(min_size=1, max_size=5))
def test_patterns_are_of_bytes(data: bytes) -> None:
    text = "".join(f"\\x{byte:02x}" for byte in data)
    assert converted(PATTERN, f"^{text}$").search(data)


def test_text_in_patterns_is_utf8() -> None:
    assert converted(PATTERN, "ключ").pattern == "ключ".encode()
    assert converted(PATTERN, "(?i)^A.").search(b"a\xff")
    assert converted(PATTERN, "\udcff").pattern == b"\xff", "a byte of the command line that is no UTF-8"
    with pytest.raises(click.BadParameter, match="no regular expression"):
        converted(PATTERN, "(")


def test_headers() -> None:
    assert converted(HEADER, "trace").accepts(((b"trace", None),))
    assert not converted(HEADER, "trace").accepts(((b"trace-id", b""), (b"", b"trace")))
    with_value = converted(HEADER, "k=^a=b$")
    assert with_value.accepts(((b"k", None), (b"k", b"x"), (b"k", b"a=b")))
    assert not with_value.accepts(((b"k", None),))
    assert converted(HEADER, "=v").accepts(((b"", b"v"),))
    assert not converted(HEADER, "k=").accepts(((b"k", None),)), "a null value has nothing to be found in"
    with pytest.raises(click.BadParameter, match="no regular expression"):
        converted(HEADER, "k=(")


def test_a_path_that_cannot_be_read_is_no_error_of_usage(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It ends with 3, by the one who reads it; to click it would be 2."""
    monkeypatch.setattr(os, "access", lambda *asked, **named: False)
    assert PATH.convert(str(tmp_path), None, None) == str(tmp_path)
