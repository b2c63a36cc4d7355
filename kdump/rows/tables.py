"""The tables of batches and records. A column is declared here, once; every output iterates over the table.

Source: docs/contract.md#23-rows. Every row of JSON lines begins with the columns of ``FILE``. A column has two forms,
side by side: of one row, and of many. Each serves batches, records and messages of every magic.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Final

from kdump.format.batch import (
    CODEC_MASK,
    CODEC_NAMES,
    CONTROL,
    DELETE_HORIZON,
    LOG_OVERHEAD,
    TRANSACTIONAL,
)
from kdump.reading.printing import WRONG_CRC, WRONG_MESSAGE_CRC
from kdump.rows.columns import FILE, Column, ColumnType, Meaning, Table

NEXT_OFFSET: Final = "nextOffset"
"""The column that only logs of another world may have."""

_INT32, _INT64, _BOOLEAN, _TEXT = ColumnType.INT32, ColumnType.INT64, ColumnType.BOOLEAN, ColumnType.TEXT


def _header(name: str, kind: ColumnType, field: str, verbs: str = "") -> Column:
    """A column with a header field as it is stored."""
    get = attrgetter(f"header.{field}")
    return Column(name, kind, of_row=get, of_many=lambda of: of.stored(field), is_shared=True, verbs=verbs)


def _flag(name: str, field: str, bit: int) -> Column:
    """A column with an attribute of batches."""
    get = attrgetter(f"header.{field}")
    return Column(name, _BOOLEAN, of_row=get, of_many=lambda of: of.attribute(bit), is_shared=True)


_PRODUCER: Final = (
    _header("producerId", _INT64, "producer_id", "x"),
    _header("producerEpoch", _INT32, "producer_epoch", "y"),
    _header("partitionLeaderEpoch", _INT32, "partition_leader_epoch", "e"),
    _flag("isTransactional", "is_transactional", TRANSACTIONAL),
    _flag("isControl", "is_control", CONTROL),
)
_POSITION: Final = Column(
    "position",
    _INT64,
    of_row=attrgetter("position"),
    of_many=lambda of: of.numbers(of.position),
    is_shared=True,
)
_TIMESTAMP_TYPE: Final = Column(
    "timestampType",
    _TEXT,
    Meaning.TIMESTAMP_TYPE,
    of_row=attrgetter("header.timestamp_type"),
    of_many=lambda of: of.timestamp_types(),
    is_shared=True,
)
_MAGIC: Final = _header("magic", _INT32, "magic")
_COMPRESSION: Final = Column(
    "compression",
    _TEXT,
    of_row=attrgetter("header.codec_name"),
    of_many=lambda of: of.choices(of.header("attributes") & CODEC_MASK, CODEC_NAMES),
    is_shared=True,
)
# A message of magic 0 or 1 inside a wrapper has its own CRC, to which ``isValid`` of its row refers.
_CRC: Final = _header("crc", _INT64, "crc")
_IS_VALID: Final = Column(
    "isValid", _BOOLEAN, of_row=attrgetter("is_valid"), of_many=lambda of: of.flags(of.is_valid), is_shared=True
)

_CONTENTS: Final = (
    Column(
        "key",
        ColumnType.BYTES,
        of_row=attrgetter("record.key"),
        of_many=lambda of: of.strings(of.records.key_start, of.records.key_size),
        verbs="k",
    ),
    Column(
        "value",
        ColumnType.BYTES,
        of_row=attrgetter("record.value"),
        of_many=lambda of: of.strings(of.records.value_start, of.records.value_size),
        verbs="vs",
    ),
)
_DECODED: Final = (
    # Their form of one row is ``scalar.add_decoded``, which also reports what does not decode.
    Column(
        "decodedKey",
        ColumnType.VALUE,
        of_many=lambda of: of.json("key"),
        decodes="key",
    ),
    Column(
        "decodedValue",
        ColumnType.VALUE,
        of_many=lambda of: of.json("value"),
        decodes="value",
    ),
)
_HEADERS: Final = Column(
    "headers",
    ColumnType.HEADERS,
    of_row=attrgetter("record.headers"),
    of_many=lambda of: of.headers(with_values=True),
    verbs="h",
)
_HEADER_KEYS: Final = Column(
    "headerKeys",
    ColumnType.BYTES_LIST,
    of_row=lambda of: [key for key, _ in of.record.headers],
    of_many=lambda of: of.headers(with_values=False),
)
_RECORD_TIME: Final = (
    Column(
        "offset",
        _INT64,
        of_row=attrgetter("record.offset"),
        of_many=lambda of: of.numbers(of.values.offsets()),
        verbs="o",
    ),
    Column(
        "timestamp",
        _INT64,
        Meaning.RECORD_TIME,
        of_row=attrgetter("record.timestamp"),
        of_many=lambda of: of.timestamps(),
        verbs="Td",
    ),
    _TIMESTAMP_TYPE,
)
_RECORD_METADATA: Final = (
    Column(
        "keySize",
        _INT32,
        of_row=attrgetter("record.key_size"),
        of_many=lambda of: of.numbers(of.records.key_size),
        verbs="K",
    ),
    Column(
        "valueSize",
        _INT32,
        of_row=attrgetter("record.value_size"),
        of_many=lambda of: of.numbers(of.records.value_size),
        verbs="VS",
    ),
    Column("sequence", _INT32, of_row=attrgetter("record.sequence"), of_many=lambda of: of.sequences()),
    *_PRODUCER,
    # Control batches are shown row by row.
    Column("controlType", _TEXT, of_row=attrgetter("control.type"), of_many=lambda of: of.null(), is_shared=True),
    Column(
        "control", ColumnType.OBJECT, of_row=attrgetter("control.value"), of_many=lambda of: of.null(), is_shared=True
    ),
    Column("txnState", _TEXT, of_row=attrgetter("txn_state"), of_many=lambda of: of.txn_states(), is_shared=True),
    _MAGIC,
    _COMPRESSION,
    _header("batchBaseOffset", _INT64, "base_offset"),
    _POSITION,
    _CRC,
    _IS_VALID,
    Column(
        "problem",
        _TEXT,
        of_row=attrgetter("control.problem"),
        of_many=lambda of: of.choices(of.is_valid, (WRONG_MESSAGE_CRC if of.are_messages else WRONG_CRC, None)),
        is_shared=True,
    ),
)

_NEXT_OFFSET: Final = Column(NEXT_OFFSET, _INT64, of_row=lambda of: None, of_many=lambda of: of.null(), is_shared=True)
"""Null in the logs of today, where it is asked for."""

RECORD: Final = Table(
    "record",
    (*FILE, *_RECORD_TIME, *_CONTENTS, _HEADERS, *_RECORD_METADATA),
    others=(_HEADER_KEYS, *_DECODED, _NEXT_OFFSET),
    shown=("offset", "timestamp", "key", "value", "headers", "producerId", "txnState", "controlType", "problem"),
)
"""Records with their contents (``--print-data-log``). Sizes in bytes, timestamps in ms."""
RECORD_DECODED: Final = Table(
    "record",
    (*FILE, *_RECORD_TIME, *_CONTENTS, *_DECODED, _HEADERS, *_RECORD_METADATA),
    others=(_HEADER_KEYS, _NEXT_OFFSET),
    shown=(
        "offset",
        "timestamp",
        "decodedKey",
        "key",
        "decodedValue",
        "value",
        "headers",
        "producerId",
        "txnState",
        "problem",
    ),
)
"""Records with their contents and decoded contents (with a decoder)."""
RECORD_METADATA: Final = Table(
    "record",
    (*FILE, *_RECORD_TIME, _HEADER_KEYS, *_RECORD_METADATA),
    others=(*_CONTENTS, *_DECODED, _HEADERS, _NEXT_OFFSET),
    shown=("offset", "timestamp", "keySize", "valueSize", "headerKeys", "producerId", "txnState", "controlType"),
)
"""Records without key, value and header values (``--deep-iteration``)."""
BATCH: Final = Table(
    "batch",
    (
        *FILE,
        _header("baseOffset", _INT64, "base_offset"),
        Column(
            "lastOffset",
            _INT64,
            of_row=attrgetter("header.last_offset"),
            of_many=lambda of: of.numbers(of.header("base_offset") + of.header("last_offset_delta")),
        ),
        _header("count", _INT32, "record_count"),
        _header("baseSequence", _INT32, "base_sequence"),
        Column(
            "lastSequence",
            _INT32,
            of_row=attrgetter("header.last_sequence"),
            of_many=lambda of: of.last_sequences(),
        ),
        *_PRODUCER,
        Column(
            "deleteHorizonMs",
            _INT64,
            Meaning.TIME,
            of_row=attrgetter("header.delete_horizon_ms"),
            of_many=lambda of: of.numbers(of.header("base_timestamp"), of.has(DELETE_HORIZON)),
        ),
        _POSITION,
        _TIMESTAMP_TYPE,
        Column(
            "maxTimestamp",
            _INT64,
            Meaning.TIME,
            of_row=attrgetter("header.max_timestamp"),
            of_many=lambda of: of.largest_timestamps(),
        ),
        Column(
            "size",
            _INT32,
            of_row=attrgetter("header.size"),
            of_many=lambda of: of.numbers(of.header("batch_length") + LOG_OVERHEAD),
        ),
        _MAGIC,
        _COMPRESSION,
        _CRC,
        _IS_VALID,
    ),
    others=(_NEXT_OFFSET,),
    shown=(
        "baseOffset",
        "lastOffset",
        "count",
        "position",
        "size",
        "maxTimestamp",
        "compression",
        "producerId",
        "isTransactional",
        "isControl",
        "isValid",
    ),
)
