"""The tables of the structured outputs: column names and types, once, for JSON lines, CSV, tables and frames.

Source: docs/contract.md#23-rows. Every row of JSON lines begins with the columns of ``FILE``.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final, NamedTuple


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


class Column(NamedTuple):
    """One column of a table."""

    name: str
    type: ColumnType


class Table(NamedTuple):
    """One kind of row; ``type`` is what its ``type`` column says."""

    type: str
    columns: tuple[Column, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Column names in their order."""
        return tuple(column.name for column in self.columns)


def _columns(**types: ColumnType) -> tuple[Column, ...]:
    return tuple(Column(name, kind) for name, kind in types.items())


_INT32, _INT64, _BOOLEAN, _TEXT = ColumnType.INT32, ColumnType.INT64, ColumnType.BOOLEAN, ColumnType.TEXT

FILE: Final = _columns(type=_TEXT, file=_TEXT, topic=_TEXT, partition=_INT32)

_RECORD_METADATA: Final = _columns(
    keySize=_INT32,
    valueSize=_INT32,
    sequence=_INT32,
    producerId=_INT64,
    producerEpoch=_INT32,
    partitionLeaderEpoch=_INT32,
    isTransactional=_BOOLEAN,
    isControl=_BOOLEAN,
    controlType=_TEXT,
    control=ColumnType.OBJECT,
    txnState=_TEXT,
    magic=_INT32,
    compression=_TEXT,
    batchBaseOffset=_INT64,
    position=_INT64,
    crc=_INT64,
    isValid=_BOOLEAN,
    problem=_TEXT,
)
_RECORD_TIME: Final = _columns(offset=_INT64, timestamp=_INT64, timestampType=_TEXT)

RECORD: Final = Table(
    "record",
    FILE
    + _RECORD_TIME
    + _columns(key=ColumnType.BYTES, value=ColumnType.BYTES, headers=ColumnType.HEADERS)
    + _RECORD_METADATA,
)
"""Records with their contents (``--print-data-log``). Sizes in bytes, timestamps in ms."""
RECORD_DECODED: Final = Table(
    "record",
    FILE
    + _RECORD_TIME
    + _columns(
        key=ColumnType.BYTES,
        value=ColumnType.BYTES,
        decodedKey=ColumnType.VALUE,
        decodedValue=ColumnType.VALUE,
        headers=ColumnType.HEADERS,
    )
    + _RECORD_METADATA,
)
"""The same where a decoder was chosen."""
RECORD_METADATA: Final = Table(
    "record", FILE + _RECORD_TIME + _columns(headerKeys=ColumnType.BYTES_LIST) + _RECORD_METADATA
)
"""Records without key, value and header values (``--deep-iteration``)."""
BATCH: Final = Table(
    "batch",
    FILE
    + _columns(
        baseOffset=_INT64,
        lastOffset=_INT64,
        count=_INT32,
        baseSequence=_INT32,
        lastSequence=_INT32,
        producerId=_INT64,
        producerEpoch=_INT32,
        partitionLeaderEpoch=_INT32,
        isTransactional=_BOOLEAN,
        isControl=_BOOLEAN,
        deleteHorizonMs=_INT64,
        position=_INT64,
        timestampType=_TEXT,
        maxTimestamp=_INT64,
        size=_INT32,
        magic=_INT32,
        compression=_TEXT,
        crc=_INT64,
        isValid=_BOOLEAN,
    ),
)
INDEX: Final = Table("index", FILE + _columns(offset=_INT64, position=_INT32))
TIME_INDEX: Final = Table("timeindex", FILE + _columns(timestamp=_INT64, offset=_INT64))
TXN_INDEX: Final = Table(
    "txnindex",
    FILE + _columns(version=_INT32, producerId=_INT64, firstOffset=_INT64, lastOffset=_INT64, lastStableOffset=_INT64),
)
PRODUCER: Final = Table(
    "producer",
    FILE
    + _columns(
        producerId=_INT64,
        producerEpoch=_INT32,
        coordinatorEpoch=_INT32,
        currentTxnFirstOffset=_INT64,
        lastTimestamp=_INT64,
        firstSequence=_INT32,
        lastSequence=_INT32,
        lastOffset=_INT64,
        offsetDelta=_INT32,
        timestamp=_INT64,
    ),
)
CHECKPOINT: Final = Table("checkpoint", FILE + _columns(offset=_INT64))
"""Lines of the checkpoints of a log directory; topic and partition are those of the line."""
EPOCH: Final = Table("epoch", FILE + _columns(epoch=_INT32, startOffset=_INT64))
"""Lines of leader-epoch-checkpoint."""
PROPERTY: Final = Table("property", _columns(type=_TEXT, file=_TEXT, name=_TEXT, value=ColumnType.VALUE))
"""Members of the other text files: text, or what JSON says. They have no topic and partition."""
FINDING: Final = Table(
    "finding",
    FILE
    + _columns(
        code=_TEXT,
        name=_TEXT,
        severity=_TEXT,
        position=_INT64,
        length=_INT64,
        firstOffset=_INT64,
        lastOffset=_INT64,
        continueAt=_INT64,
        message=_TEXT,
    ),
)
LOSS: Final = Table("loss", FILE + _columns(kind=_TEXT, count=_INT64, unit=_TEXT))
"""What a conversion does not keep of a segment."""
CONVERTED: Final = Table("converted", FILE + _columns(target=_TEXT, files=_INT32, size=_INT64, records=_INT64))
"""A segment that was converted: its first file, how many it became and their bytes; records null where not counted."""
MARKER: Final = Table(
    "marker", FILE + _columns(offset=_INT64, producerId=_INT64, producerEpoch=_INT32, controlType=_TEXT)
)
"""An end marker of a transaction that a conversion added to the part of a log that was asked for."""
STATS: Final = Table(
    "stats",
    _columns(
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
