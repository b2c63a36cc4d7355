"""Findings of one entry's header: fields that contradict each other, whatever the records are.

Source: docs/spec/formats.md#2-messages-v0-and-v1, docs/spec/formats.md#3-record-batches-v2.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kdump.codes import Codes, Finding
from kdump.format.batch import CODEC_MASK, CODEC_NAMES, CONTROL, DELETE_HORIZON, LOG_APPEND_TIME, TRANSACTIONAL
from kdump.verify.table import BatchRow, row_at

_NEWEST_MAGIC: Final = 2
_USED_BITS: Final = CODEC_MASK | LOG_APPEND_TIME | TRANSACTIONAL | CONTROL | DELETE_HORIZON
_USED_BITS_LEGACY: Final = (CODEC_MASK, CODEC_MASK | LOG_APPEND_TIME)
"""By magic. Version 0 has no timestamp, so no timestamp type."""
_LAST_LEGACY_CODEC: Final = 3
_SMALLEST_V1: Final = 34


def check_headers(rows: NDArray[np.void]) -> Iterator[Finding]:
    """The findings of headers; ``rows``: of ``table.row_dtype``. One call for many chunks costs less than many."""
    for number in np.flatnonzero(suspect_headers(rows)).tolist():
        yield from check_header(row_at(rows, number))


def check_header(row: BatchRow) -> Iterator[Finding]:
    """What is wrong with one entry whose CRC is right."""
    if row.magic > _NEWEST_MAGIC:
        yield _finding(Codes.MAGIC, f"the magic byte is {row.magic}, no known format; brokers read it as 2", row)
    if row.max_timestamp < -1:
        yield _finding(Codes.MAX_TIMESTAMP, f"the largest timestamp is {row.max_timestamp}", row)
    is_legacy = row.magic < _NEWEST_MAGIC
    codec = row.attributes & CODEC_MASK
    if codec > (_LAST_LEGACY_CODEC if is_legacy else len(CODEC_NAMES) - 1):
        yield _finding(Codes.CODEC, f"compression codec {codec} does not exist in magic {row.magic}", row)
    unused = row.attributes & ~(_USED_BITS_LEGACY[row.magic] if is_legacy else _USED_BITS)
    if unused:
        yield _finding(Codes.UNUSED_ATTRIBUTES, f"attribute bits without a meaning are set: {unused:#x}", row)
    if is_legacy:
        if row.magic == 1 and row.size < _SMALLEST_V1:
            message = f"a message of magic 1 has {row.size} bytes, {_SMALLEST_V1} are the least"
            yield _finding(Codes.LEGACY_MESSAGE, message, row)
        return
    if row.record_count < 0:
        yield _finding(Codes.RECORD_COUNT, f"the record count is {row.record_count}", row)
    if row.last_offset < row.base_offset:
        delta = row.last_offset - row.base_offset
        yield _finding(Codes.OFFSET_DELTA, f"lastOffsetDelta is {delta}", row)
    problem = producer_problem(row)
    if problem is not None:
        yield _finding(Codes.PRODUCER_FIELDS, problem, row)


def producer_problem(row: BatchRow) -> str | None:
    """How the producer fields and the leader epoch of a v2 batch contradict each other; None if they do not."""
    fields = f"producerId {row.producer_id}, producerEpoch {row.producer_epoch}, baseSequence {row.base_sequence}"
    if row.leader_epoch < -1:
        return f"partitionLeaderEpoch is {row.leader_epoch}"
    if min(row.producer_id, row.producer_epoch, row.base_sequence) < -1:
        return fields
    if row.producer_id < 0:
        # Coordinators write the sequence 0.
        if row.producer_epoch >= 0 or row.base_sequence > 0 or row.is_transactional:
            return f"{fields}{', transactional' if row.is_transactional else ''}"
        return None
    if row.producer_epoch < 0 or (row.base_sequence < 0) != row.is_control:
        return f"{fields} in a {'control' if row.is_control else 'data'} batch"
    return None


def suspect_headers(rows: NDArray[np.void]) -> NDArray[np.bool_]:
    """The rows (shape (rows,), of ``table.row_dtype``) in which ``check_header`` may find something; shape (rows,)."""
    attributes, magic = rows["attributes"], rows["magic"]
    codec = attributes & CODEC_MASK
    is_control = attributes & CONTROL != 0
    has_producer = rows["producer_id"] >= 0
    doubtful: NDArray[np.bool_] = (codec >= len(CODEC_NAMES)) | (attributes & (0xFFFF & ~_USED_BITS) != 0)
    doubtful |= (rows["record_count"] < 0) | (rows["last_offset"] < rows["base_offset"]) | (rows["leader_epoch"] < -1)
    doubtful |= (rows["producer_id"] < -1) | (rows["producer_epoch"] < -1) | (rows["base_sequence"] < -1)
    doubtful |= has_producer != (rows["producer_epoch"] >= 0)
    doubtful |= np.where(has_producer, (rows["base_sequence"] < 0) != is_control, rows["base_sequence"] > 0)
    doubtful |= ~has_producer & (attributes & TRANSACTIONAL != 0)
    is_legacy = magic < _NEWEST_MAGIC
    if is_legacy.any():
        has_type = (magic == 1) | (attributes & LOG_APPEND_TIME == 0)
        old = (codec > _LAST_LEGACY_CODEC) | (attributes & (0xFFFF & ~_USED_BITS_LEGACY[1]) != 0) | ~has_type
        old |= (magic == 1) & (rows["size"] < _SMALLEST_V1)
        doubtful = np.where(is_legacy, old, doubtful)
    doubtful |= (magic > _NEWEST_MAGIC) | (rows["max_timestamp"] < -1)
    doubtful &= rows["is_valid"]
    return doubtful


def _finding(code: Codes, message: str, row: BatchRow) -> Finding:
    return Finding(code, message, row.position, row.size)
