"""What-if answers and the state of coordinators: JSON lines, or sentences and tables for people."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Literal

from kdump.format.message import Value
from kdump.kafka.coordinatorstate import OFFSETS, TRANSACTION_LOG
from kdump.rows.scalarlines import json_line
from kdump.stats.whatif.answer import Answer
from kdump.system.blocks import escaped

STATE_TYPES: Final = {OFFSETS: "committedOffset", TRANSACTION_LOG: "transactionalId"}
"""The ``type`` of a JSON line, by the decoder of its topic."""
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
"""Columns that stay narrow; paths and names wrap if they do not fit."""
_NAME_WIDTH: Final = 14
_FRAME: Final = 3
"""Characters of a column's border and padding."""
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
        "goes": "goes",
        "reason": "by",
        "bytes": "bytes",
        "largestTimestamp": "newest record",
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
        "transactionLastUpdateTimestamp": "last update",
        "partitions": "partitions",
    },
}
"""Columns and titles of each kind of rows in a table; from the end, columns that do not fit are left out."""


def answer_json(answer: Answer) -> str:
    """One line per row."""
    head = {"type": "whatIf", "question": answer.question}
    return "".join(_json(head | row) for row in answer.rows)


def state_json(decoder: str, rows: Iterable[Mapping[str, Value]]) -> str:
    """One line per group and partition, or per transactional id."""
    return "".join(_json({"type": STATE_TYPES[decoder], **row}) for row in rows)


def answer_text(answer: Answer, *, width: int, color: bool) -> str:
    """The sentences, and the numbers as a table."""
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
    """The state as a table."""
    return _table(decoder, rows, width=width, color=color) if rows else ""


def _json(row: Mapping[str, Any]) -> str:
    return json_line(list(row), list(row.values()))


def _table(kind: str, rows: Sequence[Mapping[str, Any]], *, width: int, color: bool) -> str:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    cells = {name: [title, *(_cell(name, row[name]) for row in rows)] for name, title in _COLUMNS[kind].items()}
    longest = {name: max(map(len, column)) for name, column in cells.items()}
    numbers = {name for name in cells if any(isinstance(row[name], int | float) for row in rows)} - _TIMES - {"goes"}
    whole = {name for name in cells if name in numbers | _TIMES | _NOT_BROKEN}
    least = {name: longest[name] if name in whole else min(longest[name], _NAME_WIDTH) for name in cells}
    shown = _that_fit(least, width)
    grid = Table(pad_edge=False)
    for name in shown:
        justify: Literal["left", "right"] = "right" if name in numbers else "left"
        grid.add_column(cells[name][0], justify=justify, no_wrap=name in whole, overflow="fold", min_width=least[name])
    for number, row in enumerate(rows, 1):
        style = "bold red" if row.get("goes") else "bold" if row.get("isDefault") else ""
        grid.add_row(*(Text(cells[name][number]) for name in shown), style=style)
    text = io.StringIO()
    Console(file=text, width=width, force_terminal=color, no_color=not color).print(grid)
    return text.getvalue()


def _that_fit(least: Mapping[str, int], width: int) -> list[str]:
    """The first column, and those after it that fit."""
    shown: list[str] = []
    room = width - 1
    for name, size in least.items():
        room -= size + _FRAME
        if room < 0 and shown:
            break
        shown.append(name)
    return shown


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
