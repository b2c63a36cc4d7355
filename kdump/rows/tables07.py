"""The tables of the messages of Kafka 0.7: those of today's, with ``nextOffset``.

Source: docs/contract.md#23-rows. All columns are those of ``rows.tables``, so that a reader of rows needs to know one
set of names; what a message of 0.7 does not have is null.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from typing import Final

from kdump.rows.schema import Column, ColumnType, Getter, Table
from kdump.rows.tables import BATCH, NEXT_OFFSET, RECORD, RECORD_DECODED, RECORD_METADATA

_OF_RECORD: Final[dict[str, Getter]] = {
    # A message inside a wrapper may have another magic.
    "magic": attrgetter("record.source.message.magic"),
    NEXT_OFFSET: attrgetter("record.source.next_offset"),
}
_OF_BATCH: Final[dict[str, Getter]] = {
    "baseOffset": attrgetter("header.source.offset"),
    NEXT_OFFSET: attrgetter("header.source.next_offset"),
}


def _table(of: Table, after: str, changed: dict[str, Getter], shown: tuple[str, ...]) -> Table:
    columns, others = (tuple(_columns(group, after, changed)) for group in (of.columns, of.others))
    return Table(of.type, columns, others=others, shown=shown)


def _columns(columns: tuple[Column, ...], after: str, changed: dict[str, Getter]) -> Iterator[Column]:
    """The columns, some with another value; ``nextOffset`` stands after the column ``after``."""
    for column in columns:
        if column.name == NEXT_OFFSET:
            continue
        get = changed.get(column.name)
        yield column if get is None else Column(column.name, column.type, column.meaning, of_row=get)
        if column.name == after:
            yield Column(NEXT_OFFSET, ColumnType.INT64, of_row=changed[NEXT_OFFSET])


_SHOWN: Final = ("offset", "nextOffset", "value", "magic", "compression", "problem")
RECORD_07: Final = _table(RECORD, "offset", _OF_RECORD, _SHOWN)
RECORD_DECODED_07: Final = _table(
    RECORD_DECODED, "offset", _OF_RECORD, ("offset", "nextOffset", "decodedValue", "value", "compression", "problem")
)
RECORD_METADATA_07: Final = _table(
    RECORD_METADATA, "offset", _OF_RECORD, ("offset", "nextOffset", "valueSize", "magic", "compression", "problem")
)
BATCH_07: Final = _table(
    BATCH,
    "lastOffset",
    _OF_BATCH,
    ("baseOffset", "nextOffset", "position", "size", "magic", "compression", "crc", "isValid"),
)

_OF_07: Final = (
    (RECORD, RECORD_07),
    (RECORD_DECODED, RECORD_DECODED_07),
    (RECORD_METADATA, RECORD_METADATA_07),
    (BATCH, BATCH_07),
)


def table_07(table: Table) -> Table:
    """The table of 0.7 in the place of a table of ``rows.tables``; one of 0.7 is its own."""
    return next(found for today, found in _OF_07 if table in (today, found))
