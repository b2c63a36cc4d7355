"""``.log`` and ``.checkpoint`` files as DumpLogSegments prints them.

Source: shared/spec/dump-output.md sections 4, 5 and 9.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

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
        try:
            for start, end in zip(chunk.starts, chunk.ends, strict=True):
                try:
                    text.extend(self._entry_lines(chunk.data, start, end, chunk.position + start))
                except DamageError as error:
                    raise error.located(position=chunk.position + start) from error.__cause__
        finally:
            self._emit("".join(text).encode())

    def _entry_lines(self, data: memoryview, start: int, end: int, position: int) -> Iterator[str]:
        """The batch line and the record lines of the entry at ``data[start:end]``."""
        entry = data[start:end]
        if 2 <= data[start + MAGIC_OFFSET] <= 127:
            if len(data) - start < HEADER_SIZE:
                raise DamageError(Codes.HEADER_CUT, "the file ends inside the batch header")
            # A batch shorter than its header is shown with the bytes behind it.
            header = parse_header(data, start)
            is_valid = end - start >= HEADER_SIZE and crc32c(entry[CRC_START:]) == header.crc
            yield lines.batch_line(header, position, is_valid)
            records = lines.record_lines(header, entry, self._options)
        else:
            message = legacy.parse_message(entry)
            is_valid = message.is_valid
            yield lines.legacy_batch_line(message, position, is_valid)
            records = lines.legacy_record_lines(message, self._options)
        self.damaged |= not is_valid
        if self._options.records:
            for offset, line in records:
                self.continuity.see(offset)
                yield line
