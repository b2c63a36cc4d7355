"""Findings of one chunk at a time: framing, checksums, headers, and with ``deep`` every record.

Batches are compared with one another in :mod:`kdump.verify.ordered`.
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
        source: where the bytes come from. A gap at the end of a file is read again.
        following: where a consumer continues after a gap.
        deep: decompress and decode every record; else check headers and checksums only.
        limit: most bytes to which one batch may decompress.
        suspects: see EntryChecks.
    """

    def __init__(
        self,
        source: Source,
        following: NextSegment | None = None,
        *,
        deep: bool = True,
        limit: int = DEFAULT_LIMIT,
        suspects: Suspects | None = None,
    ) -> None:
        self._gaps = GapChecks(source, following or NextSegment())
        self._entries = EntryChecks(deep=deep, limit=limit, suspects=suspects)

    def check_gap(self, gap: Gap) -> Iterator[Finding]:
        """Report a range of bytes without entries."""
        return self._gaps.see_gap(gap)

    def check(self, chunk: CheckedChunk, rows: NDArray[np.void], *, in_columns: bool) -> Iterator[Finding]:
        """The findings of a chunk; for the arguments see ``EntryChecks.check``, which changes ``rows``."""
        yield from self._checksums(chunk, rows)
        yield from self._entries.check(chunk, rows, in_columns=in_columns)

    def check_headers(self, rows: NDArray[np.void]) -> Iterator[Finding]:
        """See ``EntryChecks.check_headers``."""
        return self._entries.check_headers(rows)

    def finish(self) -> Iterator[Finding]:
        """Report what is still incomplete at the end of the segment."""
        return self._gaps.finish()

    def _checksums(self, chunk: CheckedChunk, rows: NDArray[np.void]) -> Iterator[Finding]:
        first = 0
        for number in chain(chunk.damaged, (len(rows),)):
            if number > first:
                yield from self._gaps.see_valid(row_at(rows, first), row_at(rows, number - 1).last_offset)
            if number < len(rows):
                row = row_at(rows, number)
                yield from self._gaps.see_damaged(row, entry_of(chunk, row))
            first = number + 1
