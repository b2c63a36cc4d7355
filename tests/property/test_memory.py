"""Batches that become much: what is claimed is not allocated, and pieces give what decoding at once gives."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import lz4.frame
import pytest
import snappy
import zstandard

from kdump.codes import Codes, DamageError
from kdump.fast import records as fast_records
from kdump.format.batch import parse_header
from kdump.format.record import in_pieces, most_headers, read_records
from tests.harness.batches import (
    GZIP,
    LZ4,
    NOW,
    SNAPPY,
    XERIAL_HEADER,
    ZSTD,
    compress,
    message,
    v2_batch,
    wrapper,
    xerial_blocks,
)
from tests.harness.fast_reference import Row

MIB = 1 << 20
ZEROS = bytes(MIB)


SIZED = zstandard.ZstdCompressor().compress
SKIPPABLE = b"\x50\x2a\x4d\x18" + (4).to_bytes(4, "little") + b"skip"


def claiming_lz4() -> bytes:
    return bytes(lz4.frame.compress(ZEROS * 64, block_linked=False, store_size=True))


BOMBS: dict[str, tuple[int, Callable[[], bytes]]] = {
    "zstd that declares its size": (ZSTD, lambda: SIZED(ZEROS * 64)),
    "zstd without a size": (ZSTD, lambda: compress(ZSTD, ZEROS * 64)),
    "zstd frames": (ZSTD, lambda: compress(ZSTD, ZEROS) * 64),
    "zstd frames and skippable ones": (ZSTD, lambda: (SKIPPABLE + compress(ZSTD, ZEROS)) * 64),
    "a small zstd frame before a large one": (ZSTD, lambda: compress(ZSTD, ZEROS) + SIZED(ZEROS * 64)),
    "gzip": (GZIP, lambda: compress(GZIP, ZEROS * 64)),
    "gzip members": (GZIP, lambda: compress(GZIP, ZEROS) * 64),
    "a raw snappy block": (SNAPPY, lambda: snappy.compress(ZEROS * 64)),
    "a snappy block that only claims": (SNAPPY, lambda: snappy.compress(ZEROS * 64)[:100]),
    "xerial snappy": (SNAPPY, lambda: XERIAL_HEADER + xerial_blocks(ZEROS * 64, MIB)),
    "xerial snappy with a claim": (
        SNAPPY,
        lambda: XERIAL_HEADER + (100).to_bytes(4, "big") + snappy.compress(ZEROS * 64)[:100],
    ),
    "lz4": (LZ4, lambda: compress(LZ4, ZEROS * 64)),
    "lz4 that declares its size": (LZ4, claiming_lz4),
}
"""By name the codec and what makes a payload of 64 MiB, or one that claims them."""


REFUSE = """
import resource, sys
from kdump.codes import DamageError
from kdump.wire.compression import GZIP, LZ4, SNAPPY, ZSTD, compress, decompress
for codec in (GZIP, SNAPPY, LZ4, ZSTD):
    decompress(codec, compress(codec, b"loads the library", magic=2), magic=2)
with open("/proc/self/statm") as statm:
    now = int(statm.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (now + (40 << 20), now + (40 << 20)))
for codec, path in zip(sys.argv[1::2], sys.argv[2::2]):
    with open(path, "rb") as file:
        data = file.read()
    try:
        decompress(int(codec), data, magic=2, limit=4 << 20)
        print("taken")
    except DamageError as error:
        print(error.code.value.name)
"""


@pytest.mark.slow
def test_nothing_is_allocated_for_a_claim(tmp_path: Path) -> None:
    words = []
    for number, (codec, made) in enumerate(BOMBS.values()):
        path = tmp_path / str(number)
        path.write_bytes(made())
        words += [str(codec), str(path)]
    done = subprocess.run([sys.executable, "-c", REFUSE, *words], capture_output=True, check=True)
    assert dict(zip(BOMBS, done.stdout.decode().split(), strict=True)) == dict.fromkeys(BOMBS, "payload-too-large")


def test_a_record_has_a_bound_of_headers() -> None:
    row = Row(0, 0, b"k", b"v", ((b"", None),) * 1100)
    batch = memoryview(v2_batch([row]))
    (record,) = read_records(parse_header(batch), batch, 51200)
    assert most_headers(51200) == 1100
    assert record.headers == row.headers
    with pytest.raises(DamageError) as caught:
        list(read_records(parse_header(batch), batch, 51199))
    assert caught.value.code is Codes.PAYLOAD_TOO_LARGE
    assert "1,100 headers are more than 1,099" in str(caught.value)


def test_pieces_of_records(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = memoryview(v2_batch([Row(0, number, None, bytes(size)) for number, size in enumerate((1, 1, 1, 9, 1))]))
    monkeypatch.setattr("kdump.format.record.PIECE_RECORDS", 2)
    monkeypatch.setattr("kdump.format.record.PIECE_BYTES", 5)
    found = [[record.offset for record in piece] for piece in in_pieces(read_records(parse_header(batch), batch))]
    assert found == [[0, 1], [2, 3], [4]]
    cut = parse_header(batch)._replace(record_count=6)
    left = in_pieces(read_records(cut, batch))
    assert [[record.offset for record in next(left)] for _ in found] == found
    with pytest.raises(DamageError):
        next(left)


LOG = f"{0:020d}.log"
CONVERSIONS = (
    ("--to-magic", "0"),
    ("--to-magic", "1"),
    ("--to-magic", "1", "--codec", "none"),
    ("--to-magic", "2", "--codec", "lz4"),
    ("--renumber", "50"),
    ("--offset", "2:5"),
    ("--offset", "2:5", "--to-magic", "1", "--codec", "gzip"),
    ("--to", "parquet"),
    ("--to", "jsonl"),
)


@pytest.mark.parametrize("options", CONVERSIONS, ids=" ".join)
def test_large_entries_are_converted_alike(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, options: tuple[str, ...]
) -> None:
    from click.testing import CliRunner

    from kdump.cli.main import cli

    rows = [Row(number, number, b"key", b"v" * number, ((b"h", b"x"),) * number) for number in range(9)]
    inner = [message(1, number, b"k", b"v%d" % number, timestamp=NOW + number) for number in range(9)]
    batch = v2_batch(rows, codec=GZIP, base_offset=9, base_sequence=3, producer_id=5, producer_epoch=1)
    (tmp_path / LOG).write_bytes(wrapper(1, 8, inner, timestamp=NOW + 8) + batch)

    def converted(name: str) -> list[tuple[str, bytes]]:
        target = tmp_path / name / (LOG if options[0] != "--to" else "out")
        target.parent.mkdir()
        arguments = ["convert", *options, "-o", str(target), str(tmp_path / LOG)]
        result = CliRunner().invoke(cli, arguments, catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return sorted((path.name, path.read_bytes()) for path in target.parent.iterdir())

    expected = converted("whole")
    monkeypatch.setattr("kdump.format.record.PIECE_RECORDS", 2)
    monkeypatch.setattr("kdump.fast.blocks._LARGEST_BODY", 10)
    monkeypatch.setattr("kdump.fast.legacymessages._LARGEST_CONTENT", 10)
    monkeypatch.setattr(fast_records, "_SLICE_ROWS", 2)
    assert converted("sliced") == expected


MOST_RESIDENT = 400 * MIB
WATCHED = """
import os, subprocess, sys
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
_, status, usage = os.wait4(process.pid, 0)
print(os.waitstatus_to_exitcode(status), usage.ru_maxrss)
"""
"""Prints the exit status of a program and the largest resident set (KiB) of it.

A process of its own starts it: the kernel counts the memory of the process that starts a program as the program's.
"""
COMMANDS = (
    ("dump", "--print-data-log"),
    ("dump", "--print-data-log", "--output", "jsonl"),
    ("verify", "--deep"),
    ("convert", "--to-magic", "2", "--renumber", "5", "-o", "out.log"),
    ("convert", "--to", "parquet", "-o", "out.parquet"),
)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.slow
def test_many_headers(tmp_path: Path, command: tuple[str, ...]) -> None:
    """``tests.bench.bounds`` has the peaks of all commands."""
    row = Row(0, 0, b"k", b"v", [(b"name", b"value")] * 200_000)
    (tmp_path / LOG).write_bytes(v2_batch([row], codec=ZSTD))
    words = [sys.executable, "-m", "kdump", *command, str(tmp_path / LOG)]
    ran = subprocess.run([sys.executable, "-c", WATCHED, *words], cwd=tmp_path, stdout=subprocess.PIPE, check=True)
    status, resident = map(int, ran.stdout.split())
    assert status == 0
    assert resident * 1024 < MOST_RESIDENT
