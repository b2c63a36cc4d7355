"""Rows of batches and records, many at once: their values by column, not yet written as text or Arrow.

Source: docs/contract.md#23-rows. Offsets and sequences wrap as in the compatible batch line
(docs/spec/dump-output.md#42-batch-line-of-magic-2). ``rows.tables`` declares how each column is made.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kdump.codes import Codes
from kdump.fast.blocks import BatchBlock
from kdump.fast.headers import native_column
from kdump.fast.legacymessages import stored_crcs
from kdump.fast.recordheaders import HeaderColumns
from kdump.fast.records import RecordColumns
from kdump.fast.recordvalues import RecordValues
from kdump.fast.sequences import last_sequences
from kdump.format.batch import CONTROL, LOG_APPEND_TIME, NO_TIMESTAMP_TYPE, TIMESTAMP_TYPES
from kdump.log.context import FileContext
from kdump.payloads.decoded import RecordDecoder
from kdump.reading.jointrows import JointBlock
from kdump.reading.outcomes import STATES
from kdump.reading.printing import WRONG_CRC, WRONG_MESSAGE_CRC
from kdump.rows.decoded import DecodedJson, contents_of, decoded_json


@dataclass(frozen=True, slots=True)
class Constant:
    """One value for all rows."""

    value: str | int | None

    def part(self, rows: slice) -> Constant:
        """Of some rows that follow one another."""
        return self


@dataclass(frozen=True, slots=True)
class Numbers:
    """Numbers, shape (elements,). Null where ``is_set`` (of the same shape) is false."""

    values: NDArray[np.integer]
    is_set: NDArray[np.bool_] | None = None

    def part(self, rows: slice) -> Numbers:
        """Of some rows that follow one another."""
        return Numbers(self.values[rows], None if self.is_set is None else self.is_set[rows])


@dataclass(frozen=True, slots=True)
class Choices:
    """Texts or booleans: ``index`` of shape (elements,) into ``options``."""

    index: NDArray[np.integer | np.bool_]
    options: tuple[str | bool | None, ...]

    def part(self, rows: slice) -> Choices:
        """Of some rows that follow one another."""
        return Choices(self.index[rows], self.options)


@dataclass(frozen=True, slots=True)
class Strings:
    """Bytes ``arena[start:start + size]``, null where the size is negative; shapes (elements,)."""

    arena: NDArray[np.uint8]
    start: NDArray[np.int64]
    size: NDArray[np.integer]

    def part(self, rows: slice) -> Strings:
        """Of some rows that follow one another."""
        return Strings(self.arena, self.start[rows], self.size[rows])


@dataclass(frozen=True, slots=True)
class JsonTexts:
    """JSON texts ``data[start:start + size]``, null where they are empty; shapes (elements,)."""

    data: NDArray[np.uint8]
    start: NDArray[np.int64]
    size: NDArray[np.int64]

    def part(self, rows: slice) -> JsonTexts:
        """Of some rows that follow one another."""
        return JsonTexts(self.data, self.start[rows], self.size[rows])


@dataclass(frozen=True, slots=True)
class HeaderLists:
    """Headers of records: row ``i`` has ``headers`` number ``bounds[i]`` to ``bounds[i + 1]`` (exclusive)."""

    arena: NDArray[np.uint8]
    headers: HeaderColumns
    bounds: NDArray[np.int64]
    with_values: bool
    """False: only their keys."""

    def part(self, rows: slice) -> HeaderLists:
        """Of some rows that follow one another."""
        return HeaderLists(self.arena, self.headers, self.bounds[rows.start : rows.stop + 1], self.with_values)


Value: TypeAlias = Constant | Numbers | Choices | Strings | JsonTexts | HeaderLists


class ManyRows:
    """What ``Column.of_many`` takes: the batches of a block, or their records.

    Args:
        block: one batch or more.
        row_type: the value of the column ``type``.
        context: where they come from.
        records: those of the block that are shown; None: the rows are batches.
        txn_state: shape (batches,), indexes into reading.outcomes.STATES; None: null for all.
        decoder: of keys and values; None: nothing is decoded.
    """

    def __init__(
        self,
        block: BatchBlock,
        row_type: str,
        context: FileContext,
        records: RecordColumns | None = None,
        *,
        txn_state: NDArray[np.int8] | None = None,
        decoder: RecordDecoder | None = None,
    ) -> None:
        self.are_messages: bool = block.holds_messages
        headers = block.headers
        place: NDArray[np.integer] | slice = slice(None)
        if records is not None and self.are_messages:
            # Each record of a wrapper has a CRC of its own: it stands for a batch.
            headers, place = _own_headers(block, records), records.batch
            every = np.arange(records.batch.size)
            records = replace(
                records,
                accepted=np.ones(every.size, np.bool_),
                first_row=every,
                row_count=np.ones(every.size, np.int64),
                batch=every.astype(np.int32),
            )
        self.position: NDArray[np.int64] = block.position[place]
        self.is_valid: NDArray[np.bool_] = block.is_valid[place]
        self._headers = headers
        self._records = records
        self._arena = block.arena
        self._txn_state = txn_state
        self._decoder = decoder
        self._type = row_type
        self._log = block.log if isinstance(block, JointBlock) else None
        self._contexts = block.contexts if isinstance(block, JointBlock) else (context,)

    @property
    def count(self) -> int:
        """How many batches."""
        return self._headers.size

    @property
    def rows(self) -> int:
        """How many rows."""
        return self.count if self._records is None else self._records.batch.size

    def spread(self, of_batches: NDArray[Any]) -> NDArray[Any]:
        """The value of each row, from that of each batch."""
        return of_batches if self._records is None else of_batches.repeat(self._records.row_count)

    @property
    def records(self) -> RecordColumns:
        """The records. ValueError where the rows are batches."""
        if self._records is None:
            raise ValueError("the rows are batches")
        return self._records

    @cached_property
    def values(self) -> RecordValues:
        """What consumers see of the records."""
        return RecordValues(self._headers, self.records)

    @cached_property
    def decoded(self) -> DecodedJson | None:
        """The decoded keys and values; None without a decoder."""
        return None if self._decoder is None else _decoded(self._decoder, self._arena, self.records)

    def header(self, name: str) -> NDArray[np.int64]:
        """A field of ``format.batch.BatchHeader``."""
        return native_column(self._headers, name)

    def has(self, attribute: int) -> NDArray[np.bool_]:
        """The batches with this attribute bit."""
        mask: NDArray[np.bool_] = self._headers["attributes"] & attribute != 0
        return mask

    def constant(self, name: str) -> Constant | Choices | Numbers:
        """A column of ``columns.FILE``."""
        values = [self._type if name == "type" else context.columns()[name] for context in self._contexts]
        if self._log is None or len(set(values)) == 1:
            return Constant(values[0])
        texts = tuple(value for value in values if not isinstance(value, int))
        if len(texts) == len(values):
            return Choices(self._log, texts)
        numbers = np.array([value if isinstance(value, int) else 0 for value in values])
        is_set = np.array([value is not None for value in values])
        return Numbers(numbers[self._log], None if is_set.all() else is_set[self._log])

    def null(self) -> Constant:
        """Null for all."""
        return Constant(None)

    def numbers(self, values: NDArray[np.integer], is_set: NDArray[np.bool_] | None = None) -> Numbers:
        """See Numbers."""
        return Numbers(values, is_set)

    def choices(self, index: NDArray[np.integer | np.bool_], options: tuple[str | None, ...]) -> Choices:
        """See Choices."""
        return Choices(index, options)

    def flags(self, values: NDArray[np.bool_]) -> Choices:
        """Booleans."""
        return Choices(values, (False, True))

    def strings(self, start: NDArray[np.int64], size: NDArray[np.integer]) -> Strings:
        """See Strings."""
        return Strings(self._arena, start, size)

    def json(self, part: Literal["key", "value"]) -> Constant | JsonTexts:
        """The decoded keys or values."""
        if self.decoded is None:
            return Constant(None)
        texts = self.decoded.key if part == "key" else self.decoded.value
        return JsonTexts(texts.data, texts.bounds[:-1], np.diff(texts.bounds))

    def headers(self, *, with_values: bool) -> HeaderLists:
        """Each row's headers."""
        bounds = np.append(0, np.cumsum(self.records.header_count, dtype=np.int64))
        return HeaderLists(self._arena, self.records.headers, bounds, with_values)

    def stored(self, name: str) -> Value:
        """A header field as it is stored; null where messages do not have it."""
        return Constant(None) if self.are_messages and name not in _OF_MESSAGES else Numbers(self.header(name))

    def attribute(self, bit: int) -> Value:
        """Whether batches have an attribute. Messages do not have it."""
        return Constant(None) if self.are_messages else self.flags(self.has(bit))

    def timestamp_types(self) -> Value:
        """Whose time the records have."""
        index = self.has(LOG_APPEND_TIME) + 1
        return Choices(
            index if self._has_time is None else index * self._has_time, (NO_TIMESTAMP_TYPE, *TIMESTAMP_TYPES)
        )

    def timestamps(self) -> Numbers:
        """Of records, as consumers see them."""
        return Numbers(self.values.timestamps(), self._has_time)

    def largest_timestamps(self) -> Numbers:
        """Of batches."""
        return Numbers(self.header("max_timestamp"), self._has_time)

    @cached_property
    def _has_time(self) -> NDArray[np.bool_] | None:
        """Batches with a timestamp, which magic 0 does not have; None: all."""
        return self.header("magic") > 0 if self.are_messages else None

    def sequences(self) -> Value:
        """Of records."""
        return Constant(None) if self.are_messages else Numbers(self.values.sequences())

    def last_sequences(self) -> Value:
        """The sequences of the last offsets of batches."""
        if self.are_messages:
            return Constant(None)
        return Numbers(last_sequences(self.header("base_sequence"), self.header("last_offset_delta")))

    def txn_states(self) -> Value:
        """The outcomes of the batches' transactions."""
        states = self._txn_state
        return Constant(None) if states is None or not states.any() else Choices(states, STATES)


_OF_MESSAGES: Final = ("magic", "crc")
"""Header fields that messages of magic 0 and 1 have as they are stored."""


def _own_headers(block: BatchBlock, records: RecordColumns) -> NDArray[np.void]:
    """The header of each record of a block of messages, with its own CRC."""
    headers: NDArray[np.void] = block.headers[records.batch]
    headers["crc"] = stored_crcs(block.arena, records.key_start, native_column(headers, "magic"))
    return headers


_newest: Final[list[tuple[RecordDecoder, RecordColumns, DecodedJson]]] = []
"""What was decoded last: the same block is asked for what fails, and then for its rows."""


def _decoded(decoder: RecordDecoder, arena: NDArray[np.uint8], records: RecordColumns) -> DecodedJson:
    for known, of, found in _newest[:1]:
        if known is decoder and of is records:
            return found
    found = decoded_json(decoder, contents_of(arena, records))
    _newest[:] = [(decoder, records, found)]
    return found


def undecoded_batches(block: BatchBlock, decoder: RecordDecoder | None) -> NDArray[np.bool_] | None:
    """Batches with a record that does not decode completely; shape (batches,). None: there are none."""
    if decoder is None or block.records is None:
        return None
    failed = _decoded(decoder, block.arena, block.records).failed
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
    on_malformed: OnMalformed,
) -> ShownRecords:
    """Which records of a block are made as columns: neither those of control batches nor what ``fast`` refused.

    Args:
        block: one batch or more.
        records: all of the block.
        undecoded: see ``undecoded_batches``.
        on_malformed: see ``kept_batches``.
    """
    is_alone = ~records.accepted | (block.headers["attributes"] & CONTROL != 0)
    if undecoded is not None:
        is_alone |= undecoded
    kept = ~is_alone & kept_batches(block, ~is_alone, on_malformed)
    shown = records if kept.all() else records.select(kept[records.batch], np.ones(kept.size, np.bool_))
    bounds = np.append(shown.first_row, shown.batch.size)
    changes = is_alone[1:] != is_alone[:-1]
    if isinstance(block, JointBlock):
        changes |= block.skips
    cuts = [0, *(np.flatnonzero(changes) + 1).tolist(), is_alone.size]
    return ShownRecords(
        shown,
        [
            (first, last, None if is_alone[first] else slice(int(bounds[first]), int(bounds[last])))
            for first, last in pairwise(cuts)
        ],
    )


OnMalformed: TypeAlias = Callable[[int, Codes, str], bool]


def kept_batches(block: BatchBlock, among: NDArray[np.bool_], on_malformed: OnMalformed) -> NDArray[np.bool_]:
    """The batches that are shown; shape (batches,).

    ``on_malformed``, see ArrowPrinter, is asked of those ``among`` which the CRC is wrong.
    """
    kept = block.is_valid | ~among
    what = WRONG_CRC if block.records is None or not block.holds_messages else WRONG_MESSAGE_CRC
    for number in np.flatnonzero(~kept).tolist():
        kept[number] = on_malformed(int(block.position[number]), Codes.BATCH_CRC, what)
    return kept
