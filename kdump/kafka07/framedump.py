"""Saved requests and responses as the input of a dump: what each part says, and the messages in it.

Source: docs/spec/old-kafka.md#3-wire-frames-of-07.
"""

from __future__ import annotations

import json
from dataclasses import replace

from kdump.codes import DamageError
from kdump.dump.text.options import TextOptions
from kdump.kafka07 import rows
from kdump.kafka07.frame import Frame, RecordSet, read_all, read_frames
from kdump.kafka07.resync import Walk07
from kdump.kafka07.rows import FRAME
from kdump.kafka07.text import TextPrinter07
from kdump.kafka07.view import LogView07
from kdump.log.content import Content, ContentSource
from kdump.log.context import FileContext, as_text
from kdump.log.opening import open_source
from kdump.reading.printing import Emit, Printer, TextBytes
from kdump.reading.reporter import Reporter
from kdump.reading.selection import RowBudget
from kdump.reading.view import ViewOptions
from kdump.rows.columns import Row, Table
from kdump.rows.printers import LinesOf, RowPrinter


class FrameRun:
    """A run over several files; ``damaged`` says that damage was met.

    A request tells the topic, partition and offset for the response that is dumped after it.

    Args:
        kind: a name of ``frame.KINDS``.
        emit: takes whole lines.
        reporter: tells of damage in the messages.
        budget: how many rows are shown.
        view: what of the messages is shown.
        text: the compatible text; None: rows of ``table`` as ``lines`` writes them.
        table: of the messages.
        lines: makes the writer of a part's rows.
    """

    def __init__(
        self,
        kind: str,
        emit: Emit,
        reporter: Reporter,
        budget: RowBudget,
        *,
        view: ViewOptions,
        text: TextOptions | None,
        table: Table,
        lines: LinesOf,
    ) -> None:
        self.damaged = False
        self._kind = kind
        self._emit = emit
        self._reporter = reporter
        self._budget = budget
        self._view_options = view
        self._text = text
        self._table = table
        self._lines = lines
        self._asked: tuple[RecordSet, ...] = ()
        self._has_title = False

    def dump(self, path: str) -> None:
        """Dump one file.

        Raises:
            KdumpError: it cannot be read; DamageError after what was read before the damage.
        """
        with open_source(path) as source:
            data = read_all(source)
        for frame in read_frames(self._kind, data):
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
        printer: Printer[str, TextBytes]
        view = self._view_options
        if self._text is None:
            printer = RowPrinter(self._lines(context), rows.table(self._table), None)
        else:
            printer, view = TextPrinter07(self._text), replace(view, with_records=False)
        return LogView07(part.offset or 0, source, printer, self._emit, view, budget=self._budget)

    def _head(self, path: str, frame: Frame, part: RecordSet, partial_size: int | None) -> None:
        row = {
            "frame": self._kind,
            "isRequest": frame.is_request,
            "offset": part.offset,
            "errorCode": part.error_code,
            "error": part.error,
            "size": None if part.data is None else len(part.data),
            "partialSize": partial_size,
            "fields": {**frame.fields, **part.fields},
        }
        if self._text is not None:
            self._emit(_line(row, part).encode("utf-8", "surrogateescape"))
            return
        lines = self._lines(FileContext(FileContext.of(path).file, _as_text(part.topic), part.partition))
        title = "" if self._has_title else lines.title(FRAME)
        self._has_title = True
        text = lines.line(FRAME, row)
        assert isinstance(text, str)
        self._emit((title + text + lines.finish()).encode("utf-8", "surrogateescape"))


def _as_text(topic: str | None) -> str | None:
    return None if topic is None else as_text(topic)


def _line(row: Row, part: RecordSet) -> str:
    """What a part says, in one line for people."""
    words = [f"{row['frame']} {'request' if row['isRequest'] else 'response'}"]
    for name, value in (("topic", part.topic), ("partition", part.partition), ("offset", part.offset)):
        if value is not None:
            words.append(f"{name}: {value}")
    if part.error_code is not None:
        words.append(f"error: {part.error_code}" + (f" ({part.error})" if part.error else ""))
    if row["size"] is not None:
        words.append(f"size: {row['size']}")
    if row["partialSize"]:
        words.append(f"partial: {row['partialSize']}")
    fields = row["fields"].items()
    words += [f"{name}: {value if isinstance(value, str) else json.dumps(value)}" for name, value in fields]
    return " ".join(words) + "\n"
