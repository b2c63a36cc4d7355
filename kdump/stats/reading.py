"""Reads a log as ``verify`` does and adds its rows to a fold: one pass for both."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from kdump.codes import Finding
from kdump.log.source import Source
from kdump.log.walk import DEFAULT_CHUNK_SIZE
from kdump.stats.fold import PartFold
from kdump.verify.gaps import NextSegment
from kdump.verify.segment import CheckOptions, Rows, SeenSegment, SegmentReading

_RECORDS_CHUNK: Final = 4 << 20


def segment_reading(
    source: Source,
    following: NextSegment | None,
    part: PartFold,
    *,
    with_records: bool,
    limit: int,
) -> SegmentReading:
    """A reading of a segment that a ``StatsReading`` can follow.

    Args:
        source: the log.
        following: as for SegmentReading.
        part: takes the records.
        with_records: decode every record; else check framing, checksums and headers.
        limit: most bytes to which one batch may decompress.
    """
    suspects = None
    if with_records:
        from kdump.stats.records import RecordReader

        suspects = RecordReader(limit, part.see_records).suspects
    chunk_size = _RECORDS_CHUNK if with_records else DEFAULT_CHUNK_SIZE
    options = CheckOptions(deep=with_records, limit=limit, columnar=True)
    return SegmentReading(source, following, options, suspects=suspects, chunk_size=chunk_size)


class StatsReading:
    """One pass over a segment for checks and figures; see ``verify.segment.SeenSegment``.

    Args:
        reading: of the segment.
        part: takes the rows.
    """

    def __init__(self, reading: SeenSegment, part: PartFold) -> None:
        self._reading = reading
        self._part = part

    @property
    def ends_in_gap(self) -> bool:
        """Whether damage follows the last row; see SeenSegment."""
        return self._reading.ends_in_gap

    def items(self) -> Iterator[Finding | Rows]:
        """Findings and rows; see SeenSegment."""
        for item in self._reading.items():
            if isinstance(item, np.ndarray):
                self._part.see_batches(item)
            yield item
        self._part.see_end(in_gap=self.ends_in_gap)
