"""Findings of one chunk at a time: framing, checksums, headers, and with ``deep`` every record.

Source: shared/spec/formats.md; shared/spec/recovery.md for what Kafka does not notice. Nothing here compares batches
with one another: see :mod:`kdump.checks.ordered`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING

from kdump.checks.contents import check_batch
from kdump.checks.headers import check_header
from kdump.checks.holes import Behind, HoleChecks
from kdump.checks.legacycontents import check_entry
from kdump.checks.markers import check_marker
from kdump.checks.table import BatchRow, row_at
from kdump.codes import Finding
from kdump.format.batch import MAGIC_OFFSET, parse_header
from kdump.log.gaps import Gap
from kdump.log.resync import CheckedChunk
from kdump.log.source import Source
from kdump.wire.compression import DEFAULT_LIMIT

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kdump.fast.blocks import BlockReader


class LocalChecks:
    """The local checks of one segment.

    Args:
        source: where the bytes come from; of a file, a gap at its end is read again.
        behind: what tells where a consumer goes on behind a hole.
        deep: decompress and decode every record; else headers and checksums only.
        limit: most bytes that one batch may decompress to.
    """

    def __init__(
        self, source: Source, behind: Behind | None = None, *, deep: bool = True, limit: int = DEFAULT_LIMIT
    ) -> None:
        self._holes = HoleChecks(source, behind or Behind())
        self._deep = deep
        self._limit = limit
        self._reader: BlockReader | None = None

    def check_gap(self, gap: Gap) -> Iterator[Finding]:
        """What a stretch without entries is."""
        return self._holes.see_gap(gap)

    def check_rows(self, chunk: CheckedChunk, rows: list[BatchRow]) -> Iterator[Finding]:
        """The findings of a chunk; ``rows`` are its entries.

        With ``deep`` the first offset of compressed legacy entries is filled in: the rows are changed in place.
        """
        yield from self._checksums(chunk, rows)
        for row in rows:
            if not row.is_valid:
                continue
            yield from check_header(row)
            if row.is_control:
                yield from self._marker(chunk, row)
        if self._deep:
            sound = [number for number, row in enumerate(rows) if row.is_valid]
            for finding, number, first_offset in self._contents(chunk, sound):
                if finding is not None:
                    yield finding
                elif first_offset is not None:
                    rows[number] = rows[number]._replace(base_offset=first_offset)

    def check_columns(self, chunk: CheckedChunk, rows: NDArray[np.void]) -> Iterator[Finding]:
        """The same where ``rows`` is an array of ``table.row_dtype``; but for ``check_header_columns``."""
        from kdump.checks.table import control_batches

        yield from self._checksums(chunk, rows)
        for number in control_batches(rows):
            yield from self._marker(chunk, row_at(rows, number))
        if self._deep:
            from kdump.checks.columns import entries_in_doubt
            from kdump.fast.blocks import BlockReader

            if self._reader is None:
                self._reader = BlockReader(self._limit, with_records=True)
            for finding, number, first_offset in self._contents(chunk, entries_in_doubt(chunk, self._reader)):
                if finding is not None:
                    yield finding
                elif first_offset is not None:
                    rows["base_offset"][number] = first_offset

    def check_header_columns(self, rows: NDArray[np.void]) -> Iterator[Finding]:
        """The findings of the headers alone: of many chunks at once, which costs less than chunk by chunk."""
        import numpy as np

        from kdump.checks.headers import doubtful_headers

        for number in np.flatnonzero(doubtful_headers(rows)).tolist():
            yield from check_header(row_at(rows, number))

    def finish(self) -> Iterator[Finding]:
        """The segment is over."""
        return self._holes.finish()

    def _checksums(self, chunk: CheckedChunk, rows: list[BatchRow] | NDArray[np.void]) -> Iterator[Finding]:
        first = 0
        for number in chain(chunk.damaged, (len(rows),)):
            if number > first:
                yield from self._holes.see_sound(_row(rows, first), _row(rows, number - 1).last_offset)
            if number < len(rows):
                row = _row(rows, number)
                yield from self._holes.see_damaged(row, _entry(chunk, row))
            first = number + 1

    def _marker(self, chunk: CheckedChunk, row: BatchRow) -> Iterator[Finding]:
        batch = _entry(chunk, row)
        return check_marker(parse_header(batch), batch, row.position, self._limit, deep=self._deep)

    def _contents(
        self, chunk: CheckedChunk, numbers: Iterable[int]
    ) -> Iterator[tuple[Finding | None, int, int | None]]:
        """(finding, entry, None) for all that is wrong, and (None, entry, first offset) of legacy entries."""
        ends = [*chunk.starts[1:], chunk.end]
        for number in numbers:
            start = chunk.starts[number]
            data, position = chunk.data[start : ends[number]], chunk.position + start
            if data[MAGIC_OFFSET] >= 2:
                for finding in check_batch(data, position, self._limit):
                    yield finding, number, None
                continue
            contents = check_entry(data, position, self._limit)
            for finding in contents.findings:
                yield finding, number, None
            yield None, number, contents.first_offset


def _row(rows: list[BatchRow] | NDArray[np.void], number: int) -> BatchRow:
    return rows[number] if isinstance(rows, list) else row_at(rows, number)


def _entry(chunk: CheckedChunk, row: BatchRow) -> memoryview:
    start = row.position - chunk.position
    return chunk.data[start : start + row.size]
