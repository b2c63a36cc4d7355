"""Which file it is, and where in it: ends, empty files, streams, indexes, snapshots."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest
from crc32c import crc32c

from kdump.codes import Codes, KdumpError
from kdump.explain import explain, is_damage
from kdump.explain.layout import report
from kdump.explain.lines import Tone
from kdump.log.opening import open_source
from kdump.log.source import Source, StreamSource
from tests.harness.batches import plain_rows, v2_batch
from tests.harness.cli_runs import DAMAGE, USAGE, dump
from tests.harness.explained import MemorySource, assert_tiles, lines_of, named, statements, text_of

BATCHES = [v2_batch(plain_rows(2), base_offset=2 * number) for number in range(4)]
LOG = b"".join(BATCHES)


def test_empty_and_beyond() -> None:
    assert "The file is empty." in text_of(b"", 0)
    assert "Byte 5 is beyond the end: the file has 5 bytes, 0 to 4." in text_of(bytes(5), 5)
    assert not any(map(is_damage, lines_of(b"", 0)))
    with pytest.raises(ValueError, match="-1"):
        list(explain(MemorySource("0.log", b"x"), -1))


def test_entries_are_numbered() -> None:
    start = 0
    for number, batch in enumerate(BATCHES):
        for position in (start, start + len(batch) - 1):
            titles = statements(lines_of(LOG, position), Tone.TITLE)
            end = start + len(batch) - 1
            assert titles[1] == f"entry {number}: batch of magic 2, bytes {start} to {end} ({len(batch)} bytes)"
        start += len(batch)


def test_a_file_and_a_pipe_give_the_same(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    path.write_bytes(LOG)
    with open_source(str(path)) as source:
        from_file = report(explain(source, 100))
    reader, writer = os.pipe()
    os.write(writer, LOG)
    os.close(writer)
    with StreamSource(str(path), reader, owned=True) as stream:
        assert report(explain(stream, 100)) == from_file


def test_a_stream_over_the_limit() -> None:
    reader, writer = os.pipe()
    os.write(writer, LOG)
    os.close(writer)
    with StreamSource("-", reader, owned=True) as stream, pytest.raises(KdumpError, match="over 100 bytes"):
        report(explain(stream, 0, limit=100))


def test_a_decompressed_size_over_the_limit() -> None:
    batch = v2_batch(plain_rows(100, 1000), codec=1)
    lines = list(explain(MemorySource("0.log", batch), 0, limit=1000))
    assert "the decompressed records are over 1,000 bytes" in statements(lines, Tone.DAMAGE)[0]
    assert statements(lines, Tone.KAFKA) == []


class Unreadable(Source):
    def read_into(self, view: memoryview, position: int) -> int:
        raise KdumpError(Codes.UNREADABLE, "input/output error", path=self.path, position=position)

    def close(self) -> None:
        pass


def test_read_errors_are_the_callers() -> None:
    with pytest.raises(KdumpError, match="at 0: input/output error"):
        list(explain(Unreadable("0.log", 10), 0))


@pytest.mark.parametrize(
    ("name", "data", "position", "fields"),
    [
        ("00000000000000000100.index", struct.pack(">iiii", 5, 70, 9, 300), 9, ["9", "300"]),
        ("00000000000000000100.timeindex", struct.pack(">qiqi", 1, 2, 3, 4), 23, ["3", "4"]),
        ("0.txnindex", struct.pack(">hqqqq", 0, 1, 2, 3, 4), 33, ["0", "1", "2", "3", "4"]),
    ],
)
def test_index_entries(name: str, data: bytes, position: int, fields: list[str]) -> None:
    lines = lines_of(data, position, name)
    step = len(data) if name.startswith("0.") else len(data) // 2
    assert_tiles(lines, len(data) - step, len(data))
    assert [line.value for line in lines if hasattr(line, "value")] == fields
    if "relativeOffset" in str(lines):
        assert named(lines, "relativeOffset")[0].note == f"offset {100 + int(named(lines, 'relativeOffset')[0].value)}"


def test_padding_and_cut_entries_of_an_index() -> None:
    data = struct.pack(">ii", 5, 70) + bytes(11)
    assert "allocated space" in text_of(data, 8, "0.index")
    lines = lines_of(data, 17, "0.index")
    assert_tiles(lines, 16, 19)
    assert "The file ends 5 bytes before the end of this entry." in statements(lines, Tone.DAMAGE)


def test_snapshots() -> None:
    entry = struct.pack(">qhiqiqiq", 7, 0, 5, 20, 4, 1_700_000_000_000, -1, -1)
    counted = struct.pack(">i", 1) + entry
    data = struct.pack(">hI", 1, crc32c(counted)) + counted
    header, body = lines_of(data, 3, "20.snapshot"), lines_of(data, 12, "20.snapshot")
    assert_tiles(header, 0, 10)
    assert_tiles(body, 10, len(data))
    assert named(body, "producerId")[0].value == "7"
    assert not any(map(is_damage, header + body))
    broken = lines_of(data[:-1] + b"\0", 12, "20.snapshot")
    assert "CRC is no longer valid" in statements(broken, Tone.DAMAGE)[0]


@pytest.mark.parametrize("name", ["leader-epoch-checkpoint", "partition.metadata"])
def test_a_text_file_is_not_explained_as_a_damaged_log(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("0\n1\n0 0\n" * 9)
    status, lines, errors = dump("--explain", "0", name, cwd=tmp_path)
    assert (status, lines) == (USAGE, [])
    assert errors[-1] == f"Error: {name} is a text file: there are no fields to explain, kdump dump shows it"


@pytest.mark.parametrize("words", [("--output", "jsonl"), ("--print-data-log",), ("--offset", "5:6"), ("-n", "3")])
def test_nothing_of_a_dump_goes_with_it(tmp_path: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "0.log").write_bytes(bytes(70))
    status, lines, errors = dump("--explain", "0", *words, "0.log", cwd=tmp_path)
    assert (status, lines) == (USAGE, [])
    assert "--explain is instead of a dump, it does not go with -" in errors[-1]
    status, lines, _ = dump("--explain", "0", "--color", "never", "-v", "0.log", cwd=tmp_path)
    assert status == DAMAGE
    assert lines
