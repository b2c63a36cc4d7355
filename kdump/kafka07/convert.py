"""A log of Kafka 0.7 as a log of magic 0 or 1, whose offsets are numbers.

Source: docs/spec/old-kafka.md#13-offsets, docs/spec/old-kafka.md#14-compressed-sets.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Final

from kdump.codes import Codes, DamageError, Finding
from kdump.convert.conversion import refuse_too_large
from kdump.convert.offsetmap import OffsetMap
from kdump.convert.segment import WorldEntries
from kdump.format import legacy
from kdump.format.record import Record, in_pieces
from kdump.kafka07.lognames import base_of
from kdump.kafka07.message import Message07, parse_message, read_records
from kdump.kafka07.resync import ResyncWalk07
from kdump.log.gaps import Gap
from kdump.log.opening import open_source
from kdump.log.source import Source
from kdump.wire import compression

LONGER: Final = 34
"""Bytes of a message of magic 1 without its value. Each message of 0.7 grows by less."""


def encoded(path: str, first: int, *, magic: int, limit: int, offsets: OffsetMap) -> WorldEntries:
    """See WorldConversion."""
    return _Log07(open_source(path), base_of(path), first, magic=magic, limit=limit, offsets=offsets)


class _Log07(WorldEntries):
    """A stream of legacy entries made of a log of Kafka 0.7.

    A wrapper becomes one with its codec, or several where it has more messages than ``in_pieces`` gives at a time, or
    than fit ``limit``: messages of 0.7 are shorter, so one wrapper with all of them might be larger. One message may
    be up to ``LONGER`` bytes over it. Messages get the numbers from ``first`` on as offsets. ``findings`` has the
    damage that was met and left out. The chunks raise OFFSET_TOO_LARGE where the numbers end.

    Args:
        log: the log.
        base_offset: the byte position of its first byte in the partition.
        first: the number of its first message.
        magic: of the entries, 0 or 1.
        limit: most bytes to which one entry may decompress.
        offsets: takes the byte position of each entry, and the number of the first message in it; at the end those that
            come next.
    """

    def __init__(
        self,
        log: Source,
        base_offset: int,
        first: int,
        *,
        magic: int,
        limit: int,
        offsets: OffsetMap,
    ) -> None:
        super().__init__(log, self._encoded())
        self._base_offset = base_offset
        self._number = first
        self._magic = magic
        self._limit = limit
        self._offsets = offsets
        self.findings = []

    def _encoded(self) -> Iterator[bytes]:
        end = self._base_offset
        for item in ResyncWalk07(self._of, self._base_offset).items():
            if isinstance(item, Gap):
                end = self._base_offset + item.end
                self.findings.append(replace(item.finding, last_offset=end - 1, continue_at=None))
                continue
            pieces = []
            for start, stop in item.entries():
                position = item.position + start
                message = parse_message(item.data[start:stop], self._base_offset + position)
                end = message.next_offset
                try:
                    pieces.append(self._entry(message))
                except DamageError as error:
                    self.findings.append(Finding(error.code, error.message, position, message.size))
            yield b"".join(pieces)
        self._offsets.note(end, self._number)

    def _entry(self, message: Message07) -> bytes:
        """The entry in the other format; nothing for a wrapper without messages. DamageError where it is damaged."""
        made = bytearray()
        number = self._number
        for records in self._pieces_within_limit(message):
            refuse_too_large(number, len(records))
            # Inside a wrapper of magic 1 offsets begin with 0.
            first = 0 if self._magic and message.codec else number
            messages = b"".join(self._message(offset, 0, record.value) for offset, record in enumerate(records, first))
            number += len(records)
            if message.codec:
                value = compression.compress(message.codec, messages, magic=self._magic)
                messages = self._message(number - 1, message.codec, value)
            made += messages
        self._offsets.note(message.offset, self._number)
        self._number = number
        return bytes(made)

    def _pieces_within_limit(self, message: Message07) -> Iterator[list[Record]]:
        for records in in_pieces(_records(message, self._limit)):
            piece: list[Record] = []
            size = 0
            for record in records:
                made = LONGER + len(record.value or b"")
                if piece and size + made > self._limit:
                    yield piece
                    piece, size = [], 0
                piece.append(record)
                size += made
            yield piece

    def _message(self, offset: int, attributes: int, value: bytes | None) -> bytes:
        no_time = legacy.NO_TIMESTAMP
        return legacy.write_message(
            self._magic, offset=offset, attributes=attributes, timestamp=no_time, key=None, value=value
        )


def _records(message: Message07, limit: int) -> Iterator[Record]:
    """The messages in an entry. DamageError where any of it is damaged."""
    if not message.is_valid:
        raise DamageError(Codes.BATCH_CRC, "the CRC of the message is wrong")
    for record in read_records(message, limit):
        if not record.message.is_valid:
            raise DamageError(Codes.INNER_CRC, "a message inside has a wrong CRC")
        yield record.plain()


def count_messages(path: str, limit: int) -> int:
    """See WorldConversion."""
    count = 0
    with open_source(path) as log:
        for item in ResyncWalk07(log, 0).items():
            if not isinstance(item, Gap):
                for start, stop in item.entries():
                    with suppress(DamageError):
                        count += sum(1 for _ in _records(parse_message(item.data[start:stop], 0), limit))
    return count
