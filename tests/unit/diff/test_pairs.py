"""Two copies by their offsets: stretches of what both hold, and intervals that are cut where others begin."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kdump.diff import pairs
from kdump.diff.contents import CopyContents, DiffOptions
from kdump.diff.pairs import MISSING, CopyPair, Held, Intervals
from kdump.diff.table import are_same
from tests.harness.replicas import MadeBatch, loaded, make_copy


def intervals(*known: tuple[int, int, int]) -> Intervals:
    first, last, label = (np.array(column, np.int64) for column in zip(*known, strict=True))
    return Intervals.of(first, last, label)


def test_neighbours_are_joined() -> None:
    found = intervals((0, 4, 1), (5, 5, 1), (9, 9, 1), (10, 12, 0), (20, 20, 1)).stretches()
    assert [tuple(one) for one in found] == [(1, 0, 9, 7), (0, 10, 12, 3), (1, 20, 20, 1)]
    assert list(Intervals.joined([]).stretches()) == []


def test_restriction() -> None:
    """A label stays within the other intervals, and batches are cut there."""
    known = intervals((0, 9, MISSING), (10, 14, 0), (15, 15, MISSING), (20, 29, MISSING))
    for first, last, kept in (
        ([], [], []),
        ([3, 15], [5, 21], [(3, 5), (15, 15), (20, 21)]),
        ([0], [29], [(0, 9), (15, 15), (20, 29)]),
        ([0, 5, 25], [0, 5, 40], [(0, 0), (5, 5), (25, 29)]),
    ):
        found = known.restricted(np.array(first, np.int64), np.array(last, np.int64), MISSING)
        assert list(zip(*(column.tolist() for column in found.where(MISSING)), strict=True)) == kept
        assert int(found.count.sum()) == int(known.count.sum())


def pair(tmp_path: Path, ours: list[MadeBatch], theirs: list[MadeBatch]) -> CopyPair:
    copies = [make_copy(tmp_path / name / "t-0", [batches]) for name, batches in (("a", ours), ("b", theirs))]
    first, second = (CopyContents(loaded(copy), DiffOptions()) for copy in copies)
    return CopyPair(first, second)


def test_rows_are_compared_some_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    batches = [MadeBatch(5 * number) for number in range(9)]
    other = [*batches[:4], MadeBatch(20, value=b"x"), *batches[5:]]
    whole = pair(tmp_path / "whole", batches, other).matches
    seen: list[int] = []
    monkeypatch.setattr(pairs, "_ROWS_AT_ONCE", 2)
    monkeypatch.setattr(pairs, "are_same", lambda left, right: (seen.append(left.size), are_same(left, right))[1])
    parts = pair(tmp_path / "parts", batches, other).matches
    assert [part.tolist() for part in parts] == [side.tolist() for side in whole] == [[0, 1, 2, 3, 5, 6, 7, 8]] * 2
    assert seen == [2, 2, 2, 2, 1]


def test_what_two_copies_hold(tmp_path: Path) -> None:
    ours = [MadeBatch(0), MadeBatch(5), MadeBatch(10), MadeBatch(15), MadeBatch(20), MadeBatch(30)]
    theirs = [MadeBatch(0), MadeBatch(5, epoch=2), MadeBatch(10, value=b"x"), MadeBatch(20, 2), MadeBatch(30)]
    found = pair(tmp_path, ours, theirs)
    assert not found.are_equal(0, 40)
    assert found.are_equal(0, 5)
    assert found.are_equal(30, 35)
    never: Any = SimpleNamespace(may_be_cleaned=False)
    for cleaned in (None, (never, never)):
        held = [(Held(label), first, last) for label, first, last, _ in found.held(0, 40, cleaned).stretches()]
        assert held == [
            (Held.SAME_BATCH, 0, 4),
            (Held.OTHER_EPOCH, 5, 9),
            (Held.OTHER_RECORD, 10, 14),
            (Held.ONLY_FIRST, 15, 19),
            (Held.SAME_RECORD, 20, 21),
            (Held.ONLY_FIRST, 22, 24),
            (Held.SAME_BATCH, 30, 34),
        ]


def test_what_the_other_has_not(tmp_path: Path) -> None:
    """The leader epoch is no part of a record."""
    ours = [MadeBatch(0), MadeBatch(5), MadeBatch(10), MadeBatch(15)]
    found = pair(tmp_path, ours, [MadeBatch(0), MadeBatch(5, epoch=2), MadeBatch(10, value=b"x")])
    missing = [(first, last) for label, first, last, _ in found.missing(None).stretches() if label == MISSING]
    assert missing == [(10, 19)]
    assert [one.first for one in found.missing(12).stretches() if one.held == MISSING] == [12]
    assert CopyPair(found.second, found.first).missing(15).first.size == 0


def test_an_empty_copy(tmp_path: Path) -> None:
    found = pair(tmp_path, [MadeBatch(0)], [MadeBatch(0)])
    (tmp_path / "c" / "t-0").mkdir(parents=True)
    empty = CopyContents(loaded(tmp_path / "c" / "t-0"), DiffOptions())
    assert [one.held for one in CopyPair(found.first, empty).missing(None).stretches()] == [MISSING]
    assert CopyPair(empty, found.first).missing(None).first.size == 0


def test_records_in_disorder_do_not_hide_others(tmp_path: Path) -> None:
    """Records at offsets that their batch does not claim, or that another one has, are what one copy alone has."""
    ours = [MadeBatch(0), MadeBatch(3), MadeBatch(10, header={"last_offset_delta": 2}), MadeBatch(20)]
    theirs = [MadeBatch(0, value=b"x"), MadeBatch(10, value=b"x"), MadeBatch(20, value=b"x")]
    found = pair(tmp_path, ours, theirs)
    # The second time the records that were kept are taken.
    for _ in range(2):
        told = sorted((one.held, one.first, one.last, one.records) for one in found.held(0, 40).stretches())
        assert told == [
            (Held.OTHER_RECORD, 0, 4, 5),
            (Held.OTHER_RECORD, 10, 12, 3),
            (Held.OTHER_RECORD, 20, 24, 5),
            (Held.ONLY_FIRST, 3, 7, 5),
            (Held.ONLY_FIRST, 13, 14, 2),
            (Held.ONLY_SECOND, 13, 14, 2),
        ]
