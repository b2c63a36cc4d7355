"""One pass over a segment: its chunks to the local checks, its batch table to the ordered ones and to whoever asks.

The two halves can run apart: many processes check parts of a log each, and one then runs the ordered checks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kdump.codes import Finding
from kdump.fast import policy
from kdump.format.batch import MAGIC_OFFSET, parse_header
from kdump.log.extents import Extent
from kdump.log.gaps import Gap
from kdump.log.resync import CheckedChunk, ResyncWalk
from kdump.log.source import Source
from kdump.log.walk import DEFAULT_CHUNK_SIZE
from kdump.verify.entries import Suspects
from kdump.verify.gaps import NextSegment
from kdump.verify.local import LocalChecks
from kdump.verify.ordered import OrderedChecks
from kdump.verify.table import read_rows
from kdump.wire.compression import DEFAULT_LIMIT

Rows: TypeAlias = NDArray[np.void]
"""Of the batch table: shape (rows,), of ``table.row_dtype``."""

_ROWS_AT_A_TIME: Final = 4096
"""Rows of several chunks are looked at together: a step by columns costs the same for a few as for some thousands."""


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """How deep a segment is looked at.

    ``deep``: decompress and decode every record. ``limit``: most bytes one batch may decompress to. ``columnar``: use
    the columnar paths; None: where the segment is large enough.
    """

    deep: bool = True
    limit: int = DEFAULT_LIMIT
    columnar: bool | None = None


class SegmentReading:
    """One pass over a segment's log, or a stretch of it: the local findings, and the rows of its batch table.

    Args:
        source: the log.
        behind: the segment's index and the next segment, for where consumers go on.
        options: see CheckOptions.
        extent: what is looked at; None: all of it.
        doubts: see ``verify.entries.EntryChecks``.
        chunk_size: bytes looked at together.

    ``ends_in_gap``, once the items are exhausted: damage lies behind the last row.
    """

    def __init__(
        self,
        source: Source,
        behind: NextSegment | None = None,
        options: CheckOptions | None = None,
        extent: Extent | None = None,
        *,
        doubts: Suspects | None = None,
        chunk_size: int = DEFAULT_CHUNK_SIZE,
    ) -> None:
        self._source = source
        self._options = options or CheckOptions()
        self._extent = extent
        self._chunk_size = chunk_size
        options = self._options
        self._local = LocalChecks(source, behind, deep=options.deep, limit=options.limit, doubts=doubts)
        self.ends_in_gap = False

    def items(self) -> Iterator[Finding | Rows]:
        """Both in file order, but that findings of headers may come some rows late.

        Raises:
            KdumpError: a stream cannot be read; what cannot be read of a file is a finding.
        """
        source, local = self._source, self._local
        is_columnar = self._options.columnar
        is_after_gap = False
        held: list[NDArray[np.void]] = []
        held_count = 0
        size = self._chunk_size
        walk = ResyncWalk(source, chunk_size=size).items() if self._extent is None else self._extent.items(source, size)
        is_first = True
        for item in walk:
            if is_first:
                is_first = False
                foreign = self._foreign(item)
                if foreign is not None:
                    yield from foreign
                    self.ends_in_gap = True
                    return
            if isinstance(item, Gap):
                yield from local.check_gap(item)
                is_after_gap = True
                continue
            if is_columnar is None:
                is_columnar = _pays(item, source.size, self._options.deep)
            is_small = item.end - item.starts[0] < policy.CHECKED_BYTES_IN_CHUNK
            in_columns = is_columnar and (self._options.columnar or not is_small)
            if held and not in_columns:
                yield from self._hand_over(held)
                held, held_count = [], 0
            rows = read_rows(item, is_after_gap)
            yield from local.check(item, rows, in_columns=in_columns)
            if in_columns:
                held.append(rows)
                held_count += rows.size
                if held_count >= _ROWS_AT_A_TIME:
                    yield from self._hand_over(held)
                    held, held_count = [], 0
            else:
                yield rows
            is_after_gap = bool(item.damaged) and item.damaged[-1] == len(item.starts) - 1
        if held:
            yield from self._hand_over(held)
        yield from local.finish()
        self.ends_in_gap = is_after_gap

    def _foreign(self, first: CheckedChunk | Gap) -> Iterable[Finding] | None:
        """What is said of a file of another type, by what comes first of it; None: it is a log.

        It is said once: of its other stretches nothing.
        """
        source, extent = self._source, self._extent
        is_start = extent is None or extent.start == 0
        if is_start and not (isinstance(first, Gap) or 0 in first.damaged[:1]):
            return None
        from kdump.log.filetypes import identify

        # Behind a gap that an entry follows, and behind one that is in question, there may be sound ones.
        is_all = isinstance(first, Gap) and first.continue_at is None and first.end == source.size
        found = identify(source, holds_entries=False if is_all else None)
        if found is None:
            return None
        return [found.finding(source.path, source.size)] if is_start else []

    def _hand_over(self, parts: list[NDArray[np.void]]) -> Iterator[Finding | Rows]:
        """Rows of several chunks, and what is said of them without the bytes of their chunks."""
        rows = np.concatenate(parts)
        yield from self._local.check_headers(rows)
        yield rows


class SeenSegment(Protocol):
    """What was seen of a segment, now or earlier: see SegmentLook."""

    @property
    def ends_in_gap(self) -> bool:
        """See SegmentLook."""

    def items(self) -> Iterator[Finding | Rows]:
        """See SegmentLook."""


def check_segment(
    look: SeenSegment,
    base_offset: int | None,
    path: str | None,
    ordered: OrderedChecks,
    *,
    on_rows: Callable[[Rows], None] = lambda rows: None,
) -> Iterator[Finding]:
    """The findings of a segment's log; everything but what ``ordered.finish`` says once the partition is over.

    Args:
        look: at the segment.
        base_offset: of its name, None for a stream.
        path: its own.
        ordered: of the partition; this is its next segment.
        on_rows: takes the rows of the batch table in file order, for checks of the files beside the log.

    Raises:
        KdumpError: as ``look.items``.
    """
    yield from ordered.start_segment(base_offset, path)
    for item in look.items():
        if isinstance(item, Finding):
            yield item
        else:
            yield from ordered.see(item)
            on_rows(item)
    yield from ordered.finish_segment(ends_in_gap=look.ends_in_gap)


def _pays(chunk: CheckedChunk, size: int | None, deep: bool) -> bool:
    """The segment, by its first chunk, has enough to pay for the columnar paths."""
    chunk_size = chunk.end - chunk.starts[0]
    if policy.expected(len(chunk.starts), chunk_size, size) >= policy.CHECKED_BATCHES:
        return True
    if not deep:
        return False
    records = sum(
        max(0, parse_header(chunk.data, start).record_count)
        for start in chunk.starts
        if chunk.data[start + MAGIC_OFFSET] >= 2
    )
    return policy.expected(records, chunk_size, size) >= policy.CHECKED_RECORDS
