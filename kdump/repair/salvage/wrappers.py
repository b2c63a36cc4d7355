"""Restores the offset of legacy wrappers, which no CRC covers, from the messages inside.

Source: docs/spec/formats.md#21-compressed-wrappers.
"""

from __future__ import annotations

import numpy as np

from kdump.codes import DamageError, Severity
from kdump.format import legacy
from kdump.format.batch import CODEC_MASK, MAGIC_OFFSET
from kdump.log.heads import SMALLEST_ENTRY
from kdump.log.source import Source
from kdump.repair.salvage.entry import ByteChange, Entry, patched
from kdump.repair.salvage.inventory import Inventory, examine
from kdump.repair.salvage.pieces import PieceOrigin
from kdump.repair.salvage.restore import IMPLAUSIBLE_GAP
from kdump.repair.salvage.siblingcontext import SiblingContext
from kdump.verify.legacycontents import check_entry
from kdump.verify.table import row_at
from kdump.wire.compression import DEFAULT_LIMIT


def look_into_wrappers(source: Source, found: Inventory, around: SiblingContext) -> None:
    """Note the first offset and the record count of each good wrapper, for an inventory that was not deep.

    A wrapper whose only fault is its offset is not good any more. One that does not decode stays as it is. In a log
    that is in order no wrapper is opened, because that costs much and would change nothing.

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
        if len(data) < row.size:
            # The file was cut meanwhile. Who opens it next sees that.
            continue
        contents = check_entry(data, row.position, DEFAULT_LIMIT)
        errors = [finding for finding in contents.findings if finding.severity is Severity.ERROR]
        if contents.first_offset is not None and not errors:
            found.set_row(number, row._replace(base_offset=contents.first_offset, record_count=contents.record_count))
        elif rewrapped(data, row.position, source.path) is not None:
            found.is_good[number] = False
            found.faults[number] = errors[0].message


def _is_in_order(found: Inventory, around: SiblingContext) -> bool:
    """All is good, and the offsets rise from the base offset to that of the next segment without a large step."""
    last = found.table.last
    if not last.size or found.gaps or not found.is_good.all():
        return not last.size
    base = int(last[0]) if around.base_offset is None else around.base_offset
    steps = np.diff(last, prepend=base - 1)
    is_rising = bool(((steps > 0) & (steps < IMPLAUSIBLE_GAP)).all())
    return is_rising and around.next_base in (None, int(last[-1]) + 1)


def rewrapped(data: memoryview, position: int, path: str) -> Entry | None:
    """A legacy wrapper whose only fault was its offset, which no CRC covers; None for any other entry.

    In magic 0 the messages inside have the right offsets. In magic 1 they have relative ones: the result begins at the
    smallest possible offset, and its place is decided later.
    """
    if len(data) < SMALLEST_ENTRY or data[MAGIC_OFFSET] > 1 or not data[MAGIC_OFFSET + 1] & CODEC_MASK:
        return None
    message = legacy.parse_message(data)
    try:
        # With this offset the inner ones are read as they are stored.
        records = legacy.read_records(message._replace(offset=0))
        offset = next(records).offset
        for record in records:
            offset = record.offset
    except DamageError:
        return None
    if offset == message.offset:
        return None
    why = "the messages inside say so" if message.magic == 0 else "the messages inside do not allow it"
    change = ByteChange(0, offset.to_bytes(8, "big", signed=True), "offset", message.offset, offset, why)
    row, fault = examine(memoryview(patched(data, (change,))), position)
    return None if fault is not None else Entry(row, PieceOrigin.RESTORED, path, (change,))
