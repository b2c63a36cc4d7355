"""Committed offsets in logs that were renumbered."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kdump.codes import Codes, KdumpError
from kdump.convert.conversion import Conversion
from kdump.inputs import resolve
from kdump.restore import offsetmaps
from kdump.restore.offsetmaps import OffsetMaps
from kdump.restore.plan import RestoreOptions, plan_restore
from kdump.restore.run import Restore
from kdump.restore.source import read_source
from kdump.restore.target import TargetPartition
from tests.harness.batches import plain_rows, v2_batch
from tests.harness.cli_runs import CLEAN, USAGE, kdump

ID = "kdumpkdumpkdumpkdumpkg"


def source(home: Path) -> Path:
    """Offsets 10 to 12, 15 and 16 in one log, 20 and 21 in the next."""
    partition = home / "old-1"
    partition.mkdir()
    data = v2_batch(plain_rows(3), base_offset=10) + v2_batch(plain_rows(2), base_offset=15)
    (partition / f"{10:020}.log").write_bytes(data)
    (partition / f"{20:020}.log").write_bytes(v2_batch(plain_rows(2), base_offset=20))
    return partition


def new_offset(maps: OffsetMaps, offset: int) -> tuple[object, object, object]:
    row = maps.translated({"group": "g", "topic": "old", "partition": 1, "offset": offset})
    return row["topic"], row["partition"], row["offset"]


EXPECTED = {0: 0, 10: 0, 12: 2, 13: 3, 14: 3, 15: 3, 16: 4, 17: 5, 19: 5, 20: 5, 21: 6, 22: 7, 99: 7}


def test_a_restored_partition(tmp_path: Path) -> None:
    options = RestoreOptions(Conversion(renumber=0), is_converted=True)
    plan = plan_restore(read_source(resolve(str(source(tmp_path)))), TargetPartition("t", 4, ID), options)
    with Restore(str(tmp_path / "logs"), options) as job:
        job.restore(plan)
    assert sorted(path.name for path in (tmp_path / "logs" / "t-4").glob("*.log")) == [f"{0:020}.log", f"{5:020}.log"]
    maps = OffsetMaps([str(tmp_path / "logs")])
    assert {offset: new_offset(maps, offset) for offset in EXPECTED} == {
        old: ("t", 4, new) for old, new in EXPECTED.items()
    }
    other = {"group": "g", "topic": "other", "partition": 1, "offset": 12}
    assert maps.translated(other) == other


def test_converted_logs(tmp_path: Path) -> None:
    source(tmp_path)
    done = kdump("convert", "old-1", "-o", "out", "--renumber", "100", "--offset-map", cwd=tmp_path)
    assert done.returncode == CLEAN
    lines = (tmp_path / "out" / f"{100:020}.offsets.csv").read_text().splitlines()
    assert lines == [
        "topic,partition,offset,newTopic,newPartition,newOffset",
        "old,1,10,old,1,100",
        "old,1,15,old,1,103",
        "old,1,17,old,1,105",
    ]
    maps = OffsetMaps([str(path) for path in (tmp_path / "out").glob("*.offsets.csv")])
    found = {offset: new_offset(maps, offset) for offset in EXPECTED}
    assert found == {old: ("old", 1, new + 100) for old, new in EXPECTED.items()}


@pytest.mark.parametrize("text", ["", "byteOffset,offset\n0,0\n", "topic,partition\n"])
def test_what_is_no_map(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.offsets.csv"
    path.write_text(text)
    with pytest.raises(KdumpError):
        OffsetMaps([str(path)])
    (tmp_path / "empty").mkdir()
    with pytest.raises(KdumpError):
        OffsetMaps([str(tmp_path / "empty")])


@pytest.mark.parametrize("what", ["pipe", "link"])
def test_a_directory_holds_what_is_no_file(tmp_path: Path, what: str) -> None:
    """It is not waited for, and no link leads elsewhere; a map that is named may be a link."""
    elsewhere = tmp_path / "map.csv"
    elsewhere.write_text("topic,partition,offset,newTopic,newPartition,newOffset\n")
    path = tmp_path / "maps" / "x.offsets.csv"
    path.parent.mkdir()
    os.mkfifo(path) if what == "pipe" else path.symlink_to(elsewhere)
    with pytest.raises(KdumpError) as error:
        OffsetMaps([str(path.parent)])
    assert error.value.code is (Codes.SPECIAL_FILE if what == "pipe" else Codes.LINK_OUTSIDE)
    if what == "link":
        OffsetMaps([str(path)])


def test_only_for_the_reset_tool(tmp_path: Path) -> None:
    assert kdump("state", "--at", "now", "--offset-map", "x", ".", cwd=tmp_path).returncode == USAGE


TITLE = "topic,partition,offset,newTopic,newPartition,newOffset"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("old,-1,0,t,0,0", "the partition is no number from 0 to 2147483647"),
        ("old,2147483648,0,t,0,0", "the partition is no number from 0 to 2147483647"),
        ("old,0,0,t,٣,0", "the partition is no number from 0 to 2147483647"),
        ("old,0,1_0,t,0,0", "the offset is no number from 0 to 9223372036854775808"),
        ("old,0,0,t,0,9223372036854775809", "the offset is no number from 0 to 9223372036854775808"),
        (f"old,0,0,t,0,{'9' * 5000}", "the offset is no number from 0 to 9223372036854775808"),
        (f"{'t' * 256},0,0,t,0,0", "a topic has more than 255 characters"),
        ("old,0,0", "it has 3 cells, not 6"),
    ],
)
def test_what_is_no_line_of_a_map(tmp_path: Path, line: str, said: str) -> None:
    path = tmp_path / "x.offsets.csv"
    path.write_text(f"{TITLE}\nold,1,0,t,0,0\n\n{line}\n")
    with pytest.raises(KdumpError) as error:
        OffsetMaps([str(path)])
    assert error.value.code is Codes.UNREADABLE
    assert str(error.value) == f"{path}: no map of offsets: line 4: {said}"


@pytest.mark.parametrize("line", [b"x" * 70_000, bytes(3 << 20)])
def test_a_line_is_short(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "x.offsets.csv"
    path.write_bytes(f"{TITLE}\n".encode() + line)
    with pytest.raises(KdumpError, match="a line has more than 65,536 bytes"):
        OffsetMaps([str(path)])


def test_logs_that_end_at_the_largest_offset(tmp_path: Path) -> None:
    path = tmp_path / "x.offsets.csv"
    last = 2**63 - 1
    path.write_text(f"{TITLE}\nold,1,{last - 2},t,2147483647,{last - 9}\nold,1,{last + 1},t,2147483647,{last - 6}\n")
    maps = OffsetMaps([str(path)])
    assert new_offset(maps, last) == ("t", 2147483647, last - 7)
    assert [new_offset(maps, offset)[2] for offset in (-1, last - 2)] == [last - 9] * 2


def test_the_number_of_partitions_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offsetmaps, "_MOST_PARTITIONS", 3)
    path = tmp_path / "x.offsets.csv"
    path.write_text(f"{TITLE}\na,0,0,b,0,0\na,1,0,b,0,0\n")
    OffsetMaps([str(path)])
    path.write_text(f"{TITLE}\na,0,0,b,0,0\na,1,0,b,1,0\n")
    with pytest.raises(KdumpError, match="line 3: there are more than 3 partitions"):
        OffsetMaps([str(path)])
