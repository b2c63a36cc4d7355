"""Manifests: what they say, that they are read as they were written, and digests without segment boundaries."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from kdump.codes import Codes, KdumpError
from kdump.diff.against import changed_files
from kdump.diff.manifest import RANGE_OFFSETS, is_manifest, manifest_lines, ranges_of, read_manifest
from kdump.inputs import resolve
from tests.harness.replicas import MadeBatch, fail, loaded, make_copy


def row(*bases: int) -> list[MadeBatch]:
    return [MadeBatch(base) for base in bases]


def test_it_is_read_as_it_was_written(tmp_path: Path) -> None:
    copy = make_copy(tmp_path / "odd\nname" / "t-0", [row(0, 5)], epochs=[(0, 0), (2, 5)])
    path = tmp_path / "manifest"
    path.write_text("".join(manifest_lines([resolve(str(copy.parent))], fail, ())))
    assert is_manifest(resolve(str(path)))
    assert not is_manifest(resolve(str(copy)))
    assert not is_manifest(resolve(str(tmp_path / "missing")))
    found = read_manifest(str(path))
    assert found.roots == (str(copy.parent),)
    assert {(one.path, one.size, one.sha256) for one in found.files} == {
        (str(file), file.stat().st_size, hashlib.sha256(file.read_bytes()).hexdigest()) for file in copy.iterdir()
    }
    (partition,) = found.partitions
    said = partition.copy
    assert (said.directory, partition.name, said.log_end, said.epochs) == (str(copy), ("t", 0), 10, ((0, 0), (2, 5)))
    (digests,) = partition.ranges
    whole = b"".join(batch.data() for batch in row(0, 5))
    assert digests == (0, 9, 2, 10, hashlib.sha256(whole).hexdigest())


def test_ranges_know_no_segments(tmp_path: Path) -> None:
    bases = [0, RANGE_OFFSETS - 3, RANGE_OFFSETS + 2, 5 * RANGE_OFFSETS]
    one = loaded(make_copy(tmp_path / "a" / "t-0", [row(*bases)]))
    other = loaded(make_copy(tmp_path / "b" / "t-0", [row(base) for base in bases]))
    found = list(ranges_of(one, 0, one.log_end))
    assert [(digests.first, digests.last) for digests in found] == [
        (0, RANGE_OFFSETS + 1),
        (RANGE_OFFSETS + 2, RANGE_OFFSETS + 6),
        (5 * RANGE_OFFSETS, 5 * RANGE_OFFSETS + 4),
    ]
    assert list(ranges_of(other, 0, other.log_end)) == found
    assert list(ranges_of(one, 1, RANGE_OFFSETS)) == []


@pytest.mark.parametrize(
    "line",
    [
        "what is this",
        "# [1]",
        "# {",
        '# {"type":"manifest","version":9,"paths":[]}',
        '# {"type":"file","path":"x","size":"many"}',
        '# {"type":"partition"}',
        '# {"type":"partition","path":"t-0","topic":"t","partition":0,"topicId":null,"clusterId":null,"nodeId":[],'
        '"logStart":0,"logEnd":0,"highWatermark":0,"epochs":[],"ranges":[]}',
        '# {"type":"partition","path":"t-0","topic":"t","partition":0,"topicId":null,"clusterId":null,"nodeId":null,'
        '"logStart":0,"logEnd":0,"highWatermark":0,"epochs":[],"ranges":[[0,0,1,1,"abc"]]}',
        '# {"type":"partition","path":"t-0","topic":"t","partition":0,"topicId":null,"clusterId":null,"nodeId":null,'
        '"logStart":0,"logEnd":0,"highWatermark":0,"epochs":[[1]],"ranges":[]}',
        '# {"type":"file","path":"x","size":1,"more":[' + "[]," * 200_000 + "1]}",
        "# " + "[" * 100_000,
        '# {"type":"file","path":"\\ud800","size":1}',
        "0" * 63 + "  short",
    ],
    ids=range(13),
)
def test_what_is_none_of_a_manifest(tmp_path: Path, line: str) -> None:
    path = tmp_path / "manifest"
    path.write_text(f"{''.join(manifest_lines([], fail, ()))}{line}\n")
    with pytest.raises(KdumpError) as caught:
        read_manifest(str(path))
    assert (caught.value.code, "line 2" in caught.value.message) == (Codes.MANIFEST, True)


def test_what_cannot_be_read_is_told_and_left_out(tmp_path: Path) -> None:
    copy = make_copy(tmp_path / "t-0", [row(0)])
    (tmp_path / "outside").write_text("x")
    (tmp_path / "logs").mkdir()
    copy = copy.rename(tmp_path / "logs" / "t-0")
    (copy / "link").symlink_to(tmp_path / "outside")
    errors: list[KdumpError] = []
    lines = list(manifest_lines([*map(resolve, [str(tmp_path / "missing"), str(copy)])], errors.append, ()))
    assert [error.code for error in errors] == [Codes.MISSING, Codes.LINK_OUTSIDE]
    assert any('"type":"partition"' in line for line in lines)


def test_partitions_after_one_that_cannot_be_read_are_listed(tmp_path: Path) -> None:
    (tmp_path / "old-0").mkdir()
    (tmp_path / "old-0" / f"{0:020}.kafka").write_bytes(b"")
    make_copy(tmp_path / "t-0", [row(0)])
    errors: list[KdumpError] = []
    lines = list(manifest_lines([resolve(str(tmp_path))], errors.append, ()))
    assert [(error.code, error.path) for error in errors] == [(Codes.NOT_A_SEGMENT_FILE, str(tmp_path / "old-0"))]
    assert [json.loads(line[2:])["topic"] for line in lines if '"type":"partition"' in line] == ["t"]
    assert sum(".kafka" in line for line in lines) == 2


def test_of_zookeeper_there_are_files_only(tmp_path: Path) -> None:
    (tmp_path / "version-2").mkdir()
    (tmp_path / "version-2" / "log.1").write_bytes(b"ZKLG")
    lines = list(manifest_lines([resolve(str(tmp_path))], fail, ()))
    assert [line.endswith("version-2/log.1\n") for line in lines if not line.startswith("# ")] == [True]
    assert not any('"type":"partition"' in line for line in lines)


def test_a_file_that_is_listed_twice_is_compared_with_both(tmp_path: Path) -> None:
    """Only the last line of a file counted, so another one could hide it."""
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / f"{0:020}.log").write_bytes(b"")
    path, root = tmp_path / "manifest", str(tmp_path / "t-0")
    lines = list(manifest_lines([resolve(root)], fail, ()))
    digest = next(number for number, line in enumerate(lines) if not line.startswith("#"))
    for before, count in (([lines[digest]], 0), (["0" * 64 + lines[digest][64:]], 1)):
        path.write_text("".join([*lines[:digest], *before, *lines[digest:]]))
        assert len(list(changed_files(read_manifest(str(path)), root, root, fail))) == count
