"""Figures of keys and sizes stay within their stated error, on uniform, skewed and adversarial keys and sizes."""

from __future__ import annotations

import pickle
from collections import Counter
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from kdump.fast.hashing import digest_ranges, hash_ranges
from kdump.stats.grouping import Assigned
from kdump.stats.keys import HeavyKey, KeySketches
from kdump.stats.sizes import QUANTILES, RELATIVE_ERROR, Sizes
from kdump.stats.timeline import LADDER, Timeline
from tests.harness.examples import examples

ONE = Assigned(np.array([0]), None)
SAME = np.array([0])
HEAVY_SHARE = 1 / 300
"""Of a key that is always listed (man kdump-stats, ACCURACY)."""

Keys = list[bytes]


def uniform(random: Random, count: int) -> Keys:
    return [b"user-%d" % random.randrange(count) for _ in range(count)]


def skewed(random: Random, count: int) -> Keys:
    return [b"%d" % int(random.paretovariate(0.7)) for _ in range(count)]


def counting(random: Random, count: int) -> Keys:
    """Numbers one after the other, as integers of 8 bytes."""
    return [number.to_bytes(8, "big") for number in range(count)]


def alike(random: Random, count: int) -> Keys:
    """Long ones that differ in one byte only, each at another place."""
    return [bytes(number % 300) + b"%d" % number + bytes(900 - number % 300) for number in range(count // 20)]


def late_flood(random: Random, count: int) -> Keys:
    """Different keys only, then one over and over."""
    return [*counting(random, count * 3 // 4), *[b"late"] * (count // 4)]


def interleaved(random: Random, count: int) -> Keys:
    """Many keys just too light to stand out, and one that does, never twice in a row."""
    return [b"heavy" if number % 50 == 0 else b"%d" % (number % 1500) for number in range(count)]


KINDS = [uniform, skewed, counting, alike, late_flood, interleaved]


def columns(keys: Keys) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]:
    size = np.array([len(key) for key in keys], np.int64)
    arena = np.frombuffer(b"".join(keys), np.uint8)
    return arena, np.cumsum(size) - size, size


def add(sketches: KeySketches, keys: Keys, weight: NDArray[np.int64], chunk: int) -> None:
    for first in range(0, len(keys), chunk):
        own = keys[first : first + chunk]
        sketches.add(ONE, *columns(own), weight[first : first + chunk])


@pytest.mark.parametrize("count", [1, 30, 2000])
def test_what_another_process_sends_is_the_same(count: int) -> None:
    """Also when more keys follow."""
    random, groups = Random(count), 12
    assigned = Assigned(np.arange(groups), np.array([number % groups for number in range(count)]))
    here, total = KeySketches(), KeySketches()
    there = KeySketches()
    for _ in range(3):
        keys = skewed(random, count)
        for sketches in (here, there):
            sketches.add(assigned, *columns(keys), np.full(count, 7))
        there = pickle.loads(pickle.dumps(there))
    total.merge(there, np.zeros(groups, np.int64))
    for group in range(groups):
        assert (here.distinct(group), here.heaviest(group, 9)) == (there.distinct(group), there.heaviest(group, 9))
    assert total.distinct(0).estimate >= max(here.distinct(group).estimate for group in range(groups))


def test_a_group_per_key() -> None:
    """Each group gives what it would give alone, and the groups together what all keys would give."""
    count = 1000
    keys = [b"%d" % (number % 7) * (1 if number % 2 else 99) for number in range(count)]
    weight, assigned = np.arange(count) % 5, Assigned(np.arange(count), np.arange(count))
    many, total, whole = KeySketches(), KeySketches(), KeySketches()
    for _ in range(2):
        many.add(assigned, *columns(keys), weight)
        whole.add(ONE, *columns(keys), weight)
    total.merge(pickle.loads(pickle.dumps(many)), np.zeros(count, np.int64))
    assert (total.distinct(0), total.heaviest(0, 9)) == (whole.distinct(0), whole.heaviest(0, 9))
    for group in range(count):
        own = [HeavyKey(keys[group][:128], len(keys[group]) > 128, 2 * (group % 5), 2 * (group % 5))]
        assert many.distinct(group) == (1, 1, 1)
        assert many.heaviest(group, 9) == own[: group % 5]


@pytest.mark.parametrize("count", [1, 900, 40_000])
@pytest.mark.parametrize("kind", KINDS)
def test_keys(kind: object, count: int) -> None:
    assert callable(kind)
    random = Random(count)
    keys: Keys = kind(random, count) or [b""]
    weight = np.array([random.randrange(1, 400) for _ in keys], np.int64)
    truth: Counter[bytes] = Counter()
    for key, own in zip(keys, weight.tolist(), strict=True):
        truth[key] += own
    standing_out = HEAVY_SHARE * truth.total()
    at_once, half, other = KeySketches(), KeySketches(), KeySketches()
    add(at_once, keys, weight, 5000)
    middle = len(keys) // 2
    add(half, keys[:middle], weight[:middle], 3000)
    add(other, keys[middle:], weight[middle:], 7000)
    other = pickle.loads(pickle.dumps(other))
    half.merge(other, SAME)
    for sketches in (at_once, half):
        distinct = sketches.distinct(0)
        assert distinct.least <= len(truth) <= distinct.most
        if len(truth) <= 8000:
            assert distinct.estimate == len(truth)
        heaviest = {heavy.key: heavy for heavy in sketches.heaviest(0, 10**6)}
        for key, heavy in heaviest.items():
            assert heavy.least <= truth[key] <= heavy.most or heavy.is_cut
        assert {key for key, total in truth.items() if total >= standing_out and len(key) <= 128} <= heaviest.keys()
    # A union is the same whatever was put together in which order.
    assert half.distinct(0) == at_once.distinct(0)


def test_few_keys_are_exact() -> None:
    keys = [b"a", b"b", b"a"]
    sketches = KeySketches()
    add(sketches, keys, np.array([10, 5, 7]), 10)
    assert [(heavy.key, heavy.least, heavy.most) for heavy in sketches.heaviest(0, 9)] == [(b"a", 17, 17), (b"b", 5, 5)]


@pytest.mark.parametrize("count", [8192, 8193])
def test_the_number_of_keys_is_exact_up_to_a_limit(count: int) -> None:
    sketches = KeySketches()
    for _ in range(2):
        add(sketches, counting(Random(0), count), np.ones(count, np.int64), 1000)
    found = sketches.distinct(0)
    assert (found.least == found.most == count) == (count == 8192)
    assert found.least <= count <= found.most
    assert found.most - found.least < count * 0.07


def test_the_bytes_of_many_keys_have_bounds() -> None:
    """Twice as many keys as are counted, each as heavy as the next, and one that stands out."""
    count = 12_000
    keys = [b"heavy" if number % 10 == 0 else b"%d" % number for number in range(count)]
    sketches = KeySketches()
    add(sketches, keys, np.full(count, 100), 1000)
    heavy = sketches.heaviest(0, 9)[0]
    assert heavy.key == b"heavy"
    assert heavy.least <= count // 10 * 100 <= heavy.most
    assert heavy.least < heavy.most


def test_long_keys_are_told_apart() -> None:
    keys = [b"x" * 200 + b"1", b"x" * 200 + b"2"]
    sketches = KeySketches()
    add(sketches, keys, np.array([3, 4]), 10)
    found = sketches.heaviest(0, 9)
    assert [(heavy.key, heavy.is_cut, heavy.least) for heavy in found] == [(b"x" * 128, True, 4), (b"x" * 128, True, 3)]


@given(st.lists(st.binary(max_size=40) | st.binary(min_size=1000, max_size=1100), min_size=1, max_size=30))
def test_hashes_tell_keys_apart_and_do_not_depend_on_their_place(keys: Keys) -> None:
    hashes = hash_ranges(*columns(keys))
    assert len(set(hashes.tolist())) == len(set(keys))
    arena, start, size = columns([b"before", *reversed(keys)])
    assert hash_ranges(arena, start, size)[1:].tolist() == hashes.tolist()[::-1]


SIZES = st.one_of(st.integers(-1, 300), st.integers(3900, 4300), st.integers(0, 2**31 - 1))


@given(st.lists(st.tuples(SIZES, st.integers(0, 3)), min_size=1, max_size=300), st.integers(1, 299))
def test_sizes(values: list[tuple[int, int]], cut: int) -> None:
    parts = []
    for part in (values[:cut], values[cut:]):
        sizes = Sizes()
        if part:
            column, groups = (np.array(column, np.int64) for column in zip(*part, strict=True))
            ids, index = np.unique(groups, return_inverse=True)
            sizes.add(Assigned(ids, index), column)
        parts.append(sizes)
    sizes, other = parts
    sizes.merge(other, np.arange(4))
    for group in range(4):
        own = sorted(value for value, of_group in values if of_group == group and value >= 0)
        summary = sizes.of(group)
        if not own:
            assert summary is None
            continue
        assert summary is not None
        assert (summary.count, summary.total, summary.least, summary.most) == (len(own), sum(own), own[0], own[-1])
        for quantile, found in zip(QUANTILES, summary.quantiles, strict=True):
            true = own[max(0, -(-int(quantile * 1000) * len(own) // 1000) - 1)]
            assert true <= found <= true * (1 + RELATIVE_ERROR)
        assert sum(count for _, count in sizes.histogram(group)) == len(own)


@given(st.lists(st.integers(0, 2**42 - 1), min_size=1, max_size=50), st.randoms(use_true_random=False))
@examples(30)
def test_a_timeline_does_not_depend_on_order(times: list[int], random: Random) -> None:
    """Nor do its steps, which grow with what there is: here many enough to need it."""
    base = [time + number * 9973 for time in times for number in range(80)]
    found = []
    for order in (base, random.sample(base, len(base))):
        timelines = []
        for first in range(0, len(order), 1111):
            column = np.array(order[first : first + 1111], np.int64)
            timelines.append(Timeline())
            timelines[-1].add_bytes(ONE, column, np.full(column.size, 10))
            timelines[-1].add_records(ONE, column, np.ones_like(column))
        whole = timelines.pop(random.randrange(len(timelines)))
        for timeline in timelines:
            whole.merge(timeline, SAME)
        found.append((whole.step, whole.of(0)))
    assert found[0] == found[1]
    step, steps = found[0]
    assert step in LADDER
    within = [time for time in base if time < 2**42]
    assert sum(moment.records for moment in steps) == len(within)
    assert sum(moment.size for moment in steps) == 10 * len(within)
    assert {moment.begin for moment in steps} == {time // step * step for time in within}


@given(st.lists(st.binary(max_size=40) | st.sampled_from([b"k" * 1023, b"k" * 1024, b"k" * 1025, b"k" * 3000])))
def test_digests_tell_ranges_apart(ranges: list[bytes]) -> None:
    size = np.array([len(each) for each in ranges], np.int64)
    arena = np.frombuffer(b"".join(ranges), np.uint8)
    high, low = digest_ranges(arena, np.cumsum(size) - size, size)
    found = dict(zip(zip(high.tolist(), low.tolist(), strict=True), ranges, strict=True))
    assert len(found) == len(set(ranges))
    assert not np.isin(high, low).any(), "the halves say different things"
