"""Findings of entries with a right CRC, each for itself: headers, and with ``deep`` every record.

Source: docs/spec/formats.md#1-entries; docs/spec/recovery.md#4-what-recovery-does-not-notice for what Kafka does not
notice. Nothing here compares batches with one another: see :mod:`kdump.verify.ordered`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TypeAlias

from kdump.codes import Finding
from kdump.format.batch import MAGIC_OFFSET, parse_header
from kdump.log.resync import CheckedChunk
from kdump.verify.contents import check_batch
from kdump.verify.headers import check_header
from kdump.verify.legacycontents import LegacyContents, check_entry
from kdump.verify.markers import check_marker
from kdump.verify.table import BatchRow, entry_of, row_at
from kdump.wire.compression import DEFAULT_LIMIT

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Suspects: TypeAlias = "Callable[[CheckedChunk, NDArray[np.void]], Iterator[int]]"
"""Reads the records of a chunk as columns: the numbers of the sound entries that are to be read one by one, rising.

It may fill in what the rows of legacy entries do not say (see ``check_rows``).
"""


class EntryChecks:
    """The checks of sound entries; entries with a wrong CRC are passed over.

    Args:
        deep: decompress and decode every record; else headers and markers only.
        limit: most bytes that one batch may decompress to.
        doubts: reads the records where these are checked by columns; None: they are of no other use.
    """

    def __init__(self, *, deep: bool = True, limit: int = DEFAULT_LIMIT, doubts: Suspects | None = None) -> None:
        self._deep = deep
        self._limit = limit
        self._suspect_entries = doubts

    def check_rows(self, chunk: CheckedChunk, rows: list[BatchRow]) -> Iterator[Finding]:
        """The findings of a chunk; ``rows`` are its entries.

        With ``deep`` the first offset of compressed legacy entries and how many records they hold are filled in: the
        rows are changed in place.
        """
        for row in rows:
            if not row.is_valid:
                continue
            yield from check_header(row)
            if row.is_control:
                yield from self._marker(chunk, row)
        if self._deep:
            sound = [number for number, row in enumerate(rows) if row.is_valid]
            for number, found in self._contents(chunk, sound):
                if isinstance(found, Finding):
                    yield found
                elif found.first_offset is not None:
                    rows[number] = rows[number]._replace(
                        base_offset=found.first_offset, record_count=found.record_count
                    )

    def check_columns(self, chunk: CheckedChunk, rows: NDArray[np.void]) -> Iterator[Finding]:
        """The same where ``rows`` is an array of ``table.row_dtype``; but for ``check_header_columns``."""
        from kdump.verify.table import control_batches

        for number in control_batches(rows):
            yield from self._marker(chunk, row_at(rows, number))
        if self._deep:
            if self._suspect_entries is None:
                from kdump.verify.columns import RecordChecks

                self._suspect_entries = RecordChecks(self._limit).in_doubt
            for number, found in self._contents(chunk, self._suspect_entries(chunk, rows)):
                if isinstance(found, Finding):
                    yield found
                elif found.first_offset is not None:
                    rows["base_offset"][number] = found.first_offset
                    rows["record_count"][number] = found.record_count

    def check_header_columns(self, rows: NDArray[np.void]) -> Iterator[Finding]:
        """The findings of the headers alone: of many chunks at once, which costs less than chunk by chunk."""
        import numpy as np

        from kdump.verify.headers import doubtful_headers

        for number in np.flatnonzero(doubtful_headers(rows)).tolist():
            yield from check_header(row_at(rows, number))

    def _marker(self, chunk: CheckedChunk, row: BatchRow) -> Iterator[Finding]:
        batch = entry_of(chunk, row)
        return check_marker(parse_header(batch), batch, row.position, self._limit, deep=self._deep)

    def _contents(self, chunk: CheckedChunk, numbers: Iterable[int]) -> Iterator[tuple[int, Finding | LegacyContents]]:
        """(entry, finding) for all that is wrong, and (entry, contents) of legacy entries."""
        ends = [*chunk.starts[1:], chunk.end]
        for number in numbers:
            start = chunk.starts[number]
            data, position = chunk.data[start : ends[number]], chunk.position + start
            if data[MAGIC_OFFSET] >= 2:
                for finding in check_batch(data, position, self._limit):
                    yield number, finding
                continue
            contents = check_entry(data, position, self._limit)
            for finding in contents.findings:
                yield number, finding
            yield number, contents
