"""Random partitions with random damage: whatever comes of them is a good log, and nothing undamaged is lost."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from dataclasses import replace

from hypothesis import example, given
from hypothesis import strategies as st

from kdump.format.batch import BatchHeader, parse_header
from kdump.repair.salvage.pieces import TxnPolicy
from kdump.repair.salvage.salvage import SalvageOptions
from kdump.repair.salvage.siblingcontext import SiblingContext
from tests.harness.batches import entries
from tests.harness.examples import examples
from tests.harness.random_partitions import partition
from tests.harness.salvaged import mend

Damage = Callable[[bytes, random.Random], bytes]


def flip(data: bytes, choose: random.Random) -> bytes:
    changed = bytearray(data)
    changed[choose.randrange(len(data))] ^= 1 << choose.randrange(8)
    return bytes(changed)


def flip_header(data: bytes, choose: random.Random) -> bytes:
    batches = entries(data)
    if not batches:
        return data
    number = choose.randrange(len(batches))
    at = sum(map(len, batches[:number])) + choose.randrange(min(61, len(batches[number])))
    return data[:at] + bytes([data[at] ^ 1 << choose.randrange(8)]) + data[at + 1 :]


def overwrite(data: bytes, choose: random.Random) -> bytes:
    at, size = choose.randrange(len(data)), choose.choice((1, 10, 200))
    new = bytes(size) if choose.random() < 0.5 else choose.randbytes(size)
    return data[:at] + new[: len(data) - at] + data[at + size :]


def insert(data: bytes, choose: random.Random) -> bytes:
    at = choose.randrange(len(data))
    return data[:at] + choose.randbytes(choose.choice((1, 10, 300))) + data[at:]


def cut_out(data: bytes, choose: random.Random) -> bytes:
    at = choose.randrange(len(data))
    return data[:at] + data[at + choose.choice((1, 10, 300)) :]


def cut_end(data: bytes, choose: random.Random) -> bytes:
    return data[: choose.randrange(len(data))]


def of_batches(change: Callable[[list[bytes], random.Random], None]) -> Damage:
    def damage(data: bytes, choose: random.Random) -> bytes:
        batches = entries(data)
        rest = data[sum(map(len, batches)) :]
        if batches:
            change(batches, choose)
        return b"".join(batches) + rest

    return damage


def duplicate(batches: list[bytes], choose: random.Random) -> None:
    batches.insert(choose.randrange(len(batches) + 1), choose.choice(batches))


def remove(batches: list[bytes], choose: random.Random) -> None:
    del batches[choose.randrange(len(batches))]


def swap(batches: list[bytes], choose: random.Random) -> None:
    one, other = choose.randrange(len(batches)), choose.randrange(len(batches))
    batches[one], batches[other] = batches[other], batches[one]


def set_offset(batches: list[bytes], choose: random.Random) -> None:
    number = choose.randrange(len(batches))
    offset = choose.choice((0, -5, 2**62, choose.randrange(2**40), choose.randrange(100)))
    batches[number] = struct.pack(">q", offset) + batches[number][8:]


OF_BYTES: list[Damage] = [flip, flip_header, overwrite, insert, cut_out, cut_end]
OF_BATCHES: list[Damage] = [of_batches(change) for change in (duplicate, remove, swap, set_offset)]


@examples(400)
@given(st.integers(0, 2**32), st.lists(st.sampled_from(OF_BYTES + OF_BATCHES), max_size=6), st.data())
def test_any_damage_leaves_a_good_log(seed: int, damages: list[Damage], draw: st.DataObject) -> None:
    """``mend`` looks at the result: verify, recovery, and that each byte is kept or told."""
    choose = random.Random(seed)
    made = partition(seed, is_compacted=seed % 3 == 0, batch_count=choose.choice((4, 15, 30)))
    number = choose.randrange(len(made.segments))
    data = made.segments[number]
    for damage in damages:
        data = damage(data, choose) if data else data
    options = SalvageOptions(
        hold_offsets=draw.draw(st.booleans()),
        correct=draw.draw(st.booleans()),
        transactions=draw.draw(st.sampled_from(TxnPolicy)),
    )
    following = made.bases[number + 1] if number + 1 < len(made.bases) and draw.draw(st.booleans()) else None
    mend(data, SiblingContext(base_offset=made.bases[number], next_base=following), options)


@examples(300)
@example(seed=2**32, damages=[flip, insert])
@given(seed=st.integers(0, 2**32), damages=st.lists(st.sampled_from(OF_BYTES), min_size=1, max_size=3))
def test_undamaged_batches_survive(seed: int, damages: list[Damage]) -> None:
    choose = random.Random(seed)
    made = partition(seed, is_compacted=False, batch_count=15)
    number = choose.randrange(len(made.segments))
    sound = data = made.segments[number]
    for damage in damages:
        data = damage(data, choose) if data else data
    kept = set(mend(data, SiblingContext(base_offset=made.bases[number])).batches)
    changed = {data.find(batch[21:]): parse_header(batch) for batch in kept - set(entries(sound))}
    # What a batch is known by when its header is damaged, where no CRC covers it.
    kept_bodies = {batch[21:] for batch in kept}
    places = [(data.find(batch[21:]) - 21, batch) for batch in entries(sound)]
    for batch in entries(sound):
        # A batch with damage in its header may come back, its neighbours too: they only must not be lost.
        if data.count(batch) == 1 and sound.count(batch[21:]) == 1:
            start = data.index(batch)
            # Bytes cut out between zeros may leave two batches with a zero in common: one of them goes.
            shares = [
                other[21:] in kept_bodies
                for at, other in places
                if other != batch and 0 <= at < start + len(batch) and start < at + len(other)
            ]
            assert batch in kept or any(shares) or _is_outweighed(start, parse_header(batch), changed)


def _is_outweighed(start: int, lost: BatchHeader, changed: dict[int, BatchHeader]) -> bool:
    """Batches that came back with another header leave no room for it, and hold no fewer records.

    No CRC covers a base offset, so both are good batches that contradict each other. Which one is wrong cannot be told.
    Source: docs/spec/repair.md#2-which-batches-salvage-keeps (most records; ties: the earlier).
    """
    against = [
        other.record_count
        for place, other in changed.items()
        if (other.last_offset >= lost.base_offset if place < start else other.base_offset <= lost.last_offset)
    ]
    return any(against) and sum(against) >= lost.record_count


@examples(150)
@given(st.integers(0, 2**32))
def test_clean_logs_stay_as_they_are(seed: int) -> None:
    made = partition(seed, is_compacted=seed % 2 == 0)
    around = SiblingContext()
    for data, base in zip(made.segments, made.bases, strict=True):
        assert mend(data, replace(around, base_offset=base)).data == data


@examples(150)
@given(st.integers(0, 2**32), st.data())
def test_one_flipped_bit_costs_nothing(seed: int, draw: st.DataObject) -> None:
    """Every bit under a CRC, wherever it lies, and the CRC itself."""
    made = partition(seed, is_compacted=seed % 2 == 0, batch_count=8)
    number = draw.draw(st.integers(0, len(made.segments) - 1))
    batches = entries(made.segments[number])
    if not batches:
        return
    chosen = draw.draw(st.integers(0, len(batches) - 1))
    place = draw.draw(st.integers(17, len(batches[chosen]) - 1))
    damaged = bytearray(batches[chosen])
    damaged[place] ^= 1 << draw.draw(st.integers(0, 7))
    data = b"".join([*batches[:chosen], bytes(damaged), *batches[chosen + 1 :]])
    result = mend(data, SiblingContext(base_offset=made.bases[number]), correct=True)
    assert result.data == made.segments[number]
