"""One pass over a segment: its chunks to the local checks, its batch table to the ordered ones and to whoever asks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from kdump.checks.holes import Behind
from kdump.checks.local import LocalChecks
from kdump.checks.ordered import OrderedChecks
from kdump.checks.table import BatchRow, read_columns, read_rows
from kdump.codes import Finding
from kdump.format.batch import MAGIC_OFFSET, parse_header
from kdump.log.gaps import Gap
from kdump.log.resync import CheckedChunk, ResyncWalk
from kdump.log.source import Source
from kdump.wire.compression import DEFAULT_LIMIT

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Rows: TypeAlias = "list[BatchRow] | NDArray[np.void]"

_COLUMNAR_BATCHES: Final = 3000
_COLUMNAR_RECORDS: Final = 20_000
"""From so many on importing numpy pays."""
_ROWS_AT_A_TIME: Final = 4096
"""Rows of several chunks are looked at together: a step by columns costs the same for a few as for some thousands."""
_STREAM_CHUNKS: Final = 8
"""How many chunks a stream is taken to have when its first is full."""


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """How deep a segment is looked at.

    ``deep``: decompress and decode every record. ``limit``: most bytes one batch may decompress to. ``columnar``: use
    the columnar paths; None: where the segment is large enough.
    """

    deep: bool = True
    limit: int = DEFAULT_LIMIT
    columnar: bool | None = None


def check_segment(
    source: Source,
    base_offset: int | None,
    ordered: OrderedChecks,
    *,
    behind: Behind | None = None,
    options: CheckOptions | None = None,
    on_rows: Callable[[Rows], None] = lambda rows: None,
) -> Iterator[Finding]:
    """Check a segment's log; everything but what ``ordered.finish`` says once the partition is over.

    Args:
        source: the log.
        base_offset: of its name, None for a stream.
        ordered: of the partition; this is its next segment.
        behind: the segment's index and the next segment, for where consumers go on.
        options: see CheckOptions.
        on_rows: takes the rows of the batch table in file order, for checks of the files beside the log.

    Raises:
        KdumpError: a stream cannot be read; what cannot be read of a file is a finding.
    """
    options = options or CheckOptions()
    local = LocalChecks(source, behind, deep=options.deep, limit=options.limit)
    is_columnar = options.columnar
    is_behind_hole = False
    held: list[NDArray[np.void]] = []
    held_count = 0
    yield from ordered.start_segment(base_offset, source.path)
    for item in ResyncWalk(source).items():
        if isinstance(item, Gap):
            yield from local.check_gap(item)
            is_behind_hole = True
            continue
        if is_columnar is None:
            is_columnar = _pays(item, source.size, options.deep)
        if is_columnar:
            columns = read_columns(item, is_behind_hole)
            yield from local.check_columns(item, columns)
            held.append(columns)
            held_count += columns.size
            if held_count >= _ROWS_AT_A_TIME:
                yield from _see_columns(held, local, ordered, on_rows)
                held, held_count = [], 0
        else:
            rows = read_rows(item, is_behind_hole)
            yield from local.check_rows(item, rows)
            yield from ordered.see(rows)
            on_rows(rows)
        is_behind_hole = bool(item.damaged) and item.damaged[-1] == len(item.starts) - 1
    if held:
        yield from _see_columns(held, local, ordered, on_rows)
    yield from local.finish()
    yield from ordered.finish_segment(ends_in_hole=is_behind_hole)


def _see_columns(
    parts: list[NDArray[np.void]], local: LocalChecks, ordered: OrderedChecks, on_rows: Callable[[Rows], None]
) -> Iterator[Finding]:
    """What is said of rows without the bytes of their chunks."""
    import numpy as np

    rows = np.concatenate(parts)
    yield from local.check_header_columns(rows)
    yield from ordered.see(rows)
    on_rows(rows)


def _pays(chunk: CheckedChunk, size: int | None, deep: bool) -> bool:
    """The segment, by its first chunk, has enough to pay for the columnar paths."""
    chunks = max(1, _STREAM_CHUNKS if size is None else size // (chunk.end - chunk.starts[0]))
    if len(chunk.starts) * chunks >= _COLUMNAR_BATCHES:
        return True
    if not deep:
        return False
    records = sum(
        max(0, parse_header(chunk.data, start).record_count)
        for start in chunk.starts
        if chunk.data[start + MAGIC_OFFSET] >= 2
    )
    return records * chunks >= _COLUMNAR_RECORDS
