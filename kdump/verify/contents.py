"""Findings in the records of one v2 batch, read one by one.

Source: docs/spec/formats.md#31-record; docs/spec/recovery.md#4-what-recovery-does-not-notice. The batches that
``verify.columns`` does not accept are checked here.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from kdump.codes import Codes, DamageError, Finding
from kdump.format import control
from kdump.format.batch import CODEC_MASK, HEADER_SIZE, BatchHeader, header_dtype, parse_header, wrap_int64
from kdump.format.legacy import NO_TIMESTAMP
from kdump.format.record import Record, batch_body, is_large, most_headers, read_body
from kdump.wire.checksum import Buffer

if TYPE_CHECKING:
    from kdump.verify.columns import RecordRules


class BatchRecords:
    """The records of one batch in stored order.

    Attributes:
        header: of the batch.
        found: the first message of each code.
        is_kraft: the records are KRaft's control records, each of which is checked by itself.
        number: of the next record.
        previous_delta: offset delta of the record before it, -1 without one.
        latest: the largest timestamp (ms) so far.
    """

    def __init__(self, header: BatchHeader) -> None:
        self.header = header
        self.number = 0
        self.previous_delta = -1
        self.latest = NO_TIMESTAMP
        self.found: dict[Codes, str] = {}
        self.is_kraft = header.is_control and header.producer_id < 0

    def note(self, code: Codes, message: str) -> None:
        """Keep the message if it is the first of its code."""
        self.found.setdefault(code, message)

    def see(self, record: Record) -> None:
        """Check the next record."""
        header, number = self.header, self.number
        delta = record.offset - header.base_offset
        if not 0 <= delta <= header.last_offset_delta:
            delta = wrap_int64(delta)
        if not 0 <= delta <= header.last_offset_delta:
            message = f"record {number} has offset delta {delta}, outside 0..{header.last_offset_delta}"
            self.note(Codes.OFFSET_DELTA, message)
        elif delta <= self.previous_delta:
            message = f"record {number} has offset delta {delta} after {self.previous_delta}"
            self.note(Codes.OFFSET_DELTA, message)
        self.previous_delta = delta
        timestamp = record.timestamp
        if timestamp < NO_TIMESTAMP:
            self.note(Codes.MAX_TIMESTAMP, f"record {number} has the timestamp {timestamp}")
        self.latest = max(self.latest, timestamp)
        for key, _ in record.headers:
            try:
                key.decode()
            except UnicodeDecodeError:
                self.note(Codes.HEADER_ENCODING, f"record {number} has a header key that is not UTF-8: {key!r}")
        if self.is_kraft:
            self._see_control(record)
        self.number += 1

    def pass_over(self, count: int, last_delta: int, latest: int) -> None:
        """Step over the next ``count`` records: they break no rule that was not broken before.

        ``last_delta``: offset delta of the last one; ``latest``: their largest timestamp (ms).
        """
        self.number += count
        self.previous_delta = last_delta
        self.latest = max(self.latest, latest)

    def finish(self) -> None:
        """Check what only all records together show."""
        header = self.header
        if self.latest != header.max_timestamp:
            message = f"maxTimestamp is {header.max_timestamp}, the largest timestamp of a record {self.latest}"
            self.note(Codes.MAX_TIMESTAMP, message)

    def _see_control(self, record: Record) -> None:
        # A control record of KRaft. Another check reads the first record of every control batch.
        try:
            kind = control.parse_type(record.key)
            schema = control.schema_of(kind)
            if schema is not None:
                control.parse_kraft(schema, record.value)
        except DamageError as error:
            if self.number:
                self.note(error.code, f"record {self.number}: {error.message}")


def check_batch(batch: memoryview, position: int, limit: int) -> Iterator[Finding]:
    """What is wrong in the batch ``batch`` (header included) at ``position``, whose framing and CRC are right.

    ``limit``: most bytes to which it may decompress. Each kind of damage is reported once per batch, with the first
    record that has it.
    """
    header = parse_header(batch)
    size = header.size
    if header.record_count < 0:
        return  # the check of the header reports it
    if header.record_count == 0:
        if size > HEADER_SIZE:
            message = f"no records are declared, and {size - HEADER_SIZE} bytes follow the header"
            yield Finding(Codes.RECORD_COUNT, message, position, size)
        return
    records = BatchRecords(header)
    try:
        _see_all(records, batch_body(header, batch, limit), limit)
    except DamageError as error:
        if header.attributes & CODEC_MASK:
            # Of a damaged compressed batch Kafka returns no record.
            records.found.clear()
        # The check of the header reports codec ids that do not exist.
        if error.code is not Codes.CODEC:
            records.note(error.code, error.message)
    else:
        records.finish()
    for code, message in records.found.items():
        yield Finding(code, message, position, size)


def _see_all(records: BatchRecords, body: Buffer, limit: int) -> None:
    """Check all records of ``body``. Raises as ``format.record.read_body``."""
    header = records.header
    position = 0
    if is_large(header.record_count, len(body)) and not records.is_kraft:
        position = _see_slices(records, body, limit)
    for record in read_body(header, body, limit, records.number, position):
        records.see(record)


def _see_slices(records: BatchRecords, body: Buffer, limit: int) -> int:
    """Give ``records`` the records of ``body`` up to the first slice that the columnar decoder does not accept.

    A slice in which a rule may be broken is read record by record, unless that rule was broken before: a batch has one
    finding per code. So a batch whose every record is wrong costs little more than a valid one.

    Returns where the next record, ``records.number``, begins in ``body``.
    """
    import numpy as np

    from kdump.fast.records import SlicedRecords
    from kdump.verify.columns import RecordRules

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
