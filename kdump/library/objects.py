"""Printers of ``kdump.reading.view`` that make objects: records and batches."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from itertools import chain, repeat, starmap
from operator import getitem
from typing import TYPE_CHECKING, Any, Final, cast

from kdump.library.records import LogBatch, LogRecord, RecordOrigin
from kdump.reading.printing import BatchRun, BlockPrinter
from kdump.rows.columns import Row, camel_case
from kdump.rows.scalar import ValuePrinter
from kdump.rows.tables import BATCH, RECORD_DECODED
from kdump.wire.utf8 import decode_utf8

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kdump.fast.blocks import BatchBlock
    from kdump.rows.columnar import Value


_BATCH_COLUMNS: Final = tuple(map(camel_case, LogBatch.__slots__))
_ORIGIN_COLUMNS: Final = tuple(map(camel_case, RecordOrigin.__slots__))
_OWN_COLUMNS: Final = tuple(camel_case(name) for name in LogRecord._fields if name != "origin")

_CUT: Final = cast("Callable[[bytes, slice], bytes]", getitem)
_ORIGIN_AT: Final = LogRecord._fields.index("origin")


class ObjectPrinter(ValuePrinter[LogBatch | LogRecord | None]):
    """Makes ``LogRecord`` objects, or ``LogBatch`` objects. See ValuePrinter."""

    def value(self, row: Row | None) -> LogBatch | LogRecord | None:
        """See ValuePrinter."""
        if row is None:
            return None
        if not self._with_records:
            return LogBatch(*_of_row(row, _BATCH_COLUMNS))
        origin = RecordOrigin(*_of_row(row, _ORIGIN_COLUMNS))
        row["headers"] = tuple((decode_utf8(key), value) for key, value in row["headers"])
        own = _of_row(row, _OWN_COLUMNS)
        return LogRecord._make((*own[:_ORIGIN_AT], origin, *own[_ORIGIN_AT:]))

    def joined(self, rows: list[Any]) -> Iterator[list[Any]]:
        """See Printer."""
        yield [row for row in rows if row is not None]

    def columns(self) -> BlockPrinter[Iterable[Any]]:
        """See Printer."""
        return _ObjectBlocks(self)


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
            RECORD_DECODED.type,
            printer.context,
            shown.records,
            txn_state=None if printer.outcomes is None else printer.outcomes.column(block.headers),
            decoder=printer.decoder,
        )
        contents = _Contents(block.arena)
        shared = (RECORD_DECODED.column(name).many(of) for name in _ORIGIN_COLUMNS)
        origins = list(map(RecordOrigin, *(_values(value, contents, of.count) for value in shared)))
        values = [RECORD_DECODED.column(name).many(of) for name in _OWN_COLUMNS]
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
            pairs = list(zip(map(texts.__getitem__, keys), values, strict=True))
            rows = np.flatnonzero(np.diff(bounds))
            own = map(slice, (bounds[rows] - bounds[0]).data, (bounds[rows + 1] - bounds[0]).data)
            found = np.empty(count, object)
            found.fill(())
            found[rows] = np.fromiter(map(tuple, map(pairs.__getitem__, own)), object, rows.size)
            return cast("list[tuple[tuple[str, bytes | None], ...]]", found.tolist())


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
