"""wire.compression: every codec both ways, cut at every length, over the limit, and what all codecs share."""

from __future__ import annotations

import gzip
import random
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.codes import Codes, DamageError
from kdump.wire.compression import decompress
from tests.harness.batches import CODECS, GZIP, LZ4, SNAPPY, XERIAL_HEADER, ZSTD, compress, xerial_blocks

NAMES = {GZIP: "gzip", SNAPPY: "snappy", LZ4: "lz4", ZSTD: "zstd"}
CONTENT = st.binary(max_size=300) | st.builds(
    lambda part, times: part * times, st.binary(max_size=9), st.integers(0, 20000)
)


def random_bytes(size: int) -> bytes:
    return random.Random(size).randbytes(size)


def damage(codec: int, data: bytes, *, magic: int = 2, limit: int = 1 << 20) -> DamageError:
    with pytest.raises(DamageError) as caught:
        decompress(codec, data, magic=magic, limit=limit)
    return caught.value


def assert_bytes_or_damage(codec: int, data: bytes) -> None:
    code = None
    try:
        content = decompress(codec, data, magic=2, limit=1 << 16)
    except DamageError as error:
        code = error.code
    assert code in (Codes.PAYLOAD, Codes.PAYLOAD_TOO_LARGE) or len(content) <= 1 << 16


@pytest.mark.parametrize("codec", CODECS, ids=NAMES.get)
@given(content=CONTENT, magic=st.integers(0, 2))
def test_round_trip(codec: int, content: bytes, magic: int) -> None:
    data = compress(codec, content, magic)
    for buffer in (data, bytearray(data), memoryview(data)):
        assert decompress(codec, buffer, magic=magic) == content


@pytest.mark.parametrize("codec", CODECS, ids=NAMES.get)
def test_larger_than_a_block(codec: int) -> None:
    content = b"".join(b"%d," % (number * 7919) for number in range(60_000))
    assert decompress(codec, compress(codec, content), magic=2) == content


@pytest.mark.parametrize("codec", [GZIP, LZ4, ZSTD], ids=NAMES.get)
def test_cut_at_every_length(codec: int) -> None:
    data = compress(codec, b"abcdefgh" * 20 + bytes(range(64)))
    # No zstd frame at all is no content, as for Kafka's reader.
    for size in range(codec == ZSTD, len(data)):
        assert damage(codec, data[:size]).code is Codes.PAYLOAD, size


@pytest.mark.parametrize("codec", CODECS, ids=NAMES.get)
def test_flipped_bytes_never_crash(codec: int) -> None:
    content = b"abcdefgh" * 20 + bytes(range(64))
    data = compress(codec, content)
    for position in range(len(data)):
        for mask in (0x01, 0x80, 0xFF):
            broken = data[:position] + bytes([data[position] ^ mask]) + data[position + 1 :]
            assert_bytes_or_damage(codec, broken)


@pytest.mark.parametrize("codec", CODECS, ids=NAMES.get)
@given(st.binary(max_size=60))
def test_rubbish_never_crashes(codec: int, data: bytes) -> None:
    assert_bytes_or_damage(codec, data)


@pytest.mark.parametrize("codec", CODECS, ids=NAMES.get)
@pytest.mark.parametrize("size", [1, 1000, 65536, 200_000])
def test_limit(codec: int, size: int) -> None:
    data = compress(codec, b"x" * size)
    assert decompress(codec, data, magic=2, limit=size) == b"x" * size
    error = damage(codec, data, limit=size - 1)
    assert error.code is Codes.PAYLOAD_TOO_LARGE
    assert "--max-decompressed-size" in str(error)


@pytest.mark.parametrize("codec", [0, 5, 6, 7, -1])
def test_unknown_codec(codec: int) -> None:
    assert damage(codec, b"").code is Codes.CODEC


def test_gzip_members_in_a_row() -> None:
    data = gzip.compress(b"one ") + gzip.compress(b"") + gzip.compress(b"two")
    assert decompress(GZIP, data, magic=2) == b"one two"
    assert decompress(GZIP, data, magic=2, limit=7) == b"one two"
    assert damage(GZIP, data, limit=6).code is Codes.PAYLOAD_TOO_LARGE


@pytest.mark.parametrize("is_named", [False, True])
def test_gzip_reads_what_follows_a_member_once(is_named: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """zlib copies what it is given after a member, and a payload can have millions of members."""
    member = gzip.compress(b"a")
    if is_named:
        member = member[:3] + b"\x08" + member[4:10] + b"name\0" + member[10:]
    given = 0

    class Counted:
        def __init__(self, bits: int) -> None:
            self._stream = decompressobj(bits)

        def decompress(self, data: bytes, most: int) -> bytes:
            nonlocal given
            given += len(data)
            return self._stream.decompress(data, most)

        def __getattr__(self, name: str) -> object:
            return getattr(self._stream, name)

    decompressobj = zlib.decompressobj
    monkeypatch.setattr(zlib, "decompressobj", Counted)
    count = 5000
    assert decompress(GZIP, member * count, magic=2) == b"a" * count
    assert given < count * (1 << 15)


def test_gzip_member_longer_than_what_is_read_at_a_time() -> None:
    """Cuts fall into the content, the trailer and the name of a member."""
    content = random_bytes(40_000)
    member = gzip.compress(content)
    named = member[:3] + b"\x08" + member[4:10] + b"n" * 20_000 + b"\0" + member[10:]
    for size in range(3):
        data = gzip.compress(random_bytes(16_384 - 25 + 10 * size)) + named + member
        assert decompress(GZIP, data, magic=2)[-80_000:] == content * 2
        assert damage(GZIP, data[:-9]).code is Codes.PAYLOAD
    assert decompress(GZIP, member + named[:20_000], magic=2) == content


def test_gzip_with_rubbish_after_it() -> None:
    member = gzip.compress(b"one")
    for rubbish in (b"\0", bytes(100), b"rubbish", b"\x1f", b"\x1f\x8b"):
        assert decompress(GZIP, member + rubbish, magic=2) == b"one", rubbish
    assert damage(GZIP, member + gzip.compress(b"two")[:-1]).code is Codes.PAYLOAD


def test_gzip_checks_its_trailer() -> None:
    data = bytearray(gzip.compress(b"content"))
    for position in (-8, -4):
        data[position] ^= 1
        assert damage(GZIP, bytes(data)).code is Codes.PAYLOAD
        data[position] ^= 1


def test_snappy_without_framing() -> None:
    import snappy

    for content in (b"", b"a", b"content " * 50):
        assert decompress(SNAPPY, snappy.compress(content), magic=2) == content


@pytest.mark.parametrize("versions", [bytes(8), b"\0\0\0\1\0\0\0\2", b"\0\0\0\2\0\0\0\x09", b"\xff" * 8])
def test_xerial_versions_are_not_checked(versions: bytes) -> None:
    data = XERIAL_HEADER[:8] + versions + xerial_blocks(b"content")
    assert decompress(SNAPPY, data, magic=2) == b"content"


def test_xerial_header_in_the_middle() -> None:
    one, two = compress(SNAPPY, b"one " * 9), compress(SNAPPY, b"two")
    assert decompress(SNAPPY, one + two, magic=2) == b"one " * 9 + b"two"
    assert decompress(SNAPPY, one + XERIAL_HEADER + two, magic=2) == b"one " * 9 + b"two"
    assert damage(SNAPPY, one + two[:15]).code is Codes.PAYLOAD


def test_xerial_header_alone_is_no_content() -> None:
    assert decompress(SNAPPY, XERIAL_HEADER, magic=2) == b""


def test_xerial_cut_inside_a_block() -> None:
    data = XERIAL_HEADER + xerial_blocks(b"abcdefgh" * 9, 24)
    starts = [len(XERIAL_HEADER) + len(xerial_blocks(b"abcdefgh" * number, 24)) for number in (0, 3, 6)]
    for start, whole in zip(starts, (0, 1, 2), strict=True):
        # Up to three bytes of a length are passed over, a block that lacks bytes is not.
        for size in range(start, start + 4):
            assert decompress(SNAPPY, data[:size], magic=2) == b"abcdefgh" * 3 * whole
        assert damage(SNAPPY, data[: start + 5]).code is Codes.PAYLOAD


def test_snappy_empty_and_rubbish() -> None:
    for data in (
        b"",
        b"\x05",
        b"\xff\x01",
        XERIAL_HEADER + b"\0\0\0\5rubbi",
        XERIAL_HEADER + b"\xff\xff\xff\xf0xx",
    ):
        assert damage(SNAPPY, data).code is Codes.PAYLOAD, data


def test_snappy_bomb_is_refused_by_its_declared_size() -> None:
    assert damage(SNAPPY, b"\xff\xff\xff\xff\x0f", limit=100).code is Codes.PAYLOAD_TOO_LARGE


def test_zstd_frames_in_a_row() -> None:
    import zstandard

    sized = zstandard.ZstdCompressor(write_content_size=True, write_checksum=True)
    skippable = b"\x50\x2a\x4d\x18\x03\0\0\0abc"
    data = (
        compress(ZSTD, b"one ") + skippable + sized.compress(b"two ") + sized.compress(b"") + compress(ZSTD, b"three")
    )
    assert decompress(ZSTD, data, magic=2) == b"one two three"
    assert damage(ZSTD, data, limit=12).code is Codes.PAYLOAD_TOO_LARGE
    assert damage(ZSTD, data + b"x").code is Codes.PAYLOAD


def test_zstd_cut_after_the_first_frame() -> None:
    # zstd-jni looks for the end of the input only inside the first frame, or when it has to read on.
    one, two, skippable = compress(ZSTD, b"one "), compress(ZSTD, b"two"), b"\x50\x2a\x4d\x18\x03\0\0\0abc"
    for size in range(1, len(two)):
        content = decompress(ZSTD, one + two[:size], magic=2)
        assert content.startswith(b"one ")
        assert b"one two".startswith(content)
    for size in range(1, len(skippable)):
        assert decompress(ZSTD, one + skippable[:size], magic=2) == b"one "
    large = random_bytes(140_000)
    cut = compress(ZSTD, large)[:-1]
    assert damage(ZSTD, cut).code is Codes.PAYLOAD
    assert damage(ZSTD, one + cut).code is Codes.PAYLOAD


def test_zstd_bomb() -> None:
    # 128 KiB of one byte in a block of 4 bytes.
    import zstandard

    bomb = zstandard.ZstdCompressor(write_content_size=False).compressobj()
    data = bomb.compress(bytes(1 << 24)) + bomb.flush()
    assert len(data) < 2000
    assert damage(ZSTD, data, limit=1 << 20).code is Codes.PAYLOAD_TOO_LARGE
