"""Random logs of idempotent and transactional producers, sound but for what a careless hand would write.

Every log is a sequence of batches of magic 2 with right CRCs: data of several producers, transactions, markers that
end them or nothing, epochs that rise or fall, and now and then a marker that is no marker.
"""

from __future__ import annotations

import struct
from dataclasses import replace
from random import Random
from typing import Final

from tests.oracle.containers import CONTAINERS
from tests.oracle.crafting import Fields, Header, batch_of, control_record, pack_batch

TRANSACTIONAL, CONTROL = 0x10, 0x20

_SNAPSHOT_ENTRY = struct.Struct(">qhiqiqiq")
_ODD_VALUES: Final = (None, b"", b"\0", bytes(2), bytes(5), b"\xff\xff" + bytes(4), b"\0\7" + bytes(4), bytes(9))


def producer_log(random: Random, base_offset: int, batches: int, *, now: int, flaws: float) -> bytes:
    """A log of ``batches`` batches from ``base_offset`` on; ``flaws``: how likely each is one to stumble over."""
    producers = [random.choice((number, random.getrandbits(40), random.getrandbits(63))) for number in range(6)]
    open_producers: set[int] = set()
    offset = base_offset
    parts = []
    for _ in range(batches):
        producer = random.choice(producers)
        header = Header(
            base_offset=offset,
            partition_leader_epoch=random.choice((-1, 0, 0, 0, offset // 50)),
            magic=random.choice((2, 2, 2, 2, 2, 3, 127)),
            base_timestamp=now + random.randrange(-5000, 5000),
            max_timestamp=random.choice((-1, now + random.randrange(-5000, 5000))),
            producer_id=random.choice((-1, producer, producer, producer)),
            producer_epoch=random.choice((0, 0, 0, 0, 1)),
            base_sequence=random.choice((0, 5, 2**31 - 2)),
        )
        is_marker = random.random() < 0.3
        if is_marker:
            open_producers.discard(producer)
            part = _marker(random, replace(header, producer_id=producer), flaws)
        else:
            is_transactional = producer in open_producers or random.random() < 0.3
            if random.random() < flaws:
                is_transactional = not is_transactional
            if is_transactional and header.producer_id >= 0:
                open_producers.add(producer)
            attributes = TRANSACTIONAL if is_transactional and header.producer_id >= 0 else 0
            value = random.randbytes(random.choice((5, 50, 2000)))
            records = [Fields(offset_delta=number, value=value) for number in range(random.randint(1, 4))]
            part = batch_of(records, replace(header, attributes=attributes))
        parts.append(part)
        if random.random() > flaws / 2:
            offset += random.choice((4, 4, 5, 40))
    return b"".join(parts)


def producer_snapshot(random: Random, *, now: int) -> list[bytes]:
    """Entries of a producer snapshot; no producer has expired at ``now`` (ms)."""
    ids = random.sample((*range(40), *(number << 32 for number in range(20))), random.randrange(1, 40))
    return [
        _SNAPSHOT_ENTRY.pack(
            producer_id,
            random.choice((0, 1)),
            random.choice((-1, 0, 77)),
            random.choice((-1, 40)),
            random.choice((0, 3)),
            now,
            random.choice((-1, 0, 4)),
            random.choice((-1, -1, first_offset)),
        )
        for first_offset, producer_id in enumerate(ids)
    ]


def _marker(random: Random, header: Header, flaws: float) -> bytes:
    header = replace(header, attributes=CONTROL | TRANSACTIONAL)
    control_type = random.randrange(2)
    value: bytes | None = struct.pack(">hi", 0, random.randrange(3))
    if random.random() > flaws:
        return batch_of([control_record(control_type, value)], header)
    kind = random.randrange(8)
    if kind == 0:
        return batch_of([control_record(random.choice((-1, 2, 6, 7)), value)], header)
    if kind == 1:
        return batch_of([control_record(control_type, random.choice(_ODD_VALUES))], header)
    if kind == 2:
        return batch_of([control_record(control_type, value, key_version=random.choice((-1, 3)))], header)
    if kind == 3:
        return batch_of([Fields(key=random.choice((None, b"", bytes(3))), value=value)], header)
    if kind == 4:
        return pack_batch(replace(header, record_count=random.choice((0, -1, 2))), b"")
    body = control_record(control_type, value).pack()
    if kind == 5:
        return pack_batch(replace(header, record_count=random.choice((-1, 1, 2))), body + random.choice((b"", b"\0")))
    if kind == 6:
        return pack_batch(header, random.choice((b"\xff" * 5 + body, b"\x80" * 4 + body, body[:-1], body[:1])))
    codec = random.randrange(8)
    packed = random.choice(CONTAINERS[codec])(body) if codec in CONTAINERS else body
    if random.random() < 0.3:
        packed = packed[: random.randrange(len(packed) + 1)]
    return pack_batch(replace(header, attributes=header.attributes | codec), packed)
