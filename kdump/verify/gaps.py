"""What a gap in a log costs: which offsets are lost, and where a consumer continues.

A fetch looks up the largest .index entry at or below its offset and walks from the position of that entry. The walk
stops where the framing is broken. So the first offset that is served is that of the first entry after the gap which an
index entry reaches, else that of the next segment. If only a CRC is wrong, the walk goes on: consumers continue with
the next batch.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from kdump.codes import Codes, Finding
from kdump.format.batch import CRC_START, LOG_OVERHEAD, MAGIC_OFFSET
from kdump.format.index import OffsetEntry
from kdump.log.gaps import Gap, offset_after
from kdump.log.names import parse_file_name
from kdump.log.resync import CheckedChunk
from kdump.log.siblings import rising_entries
from kdump.log.source import Source
from kdump.verify.table import BatchRow, entry_of, first_offset, row_at
from kdump.wire.checksum import crc32, crc32c
from kdump.wire.syndrome import CRC32_POLYNOMIAL, CRC32C_POLYNOMIAL, ByteFlip, single_change


@dataclass(frozen=True)
class NextSegment:
    """How a broker finds its way past a gap.

    ``next_base``: the next segment's base offset, None without one or if it is not known. ``log``: the segment with a
    gap, None without an .index.
    """

    next_base: int | None = None
    log: str | None = None

    @cached_property
    def index(self) -> Sequence[OffsetEntry]:
        """The used entries of the segment's .index, positions rising. Few logs have a gap: only those ask."""
        name = None if self.log is None else parse_file_name(self.log)
        return [] if self.log is None or name is None else rising_entries(self.log, name.base_offset)

    def continue_at(self, position: int, size: int | None) -> int | None:
        """The first offset that a fetch reaches without a walk over the bytes before ``position``.

        ``size``: bytes of the log. An entry that leads beyond them leads to nothing.
        """
        number = bisect_left(self.index, position, key=lambda entry: entry.position)
        if number < len(self.index) and (size is None or self.index[number].position < size):
            return self.index[number].offset
        return self.next_base


class GapChecks:
    """Findings of gaps and wrong CRCs. A finding is complete when the next entry is known.

    ``following``: see NextSegment. Of ``source`` only the size is asked.
    """

    def __init__(self, source: Source, following: NextSegment) -> None:
        self._source = source
        self._following = following
        self._last_offset: int | None = None
        self._damaged: tuple[BatchRow, str] | None = None

    def see_gap(self, gap: Gap) -> Iterator[Finding]:
        """Report a range of bytes without entries."""
        yield from self._close(self._following.continue_at(gap.end, self._source.size), None)
        if gap.overlaps:
            # Here recovery, which takes the first of the two entries, ends.
            message = f"the entry before ends here, {gap.length} bytes inside another one; both have right CRCs"
            yield Finding(Codes.LENGTH_TOO_LARGE, message, gap.end)
            return
        continue_at = self._following.continue_at(gap.end, self._source.size)
        last = gap.last_offset
        if gap.continue_at is None and gap.first_offset is not None and continue_at is not None:
            last = continue_at - 1 if continue_at > gap.first_offset else None
        yield Finding(gap.reason, gap.reason.value.title, gap.position, gap.length, gap.first_offset, last, continue_at)

    def see_damaged(self, row: BatchRow, entry: memoryview) -> Iterator[Finding]:
        """Report an entry whose framing holds and whose CRC is wrong; ``entry`` is all of it."""
        yield from self._close(first_offset(row), row)
        self._damaged = row, _describe_crc(entry, row.position)

    def see_valid(self, first: BatchRow, last_offset: int) -> Iterator[Finding]:
        """Note valid entries that follow one another: the first one, and the last offset of the last one."""
        yield from self._close(first_offset(first), first)
        self._last_offset = last_offset

    def see_chunk(self, chunk: CheckedChunk, rows: NDArray[np.void]) -> Iterator[Finding]:
        """See the entries of a chunk: those with wrong CRCs, and the valid ones between them; ``rows``: of all."""
        first = 0
        for number in (*chunk.damaged, len(rows)):
            if number > first:
                yield from self.see_valid(row_at(rows, first), row_at(rows, number - 1).last_offset)
            if number < len(rows):
                row = row_at(rows, number)
                yield from self.see_damaged(row, entry_of(chunk, row))
            first = number + 1

    def finish(self) -> Iterator[Finding]:
        """Report what is still incomplete at the end of the segment."""
        yield from self._close(self._following.next_base, None)

    def _close(self, continue_at: int | None, following: BatchRow | None) -> Iterator[Finding]:
        """The finding of the last damaged entry, now that the next entry is known."""
        if self._damaged is None:
            return
        row, message = self._damaged
        self._damaged = None
        own = first_offset(row)
        first = own if self._last_offset is None else offset_after(self._last_offset)
        last: int | None = row.last_offset
        if continue_at is not None and following is not None and first is not None and continue_at > first:
            last = continue_at - 1
        if first is None or last is None or last < first:
            last = None
        yield Finding(Codes.BATCH_CRC, message, row.position, row.size, first, last, continue_at)
        if last is not None:
            self._last_offset = last


def _describe_crc(entry: memoryview, position: int) -> str:
    """The wrong CRC of the whole ``entry`` at ``position``: stored, computed, and the change that explains it."""
    is_legacy = entry[MAGIC_OFFSET] < 2
    start, field = (MAGIC_OFFSET, LOG_OVERHEAD) if is_legacy else (CRC_START, MAGIC_OFFSET + 1)
    computed = (crc32 if is_legacy else crc32c)(entry[start:])
    stored = int.from_bytes(entry[field : field + 4], "big")
    message = f"the CRC is wrong: stored {stored:#010x}, computed {computed:#010x}"
    polynomial = CRC32_POLYNOMIAL if is_legacy else CRC32C_POLYNOMIAL
    change = single_change(stored, computed, len(entry) - start, polynomial)
    return message if change is None else f"{message}; {_explain(change, entry, start, position)}"


def _explain(change: ByteFlip, entry: memoryview, start: int, position: int) -> str:
    if change.place is None:
        return "one flipped bit in the stored CRC explains it"
    index = start + change.place
    bits = change.mask.bit_count()
    what = f"one flipped bit ({change.mask.bit_length() - 1})" if bits == 1 else "one changed byte"
    return f"{what} at byte {position + index} explains it: {entry[index]:#04x} for {entry[index] ^ change.mask:#04x}"
