"""What kdump reads leaves the page cache as it was."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

import pytest

from kdump.log.opening import open_source
from kdump.system import pagecache

MIB = 1 << 20
SIZE = 24 * MIB
HOT = (range(2 * MIB, 5 * MIB), range(17 * MIB, 17 * MIB + 65536))
"""What another program read before."""


@pytest.fixture
def cold(tmp_path: Path) -> Path:
    """A file of which nothing is resident."""
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(bytes(range(256)) * (SIZE // 256))
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        # Otherwise reading for HOT brings more.
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
        for hot in HOT:
            os.pread(file.fileno(), len(hot), hot.start)
    if resident(path) != sum(map(len, HOT)):
        pytest.skip("this file system does not give pages back")
    return path


def about(size: int) -> Any:
    """Memory that is short makes the system take some pages of any file, whatever kdump does."""
    return pytest.approx(size, abs=SIZE // 64)


def resident(path: Path) -> int:
    """Bytes of the file that are in the page cache."""
    with path.open("rb") as file:
        return pagecache._mincore(file.fileno(), SIZE).count(1) * os.sysconf("SC_PAGE_SIZE")


def read(path: Path, *ranges: range, size: int = MIB) -> None:
    buffer = memoryview(bytearray(size))
    with open_source(str(path)) as source:
        for wanted in ranges or (range(SIZE),):
            for position in range(wanted.start, wanted.stop, size):
                assert source.read_into(buffer, position) == size


def test_pages_that_reading_brought_go_and_the_others_stay(cold: Path) -> None:
    read(cold)
    assert resident(cold) == about(sum(map(len, HOT)))
    with cold.open("rb") as file:
        pages = pagecache._mincore(file.fileno(), SIZE)
    page = os.sysconf("SC_PAGE_SIZE")
    assert all(pages[at // page] for hot in HOT for at in range(hot.start, hot.stop, page))


def test_pages_go_while_a_file_is_read(cold: Path) -> None:
    buffer = memoryview(bytearray(MIB))
    with open_source(str(cold)) as source:
        for position in range(0, SIZE, MIB):
            source.read_into(buffer, position)
        assert resident(cold) < SIZE


def test_some_ranges_backwards(cold: Path) -> None:
    read(cold, range(20 * MIB, 21 * MIB), range(8 * MIB, 9 * MIB), range(0, MIB))
    assert resident(cold) == about(sum(map(len, HOT)))


def test_pages_that_are_still_being_read_go_later(cold: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """posix_fadvise(2) leaves pages whose reading has not ended."""
    give_back, calls = os.posix_fadvise, []

    def busy(*arguments: int) -> None:
        calls.append(arguments)
        if len(calls) > 3 * len(HOT):
            give_back(*arguments)

    monkeypatch.setattr(os, "posix_fadvise", busy)
    read(cold, range(7 * MIB))
    assert resident(cold) == about(sum(map(len, HOT)))


def test_two_readers_of_one_file(cold: Path) -> None:
    with open_source(str(cold)) as first:
        first.read(0, 6 * MIB)
        read(cold)
    assert resident(cold) == about(sum(map(len, HOT)))


def test_a_file_that_was_resident_stays(cold: Path) -> None:
    assert len(cold.read_bytes()) == SIZE
    read(cold)
    assert resident(cold) == about(SIZE)


def test_a_kernel_that_does_not_count_pages(cold: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pagecache, "_CACHESTAT", None)
    read(cold)
    assert resident(cold) == about(sum(map(len, HOT)))
    cold.read_bytes()
    read(cold)
    assert resident(cold) == about(SIZE)


def test_a_closed_file_that_was_not_read(cold: Path) -> None:
    open_source(str(cold)).close()
    assert resident(cold) == about(sum(map(len, HOT)))


def test_where_residency_is_unknown_nothing_goes_and_it_is_said_once(
    cold: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(pagecache, "_may_ask", lambda status, descriptor: False)
    monkeypatch.setattr(pagecache._Process, "is_told", False)
    with caplog.at_level(logging.INFO, "kdump"):
        read(cold)
        read(cold)
    assert resident(cold) == about(SIZE)
    (message,) = caplog.messages
    assert message.startswith(f"kdump: {cold}: ")
    assert "another user" in message


def test_the_first_small_files_need_no_ctypes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pagecache._Process, "opened", 0)
    asked: list[int] = []
    monkeypatch.setattr(pagecache, "_may_ask", lambda status, descriptor: asked.append(status.st_size))
    paths = [tmp_path / f"{number}.log" for number in range(5)]
    for path in paths:
        path.write_bytes(bytes(MIB))
        with open_source(str(path)) as source:
            source.read(0, MIB)
    assert asked == [MIB], "the fifth exceeds 4 MiB"


def test_pages_of_several_processes_wait_for_the_one_that_knows(cold: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pagecache._Process, "shared", frozenset())
    pages = pagecache.SharedPages(1 << 30)
    pages.add(str(cold))
    pagecache.share([str(cold)])
    read(cold)
    pages.add(str(cold))
    assert resident(cold) == about(SIZE), "a file that is known is not asked for again"
    pages.close()
    assert resident(cold) == about(sum(map(len, HOT)))


def test_pages_of_the_oldest_file_go_first(cold: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pagecache._Process, "shared", frozenset([str(cold)]))
    pages = pagecache.SharedPages(SIZE)
    pages.add(str(cold))
    read(cold)
    other = tmp_path / "other.log"
    other.write_bytes(bytes(MIB))
    with other.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    assert resident(cold) == about(SIZE)
    pages.add(str(other))
    assert resident(cold) == about(sum(map(len, HOT)))
    pages.close()


def test_files_that_cannot_be_shared(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    pages = pagecache.SharedPages(1)
    for name in ("pipe", "missing", ".", "s3://a/b"):
        pages.add(str(tmp_path / name))
    pages.close()


def test_the_holes_of_a_sparse_file_are_no_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A byte for each page of 4 TiB would be a gibibyte."""
    asked: list[int] = []

    def mincore(_: int, size: int) -> bytes:
        asked.append(size)
        return bytes(-(-size // os.sysconf("SC_PAGE_SIZE")))

    monkeypatch.setattr(pagecache, "_mincore", mincore)
    monkeypatch.setattr(pagecache._Process, "opened", 0)
    for size, is_asked in ((SIZE, True), (1 << 30, True), (4 << 40, False)):
        path = tmp_path / str(size)
        path.write_bytes(bytes(range(256)))
        os.truncate(path, size)
        with path.open("rb") as file:
            brought = pagecache.brought_pages(file.fileno(), os.fstat(file.fileno()), str(path))
        assert (brought is not None) is is_asked
    assert asked == [SIZE, 1 << 30]
