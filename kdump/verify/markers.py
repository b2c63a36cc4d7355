"""The first record of a control batch, as Kafka's recovery reads it.

Source: docs/spec/recovery.md#rule-8-markers; docs/spec/formats.md#32-control-records.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from kdump.codes import Codes, DamageError, Finding, Severity
from kdump.format import control
from kdump.format.batch import BatchHeader
from kdump.format.record import read_records
from kdump.wire.compression import DEFAULT_LIMIT

_END_TXN: Final = (control.ABORT, control.COMMIT)


class ControlMarker(NamedTuple):
    """The type of a control record, and the coordinator epoch of a transaction marker (else NO_MARKER's)."""

    type: int
    coordinator_epoch: int


NO_MARKER: Final = ControlMarker(1 << 16, -1)
"""A type that no control record can have: it is not an int16."""


def read_marker(header: BatchHeader, batch: memoryview, limit: int = DEFAULT_LIMIT) -> ControlMarker:
    """The first record of the control batch ``batch``; NO_MARKER if it has none.

    Raises:
        DamageError: the record or its key cannot be read, or a transaction marker has no readable value.
    """
    record = next(read_records(header, batch, limit), None)
    if record is None:
        return NO_MARKER
    kind = control.parse_type(record.key)
    return ControlMarker(kind, control.parse_end_txn(record.value) if kind in _END_TXN else NO_MARKER.coordinator_epoch)


def check_marker(header: BatchHeader, batch: memoryview, position: int, limit: int, *, deep: bool) -> Iterator[Finding]:
    """What is wrong with the control batch ``batch`` at ``position``; only ``deep`` decompresses."""
    if header.codec:
        message = "a control batch is compressed, which no broker does"
        yield Finding(Codes.CONTROL_RECORD, message, position, header.size, graded=Severity.WARNING)
        if not deep:
            return
    try:
        kind, _ = read_marker(header, batch, limit)
    except DamageError as error:
        yield Finding(Codes.CONTROL_RECORD, error.message, position, header.size)
        return
    has_producer = header.producer_id >= 0
    if kind == NO_MARKER.type or kind in _END_TXN:
        return
    if has_producer:
        message = f"a transaction marker of type {kind}, which is neither ABORT (0) nor COMMIT (1)"
        yield Finding(Codes.CONTROL_TYPE, message, position, header.size, graded=Severity.ERROR)
    elif control.schema_of(kind) is None:
        yield Finding(Codes.CONTROL_TYPE, f"a control record of type {kind}", position, header.size)
