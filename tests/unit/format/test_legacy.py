"""format.legacy: messages of magic 0 and 1, and the rules of compressed wrappers.

Source: docs/spec/formats.md#2-messages-v0-and-v1, docs/spec/formats.md#21-compressed-wrappers.
"""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.codes import Codes, DamageError
from kdump.format.legacy import LegacyRecord, Message, check_inner, parse_message, read_records
from tests.harness.batches import GZIP, LOG_APPEND_TIME, LZ4, NONE, NOW, SNAPPY, ZSTD, compress, message, wrapper
from tests.harness.fast_reference import INT64, NULLABLE

MAGICS = st.sampled_from([0, 1])
LEGACY_CODECS = (GZIP, SNAPPY, LZ4)


def parse(data: bytes) -> Message:
    return parse_message(memoryview(data))


def records(data: bytes, limit: int = 1 << 20) -> list[LegacyRecord]:
    return list(read_records(parse(data), limit))


def offsets(data: bytes) -> list[int]:
    return [record.offset for record in records(data)]


def timestamps(data: bytes) -> list[int]:
    return [record.timestamp for record in records(data)]


def damage(data: bytes, limit: int = 1 << 20) -> DamageError:
    with pytest.raises(DamageError) as caught:
        records(data, limit)
    return caught.value


def inner(magic: int, *offsets: int) -> list[bytes]:
    return [message(magic, offset, b"k", b"v%d" % offset, timestamp=NOW + offset) for offset in offsets]


@given(MAGICS, st.tuples(INT64, INT64), NULLABLE, NULLABLE, st.integers(0, 255))
def test_message_round_trip(
    magic: int, numbers: tuple[int, int], key: bytes | None, value: bytes | None, attributes: int
) -> None:
    offset, timestamp = numbers
    data = message(magic, offset, key, value, timestamp=timestamp, attributes=attributes)
    read = parse(data)
    assert (read.offset, read.size, read.magic, read.codec) == (offset, len(data), magic, attributes & 7)
    assert read.timestamp == (timestamp if magic else -1)
    assert (read.key(), read.value()) == (key, value)
    assert read.key_size() == (-1 if key is None else len(key))
    assert read.value_size() == (-1 if value is None else len(value))
    assert read.is_valid
    assert read.is_log_append_time == bool(magic and attributes & LOG_APPEND_TIME)


@given(MAGICS, st.data())
def test_crc_covers_everything_after_it(magic: int, data: st.DataObject) -> None:
    whole = bytearray(message(magic, 5, b"key", b"value"))
    position = data.draw(st.integers(0, len(whole) - 1).filter(lambda index: index not in (8, 9, 10, 11)))
    whole[position] ^= data.draw(st.integers(1, 255))
    # Only the offset field is free; the length field belongs to the walk.
    assert parse(bytes(whole)).is_valid == (position < 8)


def test_negative_sizes_are_kept_as_stored() -> None:
    body = struct.pack(">bBii", 0, 0, -7, -9)
    read = parse(struct.pack(">qiI", 1, 4 + len(body), 0) + body)
    assert (read.key_size(), read.value_size(), read.key(), read.value()) == (-7, -9, None, None)
    assert not read.is_valid


@pytest.mark.parametrize("magic", [0, 1])
def test_sizes_beyond_the_message(magic: int) -> None:
    whole = message(magic, 0, b"key", b"value")
    head = len(whole) - 3 - 5 - 8
    for position, size, reader in [
        (head, 100, Message.key),
        (head, 100, Message.value_size),
        (head, 2**31 - 1, Message.value),
        (head + 7, 6, Message.value),
    ]:
        data = bytearray(whole)
        struct.pack_into(">i", data, position, size)
        with pytest.raises(DamageError) as caught:
            reader(parse(bytes(data)))
        assert caught.value.code is Codes.LEGACY_MESSAGE
    with pytest.raises(DamageError):
        parse(whole[: head + 2]).key_size()


@given(MAGICS, INT64)
def test_uncompressed_message_is_its_own_record(magic: int, offset: int) -> None:
    data = message(magic, offset, b"k", b"v")
    (record,) = records(data)
    assert (record.offset, record.timestamp) == (offset, NOW if magic else -1)
    check_inner(record, record.message)


@pytest.mark.parametrize("codec", LEGACY_CODECS)
@pytest.mark.parametrize("magic", [0, 1])
def test_wrapper_contents(magic: int, codec: int) -> None:
    read = records(wrapper(magic, 7, inner(magic, 5, 6, 7), codec))
    assert [(record.message.key(), record.message.value()) for record in read] == [
        (b"k", b"v5"),
        (b"k", b"v6"),
        (b"k", b"v7"),
    ]
    assert all(record.message.is_valid for record in read)


def test_offsets_in_magic_0_are_absolute() -> None:
    assert offsets(wrapper(0, 99, inner(0, 5, 6, 9))) == [5, 6, 9]


def test_offsets_in_magic_1_are_relative_to_the_last() -> None:
    assert offsets(wrapper(1, 102, inner(1, 0, 1, 2))) == [100, 101, 102]
    # Gaps after compaction.
    assert offsets(wrapper(1, 102, inner(1, 0, 2, 5))) == [97, 99, 102]
    assert offsets(wrapper(1, 2, inner(1, 0, 1, 2))) == [0, 1, 2]


def test_wrapper_offset_0_leaves_offsets_alone() -> None:
    assert offsets(wrapper(1, 0, inner(1, 0, 1, 2))) == [0, 1, 2]
    assert offsets(wrapper(1, 0, inner(1, 7, 9))) == [7, 9]


def test_wrapper_offset_below_the_last_inner() -> None:
    assert damage(wrapper(1, 4, inner(1, 4, 5))).code is Codes.LEGACY_WRAPPER
    assert damage(wrapper(1, -1, inner(1, 0))).code is Codes.LEGACY_WRAPPER
    assert offsets(wrapper(0, 4, inner(0, 4, 5))) == [4, 5]


def test_timestamps() -> None:
    create = wrapper(1, 2, inner(1, 0, 1, 2), timestamp=NOW + 2)
    assert timestamps(create) == [NOW, NOW + 1, NOW + 2]
    append = wrapper(1, 2, inner(1, 0, 1, 2), timestamp=NOW + 50, attributes=LOG_APPEND_TIME)
    assert timestamps(append) == [NOW + 50] * 3
    assert timestamps(wrapper(0, 2, inner(0, 0, 1, 2))) == [-1] * 3


def test_mixed_magics() -> None:
    # Offsets by the wrapper's rules, timestamps by those of the message inside.
    assert offsets(wrapper(1, 12, inner(0, 0, 1, 2))) == [10, 11, 12]
    assert timestamps(wrapper(1, 2, inner(0, 0, 1, 2))) == [-1] * 3
    assert timestamps(wrapper(1, 2, inner(0, 0, 1, 2), attributes=LOG_APPEND_TIME)) == [-1] * 3
    assert offsets(wrapper(0, 12, inner(1, 0, 1, 2))) == [0, 1, 2]
    assert timestamps(wrapper(0, 2, inner(1, 0, 1, 2))) == [NOW, NOW + 1, NOW + 2]


@pytest.mark.parametrize("codec", LEGACY_CODECS)
def test_cut_last_inner_message_is_dropped(codec: int) -> None:
    messages = b"".join(inner(1, 0, 1, 2))
    last = len(inner(1, 2)[0])
    for missing in (1, last - 12, last - 1, last):
        value = compress(codec, messages[: len(messages) - missing], 1)
        assert offsets(message(1, 10, None, value, attributes=codec)) == [9, 10], missing


def test_wrapper_without_value() -> None:
    assert damage(message(1, 0, None, None, attributes=GZIP)).code is Codes.LEGACY_WRAPPER


def test_wrapper_without_messages() -> None:
    assert damage(wrapper(1, 0, [])).code is Codes.LEGACY_WRAPPER
    assert damage(wrapper(1, 0, [inner(1, 0)[0][:-1]])).code is Codes.LEGACY_WRAPPER


def test_zstd_wrapper() -> None:
    assert damage(wrapper(1, 0, inner(1, 0), ZSTD)).code is Codes.LEGACY_WRAPPER


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_unknown_codec(codec: int) -> None:
    assert damage(message(1, 0, None, b"x", attributes=codec)).code is Codes.CODEC


def test_rubbish_in_a_wrapper() -> None:
    assert damage(message(1, 0, None, b"rubbish", attributes=GZIP)).code is Codes.PAYLOAD
    assert damage(wrapper(1, 0, [bytes(40)])).code is Codes.LEGACY_WRAPPER
    assert damage(wrapper(1, 0, [inner(1, 0)[0], struct.pack(">qi", 1, 13) + bytes(13)])).code is Codes.LEGACY_WRAPPER


def test_smallest_inner_message() -> None:
    # 14 bytes after the length field: a null key and value of magic 0.
    smallest = message(0, 3, None, None)
    assert len(smallest) == 26
    assert offsets(wrapper(0, 3, [smallest])) == [3]


def test_limit() -> None:
    data = wrapper(1, 0, [message(1, 0, None, bytes(5000))])
    assert len(records(data, 6000)) == 1
    assert damage(data, 5000).code is Codes.PAYLOAD_TOO_LARGE


def test_compressed_inner_message_is_told_after_those_before_it() -> None:
    entry = parse(wrapper(1, 1, [*inner(1, 0), wrapper(1, 1, inner(1, 0))]))
    first, second = read_records(entry)
    check_inner(first, entry)
    with pytest.raises(DamageError, match="compressed") as caught:
        check_inner(second, entry)
    assert caught.value.code is Codes.LEGACY_WRAPPER


def test_lz4_header_checksum_matters_from_magic_1_on() -> None:
    wrong = compress(LZ4, b"".join(inner(0, 0)), 0)
    right = compress(LZ4, b"".join(inner(0, 0)), 1)
    assert offsets(message(0, 0, None, wrong, attributes=LZ4)) == [0]
    assert offsets(message(0, 0, None, right, attributes=LZ4)) == [0]
    assert offsets(message(1, 0, None, right, attributes=LZ4)) == [0]
    assert damage(message(1, 0, None, wrong, attributes=LZ4)).code is Codes.PAYLOAD


@given(MAGICS, st.binary(max_size=60), st.sampled_from([NONE, *LEGACY_CODECS]))
def test_rubbish_never_crashes(magic: int, data: bytes, codec: int) -> None:
    code = None
    try:
        records(message(magic, 9, None, compress(codec, data, magic), attributes=codec))
    except DamageError as error:
        code = error.code
    assert code in (None, Codes.LEGACY_WRAPPER, Codes.LEGACY_MESSAGE)
