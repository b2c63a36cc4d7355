"""The tables of the rows of a dump of ZooKeeper's files."""

from __future__ import annotations

from typing import Final

from kdump.rows.schema import FILE_NAME, TYPE, Column, ColumnType, Meaning, Table

_INT32, _INT64, _TEXT = ColumnType.INT32, ColumnType.INT64, ColumnType.TEXT


def _named(**types: ColumnType) -> tuple[Column, ...]:
    """Columns with the values of rows."""
    return tuple(Column(name, kind) for name, kind in types.items())


TRANSACTION: Final = Table(
    "transaction",
    (
        TYPE,
        FILE_NAME,
        *_named(position=_INT64, size=_INT64, zxid=_INT64),
        Column("timestamp", _INT64, Meaning.TIME),
        *_named(session=_INT64, cxid=_INT32, operation=_TEXT, path=_TEXT, data=ColumnType.BYTES, version=_INT32),
        *_named(acl=ColumnType.VALUE, ephemeral=ColumnType.BOOLEAN, parentCversion=_INT32, ttl=_INT64, timeout=_INT32),
        *_named(error=_INT32, closed=ColumnType.VALUE, operations=ColumnType.VALUE, digest=_INT64),
    ),
    shown=("zxid", "timestamp", "session", "operation", "path", "data", "version", "error", "closed", "operations"),
)
"""A transaction of ZooKeeper: where it lies in the log, who wanted it, and what it does."""
SESSION: Final = Table(
    "session", (TYPE, FILE_NAME, *_named(session=_INT64, timeout=_INT32)), shown=("session", "timeout")
)
"""A session in a snapshot of ZooKeeper."""
NODE: Final = Table(
    "node",
    (
        TYPE,
        FILE_NAME,
        *_named(path=_TEXT, data=ColumnType.BYTES, czxid=_INT64, mzxid=_INT64, pzxid=_INT64),
        Column("ctime", _INT64, Meaning.TIME),
        Column("mtime", _INT64, Meaning.TIME),
        *_named(version=_INT32, cversion=_INT32, aversion=_INT32, ephemeralOwner=_INT64),
        *_named(dataLength=_INT32, numChildren=_INT32, acl=ColumnType.VALUE),
    ),
    shown=("path", "data", "version", "cversion", "aversion", "ephemeralOwner", "mzxid", "mtime"),
)
"""A node in a snapshot of ZooKeeper, with the numbers that clients are shown."""
