"""``.log`` and ``.checkpoint`` files as DumpLogSegments prints them.

Source: docs/spec/dump-output.md#4-logs-and-checkpoints, docs/spec/dump-output.md#5-records,
docs/spec/dump-output.md#9-damaged-logs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kdump.codes import Finding
from kdump.dump.redacted import RedactingPrinter
from kdump.dump.text.offsets import OffsetContinuity
from kdump.dump.text.options import MAX_BYTES, DumpOptions
from kdump.dump.text.printer import TextPrinter
from kdump.format.batch import LENGTH_OFFSET
from kdump.log.source import Source
from kdump.log.walk import Chunk
from kdump.reading.printing import Emit, Printer, TextBytes, TextRow
from kdump.reading.reporter import Reporter
from kdump.reading.selection import RowBudget
from kdump.reading.view import LogView, ViewOptions

if TYPE_CHECKING:
    from kdump.dump.text.decoders import TextDecoding


class LogDump:
    """One log file on its way to text.

    Args:
        source: the file.
        name: its last path component, for the report of trailing bytes.
        options: what to show.
        emit: takes whole lines.
        heading: the ``Log starting offset`` line is to come from the first entry.
        budget: how many lines of the view are shown.
        reporter: takes how the log is read, where that is not as asked, and how far.
        on_finding: with ``--resync``, takes what was skipped.
        decoding: of keys and values.

    After ``run``: ``damaged`` (an invalid CRC or trailing bytes were shown), ``continuity`` (the record offsets seen,
    when records are shown), ``bytes_read`` and ``is_columnar`` (which decoder printed it).
    """

    def __init__(
        self,
        source: Source,
        name: str,
        options: DumpOptions,
        emit: Emit,
        *,
        heading: bool = False,
        budget: RowBudget | None = None,
        reporter: Reporter | None = None,
        on_finding: Callable[[Finding], None] | None = None,
        decoding: TextDecoding | None = None,
    ) -> None:
        self._name = name
        self._emit = emit
        self._heading = heading
        self.continuity = OffsetContinuity()
        printer: Printer[TextRow, TextBytes] = TextPrinter(options, decoding)
        if options.secret is not None:
            printer = RedactingPrinter(printer, options.secret)
        # Of a part of the log, its end too, it cannot be said that offsets do not follow one another.
        sees_all = options.selection.is_everything and not (budget is not None and budget.is_skipping)
        self._view = LogView(
            source,
            printer,
            emit,
            ViewOptions(
                with_records=options.records,
                selection=options.selection,
                max_bytes=None if options.max_bytes == MAX_BYTES else options.max_bytes,
                max_decompressed_size=options.max_decompressed_size,
                path=options.path,
                resync=options.resync,
                seek=options.seek,
            ),
            budget=budget,
            observer=self.continuity if options.records and sees_all else None,
            on_first=self._emit_heading,
            reporter=reporter,
            on_finding=on_finding,
        )

    @property
    def damaged(self) -> bool:
        """An invalid CRC or trailing bytes were shown."""
        return self._view.damaged or self._view.trailing > 0

    @property
    def trailing(self) -> int:
        """Bytes behind the last whole entry."""
        return self._view.trailing

    @property
    def end(self) -> int:
        """Where the last whole entry ends."""
        return self._view.end

    @property
    def bytes_read(self) -> int:
        """Bytes of the entries that were looked at."""
        return self._view.bytes_read

    @property
    def is_columnar(self) -> bool:
        """The columnar decoder was used."""
        return self._view.is_columnar

    def run(self) -> None:
        """Emit all lines.

        Raises:
            DamageError: where the Java tool aborts, after everything before that place was emitted.
            KdumpError: the file cannot be read.
        """
        self._view.run()
        self._emit_heading(None)
        if self._view.trailing:
            self._emit(f"Found {self._view.trailing} invalid bytes at the end of {self._name}\n".encode())

    def _emit_heading(self, chunk: Chunk | None) -> None:
        if self._heading:
            self._heading = False
            offset = 0 if chunk is None else int.from_bytes(chunk.data[:LENGTH_OFFSET], "big", signed=True)
            self._emit(f"Log starting offset: {offset}\n".encode())
