"""Producer snapshots: the state of every producer at one offset.

Source: docs/spec/formats.md#7-producer-snapshots (KIP-98, KIP-890).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from kdump.codes import Codes, DamageError
from kdump.format.batch import decrement_sequence
from kdump.wire.checksum import crc32c

_HEAD: Final = struct.Struct(">hIi")
_ENTRY: Final = struct.Struct(">qhiqiqiq")
_VERSION: Final = 1
_CRC_START: Final = 6


class ProducerEntry(NamedTuple):
    """One producer; -1 in the last_ fields and timestamp (ms): known by a marker only."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    current_txn_first_offset: int

    @property
    def first_sequence(self) -> int:
        """Sequence of the first record of the last batch; sequences start again at 0 after 2^31-1."""
        return decrement_sequence(self.last_sequence, self.offset_delta)


def write_snapshot(entries: Iterable[ProducerEntry]) -> bytes:
    """The bytes of a snapshot file with these entries; they are taken one by one."""
    data = bytearray(_HEAD.size)
    for entry in entries:
        data += _ENTRY.pack(*entry)
    count = len(data) // _ENTRY.size
    _HEAD.pack_into(data, 0, _VERSION, 0, count)
    with memoryview(data) as view:
        crc = crc32c(view[_CRC_START:])
    _HEAD.pack_into(data, 0, _VERSION, crc, count)
    return bytes(data)


def parse_snapshot(data: bytes) -> list[ProducerEntry]:
    """All entries in file order. Raises DamageError, see ``snapshot_entries``."""
    return list(snapshot_entries(data))


def snapshot_entries(data: bytes) -> Iterator[ProducerEntry]:
    """The entries in file order, one by one; all checks come before the first.

    Raises:
        DamageError: SNAPSHOT_SCHEMA with Kafka's own words in the message (schema problems come before the CRC),
            or SNAPSHOT_CRC.
    """
    version = int.from_bytes(data[:2], "big", signed=True)
    if len(data) >= 2 and version != _VERSION:
        raise _schema(f"Snapshot contained an unknown file version {version}")
    if len(data) < _HEAD.size:
        raise _schema("null")
    _, crc, count = _HEAD.unpack_from(data)
    left = len(data) - _HEAD.size
    if count < 0:
        raise _schema("non-nullable field producerEntries was serialized as null")
    if count > left:
        raise _schema(f"Tried to allocate a collection of size {count}, but there are only {left} bytes remaining.")
    if count * _ENTRY.size > left:
        raise _schema("null")
    computed = crc32c(memoryview(data)[_CRC_START:])
    if computed != crc:
        raise DamageError(
            Codes.SNAPSHOT_CRC,
            f"Snapshot is corrupt (CRC is no longer valid). Stored crc: {crc}. Computed crc: {computed}",
        )
    entries = memoryview(data)[_HEAD.size : _HEAD.size + count * _ENTRY.size]
    return map(ProducerEntry._make, _ENTRY.iter_unpack(entries))


def _schema(message: str) -> DamageError:
    return DamageError(Codes.SNAPSHOT_SCHEMA, f"Snapshot failed schema validation: {message}")
