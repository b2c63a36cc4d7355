"""Structured dumps in process, and what a reader of JSON makes of them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from kdump.dump.output import DumpOptions
from kdump.dump.rows import RowOptions, row_output
from kdump.dump.run import DumpRun
from kdump.reading.reporter import Reporter
from kdump.reading.selection import RowBudget, Selection
from kdump.reading.view import DecodePath, ViewOptions
from kdump.rows.columns import Table
from kdump.rows.formatted import FormatLines
from kdump.rows.printers import RowLines
from kdump.rows.tables import BATCH, RECORD
from tests.harness.targets import target_by_path

Row = dict[str, Any]

BOTH_PATHS = (DecodePath.SCALAR, DecodePath.COLUMNAR)


@dataclass(frozen=True)
class RowRun:
    """What a run gave: its output, the errors it met and the notes it made."""

    output: bytes
    errors: list[str]
    notes: list[str]
    damaged: bool
    unreadable: bool

    @property
    def rows(self) -> list[Row]:
        """The output taken as JSON lines."""
        return [json.loads(line) for line in self.output.splitlines()]


def run_rows(
    paths: Iterable[Path | str],
    table: Table = RECORD,
    *,
    syntax: Literal["jsonl", "csv"] = "jsonl",
    fields: tuple[str, ...] | None = None,
    template: str | None = None,
    selection: Selection | None = None,
    take: int | None = None,
    skip: int = 0,
    path: DecodePath = DecodePath.AUTO,
    verbose: bool = False,
    view: ViewOptions | None = None,
    **options: Any,
) -> RowRun:
    """Dump these files as rows, or by a format string; ``options`` are those of DumpOptions."""
    out: list[bytes] = []
    errors: list[str] = []
    notes: list[str] = []
    view = replace(
        view or ViewOptions(), with_records=table.type == RECORD.type, selection=selection or Selection(), path=path
    )
    shown = RowOptions(lambda context: RowLines(syntax, fields, context), table, fields)
    if template is not None:
        shown = replace(shown, lines=lambda context: FormatLines(template, context))
    run = DumpRun(
        DumpOptions(row_output(shown), view, **options),
        lambda text: out.append(bytes(text)),
        Reporter(lambda error: errors.append(str(error)), notes.append, verbose=verbose),
        budget=RowBudget(skip, take),
    )
    for name in paths:
        target = target_by_path(str(name))
        assert target is not None, name
        run.dump(target)
    return RowRun(b"".join(out), errors, notes, run.damaged, run.unreadable)


def records(*paths: Path | str, **options: Any) -> list[Row]:
    """The records of these files, contents included."""
    return run_rows(paths, RECORD, **options).rows


def batches(*paths: Path | str, **options: Any) -> list[Row]:
    """The batches of these files."""
    return run_rows(paths, BATCH, **options).rows
