"""The lines of the compatible output, one at a time; ``columnlines`` makes the same lines for many batches.

Source: docs/spec/dump-output.md#4-logs-and-checkpoints, docs/spec/dump-output.md#5-records,
docs/spec/dump-output.md#9-damaged-logs. Every function returns a whole line with its line end or raises: where the Java
tool aborts in the middle of a line, nothing of it is printed.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from kdump.codes import Codes, DamageError
from kdump.dump.text.options import TextOptions
from kdump.format import control
from kdump.format.batch import (
    CODEC_MASK,
    CODEC_NAMES,
    CONTROL,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    NO_SEQUENCE,
    TIMESTAMP_TYPES,
    TRANSACTIONAL,
    BatchHeader,
)
from kdump.format.legacy import LegacyRecord, Message
from kdump.format.record import Record
from kdump.reading.printing import header_keys

if TYPE_CHECKING:
    from kdump.dump.text.decoders import TextDecoding

_INT64 = 2**63

_KRAFT_LABELS = {
    control.LEADER_CHANGE: "LeaderChange:",
    control.SNAPSHOT_HEADER: "SnapshotHeader",
    control.SNAPSHOT_FOOTER: "SnapshotFooter",
    control.KRAFT_VERSION: "KRaftVersion",
    control.KRAFT_VOTERS: "KRaftVoters",
}


def batch_line(header: BatchHeader, position: int, is_valid: bool) -> str:
    """A v2 batch (magic 2 and above). DamageError for codec ids 5-7."""
    # Unpacked once: a segment has millions of these lines, and attribute access costs more than formatting.
    (offset, length, epoch, magic, crc, attributes, delta, _, timestamp, producer, producer_epoch, sequence, count) = (
        header
    )
    flags, timestamp_type, codec = _attribute_texts(attributes)
    horizon = f"OptionalLong[{header.base_timestamp}]" if attributes & DELETE_HORIZON else "OptionalLong.empty"
    last_offset = offset + delta
    if not -_INT64 <= last_offset < _INT64:
        last_offset = header.last_offset
    return (
        f"baseOffset: {offset} lastOffset: {last_offset} count: {count} baseSequence: {sequence} "
        f"lastSequence: {-1 if sequence == NO_SEQUENCE else header.last_sequence} producerId: {producer} "
        f"producerEpoch: {producer_epoch} partitionLeaderEpoch: {epoch} {flags} deleteHorizonMs: {horizon} "
        f"position: {position} {timestamp_type}: {timestamp} size: {LOG_OVERHEAD + length} magic: {magic} "
        f"compresscodec: {codec} crc: {crc} isvalid: {'true' if is_valid else 'false'}\n"
    )


@cache
def _attribute_texts(attributes: int) -> tuple[str, str, str]:
    transactional, is_control = bool(attributes & TRANSACTIONAL), bool(attributes & CONTROL)
    return (
        f"isTransactional: {_bool(transactional)} isControl: {_bool(is_control)}",
        TIMESTAMP_TYPES[bool(attributes & LOG_APPEND_TIME)],
        _codec_name(attributes & CODEC_MASK),
    )


def legacy_batch_line(entry: Message, position: int, is_valid: bool) -> str:
    """A message of magic 0 or 1 or a wrapper. DamageError for a negative magic and codec ids 5-7."""
    if entry.magic < 0:
        raise DamageError(Codes.MAGIC, f"magic byte {entry.magic}")
    return (
        f"offset: {entry.offset} position: {position} {entry.timestamp_type}: {entry.timestamp} "
        f"size: {entry.size} magic: {entry.magic} compresscodec: {_codec_name(entry.codec)} crc: {entry.crc} "
        f"isvalid: {_bool(is_valid)}\n"
    )


def record_line(
    header: BatchHeader,
    item: Record,
    options: TextOptions,
    decoding: TextDecoding | None = None,
    release: str | None = None,
) -> str:
    """A record of a v2 batch. DamageError where the Java tool stops.

    Args:
        header: of its batch.
        item: the record.
        options: what DumpLogSegments was asked for.
        decoding: of keys and values.
        release: see ``control_text``.
    """
    metadata = "" if options.skip_record_metadata else _record_metadata(item, header.timestamp_type)
    contents = ""
    if not header.is_control:
        if options.print_data_log:
            contents = _contents(item, options, decoding)
    elif not options.skip_record_metadata:
        contents = control_text(item.key, item.value, release)
    return _line(metadata, contents)


def legacy_record_line(
    entry: Message, item: LegacyRecord, is_valid: bool, options: TextOptions, decoding: TextDecoding | None = None
) -> str:
    """A record of a legacy entry; ``is_valid``: its own CRC holds. DamageError where the Java tool stops."""
    metadata = "" if options.skip_record_metadata else _legacy_metadata(item, entry.timestamp_type, is_valid)
    contents = ""
    if options.print_data_log:
        message = item.message
        if decoding is not None:
            made = decoding.message_contents(item.offset, message)
            contents = contents_text(made.key, made.payload)
        else:
            contents = _plain_contents(message.key(), message.value(), options)
    return _line(metadata, contents)


def _record_metadata(item: Record, timestamp_type: str) -> str:
    return (
        f"| offset: {item.offset} {timestamp_type}: {item.timestamp} "
        f"keySize: {-1 if item.key is None else len(item.key)} "
        f"valueSize: {-1 if item.value is None else len(item.value)} "
        f"sequence: {item.sequence} headerKeys: [{header_keys(item.headers)}]"
    )


def _legacy_metadata(item: LegacyRecord, timestamp_type: str, is_valid: bool) -> str:
    message = item.message
    return (
        f"| offset: {item.offset} {timestamp_type}: {item.timestamp} keySize: {message.key_size()} "
        f"valueSize: {message.value_size()} isValid: {_bool(is_valid)} crc: {message.crc}"
    )


def _contents(item: Record, options: TextOptions, decoding: TextDecoding | None) -> str:
    if decoding is None:
        return _plain_contents(item.key, item.value, options)
    made = decoding.contents(item.offset, item.key, item.value, item.headers)
    return contents_text(made.key, made.payload)


def _plain_contents(key: bytes | None, value: bytes | None, options: TextOptions) -> str:
    key_text = None if key is None else options.key_decoder(key)
    return contents_text(key_text, None if value is None else options.value_decoder(value))


def _line(metadata: str, contents: str) -> str:
    """Without metadata, a bar stands before the contents of a line that has any."""
    return f"{metadata or ('|' if contents else '')}{contents}\n"


def contents_text(key: str | None, payload: str | None) -> str:
    """Key and payload of a record after their words. None: a line does not show it."""
    return ("" if key is None else f" key: {key}") + ("" if payload is None else f" payload: {payload}")


def control_text(key: bytes | None, value: bytes | None, release: str | None = None) -> str:
    """What a control record adds to its line. DamageError where the Java tool of ``release`` (4.3) stops."""
    control_type = control.parse_type(key)
    if control_type in (control.ABORT, control.COMMIT):
        name = "ABORT" if control_type == control.ABORT else "COMMIT"
        return f" endTxnMarker: {name} coordinatorEpoch: {control.parse_end_txn(value)}"
    schema = control.schema_of(control_type, release)
    if schema is None:
        return f" controlType: UNKNOWN({control_type})"
    from kdump.payloads.message_json import known_version, message_json  # not needed by logs without KRaft's records

    values = control.parse_kraft(schema, value)
    return f" {_KRAFT_LABELS[control_type]} {message_json(schema, known_version(schema, values), values)}"


def _codec_name(codec: int) -> str:
    if codec >= len(CODEC_NAMES):
        raise DamageError(Codes.CODEC, f"unknown compression codec {codec}")
    return CODEC_NAMES[codec]


def _bool(value: bool) -> str:
    return "true" if value else "false"
