"""What the bytes after the last entry of a log are."""

from __future__ import annotations

from typing import Final

from kdump.codes import Codes, KdumpError
from kdump.format.batch import HEADER_SIZE, LENGTH_OFFSET, MAX_INT32
from kdump.log.gaps import Gap
from kdump.log.heads import read_head
from kdump.log.source import Source

_BLOCK: Final = 1 << 20


def tail_reason(source: Source, gap: Gap, last_offset: int | None) -> Codes:
    """What is wrong with a gap after the last entry of a walk.

    It is a torn entry only if it may follow the last one; all else that ends the file is bytes of something else.

    Args:
        source: the log. Bytes that cannot be read prove nothing.
        gap: its reason is that of its first bytes.
        last_offset: of the entries before; None: there are none.
    """
    if gap.end != source.size:
        return gap.reason
    if gap.reason is Codes.ZERO_FILL:
        return Codes.ZERO_TAIL if _is_zero(source, gap) else gap.reason
    if gap.reason not in (Codes.TRUNCATED, Codes.HEADER_CUT):
        return gap.reason
    try:
        raw = source.read(gap.position, HEADER_SIZE)
    except KdumpError:
        return gap.reason
    if gap.reason is Codes.TRUNCATED:
        head = read_head(raw, 0, len(raw), gap.position)
        seems_cut = head is not None and head.is_plausible and head.is_after(last_offset)
    else:
        offset = int.from_bytes(raw[:LENGTH_OFFSET], "big", signed=True)
        distance = offset - (-1 if last_offset is None else last_offset)
        seems_cut = len(raw) >= LENGTH_OFFSET and 0 < distance <= MAX_INT32
    return gap.reason if seems_cut else Codes.TRAILING_BYTES


def _is_zero(source: Source, gap: Gap) -> bool:
    try:
        position = gap.position
        while (position := source.data_from(position)) < gap.end:
            block = source.read(position, min(_BLOCK, gap.end - position))
            if block.count(0) < len(block):
                return False
            position += _BLOCK
        return True
    except KdumpError:
        return False
