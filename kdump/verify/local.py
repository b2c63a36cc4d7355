"""Findings of one chunk at a time: framing, checksums, headers, and with ``deep`` every record.

Nothing here compares batches with one another: see :mod:`kdump.verify.ordered`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from kdump.codes import Finding
from kdump.log.gaps import Gap
from kdump.log.resync import CheckedChunk
from kdump.log.source import Source
from kdump.verify.entries import EntryChecks, Suspects
from kdump.verify.gaps import GapChecks, NextSegment
from kdump.verify.table import entry_of, row_at
from kdump.wire.compression import DEFAULT_LIMIT


class LocalChecks:
    """The local checks of one segment.

    Args:
        source: where the bytes come from; of a file, a gap at its end is read again.
        behind: what tells where a consumer goes on behind a hole.
        deep: decompress and decode every record; else headers and checksums only.
        limit: most bytes that one batch may decompress to.
        doubts: see EntryChecks.
    """

    def __init__(
        self,
        source: Source,
        behind: NextSegment | None = None,
        *,
        deep: bool = True,
        limit: int = DEFAULT_LIMIT,
        doubts: Suspects | None = None,
    ) -> None:
        self._holes = GapChecks(source, behind or NextSegment())
        self._entries = EntryChecks(deep=deep, limit=limit, doubts=doubts)

    def check_gap(self, gap: Gap) -> Iterator[Finding]:
        """What a stretch without entries is."""
        return self._holes.see_gap(gap)

    def check(self, chunk: CheckedChunk, rows: NDArray[np.void], *, in_columns: bool) -> Iterator[Finding]:
        """The findings of a chunk; for the arguments see ``EntryChecks.check``, which changes ``rows``."""
        yield from self._checksums(chunk, rows)
        yield from self._entries.check(chunk, rows, in_columns=in_columns)

    def check_headers(self, rows: NDArray[np.void]) -> Iterator[Finding]:
        """See ``EntryChecks.check_headers``."""
        return self._entries.check_headers(rows)

    def finish(self) -> Iterator[Finding]:
        """The segment is over."""
        return self._holes.finish()

    def _checksums(self, chunk: CheckedChunk, rows: NDArray[np.void]) -> Iterator[Finding]:
        first = 0
        for number in chain(chunk.damaged, (len(rows),)):
            if number > first:
                yield from self._holes.see_valid(row_at(rows, first), row_at(rows, number - 1).last_offset)
            if number < len(rows):
                row = row_at(rows, number)
                yield from self._holes.see_damaged(row, entry_of(chunk, row))
            first = number + 1
