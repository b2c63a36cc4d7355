"""Gaps: what a walk after damage reports between entries."""

from __future__ import annotations

from typing import NamedTuple

from kdump.codes import Codes, Finding
from kdump.log.names import MAX_OFFSET


class Gap(NamedTuple):
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
