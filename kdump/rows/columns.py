"""What a table and a column of the structured outputs are.

``rows.tables`` declares the tables of batches and records, ``rows.filetables`` all others of today. A world with logs
declares its own in its module ``rows``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum, auto
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from kdump.worlds import WORLDS

if TYPE_CHECKING:
    from kdump.rows.columnar import ManyRows, Value

Row: TypeAlias = dict[str, Any]
"""Values by column name, without the columns of FILE. Keys and values stay bytes; null is None."""
Getter: TypeAlias = Callable[[Any], Any]


def snake_case(name: str) -> str:
    """The attribute of a column or a member of JSON: ``producer_id`` of ``producerId``."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


def camel_case(attribute: str) -> str:
    """The column or member of JSON of an attribute: ``producerId`` of ``producer_id``."""
    first, *others = attribute.split("_")
    return first + "".join(map(str.capitalize, others))


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
    """One column of a table, in two forms: of one row, and of many.

    Args:
        name: in the outputs.
        type: what its values are.
        meaning: what some outputs show in their own way.
        of_row: takes a ``scalar.OneRow``, or in tables of other files an entry of the file.
        of_many: takes a ``columnar.ManyRows``. Its elements are those of all rows; with ``is_shared`` of all batches.
        is_shared: the records of a batch share the value, so it is made once for each batch.
        verbs: letters of ``--format`` that stand for the column.
        decodes: the column of bytes that is not shown where this one is.
    """

    # No named tuple and no dataclass: these compile code when the module is loaded, for every command.
    __slots__ = (
        "decodes",
        "is_shared",
        "meaning",
        "name",
        "of_many",
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
        of_row: Getter | None = None,
        of_many: Callable[[ManyRows], Value] | None = None,
        is_shared: bool = False,
        verbs: str = "",
        decodes: str | None = None,
    ) -> None:
        self.name = name
        self.type = type
        self.meaning = meaning
        self.of_row = of_row
        self.of_many = of_many
        self.is_shared = is_shared
        self.verbs = verbs
        self.decodes = decodes

    def many(self, of: ManyRows) -> Value:
        """Its values in many rows. ValueError where it has none."""
        if self.of_many is None:
            raise ValueError(f"no column {self.name} of many rows")
        return self.of_many(of)


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
    def of_row(self) -> list[tuple[str, Getter]]:
        """Names and forms of one row of all columns that have one."""
        return [(name, column.of_row) for name, column in self._by_name.items() if column.of_row is not None]

    @cached_property
    def shared(self) -> list[tuple[str, Getter]]:
        """Those of ``of_row`` that the records of a batch share."""
        return [(name, get) for name, get in self.of_row if self._by_name[name].is_shared]

    @cached_property
    def own(self) -> list[tuple[str, Getter]]:
        """Those of ``of_row`` that each record has for itself."""
        return [(name, get) for name, get in self.of_row if not self._by_name[name].is_shared]

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
        """The row of a batch or record, of an entry of an index, a snapshot or a text file, or of a finding."""
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


_HOMES: Final = (
    "kdump.rows.tables",
    "kdump.rows.filetables",
    *(f"kdump.{world.package}.rows" for world in WORLDS if world.log_suffix),
)
"""Modules that declare tables."""


def _declared(home: str, name: str) -> object:
    return getattr(import_module(home), name)


def _of_file(name: str, kind: ColumnType, verbs: str = "") -> Column:
    """A column that all rows of a file share. ``FileContext`` has its value for single rows."""
    return Column(name, kind, of_many=lambda of: of.constant(name), is_shared=True, verbs=verbs)


TYPE: Final = _of_file("type", ColumnType.TEXT)
FILE_NAME: Final = _of_file("file", ColumnType.TEXT, "f")
FILE: Final = (TYPE, FILE_NAME, _of_file("topic", ColumnType.TEXT, "t"), _of_file("partition", ColumnType.INT32, "p"))
