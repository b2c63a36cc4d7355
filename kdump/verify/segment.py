"""One pass over a segment: its chunks go to the local checks, its batch table to the ordered ones.

The two halves can run apart: many processes check a log each, then one process runs the ordered checks.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import Final, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kdump.codes import Finding, KdumpError
from kdump.fast import policy
from kdump.log.gaps import Gap
from kdump.log.resync import CheckedChunk, ResyncWalk
from kdump.log.source import Source
from kdump.log.walk import DEFAULT_CHUNK_SIZE
from kdump.verify.entries import EntryChecks, Suspects
from kdump.verify.gaps import GapChecks, NextSegment
from kdump.verify.headers import check_headers
from kdump.verify.ordered import OrderedChecks
from kdump.verify.table import joined, read_rows
from kdump.wire.compression import DEFAULT_LIMIT

Rows: TypeAlias = NDArray[np.void]
"""Rows of the batch table: shape (rows,), of ``table.row_dtype``."""

_HELD_ITEMS: Final = 4096
"""Findings and rows that are handed over at once.

Rows of several chunks are checked together: a step by columns costs as much for a few rows as for thousands. Between
damaged places a chunk has one row.
"""
_checked = policy.CheckedRows()
"""Of this process: what reads columns is imported once."""


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """How deep a segment is checked.

    ``deep``: decompress and decode every record. ``limit``: most bytes to which one batch may decompress. ``columnar``:
    use the columnar paths; None: if the run is large enough. ``lists_gaps``: report each range of missing offsets,
    also where compaction left it.
    """

    deep: bool = True
    limit: int = DEFAULT_LIMIT
    columnar: bool | None = None
    lists_gaps: bool = False


class SegmentReading:
    """One pass over a segment's log: the local findings, and the rows of its batch table.

    Args:
        source: the log.
        following: the segment's index and the next segment, which tell where consumers continue.
        options: see CheckOptions.
        suspects: see ``verify.entries.EntryChecks``.
        chunk_size: bytes that are checked together.

    ``ends_in_gap``, once the items are exhausted: damage follows the last row.
    """

    def __init__(
        self,
        source: Source,
        following: NextSegment | None = None,
        options: CheckOptions | None = None,
        *,
        suspects: Suspects | None = None,
        chunk_size: int = DEFAULT_CHUNK_SIZE,
    ) -> None:
        self._source = source
        self._options = options or CheckOptions()
        self._chunk_size = chunk_size
        options = self._options
        self._gaps = GapChecks(source, following or NextSegment())
        self._entries = EntryChecks(deep=options.deep, limit=options.limit, suspects=suspects)
        self.ends_in_gap = False

    def items(self) -> Iterator[Finding | Rows]:
        """Findings and rows in file order; findings may come some rows early or late.

        Raises:
            KdumpError: a stream cannot be read. What cannot be read of a file is a finding.
        """
        found: list[Finding] = []
        parts: list[Rows] = []
        held = 0
        try:
            for item in self._by_chunk():
                if isinstance(item, Finding):
                    found.append(item)
                    held += 1
                else:
                    parts.append(item)
                    held += item.size
                if held >= _HELD_ITEMS:
                    yield from self._together(found, parts)
                    found, parts, held = [], [], 0
        except KdumpError:
            yield from self._together(found, parts)
            raise
        yield from self._together(found, parts)

    def _by_chunk(self) -> Iterator[Finding | Rows]:
        """Findings and rows of each chunk, without the findings of headers."""
        source = self._source
        is_columnar = self._options.columnar
        is_after_gap = False
        is_first = True
        for item in ResyncWalk(source, chunk_size=self._chunk_size).items():
            if is_first:
                is_first = False
                foreign = self._foreign(item)
                if foreign is not None:
                    yield foreign
                    self.ends_in_gap = True
                    return
            if isinstance(item, Gap):
                yield from self._gaps.see_gap(item)
                is_after_gap = True
                continue
            size = item.end - item.starts[0]
            if is_columnar is None:
                is_columnar = _checked.are_columns(len(item.starts), item.declared_records, size, source.size)
            is_small = size < policy.CHECKED_BYTES_IN_CHUNK
            in_columns = is_columnar and (self._options.columnar or not is_small)
            rows = read_rows(item, is_after_gap)
            yield from self._gaps.see_chunk(item, rows)
            yield from self._entries.check(item, rows, in_columns=in_columns)
            yield rows
            is_after_gap = bool(item.damaged) and item.damaged[-1] == len(item.starts) - 1
        yield from self._gaps.finish()
        self.ends_in_gap = is_after_gap

    def _foreign(self, first: CheckedChunk | Gap) -> Finding | None:
        """The finding of a file of another type, which its first bytes show; None: it is a log."""
        source = self._source
        if not (isinstance(first, Gap) or 0 in first.damaged[:1]):
            return None
        from kdump.log.filetypes import identify

        # An entry follows this gap, or may follow it: there may be valid entries.
        is_all = isinstance(first, Gap) and first.continue_at is None and first.end == source.size
        found = identify(source, holds_entries=False if is_all else None)
        return None if found is None else found.finding(source.path, source.size)

    def _together(self, found: list[Finding], parts: list[Rows]) -> Iterator[Finding | Rows]:
        """What was found in several chunks, after the findings of their headers, and their rows if there are any."""
        rows = joined(parts)
        yield from check_headers(rows)
        yield from found
        if parts:
            yield rows


class SeenSegment(Protocol):
    """What was read of a segment, now or earlier: see SegmentReading."""

    @property
    def ends_in_gap(self) -> bool:
        """Whether damage follows the last row: see SegmentReading."""

    def items(self) -> Iterator[Finding | Rows]:
        """Findings and rows: see SegmentReading."""


def check_segment(
    reading: SeenSegment,
    base_offset: int | None,
    path: str | None,
    ordered: OrderedChecks,
    *,
    on_rows: Callable[[Rows], None] = lambda rows: None,
) -> Iterator[Finding]:
    """The findings of a segment's log, without those that ``ordered.finish`` returns at the end of the partition.

    They come in the order of their positions, in which chunks the log was read makes no difference.

    Args:
        reading: of the segment.
        base_offset: of its name, None for a stream.
        path: that of the segment.
        ordered: the checks of the partition, whose next segment this is.
        on_rows: takes the rows of the batch table in file order, for the checks of the files beside the log.

    Raises:
        KdumpError: as ``reading.items``.
    """
    yield from ordered.start_segment(base_offset, path)
    waiting: list[Finding] = []
    try:
        for item in reading.items():
            if isinstance(item, Finding):
                waiting.append(item)
                continue
            waiting += ordered.see(item)
            on_rows(item)
            if waiting and item.size:
                # A finding of a valid row comes with its row or before it. So no other finding up to here is to come.
                waiting.sort(key=_place)
                end = int(item["position"][-1] + item["size"][-1])
                ready = bisect_left(waiting, end, key=attrgetter("position"))
                yield from waiting[:ready]
                del waiting[:ready]
    except KdumpError:
        yield from sorted(waiting, key=_place)
        raise
    yield from sorted(waiting, key=_place)
    yield from ordered.finish_segment(ends_in_gap=reading.ends_in_gap)


def _place(finding: Finding) -> tuple[int, str]:
    return finding.position, finding.code.value.code
