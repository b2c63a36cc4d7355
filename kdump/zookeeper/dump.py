"""The transactions and nodes in the files of ZooKeeper, as rows and as text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from kdump.codes import Codes, DamageError, Finding, KdumpError, OnError
from kdump.log.context import FileContext
from kdump.reading.printing import Emit
from kdump.reading.selection import RowBudget
from kdump.rows.columns import FILE_NAME, TYPE, Column, ColumnType, Meaning, Row, Table
from kdump.rows.printers import Lines, LinesOf
from kdump.rows.scalarlines import plain
from kdump.system.blocks import escaped
from kdump.system.units import time_text
from kdump.zookeeper.datafiles import DataFile, DataSet, data_sets
from kdump.zookeeper.releases import release_of
from kdump.zookeeper.secrets import data_without_secrets, shown_acl
from kdump.zookeeper.snapshotfile import read_snapshot
from kdump.zookeeper.transactions import TxnBody
from kdump.zookeeper.txnlog import EndKind, LogEntry, TxnLog

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


TABLES: tuple[Table, ...] = (TRANSACTION, SESSION, NODE)


class PathDump:
    """See WorldPathDump."""

    def __init__(
        self,
        lines: LinesOf | None,
        emit: Emit,
        *,
        budget: RowBudget,
        resync: bool,
        show_secrets: bool,
        limit: int,
    ) -> None:
        self._make_lines = lines
        self._emit = emit
        self._budget = budget
        self._resync = resync
        self._show_secrets = show_secrets
        self._limit = limit
        self._titled: Table | None = None

    def show(self, path: str, on_error: OnError) -> None:
        """See WorldPathDump."""
        try:
            found = data_sets([path], self._limit)
        except KdumpError as error:
            on_error(error)
            return
        for file in (file for files in found for file in files.files):
            try:
                self._file(file)
            except KdumpError as error:
                on_error(error.located(file.path))

    def _file(self, file: DataFile) -> None:
        """Show a file. Raises DamageError after what comes before the damage."""
        if self._budget.is_spent:
            return
        lines = None if self._make_lines is None else self._make_lines(FileContext.of(file.path))
        if lines is None:
            self._write(f"Dumping {escaped(file.path)}\n")
        try:
            for table, row in self._rows(file):
                first, end = self._budget.admit(1)
                if end > first:
                    self._show(lines, table, row)
                if self._budget.is_spent:
                    return
        except DamageError as error:
            if lines is not None:
                self._write(lines.finding(Finding(error.code, error.message, error.position or 0)))
            raise
        finally:
            if lines is not None:
                self._write(lines.finish())

    def _show(self, lines: Lines | None, table: Table, row: Row) -> None:
        if lines is None:
            self._write(_text(table, row))
            return
        if table is not self._titled:
            self._titled = table
            self._write(lines.title(table))
        self._write(lines.line(table, row))

    def _write(self, text: str) -> None:
        if text:
            self._emit(text.encode("utf-8", "surrogateescape"))

    def _rows(self, file: DataFile) -> Iterator[tuple[Table, Row]]:
        release = release_of(DataSet.of(file.path, [file]))
        if file.name.kind == "snapshot":
            tree = read_snapshot(file, release).tree
            for session, timeout in sorted(tree.sessions.items()):
                yield SESSION, {"session": session, "timeout": timeout}
            for node in tree.shown_nodes(show_secrets=self._show_secrets):
                yield NODE, node
            return
        log = TxnLog.of(file, release)
        for entry in log.entries():
            yield TRANSACTION, self._transaction(entry)
        if self._resync and log.end.kind is not EndKind.COMPLETE:
            for entry in log.later_entries():
                yield TRANSACTION, self._transaction(entry)
        if log.end.kind is not EndKind.COMPLETE:
            code = Codes.ZOOKEEPER_LOG if log.end.kind is EndKind.FAILURE else Codes.ZOOKEEPER_TORN
            raise DamageError(code, log.end.reason, position=log.end.position)

    def _transaction(self, entry: LogEntry) -> Row:
        transaction = entry.transaction
        return {
            "position": entry.position,
            "size": entry.size,
            "zxid": transaction.zxid,
            "timestamp": transaction.time,
            "session": transaction.session,
            "cxid": transaction.cxid,
            **self._body(transaction.body),
            "digest": transaction.digest,
        }

    def _body(self, body: TxnBody) -> dict[str, Any]:
        return {
            "operation": body.type.label,
            "path": body.path,
            "data": body.data if self._show_secrets else data_without_secrets(body.path, body.data),
            "version": body.version,
            "acl": None if body.acl is None else shown_acl(body.acl, show_secrets=self._show_secrets),
            "ephemeral": body.ephemeral,
            "parentCversion": body.parent_cversion,
            "ttl": body.ttl,
            "timeout": body.timeout,
            "error": body.error,
            "closed": None if body.closed is None else list(body.closed),
            "operations": [_given(self._body(part)) for part in body.parts] or None,
        }


def _given(members: dict[str, Any]) -> dict[str, Any]:
    """The members of an operation that it has."""
    return {name: plain(value) for name, value in members.items() if value is not None}


_HEAD = ("position", "size", "zxid", "timestamp", "session", "cxid", "operation", "digest")


def _text(table: Table, row: Row) -> str:
    """A row in one line: what all have, then the members that it has."""
    if table is TRANSACTION:
        head = (
            f"position: {row['position']} zxid: 0x{row['zxid']:x} time: {time_text(row['timestamp'])} "
            f"session: 0x{row['session'] % (1 << 64):x} cxid: {row['cxid']} {row['operation']}"
        )
        rest = {name: value for name, value in row.items() if name not in _HEAD}
    else:
        head, rest = table.type, row
    members = (f" {name}: {_value(value)}" for name, value in rest.items() if value is not None)
    return f"{head}{''.join(members)}\n"


def _value(value: Any) -> str:
    shown = plain(value)
    return escaped(shown) if isinstance(shown, str) else json.dumps(shown, ensure_ascii=False)


begin_dump: Final = PathDump
"""See WorldDump."""
