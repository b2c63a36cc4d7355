"""The entries of a log as a broker steps over them, without their checksums.

Source: docs/spec/startup.md#rule-9-the-next-offset-of-a-segment, docs/spec/startup.md#rule-20-from-a-snapshot
(FileLogInputStream, FileRecords.searchForOffsetWithSize).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kdump.codes import Codes, DamageError
from kdump.format import legacy
from kdump.format.batch import (
    CODEC_NAMES,
    HEADER_SIZE,
    MAGIC_OFFSET,
    BatchHeader,
    is_read_as_batch,
    parse_header,
)
from kdump.kafka.startup.outcome import (
    CORRUPT_RECORD,
    ILLEGAL_ARGUMENT,
    INDEX_OUT_OF_BOUNDS,
    INVALID_RECORD,
    KAFKA,
    StartFailureError,
)
from kdump.log.source import Source
from kdump.log.walk import Chunk, Stop, Walk
from kdump.wire.compression import NONE


class StoredBatch(NamedTuple):
    """One entry at a file position; ``data`` continues after its ``size`` bytes, and is valid until the next entry."""

    position: int
    size: int
    data: memoryview

    @property
    def is_v2(self) -> bool:
        """Kafka reads it as a v2 batch."""
        return is_read_as_batch(self.data[MAGIC_OFFSET])

    @property
    def header(self) -> BatchHeader:
        """The header of a v2 batch, even a shorter one. Raises StartFailureError if the file ends within it."""
        if len(self.data) < HEADER_SIZE:
            raise StartFailureError(KAFKA, f"the log ends inside the batch header at position {self.position}")
        return parse_header(self.data)

    @property
    def base_offset(self) -> int:
        """The base offset; of a compressed wrapper the first inner one. StartFailureError if it does not open."""
        if self.is_v2:
            return int.from_bytes(self.data[:8], "big", signed=True)
        return _wrapper_base(legacy.parse_message(self.data[: self.size]), self.position)

    @property
    def last_offset(self) -> int:
        """The last offset. Raises StartFailureError if the file ends within the header."""
        return self.header.last_offset if self.is_v2 else int.from_bytes(self.data[:8], "big", signed=True)

    def detached(self) -> StoredBatch:
        """A copy with the header only, which stays valid when the next chunk is read."""
        return self._replace(data=memoryview(bytes(self.data[:HEADER_SIZE])))


def _wrapper_base(message: legacy.Message, position: int) -> int:
    """The first offset inside a message, which may be a wrapper."""
    if message.codec == NONE:
        return message.offset
    try:
        if message.codec >= len(CODEC_NAMES):
            raise DamageError(Codes.CODEC, f"unknown compression codec {message.codec}")
        first = next(legacy.read_records(message))
        legacy.check_inner(first, message)
        return first.offset
    except DamageError as error:
        raise StartFailureError(_java_class(error), f"the wrapper at position {position}: {error.message}") from None


def _java_class(error: DamageError) -> str:
    """What Kafka throws for a wrapper that does not open."""
    match error:
        case DamageError(code=Codes.CODEC):
            return ILLEGAL_ARGUMENT
        case legacy.ContentSizeError(size=size):
            return INDEX_OUT_OF_BOUNDS if size is None else ILLEGAL_ARGUMENT
        case DamageError(code=Codes.PAYLOAD):
            return KAFKA
        case legacy.InnerLengthError():
            return CORRUPT_RECORD
    return INVALID_RECORD


def chunks(source: Source, start: int, end: int | None = None) -> Iterator[Chunk]:
    """The whole entries from a position up to ``end``, or to the end of the file.

    Raises:
        StartFailureError: a length field below the least, after the last chunk.
        KdumpError: the log cannot be read.
    """
    size = source.size or 0
    if start >= size:
        return
    walk = Walk(source, start=start, limit=None if end is None or end >= size else end)
    yield from walk.chunks()
    if walk.stop is Stop.LENGTH_TOO_SMALL:
        raise StartFailureError(
            CORRUPT_RECORD,
            f"{os.path.basename(source.path)}: the length field at position {walk.position} is {walk.bad_length}",
        )


def batches_of(chunk: Chunk, numbers: Iterable[int] | None = None) -> Iterator[StoredBatch]:
    """The entries of a chunk, or those with these numbers."""
    for start, end in chunk.entries() if numbers is None else (chunk.entry(number) for number in numbers):
        yield StoredBatch(chunk.position + start, end - start, chunk.data[start:])


def batches(source: Source, start: int, end: int | None = None) -> Iterator[StoredBatch]:
    """The entries one by one; see ``chunks``."""
    for chunk in chunks(source, start, end):
        yield from batches_of(chunk)
