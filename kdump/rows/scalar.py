"""Rows of the tables of ``kdump.rows.tables``, out of one entry or record at a time.

Source: docs/contract.md#23-rows. Keys and values stay bytes; a field that a format does not have is None.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from kdump.codes import DamageError, Finding
from kdump.format import control
from kdump.format.batch import BatchHeader, codec_name
from kdump.format.index import AbortedTxn, OffsetEntry, TimeEntry
from kdump.format.legacy import LegacyRecord, Message
from kdump.format.record import Headers, ManyHeaders, Record
from kdump.format.snapshot import ProducerEntry
from kdump.payloads.decoded import PayloadError, RecordDecoder
from kdump.payloads.message_json import json_value, known_version, message_json

Row: TypeAlias = dict[str, Any]
"""Values by column name, without the columns of ``tables.FILE``."""

WRONG_CRC: Final = "the CRC of the batch is wrong"
"""``problem`` of records whose batch is shown in spite of its CRC."""

_CONTROL_TYPES: Final = {
    control.ABORT: "ABORT",
    control.COMMIT: "COMMIT",
    control.LEADER_CHANGE: "LEADER_CHANGE",
    control.SNAPSHOT_HEADER: "SNAPSHOT_HEADER",
    control.SNAPSHOT_FOOTER: "SNAPSHOT_FOOTER",
    control.KRAFT_VERSION: "KRAFT_VERSION",
    control.KRAFT_VOTERS: "KRAFT_VOTERS",
}


def batch_row(header: BatchHeader, position: int, is_valid: bool) -> Row:
    """A v2 batch from its header."""
    return {
        "baseOffset": header.base_offset,
        "lastOffset": header.last_offset,
        "count": header.record_count,
        "baseSequence": header.base_sequence,
        "lastSequence": header.last_sequence,
        "producerId": header.producer_id,
        "producerEpoch": header.producer_epoch,
        "partitionLeaderEpoch": header.partition_leader_epoch,
        "isTransactional": header.is_transactional,
        "isControl": header.is_control,
        "deleteHorizonMs": header.delete_horizon_ms,
        "position": position,
        "timestampType": header.timestamp_type,
        "maxTimestamp": header.max_timestamp,
        "size": header.size,
        "magic": header.magic,
        "compression": codec_name(header.codec),
        "crc": header.crc,
        "isValid": is_valid,
    }


def entry_row(entry: Message, position: int, is_valid: bool) -> Row:
    """A legacy entry as a batch."""
    return {
        **dict.fromkeys(_V2_BATCH_FIELDS),
        "lastOffset": entry.offset,
        "position": position,
        "timestampType": entry.timestamp_type,
        "maxTimestamp": _legacy_timestamp(entry, entry.timestamp),
        "size": entry.size,
        "magic": entry.magic,
        "compression": codec_name(entry.codec),
        "crc": entry.crc,
        "isValid": is_valid,
    }


_V2_BATCH_FIELDS: Final = (
    "baseOffset",
    "lastOffset",
    "count",
    "baseSequence",
    "lastSequence",
    "producerId",
    "producerEpoch",
    "partitionLeaderEpoch",
    "isTransactional",
    "isControl",
    "deleteHorizonMs",
)


def record_row(header: BatchHeader, position: int, is_valid: bool, record: Record, txn_state: str | None) -> Row:
    """A record of a v2 batch; a control record that cannot be decoded says so in ``problem``."""
    control_type = control_value = None
    problem = None if is_valid else WRONG_CRC
    if header.is_control:
        try:
            number = control.parse_type(record.key)
            # The key tells the type also where the value does not decode.
            control_type = _CONTROL_TYPES.get(number, f"UNKNOWN({number})")
            control_value = _control_value(number, record.value)
        except DamageError as error:
            problem = problem or error.message
    return {
        "offset": record.offset,
        "timestamp": record.timestamp,
        "timestampType": header.timestamp_type,
        "key": record.key,
        "value": record.value,
        "headers": record.headers,
        "headerKeys": _header_keys(record.headers),
        "keySize": _size(record.key),
        "valueSize": _size(record.value),
        "sequence": record.sequence,
        "producerId": header.producer_id,
        "producerEpoch": header.producer_epoch,
        "partitionLeaderEpoch": header.partition_leader_epoch,
        "isTransactional": header.is_transactional,
        "isControl": header.is_control,
        "controlType": control_type,
        "control": control_value,
        "txnState": txn_state,
        "magic": header.magic,
        "compression": codec_name(header.codec),
        "batchBaseOffset": header.base_offset,
        "position": position,
        "crc": header.crc,
        "isValid": is_valid,
        "problem": problem,
    }


@dataclass(frozen=True, slots=True)
class ManyKeys:
    """The keys of ``headers``, decoded while they are iterated over."""

    headers: ManyHeaders

    def __len__(self) -> int:
        return len(self.headers)

    def __iter__(self) -> Iterator[bytes]:
        return (key for key, _ in self.headers)


def _header_keys(headers: Headers) -> list[bytes] | ManyKeys:
    return ManyKeys(headers) if isinstance(headers, ManyHeaders) else [key for key, _ in headers]


def legacy_record_row(entry: Message, position: int, is_valid: bool, record: LegacyRecord) -> Row:
    """A record of a legacy entry; ``is_valid`` and ``crc`` are its own. DamageError when it is malformed."""
    message = record.message
    return {
        **dict.fromkeys(_V2_RECORD_FIELDS),
        "offset": record.offset,
        "timestamp": _legacy_timestamp(entry, record.timestamp),
        "timestampType": entry.timestamp_type,
        "key": message.key(),
        "value": message.value(),
        "headers": (),
        "headerKeys": [],
        "keySize": message.key_size(),
        "valueSize": message.value_size(),
        "magic": entry.magic,
        "compression": codec_name(entry.codec),
        "position": position,
        "crc": message.crc,
        "isValid": is_valid,
        "problem": None if is_valid else "the CRC of the message is wrong",
    }


def add_decoded(row: Row, decoder: RecordDecoder | None) -> tuple[PayloadError, ...]:
    """Add ``decodedKey`` and ``decodedValue`` to the row of a record; gives what does not decode.

    Both are null for a control record and without a decoder, and each is where its part is null or does not decode;
    ``problem`` says so.
    """
    if row["isControl"] or decoder is None:
        row["decodedKey"] = row["decodedValue"] = None
        return ()
    decoded = decoder.decode(row["key"], row["value"])
    for name, value in (("decodedKey", decoded.key), ("decodedValue", decoded.value)):
        row[name] = None if isinstance(value, bytes) else json_value(value)
    if decoded.findings and row["problem"] is None:
        row["problem"] = decoded.findings[0].message
    return decoded.findings


_V2_RECORD_FIELDS: Final = (
    "sequence",
    "producerId",
    "producerEpoch",
    "partitionLeaderEpoch",
    "isTransactional",
    "isControl",
    "controlType",
    "control",
    "txnState",
    "batchBaseOffset",
)


def index_row(entry: OffsetEntry) -> Row:
    """An entry of an .index."""
    return {"offset": entry.offset, "position": entry.position}


def time_index_row(entry: TimeEntry) -> Row:
    """An entry of a .timeindex."""
    return {"timestamp": entry.timestamp, "offset": entry.offset}


def txn_index_row(txn: AbortedTxn) -> Row:
    """An entry of a .txnindex."""
    return {
        "version": txn.version,
        "producerId": txn.producer_id,
        "firstOffset": txn.first_offset,
        "lastOffset": txn.last_offset,
        "lastStableOffset": txn.last_stable_offset,
    }


def producer_row(entry: ProducerEntry) -> Row:
    """An entry of a producer snapshot; one known by a marker only has no last batch."""
    has_batch = entry.last_offset >= 0
    first_offset = entry.current_txn_first_offset
    return {
        "producerId": entry.producer_id,
        "producerEpoch": entry.producer_epoch,
        "coordinatorEpoch": entry.coordinator_epoch,
        "currentTxnFirstOffset": first_offset if first_offset >= 0 else None,
        "lastTimestamp": entry.timestamp,
        "firstSequence": entry.first_sequence if has_batch else None,
        "lastSequence": entry.last_sequence if has_batch else None,
        "lastOffset": entry.last_offset if has_batch else None,
        "offsetDelta": entry.offset_delta if has_batch else None,
        "timestamp": entry.timestamp if has_batch else None,
    }


def finding_row(finding: Finding) -> Row:
    """Damage."""
    return {
        "code": finding.code.value.code,
        "name": finding.code.value.name,
        "severity": finding.severity.value,
        "position": finding.position,
        "length": finding.length,
        "firstOffset": finding.first_offset,
        "lastOffset": finding.last_offset,
        "continueAt": finding.continue_at,
        "message": finding.message,
    }


def _control_value(control_type: int, value: bytes | None) -> Row | None:
    if control_type in (control.ABORT, control.COMMIT):
        return {"coordinatorEpoch": control.parse_end_txn(value)}
    schema = control.schema_of(control_type)
    if schema is None:
        return None
    values = control.parse_kraft(schema, value)
    # As the compatible text has it: the members of the version that the message claims.
    members: Row = json.loads(message_json(schema, known_version(schema, values), values))
    return members


def _legacy_timestamp(entry: Message, timestamp: int) -> int | None:
    return None if entry.magic == 0 else timestamp


def _size(data: bytes | None) -> int:
    return -1 if data is None else len(data)
