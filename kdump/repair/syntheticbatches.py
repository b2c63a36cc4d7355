"""Batches that kdump makes: empty ones that hold offsets, and markers that end transactions.

Source: docs/spec/formats.md#3-record-batches-v2; MemoryRecords.writeEmptyHeader (what the log cleaner leaves of a batch
whose records are gone) and MemoryRecords.writeEndTransactionalMarker of Kafka 4.3.1.
"""

from __future__ import annotations

import struct
from typing import Final

from kdump.format.batch import CONTROL, HEADER_SIZE, LOG_OVERHEAD, TRANSACTIONAL
from kdump.format.control import ABORT, COMMIT
from kdump.wire.checksum import crc32c

_HEAD: Final = struct.Struct(">qiibI")
_COVERED: Final = struct.Struct(">HiqqqhiI")
"""What the CRC covers of a header: attributes to record count."""
_MAGIC: Final = 2
_NONE: Final = -1
_MARKER: Final = struct.Struct(">bbbb b hh b hi b")
"""An end-of-transaction record: length, attributes, timestamp and offset delta, key, value, no headers."""
_MARKER_LENGTH: Final = 16
_KEY_SIZE: Final = 4
_VALUE_SIZE: Final = 6


def empty_batch(first_offset: int, last_offset: int, leader_epoch: int) -> bytes:
    """A batch without records (61 bytes) over offsets that are at most 2^31 - 1 apart; of no producer."""
    covered = _COVERED.pack(0, last_offset - first_offset, _NONE, _NONE, _NONE, _NONE, _NONE, 0)
    return _batch(first_offset, leader_epoch, covered)


def end_marker(
    offset: int,
    leader_epoch: int,
    *,
    is_abort: bool,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp: int,
) -> bytes:
    """A batch with one marker, ABORT or COMMIT; ``timestamp`` in ms."""
    covered = _COVERED.pack(
        TRANSACTIONAL | CONTROL, 0, timestamp, timestamp, producer_id, producer_epoch, _NONE, 1
    ) + _MARKER.pack(
        *(_zigzag(_MARKER_LENGTH), 0, 0, 0),
        *(_zigzag(_KEY_SIZE), 0, ABORT if is_abort else COMMIT),
        *(_zigzag(_VALUE_SIZE), 0, coordinator_epoch),
        0,
    )
    return _batch(offset, leader_epoch, covered)


def _batch(base_offset: int, leader_epoch: int, covered: bytes) -> bytes:
    size = HEADER_SIZE - _COVERED.size + len(covered)
    return _HEAD.pack(base_offset, size - LOG_OVERHEAD, leader_epoch, _MAGIC, crc32c(covered)) + covered


def _zigzag(value: int) -> int:
    return value << 1
