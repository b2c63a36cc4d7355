"""The index files of a segment, written as a broker writes them, only far more densely."""

from __future__ import annotations

import struct
from random import Random

from tests.oracle.crafting import BATCH_HEADER_SIZE, entries


def with_siblings(name: str, log: bytes, random: Random) -> dict[str, bytes]:
    """The segment ``name`` with an .index, a .timeindex and a .txnindex, by file name.

    An entry for about every second batch; like a broker, none for the first one.
    """
    stem = name.partition(".")[0]
    base = int(stem)
    index, time_index = [], []
    largest = -1
    for start, end in entries(log):
        entry = log[start:end]
        last_offset, timestamp = _last_offset_and_timestamp(entry)
        if start and random.random() < 0.5:
            index.append(struct.pack(">ii", last_offset - base, start))
        if timestamp > largest:
            largest = timestamp
            time_index.append(struct.pack(">qi", timestamp, last_offset - base))
    aborted = [
        struct.pack(">hqqqq", 0, random.randrange(5000), base + number, base + number + 3, base + number + 4)
        for number in range(random.randrange(5))
    ]
    parts = {".index": index, ".timeindex": time_index, ".txnindex": aborted}
    return {name: log, **{stem + suffix: b"".join(items) for suffix, items in parts.items()}}


def _last_offset_and_timestamp(entry: bytes) -> tuple[int, int]:
    offset: int = struct.unpack_from(">q", entry)[0]
    if entry[16] == 2 and len(entry) >= BATCH_HEADER_SIZE:
        return offset + int(struct.unpack_from(">i", entry, 23)[0]), int(struct.unpack_from(">q", entry, 35)[0])
    return offset, int(struct.unpack_from(">q", entry, 18)[0]) if entry[16] else -1
