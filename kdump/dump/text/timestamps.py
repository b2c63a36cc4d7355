"""The largest record timestamps of batches, as the time index checks of DumpLogSegments want them.

Source: docs/spec/dump-output.md#7-time-indexes: by decoding every record, never from the batch header.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Final

from kdump.codes import Codes, DamageError
from kdump.dump.text.batches import Located
from kdump.fast.policy import TIMED_BATCHES
from kdump.format import legacy
from kdump.format import record as v2
from kdump.format.batch import HEADER_SIZE, MAGIC_OFFSET, is_read_as_batch, parse_header
from kdump.log.source import Source

_NO_TIMESTAMP: Final = -1
_READ_SIZE: Final = 4 << 20


class MaxTimestamps:
    """Answers for batches of one log; those announced by ``prepare`` are decoded together."""

    def __init__(self, log: Source, limit: int) -> None:
        self._log = log
        self._limit = limit
        self._known: dict[int, int] = {}

    def prepare(self, batches: Iterable[Located]) -> None:
        """Decode these batches as columns; what that refuses is decoded when it is asked for."""
        wanted = sorted(set(batches))
        self._known.clear()
        if len(wanted) < TIMED_BATCHES:
            return
        group: list[Located] = []
        size = 0
        for batch in wanted:
            group.append(batch)
            size += batch.size
            if size >= _READ_SIZE:
                self._decode(group)
                group, size = [], 0
        if group:
            self._decode(group)

    def of(self, batch: Located) -> int:
        """The largest timestamp (ms) in ``batch``, -1 for none. DamageError when it does not decode."""
        known = self._known.get(batch.position)
        return self._scalar(batch) if known is None else known

    def _decode(self, batches: list[Located]) -> None:
        import numpy as np

        from kdump.fast.blocks import BatchBlock, BlockReader
        from kdump.fast.recordvalues import record_timestamps

        data = b"".join(self._log.read(batch.position, batch.size) for batch in batches)
        bounds = list(accumulate((batch.size for batch in batches), initial=0))
        if len(data) != bounds[-1]:
            return
        for block in BlockReader(self._limit, with_records=True).read(memoryview(data), bounds, 0):
            if not isinstance(block, BatchBlock) or block.records is None:
                continue
            records = block.records
            with_rows = np.flatnonzero(records.row_count)
            timestamps = record_timestamps(block.headers, records)
            if with_rows.size:
                largest = np.maximum.reduceat(timestamps, records.first_row[with_rows])
                for row, timestamp in zip(with_rows.tolist(), largest.tolist(), strict=True):
                    self._known[batches[int(block.numbers[row])].position] = max(_NO_TIMESTAMP, timestamp)

    def _scalar(self, batch: Located) -> int:
        data = memoryview(self._log.read(batch.position, batch.size))
        try:
            timestamps: Iterator[int]
            if is_read_as_batch(data[MAGIC_OFFSET]):
                if len(data) < HEADER_SIZE:
                    raise DamageError(Codes.HEADER_CUT, "the batch is shorter than its header")
                timestamps = (record.timestamp for record in v2.read_records(parse_header(data), data, self._limit))
            else:
                timestamps = _legacy_timestamps(legacy.parse_message(data), self._limit)
            return max(_NO_TIMESTAMP, max(timestamps, default=_NO_TIMESTAMP))
        except DamageError as error:
            raise error.located(self._log.path, batch.position) from None


def _legacy_timestamps(entry: legacy.Message, limit: int) -> Iterator[int]:
    for record in legacy.read_records(entry, limit):
        legacy.check_inner(record, entry)
        yield record.timestamp
