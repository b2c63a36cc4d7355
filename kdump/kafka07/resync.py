"""A walk over a log of Kafka 0.7 that goes on after damage: chunks of entries, and gaps between them.

An entry whose CRC is wrong stands where another entry, or the end of the log, follows it. Elsewhere its length field
may be wrong, and the walk goes on at the next entry whose CRC is right. The CRC of an empty payload proves nothing, so
such an entry counts only where another one, or the end of the log, follows it.
The cost is linear: what is read for candidates is kept in proportion to the bytes that were passed, and what is read of
entries with a wrong CRC to the bytes of the log. A log that has more of these was forged: there such an entry counts no
longer.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from kdump.codes import Codes, DamageError
from kdump.kafka07.message import LENGTH, MAGIC_POSITION, MIN_LENGTH, Message07, parse_message
from kdump.log.gaps import Gap
from kdump.log.source import Source
from kdump.log.walk import DEFAULT_CHUNK_SIZE, Chunk, Stop, Walk
from kdump.wire.checksum import Buffer, crc32

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Walk07(Walk):
    """One pass over the entries of a 0.7 log; see Walk."""

    _length_offset = 0

    @staticmethod
    def _scan(buffer: Buffer, end: int, filled: int, final: bool) -> tuple[list[int], int, Stop | None, int]:
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


_BLOCK: Final = 1 << 16
"""Bytes in which candidates are looked for at a time, and of a chunk after damage."""
_LARGEST: Final = 16 << 20
"""Entries of this size and more are not looked for after damage."""
_HEAD: Final = MAGIC_POSITION + 1
_PAYLOAD: Final = _HEAD + 4
"""Where the payload of magic 0 begins in an entry; that of magic 1 begins a byte later."""
_SPENT_FOR_A_BYTE: Final = 64
"""Bytes of candidates that may be read for each byte of the log that was passed, and of wrong entries for each byte."""
_SMALLEST: Final = LENGTH.size + MIN_LENGTH


class ResyncWalk07:
    """One pass over the entries of a 0.7 log and the gaps between them.

    Args:
        source: where the bytes come from. Of a stream everything after the first damage is one gap.
        base_offset: that of the log.
        limit: parse no further than this many bytes.
        start: first position.
        chunk_size: bytes asked for at a time.
    """

    def __init__(
        self,
        source: Source,
        base_offset: int,
        *,
        limit: int | None = None,
        start: int = 0,
        chunk_size: int = DEFAULT_CHUNK_SIZE,
    ) -> None:
        self._source = source
        self._base_offset = base_offset
        self._limit = limit
        self._start = start
        self._chunk_size = chunk_size
        self._spent = 0
        # Bytes of entries with a wrong CRC that were read.
        self._wrong = 0
        # The valid entries of the block that was searched last.
        self._searched: int | None = None
        self._found: list[int] = []

    def items(self) -> Iterator[Chunk | Gap]:
        """Chunks and gaps in file order, side by side. Raises KdumpError when the source cannot be read."""
        position: int | None = self._start
        while position is not None:
            walk = Walk07(self._source, limit=self._limit, start=position, chunk_size=self._chunk_size)
            damage: tuple[int, Codes] | None = None
            for chunk in walk.chunks():
                count, reason = self._standing(chunk)
                end = chunk.starts[count] if count < len(chunk.starts) else chunk.end
                if count:
                    yield Chunk(chunk.data, chunk.position, chunk.starts[:count], end)
                if reason is not None:
                    damage = chunk.position + end, reason
                    break
            else:
                damage = self._damage_at_end(walk)
            if damage is None:
                return
            begin, reason = damage
            # Where damage is frequent little is read in vain.
            self._chunk_size = min(self._chunk_size, _BLOCK)
            position = self._next_entry(begin + 1)
            end = max(walk.end, begin) if self._source.size is None else self._end
            yield self._gap(begin, end if position is None else position, reason, is_last=position is None)

    @property
    def _end(self) -> int:
        size = self._source.size or 0
        return size if self._limit is None else min(size, self._limit)

    def _standing(self, chunk: Chunk) -> tuple[int, Codes | None]:
        """How many of the first entries stand, and what is wrong with the next one, which may follow the chunk."""
        for number, (start, end) in enumerate(chunk.entries()):
            try:
                message = parse_message(chunk.data[start:end], 0)
                is_valid = message.is_valid
            except DamageError as error:
                return number, error.code
            if is_valid:
                continue
            self._wrong += message.size
            if not self._follows(chunk, end):
                return number, Codes.BATCH_CRC
            if self._ends_earlier(message, chunk.position + start):
                return number, Codes.LENGTH_TOO_LARGE
        return len(chunk.starts), self._fault_ahead(chunk)

    def _fault_ahead(self, chunk: Chunk) -> Codes | None:
        """What is wrong with the entry after a chunk, as far as it can be told before the entry is read."""
        position = chunk.position + chunk.end
        head = self._head(chunk, chunk.end) if position + LENGTH.size <= self._end else None
        if head is None or len(head) < LENGTH.size:
            return None
        end = position + LENGTH.size + LENGTH.unpack_from(head)[0]
        if end > self._end:
            return Codes.TRUNCATED if self._limit is None else None
        if end - position <= _BLOCK or not self._is_forged or position in self._entries_of(position // _BLOCK * _BLOCK):
            return None
        return Codes.LENGTH_TOO_LARGE

    def _follows(self, chunk: Chunk, end: int) -> bool:
        """An entry may begin at ``end`` of the chunk, or the log ends there."""
        head = self._head(chunk, end)
        return not head or self._is_plausible(head, chunk.position + end)

    def _head(self, chunk: Chunk, start: int) -> bytes | None:
        """The first bytes at ``start`` of the chunk or after it; None: a stream has not read them yet."""
        if start + _HEAD <= len(chunk.data):
            return bytes(chunk.data[start : start + _HEAD])
        return None if self._source.size is None else self._source.read(chunk.position + start, _HEAD)

    @property
    def _is_forged(self) -> bool:
        """More was read of entries with a wrong CRC than a log that nobody forged has."""
        stored = self._end if self._source.stored is None else self._source.stored
        return self._wrong > _SPENT_FOR_A_BYTE * stored + _LARGEST

    def _ends_earlier(self, message: Message07, position: int) -> bool:
        """The CRC is right for the payload up to what may be an entry inside: the length field is wrong.

        No CRC covers the length field.
        """
        payload = message.payload
        if self._source.size is None or len(payload) < _SMALLEST:
            return False
        if self._is_forged:
            return True
        starts, _ = self._heads(payload, position + message.size - len(payload))
        crc = last = 0
        for start in starts.tolist():
            crc, last = crc32(payload[last:start], crc), start
            if crc == message.crc and start:
                return True
        return False

    def _is_plausible(self, head: bytes, position: int) -> bool:
        if len(head) < _HEAD or head[MAGIC_POSITION] > 1:
            return False
        length = LENGTH.unpack_from(head)[0]
        fits = self._source.size is None or position + LENGTH.size + length <= self._source.size
        return length >= MIN_LENGTH + head[MAGIC_POSITION] and fits

    def _damage_at_end(self, walk: Walk07) -> tuple[int, Codes] | None:
        if walk.stop is Stop.LENGTH_TOO_SMALL:
            return walk.position, Codes.LENGTH_TOO_SMALL
        if walk.position == walk.end or self._limit is not None:
            return None
        left = walk.end - walk.position
        return walk.position, Codes.TRAILING_BYTES if left < LENGTH.size else Codes.TRUNCATED

    def _gap(self, begin: int, end: int, reason: Codes, *, is_last: bool) -> Gap:
        if reason is Codes.TRUNCATED and not is_last:
            reason = Codes.LENGTH_TOO_LARGE
        if reason is Codes.LENGTH_TOO_SMALL and self._is_blank(begin, end):
            reason = Codes.ZERO_TAIL if is_last else Codes.ZERO_FILL
        first, last = self._base_offset + begin, self._base_offset + end - 1
        return Gap(begin, end - begin, reason, first, last, None if is_last else last + 1)

    def _is_blank(self, begin: int, end: int) -> bool:
        for position in self._blocks(begin, end if self._source.size is not None else begin):
            data = self._source.read(position, min(_BLOCK, end - position))
            if data.count(0) != len(data):
                return False
        return self._source.size is not None

    def _next_entry(self, position: int) -> int | None:
        """Where the next entry with a right CRC begins, from ``position`` on; None: nowhere."""
        if self._source.size is None:
            return None
        for block in self._blocks(position // _BLOCK * _BLOCK, self._end):
            found = self._entries_of(block)
            number = bisect_left(found, position)
            if number < len(found):
                return found[number]
        return None

    def _blocks(self, begin: int, end: int) -> Iterator[int]:
        """Where blocks begin, one after the other from ``begin`` on; not those that lie in a hole of a sparse file."""
        while begin < end:
            yield begin
            begin += _BLOCK
            # An entry may begin with zeros, but no length is zero.
            zeros = self._source.data_from(begin) - LENGTH.size - begin if begin < end else 0
            begin += max(zeros // _BLOCK, 0) * _BLOCK

    def _entries_of(self, block: int) -> list[int]:
        """Positions of entries with a right CRC that begin in a block; those of the last one are kept."""
        if self._searched != block:
            self._searched, self._found = block, self._valid_entries(block)
        return self._found

    def _valid_entries(self, position: int) -> list[int]:
        """Positions of entries with a right CRC that begin in the block at ``position``."""
        import numpy as np

        from kdump.log.rangecrc import IEEE, range_crcs

        block = self._source.read(position, min(_BLOCK + _SMALLEST - 1, self._end - position))
        starts, ends = self._heads(memoryview(block), position)
        allowance = max(_SPENT_FOR_A_BYTE * position + _LARGEST - self._spent, _BLOCK)
        is_near = ends - starts <= min(allowance, _LARGEST)
        starts, ends = starts[is_near], ends[is_near]
        if not starts.size:
            return []
        buffer = memoryview(self._source.read(position, int(ends.max())))
        self._spent += len(buffer)
        data = np.frombuffer(buffer, np.uint8)
        payloads = starts + _PAYLOAD + data[starts + MAGIC_POSITION]
        stored = np.zeros(starts.size, np.uint32)
        for number in range(4):
            stored = stored << np.uint32(8) | data[payloads - 4 + number]
        is_valid = range_crcs(buffer, payloads, ends, IEEE) == stored
        rows = (starts[is_valid].tolist(), payloads[is_valid].tolist(), ends[is_valid].tolist())
        return [
            position + start
            for start, payload, end in zip(*rows, strict=True)
            if end > payload or self._follows(Chunk(buffer, position, [start], end), end)
        ]

    def _heads(self, data: memoryview, position: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Where entries may begin and end in ``data``, which lies at ``position``, as their first bytes say.

        Two arrays of shape (entries,); an entry may end after ``data``, but not after the log.
        """
        import numpy as np

        values = np.frombuffer(data, np.uint8)
        starts = np.flatnonzero(values[MAGIC_POSITION : max(values.size - MIN_LENGTH + 1, MAGIC_POSITION)] <= 1)
        length = np.zeros(starts.size, np.int64)
        for number in range(LENGTH.size):
            length = length << 8 | values[starts + number]
        ends = starts + LENGTH.size + length
        fits = (length >= MIN_LENGTH + values[starts + MAGIC_POSITION]) & (ends + position <= self._end)
        return starts[fits], ends[fits]
