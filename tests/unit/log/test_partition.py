"""log.partition: which files a directory stands for, in which order."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from kdump.codes import Codes, KdumpError
from kdump.inputs import PathDirectory
from kdump.log import files
from tests.harness.replicas import fail


def listed(directory: Path, *, all_files: bool = False) -> list[str]:
    found = PathDirectory(str(directory)).files(fail, all_files=all_files)
    return [str(Path(file.path).relative_to(directory)) for file in found if file.world is None]


def touch(directory: Path, *names: str) -> None:
    for name in names:
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def test_offset_order(tmp_path: Path) -> None:
    touch(tmp_path, "10.log", "9.log", f"{100:020}.log", f"{5:020}.log", "x.log")
    assert listed(tmp_path) == [f"{5:020}.log", "9.log", "10.log", f"{100:020}.log", "x.log"]


def test_only_logs_unless_asked(tmp_path: Path) -> None:
    touch(
        tmp_path, "5.timeindex", "5.log", "5.index", "5.txnindex", "5.snapshot", "7.snapshot", "leader-epoch-checkpoint"
    )
    assert listed(tmp_path) == ["5.log"]
    assert listed(tmp_path, all_files=True) == [
        "5.log",
        "5.index",
        "5.timeindex",
        "5.txnindex",
        "5.snapshot",
        "7.snapshot",
    ]


def test_files_on_their_way_are_left_out(tmp_path: Path) -> None:
    touch(tmp_path, "1.log.deleted", "2.log.swap", "3.log.cleaned", "4.log")
    assert listed(tmp_path) == listed(tmp_path, all_files=True) == ["4.log"]


def test_log_directory(tmp_path: Path) -> None:
    touch(tmp_path, "b-10/0.log", "b-9/3.log", "b-9/0.log", "a-0/0.log", "b-2.0123-future/0.log", "meta.properties")
    touch(tmp_path, "backup/0.log", "a-0/deeper-0/0.log", "a-1/0.log.deleted")
    assert listed(tmp_path) == ["a-0/0.log", "b-2.0123-future/0.log", "b-9/0.log", "b-9/3.log", "b-10/0.log"]


def test_segment_names_of_directories(tmp_path: Path) -> None:
    touch(tmp_path, "0.log/inside", "1.log")
    assert listed(tmp_path) == ["1.log"]


@pytest.mark.parametrize("names", [(), ("meta.properties",), ("backup/0.log",), ("0.log.deleted",), ("0.index",)])
def test_no_segments(tmp_path: Path, names: tuple[str, ...]) -> None:
    touch(tmp_path, *names)
    with pytest.raises(KdumpError) as caught:
        listed(tmp_path)
    assert caught.value.code is Codes.NO_SEGMENTS
    assert str(tmp_path) in str(caught.value)


def test_missing_directory(tmp_path: Path) -> None:
    with pytest.raises(KdumpError) as caught:
        listed(tmp_path / "nowhere")
    assert caught.value.code is Codes.UNREADABLE


def test_a_listing_is_kept_until_the_directory_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However coarse the times of its file system are, and never with links, whose targets may change."""

    def names() -> list[str]:
        return sorted(entry.name for entry in files.listing(str(tmp_path)))

    scans: list[str] = []
    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: (scans.append(path), scandir(path))[1])
    (tmp_path / "a").touch()
    assert [names(), names()] == [["a"], ["a"]]
    assert len(scans) == 2, "it has just changed"
    now = time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: now + 10_000_000_000)
    os.utime(tmp_path, ns=(1, 1))
    assert [names(), names()] == [["a"], ["a"]]
    assert len(scans) == 3
    (tmp_path / "b").symlink_to("a")
    assert [names(), names()] == [["a", "b"], ["a", "b"]]
    assert len(scans) == 5
