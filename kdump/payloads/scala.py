"""The order of Scala's hash tables, which the tools up to 4.1 print.

Source: scala.collection.mutable of 2.11 and 2.12 (HashTable, FlatHashTable: the tools up to 1.1) and of 2.13 (HashMap,
HashSet: the tools from 2.8 on).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from kdump.payloads.java import string_hash

_Key = TypeVar("_Key")
Partition = tuple[str, int]
"""Topic and number."""

_BUCKETS: Final = 16
_SET_BUCKETS_212: Final = 32
_MASK: Final = 0xFFFF_FFFF
_SMALL_SET: Final = 4
"""Elements up to which an immutable set is no hash table."""
_SWAP: Final = 0x9E3775CD


def map_order_213(keys: Iterable[str], *, asked_again: bool = False) -> list[str]:
    """The order of keys in a mutable.Map of Scala 2.13, into which ``put`` put them in this order.

    ``asked_again``: ``put`` was called for a key that was there, once all of them were. It may make the table larger.
    """
    distinct = list(dict.fromkeys(keys))
    capacity = _BUCKETS
    while len(distinct) + asked_again >= capacity * 3 // 4:
        capacity *= 2
    return _order_213(distinct, string_hash, capacity)


def set_order_213(added: Iterable[list[Partition]]) -> list[Partition]:
    """The order of partitions in a mutable.Set of Scala 2.13. Each list was added at once, as an immutable set."""
    found: dict[Partition, None] = {}
    capacity = _BUCKETS
    for partitions in map(_distinct, added):
        # The table is made large enough for the new ones alone; only the elements of a small set are counted then.
        while capacity < (len(partitions) + 1) * 4 // 3:
            capacity *= 2
        for partition in partitions:
            if len(partitions) <= _SMALL_SET and len(found) + 1 >= capacity * 3 // 4:
                capacity *= 2
            found[partition] = None
    return _order_213(list(found), partition_hash, capacity)


def _order_213(values: list[_Key], hash_of: Callable[[_Key], int], capacity: int) -> list[_Key]:
    def place(value: _Key) -> tuple[int, int]:
        code = hash_of(value) & _MASK
        spread = code ^ code >> 16
        # In a bucket the least comes first, as signed numbers.
        return spread & capacity - 1, spread - (spread >> 31 << 32)

    return sorted(values, key=place)


def map_order_212(keys: Iterable[str]) -> list[str]:
    """The order of keys in a mutable.HashMap of Scala 2.11 or 2.12, into which ``put`` put them in this order.

    It goes from the last bucket to the first. In a bucket the newest comes first, and moving to a larger table turns
    the order of those that stay together.
    """
    table: list[list[str]] = [[] for _ in range(_BUCKETS)]
    for size, key in enumerate(dict.fromkeys(keys), 1):
        table[_bucket_212(string_hash(key), len(table), _BUCKETS)].insert(0, key)
        if size > len(table) * 3 // 4:
            larger: list[list[str]] = [[] for _ in range(2 * len(table))]
            for chain in reversed(table):
                for moved in chain:
                    larger[_bucket_212(string_hash(moved), len(larger), _BUCKETS)].insert(0, moved)
            table = larger
    return [key for chain in reversed(table) for key in chain]


def set_order_212(added: Iterable[list[Partition]]) -> list[Partition]:
    """The order of partitions in a mutable.Set of Scala 2.12. Each list was added at once, as an immutable set."""
    table: list[Partition | None] = [None] * _SET_BUCKETS_212
    values = [value for partitions in added for value in _immutable_order_212(_distinct(partitions))]
    for size, value in enumerate(_distinct(values), 1):
        _place_212(table, value)
        if size >= len(table) * 450 // 1000:
            larger: list[Partition | None] = [None] * (2 * len(table))
            for moved in table:
                if moved is not None:
                    _place_212(larger, moved)
            table = larger
    return [value for value in table if value is not None]


def _immutable_order_212(partitions: list[Partition]) -> list[Partition]:
    """The order of an immutable.Set: of a large one five bits of the improved hash after the other decide."""
    if len(partitions) <= _SMALL_SET:
        return partitions

    def bits(partition: Partition) -> list[int]:
        code = partition_hash(partition)
        code = code + ~(code << 9) & _MASK
        code ^= code >> 14
        code = code + (code << 4) & _MASK
        code ^= code >> 10
        return [code >> shift & 31 for shift in range(0, 32, 5)]

    return sorted(partitions, key=bits)


def _distinct(values: list[Partition]) -> list[Partition]:
    return list(dict.fromkeys(values))


def _place_212(table: list[Partition | None], value: Partition) -> None:
    bucket = _bucket_212(partition_hash(value), len(table), len(table))
    while table[bucket] is not None:
        bucket = (bucket + 1) % len(table)
    table[bucket] = value


def _bucket_212(code: int, capacity: int, seed: int) -> int:
    """The upper bits of the improved hash; ``capacity`` and ``seed`` are powers of two.

    ``seed``: the capacity that decides how far the hash is rotated. A set takes its own, a map the one it began with.
    """
    bits = seed.bit_length() - 1
    mixed = code * _SWAP & _MASK
    mixed = int.from_bytes(mixed.to_bytes(4, "big"), "little") * _SWAP & _MASK
    rotated = (mixed >> bits | mixed << 32 - bits) & _MASK
    return rotated >> 33 - capacity.bit_length()


def partition_hash(partition: Partition) -> int:
    """``TopicPartition.hashCode()`` of (topic, number)."""
    topic, number = partition
    return (31 * (31 + number) + string_hash(topic)) & _MASK
