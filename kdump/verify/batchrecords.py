"""The rules for the records of a v2 batch, applied one record after the other.

Source: docs/spec/formats.md#31-record; docs/spec/recovery.md#4-what-recovery-does-not-notice.
"""

from __future__ import annotations

from typing import Final

from kdump.codes import Codes, DamageError
from kdump.format import control
from kdump.format.batch import BatchHeader, wrap_int64
from kdump.format.record import Record

NO_TIMESTAMP: Final = -1


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
