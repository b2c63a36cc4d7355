"""The tables of the structured outputs. A column is declared here, once; every output iterates over the table.

Source: docs/contract.md#23-rows. Every row of JSON lines begins with the columns of ``FILE``. A column of batches and
records has a scalar form, for one batch or record, and a columnar form, for many at a time: both stand side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum, auto
from functools import cached_property
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, Final, TypeAlias

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

if TYPE_CHECKING:
    from kdump.rows.columns import BatchColumns, BatchValue, RowColumns, RowValue

Row: TypeAlias = dict[str, Any]
"""Values by column name, without the columns of FILE. Keys and values stay bytes; null is None."""
Getter: TypeAlias = Callable[[Any], Any]

WRONG_CRC: Final = "the CRC of the batch is wrong"
"""``problem`` of records whose batch is shown in spite of its CRC."""


class ColumnType(Enum):
    """What a value is; every column may be null."""

    INT32 = auto()
    INT64 = auto()
    BOOLEAN = auto()
    TEXT = auto()
    BYTES = auto()
    """A string when it is valid UTF-8, else ``{"base64": "..."}``."""
    BYTES_LIST = auto()
    HEADERS = auto()
    """``[key, value]`` pairs of BYTES; never null."""
    OBJECT = auto()
    """A JSON object."""
    VALUE = auto()
    """Any JSON value."""


class Meaning(Enum):
    """What some outputs make of a value in their own way."""

    PLAIN = auto()
    TIME = auto()
    """Milliseconds since 1970; a table shows date and time."""
    RECORD_TIME = auto()
    """TIME that frames have as a timestamp."""
    TIMESTAMP_TYPE = auto()
    """The name of a timestamp type; frames have its number."""


class Column:
    """One column of a table.

    A column of batches needs ``of_batch`` and ``of_batches``. One of records needs ``of_batch`` or ``of_row``, and
    ``of_batches`` or ``of_records``: what all records of a batch have in common is made once a batch.

    Args:
        name: in the outputs.
        type: what its values are.
        meaning: what some outputs make of them in their own way.
        of_batch: scalar; takes a ``scalar.Batch``.
        of_row: scalar; takes a ``scalar.BatchRecord``, in tables of other files what their entries are.
        of_legacy: scalar; takes a ``scalar.Legacy``. None: messages of magic 0 and 1 have no such thing.
        of_batches: columnar, an element a batch.
        of_records: columnar, an element a record, of a range of records.
        verbs: letters of ``--format`` that stand for the column.
        decodes: the column of bytes in whose place its value is shown.
    """

    # Neither a named tuple nor a dataclass: those compile code whenever the module is loaded, for every command.
    __slots__ = (
        "decodes",
        "meaning",
        "name",
        "of_batch",
        "of_batches",
        "of_legacy",
        "of_records",
        "of_row",
        "type",
        "verbs",
    )

    def __init__(
        self,
        name: str,
        type: ColumnType,
        meaning: Meaning = Meaning.PLAIN,
        *,
        of_batch: Getter | None = None,
        of_row: Getter | None = None,
        of_legacy: Getter | None = None,
        of_batches: Callable[[BatchColumns], BatchValue] | None = None,
        of_records: Callable[[RowColumns, slice], RowValue] | None = None,
        verbs: str = "",
        decodes: str | None = None,
    ) -> None:
        self.name = name
        self.type = type
        self.meaning = meaning
        self.of_batch = of_batch
        self.of_row = of_row
        self.of_legacy = of_legacy
        self.of_batches = of_batches
        self.of_records = of_records
        self.verbs = verbs
        self.decodes = decodes


class Table:
    """One kind of row.

    Tables are compared by identity; a copy in another process is that process's own table.

    Args:
        type: what the ``type`` column says.
        columns: in their order.
        others: columns that rows have too, shown where they are asked for.
        shown: names of the columns that a table for eyes shows, in this order; None: all but those of FILE.
    """

    def __init__(
        self,
        type: str,
        columns: tuple[Column, ...],
        *,
        others: tuple[Column, ...] = (),
        shown: tuple[str, ...] | None = None,
    ) -> None:
        self.type = type
        self.columns = columns
        self.names = tuple(column.name for column in columns)
        self.shown = self.names[len(FILE) :] if shown is None else shown
        self._others = others

    # Most commands never make a row: what rows need is made for the first one.

    @cached_property
    def _by_name(self) -> dict[str, Column]:
        return {column.name: column for column in (*self.columns, *self._others)}

    @cached_property
    def of_batch(self) -> list[tuple[str, Getter]]:
        """Names and scalar forms of what is made once a batch."""
        return [(name, column.of_batch) for name, column in self._by_name.items() if column.of_batch is not None]

    @cached_property
    def of_row(self) -> list[tuple[str, Getter]]:
        """Names and scalar forms of what is made once a row."""
        return [(name, column.of_row) for name, column in self._by_name.items() if column.of_row is not None]

    @cached_property
    def of_legacy(self) -> list[tuple[str, Getter]]:
        """Names and scalar forms of what messages of magic 0 and 1 have."""
        return [(name, column.of_legacy) for name, column in self._by_name.items() if column.of_legacy is not None]

    @cached_property
    def not_of_legacy(self) -> Row:
        """Null for each column that they do not have."""
        names = {name for name, _ in (*self.of_batch, *self.of_row)} - {name for name, _ in self.of_legacy}
        return dict.fromkeys(sorted(names))

    @property
    def is_decoded(self) -> bool:
        """Keys and values are shown decoded too."""
        return any(column.decodes is not None for column in self.columns)

    def column(self, name: str) -> Column:
        """The column of that name; ValueError when rows have none."""
        if name not in self._by_name:
            raise ValueError(f"no column {name}")
        return self._by_name[name]

    def row(self, entry: object) -> Row:
        """The row of one entry of an index, a snapshot or a text file, or of a finding."""
        return {name: get(entry) for name, get in self.of_row}

    def rows(self, entries: Iterator[object]) -> Iterator[Row]:
        """The rows of entries."""
        return map(self.row, entries)

    def __reduce__(self) -> str:
        """Functions cannot be sent to another process, the name of a table can."""
        return next(name for name, value in globals().items() if value is self)


_INT32, _INT64, _BOOLEAN, _TEXT = ColumnType.INT32, ColumnType.INT64, ColumnType.BOOLEAN, ColumnType.TEXT

_TYPE: Final = Column("type", _TEXT, of_batches=lambda of: of.constant("type"))
_FILE: Final = Column("file", _TEXT, of_batches=lambda of: of.constant("file"), verbs="f")
_TOPIC: Final = Column("topic", _TEXT, of_batches=lambda of: of.constant("topic"), verbs="t")
_PARTITION: Final = Column("partition", _INT32, of_batches=lambda of: of.constant("partition"), verbs="p")
FILE: Final = (_TYPE, _FILE, _TOPIC, _PARTITION)


def _header(name: str, kind: ColumnType, field: str, *, of_legacy: Getter | None = None, verbs: str = "") -> Column:
    """A header field as it is stored."""
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
    # Their scalar form is ``scalar.add_decoded``, which tells what does not decode too.
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
    # Messages of magic 0 and 1 have a CRC each, and the verdict of the row is their own.
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

RECORD: Final = Table(
    "record",
    (*FILE, *_RECORD_TIME, *_CONTENTS, _HEADERS, *_RECORD_METADATA),
    others=(_HEADER_KEYS, *_DECODED),
    shown=("offset", "timestamp", "key", "value", "headers", "producerId", "txnState", "controlType", "problem"),
)
"""Records with their contents (``--print-data-log``). Sizes in bytes, timestamps in ms."""
RECORD_DECODED: Final = Table(
    "record",
    (*FILE, *_RECORD_TIME, *_CONTENTS, *_DECODED, _HEADERS, *_RECORD_METADATA),
    others=(_HEADER_KEYS,),
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
"""The same where a decoder was chosen."""
RECORD_METADATA: Final = Table(
    "record",
    (*FILE, *_RECORD_TIME, _HEADER_KEYS, *_RECORD_METADATA),
    others=(*_CONTENTS, *_DECODED, _HEADERS),
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


def _member(name: str, kind: ColumnType, path: str, meaning: Meaning = Meaning.PLAIN) -> Column:
    """A member of an entry of a file."""
    return Column(name, kind, meaning, of_row=attrgetter(path))


def _of_last_batch(name: str, kind: ColumnType, member: str, meaning: Meaning = Meaning.PLAIN) -> Column:
    """A member of a producer's entry; a producer known by a marker only has no last batch."""
    return Column(name, kind, meaning, of_row=lambda entry: getattr(entry, member) if entry.last_offset >= 0 else None)


INDEX: Final = Table("index", (*FILE, _member("offset", _INT64, "offset"), _member("position", _INT32, "position")))
TIME_INDEX: Final = Table(
    "timeindex",
    (*FILE, _member("timestamp", _INT64, "timestamp", Meaning.TIME), _member("offset", _INT64, "offset")),
)
TXN_INDEX: Final = Table(
    "txnindex",
    (
        *FILE,
        _member("version", _INT32, "version"),
        _member("producerId", _INT64, "producer_id"),
        _member("firstOffset", _INT64, "first_offset"),
        _member("lastOffset", _INT64, "last_offset"),
        _member("lastStableOffset", _INT64, "last_stable_offset"),
    ),
)
PRODUCER: Final = Table(
    "producer",
    (
        *FILE,
        _member("producerId", _INT64, "producer_id"),
        _member("producerEpoch", _INT32, "producer_epoch"),
        _member("coordinatorEpoch", _INT32, "coordinator_epoch"),
        Column(
            "currentTxnFirstOffset",
            _INT64,
            of_row=lambda entry: entry.current_txn_first_offset if entry.current_txn_first_offset >= 0 else None,
        ),
        _member("lastTimestamp", _INT64, "timestamp", Meaning.TIME),
        _of_last_batch("firstSequence", _INT32, "first_sequence"),
        _of_last_batch("lastSequence", _INT32, "last_sequence"),
        _of_last_batch("lastOffset", _INT64, "last_offset"),
        _of_last_batch("offsetDelta", _INT32, "offset_delta"),
        _of_last_batch("timestamp", _INT64, "timestamp", Meaning.TIME),
    ),
)
CHECKPOINT: Final = Table(
    "checkpoint",
    (
        _TYPE,
        _FILE,
        Column("topic", _TEXT, of_row=itemgetter(0)),
        Column("partition", _INT32, of_row=itemgetter(1)),
        Column("offset", _INT64, of_row=itemgetter(2)),
    ),
    shown=("topic", "partition", "offset"),
)
"""Lines of the checkpoints of a log directory; topic and partition are those of the line."""
EPOCH: Final = Table(
    "epoch",
    (
        *FILE,
        Column("epoch", _INT32, of_row=itemgetter(0)),
        Column("startOffset", _INT64, of_row=itemgetter(1)),
    ),
)
"""Lines of leader-epoch-checkpoint."""
PROPERTY: Final = Table(
    "property",
    (
        _TYPE,
        _FILE,
        Column("name", _TEXT, of_row=itemgetter(0)),
        Column("value", ColumnType.VALUE, of_row=itemgetter(1)),
    ),
    shown=("name", "value"),
)
"""Members of the other text files: text, or what JSON says. They have no topic and partition."""
FINDING: Final = Table(
    "finding",
    (
        *FILE,
        _member("code", _TEXT, "code.value.code"),
        _member("name", _TEXT, "code.value.name"),
        _member("severity", _TEXT, "severity.value"),
        _member("position", _INT64, "position"),
        _member("length", _INT64, "length"),
        _member("firstOffset", _INT64, "first_offset"),
        _member("lastOffset", _INT64, "last_offset"),
        _member("continueAt", _INT64, "continue_at"),
        _member("message", _TEXT, "message"),
    ),
)


def _named(**types: ColumnType) -> tuple[Column, ...]:
    """Columns whose values a report gives."""
    return tuple(Column(name, kind) for name, kind in types.items())


LOSS: Final = Table("loss", FILE + _named(kind=_TEXT, count=_INT64, unit=_TEXT))
"""What a conversion does not keep of a segment."""
CONVERTED: Final = Table("converted", FILE + _named(target=_TEXT, files=_INT32, size=_INT64, records=_INT64))
"""A segment that was converted: its first file, how many it became and their bytes; records null where not counted."""
MARKER: Final = Table(
    "marker", FILE + _named(offset=_INT64, producerId=_INT64, producerEpoch=_INT32, controlType=_TEXT)
)
"""An end marker of a transaction that a conversion added to the part of a log that was asked for."""
STATS: Final = Table(
    "stats",
    _named(
        type=_TEXT,
        by=_TEXT,
        group=_TEXT,
        files=_INT32,
        bytes=_INT64,
        batches=_INT64,
        controlBatches=_INT64,
        records=_INT64,
        controlRecords=_INT64,
        nullKeys=_INT64,
        tombstones=_INT64,
        minOffset=_INT64,
        maxOffset=_INT64,
        minTimestamp=_INT64,
        maxTimestamp=_INT64,
        bytesPerSecond=ColumnType.VALUE,
        recordsPerSecond=ColumnType.VALUE,
        batchSize=ColumnType.OBJECT,
        recordSize=ColumnType.OBJECT,
        keySize=ColumnType.OBJECT,
        valueSize=ColumnType.OBJECT,
        keyBytes=_INT64,
        valueBytes=_INT64,
        headers=_INT64,
        headerBytes=_INT64,
        recordsWithHeaders=_INT64,
        codecs=ColumnType.OBJECT,
        magics=ColumnType.OBJECT,
        timestampTypes=ColumnType.OBJECT,
        timestampsBack=_INT64,
        largestStepBack=_INT64,
        missingOffsets=_INT64,
        indexEntries=_INT64,
        timeIndexEntries=_INT64,
        bytesPerIndexEntry=ColumnType.VALUE,
        transactions=ColumnType.OBJECT,
        producers=_INT64,
        largestProducers=ColumnType.VALUE,
        distinctKeys=ColumnType.OBJECT,
        heaviestKeys=ColumnType.VALUE,
        damagedBatches=_INT64,
        damagedBytes=_INT64,
        errors=_INT64,
        warnings=_INT64,
    ),
)
"""A group of ``kdump stats``: what its rows are told apart by, and its figures. Unlike the others it has no file."""
