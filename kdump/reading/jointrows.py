"""The rows of several small logs, made at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Generic, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kdump.fast.blocks import BatchBlock, BlockReader, EntryRange
from kdump.fast.headers import native_column
from kdump.fast.recordvalues import record_offsets
from kdump.format.batch import CONTROL, TRANSACTIONAL
from kdump.log.context import FileContext
from kdump.log.walk import Chunk
from kdump.reading.printing import BlockPrinter, RowsT


@dataclass(frozen=True, slots=True)
class JointBlock(BatchBlock):
    """Batches of several logs, one log after the other."""

    log: NDArray[np.int64]
    """Shape (batches,): the number of each batch's log."""
    contexts: tuple[FileContext, ...]
    """What the rows of each log have in common."""

    @property
    def skips(self) -> NDArray[np.bool_]:
        """Whether other logs lie between a batch and the one before, but for the first; shape (batches - 1,).

        Rows of any length may be printed together, but not across them.
        """
        skips: NDArray[np.bool_] = np.diff(self.log) > 1
        return skips


class JointRows(NamedTuple, Generic[RowsT]):
    """Rows of a log, and the offsets of their records; shape (records,)."""

    rows: RowsT
    offsets: NDArray[np.int64]


def joint_rows(
    data: memoryview,
    chunks: Sequence[Chunk],
    contexts: tuple[FileContext, ...],
    reader: BlockReader,
    printer: BlockPrinter[RowsT],
) -> list[list[JointRows[RowsT]] | None]:
    """The rows of each log; None: it holds something besides records that have columns.

    Args:
        data: the bytes of the logs, one after the other from the beginning on.
        chunks: of each log all of it.
        contexts: of the logs.
        reader: decodes records.
        printer: makes the rows of all of them.
    """
    begin = np.cumsum([0, *(chunk.end for chunk in chunks)])
    counts = [len(chunk.starts) for chunk in chunks]
    log_of = np.repeat(np.arange(len(chunks)), counts)
    starts = np.concatenate([chunk.starts for chunk in chunks]) + begin[log_of]
    is_alone = np.zeros(len(chunks), np.bool_)
    parts = []
    for part in reader.read(data, [*starts.tolist(), int(begin[-1])], 0):
        if isinstance(part, EntryRange):
            is_alone[log_of[part.first : part.last]] = True
        else:
            is_alone[log_of[part.numbers[~_have_columns(part, printer)]]] = True
            parts.append(part)
    made: list[list[JointRows[RowsT]]] = [[] for _ in chunks]
    for part in parts:
        is_known = ~is_alone[log_of[part.numbers]]
        block = part if is_known.all() else part.select(is_known)
        log = log_of[block.numbers]
        if log.size:
            own = {field.name: getattr(block, field.name) for field in fields(BatchBlock)}
            position = block.position - begin[log]
            _add_rows(JointBlock(**own | {"position": position}, log=log, contexts=contexts), printer, made)
    return [None if alone else rows for alone, rows in zip(is_alone.tolist(), made, strict=True)]


def _add_rows(block: JointBlock, printer: BlockPrinter[RowsT], made: Sequence[list[JointRows[RowsT]]]) -> None:
    records = block.records
    if records is None:
        return
    offsets = record_offsets(block.headers, records)
    ends = records.first_row + records.row_count
    observed = 0
    for run in printer.records(block):
        # A large batch is in several runs.
        first, observed = max(run.first, observed), run.last
        if run.rows is not None:
            own = offsets[records.first_row[first] : ends[run.last - 1]] if first < run.last else offsets[:0]
            made[int(block.log[run.first])].append(JointRows(run.rows, own))


def _have_columns(block: BatchBlock, printer: BlockPrinter[RowsT]) -> NDArray[np.bool_]:
    """Batches of which columns say all; shape (batches,)."""
    plain: NDArray[np.bool_] = block.is_valid & (
        native_column(block.headers, "attributes") & (CONTROL | TRANSACTIONAL) == 0
    )
    if block.records is not None:
        plain &= block.records.accepted
    left = printer.leaves(block)
    return plain if left is None else plain & ~left
