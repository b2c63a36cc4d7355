"""Gaps: what a walk after damage reports between entries, and what the bytes after the last entry are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kdump.codes import Codes, Finding, KdumpError
from kdump.format.batch import HEADER_SIZE, LENGTH_OFFSET, MAX_INT32
from kdump.log.heads import read_head
from kdump.log.names import MAX_OFFSET
from kdump.log.source import Source

_BLOCK: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Gap:
    """Bytes that belong to no entry. Entries and gaps lie side by side and cover the file.

    A gap with ``overlaps`` is the opposite: its bytes belong to two entries, the one that ends with them and the one
    that starts with them, and both CRCs are right. No offsets are lost there.

    ``reason`` is what is wrong at ``position``. At most the offsets ``first_offset`` to ``last_offset`` (inclusive) are
    lost: from after the last batch with a right CRC to before ``continue_at``, the offset of the entry after the gap.
    Each is None where its batch does not exist; ``last_offset`` also where the offsets do not rise across the gap.
    """

    position: int
    length: int
    reason: Codes
    first_offset: int | None = None
    last_offset: int | None = None
    continue_at: int | None = None
    overlaps: bool = False

    @property
    def end(self) -> int:
        """File position of the first byte after the gap."""
        return self.position + self.length

    @property
    def finding(self) -> Finding:
        """What a reader reports of it."""
        lost = self.first_offset, self.last_offset, self.continue_at
        return Finding(self.reason, self.reason.value.title, self.position, self.length, *lost)


def offset_after(last: int | None) -> int | None:
    """The first offset that may be lost after an entry that ends with ``last``; None where there is none."""
    return None if last is None or last == MAX_OFFSET else last + 1


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
