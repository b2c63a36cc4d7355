"""The answer to a what-if question."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from kdump.rows.scalarlines import json_line
from kdump.stats.rowtable import row_table, titled
from kdump.system.blocks import escaped

Cell: TypeAlias = "str | int | float | bool | None"


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one question.

    ``rows``: the numbers; all rows of an answer have the same keys, those of the JSON lines. ``words``: the answer in
    sentences, each without a line end.
    """

    question: str
    rows: list[dict[str, Cell]] = field(default_factory=list)
    words: list[str] = field(default_factory=list)


def than_now(size: float, now: float) -> str:
    """A size compared with the present one: ``12.3 % less than now``."""
    change = 100 * (size - now) / now if now else 0.0
    if abs(change) < 0.05:
        return "as much as now"
    return f"{abs(change):,.1f} % {'more' if change > 0 else 'less'} than now"


_COLUMNS: Final = {
    "codec": titled("codec, level, bytes, ratio, compressMBps=write MB/s, decompressMBps=read MB/s"),
    "magic": titled("magic, bytes, records"),
    "compaction": titled("directory=partition, records, recordsNow=now, bytes, bytesNow=now, keys, tombstones"),
    "retention": titled("segment, goes, reason=by, bytes, largestTimestamp=newest record"),
}
"""Columns and titles of each kind of rows in a table; from the end, columns that do not fit are left out."""


def answer_json(answer: Answer) -> str:
    """One line per row."""
    head = {"type": "whatIf", "question": answer.question}
    return "".join(_json(head | row) for row in answer.rows)


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
    columns = _COLUMNS[answer.question]
    table = row_table(columns, answer.rows, width=width, color=color) + "\n" if answer.rows else ""
    return "".join(f"{line}\n" for line in lines) + table


def _json(row: Mapping[str, Any]) -> str:
    return json_line(row)
