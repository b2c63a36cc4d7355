"""Messages of Kafka 0.7 and what a consumer gets of wrappers, to any depth."""

from __future__ import annotations

import sys

import pytest

from kdump.codes import Codes, DamageError
from kdump.kafka07.message import Message07, parse_message, read_records, write_message
from kdump.wire import compression

START = 100
M = [write_message(b"m%d" % number, magic=number % 2) for number in range(5)]


def wrapper(codec: int, content: bytes) -> bytes:
    return write_message(compression.compress(codec, content, magic=0), attributes=codec)


def parsed(data: bytes) -> Message07:
    return parse_message(memoryview(data), START)


def labels(data: bytes) -> list[tuple[bytes | None, int, int]]:
    return [(record.message.value(), record.offset, record.next_offset) for record in read_records(parsed(data))]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("payload", [b"", b"x", bytes(1000)])
def test_round_trip(magic: int, payload: bytes) -> None:
    message = parsed(write_message(payload, magic=magic))
    assert (message.value(), message.magic, message.codec, message.is_valid) == (payload, magic, 0, True)
    assert (message.size, message.next_offset) == (9 + magic + len(payload), START + 9 + magic + len(payload))
    assert message.key() is None
    assert message.content_positions() == ((9 + magic, payload),)


def test_only_the_last_message_leads_past_the_wrapper() -> None:
    data = wrapper(1, M[0] + M[1] + M[2])
    assert labels(data) == [(b"m0", START, START), (b"m1", START, START), (b"m2", START, START + len(data))]


def test_nested_wrappers_of_both_codecs() -> None:
    inner = wrapper(1, M[0] + M[1])
    empty = wrapper(1, b"")
    data = wrapper(1, wrapper(2, M[2] + inner + M[3]) + empty + M[4] + empty)
    assert [value for value, _, _ in labels(data)] == [b"m2", b"m0", b"m1", b"m3", b"m4"]
    assert [after for _, _, after in labels(data)] == [START] * 4 + [START + len(data)]
    assert labels(empty) == []


def test_a_cut_last_message_is_dropped() -> None:
    assert [value for value, _, _ in labels(wrapper(2, M[0] + M[1][:-1]))] == [b"m0"]


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (M[0][:-1], Codes.LEGACY_WRAPPER),
        (M[0] + bytes(4), Codes.LEGACY_WRAPPER),
        (M[0] + b"\xff\xff\xff\xff", Codes.LEGACY_WRAPPER),
        (M[0] + b"\0\0\0\x05\x07\0\0\0\0", Codes.MAGIC),
        (M[0] + b"\0\0\0\x05\x01\0\0\0\0", Codes.LEGACY_MESSAGE),
    ],
)
def test_damaged_content(content: bytes, code: Codes) -> None:
    check_damage(wrapper(1, content), code)


@pytest.mark.parametrize(
    ("payload", "codec", "code"),
    [(b"", 1, Codes.PAYLOAD), (b"plain", 2, Codes.PAYLOAD), (b"plain", 3, Codes.CODEC)],
)
def test_damaged_payload(payload: bytes, codec: int, code: Codes) -> None:
    check_damage(write_message(payload, attributes=codec), code)


@pytest.mark.slow
def test_a_payload_that_is_too_large() -> None:
    check_damage(wrapper(1, write_message(bytes(200 << 20))), Codes.PAYLOAD_TOO_LARGE)


def check_damage(data: bytes, code: Codes) -> None:
    with pytest.raises(DamageError) as caught:
        labels(data)
    assert caught.value.code is code


def test_what_comes_before_the_damage_stands() -> None:
    records = read_records(parsed(wrapper(1, M[0] + M[1] + bytes(4))))
    assert [next(records).message.value() for _ in range(2)] == [b"m0", b"m1"]
    with pytest.raises(DamageError):
        next(records)


def test_depth_costs_no_stack() -> None:
    """Deeper than Python lets functions call one another."""
    data = M[0]
    for _ in range(sys.getrecursionlimit() + 100):
        data = wrapper(1, data)
    assert labels(data) == [(b"m0", START, START + len(data))]


@pytest.mark.parametrize("magic", [2, 127, 128, 255])
def test_unknown_magic(magic: int) -> None:
    with pytest.raises(DamageError, match=f"Magic byte value of {magic if magic < 128 else magic - 256} is unknown"):
        parsed(M[0][:4] + bytes([magic]) + M[0][5:])
