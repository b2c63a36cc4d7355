"""Saved requests and responses as the input of a dump: what each part says, and the messages in it.

Source: docs/spec/old-kafka.md#3-wire-frames-of-07.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from kdump.codes import DamageError
from kdump.dump.text.options import TextOptions
from kdump.kafka07 import rows
from kdump.kafka07.frame import Frame, RecordSet, read_all, read_frames
from kdump.kafka07.rows import FRAME
from kdump.kafka07.text import TextPrinter07
from kdump.kafka07.view import LogView07
from kdump.kafka07.walk import Walk07
from kdump.log.content import Content, ContentSource
from kdump.log.context import FileContext, as_text
from kdump.log.opening import open_source
from kdump.reading.printing import Emit, Printer, TextBytes
from kdump.reading.reporter import Reporter
from kdump.reading.selection import RowBudget
from kdump.reading.view import ViewOptions
from kdump.rows.printers import Lines, RowPrinter
from kdump.rows.schema import Table


@dataclass(frozen=True, slots=True)
class FrameOptions:
    """What is read, and how it is shown.

    Attributes:
        kind: a name of ``frame.KINDS``.
        view: what of the messages is shown.
        text: the compatible text; None: rows of ``table`` as ``lines`` writes them.
    """

    kind: str
    view: ViewOptions
    text: TextOptions | None
    table: Table
    lines: Callable[[FileContext], Lines]


class _FrameRow(NamedTuple):
    """What ``FRAME`` takes."""

    frame: str
    is_request: bool
    part: RecordSet
    error: str | None
    size: int | None
    partial_size: int | None
    fields: dict[str, Any]


class FrameRun:
    """A run over several files; ``damaged`` says that damage was met.

    A request tells the topic, partition and offset for the response that is dumped after it.
    """

    def __init__(self, options: FrameOptions, emit: Emit, reporter: Reporter, budget: RowBudget) -> None:
        self.damaged = False
        self._options = options
        self._emit = emit
        self._reporter = reporter
        self._budget = budget
        self._asked: tuple[RecordSet, ...] = ()
        self._has_title = False

    def dump(self, path: str) -> None:
        """Dump one file.

        Raises:
            KdumpError: it cannot be read; DamageError after what was read before the damage.
        """
        with open_source(path) as source:
            data = read_all(source)
        for frame in read_frames(self._options.kind, data):
            self._frame(path, frame)

    def _frame(self, path: str, frame: Frame) -> None:
        if frame.is_request:
            self._asked = frame.sets
        asked = self._asked if not frame.is_request and len(self._asked) == len(frame.sets) else frame.sets
        for part, request in zip(frame.sets, asked, strict=True):
            self._part(
                path,
                frame,
                part._replace(topic=request.topic, partition=request.partition, offset=request.offset),
            )
        if not frame.sets:
            self._head(path, frame, RecordSet(), None)

    def _part(self, path: str, frame: Frame, part: RecordSet) -> None:
        if part.data is None:
            self._head(path, frame, part, None)
            return
        with ContentSource(path, Content.of_bytes(part.data)) as source:
            walk = Walk07(source)
            for _ in walk.chunks():
                pass
            self._head(path, frame, part, walk.end - walk.position)
            context = FileContext(FileContext.of(path).file, _as_text(part.topic), part.partition)
            view = self._view(source, part, context)
            try:
                view.run()
            except DamageError as error:
                self.damaged = True
                self._reporter.show_error(error.located(path))
            self.damaged |= view.damaged

    def _view(self, source: ContentSource, part: RecordSet, context: FileContext) -> LogView07[str, TextBytes]:
        options, budget = self._options, self._budget
        printer: Printer[str, TextBytes]
        if options.text is None:
            printer = RowPrinter(options.lines(context), rows.table(options.table), None)
        else:
            printer = TextPrinter07(options.text)
        view = options.view if options.text is None else replace(options.view, with_records=False)
        return LogView07(part.offset or 0, source, printer, self._emit, view, budget=budget)

    def _head(self, path: str, frame: Frame, part: RecordSet, partial_size: int | None) -> None:
        size = None if part.data is None else len(part.data)
        fields = {**frame.fields, **part.fields}
        row = _FrameRow(self._options.kind, frame.is_request, part, part.error, size, partial_size, fields)
        if self._options.text is not None:
            self._emit(_line(row).encode("utf-8", "surrogateescape"))
            return
        context = FileContext(FileContext.of(path).file, _as_text(part.topic), part.partition)
        lines = self._options.lines(context)
        title = "" if self._has_title else lines.title(FRAME)
        self._has_title = True
        text = lines.line(FRAME, FRAME.row(row))
        assert isinstance(text, str)
        self._emit((title + text + lines.finish()).encode("utf-8", "surrogateescape"))


def _as_text(topic: str | None) -> str | None:
    return None if topic is None else as_text(topic)


def _line(row: _FrameRow) -> str:
    """What a part says, in one line for people."""
    part = row.part
    words = [f"{row.frame} {'request' if row.is_request else 'response'}"]
    for name, value in (("topic", part.topic), ("partition", part.partition)):
        if value is not None:
            words.append(f"{name}: {value}")
    if part.offset is not None:
        words.append(f"offset: {part.offset}")
    if part.error_code is not None:
        words.append(f"error: {part.error_code}" + (f" ({row.error})" if row.error else ""))
    if row.size is not None:
        words.append(f"size: {row.size}")
    if row.partial_size:
        words.append(f"partial: {row.partial_size}")
    words += [f"{name}: {value if isinstance(value, str) else json.dumps(value)}" for name, value in row.fields.items()]
    return " ".join(words) + "\n"
