"""Legacy wrappers, whose offset no CRC covers: what the messages inside say of it.

Source: docs/spec/formats.md#21-compressed-wrappers.
"""

from __future__ import annotations

import numpy as np

from kdump.codes import DamageError, Severity
from kdump.format import legacy
from kdump.format.batch import CODEC_MASK, MAGIC_OFFSET
from kdump.log.heads import SMALLEST_ENTRY
from kdump.log.source import Source
from kdump.repair.entry import ByteChange, Entry, patched
from kdump.repair.inventory import Inventory, examine
from kdump.repair.misplaced import IMPLAUSIBLE_GAP
from kdump.repair.pieces import PieceOrigin
from kdump.repair.siblingcontext import SiblingContext
from kdump.verify.legacycontents import check_entry
from kdump.verify.table import row_at
from kdump.wire.compression import DEFAULT_LIMIT


def look_into_wrappers(source: Source, found: Inventory, around: SiblingContext, limit: int = DEFAULT_LIMIT) -> None:
    """Find the first offsets of the good wrappers of a survey that was not deep, and how many records they hold.

    Those that are good but for their offset are so no longer. One that does not decode stays as it is. In a log in
    which nothing is amiss nothing is looked into: that costs much, and nothing is to be placed.

    Raises:
        KdumpError: the log cannot be read.
    """
    if _is_in_order(found, around):
        return
    rows = found.table.rows
    is_wrapper = found.is_good & (rows["magic"] < 2) & (rows["attributes"] & CODEC_MASK != 0)
    for number in np.flatnonzero(is_wrapper).tolist():
        row = row_at(rows, number)
        data = memoryview(source.read(row.position, row.size))
        contents = check_entry(data, row.position, limit)
        errors = [finding for finding in contents.findings if finding.severity is Severity.ERROR]
        if contents.first_offset is not None and not errors:
            found.set_row(number, row._replace(base_offset=contents.first_offset, record_count=contents.record_count))
        elif rewrapped(data, row.position, source.path, limit) is not None:
            found.is_good[number] = False
            found.faults[number] = errors[0].message


def _is_in_order(found: Inventory, around: SiblingContext) -> bool:
    """All is good, and the offsets rise from the base offset to the next segment's without a leap."""
    last = found.table.last
    if not last.size or found.gaps or not found.is_good.all():
        return not last.size
    base = int(last[0]) if around.base_offset is None else around.base_offset
    steps = np.diff(last, prepend=base - 1)
    is_rising = bool(((steps > 0) & (steps < IMPLAUSIBLE_GAP)).all())
    return is_rising and around.next_base in (None, int(last[-1]) + 1)


def rewrapped(data: memoryview, position: int, path: str, limit: int = DEFAULT_LIMIT) -> Entry | None:
    """A legacy wrapper that is good but for its offset, which no CRC covers.

    In magic 0 the messages inside say what it is; in magic 1 they hold relative offsets, and where they belong is left
    to be found: the result has the smallest possible offsets.
    """
    if len(data) < SMALLEST_ENTRY or data[MAGIC_OFFSET] > 1 or not data[MAGIC_OFFSET + 1] & CODEC_MASK:
        return None
    message = legacy.parse_message(data)
    try:
        # Whatever its offset is: with this one the inner offsets stand as they are.
        records = legacy.read_records(message._replace(offset=0), limit)
        offset = next(records).offset
        for record in records:
            offset = record.offset
    except DamageError:
        return None
    if offset == message.offset:
        return None
    why = "the messages inside say so" if message.magic == 0 else "the messages inside do not allow it"
    change = ByteChange(0, offset.to_bytes(8, "big", signed=True), "offset", message.offset, offset, why)
    row, fault = examine(memoryview(patched(data, (change,))), position, limit)
    return None if fault is not None else Entry(row, PieceOrigin.RESTORED, path, (change,))
