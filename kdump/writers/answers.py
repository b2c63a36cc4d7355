"""Answers to questions, and the state of coordinators: JSON lines, or words and tables for eyes."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from kdump.format.message import Value
from kdump.stats.coordinatorstate import OFFSETS, TRANSACTION_LOG
from kdump.stats.whatif.answer import Answer
from kdump.writers.blocks import escaped
from kdump.writers.rows import json_line

STATE_TYPES: Final = {OFFSETS: "committedOffset", TRANSACTION_LOG: "transactionalId"}
"""The ``type`` of a JSON line by the decoder of its topic."""
_TIMES: Final = frozenset(
    {
        "largestTimestamp",
        "commitTimestamp",
        "timestamp",
        "transactionLastUpdateTimestamp",
        "transactionStartTimestamp",
    }
)
_NOT_BROKEN: Final = frozenset({"codec", "goes", "reason", "state"})
"""Columns of few words; paths and names go on in the next line where they do not fit."""
_COLUMNS: Final[dict[str, dict[str, str]]] = {
    "codec": {
        "codec": "codec",
        "level": "level",
        "bytes": "bytes",
        "ratio": "ratio",
        "compressMBps": "write MB/s",
        "decompressMBps": "read MB/s",
    },
    "magic": {"magic": "magic", "bytes": "bytes", "records": "records"},
    "batch-size": {"batchSize": "batch.size", "bytes": "bytes", "batches": "batches"},
    "compaction": {
        "directory": "partition",
        "records": "records",
        "recordsNow": "now",
        "bytes": "bytes",
        "bytesNow": "now",
        "keys": "keys",
        "tombstones": "tombstones",
    },
    "retention": {
        "segment": "segment",
        "bytes": "bytes",
        "largestTimestamp": "newest record",
        "goes": "goes",
        "reason": "by",
    },
    OFFSETS: {
        "group": "group",
        "topic": "topic",
        "partition": "partition",
        "offset": "offset",
        "commitTimestamp": "committed",
        "metadata": "metadata",
    },
    TRANSACTION_LOG: {
        "transactionalId": "transactional id",
        "state": "state",
        "producerId": "producer",
        "producerEpoch": "epoch",
        "partitions": "partitions",
        "transactionLastUpdateTimestamp": "last update",
    },
}
"""What eyes see of each kind of rows, and the titles."""


def answer_json(answer: Answer) -> str:
    """A line a row."""
    head = {"type": "whatIf", "question": answer.question}
    return "".join(_json(head | row) for row in answer.rows)


def state_json(decoder: str, rows: Iterable[Mapping[str, Value]]) -> str:
    """A line a group and partition, or a transactional id."""
    return "".join(_json({"type": STATE_TYPES[decoder], **row}) for row in rows)


def answer_text(answer: Answer, *, width: int, color: bool) -> str:
    """The words, and the numbers as a table."""
    lines = []
    for words in answer.words:
        indent = "  " if words.startswith("  ") else ""
        lines += textwrap.wrap(
            escaped(words.strip()),
            width,
            initial_indent=indent,
            subsequent_indent="  ",
            break_long_words=False,
            break_on_hyphens=False,
        )
    table = _table(answer.question, answer.rows, width=width, color=color) + "\n" if answer.rows else ""
    return "".join(f"{line}\n" for line in lines) + table


def state_text(decoder: str, rows: Sequence[Mapping[str, Value]], *, width: int, color: bool) -> str:
    """A table."""
    return _table(decoder, rows, width=width, color=color) if rows else ""


def _json(row: Mapping[str, Any]) -> str:
    return json_line(list(row), list(row.values()))


def _table(kind: str, rows: Sequence[Mapping[str, Any]], *, width: int, color: bool) -> str:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    columns = _COLUMNS[kind]
    grid = Table(pad_edge=False)
    for name, title in columns.items():
        is_number = any(isinstance(row[name], int | float) for row in rows) and name not in _TIMES | {"goes"}
        is_whole = is_number or name in _TIMES or name in _NOT_BROKEN
        grid.add_column(title, justify="right" if is_number else "left", no_wrap=is_whole, overflow="fold")
    for row in rows:
        style = "bold red" if row.get("goes") else "bold" if row.get("isDefault") else ""
        grid.add_row(*(Text(_cell(name, row[name])) for name in columns), style=style)
    text = io.StringIO()
    Console(file=text, width=width, force_terminal=color, no_color=not color).print(grid)
    return text.getvalue()


def _cell(name: str, value: Any) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case int() if name in _TIMES:
            return _time(value)
        case int() if name not in ("level", "magic", "partition", "producerId", "producerEpoch"):
            return f"{value:,}"
        case float():
            return f"{value:,.2f}" if name == "ratio" else f"{value:,.0f}"
        case list():
            return escaped(", ".join(map(str, value)))
    return escaped(str(value))


def _time(milliseconds: int) -> str:
    if milliseconds < 0:
        return ""
    try:
        return f"{datetime.fromtimestamp(milliseconds / 1000, UTC):%Y-%m-%d %H:%M:%S}"
    except (OverflowError, ValueError, OSError):
        return str(milliseconds)
