"""Decodes the records of a chunk once, for the figures and for the checks.

The records are those of ``kdump dump --resync``. They include those of a batch with a wrong CRC, and those before the
damage in a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from kdump.codes import DamageError
from kdump.fast.blocks import BatchBlock, BlockReader, EntryRange
from kdump.fast.headers import native_column
from kdump.fast.legacymessages import MessagePart, read_messages
from kdump.fast.pieces import batch_pieces
from kdump.fast.recordtable import RecordGroups
from kdump.format import legacy
from kdump.format.batch import CONTROL, HEADER_SIZE, LOG_OVERHEAD, MAGIC_OFFSET, parse_header
from kdump.format.record import batch_body, in_pieces
from kdump.log.resync import CheckedChunk
from kdump.verify.columns import are_right

_Found = TypeVar("_Found")
_LEGACY_OVERHEAD = np.array([26, 34])
"""Bytes of a message without key and value, by magic: header and two lengths."""


@dataclass(frozen=True, slots=True)
class EntryRecords:
    """Entries of a chunk with their records; arrays have the shape (entries,)."""

    groups: RecordGroups
    """A group per entry; empty if the records of the entry cannot be read."""
    position: NDArray[np.int64]
    """Position of each entry in the file."""
    stored: NDArray[np.int64]
    """Stored bytes of the records: of a batch without its header; 0 if they were not read."""
    uncompressed: NDArray[np.int64]
    """Bytes of the records without compression."""

    @property
    def is_control(self) -> NDArray[np.bool_]:
        """Whether each entry is a control batch; shape (entries,)."""
        headers = self.groups.headers
        if headers is None:
            return np.zeros(self.groups.count, np.bool_)
        is_control: NDArray[np.bool_] = native_column(headers, "attributes") & CONTROL != 0
        return is_control

    @property
    def producer_id(self) -> NDArray[np.int64]:
        """The producer id of each entry; shape (entries,); -1 for legacy entries."""
        headers = self.groups.headers
        return np.full(self.groups.count, -1) if headers is None else native_column(headers, "producer_id")

    @property
    def leader_epoch(self) -> NDArray[np.int64]:
        """The leader epoch of each entry; shape (entries,); -1 for legacy entries."""
        headers = self.groups.headers
        if headers is None:
            return np.full(self.groups.count, -1)
        return native_column(headers, "partition_leader_epoch").astype(np.int64)


class RecordReader:
    """Reads records chunk by chunk; the checks call ``suspects`` (see ``verify.entries.Suspects``).

    Args:
        limit: most bytes to which one batch may decompress.
        take: takes the records, in file order.
    """

    def __init__(self, limit: int, take: Callable[[EntryRecords], None]) -> None:
        self._limit = limit
        self._take = take
        self._reader = BlockReader(limit, with_records=True)

    def suspects(self, chunk: CheckedChunk, rows: NDArray[np.void]) -> Iterator[int]:
        """Read all records of a chunk; the numbers of the valid entries whose records are not proved right."""
        bounds = [*chunk.starts, chunk.end]
        for part in self._reader.read(chunk.data, bounds, chunk.position, damaged=chunk.damaged):
            if isinstance(part, EntryRange):
                yield from self._legacy(chunk, part, bounds, rows)
            elif part.records is not None:
                yield from self._block(chunk, part, bounds)

    def _block(self, chunk: CheckedChunk, block: BatchBlock, bounds: Sequence[int]) -> Iterator[int]:
        assert block.records is not None
        accepted = block.records.accepted
        is_suspect = block.is_valid & ~are_right(block, block.records)
        stored = native_column(block.headers, "batch_length") + (LOG_OVERHEAD - HEADER_SIZE)
        uncompressed = block.body_end - block.body_start
        entries = EntryRecords(
            RecordGroups.of_batches(block),
            block.position,
            np.where(accepted, stored, 0),
            np.where(accepted, uncompressed, 0),
        )
        if accepted.all():
            self._take(entries)
        else:
            self._in_order(chunk, entries, accepted, block.numbers.tolist(), bounds)
        yield from block.numbers[is_suspect].tolist()

    def _legacy(
        self, chunk: CheckedChunk, legacy: EntryRange, bounds: list[int], rows: NDArray[np.void]
    ) -> Iterator[int]:
        own = np.array(bounds[legacy.first : legacy.last + 1], np.int64)
        for part in read_messages(chunk.data, own[:-1], own[1:], self._limit):
            first, last = legacy.first + part.first, legacy.first + part.last
            yield from self._messages(chunk, part, range(first, last), bounds, rows)

    def _messages(
        self, chunk: CheckedChunk, part: MessagePart, numbers: range, bounds: list[int], rows: NDArray[np.void]
    ) -> Iterator[int]:
        own = np.array(bounds[numbers.start : numbers.stop + 1], np.int64)
        accepted, groups = part.accepted, part.groups
        is_valid = rows["is_valid"][numbers.start : numbers.stop]
        accepted &= is_valid
        groups = groups.select_rows(np.repeat(accepted, groups.rows))
        counts = groups.rows
        filled = np.flatnonzero(accepted & (counts > 0))
        rows["record_count"][filled + numbers.start] = counts[filled]
        rows["base_offset"][filled + numbers.start] = groups.table.offset[groups.bounds[:-1][filled]]
        entries = EntryRecords(
            groups, own[:-1] + chunk.position, np.where(accepted, np.diff(own), 0), _message_bytes(groups)
        )
        if accepted.all():
            self._take(entries)
        else:
            self._in_order(chunk, entries, accepted, numbers, bounds)
        yield from (np.flatnonzero(is_valid & ~accepted) + numbers.start).tolist()

    def _in_order(
        self,
        chunk: CheckedChunk,
        entries: EntryRecords,
        accepted: NDArray[np.bool_],
        numbers: Sequence[int],
        bounds: Sequence[int],
    ) -> None:
        """Pass on runs of accepted entries, and the other entries one by one, in file order."""
        cuts = np.flatnonzero(np.diff(accepted, prepend=~accepted[:1], append=~accepted[-1:])).tolist()
        for first, last in pairwise(cuts):
            if accepted[first]:
                part = slice(first, last)
                groups = entries.groups.between(first, last)
                self._take(
                    EntryRecords(groups, entries.position[part], entries.stored[part], entries.uncompressed[part])
                )
                continue
            for number in numbers[first:last]:
                start, end = bounds[number], bounds[number + 1]
                for read in _read_alone(chunk.data[start:end], chunk.position + start, self._limit):
                    self._take(read)


def _message_bytes(groups: RecordGroups) -> NDArray[np.int64]:
    """Bytes of the messages in each legacy entry, without its wrapper; shape (groups,)."""
    table = groups.table
    own = np.maximum(table.key_size, 0).astype(np.int64) + np.maximum(table.value_size, 0)
    contents = np.diff(np.append(0, np.cumsum(own))[groups.bounds])
    overhead: NDArray[np.int64] = groups.rows * _LEGACY_OVERHEAD[np.clip(groups.magic, 0, 1)]
    return contents + overhead


def _read_alone(data: memoryview, position: int, limit: int) -> Iterator[EntryRecords]:
    """Read one entry with the scalar decoders, up to where it cannot be read; a large one in several pieces."""
    if data[MAGIC_OFFSET] < 2:
        entry = legacy.parse_message(data)
        for records in in_pieces(_up_to_damage(legacy.plain_records(entry, limit))):
            groups = RecordGroups.of_entry(records, entry)
            uncompressed = _message_bytes(groups)
            yield EntryRecords(groups, np.array([position]), np.array([len(data)]), uncompressed)
            # The stored bytes count once.
            data = data[:0]
        return
    if len(data) < HEADER_SIZE:
        return
    header = parse_header(data)
    try:
        body = np.frombuffer(batch_body(header, data, limit), np.uint8)
    except DamageError:
        return
    # The sizes count once.
    sizes = len(data) - HEADER_SIZE, body.size
    for groups in _up_to_damage(batch_pieces(header, data, body, limit)):
        yield EntryRecords(groups, np.array([position]), *(np.array([size]) for size in sizes))
        sizes = (0, 0)


def _up_to_damage(found: Iterator[_Found]) -> Iterator[_Found]:
    with suppress(DamageError):
        yield from found
