"""The log that JSON lines of records describe.

Source: docs/contract.md#23-rows. Lines are what ``dump --output jsonl`` writes, or shorter ones written by hand: every
member may be missing. Records with the same batch in a dump are one batch again.
"""

from __future__ import annotations

import binascii
import json
from base64 import b64decode
from collections.abc import Iterator
from itertools import groupby, islice
from typing import Any, Final, NamedTuple

import numpy as np

from kdump.codes import Codes, KdumpError
from kdump.convert.batches import NEW_BATCH, write_batches
from kdump.convert.encodedlog import EncodedLog
from kdump.fast.recordtable import RecordGroups, RecordTable
from kdump.format.batch import (
    CODEC_NAMES,
    CONTROL,
    LOG_APPEND_TIME,
    MAGIC,
    MAX_INT32,
    NO_SEQUENCE,
    NO_TIMESTAMP_TYPE,
    TIMESTAMP_TYPES,
    TRANSACTIONAL,
    BatchHeader,
)
from kdump.format.legacy import NO_TIMESTAMP
from kdump.format.record import HEADER_COST, Headers, Record, most_headers
from kdump.kafka.downconvert import convert_down
from kdump.log.lines import lines_of
from kdump.log.source import Source
from kdump.reading.outcomes import OUTCOMES
from kdump.wire import compression
from kdump.wire.checksum import Buffer

_BLOCK: Final = 1 << 20
"""Bytes that are read, and about as many encoded, at a time."""
_BATCH_BYTES: Final = 16 << 10
"""Batch size for records without a named batch: a producer's batch.size."""
_MOST_BYTES: Final = compression.DEFAULT_LIMIT
"""Bytes of the records of a batch at most, where each header costs some more."""
_MOST_RECORDS: Final = 1 << 18
"""Records of a batch at most. Even an empty record takes more than 1,000 bytes of memory until its batch is written."""
_RECORD_BYTES: Final = 64
"""Bytes that a record counts at least where records are held, as it is an object."""
_TIMESTAMP_TYPES: Final = (*TIMESTAMP_TYPES, NO_TIMESTAMP_TYPE)
_MOST_SHOWN: Final = 80
"""Most characters of a value in a message."""
_MOST_HEADERS: Final = most_headers(compression.DEFAULT_LIMIT)
_INT64: Final = range(-(1 << 63), 1 << 63)


class _Line(NamedTuple):
    """A record, and the batch that its line names.

    The header has what the line tells about the batch. Without a base offset in the line it is that of the record.
    """

    record: Record
    batch: tuple[object, ...]
    header: BatchHeader
    size: int
    """Bytes of the key, the value and the headers."""


_JsonBatch = tuple[list[_Line], BatchHeader]
"""Lines of one batch, and the header of the batch."""


def _with_header(lines: list[_Line], before: int) -> _JsonBatch:
    """The batch begins where its lines say, unless they do not fit or that is not after the offset ``before``."""
    header, first, last = lines[0].header, lines[0].record, lines[-1].record
    base_offset = header.base_offset
    if not (before < base_offset <= first.offset and last.offset - base_offset <= MAX_INT32):
        base_offset = first.offset
    sequence = NO_SEQUENCE
    if first.sequence != NO_SEQUENCE:
        # Sequences run from 0 to MAX_INT32, then begin again.
        sequence = (first.sequence - (first.offset - base_offset)) & MAX_INT32
    return lines, header._replace(base_offset=base_offset, base_timestamp=first.timestamp, base_sequence=sequence)


class JsonLog(EncodedLog):
    """A source of log entries that are encoded from the JSON lines of another source.

    Raises:
        KdumpError: JSON_LINE with the number of the line; UNREADABLE.
    """

    def __init__(self, lines: Source) -> None:
        super().__init__(lines, self._encoded())

    def _encoded(self) -> Iterator[Buffer]:
        """The bytes of the log, some batches at a time."""
        pending: list[_JsonBatch] = []
        size = 0
        before = -1
        for lines in _batches(self._parsed()):
            pending.append(_with_header(lines, before))
            before = lines[-1].record.offset
            size += sum(line.size + _RECORD_BYTES for line in lines)
            if size >= _BLOCK:
                yield from _encode(pending)
                pending, size = [], 0
        yield from _encode(pending)

    def _parsed(self) -> Iterator[_Line]:
        offset = 0
        for number, text in enumerate(lines_of(self._of), 1):
            if not text or text.isspace():
                continue
            try:
                line = _parse(text, offset)
            except ValueError as error:
                raise KdumpError(Codes.JSON_LINE, f"line {number}: {error}", path=self.path) from None
            if line is not None:
                yield line
                offset = line.record.offset + 1


def _batches(lines: Iterator[_Line]) -> Iterator[list[_Line]]:
    """The lines of each batch; of lines without a named batch as many as fit a producer's batch.

    A batch of more than ``_MOST_RECORDS``, or of more than ``_MOST_BYTES``, becomes several.
    """
    for batch, group in groupby(lines, key=lambda line: line.batch):
        is_named = batch[:2] != (None, None)
        pending: list[_Line] = []
        size = 0
        for line in group:
            line_size = line.size
            if is_named and line.record.headers:
                line_size += HEADER_COST * len(line.record.headers)
            starts_anew = pending and (
                size + line_size > (_MOST_BYTES if is_named else _BATCH_BYTES)
                or len(pending) == _MOST_RECORDS
                or not 0 < line.record.offset - pending[-1].record.offset <= MAX_INT32
                or line.record.offset - pending[0].record.offset > MAX_INT32
            )
            if starts_anew:
                yield pending
                pending, size = [], 0
            pending.append(line)
            size += line_size
        yield pending


def _encode(batches: list[_JsonBatch]) -> Iterator[Buffer]:
    for magic, group in groupby(batches, key=lambda batch: batch[1].magic):
        chosen = list(group)
        headers = [header for _, header in chosen]
        table = RecordTable.of([line.record for lines, _ in chosen for line in lines])
        codec = np.array([header.codec for header in headers])
        groups = RecordGroups(
            table,
            np.append(0, np.cumsum([len(lines) for lines, _ in chosen])),
            np.full(len(chosen), magic),
            codec,
            np.array([header.is_log_append_time for header in headers]),
            np.array([max(line.record.timestamp for line in lines) for lines, _ in chosen]),
        )
        if magic == MAGIC:
            yield write_batches(groups, codec, None, headers, np.array([header.base_offset for header in headers])).data
        else:
            for encoded in convert_down(groups, magic, codec):
                yield encoded.data


def _parse(text: bytes, next_offset: int) -> _Line | None:
    """The record of a line; None for a finding of a dump. Raises ValueError with what is wrong."""
    row = _row(text)
    kind = row.get("type", "record")
    if kind == "finding":
        return None
    if kind != "record":
        raise ValueError(f"a row of type {_shown(kind)}, only records can be converted")
    for name in ("key", "value"):
        if name not in row and isinstance(row.get(f"{name}Size"), int) and row[f"{name}Size"] >= 0:
            raise ValueError(f"the {name} is left out (dump --deep-iteration does that, --records does not)")
    magic = _integer(row, "magic", MAGIC, range(MAGIC + 1))
    codec = _choice(row, "compression", CODEC_NAMES[: compression.LZ4 + 1] if magic < MAGIC else CODEC_NAMES)
    is_log_append_time = _choice(row, "timestampType", _TIMESTAMP_TYPES) == 1
    _check_outcome(row)
    attributes = codec
    for is_set, flag in (
        (is_log_append_time, LOG_APPEND_TIME),
        (_flag(row, "isTransactional"), TRANSACTIONAL),
        (_flag(row, "isControl"), CONTROL),
    ):
        attributes |= flag if is_set else 0
    headers = _read_headers(row.get("headers"))
    record = Record(
        _integer(row, "offset", next_offset, range(1 << 63)),
        _integer(row, "timestamp", NO_TIMESTAMP, _INT64),
        _integer(row, "sequence", -1, range(-1, 1 << 31)),
        _bytes(row.get("key"), "key"),
        _bytes(row.get("value"), "value"),
        headers,
    )
    _check_magic(record, row, magic)
    header = NEW_BATCH._replace(
        magic=magic,
        attributes=attributes,
        partition_leader_epoch=_integer(row, "partitionLeaderEpoch", -1, range(-1, 1 << 31)),
        producer_id=_integer(row, "producerId", -1, range(-1, 1 << 63)),
        producer_epoch=_integer(row, "producerEpoch", -1, range(-1, 1 << 15)),
        base_offset=_integer(row, "batchBaseOffset", record.offset, _INT64),
    )
    # An uncompressed message of magic 0 or 1 is an entry of its own.
    position = None if row.get("position") is None else _integer(row, "position", 0, _INT64)
    place = position if magic == MAGIC or codec else record.offset
    append_time = record.timestamp if is_log_append_time else None
    file = row.get("file")
    if not (file is None or isinstance(file, str)):
        raise ValueError(f"file is {_shown(file)}, not text")
    # Lines of several segments may follow each other, each with an entry at position 0.
    batch: tuple[object, ...] = (
        place,
        row.get("batchBaseOffset"),
        file,
        append_time,
        header._replace(base_offset=0),
    )
    if place is None:
        # Records without a named batch stay together as long as their sequences continue.
        batch = (*batch, record.sequence - record.offset if record.sequence >= 0 else None)
    size = sum(len(key) + len(value or b"") for key, value in ((record.key or b"", record.value), *headers))
    return _Line(record, batch, header, size)


def _row(line: bytes) -> dict[str, Any]:
    """The object of a line. Raises ValueError with what is wrong."""
    try:
        # From bytes, json would also accept UTF-16 and UTF-32, and guess them where a line is damaged.
        row = json.loads(line.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"no JSON: {error}") from None
    if not isinstance(row, dict):
        raise ValueError("not a JSON object")
    return row


def _check_magic(record: Record, row: dict[str, Any], magic: int) -> None:
    """Raise ValueError for what a record of this magic would lose."""
    if magic == MAGIC:
        return
    lost = {
        "headers": bool(record.headers),
        "timestamp": magic == 0 and record.timestamp != NO_TIMESTAMP,
        "producer": row.get("producerId") not in (None, -1),
        "transaction": row.get("isTransactional") is True or row.get("isControl") is True,
    }
    for name, is_lost in lost.items():
        if is_lost:
            raise ValueError(f"a record of magic {magic} has no {name}")


def _check_outcome(row: dict[str, Any]) -> None:
    """Raise ValueError for an impossible outcome of a transaction. The markers among the lines decide it again."""
    outcome = row.get("txnState")
    if outcome is None:
        return
    _choice(row, "txnState", OUTCOMES)
    if row.get("isTransactional") is not True:
        raise ValueError(f"txnState is {_shown(outcome)}, but isTransactional is not true")


def _shown(value: object) -> str:
    """A value in a message: an array or object by its kind only, as it may be deep; a long value is cut."""
    if isinstance(value, list | dict):
        return "an array" if isinstance(value, list) else "an object"
    text = repr(value)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."


def _integer(row: dict[str, Any], name: str, default: int, values: range) -> int:
    value = row.get(name)
    if value is None:
        value = default
    if not isinstance(value, int) or isinstance(value, bool) or value not in values:
        raise ValueError(f"{name} is {_shown(value)}, not a number from {values.start} to {values.stop - 1}")
    return value


def _flag(row: dict[str, Any], name: str) -> bool:
    value = row.get(name)
    if not (value is None or isinstance(value, bool)):
        raise ValueError(f"{name} is {_shown(value)}, not true or false")
    return bool(value)


def _choice(row: dict[str, Any], name: str, choices: tuple[str, ...]) -> int:
    """The number of a choice, 0 without one."""
    value = row.get(name)
    if value is None:
        return 0
    if value not in choices:
        raise ValueError(f"{name} is {_shown(value)}, not one of {', '.join(choices)}")
    return choices.index(value)


def _bytes(value: object, what: str) -> bytes | None:
    if value is None:
        return None
    match value:
        case str():
            try:
                return value.encode()
            except UnicodeEncodeError:
                raise ValueError(f"the {what} has a lone surrogate, which is no text") from None
        case {"base64": str() as data, **rest} if not rest:
            try:
                return b64decode(data, validate=True)
            except binascii.Error as error:
                raise ValueError(f"the {what} is no base64: {error}") from None
    raise ValueError(f'the {what} is neither text nor {{"base64": "..."}} nor null')


def _read_headers(value: object) -> Headers:
    """The headers of a record."""
    headers = () if value is None else tuple(islice(_headers(value), _MOST_HEADERS + 1))
    if len(headers) > _MOST_HEADERS:
        raise ValueError(f"more than {_MOST_HEADERS:,} headers")
    return headers


def _headers(value: object) -> Iterator[tuple[bytes, bytes | None]]:
    for pair in value if isinstance(value, list) else [None]:
        if not isinstance(pair, list) or len(pair) != 2:
            raise ValueError("headers is no array of [key, value] pairs")
        key = _bytes(pair[0], "header key")
        if key is None:
            raise ValueError("a header key is null")
        yield key, _bytes(pair[1], "header value")
