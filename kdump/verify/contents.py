"""Findings in the records of one v2 batch, read one by one.

Source: docs/spec/formats.md#31-record; docs/spec/recovery.md#4-what-recovery-does-not-notice. This is what batches come
to that ``verify.columns`` does not accept.
"""

from __future__ import annotations

from collections.abc import Iterator

from kdump.codes import Codes, DamageError, Finding
from kdump.format import control
from kdump.format.batch import CODEC_MASK, HEADER_SIZE, BatchHeader, parse_header, wrap_int64
from kdump.format.record import Record, batch_body, is_large, read_body
from kdump.wire.checksum import Buffer

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
    if header.record_count == 0:
        if size > HEADER_SIZE:
            message = f"no records are declared, and {size - HEADER_SIZE} bytes follow the header"
            yield Finding(Codes.RECORD_COUNT, message, position, size)
        return
    walker = BatchRecords(header)
    try:
        walker.see_all(batch_body(header, batch, limit), limit)
    except DamageError as error:
        if header.attributes & CODEC_MASK:
            # Of a compressed batch with damage Kafka gives no record.
            walker.found.clear()
        # Codec ids that do not exist are a matter of the header.
        if error.code is not Codes.CODEC:
            walker.note(error.code, error.message)
    else:
        walker.finish()
    for code, message in walker.found.items():
        yield Finding(code, message, position, size)


class BatchRecords:
    """The records of one batch in stored order.

    Attributes:
        header: of the batch.
        found: the first message of each code.
        number: of the next record.
        previous_delta: offset delta of the one before it; -1: there is none.
        latest: the largest timestamp (ms) so far.
    """

    def __init__(self, header: BatchHeader) -> None:
        self.header = header
        self.number = 0
        self.previous_delta = -1
        self.latest = NO_TIMESTAMP
        self.found: dict[Codes, str] = {}
        self._is_kraft = header.is_control and header.producer_id < 0

    def see_all(self, body: Buffer, limit: int) -> None:
        """All records; ``body``: the same uncompressed. Raises as ``format.record.read_body``."""
        header = self.header
        position = 0
        # Each record of KRaft's control batches is looked at.
        if is_large(header.record_count, len(body)) and not self._is_kraft:
            from kdump.verify.slices import see_slices

            position = see_slices(self, body, limit)
        for record in read_body(header, body, limit, self.number, position):
            self.see(record)

    def note(self, code: Codes, message: str) -> None:
        """Keep the first of its code."""
        self.found.setdefault(code, message)

    def see(self, record: Record) -> None:
        """The next record."""
        header, number = self.header, self.number
        delta = wrap_int64(record.offset - header.base_offset)
        if not 0 <= delta <= header.last_offset_delta:
            message = f"record {number} has offset delta {delta}, outside 0..{header.last_offset_delta}"
            self.note(Codes.OFFSET_DELTA, message)
        elif delta <= self.previous_delta:
            message = f"record {number} has offset delta {delta} behind {self.previous_delta}"
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
        if self._is_kraft:
            self._see_control(record)
        self.number += 1

    def pass_over(self, count: int, last_delta: int, latest: int) -> None:
        """The next ``count`` records break no rule, or only such as were broken before.

        ``last_delta``: of the last one; ``latest``: their largest timestamp (ms).
        """
        self.number += count
        self.previous_delta = last_delta
        self.latest = max(self.latest, latest)

    def finish(self) -> None:
        """All records were seen."""
        header = self.header
        if self.latest != header.max_timestamp:
            message = f"maxTimestamp is {header.max_timestamp}, the largest timestamp of a record {self.latest}"
            self.note(Codes.MAX_TIMESTAMP, message)

    def _see_control(self, record: Record) -> None:
        # Of KRaft. The first record of every control batch is looked at elsewhere, in each depth.
        try:
            kind = control.parse_type(record.key)
            schema = control.schema_of(kind)
            if schema is not None:
                control.parse_kraft(schema, record.value)
        except DamageError as error:
            if self.number:
                self.note(error.code, f"record {self.number}: {error.message}")
