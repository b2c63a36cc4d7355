"""A walk that goes on after damage. It gives chunks of entries, and gaps between them.

An entry is valid if its framing and its CRC hold. For any other entry these rules apply, in this order:

1. The framing holds, the CRC does not. The entry is kept, as DumpLogSegments keeps it, unless its length field is
   proved wrong. That is proved by the stored CRC (which does not cover the length) being right for another end at which
   an entry starts. It is also proved by a valid entry inside, if no entry starts at its end, or if the offset of the
   entry there leaves room for that of the one inside.
2. The framing does not hold. If a valid entry starts inside the valid entry before and ends after it, both are given,
   as no CRC tells which of them holds the bytes wrongly. Otherwise the gap reaches to the next valid entry.
3. Valid entries inside the bytes that a plausible header claims may be its payload (Kafka bytes stored in Kafka). They
   count if their offsets continue those of the header, or if they follow its first offset and another entry follows.
   Elsewhere, a valid entry whose offset does not follow the last valid one counts if another entry follows.

The time is linear in the size of the input, whatever it holds: no part is searched twice (``regions``), one pass gives
the CRCs of overlapping candidates (``rangecrc``), and all other work that may find nothing is limited in proportion to
the bytes read. After damage, entries of 16 MiB and more are not looked for. In a stream, which cannot be read ahead,
they are not accepted at all, and a gap at its end has the reason of its first bytes (``gaps``).
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from kdump.codes import Codes, KdumpError
from kdump.format.batch import (
    HEADER_SIZE,
    LENGTH_OFFSET,
    LOG_OVERHEAD,
    MAGIC_OFFSET,
    MAX_INT32,
    MIN_ENTRY_LENGTH,
    batch_crc,
)
from kdump.format.legacy import message_crc
from kdump.log.evidence import HORIZON, Evidence
from kdump.log.gaps import Gap, offset_after
from kdump.log.heads import LARGEST_ENTRY, SMALLEST_ENTRY, Head, read_head
from kdump.log.source import Source
from kdump.log.walk import DEFAULT_CHUNK_SIZE, Chunk
from kdump.log.window import Window

_FRAME: Final = struct.Struct(">8xiIbI")
_MIN_BATCH_LENGTH: Final = HEADER_SIZE - LOG_OVERHEAD
_ENDS_TOO_EARLY: Final = frozenset({Codes.TRUNCATED, Codes.HEADER_CUT})
_MAY_BE_WHOLE: Final = frozenset({Codes.MAGIC, Codes.UNREADABLE})
_WRONG_LENGTH: Final = frozenset({Codes.LENGTH_TOO_SMALL, Codes.LENGTH_TOO_LARGE, Codes.TRUNCATED})


@dataclass(slots=True)
class CheckedChunk(Chunk):
    """A chunk whose CRCs are known: ``damaged`` are the indexes of the entries whose CRC is wrong, rising."""

    damaged: list[int] = field(default_factory=list)


class ResyncWalk:
    """One pass over the entries of a source and the gaps between them.

    Args:
        source: where the bytes come from.
        limit: parse no further than this many bytes; an entry that it cuts is no gap.
        start: first position.
        chunk_size: bytes asked for at a time.

    ``position`` is the first byte that is neither in an entry nor in a gap yet.
    """

    def __init__(
        self, source: Source, *, limit: int | None = None, start: int = 0, chunk_size: int = DEFAULT_CHUNK_SIZE
    ) -> None:
        self._source = source
        self._window = Window(source, start, limit, chunk_size)
        self._evidence = Evidence(self._window)
        self._chunk_size = chunk_size
        self.position = start
        # Entries decided and not handed out yet, by file position; they lie side by side and end at ``position``.
        self._run: list[int] = []
        self._damaged: list[int] = []
        # The open gap: position, reason, first offset lost.
        self._gap: tuple[int, Codes, int | None] | None = None
        self._last_offset: int | None = None

    def items(self) -> Iterator[CheckedChunk | Gap]:
        """Chunks and gaps in file order. They lie side by side, except for gaps that are overlaps.

        The data of a chunk is valid until the next item is asked for. Raises KdumpError when a stream cannot be read;
        unreadable bytes of a file are a gap.
        """
        window, evidence = self._window, self._evidence
        while True:
            needed, is_checked = self._scan()
            evidence.passed = self.position
            if self._run and (needed is not None or self.position - self._run[0] >= self._chunk_size):
                # The newest entry stays: what follows may show that its length is wrong.
                yield from self._hand_out(hold=True)
            evidence.keep = self._run[0] if self._run else self.position
            if needed is not None:
                window.fill(evidence.keep, needed)
            elif self.position == window.end and window.resume is None:
                break
            else:
                loss = self._decide(is_checked)
                if loss is None:
                    continue
                resume_at, reason = loss
                if reason is None:
                    break
                yield from self._hand_out()
                if resume_at is not None and resume_at < self.position:
                    yield Gap(resume_at, self.position - resume_at, reason, overlaps=True)
                elif self._gap is None:
                    first = offset_after(self._last_offset)
                    self._gap = self.position, reason, first
                self.position = self._find_after(reason) if resume_at is None else resume_at
        yield from self._hand_out()
        if self._gap is not None:
            position, reason, first = self._gap
            gap = Gap(position, self.position - position, reason, first)
            yield gap._replace(reason=tail_reason(self._source, gap, self._last_offset))

    def _scan(self) -> tuple[int | None, bool]:
        """Take valid entries, and damaged ones that are certainly entries.

        Returns:
            The position up to which bytes are needed (with a chunk full, that of the next entry), or None when the next
            entry must be decided; and whether its CRC was checked.
        """
        window, evidence = self._window, self._evidence
        base, filled = window.base, window.filled
        data = memoryview(window.data)
        position = self.position - base
        last_start = min(filled, position + self._chunk_size)
        append, unpack, stands = self._run.append, _FRAME.unpack_from, evidence.stands
        allowance = evidence.allowance
        needed = position + SMALLEST_ENTRY
        is_checked = True
        while needed <= filled and position < last_start:
            length, legacy_crc, magic, crc = unpack(data, position)
            end = position + LOG_OVERHEAD + length
            if length < MIN_ENTRY_LENGTH or magic < 0 or (magic >= 2 and length < _MIN_BATCH_LENGTH):
                break
            if end > filled:
                needed = end
                break
            if length > allowance:
                is_checked = False
                break
            if magic >= 2:
                is_valid = batch_crc(data, position, end) == crc
            else:
                is_valid = message_crc(data, position, end) == legacy_crc
            if not is_valid:
                if not stands(position + base, end + base):
                    evidence.spend(length)
                    break
                self._damaged.append(position + base)
            append(position + base)
            position = end
            needed = position + SMALLEST_ENTRY
        self.position = position + base
        if position >= last_start and needed <= filled:
            return self.position, True
        is_short = needed > filled and self._may_read(needed + base)
        return needed + base if is_short else None, is_checked

    def _hand_out(self, *, hold: bool = False) -> Iterator[CheckedChunk | Gap]:
        """The gap, if an entry follows it, and the entries of the run. With ``hold`` the last entry stays."""
        run = self._run[:-1] if hold else self._run
        if not run:
            return
        end = self._run[-1] if hold else self.position
        damaged = [bisect_left(run, position) for position in self._damaged if position < end]
        if self._gap is not None:
            yield self._close_gap(self._gap, self._evidence.head(run[0]))
            self._gap = None
        self._last_offset = self._last_valid_offset(run)
        self._run = self._run[len(run) :]
        self._damaged = [position for position in self._damaged if position >= end]
        base = self._window.base
        data = memoryview(self._window.data)[: self._window.filled]
        yield CheckedChunk(data, base, [start - base for start in run], end - base, damaged)

    def _close_gap(self, gap: tuple[int, Codes, int | None], following: Head | None) -> Gap:
        """The gap, which ends at the entry ``following``."""
        position, reason, first = gap
        if reason in _ENDS_TOO_EARLY:
            reason = Codes.LENGTH_TOO_LARGE
        length = self._run[0] - position
        if following is None or not following.is_plausible:
            return Gap(position, length, reason, first)
        last = following.offset - 1 if first is not None and following.offset > first else None
        return Gap(position, length, reason, None if following.offset == first else first, last, following.offset)

    def _may_read(self, until: int) -> bool:
        """There may be bytes up to ``until``, and reading them first is worth it."""
        window = self._window
        if window.stop == window.end or (window.end is not None and until > window.end):
            return False
        if until - self.position <= LARGEST_ENTRY:
            return True
        if window.is_hollow(self.position, until):
            return False
        head = self._evidence.head(self.position)
        return head is not None and self._evidence.is_valid_in_file(head, until)

    def _decide(self, is_checked: bool) -> tuple[int | None, Codes | None] | None:
        """Keep the entry at ``position``, or say where to go on after a gap there, and the reason of the gap.

        Returns:
            None: the entry is kept. Else the position, None where it must be searched; and the reason, None where the
            limit ends the walk without a gap.
        """
        evidence = self._evidence
        head = evidence.head(self.position)
        fault = self._fault(head)
        if fault is None and head is not None:
            is_valid = (
                not is_checked
                and evidence.region(head.position, head.position + 1).valid_end(head.position) == head.end
            )
            loss = None if is_valid else self._misframed(head)
            if loss is None:
                if not is_valid:
                    self._damaged.append(head.position)
                self._run.append(head.position)
                self.position = head.end
            return loss
        fault = fault or Codes.HEADER_CUT
        if self._window.is_cut and (head is None or fault in _ENDS_TOO_EARLY):
            return None, None
        straddler = self._straddler()
        return (None, fault) if straddler is None else (straddler, Codes.LENGTH_TOO_LARGE)

    def _fault(self, head: Head | None) -> Codes | None:
        """What is wrong with the framing at ``position``; None when only the CRC can be wrong."""
        window, position = self._window, self.position
        if position == window.end:
            return Codes.UNREADABLE
        if not any(window.peek(position, MAGIC_OFFSET + 1)):
            return Codes.ZERO_FILL
        if head is None:
            return Codes.UNREADABLE if window.resume is not None else Codes.HEADER_CUT
        if head.length < (_MIN_BATCH_LENGTH if head.magic >= 2 else MIN_ENTRY_LENGTH):
            return Codes.LENGTH_TOO_SMALL
        if window.end is not None and head.end > window.end:
            if window.resume is not None:
                return Codes.UNREADABLE
            return Codes.HEADER_CUT if window.end - position < head.header_size else Codes.TRUNCATED
        if head.magic < 0 or (head.magic > 2 and not self._is_entry_at(head.end)):
            return Codes.MAGIC
        return Codes.LENGTH_TOO_LARGE if head.end > window.stop else None

    def _misframed(self, head: Head) -> tuple[int, Codes] | None:
        """Where to go on and why, if the length of an entry with a wrong CRC is proved wrong (rule 1)."""
        evidence, end = self._evidence, head.end
        horizon = head.position + HORIZON
        region = evidence.region(head.position + 1, min(end, horizon))
        follows = self._is_entry_at(end)
        last = end if follows else min(region.resolved, horizon)
        true_end = evidence.true_end(head, region, min(last, self._window.stop))
        if true_end is not None:
            return true_end, Codes.LENGTH_TOO_LARGE if true_end < end else Codes.LENGTH_TOO_SMALL
        if follows:
            inside = evidence.swallowed(head, region)
        else:
            inside = evidence.next_valid(region, head.position + 1, head, self._last_valid_offset(self._run))
        if inside is None or inside >= end:
            return None
        return inside, Codes.BATCH_CRC

    def _straddler(self) -> int | None:
        """A valid entry that starts inside the one before and ends after it (rule 2)."""
        if not self._run or self._run[-1] in self._damaged[-1:] or self.position - self._run[-1] > HORIZON:
            return None
        owner = self._evidence.head(self._run[-1])
        return None if owner is None else self._evidence.straddler(owner, self.position)

    def _find_after(self, fault: Codes) -> int:
        """The next entry after a position without framing (rules 2 and 3); the end where there is none.

        Everything before that position was handed out, so the window need not keep it.
        """
        window, evidence = self._window, self._evidence
        head = evidence.head(self.position)
        if head is not None and fault in _MAY_BE_WHOLE and self._is_entry_at(head.end):
            while window.resume is not None and head.end >= window.resume:
                window.next_extent()
                evidence.forget_region()
            return head.end
        at = self.position + 1
        if head is not None and fault in _WRONG_LENGTH:
            region = evidence.region(at, at)
            true_end = evidence.true_end(head, region, min(region.resolved, self.position + HORIZON))
            if true_end is not None:
                return true_end
        while True:
            while at != window.end:
                at = self._skip_zeros(at)
                if at == window.end:
                    break
                region = evidence.region(at, at + 1)
                found = evidence.next_valid(region, at, head, self._last_offset)
                if found is not None:
                    return found
                at = region.resolved
                evidence.keep = at
            if window.resume is None:
                return at
            window.next_extent()
            evidence.forget_region()
            evidence.keep = at = window.base
            if head is not None and head.end >= at and self._is_entry_at(head.end):
                return head.end

    def _skip_zeros(self, position: int) -> int:
        """See Window. After a skip the region that was searched before is of no use."""
        evidence = self._evidence
        resume_at = self._window.skip_zeros(position)
        if resume_at != position:
            evidence.forget_region()
            evidence.keep = resume_at
        return resume_at

    def _is_entry_at(self, position: int) -> bool:
        return self._evidence.is_entry_at(position, self._last_valid_offset(self._run))

    def _last_valid_offset(self, run: list[int]) -> int | None:
        """The last offset of the newest entry with a right CRC: of ``run``, else of what was handed out before."""
        index, damaged = len(run) - 1, len(self._damaged) - 1
        while run and damaged >= 0 and self._damaged[damaged] > run[-1]:
            damaged -= 1
        while index >= 0 and damaged >= 0 and run[index] == self._damaged[damaged]:
            index -= 1
            damaged -= 1
        head = self._evidence.head(run[index]) if index >= 0 else None
        return self._last_offset if head is None else head.last_offset


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
