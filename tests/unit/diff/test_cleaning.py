"""What the log cleaner explains: records that are replaced, tombstones, markers, aborted transactions; and what not."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

from kdump.diff.cleaning import cleaned_last
from tests.harness.batches import CONTROL, TRANSACTIONAL, v2_batch
from tests.harness.fast_reference import Row
from tests.harness.replicas import MadeBatch, compared, loaded, make_copy, make_log_directory, told

TOPIC = ("t", 0)


def record(offset: int, key: bytes, value: bytes | None = b"v", **header: int) -> bytes:
    return v2_batch([Row(0, 0, key, value)], base_offset=offset, **header)


def marker(offset: int, kind: int, producer: int) -> bytes:
    row = Row(0, 0, struct.pack(">hh", 0, kind), struct.pack(">hi", 0, 0))
    attributes = CONTROL | TRANSACTIONAL
    return v2_batch([row], base_offset=offset, attributes=attributes, producer_id=producer, producer_epoch=0)


def copies(folder: Path, ours: list[list[bytes]], theirs: list[list[bytes]], bases: list[int]) -> list[Path]:
    """Two copies of segments; the log cleaner says that it was at the second one."""
    made = []
    for number, segments in enumerate((ours, theirs)):
        home = make_log_directory(
            folder / str(number),
            node=number,
            offsets={
                "cleaner-offset-checkpoint": {TOPIC: 50} if number else {},
                "recovery-point-offset-checkpoint": {TOPIC: 100},
            },
        )
        path = make_copy(home / "t-0", [])
        for base, entries in zip(bases, segments, strict=True):
            (path / f"{base:020}.log").write_bytes(b"".join(entries))
        made.append(path)
    return made


A, B = record(0, b"a"), record(1, b"b")
NEW_A, NEW_B = record(60, b"a", b"new"), record(61, b"b", b"new")


def test_a_replaced_record_at_the_end_of_a_segment(tmp_path: Path) -> None:
    paths = copies(tmp_path, [[A, B], [NEW_A, NEW_B]], [[A], [NEW_A, NEW_B]], [0, 60])
    assert told(compared(*paths)) == [("compaction", 1, 1, (1,))]


def test_a_record_at_the_end_of_a_segment_that_nothing_replaces(tmp_path: Path) -> None:
    paths = copies(tmp_path, [[A, B], [NEW_A]], [[A], [NEW_A]], [0, 60])
    assert told(compared(*paths)) == [("gap", 1, 1, (1,))]


def test_within_a_segment_nothing_need_be_left_that_replaces(tmp_path: Path) -> None:
    paths = copies(tmp_path, [[A, B, record(2, b"c")]], [[A, record(2, b"c")]], [0])
    (found,) = compared(*paths)
    assert told([found]) == [("compaction", 1, 1, (1,))]
    assert "1 of them without a later record of the key" in found.message


def test_an_old_tombstone(tmp_path: Path) -> None:
    """Where an older record of its key is left, it is missing."""
    gone = record(1, b"b", None)
    clean = copies(tmp_path / "clean", [[A, gone], [NEW_A]], [[A], [NEW_A]], [0, 60])
    assert told(compared(*clean)) == [("compaction", 1, 1, (1,))]
    gone = record(1, b"a", None)
    damaged = copies(tmp_path / "damaged", [[A, gone], [record(60, b"x")]], [[A], [record(60, b"x")]], [0, 60])
    assert told(compared(*damaged)) == [("gap", 1, 1, (1,))]


def test_markers_and_aborted_transactions(tmp_path: Path) -> None:
    data = {"attributes": TRANSACTIONAL, "producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    for name, kind, expected in (("aborted", 0, "compaction"), ("committed", 1, "gap")):
        ours = [[A, record(1, b"t", **data), marker(2, kind, 7)], [NEW_A]]
        paths = copies(tmp_path / name, ours, [[A], [NEW_A]], [0, 60])
        found = told(compared(*paths))
        assert found[0][0] == expected
        assert found[-1][0] == "compaction"


def test_rewritten_batches(tmp_path: Path) -> None:
    whole = v2_batch([Row(0, 0, b"a", b"1"), Row(0, 1, b"b", b"2"), Row(0, 2, b"a", b"3")])
    left = v2_batch([Row(0, 1, b"b", b"2"), Row(0, 2, b"a", b"3")], last_offset_delta=2)
    paths = copies(tmp_path, [[whole]], [[left]], [0])
    assert told(compared(*paths)) == [("compaction", 0, 0, (1,)), ("rewritten", 1, 2, (0, 1))]


def test_a_log_that_was_cleaned_up_to_its_end(tmp_path: Path) -> None:
    """After a truncation it may end below its high watermark."""
    empty = v2_batch([], base_offset=5, last_offset_delta=4)
    path = make_copy(tmp_path / "t-0", [])
    log = path / f"{0:020}.log"
    for entries, is_cleaned in (([empty], True), ([record(3, b"a")], True), ([A], False), ([], False)):
        log.write_bytes(b"".join(entries))
        assert cleaned_last(loaded(path)) == is_cleaned


def test_not_compacted(tmp_path: Path) -> None:
    """Keys that come again are no sign of it: a lost segment is a gap."""
    batches = [[replace(MadeBatch(base), key=b"k")] for base in (0, 5, 10)]
    whole = make_copy(tmp_path / "a" / "t-0", batches)
    lost = make_copy(tmp_path / "b" / "t-0", [batches[0], batches[2]])
    assert told(compared(whole, lost))[0] == ("gap", 5, 9, (1,))
