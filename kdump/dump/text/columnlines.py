"""The text of DumpLogSegments 4.4.0 for many batches at once, and for many messages of magic 0 and 1.

Source: docs/spec/dump-output.md#4-logs-and-checkpoints, docs/spec/dump-output.md#5-records. Control batches and
batches that ``fast.records`` refuses are left to the scalar path.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kdump.dump.text.decoders import DELETED, ContentsDecoder, TextDecoding
from kdump.dump.text.lines import contents_text
from kdump.fast.headers import native_column
from kdump.fast.legacymessages import stored_crcs
from kdump.fast.records import RecordColumns
from kdump.fast.recordvalues import RecordValues
from kdump.fast.sequences import last_sequences
from kdump.fast.text import Bytes, Choice, Column, Integer, Literal, RaggedText, assemble
from kdump.fast.utf8 import replace_malformed
from kdump.format.batch import (
    CODEC_MASK,
    CODEC_NAMES,
    CONTROL,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC,
    NO_TIMESTAMP_TYPE,
    TIMESTAMP_TYPES,
    TRANSACTIONAL,
)
from kdump.payloads.decoded import PayloadError
from kdump.reading.printing import BatchRun, TextBytes
from kdump.rows.decoded import contents_of, json_groups, merged

_BLOCK_ROWS: Final = 8192
"""Record lines assembled at a time."""
_TIMESTAMP_TYPES: Final = tuple(name.encode() for name in (NO_TIMESTAMP_TYPE, *TIMESTAMP_TYPES))
_BOOLEANS: Final = (b"false", b"true")
_Labelled: TypeAlias = tuple[bytes | Column, Column]


@dataclass(frozen=True, slots=True)
class RecordTextOptions:
    """What a record line shows."""

    metadata: bool = True
    """False: ``--skip-record-metadata``."""
    contents: bool = False
    """True: ``--print-data-log``, keys and payloads as UTF-8 text."""
    decoding: TextDecoding | None = None
    """Given: keys and payloads are what it makes of them."""
    after_crc: bytes = b""
    """After the CRC of a message."""


def batch_text(headers: NDArray[np.void], position: NDArray[np.int64], is_valid: NDArray[np.bool_]) -> RaggedText:
    """The batch line of every batch.

    ``headers``: structured, shape (batches,), all of messages of magic 0 and 1 or none. ``position``: of the batch in
    the file. ``is_valid``: size and CRC are right. ValueError when a codec id is none of Kafka's: the Java tool aborts
    within that line.
    """
    count = headers.size
    if not count:
        return RaggedText(np.empty(0, np.uint8), np.zeros(1, np.int64))
    attributes = headers["attributes"].astype(np.int64)
    codec = attributes & CODEC_MASK
    if codec.max() >= len(CODEC_NAMES):
        raise ValueError(f"codec id {codec.max()} has no name")
    base_offset = native_column(headers, "base_offset")
    time = Choice(_timestamp_type(headers), _TIMESTAMP_TYPES), Integer(native_column(headers, "max_timestamp"))
    size = b"size", Integer(native_column(headers, "batch_length") + LOG_OVERHEAD)
    magic = native_column(headers, "magic")
    ending: tuple[_Labelled, ...] = (
        (b"magic", Integer(magic)),
        (b"compresscodec", Choice(codec, tuple(name.encode() for name in CODEC_NAMES))),
        (b"crc", Integer(native_column(headers, "crc"))),
        (b"isvalid", Choice(is_valid, _BOOLEANS)),
    )
    if magic[0] < MAGIC:
        return _labelled(
            ((b"offset", Integer(base_offset)), (b"position", Integer(position)), time, size, *ending), count
        )
    base_sequence = native_column(headers, "base_sequence")
    last_offset_delta = native_column(headers, "last_offset_delta")
    horizon = _horizon_text(native_column(headers, "base_timestamp"), attributes & DELETE_HORIZON != 0)
    own: tuple[_Labelled, ...] = (
        (b"baseOffset", Integer(base_offset)),
        (b"lastOffset", Integer(base_offset + last_offset_delta)),
        (b"count", Integer(native_column(headers, "record_count"))),
        (b"baseSequence", Integer(base_sequence)),
        (b"lastSequence", Integer(last_sequences(base_sequence, last_offset_delta))),
        (b"producerId", Integer(native_column(headers, "producer_id"))),
        (b"producerEpoch", Integer(native_column(headers, "producer_epoch"))),
        (b"partitionLeaderEpoch", Integer(native_column(headers, "partition_leader_epoch"))),
        (b"isTransactional", Choice(attributes & TRANSACTIONAL != 0, _BOOLEANS)),
        (b"isControl", Choice(attributes & CONTROL != 0, _BOOLEANS)),
        (b"deleteHorizonMs", horizon),
        (b"position", Integer(position)),
    )
    return _labelled((*own, time, size, *ending), count)


def _timestamp_type(headers: NDArray[np.void]) -> NDArray[np.integer]:
    """The index of each batch in _TIMESTAMP_TYPES."""
    is_append_time = headers["attributes"] & LOG_APPEND_TIME != 0
    return np.where(headers["magic"] == 0, 0, 1 + is_append_time).astype(np.int8)


def _labelled(fields: Sequence[_Labelled], count: int) -> RaggedText:
    """Lines of fields, each with its label."""
    columns: list[Column] = []
    between = b""
    for label, column in fields:
        if isinstance(label, bytes):
            between += label
        else:
            columns += [Literal(between), label]
            between = b""
        columns += [Literal(between + b": "), column]
        between = b" "
    return assemble([*columns, Literal(b"\n")], count)


def _horizon_text(base_timestamp: NDArray[np.int64], is_set: NDArray[np.bool_]) -> Column:
    """``OptionalLong.empty`` or ``OptionalLong[<ms>]``."""
    if not is_set.any():
        return Literal(b"OptionalLong.empty")
    values = assemble([Literal(b"OptionalLong["), Integer(base_timestamp), Literal(b"]")], is_set.size)
    empty = RaggedText.join([b"OptionalLong.empty"])
    start = np.where(is_set, values.bounds[:-1] + empty.data.size, 0)
    size = np.where(is_set, np.diff(values.bounds), empty.data.size)
    return Bytes(np.concatenate((empty.data, values.data)), start, size)


def dump_runs(
    arena: NDArray[np.uint8],
    columns: RecordColumns,
    headers: NDArray[np.void],
    options: RecordTextOptions,
    batches: RaggedText,
    *,
    is_valid: NDArray[np.bool_] | None = None,
    log: NDArray[np.int64] | None = None,
) -> Iterator[BatchRun[TextBytes]]:
    """The text of all batches in order: each batch's line from ``batches``, then its record lines.

    ``arena`` and ``columns`` as for :func:`kdump.fast.records.decode_records`; ``headers``, ``batches``, ``is_valid``:
    a row a batch; the last is needed for messages of magic 0 and 1. ``log``: the number of each batch's log, if they
    are of several; a run has batches of one.
    Every batch is in exactly one run. A text is about half a megabyte to a few, or a batch if that is larger.
    """
    refused = ~columns.accepted | left_to_scalar(columns, headers, options)
    is_empty = ~refused & (columns.row_count == 0)
    kind = np.where(refused, 0, np.where(is_empty, 1, 2))
    lines = _RecordLines(arena, columns, headers, options, is_valid)
    key = kind if log is None else kind + 3 * log
    for first, last in _blocks(columns.row_count):
        text = lines.block(first, last, batches, kind[first:last] == 2)
        cuts = np.flatnonzero(np.diff(key[first:last], prepend=-1, append=-1)) + first
        for begin, end in pairwise(cuts.tolist()):
            match kind[begin]:
                case 0:
                    yield BatchRun(begin, end, None)
                case 1:
                    yield BatchRun(begin, end, batches.data[batches.bounds[begin] : batches.bounds[end]].data)
                case _:
                    lines.report(begin, end)
                    yield BatchRun(begin, end, text.data[text.bounds[begin - first] : text.bounds[end - first]].data)


def left_to_scalar(
    columns: RecordColumns | None, headers: NDArray[np.void], options: RecordTextOptions
) -> NDArray[np.bool_]:
    """Batches with records that have no columns of text; shape (batches,)."""
    left: NDArray[np.bool_] = headers["attributes"] & CONTROL != 0
    if columns is not None and options.decoding is not None and options.decoding.decoder.coordinator is not None:
        left[columns.batch[columns.key_size < 0]] = True
    return left


def _blocks(row_count: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Cut the batches into ranges of at most _BLOCK_ROWS rows and batches, of at least one batch."""
    rows_before = np.concatenate((np.zeros(1, np.int64), np.cumsum(row_count)))
    first = 0
    while first < row_count.size:
        last = int(np.searchsorted(rows_before, rows_before[first] + _BLOCK_ROWS, side="right")) - 1
        last = min(max(last, first + 1), first + _BLOCK_ROWS)
        yield first, last
        first = last


class _RecordLines:
    """Assembles record lines of ranges of batches."""

    def __init__(
        self,
        arena: NDArray[np.uint8],
        columns: RecordColumns,
        headers: NDArray[np.void],
        options: RecordTextOptions,
        is_valid: NDArray[np.bool_] | None = None,
    ) -> None:
        self._arena = arena
        self._headers = headers
        self._is_valid = is_valid
        self._timestamp_type = _timestamp_type(headers)
        self._records = columns
        self._options = options
        self._problems: list[tuple[int, int, PayloadError]] = []
        self._left_to_scalar = left_to_scalar(columns, headers, options)
        self._header_bounds = np.zeros(columns.batch.size + 1, np.int64)
        np.cumsum(columns.header_count, out=self._header_bounds[1:])
        self._values = RecordValues(headers, columns)

    def block(self, first: int, last: int, batches: RaggedText, with_line: NDArray[np.bool_]) -> RaggedText:
        """The text of batches ``first`` to ``last`` (exclusive), a piece a batch.

        Before the records of every batch in ``with_line`` (shape (last - first,), batches that have rows) comes its
        line from ``batches``.
        """
        records = self._records
        self._problems.clear()
        first_row = records.first_row[first:last]
        first_record = int(first_row[0])
        row_bounds = np.append(
            first_row - first_record, int(first_row[-1] + records.row_count[last - 1]) - first_record
        )
        count = int(row_bounds[-1])
        rows = slice(first_record, first_record + count)
        if not count:
            return RaggedText(np.empty(0, np.uint8), np.zeros(last - first + 1, np.int64))
        columns: list[Column] = [_prefix(batches, np.flatnonzero(with_line) + first, row_bounds[:-1][with_line], count)]
        if self._options.metadata:
            columns += self._metadata(rows)
        columns += self._contents(rows)
        columns.append(Literal(b"\n"))
        lines = assemble(columns, count)
        return _as_java_prints(RaggedText(lines.data, lines.bounds[row_bounds]))

    def report(self, first: int, last: int) -> None:
        """Say what does not decode of batches ``first`` to ``last`` (exclusive), whose text is about to be written."""
        for batch, offset, problem in self._problems:
            if first <= batch < last and self._options.decoding is not None:
                self._options.decoding.report(offset, problem)

    def _metadata(self, rows: slice) -> list[Column]:
        records = self._records
        return [
            Literal(b"| offset: "),
            Integer(self._values.offsets(rows)),
            Literal(b" "),
            Choice(self._timestamp_type.take(records.batch[rows]), _TIMESTAMP_TYPES),
            Literal(b": "),
            Integer(self._values.timestamps(rows)),
            Literal(b" keySize: "),
            Integer(records.key_size[rows].astype(np.int64)),
            Literal(b" valueSize: "),
            Integer(records.value_size[rows].astype(np.int64)),
            *(self._of_batches(rows) if self._is_valid is None else self._of_messages(rows, self._is_valid)),
        ]

    def _of_batches(self, rows: slice) -> list[Column]:
        sequences = Integer(self._values.sequences(rows))
        return [Literal(b" sequence: "), sequences, Literal(b" headerKeys: ["), self._header_keys(rows), Literal(b"]")]

    def _of_messages(self, rows: slice, is_valid: NDArray[np.bool_]) -> list[Column]:
        batch = self._records.batch[rows]
        crcs = stored_crcs(
            self._arena, self._records.key_start[rows], native_column(self._headers, "magic").take(batch)
        )
        valid = Choice(is_valid.take(batch), _BOOLEANS)
        return [Literal(b" isValid: "), valid, Literal(b" crc: "), Integer(crcs), Literal(self._options.after_crc)]

    def _header_keys(self, rows: slice) -> Column:
        """The header keys of each row with commas between them."""
        bounds = self._header_bounds[rows.start : rows.stop + 1]
        used = slice(int(bounds[0]), int(bounds[-1]))
        if used.start == used.stop:
            return Literal(b"")
        headers = self._records.headers
        keys = Bytes(self._arena, headers.key_start[used], headers.key_size[used])
        text = assemble([keys, Literal(b",")], used.stop - used.start)
        ends = text.bounds[bounds - used.start]
        return Bytes(text.data, ends[:-1], np.diff(ends) - 1)

    def _contents(self, rows: slice) -> list[Column]:
        if not self._options.contents:
            return []
        if self._options.decoding is not None:
            return self._decoded(rows, self._options.decoding.decoder)
        records = self._records
        key_size, value_size = records.key_size[rows], records.value_size[rows]
        # Without metadata, a line with contents begins with the bar, and one without is empty.
        bar = [] if self._options.metadata else [Choice(np.maximum(key_size, value_size) >= 0, (b"", b"|"))]
        return [
            *bar,
            Choice(key_size >= 0, (b"", b" key: ")),
            Bytes(self._arena, records.key_start[rows], key_size),
            Choice(value_size >= 0, (b"", b" payload: ")),
            Bytes(self._arena, records.value_start[rows], value_size),
        ]

    def _decoded(self, rows: slice, decoder: ContentsDecoder) -> list[Column]:
        records = self._records
        contents = contents_of(self._arena, records, rows)
        parts: list[tuple[NDArray[np.intp], RaggedText]] = []
        is_left = np.ones(contents.key_size.size, np.bool_)
        for group in json_groups(decoder.coordinator, contents) if decoder.coordinator is not None else ():
            payload = [Literal(DELETED.encode())] if group.value is None else group.value
            columns = [Literal(b" key: "), *group.key, Literal(b" payload: "), *payload]
            if group.rows.size == is_left.size:
                return [*self._bar(), *columns]
            parts.append((group.rows, assemble(columns, group.rows.size)))
            is_left[group.rows] = False
        # The scalar path reports what it prints.
        left = np.flatnonzero(is_left & ~self._left_to_scalar[records.batch[rows]])
        if left.size:
            batch = records.batch[rows][left]
            offset = self._values.offsets(rows)[left]
            texts = []
            for number, *record in zip(batch.tolist(), offset.tolist(), *contents.part(left).pairs(), strict=True):
                made = decoder.contents(*record)
                self._problems += [(number, record[0], problem) for problem in made.problems]
                texts.append(contents_text(made.key, made.payload).encode())
            parts.append((left, RaggedText.join(texts)))
        text = merged(is_left.size, parts)
        return [*self._bar(), Bytes(text.data, text.bounds[:-1], np.diff(text.bounds))]

    def _bar(self) -> list[Column]:
        """What a line without metadata begins with."""
        return [] if self._options.metadata else [Literal(b"|")]


def _prefix(batches: RaggedText, shown: NDArray[np.intp], at_row: NDArray[np.int64], count: int) -> Bytes:
    """The lines of batches ``shown`` in front of the rows ``at_row``, nothing in front of others."""
    start = np.zeros(count, np.int64)
    size = np.zeros(count, np.int64)
    start[at_row] = batches.bounds[shown]
    size[at_row] = batches.bounds[shown + 1] - batches.bounds[shown]
    return Bytes(batches.data, start, size)


def _as_java_prints(text: RaggedText) -> RaggedText:
    """Replace malformed UTF-8; text without any is returned as it is."""
    if text.data.max(initial=0) < 0x80:
        return text
    try:
        str(text.data.data, "utf-8")
    except UnicodeDecodeError:
        return RaggedText.join([piece if piece.isascii() else replace_malformed(piece) for piece in text.split()])
    return text
