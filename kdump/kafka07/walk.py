"""From bytes to the entries of a log of Kafka 0.7.

Source: docs/spec/old-kafka.md#15-iterating (the file iterator).
"""

from __future__ import annotations

from kdump.kafka07.message import LENGTH, MIN_LENGTH
from kdump.log.walk import Stop, Walk


class Walk07(Walk):
    """One pass over the entries of a 0.7 log; see Walk."""

    _length_offset = 0

    @staticmethod
    def _scan(buffer: bytearray, end: int, filled: int, final: bool) -> tuple[list[int], int, Stop | None, int]:
        starts: list[int] = []
        append, unpack = starts.append, LENGTH.unpack_from
        position = 0
        needed = LENGTH.size
        while end - position >= LENGTH.size:
            (length,) = unpack(buffer, position)
            if length < MIN_LENGTH:
                return starts, position, Stop.LENGTH_TOO_SMALL, 0
            following = position + LENGTH.size + length
            if following > end:
                needed = following - position
                break
            append(position)
            position = following
        return starts, position, Stop.END if final else None, needed
