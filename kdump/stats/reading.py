"""A look at a stretch of a log as ``verify`` takes it, with its rows folded on the way: one pass for both."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from kdump.codes import Finding
from kdump.log.extents import Extent
from kdump.log.source import Source
from kdump.log.walk import DEFAULT_CHUNK_SIZE
from kdump.stats.fold import PartFold
from kdump.verify.gaps import NextSegment
from kdump.verify.segment import CheckOptions, Rows, SegmentReading

_RECORDS_CHUNK: Final = 4 << 20


class StatsReading:
    """See ``verify.segment.Look``.

    Args:
        source: the log.
        following: as for SegmentLook.
        extent: what is looked at; None: all of it.
        part: takes the rows.
        with_records: decode every record; else framing, checksums and headers.
        limit: most bytes that one batch may decompress to.
    """

    def __init__(
        self,
        source: Source,
        following: NextSegment | None,
        extent: Extent | None,
        part: PartFold,
        *,
        with_records: bool,
        limit: int,
    ) -> None:
        suspects = None
        if with_records:
            from kdump.stats.records import RecordReader

            suspects = RecordReader(limit, part.see_records).suspects
        chunk_size = _RECORDS_CHUNK if with_records else DEFAULT_CHUNK_SIZE
        options = CheckOptions(deep=with_records, limit=limit, columnar=True)
        self._look = SegmentReading(source, following, options, extent, suspects=suspects, chunk_size=chunk_size)
        self._part = part

    @property
    def ends_in_gap(self) -> bool:
        """See Look."""
        return self._look.ends_in_gap

    def items(self) -> Iterator[Finding | Rows]:
        """See Look."""
        for item in self._look.items():
            if isinstance(item, np.ndarray):
                self._part.see_batches(item)
            yield item
        self._part.see_end(in_gap=self.ends_in_gap)
