"""The text of many entries at once, in runs with what the scalar path must print itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kdump.fast.blocks import BatchBlock, BlockReader, Stretch
from kdump.fast.headers import native_column
from kdump.kafka.dumplog.columnlines import RecordTextOptions, batch_text, dump_runs
from kdump.kafka.dumplog.options import DumpOptions
from kdump.log.walk import Chunk


@dataclass(frozen=True, slots=True)
class Run:
    """Entries ``first`` to ``last`` (exclusive) of a chunk.

    ``text`` is all they print; None: the scalar path prints them. ``offsets`` are those of their records.
    """

    first: int
    last: int
    text: memoryview | None = None
    damaged: bool = False
    offsets: NDArray[np.int64] | None = None


class ColumnarText:
    """Makes the text of chunks; one object serves a whole run."""

    def __init__(self, options: DumpOptions) -> None:
        self._reader = BlockReader(options.max_decompressed_size, with_records=options.records)
        self._options = RecordTextOptions(metadata=not options.skip_record_metadata, contents=options.print_data_log)

    def runs(self, chunk: Chunk) -> Iterator[Run]:
        """Every entry of the chunk is in exactly one run, in order."""
        for part in self._reader.read(chunk.data, [*chunk.starts, chunk.end], chunk.position):
            if isinstance(part, Stretch):
                yield Run(part.first, part.last)
            else:
                yield from self._runs(part)

    def _runs(self, block: BatchBlock) -> Iterator[Run]:
        batches = batch_text(block.headers, block.position, block.is_valid)
        first, records = block.first, block.records
        if records is None:
            yield Run(first, first + block.headers.size, batches.data.data, damaged=not block.is_valid.all())
            return
        offsets = native_column(block.headers, "base_offset").take(records.batch) + records.offset_delta
        for run in dump_runs(block.arena, records, block.headers, self._options, batches):
            if run.text is None:
                yield Run(first + run.first_batch, first + run.last_batch)
                continue
            own = slice(run.first_batch, run.last_batch)
            first_row = records.first_row[run.first_batch]
            yield Run(
                first + run.first_batch,
                first + run.last_batch,
                run.text.data,
                damaged=not block.is_valid[own].all(),
                offsets=offsets[first_row : first_row + records.row_count[own].sum()],
            )
