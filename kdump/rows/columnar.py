"""The columnar forms of the columns of batches and records: many values at once, not yet written as text or Arrow.

Source: docs/contract.md#23-rows. Offsets and sequences wrap as in the compatible batch line
(docs/spec/dump-output.md#42-batch-line-of-magic-2). ``rows.tables`` declares how each column is made.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from kdump.fast.blocks import BatchBlock
from kdump.fast.headers import native_column
from kdump.fast.recordheaders import HeaderColumns
from kdump.fast.records import RecordColumns
from kdump.fast.recordvalues import RecordValues
from kdump.fast.sequences import last_sequences
from kdump.fast.text import RaggedText
from kdump.format.batch import CONTROL
from kdump.log.context import FileContext
from kdump.payloads.decoded import RecordDecoder
from kdump.reading.outcomes import STATES
from kdump.rows.decoded import DecodedJson, contents_of, decoded_json


@dataclass(frozen=True, slots=True)
class Constant:
    """One value for all rows."""

    value: str | int | None


@dataclass(frozen=True, slots=True)
class Numbers:
    """Numbers, shape (elements,). Null where ``is_set`` (of the same shape) is false."""

    values: NDArray[np.integer]
    is_set: NDArray[np.bool_] | None = None


@dataclass(frozen=True, slots=True)
class Flags:
    """Booleans, shape (elements,)."""

    values: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Choices:
    """Texts: ``index`` of shape (elements,) into ``options``."""

    index: NDArray[np.integer | np.bool_]
    options: tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class Strings:
    """Bytes ``arena[start:start + size]``, null where the size is negative; shapes (elements,)."""

    arena: NDArray[np.uint8]
    start: NDArray[np.int64]
    size: NDArray[np.integer]


@dataclass(frozen=True, slots=True)
class JsonTexts:
    """JSON texts ``data[start:start + size]``, null where they are empty; shapes (elements,)."""

    data: NDArray[np.uint8]
    start: NDArray[np.int64]
    size: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class HeaderLists:
    """Headers of records: row ``i`` has ``headers`` number ``bounds[i]`` to ``bounds[i + 1]`` (exclusive)."""

    arena: NDArray[np.uint8]
    headers: HeaderColumns
    bounds: NDArray[np.int64]
    with_values: bool
    """False: only their keys."""


BatchValue: TypeAlias = Constant | Numbers | Flags | Choices
RowValue: TypeAlias = Constant | Numbers | Strings | JsonTexts | HeaderLists


class ColumnarBatches:
    """The batches of a block, for the columnar forms of columns.

    Args:
        block: one batch or more.
        row_type: the value of the column ``type``.
        context: where they come from.
        txn_state: shape (batches,), indexes into reading.outcomes.STATES; None: null for all.
    """

    def __init__(
        self, block: BatchBlock, row_type: str, context: FileContext, txn_state: NDArray[np.int8] | None = None
    ) -> None:
        self.position: NDArray[np.int64] = block.position
        self.is_valid: NDArray[np.bool_] = block.is_valid
        self._headers = block.headers
        self._txn_state = txn_state
        self._constants = {"type": row_type, **context.columns()}

    def header(self, name: str) -> NDArray[np.int64]:
        """A field of ``format.batch.BatchHeader``."""
        return native_column(self._headers, name)

    def has(self, attribute: int) -> NDArray[np.bool_]:
        """The batches with this attribute bit."""
        mask: NDArray[np.bool_] = self._headers["attributes"] & attribute != 0
        return mask

    def last_sequences(self) -> NDArray[np.int64]:
        """The sequences of the last offsets."""
        return last_sequences(self.header("base_sequence"), self.header("last_offset_delta"))

    def txn_states(self) -> BatchValue:
        """The outcomes of the batches' transactions."""
        states = self._txn_state
        return Constant(None) if states is None or not states.any() else Choices(states, STATES)

    def constant(self, name: str) -> Constant:
        """A column of ``tables.FILE``."""
        return Constant(self._constants[name])

    def null(self) -> Constant:
        """Null for all."""
        return Constant(None)

    def stored(self, name: str) -> Numbers:
        """A header field as it is stored."""
        return Numbers(self.header(name))

    def numbers(self, values: NDArray[np.int64], is_set: NDArray[np.bool_] | None = None) -> Numbers:
        """See Numbers."""
        return Numbers(values, is_set)

    def flags(self, values: NDArray[np.bool_]) -> Flags:
        """See Flags."""
        return Flags(values)

    def choices(self, index: NDArray[np.integer | np.bool_], options: tuple[str | None, ...]) -> Choices:
        """See Choices."""
        return Choices(index, options)


class ColumnarRecords:
    """The records of a block, for the columnar forms of columns that differ from record to record.

    Args:
        block: where the records are.
        records: those of the block that are shown.
        decoder: of keys and values; None: nothing is decoded.
    """

    def __init__(self, block: BatchBlock, records: RecordColumns, decoder: RecordDecoder | None = None) -> None:
        self.records: RecordColumns = records
        self.values: RecordValues = RecordValues(block.headers, records)
        self._arena = block.arena
        self._decoder = decoder

    @cached_property
    def decoded(self) -> DecodedJson | None:
        """The decoded keys and values; None without a decoder."""
        return None if self._decoder is None else decoded_json(self._decoder, contents_of(self._arena, self.records))

    def numbers(self, values: NDArray[np.integer]) -> Numbers:
        """See Numbers."""
        return Numbers(values)

    def strings(self, start: NDArray[np.int64], size: NDArray[np.integer]) -> Strings:
        """See Strings."""
        return Strings(self._arena, start, size)

    def json(self, texts: RaggedText | None, rows: slice) -> Constant | JsonTexts:
        """A JSON text of each row, null where there are none."""
        if texts is None:
            return Constant(None)
        bounds = texts.bounds[rows.start : rows.stop + 1]
        return JsonTexts(texts.data, bounds[:-1], np.diff(bounds))

    def headers(self, rows: slice, *, with_values: bool) -> HeaderLists:
        """Each row's headers."""
        bounds = self._header_bounds[rows.start : rows.stop + 1]
        return HeaderLists(self._arena, self.records.headers, bounds, with_values)

    @cached_property
    def _header_bounds(self) -> NDArray[np.int64]:
        bounds = np.zeros(self.records.batch.size + 1, np.int64)
        np.cumsum(self.records.header_count, out=bounds[1:])
        return bounds


def undecoded_batches(block: BatchBlock, decoder: RecordDecoder | None) -> NDArray[np.bool_] | None:
    """Batches with a record that does not decode completely; shape (batches,). None: there are none."""
    if decoder is None or block.records is None:
        return None
    failed = decoded_json(decoder, contents_of(block.arena, block.records)).failed
    return np.bincount(block.records.batch[failed], minlength=block.headers.size) > 0


@dataclass(frozen=True, slots=True)
class ShownRecords:
    """The records of a block that a printer makes as columns."""

    records: RecordColumns
    runs: list[tuple[int, int, slice | None]]
    """All batches in order, as (first, last (exclusive), their rows in ``records``). None: to be made one by one."""


def shown_records(
    block: BatchBlock,
    records: RecordColumns,
    undecoded: NDArray[np.bool_] | None,
    is_kept: Callable[[int], bool],
) -> ShownRecords:
    """Which records of a block are made as columns: neither those of control batches nor what ``fast`` refused.

    Args:
        block: one batch or more.
        records: all of the block.
        undecoded: see ``undecoded_batches``.
        is_kept: takes the position of a batch with a wrong CRC; False leaves out its records.
    """
    is_alone = ~records.accepted | (block.headers["attributes"] & CONTROL != 0)
    if undecoded is not None:
        is_alone |= undecoded
    kept = ~is_alone & kept_batches(block, ~is_alone, is_kept)
    shown = records if kept.all() else records.select(kept[records.batch], np.ones(kept.size, np.bool_))
    bounds = np.append(shown.first_row, shown.batch.size)
    cuts = np.flatnonzero(np.diff(is_alone, prepend=not is_alone[0], append=not is_alone[-1])).tolist()
    return ShownRecords(
        shown,
        [
            (first, last, None if is_alone[first] else slice(int(bounds[first]), int(bounds[last])))
            for first, last in pairwise(cuts)
        ],
    )


def kept_batches(block: BatchBlock, among: NDArray[np.bool_], is_kept: Callable[[int], bool]) -> NDArray[np.bool_]:
    """The batches that are shown; shape (batches,). ``is_kept`` is asked of those ``among`` which the CRC is wrong."""
    kept = block.is_valid | ~among
    for number in np.flatnonzero(~kept).tolist():
        kept[number] = is_kept(int(block.position[number]))
    return kept
