"""Logs that are forged: their .index leads into payload that looks like entries of the log."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Final

from tests.harness.batches import message, v2_batch
from tests.harness.fast_reference import Row

_LENGTH, _CRC, _MAGIC, _BATCH_CRC, _LAST = 8, 12, 16, 17, -1
"""Where these fields begin in an entry."""

_PART: Final = 40_000
"""Bytes from one place that may be forged to the next."""
_PARTS: Final = 8
_FORGED_BYTES: Final = 4_000
"""About half as many as look like entries at a forged place."""

FORGED: Final = (
    "payload",
    "payload at each cut",
    "payload of a damaged batch",
    "payload of a message",
    "messages of a message",
    "payload of a damaged message",
    "payload of damaged messages only",
    "payload of an unknown magic",
    "payload to the end",
    "entries that overlap",
    "lengths",
)


def forged_log(kind: str, path: Path) -> None:
    """Write a log of about 320 KB, and an .index that leads into payload. ``kind``: one of FORGED."""
    part, parts, proof = _PART, _PARTS, _FORGED_BYTES
    log, index = bytearray(), list[tuple[int, int]]()
    offset = last = 0

    def add(entry: bytes) -> None:
        nonlocal offset
        log.extend(entry)
        offset += 2

    if kind != "payload of damaged messages only":
        add(v2_batch([Row(0, 0, None, b"first")]))
    every = 1 if kind in ("payload at each cut", "payload of damaged messages only") else 2
    for cut in range(part, part * parts, part):
        is_forged = cut // part % every == 0
        begin = cut - 3 * proof // 2 if is_forged else cut
        while len(log) + part // 40 < begin:
            last = len(log)
            add(_filler(kind, offset, part // 50))
        if is_forged:
            to_end = part * parts - cut if kind == "payload to the end" else 0
            outer, places = _outer(kind, offset, 2 * proof + to_end, proof)
            index += [(inner_offset, len(log) + place) for inner_offset, place in places]
            if kind == "lengths":
                # That of the batch before leads to one in the value.
                struct.pack_into(">i", log, last + _LENGTH, len(log) + places[1][1] - last - 12)
            add(outer)
    while len(log) < part * parts:
        add(_filler(kind, offset, part // 50))
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(log)
    if kind != "lengths":
        path.with_suffix(".index").write_bytes(b"".join(struct.pack(">ii", *entry) for entry in index))


def _filler(kind: str, offset: int, size: int) -> bytes:
    if kind == "payload of damaged messages only" or (kind == "messages of a message" and offset % 3):
        found = bytearray(message(1, offset, None, bytes(size)))
        if kind == "payload of damaged messages only":
            found[_LAST] ^= 1
        return bytes(found)
    return v2_batch([Row(0, 0, b"k", bytes(size)), Row(0, 1, None, b"")], base_offset=offset)


def _outer(kind: str, offset: int, size: int, proof: int) -> tuple[bytes, list[tuple[int, int]]]:
    """An entry whose value holds ``size`` bytes of entries; and for each of these its offset and where it begins."""
    inner = bytearray()
    # What a wrong length took in would have offsets between those of the damaged entry and the next one.
    inner_offset = offset // 2 if "damaged" in kind else offset
    places: list[tuple[int, int]] = []
    while len(inner) < size:
        places.append((inner_offset, len(inner)))
        if kind == "messages of a message":
            inner += message(1, inner_offset, b"inner", bytes(proof // 10))
        else:
            value = bytes(proof // 10)
            inner += v2_batch([Row(0, 0, b"inner", value)], base_offset=inner_offset)
        inner_offset += 1
    value = bytes(inner)
    if "message" in kind:
        entry = bytearray(message(1, offset, None, value))
    else:
        entry = bytearray(v2_batch([Row(0, 0, None, value), Row(0, 1, b"after", None)], base_offset=offset))
    start = entry.index(value)
    match kind:
        case "payload of a damaged batch" | "payload of a damaged message":
            entry[_CRC if "message" in kind else _BATCH_CRC] ^= 1
        case "payload of damaged messages only":
            entry[_CRC] ^= 1
        case "payload of an unknown magic":
            entry[_MAGIC] = 7
        case "entries that overlap":
            # The last one in the value ends after the value.
            cut = places[-1][1] + 40
            entry = bytearray(v2_batch(body=bytes(8) + value[:cut], base_offset=offset))
            entry += value[cut:]
    return bytes(entry), [(inner_offset, start + place) for inner_offset, place in places]
