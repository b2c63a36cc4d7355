"""Damage to each kind of file, beside that of the oracle tests: deeper into records, texts, snapshots and JSON."""

from __future__ import annotations

import bz2
import json
import struct
from functools import cache
from random import Random
from typing import Any, Final

from crc32c import crc32c

from kdump.codes import DamageError
from kdump.wire import compression
from tests.oracle.containers import CONTAINERS
from tests.oracle.crafting import BATCH_HEADER_SIZE, entries, varint, with_length, with_right_crc
from tests.oracle.mutations import INDEX_MUTATIONS, LOG_MUTATIONS, mutate

NUMBERS: Final = (
    0, 1, -1, 2, 7, 127, 128, 255, 256, 65535, 65536, 2**31 - 1, -(2**31), 2**31, 2**32, 2**53, 2**62, 2**63 - 1,
    -(2**63), 2**63, 2**64, 10**15, -(10**15), 253_402_300_800_000,
)  # fmt: skip
_WORDS: Final = (
    "", " ", "-1", "0", "2147483648", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "9" * 400,
    "9" * 5000, "1_000", "+5", "0x10", "1e5", "NaN", "\u00b2", "\u0661\u0662", "\x00", "\x1b[31m", "\x1b]0;x\x07",
    "../../x", "/etc/passwd", "\udcff", "a\nb",
)  # fmt: skip
_VALUES: Final[tuple[Any, ...]] = (
    None, True, False, "", "x", "x" * 1000, [], {}, [[]], [None], {"base64": "!"}, {"base64": "aGk="}, {"base64": 5},
    1.5, 1e308, float("inf"), float("nan"), "\x00", "\udcff", "\ud800", "../../victim", "/victim",
    json.loads("[" * 400 + "]" * 400), *NUMBERS,
)  # fmt: skip
_LONGEST_DECOMPRESSED: Final = 1 << 20
_OFFSET: Final = struct.Struct(">q")


def damage_log(data: bytes, random: Random) -> bytes:
    """A log with one or two entries that are wrong."""
    if random.random() < 0.02:
        return bomb() + data
    if random.random() < 0.15:
        return data + random.choice((bytes(random.choice((1, 16, 17, 61, 4096))), random.randbytes(61)))
    return mutate(data, random, LOG_MUTATIONS)[1]


@cache
def bomb() -> bytes:
    """5 KB of another type of file that become 4 GiB."""
    return bz2.compress(bytes(64 << 20)) * 64


def damage_entry(entry: bytes, random: Random) -> bytes:
    """One entry that is wrong; in half of the cases deep inside, under a right CRC."""
    if random.random() < 0.5 or len(entry) <= BATCH_HEADER_SIZE or not 2 <= entry[16] <= 127:
        return mutate(entry, random, LOG_MUTATIONS)[1]
    codec = entry[22] & 7
    body = entry[BATCH_HEADER_SIZE:]
    try:
        plain = compression.decompress(codec, body, magic=2, limit=_LONGEST_DECOMPRESSED) if codec else body
    except DamageError:
        return mutate(entry, random, LOG_MUTATIONS)[1]
    changed = bytearray(plain)
    for _ in range(random.choice((1, 1, 2))):
        at = random.randrange(min(len(changed), 40)) if changed else 0
        number = random.choice(NUMBERS)
        changed[at : at + random.choice((0, 1, 1, 2))] = random.choice(
            (varint(number, 64), varint(number), b"\xff" * random.randrange(1, 12), b"")
        )
    head = bytearray(entry[:BATCH_HEADER_SIZE])
    codec = random.choice((codec, codec, random.randrange(5)))
    head[22] = head[22] & ~7 | codec
    packed = random.choice(CONTAINERS[codec])(bytes(changed)) if codec else bytes(changed)
    return with_right_crc(with_length(bytes(head) + packed))


def damage_index(data: bytes, random: Random) -> bytes:
    """An index of any kind."""
    return mutate(data, random, INDEX_MUTATIONS)[1] if data else random.randbytes(random.randrange(40))


def damage_snapshot(data: bytes, random: Random) -> bytes:
    """A snapshot of producers; most have a right CRC, so that what is wrong gets past it."""
    changed = bytearray(damage_index(data, random))
    if len(changed) >= 10 and random.random() < 0.8:
        if random.random() < 0.3:
            changed[6:10] = struct.pack(">I", random.choice(NUMBERS) & 0xFFFF_FFFF)
        changed[2:6] = struct.pack(">I", crc32c(bytes(changed[6:])))
    return bytes(changed)


def damage_text(data: bytes, random: Random) -> bytes:
    """A checkpoint, a file of properties, or one of JSON."""
    if data.startswith(b"{") and random.random() < 0.5:
        return damage_json_text(data, random)
    separator = random.choice((b" ", b"\n", b"="))
    if random.random() < 0.2:
        return damage_index(data, random)
    words = data.split(separator)
    at = random.randrange(len(words))
    word = random.choice((random.choice(_WORDS).encode("utf-8", "surrogateescape"), random.choice(words)))
    words[at : at + random.choice((0, 1, 1, 1))] = [word]
    return separator.join(words)


def damage_json(value: Any, random: Random) -> Any:
    """A JSON value with something in it that does not belong there, at any depth."""
    value = json.loads(json.dumps(value))
    holder, keys = value, _keys(value)
    while keys:
        key = random.choice(keys)
        inner = _keys(holder[key])
        if not inner or random.random() < 0.3:
            if random.random() < 0.15:
                del holder[key]
            else:
                holder[key] = random.choice(_VALUES)
            return value
        holder, keys = holder[key], inner
    return random.choice(_VALUES)


def damage_json_text(data: bytes, random: Random) -> bytes:
    """JSON with something in it that does not belong there, or other bytes as they are."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return data
    return json_bytes(damage_json(value, random), random)


def json_bytes(value: Any, random: Random) -> bytes:
    """JSON text, sometimes not quite."""
    text = json.dumps(value, ensure_ascii=random.random() < 0.7)
    data = text.encode("utf-8", "surrogatepass" if "\ud800" in text else "surrogateescape")
    return damage_index(data, random) if random.random() < 0.1 else data


def move_far(files: dict[str, bytes], random: Random) -> dict[str, bytes]:
    """Files with greater offsets, of which the last ones are near the largest offset.

    Names, and the entries of logs and metadata snapshots move; what other files say of offsets stays.
    """
    logs = {name: list(entries(data)) for name, data in files.items() if ".log" in name or ".checkpoint" in name}
    last = max((_OFFSET.unpack_from(files[name], at[-1][0])[0] for name, at in logs.items() if at), default=0)
    distance = max(0, random.choice((2**63, 2**63 - 2**31)) - random.randrange(1, 40) - last)
    moved = {}
    for name, data in files.items():
        changed = bytearray(data)
        for start, _ in logs.get(name, ()):
            offset = _OFFSET.unpack_from(data, start)[0] + distance
            _OFFSET.pack_into(changed, start, min(offset, 2**63 - 1))
        folder, slash, file = name.rpartition("/")
        stem, rest = file[:20], file[20:]
        is_offset = len(stem) == 20 and stem.isdecimal()
        stem = f"{min(int(stem) + distance, 2**63 - 1):020}" if is_offset else stem
        moved[f"{folder}{slash}{stem}{rest}"] = bytes(changed)
    return moved


def damage_file(name: str, data: bytes, random: Random) -> bytes:
    """The damage that fits a file of this name."""
    for state in (".deleted", ".swap", ".cleaned"):
        name = name.removesuffix(state)
    if name.endswith((".log", ".checkpoint")):
        return damage_log(data, random)
    if name.endswith(".snapshot"):
        return damage_snapshot(data, random)
    return damage_index(data, random) if name.endswith("index") else damage_text(data, random)


def _keys(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value)
    return list(range(len(value))) if isinstance(value, list) else []
