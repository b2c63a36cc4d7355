"""What copies differ in: real brokers' incidents, and each kind clean and damaged on copies made for it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from kdump.diff.comparison import DifferenceKind
from tests.harness.replicas import MadeBatch, Truth, compared, make_copy, make_log_directory, told

HEALTHY = ("p1-healthy", "p2-after", "p5-after")
DAMAGED_TOPICS = ("s08-", "s09-")
TOPIC = ("t", 0)


def once_per_pair(replicas: Truth) -> list[dict[str, Any]]:
    return [line for line in replicas.lines if line["leader"] < line["follower"]]


def offsets(ranges: Iterable[Iterable[int]]) -> set[int]:
    return {offset for first, last in ranges for offset in range(first, last + 1)}


@pytest.mark.slow
def test_healthy_copies_have_no_finding(replicas: Truth) -> None:
    seen = 0
    for line in once_per_pair(replicas):
        if line["scenario"] in HEALTHY and not line["partition"].startswith(DAMAGED_TOPICS):
            differences = replicas.comparison(line).differences()
            assert all(one.kind.is_explained for one in differences), line["id"]
            seen += 1
    assert seen > 150


@pytest.mark.slow
def test_ranges_are_those_of_the_contents(replicas: Truth) -> None:
    """What real code finds different, or on one side only, lies in a difference; a finding names nothing else."""
    for line in once_per_pair(replicas):
        if line["topicIdsDiffer"]:
            continue
        comparison = replicas.comparison(line)
        covered: dict[str, set[int]] = {kind.word: set() for kind in DifferenceKind}
        for one in comparison.differences():
            if one.first_offset is not None and one.last_offset is not None:
                covered[one.kind.word] |= offsets([(one.first_offset, one.last_offset)])
        contents = line["contents"]
        lower = max(copy.log_start for copy in comparison.copies)
        different = offsets(contents["different"])
        # Ranges join offsets between which nothing is held.
        one_side = {
            end for side in ("only_leader", "only_follower") for pair in contents[side] for end in pair if end >= lower
        }
        changed = covered["record"] | covered["leader-epoch"] | covered["damage"]
        missing = covered["gap"] | covered["lag"] | covered["tail"] | covered["compaction"]
        assert {offset for offset in different if offset >= lower} <= changed, line["id"]
        lone = one_side - changed - missing - covered["retention"] - covered["deletes"]
        assert all("s07" in line["id"] for _ in lone), line["id"]
        everything = offsets(contents["only_leader"]) | offsets(contents["only_follower"])
        assert covered["record"] | covered["leader-epoch"] <= different, line["id"]
        assert covered["gap"] <= everything, line["id"]


def incident(replicas: Truth, scenario: str, partition: str, *nodes: str) -> list[tuple[object, ...]]:
    (line,) = [
        line for line in replicas.lines if line["id"] == f"{scenario}/{partition}/leader-{nodes[0]}/follower-{nodes[1]}"
    ]
    return [one[:3] for one in told(replicas.comparison(line).differences())]


@pytest.mark.parametrize(
    ("partition", "finding"),
    [
        ("s08-damage-0", ("damage", 30, 32)),
        ("s08-damage-1", ("damage", 36, 49)),
        ("s08-damage-2", ("gap", 36, 48)),
        ("s08-damage-3", ("gap", 0, 13)),
        ("s09-crafted-0", ("record", 20, 20)),
        ("s09-crafted-1", ("record", 44, 46)),
    ],
)
@pytest.mark.slow
def test_damage_of_one_copy(replicas: Truth, partition: str, finding: tuple[str, int, int]) -> None:
    line = next(
        line
        for line in replicas.lines
        if line["scenario"] == "p1-damaged" and line["partition"] == partition and "p1-damaged" in line["leader"]
    )
    found = [one for one in replicas.comparison(line).differences() if not one.kind.is_explained]
    contents = line["contents"]
    first, last = (
        pick(
            offset
            for side in ("different", "only_leader", "only_follower")
            for pair in contents[side]
            for offset in pair
        )
        for pick in (min, max)
    )
    assert [(one.kind.word, one.first_offset, one.last_offset) for one in found] == [(finding[0], first, last)]


@pytest.mark.slow
def test_topic_ids(replicas: Truth) -> None:
    line = next(line for line in replicas.lines if line["topicIdsDiffer"])
    assert "topic-id" in [one[0] for one in told(replicas.comparison(line).differences())]
    assert not {"record", "leader-epoch", "gap"} & {one[0] for one in told(replicas.comparison(line).differences())}


def row(*bases: int, epoch: int = 0) -> list[MadeBatch]:
    return [MadeBatch(base, epoch=epoch) for base in bases]


def test_segments_are_explained(tmp_path: Path) -> None:
    one = make_copy(tmp_path / "a" / "t-0", [row(0, 5, 10, 15)])
    other = make_copy(tmp_path / "b" / "t-0", [row(0, 5), row(10), row(15)])
    assert told(compared(one, one)) == []
    assert told(compared(one, other)) == [("segments", 10, 15, (0, 1))]


def test_lag_and_retention(tmp_path: Path) -> None:
    whole = make_copy(tmp_path / "a" / "t-0", [row(0, 5), row(10, 15)])
    late = make_copy(tmp_path / "b" / "t-0", [row(10, 15)], epochs=[(0, 10)])
    short = make_copy(tmp_path / "c" / "t-0", [row(0, 5), row(10)])
    assert told(compared(whole, late, short)) == [("retention", 0, 9, (1,)), ("lag", 15, 19, (2,))]


def test_a_lost_first_segment_is_no_retention(tmp_path: Path) -> None:
    whole = make_copy(tmp_path / "a" / "t-0", [row(0, 5), row(10, 15)])
    late = make_copy(tmp_path / "b" / "t-0", [row(10, 15)], epochs=[(0, 0)])
    assert told(compared(whole, late)) == [("gap", 0, 9, (1,))]


def test_deleted_records(tmp_path: Path) -> None:
    for name, start in (("a", 0), ("b", 5)):
        make_copy(tmp_path / name / "t-0", [row(0, 5, 10)])
        offsets_of = {"log-start-offset-checkpoint": {TOPIC: start}}
        make_log_directory(tmp_path / name, node=ord(name), offsets=offsets_of)
    assert told(compared(tmp_path / "a" / "t-0", tmp_path / "b" / "t-0")) == [("deletes", 0, 4, (1,))]


def test_gaps(tmp_path: Path) -> None:
    whole = make_copy(tmp_path / "a" / "t-0", [row(0, 5), row(10, 15), row(20)])
    lost = make_copy(tmp_path / "b" / "t-0", [row(0, 5), row(20)])
    assert ("gap", 10, 19, (1,)) in told(compared(whole, lost))


def test_a_gap_within_a_segment(tmp_path: Path) -> None:
    """The log cleaner may have made it only if a later record has the key, and its checkpoint says nothing else."""
    for name, key in (("repeated", None), ("unique", b"unique")):
        whole = make_copy(tmp_path / name / "a" / "t-0", [[*row(0), MadeBatch(5, key=key), *row(10)]])
        cut = make_copy(tmp_path / name / "b" / "t-0", [row(0, 10)])
        kind = "compaction" if key is None else "gap"
        assert told(compared(whole, cut)) == [(kind, 5, 9, (1,))]
        known = {"cleaner-offset-checkpoint": {("other", 0): 1}}
        make_log_directory(cut.parent, node=1, offsets={**known, "recovery-point-offset-checkpoint": {TOPIC: 15}})
        assert told(compared(whole, cut)) == [("gap", 5, 9, (1,))]


def test_other_records(tmp_path: Path) -> None:
    whole = make_copy(tmp_path / "a" / "t-0", [row(0, 5, 10)])
    other = make_copy(tmp_path / "b" / "t-0", [[*row(0), MadeBatch(5, value=b"other"), *row(10)]])
    assert told(compared(whole, whole, other)) == [("record", 5, 9, (0, 1, 2))]
    assert told(compared(whole, other, only_content=True)) == [("record", 5, 9, (0, 1))]


def test_an_epoch_that_was_changed(tmp_path: Path) -> None:
    """No CRC covers it. What follows is equal, so the rest is lag and no other history."""
    whole = make_copy(tmp_path / "a" / "t-0", [row(0, 5, 10, 15)])
    other = make_copy(tmp_path / "b" / "t-0", [[*row(0), MadeBatch(5, epoch=3), *row(10)]])
    assert told(compared(whole, other)) == [("leader-epoch", 5, 9, (0, 1)), ("lag", 15, 19, (1,))]


def test_histories_that_parted(tmp_path: Path) -> None:
    ours = make_copy(tmp_path / "a" / "t-0", [[*row(0), *row(5, 10, epoch=1)]], epochs=[(0, 0), (1, 5)])
    theirs = make_copy(tmp_path / "b" / "t-0", [[*row(0), *row(5, epoch=2)]], epochs=[(0, 0), (2, 5)])
    assert told(compared(ours, theirs)) == [("leader-epoch", 5, 9, (0, 1)), ("tail", 10, 14, (0,))]


def test_where_an_epoch_starts(tmp_path: Path) -> None:
    ours = make_copy(tmp_path / "a" / "t-0", [[*row(0, 5), *row(10, 15, epoch=2)]])
    theirs = make_copy(tmp_path / "b" / "t-0", [[*row(0), *row(5, 10, 15, epoch=2)]])
    assert told(compared(ours, theirs)) == [("leader-epoch", 5, 9, (0, 1)), ("epoch-start", 5, 10, (0, 1))]


def test_checkpoints_of_epochs_alone_are_no_difference(tmp_path: Path) -> None:
    ours = make_copy(tmp_path / "a" / "t-0", [row(0, 5)], epochs=[(0, 0), (4, 10)])
    theirs = make_copy(tmp_path / "b" / "t-0", [row(0, 5)])
    assert told(compared(ours, theirs)) == []


def test_high_watermark(tmp_path: Path) -> None:
    for name, high_watermark in (("a", 10), ("b", 12)):
        make_copy(tmp_path / name / "t-0", [row(0, 5)])
        known = {
            "replication-offset-checkpoint": {TOPIC: high_watermark},
            "recovery-point-offset-checkpoint": {TOPIC: 10},
        }
        make_log_directory(tmp_path / name, node=ord(name), offsets=known)
    assert told(compared(tmp_path / "a" / "t-0", tmp_path / "b" / "t-0")) == [("high-watermark", 10, 11, (1,))]


def test_clusters(tmp_path: Path) -> None:
    for name in ("a", "b"):
        make_copy(tmp_path / name / "t-0", [row(0, 5)])
        make_log_directory(tmp_path / name, node=1, cluster=name * 22)
    found = compared(tmp_path / "a" / "t-0", tmp_path / "b" / "t-0")
    assert told(found) == [("cluster", None, None, (0, 1))]
    assert not compared(tmp_path / "a" / "t-0", tmp_path / "b" / "t-0", only_content=True)


def test_a_start_that_fails_is_damage(tmp_path: Path) -> None:
    whole = make_copy(tmp_path / "a" / "t-0", [row(0, 5)])
    other = make_copy(tmp_path / "b" / "t-0", [row(0, 5)])
    (other / "leader-epoch-checkpoint").write_text("7\n0\n")
    assert told(compared(whole, other)) == [("damage", None, None, (1,))]


def test_damage_that_a_start_cuts_off(tmp_path: Path) -> None:
    for name in ("a", "b"):
        make_copy(tmp_path / name / "t-0", [row(0, 5, 10, 15)])
        make_log_directory(tmp_path / name, node=ord(name), is_clean=False)
    path = tmp_path / "b" / "t-0" / f"{0:020}.log"
    data = bytearray(path.read_bytes())
    size = len(MadeBatch(0).data())
    data[size + 100] ^= 1
    path.write_bytes(data)
    found = told(compared(tmp_path / "a" / "t-0", tmp_path / "b" / "t-0"))
    assert found == [("damage", 5, 9, (1,)), ("lag", 5, 19, (1,))]
    # A torn tail is none: a broker that was killed leaves it.
    path.write_bytes(bytes(data[: size - 5]))
    assert told(compared(tmp_path / "a" / "t-0", tmp_path / "b" / "t-0")) == [("lag", 0, 19, (1,))]


def test_what_a_start_cuts_out_of_the_middle_is_damage(tmp_path: Path) -> None:
    """Without its .index a segment is recovered, also after a clean stop: it ends before the damage."""
    whole = make_copy(tmp_path / "a" / "t-0", [row(0, 5, 10), row(15)])
    other = make_copy(tmp_path / "b" / "t-0", [row(0, 5, 10), row(15)])
    path = other / f"{0:020}.log"
    data = bytearray(path.read_bytes())
    data[len(MadeBatch(0).data()) + 100] ^= 1
    path.write_bytes(data)
    assert told(compared(whole, other)) == [("damage", 5, 9, (1,)), ("damage", 10, 14, (1,))]
    for base in (0, 15):
        (other / f"{base:020}.index").write_bytes(b"")
    assert told(compared(whole, other)) == [("damage", 5, 9, (1,))]
