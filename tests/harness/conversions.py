"""Conversions for tests: runs in this process, and the entries of a log taken apart without kdump's encoders."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any, NamedTuple

from kdump.convert.conversion import Conversion
from kdump.convert.run import plan_conversion, plan_import
from kdump.convert.segment import SegmentResult, convert_segment
from kdump.format import legacy
from kdump.format import record as v2
from kdump.format.batch import parse_header
from kdump.inputs import resolve
from kdump.system.files import publish
from kdump.wire import compression
from tests.harness.batches import GZIP, LZ4, NONE, SNAPPY, entries


def convert(source: Path, target: Path, *, from_json: bool = False, **settings: Any) -> SegmentResult:
    """One segment, put in place when nothing went wrong."""
    plan = plan_import if from_json else plan_conversion
    (job,) = plan(resolve(str(source)), str(target), Conversion(**settings))
    result = convert_segment(job)
    publish(result.staged)
    return result


def converted(source: Path, target: Path, **settings: Any) -> bytes:
    """The log that a segment becomes."""
    result = convert(source, target, **settings)
    assert result.error is None, result.error
    return target.read_bytes()


class Seen(NamedTuple):
    """A record as a consumer sees it."""

    offset: int
    timestamp: int
    is_log_append_time: bool
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...]


def records(log: bytes, *, control: bool = False) -> list[Seen]:
    """The records of a log, by the scalar decoders; every CRC is checked."""
    seen = []
    for entry in entries(log):
        if entry[16] == 2:
            header = parse_header(entry)
            if header.is_control and not control:
                continue
            seen += (
                Seen(record.offset, record.timestamp, header.is_log_append_time, *record[3:])
                for record in v2.read_records(header, memoryview(entry))
            )
            continue
        message = legacy.parse_message(memoryview(entry))
        assert message.is_valid
        for record in legacy.read_records(message):
            assert record.message.is_valid
            contents = record.message.key(), record.message.value()
            seen.append(Seen(record.offset, record.timestamp, message.is_log_append_time, *contents, ()))
    return seen


def unpacked(entry: bytes) -> tuple[object, ...]:
    """A message of magic 0 or 1; of a wrapper, what does not depend on the library that compressed it."""
    offset, _, crc, magic, attributes = struct.unpack_from(">qiIbB", entry)
    assert zlib.crc32(entry[16:]) == crc
    codec = attributes & 7
    if codec in (NONE, GZIP):
        return (entry,)
    message = legacy.parse_message(memoryview(entry))
    value = message.value()
    assert value is not None
    inner = bytes(compression.decompress(codec, value, magic=magic))
    return offset, magic, attributes, message.timestamp, message.key(), value[: _FRAMING[codec]], inner


_FRAMING = {SNAPPY: 16, LZ4: 7}
"""Bytes in front of the first block's length, which every writer of the format has the same."""
