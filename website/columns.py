"""The page of the columns: every table of the structured outputs, from ``kdump.rows``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from kdump.kafka07 import rows as rows07
from kdump.rows import filetables, tables
from kdump.rows.columns import FILE, Column, ColumnType, Table
from kdump.zookeeper import dump as zookeeperdump

URI: Final = "reference/columns.md"
JSON: Final = {
    ColumnType.INT32: "number",
    ColumnType.INT64: "number",
    ColumnType.BOOLEAN: "boolean",
    ColumnType.TEXT: "string",
    ColumnType.BYTES: 'string, or `{"base64": ...}`',
    ColumnType.BYTES_LIST: "array of strings",
    ColumnType.HEADERS: "array of pairs",
    ColumnType.OBJECT: "object",
    ColumnType.VALUE: "any value",
}
ARROW: Final = {
    ColumnType.INT32: "int32",
    ColumnType.INT64: "int64",
    ColumnType.BOOLEAN: "bool",
    ColumnType.TEXT: "string",
    ColumnType.BYTES: "binary",
    ColumnType.BYTES_LIST: "list of strings",
    ColumnType.HEADERS: "list of (key: string, value: binary)",
    ColumnType.OBJECT: "string (JSON)",
    ColumnType.VALUE: "string (JSON)",
}


@dataclass(frozen=True, slots=True)
class Section:
    """A heading of the page: a table, and what one of its rows is."""

    table: Table
    row: str


SECTIONS: Final = (
    Section(tables.RECORD, "a record: `dump --records` and `--print-data-log`, `kdump.scan`"),
    Section(tables.BATCH, "a batch, or an entry of magic 0 or 1: `dump` without `--records`"),
    Section(filetables.FINDING, "a finding: `verify --output jsonl`, `kdump.findings`"),
    Section(filetables.INDEX, "an entry of an `.index`"),
    Section(filetables.TIME_INDEX, "an entry of a `.timeindex`"),
    Section(filetables.TXN_INDEX, "an aborted transaction of a `.txnindex`"),
    Section(filetables.PRODUCER, "a producer of a `.snapshot`"),
    Section(filetables.CHECKPOINT, "a line of a checkpoint of a log directory"),
    Section(filetables.EPOCH, "a line of `leader-epoch-checkpoint`"),
    Section(filetables.PROPERTY, "a member of another text file, such as `meta.properties`"),
    Section(rows07.FRAME, "the part of a saved request or response that is about one partition: `dump --frame`"),
    Section(filetables.LOSS, "what a conversion loses: `convert --output jsonl`"),
    Section(filetables.CONVERTED, "a converted segment: `convert --output jsonl`"),
    Section(filetables.MARKER, "a marker that a conversion added"),
    Section(filetables.STATS, "a group of `stats --output jsonl`"),
    Section(zookeeperdump.TRANSACTION, "a transaction of ZooKeeper"),
    Section(zookeeperdump.NODE, "a node in a snapshot of ZooKeeper"),
    Section(zookeeperdump.SESSION, "a session in a snapshot of ZooKeeper"),
)
_VARIANTS: Final = (
    tables.RECORD_DECODED,
    tables.RECORD_METADATA,
    rows07.RECORD_07,
    rows07.RECORD_DECODED_07,
    rows07.RECORD_METADATA_07,
    rows07.BATCH_07,
)
"""Tables of the same columns in another selection; what is new in them is added to the section of their type."""

MEANINGS: Final = {
    "type": "which table the row belongs to",
    "file": "the path that was read",
    "topic": "from the name of the directory; null without one",
    "partition": "from the name of the directory; null without one",
    "offset": "the offset of the record",
    "nextOffset": "the offset after this one; only logs of Kafka 0.7 have the column",
    "timestamp": "milliseconds since 1970, in Arrow and Parquet a timestamp; null in magic 0",
    "timestampType": "`CreateTime`, `LogAppendTime` or `NoTimestampType`; in Arrow and Parquet 0, 1 or -1",
    "key": "the key as it is stored",
    "value": "the value as it is stored; null is a tombstone",
    "headers": "keys and values of the headers, in their order",
    "headerKeys": "the keys of the headers, in their order; with `--deep-iteration`",
    "decodedKey": "what the decoder made of the key; only with a decoder",
    "decodedValue": "what the decoder made of the value; only with a decoder",
    "keySize": "bytes of the key; -1 for null",
    "valueSize": "bytes of the value; -1 for null",
    "sequence": "the sequence number that the producer gave to the record; null without one",
    "producerId": "the id of an idempotent or transactional producer; -1 without one",
    "producerEpoch": "the epoch of the producer; -1 without one",
    "partitionLeaderEpoch": "the epoch of the leader that appended the batch",
    "isTransactional": "the batch belongs to a transaction",
    "isControl": "the batch holds markers or other control records",
    "controlType": "what kind of control record it is, such as `COMMIT`",
    "control": "the decoded value of a control record",
    "txnState": "`committed`, `aborted` or `open`; null outside of transactions",
    "magic": "the version of the message format: 0, 1 or 2",
    "compression": "the codec of the batch",
    "batchBaseOffset": "the base offset of the batch",
    "position": "the byte at which the batch begins in the file",
    "crc": "the checksum that is stored",
    "isValid": "the checksum is right",
    "problem": "what is wrong with the record; null for a good one",
    "baseOffset": "the offset of the first record, as the header says",
    "lastOffset": "the offset of the last record, as the header says",
    "count": "the number of records, as the header says",
    "baseSequence": "the sequence number of the first record; -1 without a producer",
    "lastSequence": "the sequence number of the last record",
    "deleteHorizonMs": "when the log cleaner may remove tombstones and markers of the batch; null if not set",
    "maxTimestamp": "the largest timestamp of the batch",
    "size": "bytes, with the header",
    "finding.code": "the stable code, such as `KD108`",
    "finding.name": "the name of the code, such as `batch-crc`",
    "finding.severity": "`error`, `warning` or `info`",
    "finding.position": "the first byte that is concerned",
    "finding.length": "how many bytes are concerned; null if not known",
    "finding.firstOffset": "the first offset that is lost at most; null if none is",
    "finding.lastOffset": "the last offset that is lost at most",
    "finding.continueAt": "the first offset at which a consumer can continue",
    "finding.message": "what is wrong, for people; it may change",
    "index.offset": "the last offset of the batch at the position",
    "index.position": "where the batch begins in the log",
    "timeindex.timestamp": "the largest timestamp up to the batch",
    "timeindex.offset": "the offset of that timestamp",
    "txnindex.version": "the version of the entry; 0",
    "txnindex.firstOffset": "the first offset of the transaction",
    "txnindex.lastOffset": "the offset of its marker",
    "txnindex.lastStableOffset": "the last stable offset when the marker was appended",
    "producer.coordinatorEpoch": "the epoch of the coordinator that wrote the last marker",
    "producer.currentTxnFirstOffset": "the first offset of the open transaction; null without one",
    "producer.lastTimestamp": "the timestamp of the last append",
    "producer.firstSequence": "the first sequence number of the last batch; null without a batch",
    "producer.lastSequence": "the last sequence number of the last batch; null without a batch",
    "producer.lastOffset": "the last offset of the last batch; null without a batch",
    "producer.offsetDelta": "last offset minus first offset of the last batch; null without a batch",
    "producer.timestamp": "the timestamp of the last batch; null without a batch",
    "checkpoint.topic": "as the line says",
    "checkpoint.partition": "as the line says",
    "checkpoint.offset": "as the line says",
    "epoch.epoch": "a leader epoch",
    "epoch.startOffset": "the offset at which it begins",
    "property.name": "the name of the member",
    "property.value": "text, or a JSON value",
    "frame.frame": "the name of the request or response",
    "frame.isRequest": "it is a request",
    "frame.offset": "the offset that is asked for",
    "frame.errorCode": "the number of the error; 0 without one",
    "frame.error": "the name of the error",
    "frame.size": "bytes of the messages",
    "frame.partialSize": "bytes at their end that are no whole message",
    "frame.fields": "all other fields",
    "loss.kind": "what is lost",
    "loss.count": "how much of it",
    "loss.unit": "what is counted",
    "converted.target": "the first file that was written",
    "converted.files": "the number of files",
    "converted.size": "their bytes",
    "converted.records": "their records; null if not counted",
    "marker.offset": "the offset of the marker",
    "zxid": "the number of the transaction",
    "session": "the id of the session",
    "cxid": "the number that the client gave to its request",
    "operation": "what the transaction does",
    "path": "the path of the node",
    "data": "the data of the node",
    "version": "the version of the data",
    "acl": "the access control list",
    "ephemeral": "the node goes with its session",
    "parentCversion": "the version of the children of the parent",
    "ttl": "the time to live, in ms",
    "timeout": "the timeout of the session, in ms",
    "error": "the number of the error",
    "closed": "the ephemeral nodes that went with the session",
    "operations": "the parts of a multi-operation",
    "digest": "the digest of the whole tree",
    "czxid": "the transaction that made the node",
    "mzxid": "the transaction that changed its data last",
    "pzxid": "the transaction that changed its children last",
    "ctime": "when the node was made",
    "mtime": "when its data changed last",
    "cversion": "the version of its children",
    "aversion": "the version of its access control list",
    "ephemeralOwner": "the session of an ephemeral node; else 0",
    "dataLength": "bytes of the data",
    "numChildren": "the number of children",
}
"""What a column means: ``TABLE.COLUMN``, or for every table ``COLUMN``. Those of stats are in the manual."""


def page() -> str:
    """The Markdown of the page."""
    return "\n".join(_lines())


def meaning(table: Table, column: Column) -> str:
    """What a column means in a table. Raises KeyError when nobody wrote it down."""
    own = MEANINGS.get(f"{table.type}.{column.name}")
    return own if own is not None else MEANINGS[column.name]


def columns(section: Section) -> list[Column]:
    """All columns of the type of a section: those of the table, and those that variants of it have besides."""
    tables_of_type = (section.table, *(variant for variant in _VARIANTS if variant.type == section.table.type))
    found: dict[str, Column] = {}
    for table in tables_of_type:
        for column in (*table.columns, *table.others):
            found.setdefault(column.name, column)
    return list(found.values())


def _lines() -> Iterator[str]:
    yield "# Columns of every table"
    yield ""
    yield "Each row of `--output jsonl`, `csv`, `table`, `arrow` and `parquet` belongs to one of these tables."
    yield "The column `type` tells which one. Rows of a file begin with these columns:"
    yield ""
    yield from _table(tables.RECORD, list(FILE))
    yield ""
    yield "The data sources of Spark and `convert --to parquet` have the columns of Spark's Kafka source first, with"
    yield "Spark's types: [kdump-spark(7)](../man/kdump-spark.7.md). The contract for scripts is in"
    yield "[the promises of the command line](../contract.md)."
    for section in SECTIONS:
        yield ""
        yield f"## `{section.table.type}`"
        yield ""
        yield f"A row is {section.row}."
        yield ""
        listed = columns(section)
        if section.table.type == "stats":
            yield "[kdump-stats(1)](../man/kdump-stats.1.md) explains the figures."
            yield ""
        own = [column for column in listed if column.name not in _file_columns(section.table)]
        yield from _table(section.table, own)


def _file_columns(table: Table) -> set[str]:
    """Columns that the first table of the page explains."""
    return {column.name for column in table.columns if any(column is other for other in FILE)}


def _table(table: Table, listed: list[Column]) -> Iterator[str]:
    explained = table.type != "stats"
    verbs = any(column.verbs for column in listed)
    heads = ["Column", *(["Meaning"] if explained else []), "JSON", "Arrow", *(["`--format`"] if verbs else [])]
    yield "| " + " | ".join(heads) + " |"
    yield "|---" * len(heads) + "|"
    for column in listed:
        cells = [
            f"`{column.name}`",
            *([meaning(table, column)] if explained else []),
            JSON[column.type],
            ARROW[column.type],
            *([" ".join(f"`%{verb}`" for verb in column.verbs)] if verbs else []),
        ]
        yield "| " + " | ".join(cells) + " |"
