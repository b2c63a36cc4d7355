"""A file that is read as it grows."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from kdump.codes import KdumpError
from kdump.log.growing import GrowingFile
from kdump.log.walk import Walk
from tests.harness.batches import plain_rows, v2_batch


def test_the_directory_is_listed_only_at_the_end_of_what_is_there(tmp_path: Path) -> None:
    """Whether a later segment is there costs a listing, and the directory may have very many names."""
    log, asked = tmp_path / "0.log", []

    def is_over() -> bool:
        if not asked:
            # Written before the next segment is seen: it is still read.
            with log.open("ab") as file:
                file.write(b"end")
        asked.append(True)
        return True

    log.write_bytes(bytes(range(200)))
    waits: list[None] = []
    view = memoryview(bytearray(10))
    with GrowingFile(str(log), is_over, lambda _: waits.append(None)) as source:
        read = b""
        while count := source.read_some(view, len(read)):
            if len(read) < 200:
                assert not asked
            read += view[:count]
    assert read == bytes(range(200)) + b"end"
    assert (len(asked), waits) == (2, [])


def _followed(log: Path, steps: list[bytes]) -> tuple[bytes, list[str]]:
    """What is read of a log while it is replaced by each of ``steps`` in its turn, and what is told."""
    told: list[str] = []

    def on_wait(news: str) -> None:
        told.append(news)
        if steps:
            log.write_bytes(steps.pop(0))

    read = b""
    with GrowingFile(str(log), lambda: not steps, on_wait) as source:
        for chunk in Walk(source).chunks():
            read += bytes(chunk.data[chunk.starts[0] : chunk.end])
    return read, [news for news in told if news]


def test_a_log_that_grows_and_one_that_was_cut_and_has_grown_past_the_place(tmp_path: Path) -> None:
    first, second, other = (v2_batch(plain_rows(rows), base_offset=at) for rows, at in ((2, 0), (3, 2), (9, 100)))
    log = tmp_path / f"{0:020}.log"
    log.write_bytes(first)
    assert _followed(log, [first + second[:40], first + second]) == (first + second, [])
    log.write_bytes(first)
    with pytest.raises(KdumpError, match="was cut and written again while it was followed"):
        _followed(log, [other + other])


def test_an_entry_with_a_huge_length_is_told_once(tmp_path: Path) -> None:
    log = tmp_path / f"{0:020}.log"
    good = v2_batch(plain_rows(2))
    huge = struct.pack(">qi", 2, 2**31 - 1) + bytes(4) + b"\2" + bytes(100)
    log.write_bytes(good + huge)
    read, told = _followed(log, [good + huge + bytes(9), good + huge + bytes(20)])
    assert (read, len(told)) == (good, 1)
    assert f"the entry at {len(good):,} has 2,147,483,659 bytes by its length field, which may be wrong" in told[0]
