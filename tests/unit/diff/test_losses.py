"""What followers lose: every pair of the real copies, and three copies of which one has what the others lose."""

from __future__ import annotations

from pathlib import Path

import pytest

from kdump.diff.comparison import Comparison, DifferenceKind
from kdump.diff.contents import DiffOptions
from kdump.diff.losses import CopyTruncation, recommended, truncations
from tests.harness.replicas import MadeBatch, Truth, loaded, make_copy


@pytest.mark.slow
def test_every_pair_of_real_copies(replicas: Truth) -> None:
    wrong = []
    for line in replicas.lines:
        found = next(truncations(replicas.comparison(line)))
        lost = (found.truncation_offset, found.records_lost, [list(one) for one in found.lost_ranges])
        if lost != (line["truncationOffset"], line["recordsLost"], line["recordsLostRanges"]):
            wrong.append((line["id"], lost))
    assert not wrong


def comparison(*copies: Path) -> Comparison:
    return Comparison([loaded(copy) for copy in copies], DiffOptions())


def pair(found: list[CopyTruncation], leader: int, follower: int) -> CopyTruncation:
    return next(one for one in found if (one.leader, one.follower) == (leader, follower))


def row(*bases: int, epoch: int = 0) -> list[MadeBatch]:
    return [MadeBatch(base, epoch=epoch) for base in bases]


def test_what_is_nowhere_else(tmp_path: Path) -> None:
    ours = make_copy(tmp_path / "a" / "t-0", [[*row(0), *row(5, 10, epoch=1)]], epochs=[(0, 0), (1, 5)])
    part = make_copy(tmp_path / "b" / "t-0", [[*row(0), *row(5, epoch=1)]], epochs=[(0, 0), (1, 5)])
    other = make_copy(tmp_path / "c" / "t-0", [[*row(0), MadeBatch(5, 3, epoch=2)]], epochs=[(0, 0), (2, 5)])
    compared = comparison(ours, part, other)
    found = list(truncations(compared))
    lost = pair(found, 2, 0)
    assert (lost.truncation_offset, lost.records_lost, lost.lost_ranges) == (5, 7, ((8, 14),))
    assert (lost.nowhere_else, lost.nowhere_else_ranges) == (5, ((10, 14),))
    assert pair(found, 0, 1).truncation_offset == 10
    best = recommended(compared, compared.differences(), found)
    assert best is not None
    assert (best.copy, best.records_lost, best.nowhere_else, best.troubled) == (0, 0, 0, 0)


def test_a_damaged_copy_is_not_recommended(tmp_path: Path) -> None:
    whole = make_copy(tmp_path / "a" / "t-0", [row(0, 5, 10)])
    damaged = make_copy(tmp_path / "b" / "t-0", [row(0, 5, 10)])
    path = damaged / f"{0:020}.log"
    data = bytearray(path.read_bytes())
    data[70] ^= 1
    path.write_bytes(data)
    for copies, best in (((whole, damaged), 0), ((damaged, whole), 1)):
        compared = comparison(*copies)
        found = recommended(compared, compared.differences(), list(truncations(compared)))
        assert found is not None
        assert found.copy == best


def test_a_copy_that_cannot_be_loaded_fails(tmp_path: Path) -> None:
    whole = make_copy(tmp_path / "a" / "t-0", [row(0, 5)])
    other = make_copy(tmp_path / "b" / "t-0", [row(0)])
    (other / "leader-epoch-checkpoint").write_text("7\n0\n")
    found = list(truncations(comparison(whole, other)))
    assert [(one.fails, one.records_lost) for one in found] == [(True, 0), (True, 0)]


def test_no_pairs_of_segments_or_of_other_content(tmp_path: Path) -> None:
    whole = make_copy(tmp_path / "a" / "t-0", [row(0, 5)])
    segment = whole / f"{0:020}.log"
    assert not list(truncations(comparison(whole, segment)))
    content = Comparison([loaded(whole), loaded(whole)], DiffOptions(only_content=True))
    assert not list(truncations(content))
    assert recommended(content, [], []) is None


def test_the_copy_that_most_others_agree_with(tmp_path: Path) -> None:
    """Nobody loses a record, whichever leads: a record of one copy was changed, with a right CRC."""
    changed = make_copy(tmp_path / "a" / "t-0", [[*row(0), MadeBatch(5, value=b"other")]])
    copies = [make_copy(tmp_path / name / "t-0", [row(0, 5)]) for name in "bc"]
    for order, best in (((changed, *copies), 1), ((*copies, changed), 0)):
        compared = comparison(*order)
        differences = compared.differences()
        odd = order.index(changed)
        (record,) = [one for one in differences if one.kind is DifferenceKind.RECORD]
        assert record.sides == ((odd,), tuple(number for number in range(3) if number != odd))
        found = recommended(compared, differences, list(truncations(compared)))
        assert found is not None
        assert (found.copy, found.faults) == (best, 0)


def test_the_longest_copy_is_recommended_with_its_faults(tmp_path: Path) -> None:
    damaged = make_copy(tmp_path / "a" / "t-0", [row(0, 5, 10)])
    path = damaged / f"{0:020}.log"
    data = bytearray(path.read_bytes())
    data[70] ^= 1
    path.write_bytes(data)
    # With an .index a start after a clean stop does not read the log.
    path.with_suffix(".index").touch()
    short = make_copy(tmp_path / "b" / "t-0", [row(0, 5)])
    compared = comparison(damaged, short)
    found = recommended(compared, compared.differences(), list(truncations(compared)))
    assert found is not None
    assert (found.copy, found.faults) == (0, 1)


def test_copies_of_different_topics_cannot_follow_each_other(tmp_path: Path) -> None:
    ours = make_copy(tmp_path / "a" / "t-0", [row(0, 5)])
    other = make_copy(tmp_path / "b" / "t-0", [row(0)], topic_id="B5THfWO6RnCFvJyvQ0gEvg")
    for copies, is_refused in (((ours, other), True), ((ours, ours), False)):
        compared = comparison(*copies)
        found = list(truncations(compared))
        assert {one.is_refused for one in found} == {is_refused}
        assert (recommended(compared, compared.differences(), found) is None) == is_refused
