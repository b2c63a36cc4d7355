"""What a table and a column of the structured outputs are.

``rows.tables`` declares the tables of batches and records, ``rows.tables07`` those of Kafka 0.7, ``rows.filetables``
all others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum, auto
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from kdump.rows.columnar import BatchValue, ColumnarBatches, ColumnarRecords, RowValue

Row: TypeAlias = dict[str, Any]
"""Values by column name, without the columns of FILE. Keys and values stay bytes; null is None."""
Getter: TypeAlias = Callable[[Any], Any]


class ColumnType(Enum):
    """What a value is; every column may be null."""

    INT32 = auto()
    INT64 = auto()
    BOOLEAN = auto()
    TEXT = auto()
    BYTES = auto()
    """A string when it is valid UTF-8, else ``{"base64": "..."}``."""
    BYTES_LIST = auto()
    HEADERS = auto()
    """``[key, value]`` pairs of BYTES; never null."""
    OBJECT = auto()
    """A JSON object."""
    VALUE = auto()
    """Any JSON value."""


class Meaning(Enum):
    """Values that some outputs show in their own way."""

    PLAIN = auto()
    TIME = auto()
    """Milliseconds since 1970. A table for people shows date and time."""
    RECORD_TIME = auto()
    """TIME that is a timestamp in data frames."""
    TIMESTAMP_TYPE = auto()
    """The name of a timestamp type. Data frames have its number."""


class Column:
    """One column of a table.

    A column of batches needs ``of_batch`` and ``of_batches``. A column of records needs ``of_batch`` or ``of_row``, and
    ``of_batches`` or ``of_records``: a value that all records of a batch share is made once for each batch.

    Args:
        name: in the outputs.
        type: what its values are.
        meaning: what some outputs show in their own way.
        of_batch: scalar; takes a ``scalar.Batch``.
        of_row: scalar; takes a ``scalar.BatchRecord``, or in tables of other files an entry of the file.
        of_legacy: scalar; takes a ``scalar.Legacy``. None: messages of magic 0 and 1 do not have it.
        of_batches: columnar, one element for each batch.
        of_records: columnar, one element for each record of a range.
        verbs: letters of ``--format`` that stand for the column.
        decodes: the column of bytes that is not shown where this one is.
    """

    # No named tuple and no dataclass: these compile code when the module is loaded, for every command.
    __slots__ = (
        "decodes",
        "meaning",
        "name",
        "of_batch",
        "of_batches",
        "of_legacy",
        "of_records",
        "of_row",
        "type",
        "verbs",
    )

    def __init__(
        self,
        name: str,
        type: ColumnType,
        meaning: Meaning = Meaning.PLAIN,
        *,
        of_batch: Getter | None = None,
        of_row: Getter | None = None,
        of_legacy: Getter | None = None,
        of_batches: Callable[[ColumnarBatches], BatchValue] | None = None,
        of_records: Callable[[ColumnarRecords, slice], RowValue] | None = None,
        verbs: str = "",
        decodes: str | None = None,
    ) -> None:
        self.name = name
        self.type = type
        self.meaning = meaning
        self.of_batch = of_batch
        self.of_row = of_row
        self.of_legacy = of_legacy
        self.of_batches = of_batches
        self.of_records = of_records
        self.verbs = verbs
        self.decodes = decodes


class Table:
    """One kind of row.

    Tables are compared by identity; a copy in another process is that process's own table.

    Args:
        type: what the ``type`` column says.
        columns: in their order.
        others: columns that are shown only where they are asked for.
        shown: names of the columns in a table for people, in this order; None: all but those of FILE.
    """

    def __init__(
        self,
        type: str,
        columns: tuple[Column, ...],
        *,
        others: tuple[Column, ...] = (),
        shown: tuple[str, ...] | None = None,
    ) -> None:
        self.type = type
        self.columns = columns
        self.names = tuple(column.name for column in columns)
        self.shown = self.names[len(FILE) :] if shown is None else shown
        self.others = others

    # Most commands make no row, so what rows need is made for the first one.

    @cached_property
    def _by_name(self) -> dict[str, Column]:
        return {column.name: column for column in (*self.columns, *self.others)}

    @cached_property
    def of_batch(self) -> list[tuple[str, Getter]]:
        """Names and scalar forms of the columns that are made once for each batch."""
        return [(name, column.of_batch) for name, column in self._by_name.items() if column.of_batch is not None]

    @cached_property
    def of_row(self) -> list[tuple[str, Getter]]:
        """Names and scalar forms of the columns that are made once for each row."""
        return [(name, column.of_row) for name, column in self._by_name.items() if column.of_row is not None]

    @cached_property
    def of_legacy(self) -> list[tuple[str, Getter]]:
        """Names and scalar forms of the columns that messages of magic 0 and 1 have."""
        return [(name, column.of_legacy) for name, column in self._by_name.items() if column.of_legacy is not None]

    @cached_property
    def not_of_legacy(self) -> Row:
        """Null for each column that messages of magic 0 and 1 do not have."""
        names = {name for name, _ in (*self.of_batch, *self.of_row)} - {name for name, _ in self.of_legacy}
        return dict.fromkeys(sorted(names))

    @property
    def is_decoded(self) -> bool:
        """It has columns of decoded keys and values."""
        return any(column.decodes is not None for column in self.columns)

    def column(self, name: str) -> Column:
        """The column of that name; ValueError when rows have none."""
        if name not in self._by_name:
            raise ValueError(f"no column {name}")
        return self._by_name[name]

    def row(self, entry: object) -> Row:
        """The row of one entry of an index, a snapshot or a text file, or of a finding."""
        return {name: get(entry) for name, get in self.of_row}

    def rows(self, entries: Iterator[object]) -> Iterator[Row]:
        """The rows of entries."""
        return map(self.row, entries)

    def __reduce__(self) -> tuple[object, tuple[str, str]]:
        """Another process gets the name of the table: functions cannot be sent."""
        for home in _HOMES:
            for name, value in vars(import_module(home)).items():
                if value is self:
                    return _declared, (home, name)
        raise LookupError(f"the table of {self.type} rows is declared nowhere")


_HOMES: Final = ("kdump.rows.tables", "kdump.rows.filetables", "kdump.rows.tables07")
"""Modules that declare tables."""


def _declared(home: str, name: str) -> object:
    return getattr(import_module(home), name)


TYPE: Final = Column("type", ColumnType.TEXT, of_batches=lambda of: of.constant("type"))
FILE_NAME: Final = Column("file", ColumnType.TEXT, of_batches=lambda of: of.constant("file"), verbs="f")
_TOPIC: Final = Column("topic", ColumnType.TEXT, of_batches=lambda of: of.constant("topic"), verbs="t")
_PARTITION: Final = Column("partition", ColumnType.INT32, of_batches=lambda of: of.constant("partition"), verbs="p")
FILE: Final = (TYPE, FILE_NAME, _TOPIC, _PARTITION)
