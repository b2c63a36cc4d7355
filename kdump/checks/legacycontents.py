"""Findings in one entry of magic 0 or 1: a message, or a wrapper and the messages in it.

Source: shared/spec/formats.md section 2.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kdump.codes import Codes, DamageError, Finding
from kdump.format import legacy
from kdump.format.batch import LOG_APPEND_TIME
from kdump.format.legacy import LegacyRecord, Message
from kdump.wire import compression

_SMALLEST = (26, 34)
"""Bytes of a message without key and value, by magic."""
_LAST_CODEC = compression.LZ4


class LegacyContents(NamedTuple):
    """What came of an entry: its findings, and the offset of its first record and their number where that is known."""

    findings: list[Finding]
    first_offset: int | None
    record_count: int = 1


def check_entry(data: memoryview, position: int, limit: int) -> LegacyContents:
    """Look into the whole entry ``data`` at ``position``, whose framing and CRC are right.

    ``limit``: most bytes that it may decompress to. A kind of damage is reported once an entry.
    """
    magic = data[16]
    if len(data) < _SMALLEST[magic]:
        return LegacyContents([], None)  # the header check says so
    entry = legacy.parse_message(data)
    found: dict[Codes, str] = {}
    first_offset = None
    record_count = 1
    try:
        _check_size(entry)
        if entry.codec == compression.NONE:
            first_offset = entry.offset
        elif entry.codec <= _LAST_CODEC:
            records = legacy.read_records(entry, limit)
            first_offset, record_count = records[0].offset, len(records)
            for code, message in _wrapped(entry, records, limit):
                found.setdefault(code, message)
    except DamageError as error:
        found.setdefault(error.code, error.message)
    size = entry.size
    findings = [Finding(code, message, position, size) for code, message in found.items()]
    return LegacyContents(findings, first_offset, record_count)


def _wrapped(entry: Message, records: list[LegacyRecord], limit: int) -> Iterator[tuple[Codes, str]]:
    """(code, message) of what is wrong with a wrapper and the messages in it."""
    if entry.key_size() >= 0:
        yield Codes.WRAPPER_KEY, f"the wrapper has a key of {entry.key_size()} bytes"
    previous: int | None = None
    latest = legacy.NO_TIMESTAMP
    used = 0
    for number, record in enumerate(records):
        message = record.message
        used += message.size
        if not message.is_valid:
            yield Codes.INNER_CRC, f"message {number} of {len(records)} in the wrapper has a wrong CRC"
        if message.magic != entry.magic:
            yield Codes.INNER_MAGIC, f"message {number} in the wrapper of magic {entry.magic} has magic {message.magic}"
        if message.attributes & LOG_APPEND_TIME and not legacy.may_have_timestamp_type(message, entry):
            claim = f"message {number} in the wrapper has the timestamp type LogAppendTime"
            own = f"the timestamp {entry.timestamp}" if entry.is_log_append_time else "not"
            yield Codes.INNER_TIMESTAMP_TYPE, f"{claim} with the timestamp {message.timestamp}, the wrapper has {own}"
        if message.codec != compression.NONE:
            yield Codes.LEGACY_WRAPPER, f"message {number} in the wrapper is compressed itself"
        else:
            try:
                _check_size(message)
            except DamageError as error:
                yield error.code, f"message {number} in the wrapper: {error.message}"
        if previous is not None and record.offset <= previous:
            yield Codes.INNER_OFFSET, f"message {number} in the wrapper has offset {record.offset} behind {previous}"
        previous = record.offset
        latest = max(latest, message.timestamp)
    if previous != entry.offset and not (entry.magic == 1 and entry.offset == 0):
        yield Codes.INNER_OFFSET, f"the wrapper has offset {entry.offset}, its last message {previous}"
    if entry.magic == 1 and not entry.is_log_append_time and latest != entry.timestamp:
        yield Codes.MAX_TIMESTAMP, f"the wrapper has timestamp {entry.timestamp}, its newest message {latest}"
    value = entry.value() or b""
    left = len(compression.decompress(entry.codec, value, magic=entry.magic, limit=limit)) - used
    if left:
        yield Codes.LEGACY_WRAPPER, f"{left} bytes are left over behind the {len(records)} messages in the wrapper"


def _check_size(message: Message) -> None:
    """DamageError unless key and value fill the message."""
    if message.magic not in (0, 1) or message.size < _SMALLEST[message.magic]:
        raise DamageError(Codes.LEGACY_MESSAGE, f"{message.size} bytes are too few for magic {message.magic}")
    key_size, value_size = message.key_size(), message.value_size()
    if min(key_size, value_size) < -1:
        what = "key" if key_size < -1 else "value"
        raise DamageError(Codes.LEGACY_MESSAGE, f"the {what} size is {min(key_size, value_size)}")
    used = message.key_position + 8 + max(0, key_size) + max(0, value_size)
    if used != message.size:
        left = f"key and value end at byte {used} of a message of {message.size} bytes"
        raise DamageError(Codes.LEGACY_MESSAGE, left)
