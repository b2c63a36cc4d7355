"""Each kind of damage: what is said, at which byte, and what is marked."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from kdump.codes import KdumpError
from kdump.explain import is_damage
from kdump.explain.lines import Line, Space, Tone
from kdump.explain.log import log_lines
from kdump.format.batch import HEADER_SIZE
from kdump.log.opening import open_source
from tests.harness.batches import CONTROL, GZIP, LZ4, SNAPPY, ZSTD, message, plain_rows, v2_batch, wrapper
from tests.harness.explained import assert_tiles, labelled, lines_of, named, statements
from tests.harness.fast_reference import Row, encode, varint

BATCH = v2_batch(plain_rows(3))
AFTER = v2_batch(plain_rows(2), base_offset=3)


def damage(lines: list[Line]) -> str:
    return "\n".join(statements(lines, Tone.DAMAGE))


def with_length(batch: bytes, length: int) -> bytes:
    return batch[:8] + struct.pack(">i", length) + batch[12:]


def test_a_flipped_bit_is_named_and_its_field_marked() -> None:
    log = bytearray(BATCH)
    (value,) = [line for line in named(lines_of(BATCH, 70), "value") if line.is_covered][:1]
    log[value.position + 2] ^= 0x20
    lines = lines_of(bytes(log))
    at = value.position + 2
    assert f"One flipped bit explains it: bit 5 of byte {at}, which is 0x61 and would be 0x41." in damage(lines)
    assert [line.name for line in labelled(lines) if line.is_damaged] == ["value"]
    assert any("isvalid: false" in text for text in statements(lines, Tone.KAFKA))


def test_a_changed_byte() -> None:
    log = bytearray(BATCH)
    log[30] ^= 0x7E
    lines = lines_of(bytes(log))
    assert "One changed byte explains it: byte 30, which is" in damage(lines)
    assert [line.name for line in labelled(lines) if line.is_damaged] == ["baseTimestamp"]


def test_a_wrong_stored_crc() -> None:
    log = bytearray(BATCH)
    log[18] ^= 1
    lines = lines_of(bytes(log))
    assert "One flipped bit in the stored CRC explains it (mask 0x00010000)" in damage(lines)
    assert [line.name for line in labelled(lines) if line.is_damaged] == ["crc"]


def test_an_unexplained_crc() -> None:
    lines = lines_of(v2_batch(plain_rows(3), crc=0xDEADBEEF))
    assert damage(lines).startswith("The CRC is wrong: stored 0xdeadbeef")
    assert "explains" not in damage(lines)
    assert [line.name for line in labelled(lines) if line.is_damaged] == ["crc"]


@pytest.mark.parametrize("codec", [0, GZIP, ZSTD])
@pytest.mark.parametrize("length", [-5, 0, 13, 14, 40, None, 100_000])
def test_a_wrong_batch_length(length: int | None, codec: int) -> None:
    """The CRC tells the right length, also of a compressed batch; what follows is found again."""
    batch = v2_batch(plain_rows(3), codec=codec)
    log = with_length(batch, len(batch) + 20 if length is None else length) + AFTER
    lines = lines_of(log, 5)
    assert_tiles(lines, 0, len(batch))
    assert f"with {len(batch) - 12} the CRC of the batch at 0 is right" in damage(lines)
    assert [line.name for line in labelled(lines) if line.is_damaged] == ["batchLength"]
    after = lines_of(log, len(log) - 1)
    assert_tiles(after, len(batch), len(log))
    assert "entry 1:" in statements(after, Tone.TITLE)[-1]


def test_a_wrong_length_of_the_last_batch() -> None:
    batch = v2_batch(plain_rows(3), codec=GZIP)
    lines = lines_of(AFTER + with_length(batch, 5_000), len(AFTER))
    assert f"with {len(batch) - 12} the CRC of the batch at {len(AFTER)} is right" in damage(lines)
    assert_tiles(lines, len(AFTER), len(AFTER) + len(batch))


def test_a_length_too_small_with_no_way_out() -> None:
    log = BATCH + with_length(v2_batch(plain_rows(1), crc=1), 3) + AFTER
    at = len(BATCH)
    lines = lines_of(log, at + 2)
    assert f"The length in bytes {at + 8} to {at + 11} is 3" in damage(lines)
    assert_tiles(lines, at, at + 17)
    assert [line.name for line in labelled(lines) if line.is_damaged] == ["length"]


def test_a_position_after_the_break_is_tried_as_an_entry() -> None:
    log = BATCH + with_length(v2_batch(plain_rows(1), crc=1), 3) + AFTER
    at = len(log) - len(AFTER)
    lines = lines_of(log, at)
    assert f"Byte {at}, read as the start of an entry:" in statements(lines, Tone.TITLE)
    assert any("The CRC is right" in text for text in statements(lines, Tone.TEXT))
    off = lines_of(log, at + 1)
    assert named(off, "bytes")[0].note.startswith("no entry begins here: its length would be")


def test_an_entry_that_is_too_large_to_be_shown_may_be_one() -> None:
    """A broker takes it if message.max.bytes is as large."""
    large = v2_batch(body=bytes(33 << 20))
    log = BATCH + with_length(v2_batch(plain_rows(1), crc=1), 3) + large
    [field] = named(lines_of(log, len(log) - len(large)), "bytes")
    assert field.note == f"by its length of {len(large) - 12}, an entry that begins here is too large to be shown"


@pytest.mark.parametrize("size", [1, 17, 18, 1000])
def test_a_tail_of_zeros(size: int) -> None:
    lines = lines_of(BATCH + bytes(size), len(BATCH))
    assert_tiles(lines, len(BATCH), len(BATCH) + size)
    assert f"All bytes from {len(BATCH)} to the end are zero" in damage(lines)
    kafka = "\n".join(statements(lines, Tone.KAFKA))
    assert ("CorruptRecordException" in kafka) == (size > 17)


def test_a_few_bytes_left_over() -> None:
    lines = lines_of(BATCH + b"twelve bytes", len(BATCH) + 5)
    assert f"12 bytes left over from byte {len(BATCH)} on" in damage(lines)
    assert_tiles(lines, len(BATCH), len(BATCH) + 12)


def test_a_cut_batch_is_explained_up_to_the_cut() -> None:
    lines = lines_of(BATCH[:-5])
    assert_tiles(lines, 0, len(BATCH) - 5)
    assert "the entry would end 5 bytes after the end of the file" in damage(lines)
    assert "The file ends inside record 2." in statements(lines, Tone.TEXT)
    assert named(lines, "cut off")[0].end == len(BATCH) - 5


def test_magics_of_no_format() -> None:
    high = lines_of(BATCH[:16] + b"\x03" + BATCH[17:])
    assert "The magic in byte 16 is 3; it is read as 2." in damage(high)
    assert any("The CRC is right" in text for text in statements(high, Tone.TEXT))
    low = lines_of(BATCH[:16] + b"\xff" + BATCH[17:])
    assert "but the CRC-32C of a batch of magic 2 is right" in damage(low)
    assert_tiles(low, 0, len(BATCH))
    unknown = lines_of(v2_batch(plain_rows(3), magic=-7, crc=1))
    assert "Byte 16 cannot be read as an entry: no format has the magic -7." in damage(unknown)
    assert_tiles(unknown, 0, len(BATCH))
    assert any("Invalid magic used in LegacyRecord: -7" in text for text in statements(unknown, Tone.KAFKA))


@pytest.mark.parametrize(
    ("count", "what"),
    [
        (4, "The count is 4, but the bytes hold exactly 3 records"),
        (2, "The count is 2, but the bytes hold exactly 3 records"),
        (-1, "The count is -1, but the bytes hold exactly 3 records"),
    ],
)
def test_a_wrong_count(count: int, what: str) -> None:
    lines = lines_of(v2_batch(plain_rows(3), record_count=count))
    assert what in damage(lines)
    assert_tiles(lines, 0, len(BATCH))


def test_bytes_left_over_after_the_records() -> None:
    body = b"".join(map(encode, plain_rows(3))) + b"\x00rest"
    lines = lines_of(v2_batch(plain_rows(3), body=body))
    assert f"5 bytes left over from byte {len(BATCH)} on, after the 3 records of the count." in damage(lines)
    assert bytes(named(lines, "left over")[0].data) == b"\x00rest"


def test_an_empty_count_hides_records() -> None:
    lines = lines_of(v2_batch(plain_rows(3), record_count=0))
    assert not any(map(is_damage, lines))
    assert named(lines, "not read")[0].position == HEADER_SIZE
    assert "The batch holds no records" in statements(lines_of(v2_batch()), Tone.TEXT)[-1]


FIELDS = b"\0\0\0" + varint(1) + b"k" + varint(1) + b"v"


@pytest.mark.parametrize(
    ("body", "blamed", "what"),
    [
        (varint(100) + FIELDS, "length", "the length is 100 where 7 bytes are left"),
        (varint(-2) + FIELDS, "length", "the length is -2 where 7 bytes are left"),
        (varint(0) + FIELDS, "length", "the length is 0: no room for any field"),
        (varint(8) + FIELDS + b"\0", None, None),
        (varint(9) + FIELDS + b"\0\0", "length", "the length is 9, the fields take 8 bytes"),
        (varint(7) + FIELDS, None, "no byte is left for headerCount"),
        (varint(8) + FIELDS + b"\x80", None, "headerCount: a variable-length integer is cut short"),
        (varint(8) + FIELDS + varint(-1), "headerCount", "headerCount is -1 where 0 bytes are left"),
        (varint(8) + FIELDS + varint(9), "headerCount", "headerCount is 9 where 0 bytes are left"),
        (varint(6) + b"\0\0\0" + varint(50) + b"ab", "keySize", "keySize is 50 where 2 bytes are left"),
        (varint(9) + FIELDS + varint(1) + varint(-1), "headers[0].keySize", "a header needs a key"),
    ],
)
def test_a_broken_record(body: bytes, blamed: str | None, what: str | None) -> None:
    batch = v2_batch(plain_rows(1), body=body)
    lines = lines_of(batch)
    assert_tiles(lines, 0, len(batch))
    if what is None:
        assert damage(lines) == ""
        return
    assert what in damage(lines)
    assert "record 0 cannot be read on" in damage(lines)
    assert statements(lines, Tone.KAFKA)
    if blamed is not None:
        assert named(lines, blamed)[0].is_damaged


def test_the_byte_that_is_to_blame_is_named() -> None:
    body = varint(8) + FIELDS + varint(-1)
    lines = lines_of(v2_batch(plain_rows(1), body=body))
    at = HEADER_SIZE + len(body) - 1
    assert damage(lines) == f"At byte {at} record 0 cannot be read on: headerCount is -1 where 0 bytes are left."
    legacy = message(0, 0, b"k", b"v")[:18] + struct.pack(">i", 99) + b"kkkkkk"
    assert named(lines_of(with_length(legacy, len(legacy) - 12)), "keySize")[0].is_damaged


def test_an_unknown_codec() -> None:
    lines = lines_of(v2_batch(plain_rows(1), attributes=6))
    assert "Codec id 6 is unknown" in damage(lines)
    assert any("Unknown compression type id: 6" in text for text in statements(lines, Tone.KAFKA))


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_a_payload_of_something_else(codec: int) -> None:
    batch = v2_batch(plain_rows(1), body=b"this is no such thing at all", attributes=codec)
    lines = lines_of(batch)
    assert_tiles(lines, 0, len(batch))
    assert "The records cannot be decompressed" in damage(lines)


def test_damage_inside_decompressed_records() -> None:
    lines = lines_of(v2_batch(plain_rows(3), codec=GZIP, record_count=5))
    assert "The count is 5, but the bytes hold exactly 3 records" in damage(lines)
    assert labelled(lines, Space.PAYLOAD)


@pytest.mark.parametrize(
    ("key", "value", "what"),
    [
        (b"\0\0\0\1", b"\0\0\0\0\0\7", None),
        (b"\0\0\0\0\t", b"\0\0\0\0\0\7rest", None),
        (b"\0\0\0\3", b"\0\0\0\0\1\x8b\xcf\xe5\x68\0\0", None),
        (b"\0\0\0\x63", b"x", None),
        (None, b"x", "it has no key"),
        (b"", b"x", "its key has 0 bytes"),
        (b"\0\0", b"x", "its key has 2 bytes"),
        (b"\xff\xff\0\1", b"x", "its key version is -1"),
        (b"\0\0\0\1", b"\0\0", "value has 2 bytes"),
        (b"\0\0\0\1", None, "has no value"),
        (b"\0\0\0\2", b"\0", "It makes no sense as a control record"),
    ],
)
def test_control_records(key: bytes | None, value: bytes | None, what: str | None) -> None:
    batch = v2_batch([Row(0, 0, key, value)], attributes=CONTROL)
    lines = lines_of(batch)
    assert_tiles(lines, 0, len(batch))
    assert (what or "") in damage(lines)
    assert any(map(is_damage, lines)) == (what is not None)


def test_control_fields_are_named() -> None:
    lines = lines_of(v2_batch([Row(0, 0, b"\0\0\0\1", b"\0\0\0\0\0\7")], attributes=CONTROL))
    assert named(lines, "key.type")[0].note == "COMMIT"
    assert named(lines, "value.coordinatorEpoch")[0].value == "7"


@pytest.mark.parametrize(
    ("entry", "what"),
    [
        (message(1, 0, None, None, attributes=GZIP), "A wrapper without a value"),
        (message(1, 0, None, b"junk", attributes=GZIP), "cannot be decompressed"),
        (message(1, 0, None, b"junk", attributes=ZSTD), "Codec id 4 (zstd) is none of this format."),
        (wrapper(1, 5, [wrapper(1, 5, [message(1, 0, None, b"v")])]), "is compressed itself"),
        (wrapper(1, 3, [message(1, 5, None, b"v")]), "below its last inner offset 5"),
        (wrapper(0, 3, [message(0, 5, None, b"v"), bytes(20)]), "an inner message with messageSize 0"),
        (wrapper(0, 3, []), "The wrapper cannot be read: the wrapper holds no message."),
        (message(0, 0, b"k", b"v")[:18] + struct.pack(">i", 99) + b"kkkkkk", "keySize is 99"),
    ],
)
def test_legacy_damage(entry: bytes, what: str) -> None:
    entry = with_length(entry, len(entry) - 12)
    lines = lines_of(entry)
    assert_tiles(lines, 0, len(entry))
    assert what in damage(lines)
    assert statements(lines, Tone.KAFKA)


def test_a_cut_inner_message_is_dropped_without_damage() -> None:
    inner = [message(0, 0, None, b"v"), message(0, 1, None, b"v")[:-3]]
    lines = lines_of(wrapper(0, 0, inner))
    assert not any(map(is_damage, lines))
    assert named(lines, "rest")[0].note == "dropped"
    assert "Readers drop a cut last inner message without an error." in statements(lines, Tone.KAFKA)


def test_offsets_and_timestamps_of_inner_messages() -> None:
    inner = [message(1, number, None, b"v", timestamp=5) for number in range(3)]
    lines = lines_of(wrapper(1, 42, inner, timestamp=9, attributes=8))
    offsets = [line.note for line in named(lines, "offset") if line.space is Space.PAYLOAD]
    assert offsets == [f"offset {40 + number}, relative to the wrapper" for number in range(2)]
    assert named(lines, "timestamp")[1].note == "replaced by the wrapper's 9"


def test_wrong_crcs_of_inner_messages() -> None:
    inner = [message(1, number, None, b"value", crc=1 if number in (25, 27) else None) for number in range(40)]
    lines = lines_of(wrapper(1, 39, inner))
    assert "2 messages with a wrong CRC: 25, 27." in damage(lines)
    assert statements(lines, Tone.GROUP)[-1].startswith("message 25:")
    assert any("isValid: false" in text for text in statements(lines, Tone.KAFKA))


def test_recovery_reads_the_first_record_of_a_marker_batch() -> None:
    body = varint(9) + FIELDS + b"\0\0"
    data, marker = (
        "\n".join(statements(lines_of(v2_batch(plain_rows(1), body=body, attributes=bits, producer_id=1)), Tone.KAFKA))
        for bits in (0, CONTROL)
    )
    assert "Recovery does not look inside." in data
    assert "Recovery reads the first record" in marker


@pytest.mark.parametrize("left", [0, 5, 14, 60])
def test_a_log_that_was_longer_when_its_size_was_asked(left: int, tmp_path: Path) -> None:
    path = tmp_path / f"{0:020}.log"
    path.write_bytes(BATCH[:left])
    with open_source(str(path)) as source:
        for size in range(left + 1, len(BATCH) + 10):
            with pytest.raises(KdumpError, match="has become shorter"):
                list(log_lines(source, 0, size, 1 << 20))
