"""The tables of batches and records. A column is declared here, once; every output iterates over the table.

Source: docs/contract.md#23-rows. Every row of JSON lines begins with the columns of ``FILE``. A column has a scalar
form, for one batch or record, and a columnar form, for many at a time. Both stand side by side.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Final

from kdump.format.batch import (
    CODEC_MASK,
    CODEC_NAMES,
    CONTROL,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    TIMESTAMP_TYPES,
    TRANSACTIONAL,
    codec_name,
)
from kdump.rows.schema import FILE, Column, ColumnType, Getter, Meaning, Table

NEXT_OFFSET: Final = "nextOffset"
"""The column that only logs of Kafka 0.7 have; see ``rows.tables07``."""
WRONG_CRC: Final = "the CRC of the batch is wrong"
"""``problem`` of records that are shown although the CRC of their batch is wrong."""


_INT32, _INT64, _BOOLEAN, _TEXT = ColumnType.INT32, ColumnType.INT64, ColumnType.BOOLEAN, ColumnType.TEXT


def _header(name: str, kind: ColumnType, field: str, *, of_legacy: Getter | None = None, verbs: str = "") -> Column:
    """A column with a header field as it is stored."""
    return Column(
        name,
        kind,
        of_batch=attrgetter(f"header.{field}"),
        of_legacy=of_legacy,
        of_batches=lambda of: of.stored(field),
        verbs=verbs,
    )


_PRODUCER: Final = (
    _header("producerId", _INT64, "producer_id", verbs="x"),
    _header("producerEpoch", _INT32, "producer_epoch", verbs="y"),
    _header("partitionLeaderEpoch", _INT32, "partition_leader_epoch", verbs="e"),
    Column(
        "isTransactional",
        _BOOLEAN,
        of_batch=attrgetter("header.is_transactional"),
        of_batches=lambda of: of.flags(of.has(TRANSACTIONAL)),
    ),
    Column(
        "isControl",
        _BOOLEAN,
        of_batch=attrgetter("header.is_control"),
        of_batches=lambda of: of.flags(of.has(CONTROL)),
    ),
)
_POSITION: Final = Column(
    "position",
    _INT64,
    of_batch=attrgetter("position"),
    of_legacy=attrgetter("position"),
    of_batches=lambda of: of.numbers(of.position),
)
_TIMESTAMP_TYPE: Final = Column(
    "timestampType",
    _TEXT,
    Meaning.TIMESTAMP_TYPE,
    of_batch=attrgetter("header.timestamp_type"),
    of_legacy=attrgetter("header.timestamp_type"),
    of_batches=lambda of: of.choices(of.has(LOG_APPEND_TIME), TIMESTAMP_TYPES),
)
_MAGIC: Final = _header("magic", _INT32, "magic", of_legacy=attrgetter("header.magic"))
_COMPRESSION: Final = Column(
    "compression",
    _TEXT,
    of_batch=lambda of: codec_name(of.header.codec),
    of_legacy=lambda of: codec_name(of.header.codec),
    of_batches=lambda of: of.choices(of.header("attributes") & CODEC_MASK, CODEC_NAMES),
)
_CRC: Final = _header("crc", _INT64, "crc", of_legacy=attrgetter("header.crc"))
_IS_VALID: Final = Column(
    "isValid",
    _BOOLEAN,
    of_batch=attrgetter("is_valid"),
    of_legacy=attrgetter("is_valid"),
    of_batches=lambda of: of.flags(of.is_valid),
)

_CONTENTS: Final = (
    Column(
        "key",
        ColumnType.BYTES,
        of_row=attrgetter("record.key"),
        of_legacy=lambda of: of.record.message.key(),
        of_records=lambda of, rows: of.strings(of.records.key_start[rows], of.records.key_size[rows]),
        verbs="k",
    ),
    Column(
        "value",
        ColumnType.BYTES,
        of_row=attrgetter("record.value"),
        of_legacy=lambda of: of.record.message.value(),
        of_records=lambda of, rows: of.strings(of.records.value_start[rows], of.records.value_size[rows]),
        verbs="vs",
    ),
)
_DECODED: Final = (
    # Their scalar form is ``scalar.add_decoded``, which also reports what does not decode.
    Column(
        "decodedKey",
        ColumnType.VALUE,
        of_records=lambda of, rows: of.json(None if of.decoded is None else of.decoded.key, rows),
        decodes="key",
    ),
    Column(
        "decodedValue",
        ColumnType.VALUE,
        of_records=lambda of, rows: of.json(None if of.decoded is None else of.decoded.value, rows),
        decodes="value",
    ),
)
_HEADERS: Final = Column(
    "headers",
    ColumnType.HEADERS,
    of_row=attrgetter("record.headers"),
    of_legacy=lambda of: (),
    of_records=lambda of, rows: of.headers(rows, with_values=True),
    verbs="h",
)
_HEADER_KEYS: Final = Column(
    "headerKeys",
    ColumnType.BYTES_LIST,
    of_row=attrgetter("header_keys"),
    of_legacy=lambda of: [],
    of_records=lambda of, rows: of.headers(rows, with_values=False),
)
_RECORD_TIME: Final = (
    Column(
        "offset",
        _INT64,
        of_row=attrgetter("record.offset"),
        of_legacy=attrgetter("record.offset"),
        of_records=lambda of, rows: of.numbers(of.values.offsets(rows)),
        verbs="o",
    ),
    Column(
        "timestamp",
        _INT64,
        Meaning.RECORD_TIME,
        of_row=attrgetter("record.timestamp"),
        of_legacy=lambda of: None if of.header.magic == 0 else of.record.timestamp,
        of_records=lambda of, rows: of.numbers(of.values.timestamps(rows)),
        verbs="Td",
    ),
    _TIMESTAMP_TYPE,
)
_RECORD_METADATA: Final = (
    Column(
        "keySize",
        _INT32,
        of_row=lambda of: -1 if of.record.key is None else len(of.record.key),
        of_legacy=lambda of: of.record.message.key_size(),
        of_records=lambda of, rows: of.numbers(of.records.key_size[rows]),
        verbs="K",
    ),
    Column(
        "valueSize",
        _INT32,
        of_row=lambda of: -1 if of.record.value is None else len(of.record.value),
        of_legacy=lambda of: of.record.message.value_size(),
        of_records=lambda of, rows: of.numbers(of.records.value_size[rows]),
        verbs="VS",
    ),
    Column(
        "sequence",
        _INT32,
        of_row=attrgetter("record.sequence"),
        of_records=lambda of, rows: of.numbers(of.values.sequences(rows)),
    ),
    *_PRODUCER,
    # Control batches are shown by the scalar path.
    Column("controlType", _TEXT, of_row=attrgetter("control.type"), of_batches=lambda of: of.null()),
    Column("control", ColumnType.OBJECT, of_row=attrgetter("control.value"), of_batches=lambda of: of.null()),
    Column("txnState", _TEXT, of_batch=attrgetter("txn_state"), of_batches=lambda of: of.txn_states()),
    _MAGIC,
    _COMPRESSION,
    _header("batchBaseOffset", _INT64, "base_offset"),
    _POSITION,
    # Each message of magic 0 and 1 has its own CRC, to which ``isValid`` of the row refers.
    _header("crc", _INT64, "crc", of_legacy=attrgetter("record.message.crc")),
    _IS_VALID,
    Column(
        "problem",
        _TEXT,
        of_row=attrgetter("control.problem"),
        of_legacy=lambda of: None if of.is_valid else "the CRC of the message is wrong",
        of_batches=lambda of: of.choices(of.is_valid, (WRONG_CRC, None)),
    ),
)

_NEXT_OFFSET: Final = Column(NEXT_OFFSET, _INT64, of_batch=lambda of: None, of_batches=lambda of: of.null())
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
            of_batch=attrgetter("header.last_offset"),
            of_legacy=attrgetter("header.offset"),
            of_batches=lambda of: of.numbers(of.header("base_offset") + of.header("last_offset_delta")),
        ),
        _header("count", _INT32, "record_count"),
        _header("baseSequence", _INT32, "base_sequence"),
        Column(
            "lastSequence",
            _INT32,
            of_batch=attrgetter("header.last_sequence"),
            of_batches=lambda of: of.numbers(of.last_sequences()),
        ),
        *_PRODUCER,
        Column(
            "deleteHorizonMs",
            _INT64,
            Meaning.TIME,
            of_batch=attrgetter("header.delete_horizon_ms"),
            of_batches=lambda of: of.numbers(of.header("base_timestamp"), of.has(DELETE_HORIZON)),
        ),
        _POSITION,
        _TIMESTAMP_TYPE,
        Column(
            "maxTimestamp",
            _INT64,
            Meaning.TIME,
            of_batch=attrgetter("header.max_timestamp"),
            of_legacy=lambda of: None if of.header.magic == 0 else of.header.timestamp,
            of_batches=lambda of: of.stored("max_timestamp"),
        ),
        Column(
            "size",
            _INT32,
            of_batch=attrgetter("header.size"),
            of_legacy=attrgetter("header.size"),
            of_batches=lambda of: of.numbers(of.header("batch_length") + LOG_OVERHEAD),
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
