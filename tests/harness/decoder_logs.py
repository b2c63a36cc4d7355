"""Logs of internal topics, made of messages that the test-side writer writes."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path
from random import Random

from kdump.format.message import record_schemas, schemas
from tests.harness.batches import v2_batch
from tests.harness.fast_reference import Row
from tests.harness.messages import random_values, unsigned_varint, write_message

GROUPS = {
    "offsets": "group-coordinator",
    "transaction-log": "transaction-coordinator",
    "share-group-state": "share-coordinator",
}


def commit(group: str, topic: str = "t", partition: int = 0, offset: int | None = 42, version: int = 3) -> Row:
    """A committed offset; None: its tombstone."""
    key = write_message(schemas()["OffsetCommitKey"], 0, {"group": group, "topic": topic, "partition": partition})
    values = random_values(schemas()["OffsetCommitValue"].fields, version, Random(version))
    values |= {"offset": offset or 0, "metadata": ""}
    value = struct.pack(">h", version) + write_message(schemas()["OffsetCommitValue"], version, values)
    return Row(0, 0, b"\0\1" + key, None if offset is None else value)


def transaction(name: str) -> Row:
    """The state of a transactional id that has none."""
    schema = schemas()["TransactionLogValue"]
    values = random_values(schema.fields, 0, Random(1))
    key = struct.pack(">h", 0) + write_message(schemas()["TransactionLogKey"], 0, {"transactionalId": name})
    return Row(0, 0, key, b"\0\0" + write_message(schema, 0, values))


def coordinated(
    name: str,
    status: int,
    producer_id: int,
    epoch: int,
    *partitions: tuple[str, int],
    client_version: int = 0,
    previous_producer_id: int = -1,
) -> Row:
    """The value that a coordinator writes for a transactional id; ``status``: see TransactionState."""
    schema = schemas()["TransactionLogValue"]
    values = random_values(schema.fields, 1, Random(1)) | {
        "producerId": producer_id,
        "previousProducerId": previous_producer_id,
        "nextProducerId": -1,
        "producerEpoch": epoch,
        "transactionStatus": status,
        "transactionPartitions": [{"topic": topic, "partitionIds": [number]} for topic, number in partitions],
        "clientTransactionVersion": client_version,
    }
    key = struct.pack(">h", 0) + write_message(schemas()["TransactionLogKey"], 0, {"transactionalId": name})
    return Row(0, 0, key, struct.pack(">h", 1) + write_message(schema, 1, values))


def random_row(decoder: str, random: Random) -> Row:
    """Any record of a topic, at times with one byte changed, cut, or without key or value."""
    if decoder in GROUPS:
        number, schema = random.choice(list(record_schemas(GROUPS[decoder], "coordinator-value").items()))
        key_schema = record_schemas(GROUPS[decoder], "coordinator-key")[number]
        version = random.randint(schema.versions.low, schema.versions.high)
        key: bytes | None = struct.pack(">h", number)
        key += write_message(key_schema, 0, random_values(key_schema.fields, 0, random))
        head = struct.pack(">h", version)
    else:
        number, schema = random.choice(list(record_schemas(decoder, "metadata").items()))
        version = random.randint(schema.versions.low, schema.versions.high)
        key, head = None, b"\1" + unsigned_varint(number) + unsigned_varint(version)
    value: bytes | None = head + write_message(schema, version, random_values(schema.fields, version, random), random)
    match random.randrange(12):
        case 0:
            value = None
        case 1 if value:
            at = random.randrange(len(value))
            value = value[:at] + bytes([random.randrange(256)]) + value[at + 1 :]
        case 2 if key:
            at = random.randrange(len(key))
            key = key[:at] + bytes([random.randrange(256)]) + key[at + 1 :]
        case 3 if value:
            value = value[: random.randrange(len(value))]
        case 4 if random.random() < 0.3:
            key = None
    return Row(0, 0, key, value)


def write_log(folder: Path, partition: str, rows: list[Row], *, per_batch: int = 3) -> Path:
    """A segment of ``partition`` below ``folder`` with these records, numbered from 0."""
    directory = folder / partition
    directory.mkdir(exist_ok=True)
    path = directory / f"{0:020}.log"
    batches = []
    for first in range(0, len(rows), per_batch):
        numbered = [replace(row, offset_delta=delta) for delta, row in enumerate(rows[first : first + per_batch])]
        batches.append(v2_batch(numbered, base_offset=first))
    path.write_bytes(b"".join(batches))
    return path
