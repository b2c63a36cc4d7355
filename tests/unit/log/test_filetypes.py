"""Files of other types under the name of a log, and damaged logs that begin like one."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import random
import sqlite3
import struct
import tarfile
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lz4.frame
import pytest
import zstandard

from kdump.log.filetypes import identify
from kdump.log.source import StreamSource
from tests.harness.batches import plain_rows, v2_batch
from tests.harness.explained import MemorySource
from tests.harness.fast_reference import Row

BATCHES = [v2_batch(plain_rows(3, 100), base_offset=3 * number) for number in range(40)]
LOG = b"".join(BATCHES)
RANDOM = random.Random(1)
INCOMPRESSIBLE = b"".join(
    v2_batch([Row(0, 0, b"key", RANDOM.randbytes(3000))], base_offset=number) for number in range(200)
)
"""A log that a compressor stores as it is."""


def tar(data: bytes, form: int = tarfile.PAX_FORMAT, name: str = "orders-0/00000000000000000000.log") -> bytes:
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w", format=form) as archive:
        folder = tarfile.TarInfo("orders-0")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
        member = tarfile.TarInfo(name)
        member.size = len(data)
        archive.addfile(member, io.BytesIO(data))
    return held.getvalue()


def zipped(data: bytes, method: int) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", method) as archive:
        archive.writestr("0.log", data)
    return held.getvalue()


def database(folder: Path) -> bytes:
    with sqlite3.connect(folder / "x.db") as connection:
        connection.execute("create table t (a)")
    connection.close()
    return (folder / "x.db").read_bytes()


def type_of(data: bytes) -> str | None:
    found = identify(MemorySource("0.log", data))
    return None if found is None else found.name


COMPRESSORS = {
    "gzip": gzip.compress,
    "zstd": zstandard.ZstdCompressor().compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "lz4": lz4.frame.compress,
}


@pytest.mark.parametrize("name", COMPRESSORS)
@pytest.mark.parametrize(
    ("data", "contents"),
    [(LOG, "a Kafka log"), (INCOMPRESSIBLE, "a Kafka log"), (tar(LOG), "a tar archive"), (b"hello\n" * 99, "text")],
    ids=["log", "incompressible", "tar", "text"],
)
def test_compressed(name: str, data: bytes, contents: str) -> None:
    found = type_of(COMPRESSORS[name](data))
    assert found is not None
    assert name in found
    # Of a block that is not there as a whole nothing is known.
    assert found.endswith(f"{contents} in it") or (name, data) in {("bzip2", INCOMPRESSIBLE), ("xz", INCOMPRESSIBLE)}


@pytest.mark.parametrize("name", COMPRESSORS)
def test_compressed_and_cut(name: str) -> None:
    data = COMPRESSORS[name](LOG)
    assert name in (type_of(data[: len(data) // 2]) or "")
    assert name in (type_of(data + data) or "")


@pytest.mark.parametrize("data", [LOG, INCOMPRESSIBLE], ids=["log", "incompressible"])
@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_tar(form: int, data: bytes) -> None:
    """Its members are there unchanged, sound batches and all."""
    assert type_of(tar(data, form)) == type_of(tar(data, form, name="n" * 90)) == "a tar archive"
    assert type_of(tar(data, form)[: len(data) // 2]) == "a tar archive"


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_zip(method: int) -> None:
    assert type_of(zipped(LOG, method)) == "a zip archive"


BODY = RANDOM.randbytes(5000)
KEY_ID = bytes(8)


@pytest.mark.parametrize(
    ("head", "word"),
    [
        (b"Salted__" + KEY_ID, "openssl"),
        (b"U2FsdGVkX1+abcd\n", "openssl"),
        (b"age-encryption.org/v1\n-> X25519 ", "age"),
        (b"-----BEGIN AGE ENCRYPTED FILE-----\nYWdl\n", "age"),
        (b"-----BEGIN PGP MESSAGE-----\n\nhQEM\n", "OpenPGP"),
        (b"\x85\x01\x0c\x03" + KEY_ID + b"\x01", "OpenPGP"),
        (b"\x84\x5e\x03" + KEY_ID + b"\x12", "OpenPGP"),
        (b"\x8c\x0d\x04\x09\x03\x08", "OpenPGP"),
        (b"\xc1\xc0\x4c\x03" + KEY_ID + b"\x01", "OpenPGP"),
        (b"\xc3\x0d\x04\x09\x03\x08", "OpenPGP"),
        (b"LUKS\xba\xbe\0\2", "LUKS"),
        (b"$ANSIBLE_VAULT;1.1;AES256\n3132\n", "ansible-vault"),
        (b"7z\xbc\xaf\x27\x1c\0\4", "7z"),
        (b"\x7fELF\2\1\1\0", "ELF"),
        (b"\xca\xfe\xba\xbe\0\0\0\x41", "Java class"),
        (b"PAR1\x15\x04", "Parquet"),
        (b"Obj\1\4\x16avro.schema", "Avro"),
        (b"SQLite format 3\0\x10\0", "SQLite"),
        (b"\x89PNG\r\n\x1a\n", "PNG"),
        (b"\x50\x2a\x4d\x18\4\0\0\0", "zstd"),
    ],
)
def test_signatures(head: bytes, word: str) -> None:
    assert word in (type_of(head + BODY) or "")
    assert type_of(head + BODY + LOG) is None, "a log whose start was overwritten"
    assert type_of(LOG[:100] + head + BODY) is None, "a log that is damaged elsewhere"


def test_sqlite(tmp_path: Path) -> None:
    assert type_of(database(tmp_path)) == "an SQLite database"


LINES = "2026-11-21 10:00:00,123 INFO \x1b[32mready\x1b[0m \N{LATIN SMALL LETTER U WITH DIAERESIS}\n" * 200


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (LINES.encode(), "text"),
        (LINES.encode()[:-1], "text"),
        (b"\xef\xbb\xbf" + LINES.encode(), "text"),
        (b"x", "text"),
        (b'{"level":"info"}\n' * 300, "JSON"),
        (b"[\n  1,\n  2\n]\n", "JSON"),
        (LINES.encode("utf-16"), "text in UTF-16"),
        (b"\xfe\xff" + LINES.encode("utf-16-be"), "text in UTF-16"),
        (b"plain ASCII\n".decode().encode("utf-16-le") * 9, "text in UTF-16"),
        (b"plain ASCII\n".decode().encode("utf-16-be") * 9, "text in UTF-16"),
        (LINES.encode("latin-1"), None),
        (bytes(5000), None),
        (BODY, None),
        (b"", None),
    ],
)
def test_texts(data: bytes, name: str | None) -> None:
    assert type_of(data) == name


@pytest.mark.parametrize(
    "head",
    [
        gzip.compress(LINES.encode()),
        zstandard.ZstdCompressor().compress(INCOMPRESSIBLE)[:10_000],
        tar(LINES.encode())[:1536],
        zipped(LINES.encode(), zipfile.ZIP_STORED),
        LINES.encode(),
        b"\x1f\x8b\x08",
        b"PK\3\4",
    ],
    ids=["gzip", "part of zstd", "part of tar", "zip", "text", "gzip's signature", "zip's signature"],
)
def test_a_log_with_something_else_at_its_start(head: bytes) -> None:
    """Somebody's blocks in the wrong place: what is after them can be saved."""
    assert type_of(head + LOG[len(head) :] + LOG) is None


@pytest.mark.parametrize("signature", [b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd", b"PK\3\4", b"MZ", b"BZh9", b"SQLite f"])
def test_a_log_whose_first_offset_is_a_signature(signature: bytes) -> None:
    """The offset is under no CRC: the batch is sound, whatever it holds."""
    first = signature + BATCHES[0][len(signature) :]
    assert type_of(first) is None
    assert type_of(first + LOG) is None


def test_damaged_logs() -> None:
    """Any damage but to everything leaves a log a log."""
    for number in range(60):
        noise = random.Random(number)
        data = bytearray(LOG)
        for _ in range(noise.randrange(1, 5)):
            at = noise.randrange(len(data) // 2)
            data[at : at + 300] = noise.randbytes(noise.randrange(300))
        data[: noise.randrange(20)] = b""
        assert type_of(bytes(data)) is None, number


def test_a_stream_by_what_went_by() -> None:
    reader, writer = os.pipe()
    os.write(writer, gzip.compress(LOG))
    os.close(writer)
    with StreamSource("-", reader, owned=True) as source:
        while source.read(source._position, 100):
            pass
        found = identify(source)
        assert found is not None
        assert found.message("-").endswith("gzip -dc FILE | kdump dump -")
        assert identify(source, holds_entries=True) is None


def test_what_to_do() -> None:
    found = identify(MemorySource("0.log", gzip.compress(LOG)))
    assert found is not None
    assert "gzip -dc '/a b/0.log' | kdump dump -" in found.message("/a b/0.log")
    assert "s3:" not in found.message("s3://bucket/t-0/0.log")
    program = identify(MemorySource("0.log", b"\x7fELF" + struct.pack("<4i", 1, 2, 3, 4)))
    assert program is not None
    assert "put the file that belongs here in its place" in program.message("0.log")


def bzip2_bomb() -> bytes:
    """Its first 1 KiB becomes 192 MiB."""
    return bz2.compress(bytes(192 << 20))


def lzma_bomb() -> bytes:
    """It asks for a window of 1 GiB, and fills 96 MiB of it."""
    data = lzma.compress(bytes(96 << 20), lzma.FORMAT_ALONE, preset=0)
    return data[:1] + struct.pack("<I", 1 << 30) + data[5:]


@pytest.mark.parametrize("bomb", [bzip2_bomb, lzma_bomb])
def test_a_bomb_takes_little_memory(bomb: Callable[[], bytes]) -> None:
    data = bomb() + LOG
    tracemalloc.start()
    identify(MemorySource("0.log", data))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 << 20


def test_a_bomb_takes_little_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes out is in proportion to the file; 4 GiB would be 16 seconds for each small file of a directory."""
    outputs: list[int] = []
    make = bz2.BZ2Decompressor

    class Decompressor:
        def __init__(self) -> None:
            self._inner = make()

        def decompress(self, data: bytes, *most: int) -> bytes:
            part = self._inner.decompress(data, *most)
            outputs.append(len(part))
            return part

        def __getattr__(self, name: str) -> Any:
            return getattr(self._inner, name)

    data = bz2.compress(bytes(64 << 20)) * 10 + LOG
    monkeypatch.setattr(bz2, "BZ2Decompressor", Decompressor)
    assert type_of(data) == "a bzip2 file"
    assert sum(outputs) < 32 << 20
