"""The records of some batches of a copy as digests: what is compared where headers and CRCs differ.

Records are the same if offset, producer, sequence, timestamp, key, value and headers are, and if both or neither are
control records or in a transaction. Leader epoch, compression and the grouping into batches are no part of a record.

Source: docs/spec/replicas.md#3-where-a-follower-truncates.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kdump.codes import DamageError
from kdump.diff.table import CopyTable, Opener, Rows
from kdump.fast.blocks import BatchBlock, BlockReader
from kdump.fast.hashing import digest_ranges, hash_ranges
from kdump.fast.headers import native_column, read_headers
from kdump.fast.recordtable import RecordGroups, RecordTable
from kdump.fast.sequences import record_sequences
from kdump.format import legacy
from kdump.format.batch import CONTROL, MAGIC, MAGIC_OFFSET, TRANSACTIONAL, BatchHeader, parse_header
from kdump.format.record import Record, in_pieces, read_records
from kdump.wire.compression import DEFAULT_LIMIT

_BLOCK: Final = 4 << 20
"""Bytes of batches that are read together, unless one is larger."""
_UNREADABLE: Final = (0x756E7265, 0x61646162)
"""The digest of a batch that cannot be read."""
_HEADER_SEED: Final = 0x1F83D9ABFB41BD6B
_ROW_SEED: Final = 0x5BE0CD19137E2179
_OTHER_SEED: Final = 0x3C6EF372FE94F82B


class ContentOptions(NamedTuple):
    """How records are compared.

    ``limit``: most bytes that one batch may decompress to. ``only_content``: leave out what a copy that is no replica
    has otherwise: producers, sequences, transactions.
    """

    limit: int = DEFAULT_LIMIT
    only_content: bool = False


@dataclass(frozen=True, slots=True)
class RecordDigests:
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

    def joined(self, other: RecordDigests) -> RecordDigests:
        """Itself and others, in the order of the offsets."""
        return _joined([self, other])

    def take(self, records: NDArray[np.int64] | NDArray[np.bool_]) -> RecordDigests:
        """Some of them."""
        return RecordDigests(
            self.offset[records],
            self.row[records],
            self.digest[records],
            self.content[records],
            self.magic[records],
            self.key[records],
            self.has_key[records],
            self.has_value[records],
            self.is_readable[records],
        )


def same_records(ours: RecordDigests, theirs: RecordDigests, options: ContentOptions) -> NDArray[np.bool_]:
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


def read_digests(
    table: CopyTable, numbers: NDArray[np.int64], opened: Opener, options: ContentOptions
) -> RecordDigests:
    """The records of the rows with these numbers.

    Raises:
        KdumpError: a log cannot be opened or read.
    """
    reader = BlockReader(options.limit, with_records=True, only_valid=True)
    parts = [_none()]
    for stored in stored_batches(table, numbers, opened):
        parts += _digests(stored, reader, options)
    return _joined(parts)


def read_stored(table: CopyTable, numbers: NDArray[np.int64], opened: Opener, limit: int) -> Iterator[StoredRecord]:
    """The records of the rows with these numbers, one by one; those of a batch that cannot be read are left out.

    Raises:
        KdumpError: a log cannot be opened or read.
    """
    for stored in stored_batches(table, numbers, opened):
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


@dataclass(frozen=True, slots=True)
class StoredBatches:
    """Some batches of a segment that lie side by side; the bytes of batch i are ``data[bounds[i]:bounds[i + 1]]``."""

    rows: Rows
    first: NDArray[np.int64]
    numbers: NDArray[np.int64]
    data: memoryview
    bounds: list[int]


def stored_batches(table: CopyTable, numbers: NDArray[np.int64], opened: Opener) -> Iterator[StoredBatches]:
    """The batches with these numbers, which rise, some at a time."""
    rows = table.rows[numbers]
    ends = rows["position"] + rows["size"]
    segments = rows["segment"]
    bounds = [0, *(np.flatnonzero(segments[1:] != segments[:-1]) + 1).tolist(), numbers.size]
    for first, last in pairwise(bounds if numbers.size else []):
        with opened(int(segments[first])) as source:
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


def _digests(stored: StoredBatches, reader: BlockReader, options: ContentOptions) -> Iterator[RecordDigests]:
    damaged = np.flatnonzero(~stored.rows["is_valid"]).tolist()
    is_read = np.zeros(stored.numbers.size, np.bool_)
    for part in reader.read(stored.data, stored.bounds, 0, damaged=damaged):
        if isinstance(part, BatchBlock) and part.records is not None:
            is_read[part.numbers[part.records.accepted & part.is_valid]] = True
            groups = RecordGroups.of_batches(part)
            # A batch without records that was refused is read again below.
            yield _of_groups(groups, stored.numbers[part.numbers], options)
    for number in np.flatnonzero(~is_read).tolist():
        entry = stored.data[stored.bounds[number] : stored.bounds[number + 1]]
        row = int(stored.numbers[number])
        if not stored.rows["is_valid"][number]:
            yield _unreadable(row, int(stored.first[number]))
            continue
        try:
            found = [_of_piece(piece, entry, row, options) for piece in in_pieces(_scalar(entry, options.limit))]
        except DamageError:
            yield _unreadable(row, int(stored.first[number]))
            continue
        yield from found


def _scalar(entry: memoryview, limit: int) -> Iterator[Record]:
    """The records of one whole entry. Raises DamageError where they cannot be read."""
    if entry[MAGIC_OFFSET] < MAGIC:
        return legacy.plain_records(legacy.parse_message(entry), limit)
    return read_records(parse_header(entry), entry, limit)


def _of_piece(piece: list[Record], entry: memoryview, row: int, options: ContentOptions) -> RecordDigests:
    header: BatchHeader | legacy.Message
    headers = None
    if entry[MAGIC_OFFSET] < MAGIC:
        header = legacy.parse_message(entry)
    else:
        header = parse_header(entry)
        headers = read_headers(np.frombuffer(entry, np.uint8), np.zeros(1, np.int64))
    return _of_groups(RecordGroups.of_entry(piece, header, headers), np.array([row]), options)


def _of_groups(groups: RecordGroups, rows: NDArray[np.int64], options: ContentOptions) -> RecordDigests:
    table = groups.table
    group = np.repeat(np.arange(groups.count), groups.rows)
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
    columns = zip(*(_columns(part) for part in parts), strict=True)
    joined = RecordDigests(*(np.concatenate(several) for several in columns))
    order = np.argsort(joined.offset, kind="stable")
    return joined if (order[1:] > order[:-1]).all() else joined.take(order)


def _none() -> RecordDigests:
    numbers, digests, flags = np.empty(0, np.int64), np.empty((0, 2), np.int64), np.empty(0, np.bool_)
    return RecordDigests(numbers, numbers, digests, numbers, numbers, digests, flags, flags, flags)


def _columns(part: RecordDigests) -> tuple[NDArray[np.generic], ...]:
    return (
        part.offset, part.row, part.digest, part.content, part.magic, part.key, part.has_key, part.has_value,
        part.is_readable,
    )  # fmt: skip
