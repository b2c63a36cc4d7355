"""The text: columns, widths, colours, and nothing from the file that could drive a terminal."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.explain import explain
from kdump.explain.layout import report
from kdump.explain.selection import How, select
from kdump.explain.values import date, quoted, span
from tests.harness.batches import CONTROL, LOG_APPEND_TIME, NOW, TRANSACTIONAL, plain_rows, v2_batch, wrapper
from tests.harness.batches import message as legacy_message
from tests.harness.explained import NAME, MemorySource, text_of
from tests.harness.fast_reference import Row

ANSI = re.compile(r"\x1b\[[0-9;]*m")
TRICKY = b"\x1b[2J\x07\r\n\t\x00\xc2\x9b31m\xe2\x80\xae\x7f"
LOG = v2_batch([Row(0, 0, TRICKY, TRICKY * 30, [(TRICKY, TRICKY)]), *plain_rows(30)[1:]])


def test_the_columns_of_a_batch() -> None:
    text = text_of(v2_batch([Row(5, 0, b"key", None, [(b"h", b"")])], attributes=TRANSACTIONAL, base_sequence=7), 61)
    assert text.splitlines()[:6] == [
        f"{NAME}: byte 61 of 74",
        "entry 0: batch of magic 2, bytes 0 to 73 (74 bytes)",
        "  header: bytes 0 to 60",
        "         0  00 00 00 00 00 00 00 00  baseOffset             0",
        "         8  00 00 00 3e              batchLength            62  size 74, up to byte 73",
        "        12  00 00 00 00              partitionLeaderEpoch   0",
    ]
    for line in (
        "  |     21  00 10                    attributes             16  0x0010",
        "  |               ........ ...1....    isTransactional      true",
        f"  |     27  00 00 01 8b cf e5 68 00  baseTimestamp          {NOW}  2023-11-14T22:13:20.000Z",
        "  |     53  00 00 00 07              baseSequence           7  lastSequence 7",
        "  record 0: bytes 61 to 73 (13 bytes)",
        "> |     61  18                       length                 12  the record ends with byte 73",
        "  |     63  0a                       timestampDelta         5  2023-11-14T22:13:20.005Z",
        "  |     64  00                       offsetDelta            0  offset 0, sequence 7",
        '  |     66  6b 65 79                 key                    "key"',
        "  |     69  01                       valueSize              -1  null",
        "  |     73  00                       headers[0].valueSize   0  empty",
    ):
        assert line in text.splitlines()


@pytest.mark.parametrize("width", [1, 80, 100, 140])
@pytest.mark.parametrize("position", [0, 70, len(LOG) - 1])
def test_no_line_is_wider_than_the_terminal(width: int, position: int) -> None:
    result = report(explain(MemorySource(NAME, LOG), position), width=width)
    assert max(map(len, result.splitlines())) <= max(width, 80)
    assert not any(line != line.rstrip() for line in result.splitlines())


@given(st.binary(min_size=1, max_size=200), st.booleans())
def test_whatever_is_in_the_file_is_escaped(value: bytes, color: bool) -> None:
    log = v2_batch([Row(0, 0, value, value, [(value, value)])])
    text = report(explain(MemorySource("\x1b[31mname\n.log", log), 70), color=color)
    assert all(sign.isprintable() or sign == "\n" for sign in ANSI.sub("", text))


def test_colours_change_nothing_but_colours() -> None:
    for log in (LOG, LOG[:-3], bytes(40), wrapper(1, 0, [legacy_message(1, 0, None, TRICKY)])):
        plain = report(explain(MemorySource(NAME, log), 3))
        colored = report(explain(MemorySource(NAME, log), 3), color=True)
        assert "\x1b[" not in plain
        assert "\x1b[" in colored
        assert ANSI.sub("", colored) == plain


def test_damage_is_coloured() -> None:
    assert "\x1b[1;31m!!" in report(explain(MemorySource(NAME, LOG[:-3]), 3), color=True)
    assert "\x1b[1;31m" not in report(explain(MemorySource(NAME, LOG), 3), color=True)


def test_append_time_and_unused_deltas() -> None:
    text = text_of(v2_batch([Row(3, 9, b"", b"v")], attributes=LOG_APPEND_TIME, last_offset_delta=2))
    assert "unused: LogAppendTime, the" in text
    assert "outside the batch's" in text
    assert "0  empty" in text


def test_a_record_in_a_line() -> None:
    text = text_of(v2_batch(plain_rows(30)))
    assert 'record 5               offset 5, key "key-5", value 10 bytes' in text
    assert "records 20 to 28       9 records" in text
    control = text_of(
        v2_batch([Row(0, number, b"\0\0\0\0", b"\0\0\0\0\0\7") for number in range(3)], attributes=CONTROL)
    )
    assert "record 2               offset 2, ABORT" in control


@pytest.mark.parametrize(
    ("count", "target", "is_stuck", "shown"),
    [
        (0, None, False, []),
        (1, None, False, [(0, 0, How.FULL)]),
        (3, None, False, [(0, 0, How.FULL), (1, 1, How.FULL), (2, 2, How.LINE)]),
        (5, None, True, [(0, 3, How.COUNTED), (4, 4, How.LINE)]),
        (4, 0, False, [(0, 0, How.FULL), (1, 1, How.LINE), (2, 2, How.COUNTED), (3, 3, How.LINE)]),
        (2, 1, False, [(0, 0, How.LINE), (1, 1, How.FULL)]),
    ],
)
def test_selection(count: int, target: int | None, is_stuck: bool, shown: list[tuple[int, int, How]]) -> None:
    assert list(select(count, target, is_stuck=is_stuck)) == shown


@given(st.integers(0, 200), st.none() | st.integers(0, 199), st.booleans())
def test_selection_leaves_none_out(count: int, target: int | None, is_stuck: bool) -> None:
    if target is not None and target >= count:
        target = None
    following = 0
    for first, last, how in select(count, target, is_stuck=is_stuck):
        assert first == following
        assert first == last or how is How.COUNTED
        following = last + 1
    assert following == count


def test_values() -> None:
    assert quoted(b'a"\\\n\xd0\xba') == '"a\\"\\\\\\nк"'
    assert quoted(b"\xffab\x00") == 'b"\\xffab\\x00"'
    assert quoted(b"\xe2\x80\xae\xf0\x90\x80\x80") == '"\\u202e𐀀"'
    assert quoted(b"x" * 1_000_000, 20) == '"' + 15 * "x" + " … " + 5 * "x" + '"'
    assert quoted(b"\0" * 30, 20) == '"' + 3 * "\\x00" + " … " + "\\x00" + '"'
    assert date(NOW) == "2023-11-14T22:13:20.000Z"
    assert (date(-1), date(-2), date(2**62)) == ("none", "before 1970", "after the year 9999")
    assert (span(5, 5), span(5, 6), span(5, 7)) == ("no bytes at 5", "byte 5", "bytes 5 to 6")
