"""A place in a log where nothing whole can be read: what a walk after damage reports between entries."""

from __future__ import annotations

from dataclasses import dataclass

from kdump.codes import Codes


@dataclass(frozen=True, slots=True)
class Gap:
    """Bytes that belong to no entry; entries and gaps lie side by side and cover the file.

    With ``overlaps`` it is the other way round: these bytes belong both to the entry before, which ends with them, and
    to the next one, which starts with them, and the CRCs of both are right. No offsets are lost there.

    ``reason`` is what is wrong at ``position``. ``first_offset`` to ``last_offset`` (inclusive) are lost at most: from
    after the last batch with a right CRC to before ``continue_at``, the offset in the entry after the gap. Each is
    None where its batch does not exist; ``last_offset`` also where the offsets do not rise across the gap.
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
