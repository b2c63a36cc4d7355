"""The model of a follower against real brokers (fixtures/cases/replicas.tar.zst), and rule by rule."""

from __future__ import annotations

import numpy as np
import pytest

from kdump.kafka.fetcher import FetchedBatches, FollowerOutcome, ReplicaLog, follow
from kdump.kafka.startup.textfiles import EpochCache
from tests.harness.replicas import Truth


@pytest.mark.slow
def test_every_pair_of_real_copies(replicas: Truth) -> None:
    wrong = []
    for line in replicas.lines:
        leader, follower = replicas.pair(line)
        outcome = follow(leader.replica, follower.replica)
        if outcome != FollowerOutcome(line["truncationOffset"], line["loops"], line["fails"]):
            wrong.append((line["id"], outcome))
    assert not wrong
    assert len(replicas.lines) > 1400
    assert {line["loops"] for line in replicas.lines} == {line["fails"] for line in replicas.lines} == {True, False}


def log(
    *batches: tuple[int, int, int],
    epochs: tuple[tuple[int, int], ...] = (),
    start: int = 0,
    end: int | None = None,
    high_watermark: int | None = None,
    damaged: tuple[int, ...] = (),
    breaks: tuple[int, ...] = (),
) -> ReplicaLog:
    """A log of batches (first offset, last offset, leader epoch) of 100 bytes in one segment."""
    first, last, epoch = (
        (np.array(column, np.int64) for column in zip(*batches, strict=True))
        if batches
        else (np.empty(0, np.int64),) * 3
    )
    count = len(batches)
    valid = np.array([number not in damaged for number in range(count)], np.bool_)
    size = np.full(count, 100, np.int64)
    fetched = FetchedBatches(first, last, epoch, size, np.zeros(count, np.int64), valid, [start], breaks)
    if end is None:
        end = int(last[-1]) + 1 if count else start
    return ReplicaLog(start, end, end if high_watermark is None else high_watermark, epochs, start, fetched)


SHORT = log((0, 9, 0), epochs=((0, 0),))
LONG = log((0, 9, 0), (10, 19, 0), epochs=((0, 0),))


def test_a_lagging_follower_keeps_all() -> None:
    assert follow(LONG, SHORT) == FollowerOutcome(10)


def test_a_lagging_leader_costs_the_rest() -> None:
    assert follow(SHORT, LONG) == FollowerOutcome(10)


def test_histories_that_parted() -> None:
    ours = log((0, 9, 0), (10, 19, 1), epochs=((0, 0), (1, 10)))
    theirs = log((0, 9, 0), (10, 24, 2), epochs=((0, 0), (2, 10)))
    assert follow(ours, theirs) == follow(theirs, ours) == FollowerOutcome(10)


def test_interleaved_epochs_are_walked_down() -> None:
    leader = log((0, 9, 0), (10, 14, 2), (15, 19, 4), epochs=((0, 0), (2, 10), (4, 15)))
    follower = log((0, 9, 0), (10, 12, 1), (13, 20, 3), epochs=((0, 0), (1, 10), (3, 13)))
    assert follow(leader, follower) == FollowerOutcome(10)


def test_a_walk_over_many_epochs_looks_at_each_a_few_times() -> None:
    """The follower drops one epoch in each round; each round went through all of its epochs."""
    looks = 0

    class CountedEpoch(tuple[int, int]):
        def __hash__(self) -> int:
            nonlocal looks
            looks += 1
            return super().__hash__()

        def __eq__(self, other: object) -> bool:
            nonlocal looks
            looks += 1
            return super().__eq__(other)

    count = 300
    even = [(2 * number, number) for number in range(count)]
    odd = [CountedEpoch((epoch + 1, offset)) for epoch, offset in even]
    ours = log(*((offset, offset, epoch) for epoch, offset in even), epochs=tuple(even))
    theirs = log(*((offset, offset, epoch) for epoch, offset in odd), epochs=tuple(odd))
    assert follow(ours, theirs) == FollowerOutcome(0)
    assert looks < 4 * count


def test_without_epochs_the_high_watermark_decides() -> None:
    follower = log((0, 9, 0), (10, 19, 0), high_watermark=10)
    assert follow(LONG, follower) == FollowerOutcome(10)


def test_a_follower_before_the_leaders_start_drops_everything() -> None:
    leader = log((30, 39, 1), epochs=((1, 30),), start=30)
    assert follow(leader, SHORT) == FollowerOutcome(None)


def test_a_leader_that_lost_an_epoch_makes_its_followers_loop() -> None:
    leader = log((0, 9, 0), (10, 19, 1), epochs=((0, 0),))
    assert follow(leader, SHORT).loops


def test_a_cut_inside_a_batch_fails() -> None:
    leader = log((0, 9, 0), (10, 19, 1), epochs=((0, 0), (1, 15)))
    follower = log((0, 9, 0), (10, 19, 2), epochs=((0, 0), (2, 15)))
    assert follow(leader, follower) == FollowerOutcome(15, fails=True)


def test_a_damaged_batch_is_fetched_for_ever() -> None:
    leader = log((0, 9, 0), (10, 19, 0), epochs=((0, 0),), damaged=(1,))
    assert follow(leader, SHORT) == FollowerOutcome(10, loops=True)
    broken = log((0, 9, 0), (10, 19, 0), epochs=((0, 0),), breaks=(0,))
    assert follow(broken, SHORT) == FollowerOutcome(10, loops=True)


def test_empty_logs() -> None:
    empty = log()
    assert follow(empty, empty) == FollowerOutcome(0)
    assert follow(LONG, empty) == FollowerOutcome(0)
    assert follow(empty, LONG).truncation_offset == 0


@pytest.mark.parametrize(
    ("epoch", "found"), [(0, (0, 10)), (1, (0, 10)), (2, (2, 20)), (3, (2, 20)), (4, (4, 30)), (5, None)]
)
def test_where_an_epoch_ends(epoch: int, found: tuple[int, int] | None) -> None:
    assert EpochCache([(0, 0), (2, 10), (4, 20)]).end_offset(epoch, 30) == found


def test_epoch_cache() -> None:
    cache = EpochCache([(2, 10), (4, 20)])
    assert cache.end_offset(1, 30) == (1, 10)
    cache.assign(5, 20)
    assert cache.entries == [(2, 10), (5, 20)]
    cache.cut_start(15)
    assert cache.entries == [(2, 15), (5, 20)]
    cache.cut_end(20)
    assert cache.entries == [(2, 15)]
    cache.cut_end(0)
    assert (cache.entries, cache.latest, cache.end_offset(0, 0)) == ([], -1, None)
