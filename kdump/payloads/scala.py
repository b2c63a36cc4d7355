"""The order of Scala's hash tables, which the tools up to 4.1 print.

Source: scala.collection.mutable of 2.11 and 2.12 (HashTable, FlatHashTable: the tools up to 1.1) and of 2.13 (HashMap,
HashSet: the tools from 2.8 on).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from kdump.payloads.java import string_hash

_Key = TypeVar("_Key")

_BUCKETS: Final = 16
_SET_BUCKETS_212: Final = 32
_MASK: Final = 0xFFFF_FFFF
_SWAP: Final = 0x9E3775CD


def map_order_213(keys: Iterable[str], *, asked_again: bool = False) -> list[str]:
    """The order of keys in a mutable.Map of Scala 2.13, into which ``put`` put them in this order.

    ``asked_again``: ``put`` was called for a key that was there, once all of them were. It may make the table larger.
    """
    distinct = list(dict.fromkeys(keys))
    return _order_213(distinct, string_hash, len(distinct) + asked_again)


def set_order_213(values: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
    """The order of partitions (topic, number) in a mutable.Set of Scala 2.13 to which they were added one by one."""
    distinct = list(dict.fromkeys(values))
    return _order_213(distinct, partition_hash, len(distinct))


def _order_213(values: list[_Key], hash_of: Callable[[_Key], int], puts: int) -> list[_Key]:
    capacity = _BUCKETS
    while puts >= capacity * 3 // 4:
        capacity *= 2

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
        table[_bucket_212(string_hash(key), len(table))].insert(0, key)
        if size > len(table) * 3 // 4:
            larger: list[list[str]] = [[] for _ in range(2 * len(table))]
            for chain in reversed(table):
                for moved in chain:
                    larger[_bucket_212(string_hash(moved), len(larger))].insert(0, moved)
            table = larger
    return [key for chain in reversed(table) for key in chain]


def set_order_212(values: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
    """The order of partitions (topic, number) in a mutable.Set of Scala 2.12 to which they were added one by one."""
    table: list[tuple[str, int] | None] = [None] * _SET_BUCKETS_212
    for size, value in enumerate(dict.fromkeys(values), 1):
        _place_212(table, value)
        if size >= len(table) * 450 // 1000:
            larger: list[tuple[str, int] | None] = [None] * (2 * len(table))
            for moved in table:
                if moved is not None:
                    _place_212(larger, moved)
            table = larger
    return [value for value in table if value is not None]


def _place_212(table: list[tuple[str, int] | None], value: tuple[str, int]) -> None:
    bucket = _bucket_212(partition_hash(value), len(table))
    while table[bucket] is not None:
        bucket = (bucket + 1) % len(table)
    table[bucket] = value


def _bucket_212(code: int, capacity: int) -> int:
    """The upper bits of the improved hash, ``capacity`` a power of two."""
    bits = capacity.bit_length() - 1
    mixed = code * _SWAP & _MASK
    mixed = int.from_bytes(mixed.to_bytes(4, "big"), "little") * _SWAP & _MASK
    rotated = (mixed >> bits | mixed << 32 - bits) & _MASK
    return rotated >> 32 - bits


def partition_hash(partition: tuple[str, int]) -> int:
    """``TopicPartition.hashCode()`` of (topic, number)."""
    topic, number = partition
    return (31 * (31 + number) + string_hash(topic)) & _MASK
