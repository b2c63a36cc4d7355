"""Findings in the records of one v2 batch, read one by one.

Source: docs/spec/formats.md#31-record; docs/spec/recovery.md#4-what-recovery-does-not-notice. The batches that
``verify.columns`` does not accept are checked here.
"""

from __future__ import annotations

from collections.abc import Iterator

from kdump.codes import Codes, DamageError, Finding
from kdump.format.batch import CODEC_MASK, HEADER_SIZE, parse_header
from kdump.format.record import batch_body, is_large, read_body
from kdump.verify.batchrecords import BatchRecords
from kdump.wire.checksum import Buffer


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
        from kdump.verify.slices import see_slices

        position = see_slices(records, body, limit)
    for record in read_body(header, body, limit, records.number, position):
        records.see(record)
