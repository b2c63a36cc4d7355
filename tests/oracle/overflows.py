"""Partition directories with segments whose offsets do not fit them, as a broker's start splits them.

Every batch has a timestamp. A part without any has an empty .timeindex. Where a second part has the same base offset,
the real broker then writes into a mapped file that it cut to 0 bytes, and the Java machine may crash.

Source: docs/spec/startup.md#rule-12-offsets-that-do-not-fit-a-segment.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

from tests.oracle.containers import GZIP, NONE, ZSTD
from tests.oracle.crafting import Fields, Header, batch_of, message, wrapper

_RANGE = 2**31


def write_overflowing(directory: Path, random: Random) -> None:
    """Write one to three segments; at least the first holds offsets that go far, come back or repeat."""
    directory.mkdir(parents=True)
    bases = sorted(random.sample((0, 5, 42, 84, 98, 112, _RANGE + 42), random.randint(1, 3)))
    for number, base in enumerate(bases):
        offsets = _jumping(base, random) if number == 0 or random.random() < 0.3 else _rising(base, random)
        data = b"".join(_entry(offset, random) for offset in offsets)
        log = directory / f"{base:020}.log"
        log.write_bytes(_damaged(data, random) if data and random.random() < 0.2 else data)
        _write_indexes(log, random)
    for base in random.sample(bases, random.randint(0, len(bases))):
        (directory / f"{base:020}.snapshot").write_bytes(bytes.fromhex("0001 62a7dca9 00000000"))
    if random.random() < 0.3:
        (directory / "leader-epoch-checkpoint").write_bytes(b"0\n1\n0 %d\n" % bases[0])


def _jumping(base: int, random: Random) -> list[int]:
    steps = (0, 0, 1, 5, 14, 28, 84, _RANGE - 1, _RANGE, _RANGE + 5, 2 * _RANGE + 5, 2**62)
    offsets = [base + random.choice(steps) for _ in range(random.randint(2, 6))]
    if random.random() < 0.3:
        offsets[0] = base
    if random.random() < 0.2:
        offsets[random.randrange(len(offsets))] = max(0, base - 3)
    if random.random() < 0.6:
        # Only a segment that ends beyond its range is split.
        offsets.append(base + random.choice((_RANGE, _RANGE + 5, _RANGE + 84, 2 * _RANGE + 5, 2**62)))
    return offsets


def _rising(base: int, random: Random) -> list[int]:
    return [base + 5 * number for number in range(random.randint(0, 4))]


def _entry(offset: int, random: Random) -> bytes:
    value = bytes(random.choice((3, 3, 3000, 5000)))
    timestamp = random.choice((7, 1_700_000_000_000, 1_700_000_000_500))
    kind = random.random()
    if kind < 0.1:
        return message(offset, 1, b"key", value)
    if kind < 0.15:
        return wrapper(offset, 1, GZIP, message(0, 1, b"key", value), timestamp=timestamp)
    producer = random.choice((-1, -1, 4, 5))
    header = Header(
        base_offset=offset,
        partition_leader_epoch=random.choice((-1, 0, 0, 1)),
        base_timestamp=timestamp,
        max_timestamp=timestamp,
        producer_id=producer,
        producer_epoch=min(producer, 0),
        base_sequence=min(producer, 0),
    )
    records = [Fields(offset_delta=number, value=value) for number in range(random.choice((1, 1, 3)))]
    return batch_of(records, header, random.choice((NONE, NONE, ZSTD)))


def _damaged(data: bytes, random: Random) -> bytes:
    position = random.randrange(len(data))
    flipped = bytearray(data)
    flipped[position] ^= 1 << random.randrange(8)
    magic = bytearray(data)
    magic[16] = 3
    return random.choice((data[:position], data + bytes(random.randint(1, 40)), bytes(flipped), bytes(magic)))


def _write_indexes(log: Path, random: Random) -> None:
    """Index files as a crash leaves them: none, empty, zeros, or an entry that leads somewhere into the log."""
    index, time_index = log.with_suffix(".index"), log.with_suffix(".timeindex")
    kind = random.random()
    if kind < 0.3:
        return
    position = random.choice((0, 0, 10, log.stat().st_size))
    index.write_bytes(random.choice((b"", b"", bytes(64), (5).to_bytes(4, "big") + position.to_bytes(4, "big"))))
    if kind < 0.9:
        time_index.write_bytes(random.choice((b"", b"", bytes(24))))
