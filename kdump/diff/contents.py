"""The records of some batches of a copy as digests: what is compared where headers and CRCs differ.

Records are the same if offset, producer, sequence, timestamp, key, value and headers are, and if both or neither are
control records or in a transaction. Leader epoch, compression and the grouping into batches are no part of a record.

Source: docs/spec/replicas.md#3-where-a-follower-truncates.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kdump.codes import DamageError
from kdump.diff.copies import LoadedCopy
from kdump.diff.table import CopyTable, Rows
from kdump.fast.blocks import BatchBlock, BlockReader, EntryRange
from kdump.fast.hashing import digest_ranges, hash_ranges
from kdump.fast.headers import native_column, read_headers
from kdump.fast.recordtable import RecordGroups, RecordTable
from kdump.fast.sequences import record_sequences
from kdump.format import legacy
from kdump.format.batch import CONTROL, MAGIC, MAGIC_OFFSET, TRANSACTIONAL, BatchHeader, parse_header
from kdump.format.record import Record, in_pieces, read_records
from kdump.inputs import PartitionChoice
from kdump.wire.compression import DEFAULT_LIMIT, NONE

_BLOCK: Final = 4 << 20
"""Bytes of batches that are read together, unless one is larger."""
_TOGETHER: Final = 1 << 16
"""Records whose digests are made at the same time: each takes 300 bytes then."""
_HELD_PIECES: Final = 4
"""Pieces of a batch that are kept until all of it was read once. A larger one is read twice."""
_MOST_KEPT: Final = 1 << 18
"""Records of a copy that are kept: each takes 70 bytes."""
_UNREADABLE: Final = (0x756E7265, 0x61646162)
"""The digest of a batch that cannot be read."""
_HEADER_SEED: Final = 0x1F83D9ABFB41BD6B
_ROW_SEED: Final = 0x5BE0CD19137E2179
_OTHER_SEED: Final = 0x3C6EF372FE94F82B


class DiffOptions(NamedTuple):
    """What is compared and shown.

    ``limit``: most bytes that one batch may decompress to. ``only_content``: leave out what a copy that is no replica
    has otherwise: producers, sequences, transactions. ``with_records``: show the records that differ.
    """

    limit: int = DEFAULT_LIMIT
    only_content: bool = False
    with_records: bool = False
    choice: PartitionChoice = PartitionChoice()


class RecordDigests(NamedTuple):
    """Records in the order of their offsets; every array has shape (records,), but for the digests.

    Attributes:
        offset: absolute.
        row: number of the row of the batch table that holds it.
        digest: shape (records, 2); of all that makes the record. Where only the content counts, of key and value with
            the timestamp, and of the headers.
        content: of key and value.
        magic: of the batch.
        key: shape (records, 2); of the key.
        has_key: it has a key.
        has_value: it has a value.
        is_readable: False for the one that stands for a batch that cannot be read.
    """

    offset: NDArray[np.int64]
    row: NDArray[np.int64]
    digest: NDArray[np.int64]
    content: NDArray[np.int64]
    magic: NDArray[np.int64]
    key: NDArray[np.int64]
    has_key: NDArray[np.bool_]
    has_value: NDArray[np.bool_]
    is_readable: NDArray[np.bool_]

    def take(self, records: NDArray[np.int64] | NDArray[np.bool_] | slice) -> RecordDigests:
        """Some of them."""
        return RecordDigests._make(column[records] for column in self)


def same_records(ours: RecordDigests, theirs: RecordDigests, options: DiffOptions) -> NDArray[np.bool_]:
    """Which records are the same, row by row; shape (records,).

    Where only the content counts, what the older of the two formats cannot hold is left out: headers in magic 0 and 1,
    timestamps in magic 0.
    """
    same: NDArray[np.bool_] = ours.digest == theirs.digest
    if not options.only_content:
        whole: NDArray[np.bool_] = same[:, 0] & same[:, 1]
        return whole
    magic = np.minimum(ours.magic, theirs.magic)
    found: NDArray[np.bool_] = (ours.content == theirs.content) & (ours.is_readable == theirs.is_readable)
    found &= (same[:, 0] | (magic < 1)) & (same[:, 1] | (magic < MAGIC))
    return found


class StoredRecord(NamedTuple):
    """A record with all that it holds, to be shown; ``leader_epoch`` and ``is_control`` are its batch's."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    leader_epoch: int
    is_control: bool


def read_digests(table: CopyTable, numbers: NDArray[np.int64], options: DiffOptions) -> Iterator[RecordDigests]:
    """The records of the rows with these numbers, in the order of the rows, some thousands at a time.

    Each part is in the order of its offsets. One part may begin before the end of the part before it: where entries
    overlap, or where the records of an entry are in disorder.

    Raises:
        KdumpError: a log cannot be opened or read.
    """
    reader = BlockReader(options.limit, with_records=True, only_valid=True)
    parts: list[RecordDigests] = []
    count = 0
    for stored in stored_batches(table, numbers):
        for part in _digests(stored, reader, options):
            parts.append(part)
            count += part.offset.size
            if count >= _TOGETHER:
                yield _joined(parts)
                parts, count = [], 0
    if parts:
        yield _joined(parts)


def read_stored(table: CopyTable, numbers: NDArray[np.int64], limit: int) -> Iterator[StoredRecord]:
    """The records of the rows with these numbers, one by one; those of a batch that cannot be read are left out.

    Raises:
        KdumpError: a log cannot be opened or read.
    """
    for stored in stored_batches(table, numbers):
        for number, (start, end) in zip(stored.numbers.tolist(), pairwise(stored.bounds), strict=True):
            row = table.rows[number]
            entry = stored.data[start:end]
            is_control = bool(row["magic"] >= MAGIC and row["attributes"] & CONTROL)
            try:
                for record in _scalar(entry, limit):
                    epoch = int(row["leader_epoch"])
                    yield StoredRecord(record.offset, record.timestamp, record.key, record.value, epoch, is_control)
            except DamageError:
                continue


class CopyContents:
    """A copy and its records. The last ones that were read are kept, if they are not many."""

    def __init__(self, copy: LoadedCopy, options: DiffOptions) -> None:
        self.copy = copy
        self.options = options
        self._kept_rows = np.zeros(copy.table.rows.size, np.bool_)
        self._kept: list[RecordDigests] = []

    def records(self, rows: NDArray[np.bool_]) -> Iterator[RecordDigests]:
        """The records of the rows, shape (rows of the table,), by the last offsets of the rows, some at a time.

        See ``read_digests``.

        Raises:
            KdumpError: a log cannot be read.
        """
        if not (rows & ~self._kept_rows).any():
            yield from [part.take(rows[part.row]) for part in self._kept]
            return
        table = self.copy.table
        kept: list[RecordDigests] | None = []
        count = 0
        for part in read_digests(table, table.order[rows[table.order]], self.options):
            count += part.offset.size
            if count > _MOST_KEPT:
                kept = None
            elif kept is not None:
                kept.append(part)
            yield part
        if kept is not None:
            self._kept_rows, self._kept = rows.copy(), kept

    def rising(self, rows: NDArray[np.bool_], late: Callable[[RecordDigests], None]) -> Iterator[RecordDigests]:
        """As ``records``, and the offsets rise from record to record.

        Args:
            rows: as in ``records``.
            late: takes the others: another record has their offset or a later one already, or their batch does not
                claim their offset.
        """
        table = self.copy.table
        reached = -(2**63)
        for part in self.records(rows):
            inside = (part.offset >= table.first[part.row]) & (part.offset <= table.last[part.row])
            highest = np.maximum.accumulate(np.where(inside, part.offset, reached))
            before = np.concatenate(([reached], highest[:-1]))
            rises = inside & (part.offset > np.maximum(before, reached))
            if not rises.all():
                late(part.take(~rises))
            risen = part if rises.all() else part.take(rises)
            if risen.offset.size:
                reached = int(risen.offset[-1])
                yield risen


@dataclass(frozen=True, slots=True)
class StoredBatches:
    """Some batches of a segment that lie side by side; the bytes of batch i are ``data[bounds[i]:bounds[i + 1]]``."""

    rows: Rows
    first: NDArray[np.int64]
    numbers: NDArray[np.int64]
    data: memoryview
    bounds: list[int]


def stored_batches(table: CopyTable, numbers: NDArray[np.int64]) -> Iterator[StoredBatches]:
    """The batches with these numbers, some at a time. It takes least time where the numbers rise."""
    rows = table.rows[numbers]
    ends = rows["position"] + rows["size"]
    segments = rows["segment"]
    goes_on = (segments[1:] == segments[:-1]) & (rows["position"][1:] > rows["position"][:-1])
    bounds = [0, *(np.flatnonzero(~goes_on) + 1).tolist(), numbers.size]
    for first, last in pairwise(bounds if numbers.size else []):
        with table.segments[int(segments[first])].open() as source:
            for part in _side_by_side(rows["position"], ends, first, last):
                start, end = int(rows["position"][part.start]), int(ends[part.stop - 1])
                source.stop = end
                data = source.read(start, end - start)
                if len(data) == end - start:
                    limits = [*(rows["position"][part] - start).tolist(), end - start]
                    first_offsets = table.first[numbers[part]]
                    yield StoredBatches(rows[part], first_offsets, numbers[part], memoryview(data), limits)


def _side_by_side(start: NDArray[np.int64], end: NDArray[np.int64], first: int, last: int) -> Iterator[slice]:
    """Parts of the batches ``first`` to ``last`` (exclusive) that lie side by side and are read together."""
    while first < last:
        stop = max(first + 1, first + int(np.searchsorted(end[first:last], start[first] + _BLOCK, side="right")))
        apart = np.flatnonzero(start[first + 1 : stop] != end[first : stop - 1])
        following = first + 1 + int(apart[0]) if apart.size else stop
        yield slice(first, following)
        first = following


def _digests(stored: StoredBatches, reader: BlockReader, options: DiffOptions) -> Iterator[RecordDigests]:
    """The records of some batches, batch by batch."""
    damaged = np.flatnonzero(~stored.rows["is_valid"]).tolist()
    for part in reader.read(stored.data, stored.bounds, 0, damaged=damaged):
        if isinstance(part, BatchBlock) and part.records is not None:
            yield from _of_block(part, stored, options)
        else:
            for number in range(part.first, part.last) if isinstance(part, EntryRange) else part.numbers.tolist():
                yield from _of_entry(stored, number, options)


def _of_block(block: BatchBlock, stored: StoredBatches, options: DiffOptions) -> Iterator[RecordDigests]:
    """The records of a block, and at their places those of the batches that were refused."""
    assert block.records is not None
    groups = RecordGroups.of_batches(block)
    numbers = stored.numbers[block.numbers]
    # A batch without records that was refused is read again.
    refused = np.flatnonzero(~(block.records.accepted & block.is_valid))
    places = iter([*zip(groups.bounds[refused].tolist(), block.numbers[refused].tolist(), strict=True), (-1, -1)])
    place, number = next(places)
    for first in range(0, groups.table.rows + 1, _TOGETHER):
        last = min(first + _TOGETHER, groups.table.rows)
        found = _of_groups(groups, first, last, numbers, options)
        begin = first
        while first <= place <= last:
            yield found.take(slice(begin - first, place - first))
            yield from _of_entry(stored, number, options)
            begin = place
            place, number = next(places)
        yield found.take(slice(begin - first, last - first))


def _of_entry(stored: StoredBatches, number: int, options: DiffOptions) -> Iterator[RecordDigests]:
    """The records of one batch or message by the scalar decoders; one that cannot be read is one record."""
    entry = stored.data[stored.bounds[number] : stored.bounds[number + 1]]
    row = int(stored.numbers[number])
    if not stored.rows["is_valid"][number]:
        yield _unreadable(row, int(stored.first[number]))
        return
    pieces = (_of_piece(piece, entry, row, options) for piece in in_pieces(_scalar(entry, options.limit)))
    try:
        first = list(islice(pieces, _HELD_PIECES))
        if len(first) == _HELD_PIECES and not _is_checked_first(entry):
            # Damage anywhere makes the whole batch unreadable.
            deque(_scalar(entry, options.limit), 0)
    except DamageError:
        yield _unreadable(row, int(stored.first[number]))
        return
    yield from first
    yield from pieces


def _scalar(entry: memoryview, limit: int) -> Iterator[Record]:
    """The records of one whole entry. Raises DamageError where they cannot be read."""
    if entry[MAGIC_OFFSET] < MAGIC:
        return legacy.plain_records(legacy.parse_message(entry), limit)
    return read_records(parse_header(entry), entry, limit)


def _is_checked_first(entry: memoryview) -> bool:
    """``read_records`` finds all damage before it gives the first record."""
    return entry[MAGIC_OFFSET] >= MAGIC and parse_header(entry).codec != NONE


def _of_piece(piece: list[Record], entry: memoryview, row: int, options: DiffOptions) -> RecordDigests:
    """Records of one entry."""
    header: BatchHeader | legacy.Message
    headers = None
    if entry[MAGIC_OFFSET] < MAGIC:
        header = legacy.parse_message(entry)
    else:
        header = parse_header(entry)
        headers = read_headers(np.frombuffer(entry, np.uint8), np.zeros(1, np.int64))
    groups = RecordGroups.of_entry(piece, header, headers)
    return _of_groups(groups, 0, groups.table.rows, np.array([row]), options)


def _of_groups(
    groups: RecordGroups, first: int, last: int, rows: NDArray[np.int64], options: DiffOptions
) -> RecordDigests:
    """The records ``first`` to ``last`` (exclusive) of some groups; ``rows``: of the batch table, shape (groups,)."""
    table = groups.table if last - first == groups.table.rows else groups.table.select(slice(first, last))
    group = np.searchsorted(groups.bounds, np.arange(first, last), side="right") - 1
    has_key, has_value = table.key_size >= 0, table.value_size >= 0
    key_size, value_size = np.maximum(table.key_size, 0), np.maximum(table.value_size, 0)
    fields = np.zeros((table.rows, 10), np.int64)
    fields[:, 0] = table.timestamp
    fields[:, 1] = table.key_size
    fields[:, 2] = table.value_size
    key = np.stack(digest_ranges(table.arena, table.key_start, key_size), axis=1)
    fields[:, 3:5] = key
    fields[:, 5] = hash_ranges(table.arena, table.value_start, value_size)
    fields[:, 6] = _header_hashes(table)
    if groups.headers is not None and not options.only_content:
        headers = groups.headers
        flags = native_column(headers, "attributes") & (TRANSACTIONAL | CONTROL)
        epoch = native_column(headers, "producer_epoch")
        fields[:, 7] = native_column(headers, "producer_id")[group]
        fields[:, 8] = (flags << 32 | epoch & 0xFFFF)[group]
        delta = table.offset - native_column(headers, "base_offset")[group]
        fields[:, 9] = record_sequences(native_column(headers, "base_sequence")[group], delta) if group.size else 0
    elif not options.only_content:
        fields[:, 7], fields[:, 8], fields[:, 9] = -1, 0xFFFF, -1
    content = _row_hashes(fields[:, 1:6])
    if options.only_content:
        digest = np.stack((_row_hashes(fields[:, :6]), fields[:, 6]), axis=1)
    else:
        digest = np.stack((_row_hashes(fields), _row_hashes(fields, _OTHER_SEED)), axis=1)
    readable = np.ones(table.rows, np.bool_)
    return RecordDigests(
        table.offset, rows[group], digest, content, groups.magic[group], key, has_key, has_value, readable
    )


def _row_hashes(fields: NDArray[np.int64], seed: int = _ROW_SEED) -> NDArray[np.int64]:
    """A hash of each row of numbers, shape (rows,)."""
    width = fields.shape[1] * 8
    starts = np.arange(fields.shape[0], dtype=np.int64) * width
    flat = np.ascontiguousarray(fields).view(np.uint8).ravel()
    return hash_ranges(flat, starts, np.full(fields.shape[0], width, np.int64), seed=seed)


def _header_hashes(table: RecordTable) -> NDArray[np.int64]:
    """Of the headers of each record, in their order; shape (rows,)."""
    found = np.zeros(table.rows, np.int64)
    headers = table.headers
    if not headers.key_size.size:
        return found
    owner = np.repeat(np.arange(table.rows), table.header_count)
    starts = np.cumsum(table.header_count) - table.header_count
    fields = np.empty((owner.size, 4), np.int64)
    fields[:, 0] = np.arange(owner.size) - starts[owner]
    fields[:, 1] = hash_ranges(table.arena, headers.key_start, headers.key_size)
    fields[:, 2] = headers.value_size
    fields[:, 3] = hash_ranges(table.arena, headers.value_start, np.maximum(headers.value_size, 0))
    at = np.arange(owner.size, dtype=np.int64) * 32
    hashes = hash_ranges(fields.view(np.uint8).ravel(), at, np.full(owner.size, 32), seed=_HEADER_SEED)
    np.add.at(found, owner, hashes)
    return found


def _unreadable(row: int, offset: int) -> RecordDigests:
    none = np.zeros(1, np.bool_)
    digest = np.array([_UNREADABLE], np.int64)
    number = np.zeros(1, np.int64)
    return RecordDigests(np.array([offset]), np.array([row]), digest, number, number, digest, none, none, none)


def _joined(parts: list[RecordDigests]) -> RecordDigests:
    joined = RecordDigests._make(np.concatenate(several) for several in zip(*parts, strict=True))
    if (joined.offset[1:] >= joined.offset[:-1]).all():
        return joined
    return joined.take(np.argsort(joined.offset, kind="stable"))
