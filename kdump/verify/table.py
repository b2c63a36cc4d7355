"""The batch table of a segment: one row per entry, from headers alone (and the first record of control batches).

It is an array of ``row_dtype``, built while the chunks of a walk pass. The tables of parts in file order are
concatenated. A check of one row takes it as a tuple: a ``BatchRow`` with the same fields.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kdump.codes import Codes, DamageError, Finding, Severity
from kdump.fast.headers import native_column, read_headers
from kdump.fast.ragged import windows
from kdump.format import control
from kdump.format.batch import (
    CODEC_MASK,
    CONTROL,
    DELETE_HORIZON,
    MAGIC_OFFSET,
    TRANSACTIONAL,
    BatchHeader,
    increment_sequence,
    parse_header,
)
from kdump.format.legacy import head_dtype
from kdump.format.record import read_records
from kdump.log.resync import CheckedChunk
from kdump.wire.compression import DEFAULT_LIMIT

UNKNOWN_OFFSET: Final = -(2**63)
"""Base offset of a compressed entry of magic 0 or 1: only its last offset is in the header."""
NO_PRODUCER: Final = -1

_COLUMN_TYPES: Final = (
    ("position", "i8"),
    ("size", "i8"),
    ("base_offset", "i8"),
    ("last_offset", "i8"),
    ("leader_epoch", "i4"),
    ("magic", "i1"),
    ("crc", "u4"),
    ("attributes", "u2"),
    ("record_count", "i4"),
    ("producer_id", "i8"),
    ("producer_epoch", "i2"),
    ("base_sequence", "i4"),
    ("base_timestamp", "i8"),
    ("max_timestamp", "i8"),
    ("marker_type", "i4"),
    ("coordinator_epoch", "i4"),
    ("is_valid", "?"),
    ("is_after_gap", "?"),
)


class BatchRow(NamedTuple):
    """One entry.

    ``position`` and ``size`` are in bytes, the timestamps in ms (the entry's own for magic 1, -1 for magic 0). A
    legacy entry has count 1 (a decompressed wrapper: the number of its messages) and -1 in the fields that only magic 2
    has. ``marker_type`` and ``coordinator_epoch`` are those of the first record of a control batch, NO_MARKER without
    one. ``is_valid``: the CRC is right. ``is_after_gap``: damage, framing or CRC, lies directly before.
    """

    position: int
    size: int
    base_offset: int
    last_offset: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    record_count: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    base_timestamp: int
    max_timestamp: int
    marker_type: int
    coordinator_epoch: int
    is_valid: bool
    is_after_gap: bool

    @property
    def is_control(self) -> bool:
        """Whether it holds markers of Kafka, not data."""
        return self.magic >= 2 and bool(self.attributes & CONTROL)

    @property
    def is_transactional(self) -> bool:
        """Whether it was written inside a transaction (markers too)."""
        return self.magic >= 2 and bool(self.attributes & TRANSACTIONAL)

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record of a batch that has sequences."""
        return increment_sequence(self.base_sequence, self.last_offset - self.base_offset)


def entry_of(chunk: CheckedChunk, row: BatchRow) -> memoryview:
    """The bytes of an entry of ``chunk``."""
    start = row.position - chunk.position
    return chunk.data[start : start + row.size]


def _marker(batch: memoryview) -> ControlMarker:
    """The marker of a control batch; NO_MARKER also if it cannot be read (a local check reports why)."""
    header = parse_header(batch)
    if header.codec:
        return NO_MARKER
    try:
        return read_marker(header, batch)
    except DamageError:
        return NO_MARKER


def read_rows(chunk: CheckedChunk, is_after_gap: bool) -> NDArray[np.void]:
    """The rows of a chunk: shape (entries,), of ``row_dtype``; ``is_after_gap``: of its first entry."""
    data = np.frombuffer(chunk.data, np.uint8)
    starts = np.array(chunk.starts, np.int64)
    rows = np.empty(starts.size, row_dtype())
    rows["position"] = starts + chunk.position
    rows["size"] = np.diff(starts, append=chunk.end)
    rows["is_valid"] = True
    rows["is_valid"][chunk.damaged] = False
    rows["is_after_gap"] = np.concatenate(([is_after_gap], ~rows["is_valid"][:-1]))
    rows["marker_type"], rows["coordinator_epoch"] = NO_MARKER
    is_legacy = data[starts + MAGIC_OFFSET] < 2
    at: NDArray[np.intp] | slice = slice(None)
    if is_legacy.any():
        head = head_dtype(1)
        old = windows(data, head.itemsize)[starts[is_legacy]].view(head)
        rows["leader_epoch"] = rows["producer_id"] = rows["producer_epoch"] = rows["base_sequence"] = -1
        rows["record_count"] = 1
        for name in ("crc", "magic", "attributes"):
            rows[name][is_legacy] = old[name]
        rows["last_offset"][is_legacy] = old["offset"]
        rows["base_offset"][is_legacy] = np.where(old["attributes"] & CODEC_MASK, UNKNOWN_OFFSET, old["offset"])
        timestamp = np.where(old["magic"] == 0, -1, old["timestamp"])
        rows["base_timestamp"][is_legacy] = rows["max_timestamp"][is_legacy] = timestamp
        at = np.flatnonzero(~is_legacy)
        starts = starts[at]
    headers = read_headers(data, starts)
    for name in _HEADER_COLUMNS:
        rows[name][at] = headers[name]
    rows["leader_epoch"][at] = headers["partition_leader_epoch"]
    rows["last_offset"][at] = native_column(headers, "base_offset") + headers["last_offset_delta"]
    for number in control_batches(rows):
        begin = chunk.starts[number]
        marker = _marker(chunk.data[begin : begin + int(rows["size"][number])])
        rows["marker_type"][number], rows["coordinator_epoch"][number] = marker
    return rows


_HEADER_COLUMNS: Final = (
    "base_offset", "magic", "crc", "attributes", "record_count", "producer_id", "producer_epoch", "base_sequence",
    "base_timestamp", "max_timestamp",
)  # fmt: skip
"""The columns that have the names of fields of a header."""


def control_batches(rows: NDArray[np.void]) -> list[int]:
    """Numbers of the rows that are valid control batches, rising."""
    candidates = np.flatnonzero(rows["attributes"] & CONTROL)
    if candidates.size:
        candidates = candidates[rows["is_valid"][candidates] & (rows["magic"][candidates] >= 2)]
    numbers: list[int] = candidates.tolist()
    return numbers


def cleaned(rows: NDArray[np.void], *, wrappers: bool = False) -> NDArray[np.bool_]:
    """Which batches the log cleaner compacted, shape (rows,): with fewer records than offsets, or a delete horizon.

    Args:
        rows: of ``row_dtype``.
        wrappers: also decide on legacy wrappers with known first offsets. Verify does not, repair does.
    """
    is_v2 = rows["magic"] >= 2
    is_known = rows["is_valid"] & (rows["record_count"] >= 0) & (rows["base_offset"] != UNKNOWN_OFFSET)
    has_horizon = (rows["attributes"] & DELETE_HORIZON != 0) & is_v2
    has_fewer = rows["record_count"] <= rows["last_offset"] - rows["base_offset"]
    found: NDArray[np.bool_] = is_known & (is_v2 | wrappers) & (has_horizon | has_fewer)
    return found


def missing_inside(rows: NDArray[np.void]) -> int:
    """How many offsets of v2 batches have no record. ``rows``: of ``row_dtype``."""
    thinned = rows[cleaned(rows)]
    spans = thinned["last_offset"] - thinned["base_offset"] + 1
    return int(np.maximum(spans - thinned["record_count"], 0).sum())


END_TXN: Final = (control.ABORT, control.COMMIT)


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
    return ControlMarker(kind, control.parse_end_txn(record.value) if kind in END_TXN else NO_MARKER.coordinator_epoch)


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
    if kind == NO_MARKER.type or kind in END_TXN:
        return
    if has_producer:
        message = f"a transaction marker of type {kind}, which is neither ABORT (0) nor COMMIT (1)"
        yield Finding(Codes.CONTROL_TYPE, message, position, header.size, graded=Severity.ERROR)
    elif control.schema_of(kind) is None:
        yield Finding(Codes.CONTROL_TYPE, f"a control record of type {kind}", position, header.size)


@cache
def row_dtype() -> np.dtype[np.void]:
    """The fields of BatchRow as a native numpy dtype."""
    return np.dtype(list(_COLUMN_TYPES))


def joined(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """The rows of some tables, one after the other, or columns of one type."""
    if len(parts) == 1:
        return parts[0]
    # Without ``out`` numpy compares the fields of each part with those of the others.
    made = np.empty(sum(map(len, parts)), parts[0].dtype if parts else row_dtype())
    return np.concatenate(parts, out=made, casting="equiv") if parts else made


def first_offset(row: BatchRow) -> int:
    """The first known offset of an entry."""
    return row.last_offset if row.base_offset == UNKNOWN_OFFSET else row.base_offset


def row_at(columns: NDArray[np.void], number: int) -> BatchRow:
    """One row of the structured array as a tuple."""
    return BatchRow._make(columns[number].item())
