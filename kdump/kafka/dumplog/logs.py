"""``.log`` and ``.checkpoint`` files as DumpLogSegments prints them.

Source: shared/spec/dump-output.md sections 4, 5 and 9.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kdump.codes import Codes, DamageError
from kdump.format import legacy
from kdump.format.batch import CRC_START, HEADER_SIZE, LENGTH_OFFSET, MAGIC_OFFSET, parse_header
from kdump.kafka.dumplog import lines
from kdump.kafka.dumplog.offsets import OffsetContinuity
from kdump.kafka.dumplog.options import MAX_BYTES, DumpOptions
from kdump.log.source import Source
from kdump.log.walk import Chunk, Stop, Walk
from kdump.wire.checksum import crc32c

Emit = Callable[[bytes], None]
"""Takes whole lines."""

_Records = Iterable[tuple[int, str]]


class LogDump:
    """One log file on its way to text.

    Args:
        source: the file.
        name: its last path component, for the report of trailing bytes.
        options: what to show.
        emit: takes whole lines.
        heading: the ``Log starting offset`` line is to come from the first entry.

    After ``run``: ``damaged`` (an invalid CRC or trailing bytes were shown) and ``continuity`` (the record offsets
    seen, when records are shown).
    """

    def __init__(self, source: Source, name: str, options: DumpOptions, emit: Emit, *, heading: bool = False) -> None:
        self._source = source
        self._name = name
        self._options = options
        self._records = options.records
        self._emit = emit
        self._heading = heading
        self.damaged = False
        self.continuity = OffsetContinuity()

    def run(self) -> None:
        """Emit all lines.

        Raises:
            DamageError: where the Java tool aborts, after everything before that place was emitted.
            KdumpError: the file cannot be read.
        """
        limit = None if self._options.max_bytes == MAX_BYTES else self._options.max_bytes
        walk = Walk(self._source, limit=limit)
        for chunk in walk.chunks():
            self._emit_heading(int.from_bytes(chunk.data[:LENGTH_OFFSET], "big", signed=True))
            self._emit_scalar(chunk)
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

    def _emit_scalar(self, chunk: Chunk) -> None:
        text: list[str] = []
        data = chunk.data
        start = 0
        try:
            for start, end in zip(chunk.starts, chunk.ends, strict=True):
                if 2 <= data[start + MAGIC_OFFSET] <= 127:
                    records = self._batch(data, start, end, chunk.position + start, text)
                else:
                    records = self._legacy_entry(data[start:end], chunk.position + start, text)
                for offset, line in records:
                    self.continuity.see(offset)
                    text.append(line)
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
