"""The batch table of a copy: rows over segments, damage, and the headers alone of a log in a store."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kdump.diff import table as module
from kdump.diff.table import CopyTable, TableSegment, read_table
from kdump.log.opening import open_source
from kdump.log.source import FileSource, Source
from tests.harness.batches import message, wrapper
from tests.harness.replicas import MadeBatch


def read(folder: Path, *segments: bytes, headers_only: bool = False) -> CopyTable:
    known = []
    for number, data in enumerate(segments):
        path = folder / f"{number * 100:020}.log"
        path.write_bytes(data)
        known.append(TableSegment(number * 100, str(path), len(data)))
    return read_table(known, headers_only=headers_only)


def test_rows_over_segments(tmp_path: Path) -> None:
    table = read(tmp_path, MadeBatch(0).data() + MadeBatch(5).data(), b"", MadeBatch(200, 3, epoch=2).data())
    assert table.first.tolist() == [0, 5, 200]
    assert table.last.tolist() == [4, 9, 202]
    assert table.rows["segment"].tolist() == [0, 0, 2]
    assert table.rows["leader_epoch"].tolist() == [0, 0, 2]
    assert table.is_full.all()
    assert table.rises
    assert (table.damage, table.breaks) == ((), ())


def test_no_segment(tmp_path: Path) -> None:
    assert read(tmp_path).rows.size == 0


def test_damage(tmp_path: Path) -> None:
    """Of a gap at the end of a segment the next one tells the last offset."""
    batches = [MadeBatch(base).data() for base in (0, 5, 10)]
    flipped = bytearray(b"".join(batches))
    flipped[len(batches[0]) + 80] ^= 1
    table = read(tmp_path, bytes(flipped), MadeBatch(100).data()[:-9], MadeBatch(200).data())
    assert [(one.first_offset, one.last_offset) for one in table.damage] == [(5, 9), (100, 199)]
    assert table.rows["is_valid"].tolist() == [True, False, True, True]
    assert table.breaks == (2,)


def test_what_a_start_keeps(tmp_path: Path) -> None:
    batch = MadeBatch(0).data()
    table = read(tmp_path, batch + MadeBatch(5).data(), MadeBatch(100).data(), MadeBatch(200).data())
    kept = table.kept({0: len(batch), 200: 10**6})
    assert kept.first.tolist() == [0, 200]
    assert kept.rows["segment"].tolist() == [0, 1]
    assert [segment.base_offset for segment in kept.segments] == [0, 200]


def test_first_offsets_of_wrappers(tmp_path: Path) -> None:
    """The header has the last one only: a wrapper goes on after the entry before."""
    inner = [message(1, number, b"k", b"v") for number in range(3)]
    table = read(tmp_path, wrapper(1, 2, inner) + wrapper(1, 5, inner) + message(1, 6, b"k", b"v"))
    assert table.first.tolist() == [0, 3, 6]
    assert table.is_full.tolist() == [False, False, True]


class _Counting:
    def __init__(self) -> None:
        self.read = 0


def test_headers_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows are the same, and the payloads are not read."""
    data = b"".join(MadeBatch(base, value=bytes(100_000)).data() for base in range(0, 50, 5))
    whole = read(tmp_path, data)
    counted = _Counting()
    plain = FileSource.read

    def read_counted(self: FileSource, position: int, size: int) -> bytes:
        counted.read += size
        return plain(self, position, size)

    monkeypatch.setattr(FileSource, "read", read_counted)
    opened: list[Source] = []
    monkeypatch.setattr(module, "open_source", lambda path: (opened.append(open_source(path)), opened[-1])[1])
    headers = read(tmp_path, data, headers_only=True)
    assert counted.read == 10 * 61
    # Nothing is fetched ahead of a header.
    assert opened[0].stop is not None
    for name in whole.rows.dtype.names or ():
        assert np.array_equal(whole.rows[name], headers.rows[name]), name


@pytest.mark.parametrize(
    "data",
    [
        MadeBatch(0).data()[:-1],
        MadeBatch(0).data() + b"x",
        message(1, 0, b"k", b"v"),
        b"\0" * 100,
        b"".join(MadeBatch(base).data() for base in range(0, 100, 5)),
    ],
)
def test_what_headers_do_not_lead_through_is_read_whole(tmp_path: Path, data: bytes) -> None:
    whole, headers = read(tmp_path, data), read(tmp_path, data, headers_only=True)
    assert (whole.rows == headers.rows).all()
    assert whole.damage == headers.damage
