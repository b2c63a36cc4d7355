"""inputs: what a PATH means."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kdump.codes import Codes, KdumpError
from kdump.inputs import LogSegment, OtherFile, PathDirectory, Sibling, Stream, TextFile, resolve
from kdump.log import files
from kdump.log.named import STDIN
from kdump.log.names import CLUSTER_METADATA, Kind


def raised(error: KdumpError) -> None:
    raise error


def test_standard_input_is_a_stream_whatever_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert resolve(STDIN) == Stream(STDIN)
    Path(STDIN).mkdir()
    assert resolve(STDIN) == Stream(STDIN)


def test_a_pipe_is_a_stream_only_where_a_user_named_it(tmp_path: Path) -> None:
    pipe = str(tmp_path / "0.log")
    os.mkfifo(pipe)
    assert resolve(pipe) == LogSegment(pipe, Kind.LOG, 0)
    assert resolve(files.strip_credentials(pipe)) == Stream(pipe)


def test_a_file_by_its_name_whether_it_is_there_or_not(tmp_path: Path) -> None:
    (tmp_path / "7.log").touch()
    for name, value in {
        "7.log": LogSegment("", Kind.LOG, 7),
        "8.log": LogSegment("", Kind.LOG, 8),
        "8.log.deleted": LogSegment("", Kind.LOG, 8, ".deleted"),
        "x.log": LogSegment("", Kind.LOG, None),
        "9-0000000001.checkpoint": LogSegment("", Kind.CHECKPOINT, None),
        "7.timeindex": Sibling("", Kind.TIME_INDEX, 7),
        "7.snapshot": Sibling("", Kind.SNAPSHOT, 7),
    }.items():
        path = str(tmp_path / name)
        found = resolve(path)
        assert isinstance(found, LogSegment | Sibling)
        assert (type(found), found.path) == (type(value), path)
        assert (found.kind, found.base_offset, found.state) == (value.kind, value.base_offset, value.state)


def test_what_a_file_says_of_its_place(tmp_path: Path) -> None:
    found = resolve(str(tmp_path / "orders-3" / "7.index"))
    assert isinstance(found, Sibling)
    assert (found.topic, found.partition, found.stem) == ("orders", 3, "7")
    assert found.log == str(tmp_path / "orders-3" / "7.log")
    with pytest.raises(KdumpError):
        found.open()
    with pytest.raises(KdumpError):
        assert found.size
    outside = resolve(str(tmp_path / "7.log"))
    assert isinstance(outside, LogSegment)
    assert (outside.topic, outside.partition) == (None, None)
    metadata = resolve(str(tmp_path / "7-01.checkpoint"))
    assert isinstance(metadata, LogSegment)
    assert metadata.topic == CLUSTER_METADATA


def test_what_is_no_file_of_a_segment(tmp_path: Path) -> None:
    (tmp_path / "notes").touch()
    for name, kind, code in (
        ("notes", OtherFile, Codes.NOT_A_SEGMENT_FILE),
        ("nothing", OtherFile, Codes.MISSING),
        ("meta.properties", TextFile, Codes.MISSING),
    ):
        found = resolve(str(tmp_path / name))
        assert type(found) is kind
        assert found.error.code is code
    assert type(resolve("a\0b")) is OtherFile


def test_a_directory_whatever_it_is_called(tmp_path: Path) -> None:
    for name in ("orders-0", "0.log", "meta.properties"):
        (tmp_path / name).mkdir()
        assert resolve(str(tmp_path / name)) == PathDirectory(str(tmp_path / name))


def test_the_partitions_of_a_directory(tmp_path: Path) -> None:
    for name in ("orders-0/5.log", "orders-0/5.index", "orders-0/3.log", "orders-1/x", "other/0.log"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    found = list(PathDirectory(f"{tmp_path}/").partitions(raised))
    assert [(os.path.basename(each.path), each.names, each.is_given) for each in found] == [
        ("orders-0", ("3.log", "5.log"), False),
        ("orders-1", (), False),
    ]
    alone = PathDirectory(f"{tmp_path}/orders-0/")
    (partition,) = alone.partitions(raised)
    assert partition.is_given
    assert partition.path == str(tmp_path / "orders-0")
    kinds = [(type(each), each.base_offset) for each in alone.files(raised, all_files=True)]
    assert kinds == [(LogSegment, 3), (LogSegment, 5), (Sibling, 5)]


@pytest.mark.parametrize("name", ["0.log", "0.index", "orders-0", "missing.log"])
def test_one_question_to_the_operating_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    (tmp_path / "0.log").touch()
    (tmp_path / "0.index").touch()
    (tmp_path / "orders-0").mkdir()
    path = files.strip_credentials(str(tmp_path / name))
    asked: list[str] = []
    stat = os.stat
    monkeypatch.setattr(os, "stat", lambda path, **given: (asked.append(path), stat(path, **given))[1])
    resolve(path)
    assert asked == [path]
