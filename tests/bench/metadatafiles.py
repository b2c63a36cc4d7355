"""Metadata logs of a cluster with as many things of one kind as fit, as files of ``hostilefiles``.

The records are written by hand: there are millions of them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain, count, cycle, repeat
from pathlib import Path
from typing import Final, TypeAlias

from tests.bench.hostile import ZSTD, batch, compressed, record

_PARTITION: Final = "__cluster_metadata-0"
_LOG: Final = f"{0:020d}.log"
_BATCH: Final = 1 << 16
"""Bytes of the records of a batch, where there are many batches."""
_TAGS: Final = b"\0"
_NONE: Final = b"\1"
"""An array or bytes of length 0."""
_LEVEL: Final = 27
"""A metadata.version that can write all of it."""

Values: TypeAlias = Iterator[bytes]


def _head(kind: int, version: int = 0) -> bytes:
    return bytes((1, kind, version))


def _varint(value: int) -> bytes:
    made = bytearray()
    while value >= 0x80:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*made, value))


def _text(text: str) -> bytes:
    data = text.encode()
    return _varint(len(data) + 1) + data


def _id(number: int) -> bytes:
    return struct.pack(">qq", 1, number + 1)


def _ints(*values: int) -> bytes:
    return _varint(len(values) + 1) + struct.pack(f">{len(values)}i", *values)


def _feature(name: str, level: int) -> bytes:
    return _head(12) + _text(name) + struct.pack(">h", level) + _TAGS


def _topic(number: int) -> bytes:
    return _head(2) + _text(f"t{number}") + _id(number) + _TAGS


def _small_partition(topic: int, number: int) -> bytes:
    epochs = struct.pack(">iii", -1, 0, 0)
    return _head(3) + struct.pack(">i", number) + _id(topic) + _NONE * 4 + epochs + _TAGS


def _partition_with_elr(topic: int, number: int) -> bytes:
    elr = _ints(2)
    tags = b"\1\1" + _varint(len(elr)) + elr
    epochs = struct.pack(">iii", -1, 0, 0)
    return _head(3, 2) + struct.pack(">i", number) + _id(topic) + _NONE * 4 + epochs + _NONE + tags


def _clearing(topic: str) -> bytes:
    return _head(28) + _text(topic) + _TAGS


def _whole_partition(topic: int, number: int) -> bytes:
    replicas = _ints(1, 2, 3)
    rest = struct.pack(">iii", 1, number, number) + b"\4" + _id(number) + _id(number + 1) + _id(number + 2) + _TAGS
    return _head(3, 2) + struct.pack(">i", number) + _id(topic) + replicas * 2 + _NONE * 2 + rest


def _change(topic: int, number: int) -> bytes:
    return _head(5) + struct.pack(">i", number) + _id(topic) + b"\1\1\4" + struct.pack(">i", 1)


def _assignment(topic: int, number: int, to: int) -> bytes:
    return _head(5, 1) + struct.pack(">i", number) + _id(topic) + b"\1\x08\x11\2" + _id(to)


def _removal(number: int) -> bytes:
    return _head(9) + _id(number) + _TAGS


def _acl(number: int) -> bytes:
    return _head(18) + _id(number) + b"\2" + _text(f"r{number}") + b"\3" + _text("p") + _text("h") + b"\3\3" + _TAGS


def _acl_removal(number: int) -> bytes:
    return _head(19) + _id(number) + _TAGS


def _quota(user: str, key: str) -> bytes:
    return _head(14) + b"\2" + _text("user") + _text(user) + _TAGS + _text(key) + struct.pack(">d?", 1, False) + _TAGS


def _scram(number: int) -> bytes:
    return _head(11) + _text(f"u{number}") + b"\1" + _NONE * 3 + struct.pack(">i", 4096) + _TAGS


def _scram_removal(number: int) -> bytes:
    return _head(22) + _text(f"u{number}") + b"\1" + _TAGS


def _producer_ids(following: int) -> bytes:
    return _head(15) + struct.pack(">iqq", 1, 1, following) + _TAGS


def _token(number: int) -> bytes:
    times = struct.pack(">qqq", 1, 2, 3)
    return _head(10) + _text(":") + _text(":") + _NONE + times + _text(f"k{number}") + _TAGS


def _broker(number: int, endpoints: int = 0) -> bytes:
    points = _varint(endpoints + 1) + b"".join(
        _text(f"{n}") + _NONE + struct.pack(">Hh", 1, 0) + _TAGS for n in range(endpoints)
    )
    return _head(0) + struct.pack(">i", number) + _id(number) + struct.pack(">q", 1) + points + _NONE + b"\0\0" + _TAGS


def _fence(number: int) -> bytes:
    return _head(7) + struct.pack(">iq", number, 1) + _TAGS


def _controller(number: int) -> bytes:
    return _head(27) + struct.pack(">i", number) + _id(number) + b"\0" + _NONE * 2 + _TAGS


def _config(resource: str, name: str) -> bytes:
    return _head(4) + b"\2" + _text(resource) + _text(name) + _text("v") + _TAGS


_BEGIN: Final = _head(23) + _TAGS


def _all(of: Callable[[int], bytes]) -> Callable[[], Values]:
    return lambda: map(of, count())


def _after(*first: bytes, then: Callable[[int], bytes]) -> Callable[[], Values]:
    return lambda: chain(first, map(then, count()))


def _half(first: Callable[[int], bytes], then: Callable[[int], bytes]) -> Callable[[], Values]:
    """As many of one kind as of another after it, of which twice as many do not fit."""
    return lambda: chain(map(first, range(1 << 20)), map(then, range(1 << 20)))


KINDS: Final[dict[str, Callable[[], Values]]] = {
    "partitions-of-one": _after(_topic(0), then=partial(_small_partition, 0)),
    "whole-partitions": _after(_topic(0), then=partial(_whole_partition, 0)),
    "topics-with-one": lambda: (value for n in count() for value in (_topic(n), _small_partition(n, 0))),
    "changes": _after(_topic(0), _small_partition(0, 0), then=lambda n: _change(0, 0)),
    "assignments": lambda: chain(
        (_topic(0),),
        (
            _head(3, 1)
            + struct.pack(">i", n)
            + _id(0)
            + _ints(1)
            + _NONE * 3
            + struct.pack(">iii", 1, 0, 0)
            + b"\2"
            + _id(n)
            + _TAGS
            for n in range(1 << 19)
        ),
        (_assignment(0, n, n + 9) for n in range(1 << 19)),
    ),
    "elr": lambda: (value for n in count() for value in (_topic(n), _partition_with_elr(n, 0))),
    "elr-of-one": _after(_topic(0), then=partial(_partition_with_elr, 0)),
    "clearings": lambda: chain(
        (value for n in range(1 << 18) for value in (_topic(n), _partition_with_elr(n, 0))),
        map(_clearing, repeat("")),
    ),
    "clearings-of-one": lambda: chain(
        (_topic(0),),
        (_partition_with_elr(0, n) for n in range(1 << 18)),
        map(_clearing, cycle(("t0", ""))),
    ),
    "unknown-changes": _all(lambda n: _change(n, 0)),
    "unknown-partitions": _all(lambda n: _small_partition(0, n)),
    "removals": _half(_topic, _removal),
    "unknown-removals": _all(_removal),
    "same-names": _all(lambda n: _head(2) + _text("t") + _id(n) + _TAGS),
    "acls": _all(_acl),
    "acl-removals": _half(_acl, _acl_removal),
    "unknown-acls": _all(_acl_removal),
    "quotas": _all(lambda n: _quota(f"u{n}", "k")),
    "quotas-of-one": _all(lambda n: _quota("u", f"k{n}")),
    "scram": _all(_scram),
    "unknown-scram": _all(_scram_removal),
    "producer-ids": _all(_producer_ids),
    "same-producer-ids": _all(lambda n: _producer_ids(1)),
    "tokens": _all(_token),
    "unknown-tokens": _all(lambda n: _head(26) + _text(f"k{n}") + _TAGS),
    "features": _all(lambda n: _feature(f"f{n}", 1)),
    "brokers": _all(_broker),
    "endpoints": lambda: map(partial(_broker, endpoints=100_000), count()),
    "fences": _all(_fence),
    "controllers": _all(_controller),
    "configs": _all(lambda n: _config(f"t{n}", "n")),
    "configs-of-one": _all(lambda n: _config("t", f"n{n}")),
    "transaction": _after(_BEGIN, then=_topic),
    "scram-transaction": _after(_BEGIN, then=_scram),
    "no-ops": _all(lambda n: _head(20) + _TAGS),
}
"""The values of the records of each."""


def write(values: Callable[[], Values], form: str, folder: Path, size: int) -> None:
    """A metadata log with so many bytes of records.

    Args:
        values: of the records.
        form: ``log`` of one batch, log of many ``batches``, or ``snapshot`` of one batch.
        folder: the log directory.
        size: bytes.
    """
    from tests.oracle.crafting import Fields, Header, batch_of

    partition = folder / _PARTITION
    partition.mkdir()
    left = chain((_feature("metadata.version", _LEVEL),), values())
    first = 0
    data = bytearray()
    name = _LOG
    if form == "snapshot":
        name = f"{9:020d}-{1:010d}.checkpoint"
        head = Fields(key=struct.pack(">hh", 0, 3), value=struct.pack(">hq", 0, 1) + b"\0")
        data += batch_of([head], Header(0, attributes=0x20))
        first = 1
    total = 0
    while total < size:
        body, number = bytearray(), 0
        most = min(size - total, _BATCH if form == "batches" else size)
        for number, value in enumerate(left):
            body += record(number, None, value)
            if len(body) > most - 64 - len(value):
                break
        else:
            total = size
        if not body:
            break
        total += len(body) + 64
        made = bytearray(batch(compressed("zstd", bytes(body)), number + 1, ZSTD))
        made[:8] = struct.pack(">q", first)
        first += number + 1
        data += made
    (partition / name).write_bytes(data)


FORMS: Final = ("log", "batches", "snapshot")
