"""Transaction markers as a broker reads them when it rebuilds the producer state.

Source: docs/spec/recovery.md#rule-8-markers (EndTransactionMarker.deserialize); what throws which exception was
measured on Kafka 4.3.1. Only the first record of a control batch is read.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from kdump.codes import Codes, DamageError
from kdump.format import control
from kdump.format.batch import CODEC_NAMES, HEADER_SIZE, BatchHeader
from kdump.format.record import Record, batch_body, read_records
from kdump.kafka.failures import FailureKind, KafkaFailureError
from kdump.wire.compression import NONE

_INT16: Final = struct.Struct(">h")
_VALUE: Final = struct.Struct(">hi")
_LONGEST_VARINT: Final = 5
_PAYLOAD_CODES: Final = frozenset({Codes.PAYLOAD, Codes.PAYLOAD_TOO_LARGE})


class InvalidRecordError(Exception):
    """A control batch whose first record cannot be read: recovery truncates after the batch."""


class EndTxnMarker(NamedTuple):
    """The end of a transaction. ``timestamp`` (ms) is the record's."""

    is_abort: bool
    coordinator_epoch: int
    timestamp: int


def read_marker(header: BatchHeader, batch: memoryview) -> EndTxnMarker | None:
    """The marker in a control batch of a producer, None when the batch claims no record.

    Args:
        header: the batch's header.
        batch: the whole batch.

    Raises:
        InvalidRecordError: recovery truncates after the batch.
        KafkaFailureError: recovery throws.
    """
    if header.record_count == 0:
        return None
    if header.codec >= len(CODEC_NAMES):
        raise KafkaFailureError(FailureKind.CODEC, f"a control batch with the unknown compression codec {header.codec}")
    record = _first_record(header, batch)
    if record.key is None:
        raise KafkaFailureError(FailureKind.MARKER_NULL, "a control record without key")
    try:
        control_type = control.parse_type(record.key)
    except DamageError as error:
        raise InvalidRecordError(error.message) from None
    if control_type not in (control.ABORT, control.COMMIT):
        raise KafkaFailureError(
            FailureKind.MARKER_TYPE, f"a control record of type {control_type} in place of a transaction marker"
        )
    return EndTxnMarker(control_type == control.ABORT, _coordinator_epoch(record.value), record.timestamp)


def _first_record(header: BatchHeader, batch: memoryview) -> Record:
    if header.codec == NONE and header.record_count > 0:
        length = batch[HEADER_SIZE : HEADER_SIZE + _LONGEST_VARINT]
        # Kafka turns every other flaw of a record into an InvalidRecordException, but not this one.
        if len(length) == _LONGEST_VARINT and min(length) >= 0x80:
            raise KafkaFailureError(FailureKind.MARKER_LENGTH, "a control record whose length is a varint over 5 bytes")
    try:
        if header.codec != NONE and header.record_count < 0:
            # Kafka opens the stream before it reads the count.
            batch_body(header, batch)
        return next(read_records(header, batch))
    except DamageError as error:
        if error.code in _PAYLOAD_CODES:
            raise KafkaFailureError(FailureKind.MARKER_PAYLOAD, f"a control batch: {error.message}") from None
        raise InvalidRecordError(error.message) from None


def _coordinator_epoch(value: bytes | None) -> int:
    if value is None:
        raise KafkaFailureError(FailureKind.MARKER_NULL, "a transaction marker without value")
    if len(value) >= _INT16.size and (version := _INT16.unpack_from(value)[0]) < 0:
        raise InvalidRecordError(f"a transaction marker of version {version}")
    if len(value) < _VALUE.size:
        raise KafkaFailureError(
            FailureKind.MARKER_VALUE_CUT,
            f"a transaction marker's value of {len(value)} bytes where {_VALUE.size} are needed",
        )
    epoch: int = _VALUE.unpack_from(value)[1]
    return epoch
