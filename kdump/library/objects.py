"""Printers of ``kdump.reading.view`` that make objects: records and batches."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from itertools import chain, islice, repeat, starmap
from operator import getitem
from typing import TYPE_CHECKING, Any, Final, cast

from kdump.codes import Codes
from kdump.format.batch import BatchHeader
from kdump.format.legacy import LegacyRecord, Message
from kdump.format.record import Record
from kdump.library.records import LogBatch, LogRecord, RecordOrigin
from kdump.log.context import FileContext
from kdump.payloads.decoded import PayloadError, RecordDecoder
from kdump.reading.outcomes import Outcomes
from kdump.reading.printing import AnyRecord, BatchRun, BlockPrinter
from kdump.rows.logs import table_of
from kdump.rows.scalar import RecordRows, add_decoded, batch_row, legacy_row, malformed
from kdump.rows.schema import Row, Table
from kdump.rows.tables import BATCH, RECORD_DECODED
from kdump.wire.utf8 import decode_utf8
from kdump.worlds import World

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kdump.fast.blocks import BatchBlock
    from kdump.rows.columnar import Value


def snake_case(name: str) -> str:
    """The attribute of a column: ``producer_id`` of ``producerId``."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


def _columns_of(attributes: Iterable[str], table: Table) -> tuple[str, ...]:
    by_attribute = {snake_case(column.name): column.name for column in (*table.columns, *table.others)}
    return tuple(by_attribute[attribute] for attribute in attributes)


_TABLE: Final = RECORD_DECODED
_BATCH_COLUMNS: Final = _columns_of(LogBatch.__slots__, BATCH)
_ORIGIN_COLUMNS: Final = _columns_of(RecordOrigin.__slots__, _TABLE)
_OWN_COLUMNS: Final = _columns_of((name for name in LogRecord._fields if name != "origin"), _TABLE)

_CUT: Final = cast("Callable[[bytes, slice], bytes]", getitem)
_ORIGIN_AT: Final = LogRecord._fields.index("origin")


class ObjectPrinter:
    """Makes ``LogRecord`` objects, or ``LogBatch`` objects.

    Args:
        context: where they come from.
        with_records: records; False: batches.
        outcomes: of the log's transactions.
        decoder: of keys and values; None: nothing is decoded.
        on_malformed: see ArrowPrinter.
        on_undecoded: see ArrowPrinter.
        world: whose log it is; None: a log of today.
    """

    def __init__(
        self,
        context: FileContext,
        *,
        with_records: bool,
        outcomes: Outcomes,
        decoder: RecordDecoder | None,
        on_malformed: Callable[[int, Codes, str], bool],
        on_undecoded: Callable[[Row, PayloadError], None],
        world: World | None = None,
    ) -> None:
        self.context = context
        self._table = table_of(world, _TABLE)
        self._batches = table_of(world, BATCH)
        self.outcomes = outcomes
        self.decoder = decoder
        self.on_malformed = on_malformed
        self._on_undecoded = on_undecoded
        self._with_records = with_records
        self._file = context.columns()
        self._rows = RecordRows(_TABLE)
        self._is_entry_valid = True

    def batch(self, header: BatchHeader, position: int, is_valid: bool) -> LogBatch | None:
        """See Printer."""
        return None if self._with_records else self._batch(batch_row(BATCH, header, position, is_valid), is_valid)

    def record(self, header: BatchHeader, position: int, is_valid: bool, record: Record) -> LogRecord | None:
        """See Printer."""
        state = self.outcomes.state(header)
        return self._record(self._rows.row(header, position, is_valid, record, state), is_valid)

    def entry(self, entry: Message, position: int, is_valid: bool) -> LogBatch | None:
        """See Printer."""
        self._is_entry_valid = is_valid
        return (
            None if self._with_records else self._batch(legacy_row(self._batches, entry, position, is_valid), is_valid)
        )

    def legacy_record(self, entry: Message, position: int, is_valid: bool, record: LegacyRecord) -> LogRecord | None:
        """See Printer."""
        return self._record(legacy_row(self._table, entry, position, is_valid, record), self._is_entry_valid)

    def skip(self, record: AnyRecord, row: Callable[[], Any]) -> None:
        """See Printer."""
        row()

    def joined(self, rows: list[Any]) -> Iterator[list[Any]]:
        """See Printer."""
        yield [row for row in rows if row is not None]

    def columns(self) -> BlockPrinter[Iterable[Any]]:
        """See Printer."""
        return _ObjectBlocks(self)

    def _batch(self, row: Row, is_entry_valid: bool) -> LogBatch | None:
        if not self._is_kept(row, is_entry_valid):
            return None
        row |= self._file
        return LogBatch(*_of_row(row, _BATCH_COLUMNS))

    def _record(self, row: Row, is_entry_valid: bool) -> LogRecord | None:
        if not self._is_kept(row, is_entry_valid):
            return None
        for error in add_decoded(_TABLE, row, self.decoder):
            self._on_undecoded(row, error)
        row |= self._file
        origin = RecordOrigin(*_of_row(row, _ORIGIN_COLUMNS))
        row["headers"] = tuple((decode_utf8(key), value) for key, value in row["headers"])
        own = _of_row(row, _OWN_COLUMNS)
        return LogRecord._make((*own[:_ORIGIN_AT], origin, *own[_ORIGIN_AT:]))

    def _is_kept(self, row: Row, is_entry_valid: bool) -> bool:
        what = malformed(row, is_entry_valid=is_entry_valid)
        return what is None or self.on_malformed(row["position"], *what)


def _of_row(row: Row, names: Iterable[str]) -> list[Any]:
    return [row.get(name) for name in names]


class _ObjectBlocks:
    def __init__(self, printer: ObjectPrinter) -> None:
        self._printer = printer

    def batches(self, block: BatchBlock) -> Iterable[LogBatch]:
        """See BlockPrinter."""
        import numpy as np

        from kdump.rows.columnar import ManyRows, kept_batches

        if not block.is_valid.all():
            block = block.select(kept_batches(block, np.ones(block.headers.size, np.bool_), self._printer.on_malformed))
        if not block.headers.size:
            return ()
        of, contents = ManyRows(block, BATCH.type, self._printer.context), _Contents(block.arena)
        return map(LogBatch, *(_values(BATCH.column(name).many(of), contents, of.rows) for name in _BATCH_COLUMNS))

    def leaves(self, block: BatchBlock) -> NDArray[np.bool_] | None:
        """See BlockPrinter."""
        from kdump.rows.columnar import undecoded_batches

        return undecoded_batches(block, self._printer.decoder)

    def records(self, block: BatchBlock) -> Iterator[BatchRun[Iterable[LogRecord]]]:
        """See BlockPrinter. The records of a run are made while they are iterated over."""
        from kdump.rows.columnar import ManyRows, shown_records

        if block.records is None or not block.headers.size:
            return
        shown = shown_records(block, block.records, self.leaves(block), self._printer.on_malformed)
        printer = self._printer
        of = ManyRows(
            block,
            _TABLE.type,
            printer.context,
            shown.records,
            txn_state=printer.outcomes.column(block.headers),
            decoder=printer.decoder,
        )
        contents = _Contents(block.arena)
        origins = list(
            map(RecordOrigin, *(_values(_TABLE.column(name).many(of), contents, of.count) for name in _ORIGIN_COLUMNS))
        )
        values = [_TABLE.column(name).many(of) for name in _OWN_COLUMNS]
        for first, last, part in shown.runs:
            if part is None:
                yield BatchRun(first, last, None)
                continue
            batches = (
                slice(*of.records.batch[[part.start, part.stop - 1]] + (0, 1)) if part.stop > part.start else slice(0)
            )
            counts = of.records.row_count[batches].tolist()
            columns = [_values(value.part(part), contents, part.stop - part.start) for value in values]
            columns.insert(_ORIGIN_AT, chain.from_iterable(map(repeat, origins[batches], counts)))
            # Faster than map(), which would make a tuple of the arguments for each record.
            made = starmap(tuple.__new__, zip(repeat(LogRecord), zip(*columns, strict=True), strict=False))
            yield BatchRun(first, last, made)


def _numbers(numbers: NDArray[np.integer], is_set: NDArray[np.bool_] | None) -> Iterable[int | None]:
    """Numbers, None where they are not set. They are made while they are iterated over.

    So is all that records have: what is made long before it is used has left the processor's cache by then.
    """
    if is_set is None:
        return numbers.data
    return (value if known else None for value, known in zip(numbers.data, is_set.data, strict=True))


def _values(value: Value, contents: _Contents, count: int) -> Iterable[Any]:
    """The ``count`` values of a column; strings are cut out while they are iterated over."""
    import numpy as np

    from kdump.rows.columnar import Choices, Constant, HeaderLists, JsonTexts, Numbers, Strings

    match value:
        case Constant(constant):
            return repeat(constant, count)
        case Choices(index, options):
            return map(options.__getitem__, index.tolist())
        case Numbers(numbers, None):
            if (numbers == numbers[:1]).all():
                return repeat(int(numbers[0]) if count else 0, count)
            return _numbers(numbers, None)
        case Numbers(numbers, is_set):
            return _numbers(numbers, is_set)
        case Strings(_, start, size):
            return contents.cut(start, size)
        case JsonTexts(data, start, size):
            return [
                json.loads(data[at : at + length].tobytes()) if length else None
                for at, length in zip(start.tolist(), size.tolist(), strict=True)
            ]
        case HeaderLists(_, headers, bounds):
            if bounds[0] == bounds[-1]:
                return repeat((), count)
            used = slice(int(bounds[0]), int(bounds[-1]))
            keys = list(contents.cut_all(headers.key_start[used], headers.key_size[used]))
            texts = {key: decode_utf8(key) for key in set(keys)}
            values = contents.cut(headers.value_start[used], headers.value_size[used])
            pairs = zip(map(texts.__getitem__, keys), values, strict=True)
            counts = np.diff(bounds)
            rows = np.flatnonzero(counts > 0)
            made = map(tuple, map(islice, repeat(pairs), counts[rows].data))
            # Before each row with headers are some without.
            without = map(repeat, repeat(()), (np.diff(rows, prepend=-1) - 1).data)
            found = chain.from_iterable(chain.from_iterable(zip(without, zip(made), strict=True)))
            return chain(found, repeat((), count - 1 - int(rows[-1])))


class _Contents:
    """Cuts keys and values out of an arena."""

    def __init__(self, arena: NDArray[np.uint8]) -> None:
        self._arena = arena

    @cached_property
    def _data(self) -> bytes:
        # A slice of bytes is bytes; one of a view would have to be copied once more.
        return self._arena.tobytes()

    def cut(self, start: NDArray[np.int64], size: NDArray[np.integer]) -> Iterable[bytes | None]:
        """``arena[start:start + size]`` of every row, None for a size below 0."""
        is_null = size < 0
        if not is_null.any():
            return self.cut_all(start, size)
        found: list[bytes | None] = list(self.cut_all(start, size))
        for row in is_null.nonzero()[0].tolist():
            found[row] = None
        return found

    def cut_all(self, start: NDArray[np.int64], size: NDArray[np.integer]) -> Iterator[bytes]:
        """``arena[start:start + size]`` of every row; without meaning for a size below 0."""
        bounds = zip(start.data, (start + size).data, strict=True)
        return map(_CUT, repeat(self._data), starmap(slice, bounds))
