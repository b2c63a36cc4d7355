"""Findings in the records of one v2 batch, read one by one.

Source: shared/spec/formats.md section 3 (Record); recovery.md, "What recovery does not notice". This is what batches
come to that ``checks.columns`` does not accept.
"""

from __future__ import annotations

from collections.abc import Iterator

from kdump.codes import Codes, DamageError, Finding
from kdump.format import control
from kdump.format.batch import HEADER_SIZE, BatchHeader, parse_header
from kdump.format.record import Record, read_records

NO_TIMESTAMP = -1


def check_batch(batch: memoryview, position: int, limit: int) -> Iterator[Finding]:
    """What is wrong in the batch ``batch`` (header included) at ``position``, whose framing and CRC are right.

    ``limit``: most bytes that it may decompress to. A kind of damage is reported once a batch, with the first record
    that has it.
    """
    header = parse_header(batch)
    size = header.size
    if header.record_count < 0:
        return  # the header check says so
    if header.record_count == 0 and size > HEADER_SIZE:
        message = f"no records are declared, and {size - HEADER_SIZE} bytes follow the header"
        yield Finding(Codes.RECORD_COUNT, message, position, size)
        return
    walker = _Records(header)
    try:
        for record in read_records(header, batch, limit):
            walker.see(record)
    except DamageError as error:
        # Codec ids that do not exist are a matter of the header.
        if error.code is not Codes.CODEC:
            walker.note(error.code, error.message)
    else:
        walker.finish()
    for code, message in walker.found.items():
        yield Finding(code, message, position, size)


class _Records:
    """The records of one batch in stored order; ``found`` has the first message of each code."""

    def __init__(self, header: BatchHeader) -> None:
        self._header = header
        self._number = 0
        self._previous_delta = -1
        self._latest = NO_TIMESTAMP
        self.found: dict[Codes, str] = {}

    def note(self, code: Codes, message: str) -> None:
        """Keep the first of its code."""
        self.found.setdefault(code, message)

    def see(self, record: Record) -> None:
        """The next record."""
        header, number = self._header, self._number
        delta = record.offset - header.base_offset
        if not 0 <= delta <= header.last_offset_delta:
            message = f"record {number} has offset delta {delta}, outside 0..{header.last_offset_delta}"
            self.note(Codes.OFFSET_DELTA, message)
        elif delta <= self._previous_delta:
            message = f"record {number} has offset delta {delta} behind {self._previous_delta}"
            self.note(Codes.OFFSET_DELTA, message)
        self._previous_delta = delta
        timestamp = record.timestamp
        if timestamp < NO_TIMESTAMP:
            self.note(Codes.MAX_TIMESTAMP, f"record {number} has the timestamp {timestamp}")
        self._latest = max(self._latest, timestamp)
        for key, _ in record.headers:
            try:
                key.decode()
            except UnicodeDecodeError:
                self.note(Codes.HEADER_ENCODING, f"record {number} has a header key that is not UTF-8: {key!r}")
        if header.is_control and header.producer_id < 0:
            self._see_control(record)
        self._number += 1

    def finish(self) -> None:
        """All records were seen."""
        header = self._header
        if header.record_count and self._latest != header.max_timestamp:
            message = f"maxTimestamp is {header.max_timestamp}, the largest timestamp of a record {self._latest}"
            self.note(Codes.MAX_TIMESTAMP, message)

    def _see_control(self, record: Record) -> None:
        # Of KRaft. The first record of every control batch is looked at elsewhere, in each depth.
        try:
            kind = control.parse_type(record.key)
            schema = control.schema_of(kind)
            if schema is not None:
                control.parse_kraft(schema, record.value)
        except DamageError as error:
            if self._number:
                self.note(error.code, f"record {self._number}: {error.message}")
