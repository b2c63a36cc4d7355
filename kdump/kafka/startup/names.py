"""Names of files as a broker makes and reads them, and the offsets in them.

Source: LogFileUtils; docs/spec/startup.md#1-inputs-and-names.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import Final

from kdump.kafka.startup.outcome import NUMBER_FORMAT, STRING_INDEX, StartFailureError
from kdump.payloads.java import parse_long

LOG: Final = ".log"
INDEX: Final = ".index"
TIME_INDEX: Final = ".timeindex"
TXN_INDEX: Final = ".txnindex"
SNAPSHOT: Final = ".snapshot"
DELETED: Final = ".deleted"
CLEANED: Final = ".cleaned"
SWAP: Final = ".swap"
KRAFT_DELETED: Final = ".checkpoint.deleted"

INDEX_SUFFIXES: Final = (INDEX, TIME_INDEX, TXN_INDEX)
SEGMENT_SUFFIXES: Final = (LOG, *INDEX_SUFFIXES)


def file_name(offset: int, suffix: str) -> str:
    """An offset in 20 digits, after the sign of a negative one, and the suffix."""
    return f"{offset:0{20 if offset >= 0 else 21}d}{suffix}"


def offset_of(name: str) -> int:
    """The number before the first dot.

    Raises:
        StartFailureError: there is none.
    """
    if "." not in name:
        raise StartFailureError(STRING_INDEX, f"the file name {name} has no dot")
    offset = parse_long(name.partition(".")[0])
    if offset is None:
        raise StartFailureError(NUMBER_FORMAT, f"the file name {name} does not begin with an offset")
    return offset


def covering(offsets: Iterable[int], start: int, end: int | None = None) -> list[int]:
    """The offsets from the last one up to ``start`` on (if all are higher, from the first), below ``end``, rising."""
    rising = sorted(offsets)
    first = max(bisect_right(rising, start) - 1, 0)
    return rising[first : None if end is None else bisect_left(rising, end)]
