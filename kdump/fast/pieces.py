"""The records of one large batch as columns, in pieces. Its memory does not grow with their number."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from kdump.fast.records import SlicedRecords
from kdump.fast.recordtable import RecordGroups
from kdump.format.batch import HEADER_SIZE, MAGIC, BatchHeader, header_dtype
from kdump.format.record import in_pieces, most_headers, read_records


def batch_pieces(header: BatchHeader, batch: memoryview, body: NDArray[np.uint8], limit: int) -> Iterator[RecordGroups]:
    """The records of one whole batch in stored order, a group of one or more at a time.

    ``body``: the batch uncompressed, without the header.

    What the columnar decoder does not accept is read by the scalar one. Raises as ``format.record.read_records``, after
    the records before the damage.
    """
    headers = np.frombuffer(batch[:HEADER_SIZE], header_dtype())
    if header.record_count > 0 and header.magic == MAGIC:
        slices = SlicedRecords(body, 0, body.size, header.record_count, most_headers(limit))
        # Of a compressed batch with damage Kafka gives no record.
        if all(columns.accepted[0] for _, columns in slices):
            for _, columns in slices:
                yield RecordGroups.of_columns(body, columns, headers)
            return
    for records in in_pieces(read_records(header, batch, limit)):
        yield RecordGroups.of_entry(records, header, headers)
