"""Messages of magic 0 and 1 and their compressed wrappers as lines.

Source: docs/spec/formats.md#2-messages-v0-and-v1.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from kdump.codes import DamageError
from kdump.explain import kafka_says
from kdump.explain.batch import codec_note
from kdump.explain.checksums import judge
from kdump.explain.lines import Labelled, Labeller, Line, Space, Statement, StuckError, Tone
from kdump.explain.payload import Container, payload_lines
from kdump.explain.recordfields import RecordStarts
from kdump.explain.selection import How, select
from kdump.explain.values import count as counted
from kdump.explain.values import date, quoted, sized, span
from kdump.format.batch import (
    CODEC_MASK,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC_OFFSET,
    MIN_ENTRY_LENGTH,
    TIMESTAMP_TYPES,
)
from kdump.format.legacy import Message, check_inner, message_crc, parse_message, read_records
from kdump.wire.compression import NONE, ZSTD
from kdump.wire.syndrome import CRC32_POLYNOMIAL

_MOST_LISTED: Final = 10
_UNUSED_ATTRIBUTES: Final = 0xF0
_CRC: Final = 12
"""Position of the CRC in a message."""


def message_lines(data: memoryview, position: int, target: int | None, limit: int) -> Iterator[Line]:
    """The entry at ``data[0]``, each of its bytes in exactly one labelled line.

    Args:
        data: the entry, or as much of it as the file has.
        position: its file position.
        target: the requested file position.
        limit: most bytes to which a wrapper may decompress.
    """
    yield from _message(data, position, limit, Wrapped(), target=target)


@dataclass(frozen=True, slots=True)
class Wrapped:
    """What the wrapper says about a message in it; None and '' for a message without a wrapper."""

    offset: int | None = None
    timestamp: int | None = None


def _message(
    data: memoryview,
    position: int,
    limit: int,
    wrapped: Wrapped,
    *,
    target: int | None = None,
    space: Space = Space.FILE,
) -> Iterator[Line]:
    is_cut = LOG_OVERHEAD + _number(data, 8, 4) > len(data)
    computed = message_crc(data)
    crc = None if is_cut else judge(data, MAGIC_OFFSET, _CRC, computed=computed, polynomial=CRC32_POLYNOMIAL)
    labeller = Labeller(
        data,
        position,
        covered=range(MAGIC_OFFSET, len(data)),
        target=target,
        suspect=None if crc is None else crc.suspect,
        space=space,
    )
    codec = data[17] & CODEC_MASK if len(data) > 17 else NONE
    is_wrapper = codec != NONE and wrapped.offset is None
    has_value = False
    try:
        for field in _fields(labeller, wrapped):
            if field.name == "value" and is_wrapper:
                has_value = True
                yield from _wrapper(labeller, field, codec, limit, is_cut=is_cut)
            elif field.name == "crc" and crc is not None:
                yield field
                is_inner = space is Space.PAYLOAD
                yield from crc.lines(position, kafka_says.WRONG_INNER_CRC if is_inner else kafka_says.WRONG_CRC)
            else:
                yield field
            if field.name == "attributes":
                yield from labeller.bits(17, 1, _attribute_bits(data[16], data[17]))
    except StuckError as stuck:
        if stuck.start < len(data):
            rest = counted(len(data) - stuck.start, "byte")
            yield labeller.field(stuck.start, len(data), "rest", rest, "not understood", is_damaged=True)
        if is_cut:
            yield Statement(Tone.TEXT, "The file ends inside this message; the CRC cannot be checked.")
        else:
            where = f"At byte {labeller.at(stuck.start)}"
            yield Statement(Tone.DAMAGE, f"{where} the message cannot be read on: {stuck.reason}.")
            yield Statement(Tone.KAFKA, stuck.kafka)
        return
    if is_wrapper and not has_value and not is_cut:
        yield Statement(Tone.DAMAGE, "A wrapper without a value: there is nothing to decompress.")
        yield Statement(Tone.KAFKA, kafka_says.WRAPPER)


def _fields(labeller: Labeller, wrapped: Wrapped) -> Iterator[Labelled]:
    """The fields in order; StuckError at the one that does not fit."""
    data, magic = labeller.data, labeller.data[MAGIC_OFFSET]
    last = labeller.at(LOG_OVERHEAD + _number(data, 8, 4)) - 1
    offset_note = "" if wrapped.offset is None else f"offset {wrapped.offset}, relative to the wrapper"
    if wrapped.offset == _number(data, 0, 8):
        offset_note = ""
    codec_note = "wrapper: its value holds messages" if data[17:18] and data[17] & CODEC_MASK else ""
    layout = [
        ("offset", 8, offset_note),
        ("messageSize", 4, f"size {LOG_OVERHEAD + _number(data, 8, 4)}, up to byte {last}"),
        ("crc", 4, f"CRC-32 of {labeller.at(MAGIC_OFFSET)} to {last}"),
        ("magic", 1, ""),
        ("attributes", 1, codec_note),
    ]
    if magic == 1:
        timestamp = _number(data, 18, 8)
        replaced = wrapped.timestamp not in (None, timestamp)
        note = f"replaced by the wrapper's {wrapped.timestamp}" if replaced else date(timestamp)
        layout.append(("timestamp", 8, note))
    position = 0
    for name, size, note in layout:
        value = _number(data, position, size, signed=name != "crc")
        text = f"{value:#04x}" if name == "attributes" else str(value)
        yield _fixed(labeller, position, size, name, value=text, note=note)
        position += size
    for name in ("key", "value"):
        size = _number(data, position, 4)
        note = "null" if size < 0 else "empty" if size == 0 else ""
        left = len(data) - position - 4
        does_fit = size <= left
        yield _fixed(labeller, position, 4, f"{name}Size", value=str(size), note=note, is_damaged=not does_fit)
        position += 4
        if not does_fit:
            reason = f"{name}Size is {size} where {counted(left, 'byte')} {'is' if left == 1 else 'are'} left"
            raise StuckError(position, reason, kafka_says.LEGACY_FIELDS)
        if size > 0:
            yield labeller.field(position, position + size, name, quoted(data[position : position + size]))
            position += size
    if position < len(data):
        yield labeller.field(position, len(data), "rest", counted(len(data) - position, "byte"), "ignored by readers")


def _fixed(
    labeller: Labeller, position: int, size: int, name: str, *, value: str, note: str, is_damaged: bool = False
) -> Labelled:
    left = len(labeller.data) - position
    if left < size:
        raise StuckError(position, f"{name} takes {size} bytes where {left} are left", kafka_says.LEGACY_FIELDS)
    return labeller.field(position, position + size, name, value, note, is_damaged=is_damaged)


def _number(data: memoryview, start: int, size: int, *, signed: bool = True) -> int:
    return int.from_bytes(data[start : start + size], "big", signed=signed)


def _attribute_bits(magic: int, attributes: int) -> dict[str, tuple[int, str]]:
    bits = {"compression": (CODEC_MASK, codec_note(attributes & CODEC_MASK))}
    if magic == 1:
        bits["timestampType"] = (LOG_APPEND_TIME, TIMESTAMP_TYPES[bool(attributes & LOG_APPEND_TIME)])
    unused = _UNUSED_ATTRIBUTES if magic == 1 else _UNUSED_ATTRIBUTES | LOG_APPEND_TIME
    bits["unused"] = (unused, "set, ignored" if attributes & unused else "")
    return bits


def _wrapper(labeller: Labeller, value: Labelled, codec: int, limit: int, *, is_cut: bool) -> Iterator[Line]:
    """The value of a wrapper: the container, then the messages in it."""
    start = value.position - labeller.position
    magic = labeller.data[MAGIC_OFFSET]
    if codec >= ZSTD:
        yield replace(value, value=counted(len(value.data), "byte"), is_damaged=True)
        yield Statement(Tone.DAMAGE, f"Codec id {codec} ({codec_note(codec)}) is none of this format.")
        yield Statement(Tone.KAFKA, kafka_says.WRAPPER)
        return
    wrapper = parse_message(labeller.data)

    def inner(payload: memoryview, labels: Labeller) -> Iterator[Line]:
        return _inner_messages(wrapper, payload, labels, limit)

    container = Container(start, start + len(value.data), codec, magic, is_cut)
    yield from payload_lines(labeller, container, limit, inner)


def _inner_messages(wrapper: Message, payload: memoryview, labels: Labeller, limit: int) -> Iterator[Line]:
    survey = _survey_messages(payload)
    total = len(survey.starts)
    outer: list[Wrapped] = [Wrapped()] * total
    error: DamageError | None = None
    try:
        for number, record in enumerate(read_records(wrapper, limit)):
            outer[number] = Wrapped(record.offset, record.timestamp)
            try:
                check_inner(record, wrapper)
            except DamageError as damage:
                error = error or damage
    except DamageError as damage:
        error = damage
    wrong = [number for number in range(total) if not parse_message(payload[slice(*survey.bounds(number))]).is_valid]
    if wrong:
        listed = ", ".join(map(str, wrong[:_MOST_LISTED])) + (", ..." if len(wrong) > _MOST_LISTED else "")
        yield Statement(Tone.DAMAGE, f"{counted(len(wrong), 'message')} with a wrong CRC: {listed}.")
    for first, last, how in select(total, wrong[0] if wrong else None, is_stuck=False):
        start, end = survey.bounds(first)
        if how is How.FULL:
            where = span(start, end)
            yield Statement(Tone.GROUP, f"message {first}: {where} ({counted(end - start, 'byte')})")
            # With its stored offset the message is described as an inner one.
            own = Wrapped(_number(payload, start, 8))
            from_wrapper = outer[first] if outer[first].offset is not None else own
            yield from _message(payload[start:end], start, limit, from_wrapper, space=Space.PAYLOAD)
        else:
            end = survey.bounds(last)[1]
            one = first == last
            name = f"message {first}" if one else f"messages {first} to {last}"
            value = _in_a_line(payload[start:end], outer[first]) if one else counted(last - first + 1, "message")
            yield labels.field(start, end, name, value, is_summary=True)
    if survey.stuck is not None:
        rest = counted(len(payload) - survey.end, "byte")
        is_dropped = not survey.stuck.kafka
        note = "dropped" if is_dropped else "not understood"
        yield labels.field(survey.end, len(payload), "rest", rest, note, is_damaged=not is_dropped)
        yield Statement(
            Tone.TEXT if is_dropped else Tone.DAMAGE, f"At byte {survey.end} of the messages: {survey.stuck.reason}."
        )
        yield Statement(Tone.KAFKA, survey.stuck.kafka or kafka_says.CUT_INNER)
    if error is not None and not (survey.stuck and survey.stuck.kafka):
        yield Statement(Tone.DAMAGE, f"The wrapper cannot be read: {error.message}.")
        yield Statement(Tone.KAFKA, kafka_says.WRAPPER)


def _in_a_line(data: memoryview, wrapped: Wrapped) -> str:
    message = parse_message(data)
    offset = _number(data, 0, 8) if wrapped.offset is None else wrapped.offset
    try:
        key = message.key()
        size = message.value_size()
    except DamageError as error:
        return f"offset {offset}, {error.message}"
    key_text = "null" if key is None else quoted(key, 24)
    return f"offset {offset}, key {key_text}, value {sized(size)}"


def _survey_messages(payload: memoryview) -> RecordStarts:
    """Where the inner messages begin. A cut one is stuck without Kafka's reaction: readers drop it."""
    starts = array("q")
    position = 0
    while position < len(payload):
        left = len(payload) - position
        if left < LOG_OVERHEAD:
            return RecordStarts(
                starts, position, StuckError(position, f"{counted(left, 'byte')} left, no whole message")
            )
        length = _number(payload, position + 8, 4)
        if length < MIN_ENTRY_LENGTH:
            reason = f"an inner message with messageSize {length}"
            return RecordStarts(starts, position, StuckError(position, reason, kafka_says.WRAPPER))
        if length > left - LOG_OVERHEAD:
            reason = f"messageSize is {length} where {left - LOG_OVERHEAD} bytes are left"
            return RecordStarts(starts, position, StuckError(position, reason))
        starts.append(position)
        position += LOG_OVERHEAD + length
    return RecordStarts(starts, position, None)
