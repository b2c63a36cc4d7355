"""Records of any magic as columns, as consumers see them, with the entries that held them: the encoders' input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from kdump.fast.blocks import BatchBlock
from kdump.fast.headers import native_column
from kdump.fast.recordheaders import HeaderColumns
from kdump.fast.records import RecordColumns
from kdump.fast.recordvalues import record_offsets, record_timestamps
from kdump.format.batch import CODEC_MASK, CONTROL, LOG_APPEND_TIME, MAGIC, BatchHeader
from kdump.format.control import KEY_SIZE
from kdump.format.legacy import Message
from kdump.format.record import Record
from kdump.wire.checksum import Buffer


@dataclass(frozen=True, slots=True)
class RecordTable:
    """Records in stored order; every array but the arena has the shape (rows,). Positions are indexes of the arena."""

    arena: NDArray[np.uint8]
    offset: NDArray[np.int64]
    """Absolute."""
    timestamp: NDArray[np.int64]
    """Milliseconds, -1 for none."""
    key_start: NDArray[np.int64]
    key_size: NDArray[np.int32]
    """Bytes, -1 for null."""
    value_start: NDArray[np.int64]
    value_size: NDArray[np.int32]
    """Bytes, -1 for null."""
    header_count: NDArray[np.int32]
    headers: HeaderColumns
    """All record headers, row by row."""

    @property
    def rows(self) -> int:
        """How many records."""
        return self.offset.size

    def select(self, rows: NDArray[np.bool_] | slice) -> Self:
        """Only some ``rows``: a mask of the shape (rows,), or a slice without a step."""
        if isinstance(rows, slice):
            ends = np.cumsum(self.header_count, dtype=np.int64)
            bounds = np.append(0, ends)[[rows.start, rows.stop]]
            headers = self.headers.select(slice(int(bounds[0]), int(bounds[1])))
        else:
            headers = self.headers.select(np.repeat(rows, self.header_count))
        return replace(
            self,
            offset=self.offset[rows],
            timestamp=self.timestamp[rows],
            key_start=self.key_start[rows],
            key_size=self.key_size[rows],
            value_start=self.value_start[rows],
            value_size=self.value_size[rows],
            header_count=self.header_count[rows],
            headers=headers,
        )

    @classmethod
    def of(cls, records: Sequence[Record]) -> Self:
        """A table of single records."""
        fields: list[Buffer] = []
        for record in records:
            fields += (record.key or b"", record.value or b"")
        first_header = len(fields)
        headers = [header for record in records for header in record.headers]
        for key, value in headers:
            fields += (key, value or b"")
        ends = np.cumsum(np.fromiter(map(len, fields), np.int64, len(fields)))
        starts = np.append(0, ends)[:-1]
        arena = np.frombuffer(b"".join(fields), np.uint8)
        header_count = np.fromiter((len(record.headers) for record in records), np.int32, len(records))
        columns = HeaderColumns(
            starts[first_header::2],
            _sizes([key for key, _ in headers]),
            starts[first_header + 1 :: 2],
            _sizes([value for _, value in headers]),
        )
        return cls(
            arena,
            _int64([record.offset for record in records]),
            _int64([record.timestamp for record in records]),
            starts[:first_header:2],
            _sizes([record.key for record in records]),
            starts[1:first_header:2],
            _sizes([record.value for record in records]),
            header_count,
            columns,
        )


@dataclass(frozen=True, slots=True)
class RecordGroups:
    """Records with the batches or messages that hold them; every other array has the shape (groups,)."""

    table: RecordTable
    bounds: NDArray[np.int64]
    """Shape (groups + 1,): the records of group g are the rows from ``bounds[g]`` to ``bounds[g + 1]``."""
    magic: NDArray[np.int64]
    codec: NDArray[np.int64]
    is_log_append_time: NDArray[np.bool_]
    """The broker set the timestamps: all records have the group's."""
    timestamp: NDArray[np.int64]
    """The largest one, as the batch or message has it; -1 for none."""
    headers: NDArray[np.void] | None = None
    """The batch headers of groups of magic 2, of ``format.batch.header_dtype``; None for others."""

    @property
    def count(self) -> int:
        """How many groups."""
        return self.codec.size

    @property
    def rows(self) -> NDArray[np.int64]:
        """Records of each group; shape (groups,)."""
        return np.diff(self.bounds)

    @property
    def is_control(self) -> NDArray[np.bool_]:
        """The records are markers of Kafka, not data; shape (groups,)."""
        if self.headers is None:
            return np.zeros(self.count, np.bool_)
        mask: NDArray[np.bool_] = self.headers["attributes"] & CONTROL != 0
        return mask

    @property
    def control_types(self) -> NDArray[np.int64]:
        """Of the first record of each group, as a control record; -1 where it is none. Shape (groups,)."""
        types = np.full(self.count, -1, np.int64)
        table, first = self.table, self.bounds[:-1]
        is_there = self.rows > 0
        is_there[is_there] = table.key_size[first[is_there]] >= KEY_SIZE
        end = table.key_start[first[is_there]] + KEY_SIZE
        types[is_there] = (table.arena[end - 2].astype(np.int64) << 8) | table.arena[end - 1]
        return types

    def select(self, groups: NDArray[np.bool_]) -> Self:
        """Only some groups; a mask of the shape (groups,)."""
        if groups.all():
            return self
        return replace(
            self,
            table=self.table.select(np.repeat(groups, self.rows)),
            bounds=_bounds(self.rows[groups]),
            magic=self.magic[groups],
            codec=self.codec[groups],
            is_log_append_time=self.is_log_append_time[groups],
            timestamp=self.timestamp[groups],
            headers=None if self.headers is None else self.headers[groups],
        )

    def between(self, first: int, last: int) -> Self:
        """Groups ``first`` to ``last`` (exclusive)."""
        if first == 0 and last == self.count:
            return self
        part = slice(first, last)
        return replace(
            self,
            table=self.table.select(slice(int(self.bounds[first]), int(self.bounds[last]))),
            bounds=self.bounds[first : last + 1] - self.bounds[first],
            magic=self.magic[part],
            codec=self.codec[part],
            is_log_append_time=self.is_log_append_time[part],
            timestamp=self.timestamp[part],
            headers=None if self.headers is None else self.headers[part],
        )

    def select_rows(self, rows: NDArray[np.bool_]) -> Self:
        """Only some records (a mask of the shape (rows,)), in the same groups."""
        if rows.all():
            return self
        ends = np.append(0, np.cumsum(rows, dtype=np.int64))
        return replace(self, table=self.table.select(rows), bounds=ends[self.bounds])

    def with_offsets(self, offset: NDArray[np.int64]) -> Self:
        """With other offsets; shape (rows,)."""
        return replace(self, table=replace(self.table, offset=offset))

    def regrouped(self, bounds: NDArray[np.int64]) -> Self:
        """Neighbouring groups put together.

        The new groups begin at the groups ``bounds[:-1]``, and have their values.
        """
        first = bounds[:-1]
        return replace(
            self,
            bounds=self.bounds[bounds],
            magic=self.magic[first],
            codec=self.codec[first],
            is_log_append_time=self.is_log_append_time[first],
            timestamp=np.maximum.reduceat(self.timestamp, first) if first.size else self.timestamp,
            headers=None,
        )

    @classmethod
    def of_batches(cls, block: BatchBlock) -> Self:
        """The batches of a block; those that were refused are empty. ValueError when records were not asked for."""
        if block.records is None:
            raise ValueError("the records were not decoded")
        return cls.of_columns(block.arena, block.records, block.headers)

    @classmethod
    def of_columns(cls, arena: NDArray[np.uint8], records: RecordColumns, headers: NDArray[np.void]) -> Self:
        """The batches of ``headers`` with those of their records that are in ``records``."""
        attributes = native_column(headers, "attributes")
        table = RecordTable(
            arena,
            record_offsets(headers, records),
            record_timestamps(headers, records),
            records.key_start,
            records.key_size,
            records.value_start,
            records.value_size,
            records.header_count,
            records.headers,
        )
        return cls(
            table,
            np.append(records.first_row, records.batch.size),
            np.full(attributes.size, MAGIC, np.int64),
            attributes & CODEC_MASK,
            attributes & LOG_APPEND_TIME != 0,
            native_column(headers, "max_timestamp"),
            headers,
        )

    @classmethod
    def of_entry(
        cls,
        records: Sequence[Record],
        entry: BatchHeader | Message,
        headers: NDArray[np.void] | None = None,
        count: int | None = None,
    ) -> Self:
        """A group of records of one batch or message.

        ``headers``: of a batch, shape (1,). ``count``: how many records the bounds tell of; None: those given.
        """
        return cls(
            RecordTable.of(records),
            np.array([0, len(records) if count is None else count]),
            np.array([entry.magic]),
            np.array([entry.codec]),
            np.array([entry.is_log_append_time]),
            np.array([entry.max_timestamp if isinstance(entry, BatchHeader) else entry.timestamp]),
            headers,
        )


def _bounds(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.append(0, np.cumsum(sizes, dtype=np.int64))


def _int64(values: Sequence[int]) -> NDArray[np.int64]:
    return np.array(values, np.int64)


def _sizes(values: Sequence[bytes | None]) -> NDArray[np.int32]:
    return np.fromiter((-1 if value is None else len(value) for value in values), np.int32, len(values))
