"""For every ordered pair of copies: where the second truncates when the first leads, and what it loses by that.

Source: docs/spec/replicas.md#3-where-a-follower-truncates.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import permutations
from typing import Final, NamedTuple

from kdump.diff.comparison import Comparison, CopyDifference, DifferenceKind
from kdump.diff.election import Election
from kdump.diff.pairs import MISSING, Intervals
from kdump.kafka.fetcher import FollowerOutcome, follow

_FAULTS: Final = frozenset({DifferenceKind.DAMAGE, DifferenceKind.GAP, DifferenceKind.HIGH_WATERMARK})
"""What speaks against a copy alone."""
OffsetRanges = tuple[tuple[int, int], ...]


class CopyTruncation(NamedTuple):
    """What becomes of one copy when another one leads; copies by their numbers.

    Attributes:
        leader: the copy that leads.
        follower: the other one.
        truncation_offset: the lowest offset that it truncates to, its log end offset if it keeps all, None if it drops
            everything.
        records_lost: how many of its records the leader has not; one for a batch that cannot be read.
        lost_ranges: their offsets, first and last.
        nowhere_else: how many of these no other copy has.
        nowhere_else_ranges: their offsets.
        loops: it truncates and fetches for ever.
        fails: it gives the partition up.
        is_refused: the copies are of different topics, so the leader would give the follower nothing: the rest is what
            would become of copies of one topic.
    """

    leader: int
    follower: int
    truncation_offset: int | None
    records_lost: int
    lost_ranges: OffsetRanges
    nowhere_else: int
    nowhere_else_ranges: OffsetRanges
    loops: bool
    fails: bool
    is_refused: bool


class Recommendation(NamedTuple):
    """The copy that keeps most as a leader; the sums are over all others."""

    copy: int
    records_lost: int
    nowhere_else: int
    troubled: int
    """How many of the others would loop or fail."""
    faults: int
    """How many findings are about this copy alone."""


class ExpectedLeader(NamedTuple):
    """Whom the cluster elects, and what the start of all nodes costs.

    Attributes:
        election: what the metadata says.
        copies: the number of the copy of each possible leader; None where no PATH holds it.
        records_lost: with the worst of these leaders, each record once however many copies lose it; None where one has
            no copy here.
        nowhere_else: how many of these no copy has that stays as it is.
        losers: copies that together hold all records that are nowhere else, how many each adds, and their offsets.
    """

    election: Election
    copies: tuple[int | None, ...]
    records_lost: int | None
    nowhere_else: int | None
    losers: tuple[tuple[int, int, OffsetRanges], ...]


def truncations(comparison: Comparison) -> Iterator[CopyTruncation]:
    """Of every ordered pair of copies that a broker may lead with and follow with.

    Raises:
        KdumpError: a log cannot be read.
    """
    if comparison.options.only_content:
        return
    copies = comparison.copies
    whole = [number for number, copy in enumerate(copies) if copy.place.settings is not None]
    for leader, follower in permutations(whole, 2):
        if copies[leader].failure is not None or copies[follower].failure is not None:
            outcome = FollowerOutcome(copies[follower].log_end, fails=True)
        else:
            outcome = follow(copies[leader].replica, copies[follower].replica)
        offset = outcome.truncation_offset
        end = outcome.loops, outcome.fails, not comparison.are_comparable(leader, follower)
        # After an .index that leads nowhere a log goes on beyond its end.
        reach = max(copies[follower].log_end, int(copies[follower].table.last.max(initial=-1)) + 1)
        if offset is not None and offset >= reach:
            yield CopyTruncation(leader, follower, offset, 0, (), 0, (), *end)
            continue
        alone = CopyTruncation(leader, follower, offset, 0, (), 0, (), *end)
        count, ranges = _counted(_only(comparison, alone, ()))
        only = _counted(_only(comparison, alone, range(len(copies)))) if count else (0, ())
        yield CopyTruncation(leader, follower, offset, count, ranges, *only, *end)


def recommended(
    comparison: Comparison, differences: Iterable[CopyDifference], found: Sequence[CopyTruncation]
) -> Recommendation | None:
    """The copy that should lead, as far as records count.

    None where there are no two to choose from, and where nobody can tell which of two topics is the current one.

    Of several that keep as much it is one without damage and gaps, whose records most of the others have too, with the
    latest leader epoch, then the longest.
    """
    if any(one.is_refused for one in found):
        return None
    known = list(differences)
    faults = Counter(number for one in known if one.kind in _FAULTS for number in one.copies)
    contradicted: Counter[int] = Counter()
    for one in known:
        if one.kind is DifferenceKind.RECORD:
            contradicted.update({number: len(one.copies) - len(side) for side in one.sides for number in side})
    candidates = {}
    for number in {one.leader for one in found}:
        copy = comparison.copies[number]
        if copy.place.is_future or copy.failure is not None:
            continue
        own = [one for one in found if one.leader == number]
        total = Recommendation(
            number,
            sum(one.records_lost for one in own),
            sum(one.nowhere_else for one in own),
            sum(one.loops or one.fails for one in own),
            faults[number],
        )
        latest = copy.epochs[-1][0] if copy.epochs else -1
        cost = total.nowhere_else, total.records_lost, total.troubled, total.faults, contradicted[number]
        candidates[*cost, -latest, -copy.log_end, number] = total
    return candidates[min(candidates)] if candidates else None


def expected_leader(comparison: Comparison, found: Sequence[CopyTruncation], election: Election) -> ExpectedLeader:
    """What the start of all nodes costs, with the worst of the leaders that the cluster may elect."""
    by_node = {
        copy.place.node_id: number
        for number, copy in enumerate(comparison.copies)
        if copy.place.topic_id in (None, election.topic_id) and not copy.place.is_future
    }
    of_nodes = {number for node, number in by_node.items() if node is not None}
    copies = tuple(by_node.get(node) for node in election.possible)
    if None in copies:
        return ExpectedLeader(election, copies, None, None, ())
    starts = [
        _costs(comparison, [one for one in found if one.leader == leader and one.follower in of_nodes], of_nodes)
        for leader in copies
    ]
    losers: dict[int, tuple[int, OffsetRanges]] = {}
    for _, own in starts:
        for number, count, ranges in own:
            losers[number] = max(losers.get(number, (0, ())), (count, ranges))
    return ExpectedLeader(
        election,
        copies,
        max((lost for lost, _ in starts), default=0),
        max((sum(count for _, count, _ in own) for _, own in starts), default=0),
        tuple((number, *lost) for number, lost in sorted(losers.items())),
    )


def _costs(
    comparison: Comparison, truncations: Sequence[CopyTruncation], started: Collection[int]
) -> tuple[int, list[tuple[int, int, OffsetRanges]]]:
    """What is lost where one copy leads, and the losers; see ExpectedLeader.

    The sum over the followers, those that lose the most first; what one before holds too counts there.

    ``started``: the copies that do not stay as they are.
    """
    kept = [number for number in range(len(comparison.copies)) if number not in started]
    before: list[int] = []
    lost = 0
    losers = []
    for one in sorted(truncations, key=lambda one: (-one.records_lost, one.follower)):
        if not one.records_lost:
            continue
        lost += _counted(_only(comparison, one, before))[0]
        count, ranges = _counted(_only(comparison, one, (*before, *kept)))
        if count:
            losers.append((one.follower, count, ranges))
        before.append(one.follower)
    return lost, losers


def _only(comparison: Comparison, truncation: CopyTruncation, others: Iterable[int]) -> Intervals:
    """What a follower loses and none of these others has."""
    offset = truncation.truncation_offset
    only = comparison.pair(truncation.follower, truncation.leader).missing(offset)
    for other in others:
        if other not in (truncation.leader, truncation.follower):
            only = only.restricted(*comparison.pair(truncation.follower, other).missing(offset).where(MISSING), MISSING)
    return only


def _counted(intervals: Intervals) -> tuple[int, OffsetRanges]:
    """How many records are missing, and at which offsets."""
    stretches = [stretch for stretch in intervals.stretches() if stretch.held == MISSING]
    return sum(stretch.records for stretch in stretches), tuple((one.first, one.last) for one in stretches)
