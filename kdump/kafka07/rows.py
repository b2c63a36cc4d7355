"""Rows of the messages of Kafka 0.7: the tables are those of today, with ``nextOffset``; see ``rows.logs``.

Source: docs/contract.md#23-rows. All columns are those of ``rows.tables``, so that a reader of rows needs to know one
set of names; what a message of 0.7 does not have is null.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from operator import attrgetter
from typing import Any, Final

from kdump.kafka07.resync import ResyncWalk07
from kdump.kafka07.view import LogView07
from kdump.log.gaps import Gap
from kdump.log.source import Source
from kdump.log.walk import Chunk
from kdump.reading.view import LogView
from kdump.rows.columns import FILE, Column, ColumnType, Getter, Table
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

FRAME: Final = Table(
    "frame",
    (
        *FILE,
        Column("frame", ColumnType.TEXT),
        Column("isRequest", ColumnType.BOOLEAN),
        Column("offset", ColumnType.INT64),
        Column("errorCode", ColumnType.INT32),
        Column("error", ColumnType.TEXT),
        Column("size", ColumnType.INT32),
        Column("partialSize", ColumnType.INT32),
        Column("fields", ColumnType.OBJECT),
    ),
    shown=("frame", "isRequest", "offset", "errorCode", "error", "size", "partialSize", "fields"),
)
"""The part of a saved request or response that is about one partition; its messages or batches follow as rows."""


def table(today: Table) -> Table:
    """See WorldRows; a table of 0.7 is its own."""
    return next(found for one, found in _OF_07 if today in (one, found))


def view(base_offset: int) -> Callable[..., LogView[Any, Any]]:
    """See WorldRows."""
    return partial(LogView07[Any, Any], base_offset)


def items_past_damage(source: Source, base_offset: int, start: int) -> Iterator[Chunk | Gap]:
    """See WorldRows."""
    return ResyncWalk07(source, base_offset, start=start).items()
