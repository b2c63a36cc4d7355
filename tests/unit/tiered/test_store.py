"""Which segments of a partition are read, and up to where."""

from __future__ import annotations

import pytest

from kdump.codes import Codes, KdumpError
from kdump.tiered.bucket import RemoteFiles, StoredSegment
from kdump.tiered.objects import BucketLayout, ObjectName
from kdump.tiered.store import ObjectPiece, in_sequence

LOST = KdumpError(Codes.REMOTE_MISSING, "the object is missing")


def piece(start: int, end: int, epoch: int = 0, name: str = "A") -> ObjectPiece:
    stored = StoredSegment(ObjectName(BucketLayout.LOCAL, "t", "T" * 22, 0, start, name * 22, "log"), "stem")
    return ObjectPiece(stored, RemoteFiles(start, end, epoch, {}))


def lost(start: int) -> ObjectPiece:
    return ObjectPiece(piece(start, start).segment, LOST)


@pytest.mark.parametrize(
    ("pieces", "local_start", "read"),
    [
        ([(10, 19), (0, 9)], None, [(0, None), (10, None)]),
        ([(0, 9), (0, 9)], None, [(0, None)]),
        ([(0, 9), (5, 15)], None, [(0, 5), (5, None)]),
        ([(0, 9, 0), (3, 6, 1)], None, [(0, 3), (3, None)]),
        ([(0, 9, 1), (3, 6, 1)], None, [(0, None)]),
        ([(0, 9, 0), (0, 6, 1)], None, [(0, None)]),
        ([(0, 9), (10, 19)], 10, [(0, None)]),
        ([(0, 9), (10, 19)], 15, [(0, None), (10, 15)]),
    ],
)
def test_sequence(pieces: list[tuple[int, ...]], local_start: int | None, read: list[tuple[int, int | None]]) -> None:
    found = in_sequence([piece(*one) for one in pieces], local_start)
    assert [(one.segment.name.base_offset, one.until) for one in found] == read


def test_what_is_lost_keeps_its_place() -> None:
    found = in_sequence([piece(0, 9), lost(10), piece(20, 29)], None)
    assert [one.segment.name.base_offset for one in found] == [0, 10, 20]
    assert [one.segment.name.base_offset for one in in_sequence([piece(0, 9), lost(5)], None)] == [0]
    replaced = [piece(0, 9, 0, "A"), piece(0, 6, 1, "B"), lost(8)]
    assert [one.segment.name.base_offset for one in in_sequence(replaced, None)] == [0, 8]


def test_the_newer_epoch_wins() -> None:
    (found,) = in_sequence([piece(0, 9, 0, "A"), piece(0, 6, 1, "B")], None)
    assert found.segment.segment_id == "B" * 22
