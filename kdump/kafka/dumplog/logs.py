"""``.log`` and ``.checkpoint`` files as DumpLogSegments prints them.

Source: shared/spec/dump-output.md sections 4, 5 and 9.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from kdump.codes import Codes, DamageError
from kdump.format import legacy
from kdump.format.batch import CRC_START, HEADER_SIZE, LENGTH_OFFSET, MAGIC_OFFSET, parse_header
from kdump.kafka.dumplog import lines
from kdump.kafka.dumplog.offsets import OffsetContinuity
from kdump.kafka.dumplog.options import MAX_BYTES, DecodePath, DumpOptions
from kdump.log.source import Source
from kdump.log.walk import Chunk, Stop, Walk
from kdump.wire.checksum import crc32c

if TYPE_CHECKING:
    from kdump.kafka.dumplog.columnar import ColumnarText

Emit = Callable[[bytes | memoryview], None]
"""Takes whole lines."""

_BATCHES_CHUNK = 1 << 20
_RECORDS_CHUNK = 4 << 20
_COLUMNAR_BATCHES = 60_000
_COLUMNAR_RECORDS = 15_000
"""Lines from which on the columnar path is faster, its import (0.1 s) included."""
_STREAM_CHUNKS = 16

_Records = Iterable[lines.RecordLine]


class LogDump:
    """One log file on its way to text.

    Args:
        source: the file.
        name: its last path component, for the report of trailing bytes.
        options: what to show.
        emit: takes whole lines.
        heading: the ``Log starting offset`` line is to come from the first entry.

    After ``run``: ``damaged`` (an invalid CRC or trailing bytes were shown), ``continuity`` (the record offsets seen,
    when records are shown), ``bytes_read`` and ``is_columnar`` (which decoder printed it).
    """

    def __init__(self, source: Source, name: str, options: DumpOptions, emit: Emit, *, heading: bool = False) -> None:
        self._source = source
        self._name = name
        self._options = options
        self._records = options.records
        self._emit = emit
        self._heading = heading
        self.damaged = False
        self.bytes_read = 0
        self.is_columnar = False
        self.continuity = OffsetContinuity()

    def run(self) -> None:
        """Emit all lines.

        Raises:
            DamageError: where the Java tool aborts, after everything before that place was emitted.
            KdumpError: the file cannot be read.
        """
        limit = None if self._options.max_bytes == MAX_BYTES else self._options.max_bytes
        walk = Walk(self._source, limit=limit, chunk_size=_RECORDS_CHUNK if self._records else _BATCHES_CHUNK)
        columnar: ColumnarText | None = None
        is_first = True
        for chunk in walk.chunks():
            if is_first:
                is_first = False
                self._emit_heading(int.from_bytes(chunk.data[:LENGTH_OFFSET], "big", signed=True))
                columnar = self._columnar(chunk)
                self.is_columnar = columnar is not None
            self.bytes_read = chunk.position + chunk.end
            if columnar is None:
                self._emit_scalar(chunk, 0, len(chunk.starts))
            else:
                self._emit_columnar(chunk, columnar)
        self._emit_heading(0)
        if walk.stop is Stop.LENGTH_TOO_SMALL:
            raise DamageError(
                Codes.LENGTH_TOO_SMALL,
                f"record size {walk.bad_length} is smaller than the smallest possible record (14)",
                position=walk.position,
            )
        trailing = walk.end - walk.position
        if trailing and limit is None:
            self.damaged = True
            self._emit(f"Found {trailing} invalid bytes at the end of {self._name}\n".encode())

    def _emit_heading(self, offset: int) -> None:
        if self._heading:
            self._heading = False
            self._emit(f"Log starting offset: {offset}\n".encode())

    def _columnar(self, chunk: Chunk) -> ColumnarText | None:
        """The columnar path where the file, by its first chunk, has lines enough to pay for importing numpy."""
        path = self._options.path
        if path is DecodePath.SCALAR or not self._options.prints_text:
            return None
        lines_here = _declared_records(chunk) if self._records else len(chunk.starts)
        covered = chunk.end - chunk.starts[0]
        size = self._source.size
        # Of a stream nothing more is known than that a full chunk has more behind it.
        expected = lines_here * max(1, _STREAM_CHUNKS if size is None else size // covered)
        if path is DecodePath.AUTO and expected < (_COLUMNAR_RECORDS if self._records else _COLUMNAR_BATCHES):
            return None
        from kdump.kafka.dumplog.columnar import ColumnarText

        return ColumnarText(self._options)

    def _emit_columnar(self, chunk: Chunk, columnar: ColumnarText) -> None:
        for run in columnar.runs(chunk):
            if run.text is None:
                self._emit_scalar(chunk, run.first, run.last)
                continue
            self._emit(run.text)
            self.damaged |= run.damaged
            if run.offsets is not None:
                self.continuity.see_column(run.offsets)

    def _emit_scalar(self, chunk: Chunk, first: int, last: int) -> None:
        """Print entries ``first`` to ``last`` (exclusive) one by one."""
        text: list[str] = []
        data = chunk.data
        start = 0
        try:
            for start, end in chunk.entries(first, last):
                if 2 <= data[start + MAGIC_OFFSET] <= 127:
                    records = self._batch(data, start, end, chunk.position + start, text)
                else:
                    records = self._legacy_entry(data[start:end], chunk.position + start, text)
                for offset, line, is_valid in records:
                    self.continuity.see(offset)
                    text.append(line)
                    if not is_valid:
                        self.damaged = True
        except DamageError as error:
            error.located(position=chunk.position + start)
            raise
        finally:
            self._emit("".join(text).encode())

    def _batch(self, data: memoryview, start: int, end: int, position: int, text: list[str]) -> _Records:
        """Append the batch line of ``data[start:end]`` to ``text``; its record lines, when records are shown."""
        if len(data) - start < HEADER_SIZE:
            raise DamageError(Codes.HEADER_CUT, "the file ends inside the batch header")
        # A batch shorter than its header is shown with the bytes behind it.
        header = parse_header(data, start)
        is_valid = end - start >= HEADER_SIZE and crc32c(data[start + CRC_START : end]) == header.crc
        text.append(lines.batch_line(header, position, is_valid))
        if not is_valid:
            self.damaged = True
        return lines.record_lines(header, data[start:end], self._options) if self._records else ()

    def _legacy_entry(self, entry: memoryview, position: int, text: list[str]) -> _Records:
        """The same for a message of magic 0 or 1."""
        message = legacy.parse_message(entry)
        is_valid = message.is_valid
        text.append(lines.legacy_batch_line(message, position, is_valid))
        if not is_valid:
            self.damaged = True
        return lines.legacy_record_lines(message, self._options) if self._records else ()


def _declared_records(chunk: Chunk) -> int:
    """Records in the chunk by the counts in its v2 headers; a legacy entry counts as one."""
    total = 0
    for start in chunk.starts:
        if chunk.data[start + MAGIC_OFFSET] == 2 and len(chunk.data) - start >= HEADER_SIZE:
            total += max(0, parse_header(chunk.data, start).record_count)
        else:
            total += 1
    return total
