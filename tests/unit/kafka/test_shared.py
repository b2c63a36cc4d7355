"""Collections whose copies share what they have in common."""

from __future__ import annotations

from heapq import heappop, heappush
from random import Random

import pytest

from kdump.kafka.shared import SharedHeap, SharedMap


def size_of(made: list[SharedMap[int, int]] | list[SharedHeap[int]]) -> int:
    """How many members the layers hold that these collections consist of."""
    layers = {id(layer): len(layer) for one in made for layer in one._layers}
    return sum(layers.values())


@pytest.mark.parametrize("seed", range(50))
def test_copies_are_dictionaries(seed: int) -> None:
    """Changed at random, beside dictionaries that are changed in the same way."""
    chance = Random(seed)
    pairs: list[tuple[SharedMap[int, int], dict[int, int]]] = [(SharedMap(), {})]
    for _ in range(400):
        shared, plain = chance.choice(pairs)
        key, value = chance.randrange(40), chance.randrange(1000)
        match chance.randrange(6):
            case 0:
                pairs.append((shared.copy(), dict(plain)))
            case 1:
                assert shared.pop(key, None) == plain.pop(key, None)
            case _:
                shared[key] = plain[key] = value
    assert len(pairs) > 20
    for shared, plain in pairs:
        assert dict(shared) == plain
        assert len(shared) == len(plain)
        assert [shared.get(key) for key in range(40)] == [plain.get(key) for key in range(40)]


def test_what_is_not_there() -> None:
    shared: SharedMap[int, int] = SharedMap()
    shared[1] = 2
    copied = shared.copy()
    del copied[1]
    with pytest.raises(KeyError):
        copied[1]
    with pytest.raises(KeyError):
        del copied[1]
    assert shared[1] == 2


def test_keys_come_in_the_order_in_which_they_were_put_in() -> None:
    shared: SharedMap[int, int] = SharedMap()
    for key in (5, 3, 9, 1):
        shared[key] = 0
        shared = shared.copy()
    shared[3] = 1
    assert list(shared) == [5, 3, 9, 1]


@pytest.mark.parametrize("is_removed", [False, True])
def test_copies_take_as_much_as_the_changes(is_removed: bool) -> None:
    """A plan of 200 segments held 4,000 producers in each of them."""
    many, copies = 4000, 200
    shared: SharedMap[int, int] = SharedMap()
    for key in range(many):
        shared[key] = 0
    kept = []
    for key in range(copies):
        kept.append(shared.copy())
        if is_removed:
            del shared[key]
        else:
            shared[many + key] = 0
    assert [len(one) for one in kept] == [many - key if is_removed else many + key for key in range(copies)]
    assert many < size_of(kept) < many + copies * 10


def test_many_changes_are_found_as_fast_as_few() -> None:
    """A key is looked for in few layers."""
    shared: SharedMap[int, int] = SharedMap()
    for key in range(5000):
        shared[key] = 0
        shared = shared.copy()
    assert len(shared._layers) < 15
    assert len(shared) == 5000


@pytest.mark.parametrize("seed", range(50))
def test_copies_are_heaps(seed: int) -> None:
    """Changed at random, beside heaps that are changed in the same way."""
    chance = Random(seed)
    pairs: list[tuple[SharedHeap[int], list[int]]] = [(SharedHeap(), [])]
    for _ in range(600):
        shared, plain = chance.choice(pairs)
        match chance.randrange(8):
            case 0:
                pairs.append((shared.copy(), plain.copy()))
            case 1 | 2 if plain:
                assert shared.pop() == heappop(plain)
            case _:
                item = chance.randrange(60)
                shared.push(item)
                heappush(plain, item)
    assert len(pairs) > 20
    for shared, plain in pairs:
        assert [shared.pop() for _ in plain] == [heappop(plain) for _ in plain.copy()]
        assert shared.least is None
        with pytest.raises(IndexError):
            shared.pop()


@pytest.mark.parametrize("pops", [0, 1])
def test_copies_of_a_heap_take_as_much_as_the_changes(pops: int) -> None:
    many, copies = 4000, 200
    shared: SharedHeap[int] = SharedHeap()
    for item in range(many):
        shared.push(item)
    kept = []
    for item in range(copies):
        kept.append(shared.copy())
        shared.push(many + item)
        if pops:
            assert shared.pop() == item
    assert many < size_of(kept) < many + copies * 10
    assert kept[0].least == 0
