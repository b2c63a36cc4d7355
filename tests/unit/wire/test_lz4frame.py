"""wire.lz4frame: the part of the LZ4 frame format that Kafka reads (docs/spec/formats.md#43-lz4)."""

from __future__ import annotations

import struct

import lz4.block
import pytest

from kdump.codes import Codes, DamageError
from kdump.wire.compression import decompress
from kdump.wire.lz4frame import compress, xxhash32
from tests.harness.batches import LZ4, lz4_frame

MAGIC = b"\x04\x22\x4d\x18"
END = bytes(4)
INDEPENDENT, BLOCK_CHECKSUM, CONTENT_SIZE, CONTENT_CHECKSUM = 0x20, 0x10, 0x08, 0x04
VERSION = 0x40


def frame(
    *blocks: bytes,
    flags: int = VERSION | INDEPENDENT,
    descriptor: int = 0x40,
    extra: bytes = b"",
    checksum: int | None = None,
    tail: bytes = END,
) -> bytes:
    header = bytes([flags, descriptor]) + extra
    hc = xxhash32(header) >> 8 & 0xFF if checksum is None else checksum
    return MAGIC + header + bytes([hc]) + b"".join(blocks) + tail


def block(content: bytes) -> bytes:
    data: bytes = lz4.block.compress(content, store_size=False)
    return struct.pack("<I", len(data)) + data


def stored(content: bytes) -> bytes:
    return struct.pack("<I", len(content) | 0x8000_0000) + content


def read(data: bytes, magic: int = 2) -> bytes:
    return decompress(LZ4, data, magic=magic)


def refused(data: bytes, magic: int = 2) -> str:
    with pytest.raises(DamageError) as caught:
        read(data, magic)
    assert caught.value.code is Codes.PAYLOAD
    return caught.value.message


def test_blocks() -> None:
    assert read(frame()) == b""
    assert read(frame(block(b"one "), stored(b"two "), block(b"three"))) == b"one two three"


@pytest.mark.parametrize(("descriptor", "size"), [(0x40, 1 << 16), (0x50, 1 << 18), (0x60, 1 << 20), (0x70, 1 << 22)])
def test_block_sizes(descriptor: int, size: int) -> None:
    assert read(frame(block(b"x" * size), descriptor=descriptor)) == b"x" * size
    refused(frame(block(b"x" * (size + 1)), descriptor=descriptor))
    assert "at most" in refused(frame(stored(b"x" * (size + 1)), descriptor=descriptor))


@pytest.mark.parametrize("descriptor", [0x00, 0x30, 0x41, 0x80, 0xC0])
def test_other_descriptors(descriptor: int) -> None:
    assert "descriptor" in refused(frame(block(b"x"), descriptor=descriptor))


@pytest.mark.parametrize("flags", [0x20, 0xA0, 0xE0, 0x61, 0x62])
def test_other_versions_and_dictionaries(flags: int) -> None:
    assert "flags" in refused(frame(block(b"x"), flags=flags))


def test_linked_blocks() -> None:
    assert "linked" in refused(frame(block(b"x"), flags=VERSION))
    assert "linked" in refused(lz4_frame(b"abc" * 50_000, block_linked=True))


def test_header_checksum() -> None:
    good = frame(block(b"content"))
    for value in range(256):
        data = good[:6] + bytes([value]) + good[7:]
        assert read(data, magic=0) == b"content"
        if value != good[6]:
            assert "checksum" in refused(data, magic=1)
            assert "checksum" in refused(data, magic=2)
    assert read(good, magic=1) == read(good, magic=2) == b"content"


def test_content_size_is_passed_over() -> None:
    for size in (7, 0, 2**63):
        data = frame(block(b"content"), flags=VERSION | INDEPENDENT | CONTENT_SIZE, extra=struct.pack("<Q", size))
        assert read(data) == b"content"
    assert read(lz4_frame(b"content", store_size=True)) == b"content"


def test_content_checksum_is_not_checked_but_must_be_there() -> None:
    flags = VERSION | INDEPENDENT | CONTENT_CHECKSUM
    assert read(frame(block(b"content"), flags=flags, tail=END + b"????")) == b"content"
    assert "content checksum" in refused(frame(block(b"content"), flags=flags, tail=END + b"???"))
    assert read(lz4_frame(b"content", content_checksum=True)) == b"content"


def test_block_checksum_is_checked() -> None:
    flags = VERSION | INDEPENDENT | BLOCK_CHECKSUM
    for one in (block(b"content"), stored(b"content")):
        checksum = struct.pack("<I", xxhash32(one[4:]))
        assert read(frame(one, checksum, flags=flags)) == b"content"
        assert "checksum is wrong" in refused(frame(one, b"\0\0\0\0", flags=flags))
        assert "cut short" in refused(frame(one, checksum[:3], flags=flags, tail=b""))
    content = bytes(range(256)) * 300
    assert read(lz4_frame(content, block_checksum=True)) == content


def test_what_follows_the_end_mark_is_ignored() -> None:
    assert read(frame(block(b"one")) + frame(block(b"two"))) == b"one"
    assert read(frame(block(b"one")) + b"rubbish") == b"one"


def test_no_end_mark() -> None:
    assert "end mark" in refused(frame(block(b"one"), tail=b""))
    assert "end mark" in refused(frame(block(b"one"), tail=b"\0\0\0"))


def test_not_a_frame() -> None:
    for data in (b"", b"\x04\x22\x4d", b"\x05\x22\x4d\x18" + frame()[4:], MAGIC, MAGIC + b"\x60\x40"):
        refused(data)


def test_broken_block() -> None:
    refused(frame(struct.pack("<I", 3) + b"\xff\xff\xff"))
    assert "where" in refused(frame(struct.pack("<I", 50) + b"abc", tail=b""))


def test_kafka_s_default_level_is_the_fast_mode() -> None:
    words = [b"%x" % (number * number) for number in range(300)]
    data = b" ".join(words[number * 7919 % 300] + words[number % 91] for number in range(3000))
    assert compress(data, old_checksum=False, level=9) == compress(data, old_checksum=False)
    assert compress(data, old_checksum=False, level=8) != compress(data, old_checksum=False)
