"""A position in a log: the entry that covers it, or why none does.

Source: docs/spec/dump-output.md#41-batch-scan, docs/spec/recovery.md#rule-1-framing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from kdump.codes import Codes, KdumpError
from kdump.explain import kafka_says
from kdump.explain.batch import batch_lines
from kdump.explain.lines import Labeller, Line, Statement, Tone, fixed_fields
from kdump.explain.locate import NumberedEntry, WalkEnd, entries, first_nonzero, locate
from kdump.explain.message import message_lines
from kdump.explain.trueend import true_end
from kdump.explain.values import count as counted
from kdump.explain.values import span
from kdump.format.batch import (
    HEADER_SIZE,
    HEADER_SIZE_UP_TO_MAGIC,
    LENGTH_OFFSET,
    LOG_OVERHEAD,
    MAGIC_OFFSET,
    MIN_ENTRY_LENGTH,
    batch_crc,
    is_read_as_batch,
)
from kdump.format.legacy import parse_message
from kdump.log.source import Source
from kdump.log.walk import Stop
from kdump.payloads.decoded import RecordDecoder

_LARGEST_SHOWN: Final = 1 << 25
"""Bytes of an entry or of zeros that are read where a walk broke off: a sparse file may seem to hold terabytes."""
_RAW_SHOWN: Final = 32
_CRC_FIELD: Final = slice(17, 21)
_FRAMING: Final = (("offset", 8), ("length", 4), ("crc or leader epoch", 4), ("magic", 1))
_KNOWN_MAGICS: Final = (0, 1, 2)
_MOST_HOPS: Final = 8
"""After so many wrong lengths the walk still continues."""
_MOST_TRIES: Final = 8
"""So many broken batches before the position are searched for their true end; each search may read megabytes."""


@dataclass(frozen=True, slots=True)
class _Log:
    """The log to explain: ``target`` is the requested position, ``limit`` bounds decompressed records."""

    source: Source
    size: int
    target: int
    limit: int
    decoder: RecordDecoder | None

    def read(self, start: int, end: int) -> memoryview:
        """The bytes that the log had there. Raises KdumpError CHANGED_WHILE_READ."""
        size = max(min(end, self.size) - start, 0)
        data = memoryview(self.source.read(start, size))
        if len(data) < size:
            raise KdumpError(Codes.CHANGED_WHILE_READ, "has become shorter", path=self.source.path, position=start)
        return data


def log_lines(
    source: Source, position: int, size: int, limit: int, decoder: RecordDecoder | None = None
) -> Iterator[Line]:
    """Everything about ``position`` of a log of ``size`` bytes.

    Args:
        source: the log; it can be read anywhere.
        position: 0 <= position < size.
        size: of the log.
        limit: most bytes to which one entry's records may decompress.
        decoder: of keys and values.

    Raises:
        KdumpError: UNREADABLE, CHANGED_WHILE_READ.
    """
    log = _Log(source, size, position, limit, decoder)
    start = before = 0
    for _ in range(_MOST_HOPS):
        place = locate(source, position, start)
        wrong = None if _is_sound(log, place) else _wrong_length(log, start, place)
        if wrong is None:
            break
        yield from _wrong_length_lines(log, wrong)
        if position < wrong.end:
            yield from _entry(log, wrong.position, wrong.end, f"entry {before + wrong.number}")
            return
        start = wrong.end
        before += wrong.number + 1
    number = before + place.number
    if isinstance(place, NumberedEntry):
        yield from _entry(log, place.position, place.end, f"entry {number}")
    else:
        yield from _walk_end(log, replace(place, number=number))


def _is_sound(log: _Log, place: NumberedEntry | WalkEnd) -> bool:
    """Whether the place is an entry with a right CRC. Then the lengths before it must be right."""
    if isinstance(place, WalkEnd):
        return False
    data = log.read(place.position, place.end)
    if data[MAGIC_OFFSET] in (0, 1):
        return parse_message(data).is_valid
    return _is_batch_by_crc(data)


def _wrong_length(log: _Log, start: int, place: NumberedEntry | WalkEnd) -> NumberedEntry | None:
    """The first batch from ``start`` on, up to the place, with a wrong length; it ends where its CRC shows."""
    tries = 0
    for entry, data in entries(log.source, start):
        if entry.position >= place.position or tries == _MOST_TRIES:
            break
        if not is_read_as_batch(data[MAGIC_OFFSET]) or _is_batch_by_crc(data):
            continue
        tries += 1
        end = true_end(log.source, entry.position, log.size)
        if end is not None and end != entry.end:
            return replace(entry, end=end)
    end = true_end(log.source, place.position, log.size)
    if end is None or (isinstance(place, NumberedEntry) and end == place.end):
        return None
    return NumberedEntry(place.number, place.position, end)


def _wrong_length_lines(log: _Log, entry: NumberedEntry) -> Iterator[Line]:
    start, end = entry.position, entry.end
    number = int.from_bytes(log.read(start + LENGTH_OFFSET, start + LOG_OVERHEAD), "big", signed=True)
    where = span(start + LENGTH_OFFSET, start + LOG_OVERHEAD)
    yield Statement(
        Tone.DAMAGE,
        f"The batchLength in {where} is wrong: it is {number}; with {end - start - LOG_OVERHEAD} the CRC of the batch "
        f"at {start} is right. So the batch is assumed to end with byte {end - 1}.",
    )
    yield Statement(Tone.KAFKA, _what_kafka_does_about(number, log.size - start))


def _what_kafka_does_about(length: int, left: int) -> str:
    if length < MIN_ENTRY_LENGTH:
        return kafka_says.LENGTH_TOO_SMALL
    if length > left - LOG_OVERHEAD:
        return kafka_says.TRAILING.format(size=left)
    return kafka_says.SHORT_BATCH if LOG_OVERHEAD + length < HEADER_SIZE else kafka_says.WRONG_LENGTH


def _entry(log: _Log, start: int, end: int, name: str, *, is_cut: bool = False) -> Iterator[Line]:
    """The entry in the bytes from ``start`` to ``end``, of any magic."""
    data = log.read(start, end)
    magic = int.from_bytes(data[MAGIC_OFFSET : MAGIC_OFFSET + 1], "big", signed=True)
    is_disguised = magic < 2 and _is_batch_by_crc(data)
    what = f"magic {magic}" if magic in _KNOWN_MAGICS else f"unknown magic {magic}"
    kind = "batch" if magic >= 2 else "message"
    title = f"{name}: {kind} of {what}, {span(start, end)} ({counted(end - start, 'byte')})"
    yield Statement(Tone.TITLE, title)
    if is_disguised:
        yield Statement(
            Tone.DAMAGE,
            f"The magic in byte {start + MAGIC_OFFSET} is {magic}, but the CRC-32C of a batch of magic 2 is right: "
            "it is explained as one.",
        )
        if magic >= 0:
            yield Statement(Tone.KAFKA, kafka_says.LOW_MAGIC)
    elif magic > 2 and not is_cut:
        yield Statement(Tone.DAMAGE, f"The magic in byte {start + MAGIC_OFFSET} is {magic}; it is read as 2.")
        yield Statement(Tone.KAFKA, kafka_says.HIGH_MAGIC.format(magic=magic))
    if is_disguised or magic == 2 or (magic > 2 and not is_cut):
        yield from batch_lines(data, start, log.target, log.limit, is_cut=is_cut, decoder=log.decoder)
    elif magic in _KNOWN_MAGICS:
        yield from message_lines(data, start, log.target, log.limit)
    else:
        yield from _unknown(data, start, log.target, magic)
    if magic < 0:
        yield Statement(Tone.KAFKA, kafka_says.NEGATIVE_MAGIC.format(magic=magic))


def _is_batch_by_crc(data: memoryview) -> bool:
    return len(data) >= HEADER_SIZE and int.from_bytes(data[_CRC_FIELD], "big") == batch_crc(data)


def _unknown(data: memoryview, start: int, target: int, magic: int) -> Iterator[Line]:
    labeller = Labeller(data, start, target=target)
    yield from _framing(labeller, is_unknown=True)
    if len(data) > HEADER_SIZE_UP_TO_MAGIC:
        size = counted(len(data) - HEADER_SIZE_UP_TO_MAGIC, "byte")
        yield labeller.field(HEADER_SIZE_UP_TO_MAGIC, len(data), "rest", size, "not understood", is_damaged=True)
    at = labeller.at(MAGIC_OFFSET)
    yield Statement(Tone.DAMAGE, f"Byte {at} cannot be read as an entry: no format has the magic {magic}.")


def _framing(labeller: Labeller, *, is_unknown: bool = False) -> Iterator[Line]:
    """The fields that all formats share, as far as they are there."""
    for field in fixed_fields(labeller.data, _FRAMING):
        is_wrong = is_unknown if field.name == "magic" else field.name == "length" and field.number < MIN_ENTRY_LENGTH
        is_damaged = is_wrong and not field.cut
        yield labeller.field(field.start, field.end, field.name, field.value, field.cut, is_damaged=is_damaged)


def _walk_end(log: _Log, end: WalkEnd) -> Iterator[Line]:
    """Where the entries end before the requested position, and what is at that position."""
    left = log.size - end.position
    entries = "1 whole entry" if end.number == 1 else f"{end.number:,} whole entries"
    yield Statement(
        Tone.TITLE,
        f"No entry covers byte {log.target}: after {entries} the log breaks off at byte {end.position}, "
        f"{counted(left, 'byte')} before its end.",
    )
    if first_nonzero(log.source, end.position, log.size) is None:
        yield from _zeros(log, end)
    elif left <= HEADER_SIZE_UP_TO_MAGIC:
        yield from _left_over(log, end)
    elif end.stop is Stop.LENGTH_TOO_SMALL:
        yield from _length_too_small(log, end)
        if log.target >= end.position + HEADER_SIZE_UP_TO_MAGIC:
            yield from _as_start(log)
    else:
        yield from _cut_entry(log, end)
        if log.target > end.position:
            yield from _as_start(log)


def _left_over(log: _Log, end: WalkEnd) -> Iterator[Line]:
    left = log.size - end.position
    yield from _framing(Labeller(log.read(end.position, log.size), end.position, target=log.target))
    yield Statement(
        Tone.DAMAGE,
        f"{counted(left, 'byte')} left over from byte {end.position} on: too few to begin an entry, "
        f"which takes more than {HEADER_SIZE_UP_TO_MAGIC}.",
    )
    yield Statement(Tone.KAFKA, kafka_says.TRAILING.format(size=left))


def _zeros(log: _Log, end: WalkEnd) -> Iterator[Line]:
    left = log.size - end.position
    shown = min(left, _LARGEST_SHOWN)
    labeller = Labeller(log.read(end.position, end.position + shown), end.position, target=log.target)
    note = "" if shown == left else f"the first {counted(shown, 'byte')}"
    yield labeller.field(0, shown, "zeros", counted(left, "byte"), note, is_damaged=True)
    yield Statement(
        Tone.DAMAGE,
        f"All bytes from {end.position} to the end are zero: space that was allocated and never written, "
        "or lost in a crash.",
    )
    yield Statement(
        Tone.KAFKA,
        kafka_says.LENGTH_TOO_SMALL if left > HEADER_SIZE_UP_TO_MAGIC else kafka_says.TRAILING.format(size=left),
    )


def _length_too_small(log: _Log, end: WalkEnd) -> Iterator[Line]:
    data = log.read(end.position, end.position + HEADER_SIZE_UP_TO_MAGIC)
    yield from _framing(Labeller(data, end.position, target=log.target))
    length = int.from_bytes(data[LENGTH_OFFSET:LOG_OVERHEAD], "big", signed=True)
    where = span(end.position + LENGTH_OFFSET, end.position + LOG_OVERHEAD)
    yield Statement(
        Tone.DAMAGE,
        f"The length in {where} is {length}; no entry has less than {MIN_ENTRY_LENGTH}, "
        "so it is unknown where the next one begins.",
    )
    yield Statement(Tone.KAFKA, kafka_says.LENGTH_TOO_SMALL)


def _cut_entry(log: _Log, end: WalkEnd) -> Iterator[Line]:
    """An entry whose length reaches beyond the end of the file, or over more than a sparse file stores."""
    data = log.read(end.position + LENGTH_OFFSET, end.position + LOG_OVERHEAD)
    length = int.from_bytes(data, "big", signed=True)
    missing = LOG_OVERHEAD + length - (log.size - end.position)
    last = min(log.size, log.size + missing, end.position + _LARGEST_SHOWN)
    yield from _entry(log, end.position, last, "cut entry", is_cut=True)
    where = span(end.position + LENGTH_OFFSET, end.position + LOG_OVERHEAD)
    wrong = (
        f"the entry would end {counted(missing, 'byte')} after the end of the file. Either the file was cut or the "
        "length is wrong."
        if missing > 0
        else "the file system does not store so much of the file, so the length is wrong."
    )
    yield Statement(Tone.DAMAGE, f"The length in {where} is {length}: {wrong}")
    yield Statement(Tone.KAFKA, kafka_says.TRAILING.format(size=log.size - end.position))


def _as_start(log: _Log) -> Iterator[Line]:
    """The requested position, read as the start of an entry."""
    yield Statement(Tone.TITLE, f"Byte {log.target}, read as the start of an entry:")
    head = log.read(log.target, log.target + _RAW_SHOWN)
    length = int.from_bytes(head[LENGTH_OFFSET:LOG_OVERHEAD], "big", signed=True)
    magic = int.from_bytes(head[MAGIC_OFFSET : MAGIC_OFFSET + 1], "big", signed=True)
    end = log.target + LOG_OVERHEAD + length
    no_entry = "no entry begins here: "
    if len(head) <= HEADER_SIZE_UP_TO_MAGIC:
        note = f"{no_entry}only {counted(len(head), 'byte')} to the end of the file"
    elif length < MIN_ENTRY_LENGTH:
        note = f"{no_entry}its length would be {length}"
    elif end > log.size:
        note = f"{no_entry}its length would be {length}, beyond the end of the file"
    elif magic not in _KNOWN_MAGICS:
        note = f"{no_entry}its magic would be {magic}"
    elif end - log.target > _LARGEST_SHOWN:
        note = f"by its length of {length}, an entry that begins here is too large to be shown"
    else:
        yield from _entry(log, log.target, end, "entry")
        return
    labeller = Labeller(head, log.target, target=log.target)
    yield labeller.field(0, len(head), "bytes", counted(len(head), "byte"), note)
