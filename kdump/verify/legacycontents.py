"""Findings in one entry of magic 0 or 1: a message, or a wrapper and the messages in it.

Source: docs/spec/formats.md#21-compressed-wrappers.
"""

from __future__ import annotations

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
    """What the check of an entry found: findings, and the offsets and number of its records where they are known.

    ``size``: bytes of the messages in a wrapper, decompressed.
    """

    findings: list[Finding]
    first_offset: int | None
    record_count: int = 1
    last_offset: int | None = None
    size: int = 0


def check_entry(data: memoryview, position: int, limit: int) -> LegacyContents:
    """Check the whole entry ``data`` at ``position``, whose framing and CRC are right.

    ``limit``: most bytes to which it may decompress. Each kind of damage is reported once per entry.
    """
    magic = data[16]
    if len(data) < _SMALLEST[magic]:
        return LegacyContents([], None)  # the check of the header reports it
    entry = legacy.parse_message(data)
    found: dict[Codes, str] = {}
    first_offset = last_offset = None
    record_count, inner_size = 1, 0
    try:
        _check_size(entry)
        if entry.codec == compression.NONE:
            first_offset = last_offset = entry.offset
        elif entry.codec <= _LAST_CODEC:
            content = legacy.wrapped_content(entry, limit)
            walker = _WrappedMessages(entry)
            for record in legacy.wrapped_records(entry, content):
                walker.see(record)
            inner_size = len(content)
            walker.finish(inner_size)
            first_offset, last_offset, record_count = walker.first_offset, walker.last_offset, walker.count
            for code, message in walker.found.items():
                found.setdefault(code, message)
    except DamageError as error:
        found.setdefault(error.code, error.message)
    size = entry.size
    findings = [Finding(code, message, position, size) for code, message in found.items()]
    return LegacyContents(findings, first_offset, record_count, last_offset, inner_size)


class _WrappedMessages:
    """The messages in a wrapper in stored order; ``found`` has the first message of each code."""

    def __init__(self, entry: Message) -> None:
        self._entry = entry
        self.last_offset: int | None = None
        self._latest = legacy.NO_TIMESTAMP
        self._used = 0
        self.first_offset: int | None = None
        self.count = 0
        self.found: dict[Codes, str] = {}
        if entry.key_size() >= 0:
            self._note(Codes.WRAPPER_KEY, f"the wrapper has a key of {entry.key_size()} bytes")

    def see(self, record: LegacyRecord) -> None:
        """Check the next message."""
        entry, message, number = self._entry, record.message, self.count
        self.count += 1
        self._used += message.size
        if not message.is_valid:
            self._note(Codes.INNER_CRC, f"message {number}")
        if message.magic != entry.magic:
            what = f"message {number} in the wrapper of magic {entry.magic} has magic {message.magic}"
            self._note(Codes.INNER_MAGIC, what)
        if message.attributes & LOG_APPEND_TIME and not legacy.may_have_timestamp_type(message, entry):
            claim = f"message {number} in the wrapper has the timestamp type LogAppendTime"
            own = f"the timestamp {entry.timestamp}" if entry.is_log_append_time else "not"
            what = f"{claim} with the timestamp {message.timestamp}, the wrapper has {own}"
            self._note(Codes.INNER_TIMESTAMP_TYPE, what)
        if message.codec != compression.NONE:
            self._note(Codes.LEGACY_WRAPPER, f"message {number} in the wrapper is compressed itself")
        else:
            try:
                _check_size(message)
            except DamageError as error:
                self._note(error.code, f"message {number} in the wrapper: {error.message}")
        if self.last_offset is None:
            self.first_offset = record.offset
        elif record.offset <= self.last_offset:
            what = f"message {number} in the wrapper has offset {record.offset} after {self.last_offset}"
            self._note(Codes.INNER_OFFSET, what)
        self.last_offset = record.offset
        self._latest = max(self._latest, message.timestamp)

    def finish(self, size: int) -> None:
        """Check what only all messages show. They and the bytes left over after them take ``size`` bytes."""
        entry = self._entry
        if Codes.INNER_CRC in self.found:
            self.found[Codes.INNER_CRC] += f" of {self.count} in the wrapper has a wrong CRC"
        if self.last_offset != entry.offset and not (entry.magic == 1 and entry.offset == 0):
            what = f"the wrapper has offset {entry.offset}, its last message {self.last_offset}"
            self._note(Codes.INNER_OFFSET, what)
        if entry.magic == 1 and not entry.is_log_append_time and self._latest != entry.timestamp:
            what = f"the wrapper has timestamp {entry.timestamp}, its newest message {self._latest}"
            self._note(Codes.MAX_TIMESTAMP, what)
        left = size - self._used
        if left:
            what = f"{left} bytes are left over after the {self.count} messages in the wrapper"
            self._note(Codes.LEGACY_WRAPPER, what)

    def _note(self, code: Codes, what: str) -> None:
        self.found.setdefault(code, what)


def _check_size(message: Message) -> None:
    """Raise DamageError unless key and value fill the message."""
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
