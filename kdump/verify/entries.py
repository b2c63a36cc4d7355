"""Findings of entries with a right CRC, each entry by itself: markers, and with ``deep`` every record.

Source: docs/spec/formats.md#1-entries; docs/spec/recovery.md#4-what-recovery-does-not-notice. Headers are
checked in :mod:`kdump.verify.headers`, batches are compared with one another in :mod:`kdump.verify.ordered`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from kdump.codes import Finding
from kdump.format.batch import MAGIC_OFFSET, parse_header
from kdump.log.resync import CheckedChunk
from kdump.verify.contents import check_batch
from kdump.verify.legacycontents import LegacyContents, check_entry
from kdump.verify.table import END_TXN, BatchRow, check_marker, control_batches, entry_of, row_at
from kdump.wire.compression import DEFAULT_LIMIT

Suspects: TypeAlias = Callable[[CheckedChunk, NDArray[np.void]], Iterator[int]]
"""Reads the records of a chunk by columns: the numbers of the valid entries that must be read one by one, rising.

It may fill in what the rows of legacy entries lack (see ``EntryChecks.check``).
"""


class EntryChecks:
    """The checks of valid entries. Entries with a wrong CRC are left out.

    Args:
        deep: decompress and decode every record; else check markers only.
        limit: most bytes to which one batch may decompress.
        suspects: reads the records where these are checked by columns. A caller gives its own to use the records too.
    """

    def __init__(self, *, deep: bool = True, limit: int = DEFAULT_LIMIT, suspects: Suspects | None = None) -> None:
        self._deep = deep
        self._limit = limit
        self._suspect_entries = suspects

    def check(self, chunk: CheckedChunk, rows: NDArray[np.void], *, in_columns: bool) -> Iterator[Finding]:
        """The findings of a chunk.

        With ``deep`` the rows of compressed legacy entries are changed in place: their first offset and number of
        records are filled in.

        Args:
            chunk: what was read.
            rows: its entries, an array of ``table.row_dtype``.
            in_columns: there are many entries, whose records are read by columns. Else they are read one by one, which
                imports fewer modules.
        """
        for number in control_batches(rows):
            row = row_at(rows, number)
            # Nothing is wrong with a marker of a transaction that was read for the row.
            if row.marker_type not in END_TXN:
                yield from self._marker(chunk, row)
        if not self._deep:
            return
        numbers = self._suspects(chunk, rows) if in_columns else np.flatnonzero(rows["is_valid"]).tolist()
        for number, found in self._contents(chunk, numbers):
            if isinstance(found, Finding):
                yield found
            elif found.first_offset is not None:
                rows["base_offset"][number] = found.first_offset
                rows["record_count"][number] = found.record_count

    def _suspects(self, chunk: CheckedChunk, rows: NDArray[np.void]) -> Iterator[int]:
        if self._suspect_entries is None:
            from kdump.fast.blocks import BlockReader
            from kdump.verify.columns import record_suspects

            self._suspect_entries = partial(record_suspects, BlockReader(self._limit, with_records=True))
        return self._suspect_entries(chunk, rows)

    def _marker(self, chunk: CheckedChunk, row: BatchRow) -> Iterator[Finding]:
        batch = entry_of(chunk, row)
        return check_marker(parse_header(batch), batch, row.position, self._limit, deep=self._deep)

    def _contents(self, chunk: CheckedChunk, numbers: Iterable[int]) -> Iterator[tuple[int, Finding | LegacyContents]]:
        """(entry, finding) for all that is wrong, and (entry, contents) for legacy entries."""
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
