"""Findings in the records of one large batch, some thousand records at a time.

Slices are read by columns, which only accept. If the columns suspect a rule to be broken, the slice is read record by
record. A rule that was broken before is not checked again, as a batch has one finding per code. So a batch whose every
record is wrong costs little more than a valid one.
"""

from __future__ import annotations

from itertools import islice

import numpy as np

from kdump.codes import Codes
from kdump.fast.records import SlicedRecords
from kdump.format.batch import header_dtype
from kdump.format.record import most_headers, read_body
from kdump.verify.batchrecords import BatchRecords
from kdump.verify.columns import RecordRules
from kdump.wire.checksum import Buffer


def see_slices(records: BatchRecords, body: Buffer, limit: int) -> int:
    """Give ``records`` the records of ``body`` up to the first slice that the columnar decoder does not accept.

    Returns where the next record, ``records.number``, begins in ``body``.
    """
    header = records.header
    headers = np.array([tuple(header)], header_dtype())
    arena = np.frombuffer(body, np.uint8)
    for start, columns in SlicedRecords(arena, 0, arena.size, header.record_count, most_headers(limit)):
        if not columns.accepted[0]:
            return start
        rows = columns.batch.size
        rules = RecordRules.of(headers, arena, columns, after=records.previous_delta)
        if _suspects(rules) <= records.found.keys():
            records.pass_over(rows, int(columns.offset_delta[-1]), int(rules.latest[0]))
        else:
            for record in islice(read_body(header, body, limit, records.number, start), rows):
                records.see(record)
    return arena.size


def _suspects(rules: RecordRules) -> set[Codes]:
    """The codes that ``verify.contents`` may find in the records of one batch."""
    held = {
        Codes.OFFSET_DELTA: rules.deltas_rise,
        Codes.MAX_TIMESTAMP: rules.timestamps_are_set,
        Codes.HEADER_ENCODING: rules.keys_are_utf8,
    }
    return {code for code, holds in held.items() if not holds[0]}
