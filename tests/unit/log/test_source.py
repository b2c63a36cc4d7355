"""log.source: files, pipes, directories, nothing at all; and that reading leaves no trace."""

from __future__ import annotations

import os
import socket
import stat
import threading
from contextlib import nullcontext
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.codes import Codes, KdumpError
from kdump.log import files
from kdump.log.named import is_stream
from kdump.log.opening import open_source, read_whole
from kdump.log.source import StreamSource
from tests.harness.cli_runs import NAME, locked

CONTENT = bytes(range(256)) * 5


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "0.log"
    path.write_bytes(CONTENT)
    return path


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    return path


def named(path: Path) -> str:
    """The path as one that a user gave."""
    return files.strip_credentials(str(path))


def feed(path: Path, *parts: bytes) -> threading.Thread:
    def write() -> None:
        with path.open("wb", buffering=0) as stream:
            for part in parts:
                stream.write(part)

    thread = threading.Thread(target=write)
    thread.start()
    return thread


def code_of(path: str) -> Codes:
    with pytest.raises(KdumpError) as caught:
        open_source(path)
    assert caught.value.path == path
    return caught.value.code


def test_file(file: Path) -> None:
    with open_source(str(file)) as source:
        assert source.size == len(CONTENT)
        assert source.read(0, 10_000) == CONTENT
        # Back and forth.
        assert source.read(1000, 5) == CONTENT[1000:1005]
        assert source.read(3, 5) == CONTENT[3:8]
        assert source.read(len(CONTENT), 5) == source.read(len(CONTENT) + 99, 5) == b""


@given(st.integers(0, 1400), st.integers(0, 1400))
def test_any_range(tmp_path_factory: pytest.TempPathFactory, position: int, size: int) -> None:
    path = tmp_path_factory.getbasetemp() / "any-range.log"
    path.write_bytes(CONTENT)
    with open_source(str(path)) as source:
        assert source.read(position, size) == CONTENT[position : position + size]


def test_reading_leaves_no_trace(file: Path) -> None:
    file.chmod(stat.S_IRUSR)
    before = file.stat()
    assert read_whole(str(file)) == CONTENT
    after = file.stat()
    assert (before.st_mtime_ns, before.st_size, before.st_ino) == (after.st_mtime_ns, after.st_size, after.st_ino)


@pytest.mark.parametrize("runs", [True, False])
def test_pages_are_given_back_while_a_broker_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runs: bool) -> None:
    """Its consumers need the page cache. Each 8 MiB that were read leave it, and what is left at the end."""
    path = tmp_path / "t-0" / NAME
    path.parent.mkdir()
    path.write_bytes(bytes(20 << 20))
    (tmp_path / ".lock").touch()
    given_back: list[tuple[int, int, int]] = []
    monkeypatch.setattr(os, "posix_fadvise", lambda descriptor, *what: given_back.append(what))
    with locked(tmp_path / ".lock") if runs else nullcontext(), open_source(str(path)) as source:
        for position in range(1 << 20, 20 << 20, 1 << 20):
            source.read(position, 1 << 20)
    expected = [(1 << 20, 8 << 20), (9 << 20, 8 << 20), (17 << 20, 3 << 20)]
    assert given_back == ([(*one, os.POSIX_FADV_DONTNEED) for one in expected] if runs else [])


def test_file_that_is_cut_while_read(file: Path) -> None:
    with open_source(str(file)) as source:
        os.truncate(file, 100)
        assert source.size == len(CONTENT)
        assert source.read(0, 10_000) == CONTENT[:100]


def test_pipe(fifo: Path) -> None:
    thread = feed(fifo, CONTENT[:7], CONTENT[7:1000], CONTENT[1000:])
    with open_source(named(fifo)) as source:
        assert source.size is None
        # One read is filled from as many writes as it takes.
        assert source.read(0, 500) == CONTENT[:500]
        with pytest.raises(KdumpError, match="cannot be read twice") as caught:
            source.read(0, 5)
        assert (caught.value.code, caught.value.position) == (Codes.UNREADABLE, 0)
        assert source.read(500, 5000) == CONTENT[500:]
        assert source.read(len(CONTENT), 5) == b""
    thread.join()


def test_whole_pipe(fifo: Path) -> None:
    thread = feed(fifo, CONTENT, CONTENT)
    assert read_whole(named(fifo)) == CONTENT * 2
    thread.join()


def test_stream_of_a_foreign_descriptor_stays_open() -> None:
    reader, writer = os.pipe()
    with StreamSource("-", reader, owned=False):
        pass
    os.close(writer)
    os.close(reader)


def test_missing(tmp_path: Path) -> None:
    assert code_of(str(tmp_path / "nowhere.log")) is Codes.MISSING
    (tmp_path / "dangling.log").symlink_to("nowhere.log")
    assert code_of(str(tmp_path / "dangling.log")) is Codes.MISSING


def test_unreadable(tmp_path: Path, file: Path) -> None:
    assert code_of(str(tmp_path)) is Codes.UNREADABLE
    assert code_of(str(file / "below-a-file.log")) is Codes.UNREADABLE
    assert code_of("with\0zero.log") is Codes.UNREADABLE
    (tmp_path / "loop.log").symlink_to("loop.log")
    assert code_of(str(tmp_path / "loop.log")) is Codes.UNREADABLE


def test_which_paths_are_streams(tmp_path: Path, file: Path, fifo: Path) -> None:
    address = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(address))
        assert not is_stream(str(address))
        assert is_stream(named(address))
    assert not is_stream(str(fifo))
    assert is_stream(named(fifo))
    assert is_stream(files.strip_credentials("/dev/null"))
    for path in (str(file), str(tmp_path), str(tmp_path / "nowhere"), "with\0zero"):
        assert not is_stream(files.strip_credentials(path))
