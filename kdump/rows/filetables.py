"""The tables of index files, snapshots and text files, and of what the commands report.

A column is declared here, once; every output iterates over the table. Source: docs/contract.md#23-rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter, itemgetter
from typing import Final

from kdump.codes import Finding
from kdump.format.checkpoint import LEADER_EPOCH_CHECKPOINT, READERS
from kdump.log.context import FileContext
from kdump.log.names import OFFSET_CHECKPOINTS
from kdump.rows.columns import FILE, FILE_NAME, TYPE, Column, ColumnType, Meaning, Row, Table

_INT32, _INT64, _TEXT = ColumnType.INT32, ColumnType.INT64, ColumnType.TEXT


def _member(name: str, kind: ColumnType, path: str, meaning: Meaning = Meaning.PLAIN) -> Column:
    """A member of an entry of a file."""
    return Column(name, kind, meaning, of_row=attrgetter(path))


def _of_last_batch(name: str, kind: ColumnType, member: str, meaning: Meaning = Meaning.PLAIN) -> Column:
    """A member of a producer's last batch. A producer that is known only by a marker has none."""
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
        TYPE,
        FILE_NAME,
        Column("topic", _TEXT, of_row=itemgetter(0)),
        Column("partition", _INT32, of_row=itemgetter(1)),
        Column("offset", _INT64, of_row=itemgetter(2)),
    ),
    shown=("topic", "partition", "offset"),
)
"""Lines of the checkpoints of a log directory. Topic and partition are those of the line."""
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
        TYPE,
        FILE_NAME,
        Column("name", _TEXT, of_row=itemgetter(0)),
        Column("value", ColumnType.VALUE, of_row=itemgetter(1)),
    ),
    shown=("name", "value"),
)
"""Members of the other text files: text, or a JSON value. They have no topic and partition."""
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


def finding_row(finding: Finding, context: FileContext | None = None) -> Row:
    """The row of a finding with all its columns. ``context``: of the file; None: of the one that the finding names."""
    file = FileContext.of(finding.path or "") if context is None else context
    row = {"type": FINDING.type, **file.columns(), **FINDING.row(finding)}
    return row if finding.segment_id is None else row | {"segmentId": finding.segment_id}


def _named(**types: ColumnType) -> tuple[Column, ...]:
    """Columns whose values a report gives."""
    return tuple(Column(name, kind) for name, kind in types.items())


LOSS: Final = Table("loss", FILE + _named(kind=_TEXT, count=_INT64, unit=_TEXT))
"""What a conversion of a segment loses."""
CONVERTED: Final = Table("converted", FILE + _named(target=_TEXT, files=_INT32, size=_INT64, records=_INT64))
"""A converted segment: its first file, the number and bytes of its files; records null where not counted."""
MARKER: Final = Table(
    "marker", FILE + _named(offset=_INT64, producerId=_INT64, producerEpoch=_INT32, controlType=_TEXT)
)
"""A marker that a conversion added to end a transaction in the part of the log that was asked for."""
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
"""A group of ``kdump stats``: the columns that tell groups apart, and figures. It has no columns of a file."""


def text_file_rows(name: str, data: bytes) -> tuple[Table, Iterator[Row]]:
    """The rows of a text file by its name, one of ``log.names.TEXT_FILES``.

    At the end they raise what READERS raise.
    """
    table = PROPERTY
    if name in OFFSET_CHECKPOINTS:
        table = CHECKPOINT
    elif name == LEADER_EPOCH_CHECKPOINT:
        table = EPOCH
    return table, table.rows(iter(READERS[name](data)))
