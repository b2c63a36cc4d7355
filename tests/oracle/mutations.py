"""Random damage to sound segments and their sibling files.

Every mutation takes the bytes of one file and a ``random.Random`` and returns other bytes; the same seed gives the
same damage. Some keep the CRC wrong, as a bad disk does; others repair it, so that the damage gets past the check.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from random import Random
from typing import Final

from kdump.codes import DamageError
from kdump.wire import compression
from tests.oracle.containers import CONTAINERS, GZIP
from tests.oracle.crafting import BATCH_HEADER_SIZE, entries, with_length, with_right_crc

Mutation = Callable[[bytes, Random], bytes]

_EDGES: Final = (
    -(2**63), -(2**31), -(2**15), -129, -2, -1, 0, 1, 2, 13, 14, 48, 49, 127, 128, 2**15, 2**31 - 1, 2**63 - 1,
)  # fmt: skip
_V2_FIELDS: Final = {
    "base offset": (0, 8), "length": (8, 4), "leader epoch": (12, 4), "magic": (16, 1), "crc": (17, 4),
    "attributes": (21, 2), "last offset delta": (23, 4), "base timestamp": (27, 8),
    "max timestamp": (35, 8), "producer id": (43, 8), "producer epoch": (51, 2), "base sequence": (53, 4),
    "count": (57, 4),
}  # fmt: skip
_LEGACY_FIELDS: Final = {
    "offset": (0, 8), "size": (8, 4), "crc": (12, 4), "magic": (16, 1), "attributes": (17, 1), "timestamp": (18, 8),
    "key size v0": (18, 4), "key size v1": (26, 4), "value size v0": (22, 4), "value size v1": (30, 4),
}  # fmt: skip


def flip_bits(data: bytes, random: Random) -> bytes:
    """One to three bits anywhere."""
    changed = bytearray(data)
    for _ in range(random.randint(1, 3)):
        changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
    return bytes(changed)


def set_bytes(data: bytes, random: Random) -> bytes:
    """A run of up to eight random bytes."""
    start = random.randrange(len(data))
    run = random.randbytes(random.randint(1, 8))
    return data[:start] + run + data[start + len(run) :]


def cut_end(data: bytes, random: Random) -> bytes:
    """The file ends early."""
    return data[: random.randrange(len(data))]


def cut_out(data: bytes, random: Random) -> bytes:
    """A hole in the middle closes up."""
    start = random.randrange(len(data))
    return data[:start] + data[start + random.randint(1, 100) :]


def insert(data: bytes, random: Random) -> bytes:
    """Bytes that do not belong there."""
    start = random.randrange(len(data) + 1)
    return data[:start] + random.randbytes(random.randint(1, 100)) + data[start:]


def zero_fill(data: bytes, random: Random) -> bytes:
    """A run of zeros, as a lost page leaves."""
    start = random.randrange(len(data))
    size = min(len(data) - start, random.choice((1, 4, 8, 64, 512, 4096)))
    return data[:start] + bytes(size) + data[start + size :]


def append(data: bytes, random: Random) -> bytes:
    """Something after the end."""
    size = random.choice((1, 8, 11, 12, 16, 17, 18, 30, 61, 100, 1000))
    return data + random.choice((bytes(size), b"\xff" * size, random.randbytes(size), data[:size]))


def duplicate_entry(data: bytes, random: Random) -> bytes:
    """An entry twice."""
    start, end = _pick(data, random)
    return data[:end] + data[start:end] + data[end:]


def drop_entry(data: bytes, random: Random) -> bytes:
    """An entry less."""
    start, end = _pick(data, random)
    return data[:start] + data[end:]


def swap_entries(data: bytes, random: Random) -> bytes:
    """Two neighbours change places."""
    start, end = _pick(data, random)
    following = next((item for item in entries(data) if item[0] == end), (end, end))[1]
    return data[:start] + data[end:following] + data[start:end] + data[following:]


def edit_field(data: bytes, random: Random) -> bytes:
    """A header field gets an extreme value or its neighbour; half of the time the CRC is made right again."""

    def edit(entry: bytes) -> bytes:
        fields = _V2_FIELDS if 2 <= entry[16] <= 127 else _LEGACY_FIELDS
        position, size = random.choice(list(fields.values()))
        if position + size > len(entry):
            return entry
        value = int.from_bytes(entry[position : position + size], "big", signed=True)
        value = random.choice((random.choice(_EDGES), value + 1, value - 1, random.getrandbits(8 * size)))
        raw = (value & (1 << 8 * size) - 1).to_bytes(size, "big")
        return entry[:position] + raw + entry[position + size :]

    return _edit_entry(data, random, edit, fix=random.random() < 0.5)


def edit_body(data: bytes, random: Random) -> bytes:
    """Bytes after the header change, and the CRC is right."""

    def edit(entry: bytes) -> bytes:
        start = _body_start(entry)
        if start >= len(entry):
            return entry
        mutation = random.choice((flip_bits, set_bytes, zero_fill))
        return entry[:start] + mutation(entry[start:], random)[: len(entry) - start]

    return _edit_entry(data, random, edit, fix=True)


def resize_body(data: bytes, random: Random) -> bytes:
    """The body grows or shrinks, and length and CRC are right."""

    def edit(entry: bytes) -> bytes:
        start = _body_start(entry)
        mutation = random.choice((cut_end, cut_out, insert, append))
        return with_length(entry[:start] + mutation(entry[start:] or b"\0", random))

    return _edit_entry(data, random, edit, fix=True)


def edit_records(data: bytes, random: Random) -> bytes:
    """What is inside a compressed entry changes and is compressed again, in any container of any codec."""

    def edit(entry: bytes) -> bytes:
        is_v2 = 2 <= entry[16] <= 127
        attributes = 22 if is_v2 else 17
        start = BATCH_HEADER_SIZE if is_v2 else 26 if entry[16] == 0 else 34
        codec = entry[attributes] & 7
        if codec not in CONTAINERS or start >= len(entry):
            return entry
        if codec:
            payload = compression.decompress(codec, entry[start:], magic=entry[16])
        elif is_v2:
            payload = entry[start:]
        else:
            payload = entry
        if payload and random.random() < 0.7:
            payload = random.choice((flip_bits, set_bytes, cut_end, cut_out, insert, append))(payload, random)
        new_codec = random.choice((codec, random.randrange(5)))
        if not is_v2:
            new_codec = new_codec or codec or GZIP
        packed = random.choice(CONTAINERS[new_codec])(payload)
        head = bytearray(entry[:start])
        head[attributes] = head[attributes] & ~7 | new_codec
        if not is_v2:
            head[-8:] = struct.pack(">ii", -1, len(packed))
        return with_length(bytes(head) + packed)

    return _edit_entry(data, random, edit, fix=True)


def edit_entry(data: bytes, random: Random) -> bytes:
    """An aligned number of an index entry changes a little or a lot."""
    size = random.choice((4, 8))
    if len(data) < size:
        return data
    start = random.randrange(len(data) // size) * size
    value = int.from_bytes(data[start : start + size], "big", signed=True)
    value = random.choice((0, -1, 1, value + 1, value - 1, value + random.randint(-500, 500), 2 * value, 2**31 - 1))
    raw = (value & (1 << 8 * size) - 1).to_bytes(size, "big")
    return data[:start] + raw + data[start + size :]


def swap_index_entries(data: bytes, random: Random) -> bytes:
    """Two neighbouring entries of an index change places."""
    size = random.choice((8, 12, 34))
    if len(data) < 2 * size:
        return data
    start = random.randrange(len(data) // size - 1) * size
    middle, end = start + size, start + 2 * size
    return data[:start] + data[middle:end] + data[start:middle] + data[end:]


def repeat_index_entry(data: bytes, random: Random) -> bytes:
    """An entry of an index turns up again elsewhere."""
    size = random.choice((8, 12, 34))
    if len(data) < size:
        return data
    source, target = (random.randrange(len(data) // size) * size for _ in range(2))
    return data[:target] + data[source : source + size] + data[target:]


LOG_MUTATIONS: Final[tuple[Mutation, ...]] = (
    flip_bits, set_bytes, cut_end, cut_out, insert, zero_fill, append, duplicate_entry, drop_entry, swap_entries,
    edit_field, edit_field, edit_field, edit_body, edit_body, resize_body, resize_body, edit_records, edit_records,
)  # fmt: skip
"""Damage for .log and .checkpoint files; what hits deeper is tried more often."""

INDEX_MUTATIONS: Final[tuple[Mutation, ...]] = (
    flip_bits, set_bytes, cut_end, cut_out, insert, zero_fill, append,
    edit_entry, edit_entry, edit_entry, swap_index_entries, repeat_index_entry,
)  # fmt: skip
"""Damage for indexes and snapshots."""


def mutations_for(name: str) -> tuple[Mutation, ...]:
    """The damage that fits a file of this name."""
    return LOG_MUTATIONS if name.endswith((".log", ".checkpoint")) else INDEX_MUTATIONS


def mutate(data: bytes, random: Random, mutations: tuple[Mutation, ...]) -> tuple[str, bytes]:
    """One or two mutations; returns their names and the damaged bytes. Empty data stays as it is."""
    names = []
    for _ in range(random.choice((1, 1, 1, 2))):
        if not data:
            break
        mutation = random.choice(mutations)
        try:
            data = mutation(data, random)
        except DamageError:
            # The second of two mutations met what the first one left.
            continue
        names.append(mutation.__name__)
    return "+".join(names), data


def _pick(data: bytes, random: Random) -> tuple[int, int]:
    return random.choice(list(entries(data)) or [(0, len(data))])


def _edit_entry(data: bytes, random: Random, edit: Callable[[bytes], bytes], *, fix: bool) -> bytes:
    start, end = _pick(data, random)
    if end - start < 26:
        return data
    entry = edit(data[start:end])
    return data[:start] + (with_right_crc(entry) if fix else entry) + data[end:]


def _body_start(entry: bytes) -> int:
    return BATCH_HEADER_SIZE if 2 <= entry[16] <= 127 else 18
