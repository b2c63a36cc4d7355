"""One segment as it is served: which stretches of it are sound, and the batches from an offset or a time on.

A segment is read whole when something of it is first asked for. What is kept are marks, one for about 256 KiB of sound
entries, the transactions that begin or end in it, and what is damaged. Entries with a wrong CRC are in no mark, and
each entry that is handed out is checked again.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import suppress
from operator import attrgetter
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kdump.codes import Codes, DamageError, Finding, KdumpError
from kdump.format import legacy
from kdump.format import record as v2
from kdump.format.batch import (
    ATTRIBUTES_LOW_BYTE,
    CODEC_MASK,
    CONTROL,
    HEADER_SIZE,
    HEADER_SIZE_UP_TO_MAGIC,
    LENGTH_OFFSET,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_OFFSET,
    MIN_ENTRY_LENGTH,
    TRANSACTIONAL,
    batch_crc,
    is_read_as_batch,
    parse_header,
)
from kdump.format.index import parse_txn_index
from kdump.format.legacy import message_crc
from kdump.kafka.failures import KafkaFailureError
from kdump.kafka.markers import InvalidRecordError, read_marker
from kdump.log.gaps import Gap
from kdump.log.names import Kind, sibling
from kdump.log.opening import open_source, read_whole
from kdump.log.resync import CheckedChunk, ResyncWalk
from kdump.log.source import Source
from kdump.verify.table import UNKNOWN_OFFSET, read_rows

MARK_SIZE: Final = 1 << 18
NO_TIMESTAMP: Final = -1
ZSTD: Final = 4
_INT32: Final = struct.Struct(">i")
_FRAME: Final = struct.Struct(">qiIbI")
"""Offset, length, CRC of a message, magic, CRC of a batch."""


class EntryHead(NamedTuple):
    """What a server needs of the header of a batch or a message."""

    last_offset: int
    max_timestamp: int
    leader_epoch: int
    is_batch: bool

    @classmethod
    def of(cls, data: memoryview) -> EntryHead:
        """Of the bytes of one entry."""
        if is_read_as_batch(data[MAGIC_OFFSET]):
            header = parse_header(data)
            return cls(header.last_offset, header.max_timestamp, header.partition_leader_epoch, True)
        message = legacy.parse_message(data)
        return cls(message.offset, message.timestamp, -1, False)


class Timed(NamedTuple):
    """A record: its offset, timestamp and the leader epoch of its batch (-1: none)."""

    offset: int
    timestamp: int
    leader_epoch: int


class Aborted(NamedTuple):
    """An aborted transaction. ``first_offset``: the first one in its segment; ``last_offset``: that of the marker."""

    producer_id: int
    first_offset: int
    last_offset: int


class ViewEnd(NamedTuple):
    """Where a view of the past ends: before the batch with an offset, or with a timestamp at or after a time."""

    offset: int | None = None
    timestamp: int | None = None

    def of(self, last: NDArray[np.int64], stamps: NDArray[np.int64]) -> int | None:
        """The number of the first entry that is cut off, by last offsets and largest timestamps; None: none is."""
        is_cut = np.zeros(last.size, np.bool_)
        if self.offset is not None:
            is_cut |= last >= self.offset
        if self.timestamp is not None:
            is_cut |= stamps >= self.timestamp
        return int(is_cut.argmax()) if is_cut.any() else None


class SoundRun(NamedTuple):
    """Sound entries that lie side by side, and the offsets that they cover: ``first_offset`` to below ``end_offset``.

    ``has_zstd``: one of them is compressed with zstd, for which a client needs Fetch 10. ``position``: in the file,
    after them. ``aborted``: (producer id, first offset) of the aborted transactions in them, if that was asked.
    """

    data: memoryview
    first_offset: int
    end_offset: int
    has_zstd: bool
    position: int
    aborted: Sequence[tuple[int, int]] = ()


class Segment:
    """A log that has been read whole.

    Args:
        path: of the log.
        base_offset: by its name.
        cut: where the view ends.

    Raises:
        KdumpError: the log cannot be read.
    """

    def __init__(self, path: str, base_offset: int, cut: ViewEnd) -> None:
        self.path = path
        self.base_offset = base_offset
        self._cut = cut
        self._positions, self._ends, self._last, self._stamps = (array("q") for _ in range(4))
        self.end_offset = base_offset
        """After the last entry; an entry that is damaged counts where its header is plausible."""
        self.sound_end = base_offset
        """After the last sound entry."""
        self.is_cut = False
        """The view ends in this segment."""
        self.max_timestamp = NO_TIMESTAMP
        self.aborted: list[Aborted] = []
        self.first_ends: dict[int, tuple[int, bool]] = {}
        """By producer id: the offset of its first marker here, and whether it aborts."""
        self.open: dict[int, int] = {}
        """By producer id: the first offset here of a transaction that does not end here."""
        self.findings: list[Finding] = []
        with open_source(path) as source:
            self._read(source)
        if self.findings:
            self._add_lost_markers()

    def _read(self, source: Source) -> None:
        for item in ResyncWalk(source, chunk_size=MARK_SIZE).items():
            if isinstance(item, Gap):
                if not item.overlaps:
                    self.findings.append(item.finding)
            elif self._add(item):
                self.is_cut = True
                return

    def _add(self, chunk: CheckedChunk) -> bool:
        """Add the entries of a chunk; returns whether the view ends in it."""
        starts, ends = np.array(chunk.starts, np.int64), np.array(chunk.bounds()[1:], np.int64)
        rows = read_rows(chunk, is_after_gap=False)
        last, stamps = rows["last_offset"], rows["max_timestamp"]
        # A wrapper's base offset is its last one, as in Kafka's LegacyRecordBatch.
        base = np.where(rows["base_offset"] == UNKNOWN_OFFSET, last, rows["base_offset"])
        count = self._cut.of(last, stamps)
        is_cut, number = count is not None, starts.size if count is None else count
        if is_cut:
            # As long as the log goes up to there: a cut in the middle of a batch leaves the whole batch out.
            self.end_offset = max(self.end_offset, int(base[number]))
        damaged = [one for one in chunk.damaged if one < number]
        before = 0
        for one in (*damaged, number):
            if before < one:
                self._add_sound(chunk, [column[before:one] for column in (starts, ends, last, stamps)])
            if one < number:
                self._add_damaged(chunk, one, int(base[one]), int(last[one]))
            before = one + 1
        return is_cut

    def _add_damaged(self, chunk: CheckedChunk, number: int, first: int, last: int) -> None:
        start, end = chunk.entry(number)
        is_plausible = self.end_offset <= first <= last < first + (1 << 31)
        lost = (first, last, last + 1) if is_plausible else (None, None, None)
        code = Codes.BATCH_CRC
        self.findings.append(Finding(code, code.value.title, chunk.position + start, end - start, *lost))
        if is_plausible:
            self.end_offset = last + 1

    def _add_sound(self, chunk: CheckedChunk, columns: list[NDArray[np.int64]]) -> None:
        """Add sound entries side by side; ``columns``: their starts, ends, last offsets and largest timestamps."""
        starts, ends, last, stamps = columns
        highest = np.maximum.accumulate(last)
        position, end = chunk.position + int(starts[0]), chunk.position + int(ends[-1])
        self._positions.append(position)
        self._ends.append(end)
        self._last.append(max(int(highest[-1]), self._last[-1] if self._last else -1))
        self._stamps.append(int(stamps.max()))
        self.max_timestamp = max(self.max_timestamp, self._stamps[-1])
        self.sound_end = max(self.sound_end, int(highest[-1]) + 1)
        self.end_offset = max(self.end_offset, self.sound_end)
        magics = np.frombuffer(chunk.data, np.uint8)[starts + MAGIC_OFFSET]
        attributes = np.frombuffer(chunk.data, np.uint8)[np.minimum(starts + ATTRIBUTES_LOW_BYTE, len(chunk.data) - 1)]
        for number in np.flatnonzero((magics == 2) & (attributes & TRANSACTIONAL != 0)).tolist():
            self._follow(chunk.data[int(starts[number]) : int(ends[number])])

    def _follow(self, batch: memoryview) -> None:
        """Follow the transaction of a transactional batch, as ProducerStateManager does."""
        header = parse_header(batch)
        producer = header.producer_id
        if not header.attributes & CONTROL:
            self.open.setdefault(producer, header.base_offset)
            return
        marker = None
        with suppress(InvalidRecordError, KafkaFailureError):
            marker = read_marker(header, batch)
        if marker is not None:
            self._end(producer, header.base_offset, is_abort=marker.is_abort)

    def _end(self, producer: int, offset: int, *, is_abort: bool) -> None:
        """A marker of a producer at an offset."""
        first = self.open.pop(producer, None)
        self.first_ends.setdefault(producer, (offset, is_abort))
        if is_abort and first is not None:
            self.aborted.append(Aborted(producer, first, offset))

    def _add_lost_markers(self) -> None:
        """Damage may have taken markers that the transaction index names."""
        known = {(one.producer_id, one.last_offset) for one in self.aborted}
        with suppress(KdumpError):
            for one in parse_txn_index(read_whole(sibling(self.path, Kind.TXN_INDEX))):
                producer, last = one.producer_id, one.last_offset
                if last >= self.end_offset or (producer, last) in known:
                    continue
                self.aborted.append(Aborted(producer, one.first_offset, last))
                if self.open.get(producer, last) < last:
                    del self.open[producer]
                if producer not in self.first_ends or last < self.first_ends[producer][0]:
                    self.first_ends[producer] = last, True
            self.aborted.sort(key=attrgetter("last_offset"))

    def read(self, offset: int, end_offset: int, size: int, *, at_least_one: bool, hint: int = -1) -> SoundRun | None:
        """The sound entries from the one that holds ``offset``, or follows it, up to a gap or ``end_offset``.

        Args:
            offset: where a client wants to read.
            end_offset: an entry that begins here or later is left out.
            size: bytes at most.
            at_least_one: give one entry even if it is larger.
            hint: the file position of the entry that holds the offset, -1: not known.

        Returns:
            None where no entry of the segment is left. Where none fits into ``size``, an empty stretch.

        Raises:
            KdumpError: UNREADABLE, or the bytes have changed since the segment was read.
        """
        number = bisect_left(self._last, offset)
        if number == len(self._last):
            return None
        with open_source(self.path) as source:
            position, length = self._locate(source, number, offset, hint)
            if length > size and not at_least_one:
                return SoundRun(memoryview(b""), offset, offset, False, position)
            end = self._run_end(number, position + max(size, length))
            data = memoryview(source.read(position, min(end - position, max(size, length))))
        first, after, stop, has_zstd = self._sound_part(data, position, end_offset)
        return SoundRun(data[:stop], offset if first is None else first, max(offset, after), has_zstd, position + stop)

    def _sound_part(self, data: memoryview, position: int, end_offset: int) -> tuple[int | None, int, int, bool]:
        """The entries at the beginning of ``data`` that begin before an offset, checked once more.

        Returns:
            Their first offset (None: there is none), the offset after them, their end, and whether one has zstd.

        Raises:
            KdumpError: UNREADABLE, the CRC of one is wrong now.
        """
        first, last_at, at, has_zstd = None, 0, 0, False
        unpack, size = _FRAME.unpack_from, len(data)
        while at + _FRAME.size <= size:
            base, length, legacy_crc, magic, crc = unpack(data, at)
            after = at + LOG_OVERHEAD + length
            if after > size or base >= end_offset:
                break
            if magic >= MAGIC:
                is_right = batch_crc(data, at, after) == crc
                has_zstd = has_zstd or data[at + ATTRIBUTES_LOW_BYTE] & CODEC_MASK == ZSTD
            else:
                is_right = message_crc(data, at, after) == legacy_crc
            if not is_right:
                raise self._changed(position + at)
            if first is None:
                first = base
            last_at, at = at, after
        return first, EntryHead.of(data[last_at:at]).last_offset + 1 if at else 0, at, has_zstd

    def at_or_after(self, timestamp: int, offset: int) -> Timed | None:
        """The first record from ``offset`` on with a timestamp of at least ``timestamp``. Raises as ``read``.

        Source: FileRecords.searchForTimestamp.
        """
        for entry, data in self._entries(timestamp, offset):
            if entry.max_timestamp >= timestamp and entry.last_offset >= offset:
                for found_offset, found in _times(data, entry):
                    if found >= timestamp and found_offset >= offset:
                        return Timed(found_offset, found, entry.leader_epoch)
        return None

    def of_max_timestamp(self) -> Timed | None:
        """The first record with the largest timestamp (RecordBatch.offsetOfMaxTimestamp). Raises as ``read``."""
        for entry, data in self._entries(self.max_timestamp, -1):
            if entry.max_timestamp == self.max_timestamp and entry.max_timestamp >= 0:
                found = next((offset for offset, time in _times(data, entry) if time == entry.max_timestamp), None)
                return None if found is None else Timed(found, entry.max_timestamp, entry.leader_epoch)
        return None

    def _entries(self, timestamp: int, offset: int) -> Iterator[tuple[EntryHead, memoryview]]:
        """The entries of the marks that may hold a record with this timestamp or a later one, from an offset on."""
        with open_source(self.path) as source:
            for number, stamp in enumerate(self._stamps):
                if stamp >= timestamp and self._last[number] >= offset:
                    position = self._positions[number]
                    data = memoryview(source.read(position, self._ends[number] - position))
                    for at, after in framed(data):
                        yield self._checked(data[at:after], position + at), data[at:after]

    def _locate(self, source: Source, number: int, offset: int, hint: int) -> tuple[int, int]:
        """Position and length of the first entry with ``offset`` or a later one, which lies at a mark."""
        position, end = self._positions[number], self._ends[number]
        if position <= hint < end:
            position = hint
        data = memoryview(source.read(position, end - position if position != hint else LOG_OVERHEAD))
        if position == hint and len(data) == LOG_OVERHEAD:
            return position, _length(data, 0)
        for at, after in framed(data):
            if EntryHead.of(data[at:after]).last_offset >= offset:
                return position + at, after - at
        raise self._changed(position)

    def _run_end(self, number: int, wanted: int) -> int:
        """Where sound entries that lie side by side from a mark on end, as far as it matters."""
        while (
            self._ends[number] < wanted
            and number + 1 < len(self._ends)
            and self._positions[number + 1] == self._ends[number]
        ):
            number += 1
        return self._ends[number]

    def _checked(self, data: memoryview, position: int) -> EntryHead:
        """The header of an entry whose CRC is right, as it was. Raises KdumpError UNREADABLE."""
        if not is_sound(data):
            raise self._changed(position)
        return EntryHead.of(data)

    def _changed(self, position: int) -> KdumpError:
        return KdumpError(Codes.UNREADABLE, "has changed since it was read", path=self.path, position=position)


def is_sound(data: memoryview) -> bool:
    """The CRC of an entry is right."""
    if is_read_as_batch(data[MAGIC_OFFSET]):
        return len(data) >= HEADER_SIZE and batch_crc(data) == parse_header(data).crc
    return legacy.parse_message(data).is_valid


def framed(data: memoryview) -> Iterator[tuple[int, int]]:
    """(start, end) of the whole entries at the beginning of ``data``."""
    at = 0
    while at + HEADER_SIZE_UP_TO_MAGIC <= len(data):
        after = at + _length(data, at)
        if after > len(data) or after - at < LOG_OVERHEAD + MIN_ENTRY_LENGTH:
            return
        yield at, after
        at = after


def _length(data: memoryview, at: int) -> int:
    """Bytes of the entry that begins at ``at``."""
    length: int = _INT32.unpack_from(data, at + LENGTH_OFFSET)[0]
    return LOG_OVERHEAD + length


def _times(data: memoryview, entry: EntryHead) -> Iterator[tuple[int, int]]:
    """(offset, timestamp) of the records of an entry, as far as they can be read."""
    with suppress(DamageError):
        if entry.is_batch:
            yield from ((record.offset, record.timestamp) for record in v2.read_records(parse_header(data), data))
        else:
            yield from ((record.offset, record.timestamp) for record in legacy.read_records(legacy.parse_message(data)))
