"""Looks at logs and a judge elsewhere give what one pass over the partition gives."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from kdump.codes import Codes, Finding
from kdump.format.batch import MAGIC_OFFSET
from kdump.verify.judging import judge
from kdump.verify.partition import Judgement, PartitionCheck
from kdump.verify.readings import Group, ReadingPiece, plan_readings, read_pieces
from kdump.verify.report import summary_line
from kdump.verify.segment import CheckOptions
from kdump.verify.summary import SegmentSummary
from tests.harness.batches import plain_rows, v2_batch
from tests.harness.captures import FIXTURES

OPTIONS = CheckOptions()


def looked(group: Group) -> list[ReadingPiece]:
    return [piece for tasks in plan_readings([group]) for task in tasks for piece in read_pieces(task, OPTIONS)]


def at_once(group: Group) -> Iterator[Judgement]:
    return PartitionCheck(OPTIONS).segments(group.segments, group.folder)


def said(item: Judgement) -> str:
    return summary_line(item) if isinstance(item, SegmentSummary) else repr(item)


def group_of(folder: Path) -> Group:
    return Group(tuple(map(str, sorted(folder.glob("*.log")))), str(folder))


@pytest.mark.parametrize("partition", ["damaged-crc-0", "v0-snappy-0", "v1-gzip-0", "v2-txn-0"])
def test_the_same_as_at_once(partition: str) -> None:
    group = group_of(FIXTURES / "segments" / partition)
    expected = list(map(said, at_once(group)))
    assert [said(item) for _, item in judge([group], looked(group), OPTIONS)] == expected


def test_findings_of_two_kinds_stand_by_their_positions(tmp_path: Path) -> None:
    """A batch that comes again is found by the ordered checks, the damage after it by the reading."""
    damaged = bytearray(v2_batch(plain_rows(3), base_offset=9))
    damaged[MAGIC_OFFSET] = 3
    first = v2_batch(plain_rows(3), base_offset=0)
    later = [v2_batch(plain_rows(3), base_offset=offset) for offset in (3, 6)]
    data = b"".join([first, first, *later, bytes(damaged), v2_batch(plain_rows(3), base_offset=12)])
    (tmp_path / f"{0:020}.log").write_bytes(data)
    group = group_of(tmp_path)
    expected = list(map(said, at_once(group)))
    codes = [item.code for item in at_once(group) if isinstance(item, Finding)]
    assert codes[:2] == [Codes.DUPLICATE_BATCH, Codes.MAGIC]
    assert [said(item) for _, item in judge([group], looked(group), OPTIONS)] == expected


def test_a_segment_alone_among_others(tmp_path: Path) -> None:
    """Where its consumers go on the name of the next one says, which is not looked at."""
    folder = tmp_path / "t-0"
    shutil.copytree(FIXTURES / "segments" / "v2-txn-0", folder)
    path, following = sorted(folder.glob("*.log"))[:2]
    path.write_bytes(path.read_bytes()[:-1])
    group = Group((str(path),), None)
    expected = list(map(said, at_once(group)))
    assert any(f"continue_at={int(following.stem)}," in line for line in expected)
    assert [said(item) for _, item in judge([group], looked(group), OPTIONS)] == expected


def test_a_segment_that_has_come_since_the_looks_were_planned(tmp_path: Path) -> None:
    """It was empty then, as the newest one of a live broker is; its index files have entries now."""
    folder = tmp_path / "t-0"
    shutil.copytree(FIXTURES / "segments" / "v2-txn-0", folder)
    for number in (0, 1, 4):
        path = Path((group := group_of(folder)).segments[number])
        data = path.read_bytes()
        path.write_bytes(b"")
        pieces = looked(group)
        path.write_bytes(data)
        assert [said(item) for _, item in judge([group], pieces, OPTIONS)] == list(map(said, at_once(group)))
