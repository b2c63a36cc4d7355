"""What DumpLogSegments from 1.1 to 3.9 says of a snapshot that does not fit its schema.

Source: ``ProducerStateManager.readSnapshot`` of these versions (``org.apache.kafka.common.protocol.types``).
"""

from __future__ import annotations

import struct
from itertools import cycle
from typing import Final

_HEAD: Final = (("version", "h"), ("crc", "I"))
_ENTRY: Final = (
    ("producer_id", "q"),
    ("epoch", "h"),
    ("last_sequence", "i"),
    ("last_offset", "q"),
    ("offset_delta", "i"),
    ("timestamp", "q"),
    ("coordinator_epoch", "i"),
    ("current_txn_first_offset", "q"),
)
_COUNT: Final = struct.Struct(">i")
_ENDED: Final = "java.nio.BufferUnderflowException"


def schema_complaint(data: bytes) -> str:
    """The words for the first field that does not fit, or else for the version, which is looked at last."""
    position = 0
    for name, code in _HEAD:
        position += struct.calcsize(f">{code}")
        if position > len(data):
            return _failed(name, _ENDED)
    trouble = _entries_trouble(data[position:])
    if trouble is not None:
        return _failed("producer_entries", trouble)
    return f"Snapshot contained an unknown file version {int.from_bytes(data[:2], 'big', signed=True)}"


def _entries_trouble(data: bytes) -> str | None:
    if len(data) < _COUNT.size:
        return _ENDED
    (count,) = _COUNT.unpack_from(data)
    left = len(data) - _COUNT.size
    if count < 0:
        return f"Array size {count} cannot be negative"
    if count > left:
        return f"Error reading array of size {count}, only {left} bytes available"
    fields = cycle(_ENTRY)
    for _ in range(count * len(_ENTRY)):
        name, code = next(fields)
        left -= struct.calcsize(f">{code}")
        if left < 0:
            return f"Error reading field '{name}': {_ENDED}"
    return None


def _failed(name: str, trouble: str) -> str:
    return f"Snapshot failed schema validation: Error reading field '{name}': {trouble}"
