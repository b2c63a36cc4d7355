"""The bytes of a log of Kafka 0.7, and of its saved requests, as lines of an explanation.

Source: docs/spec/old-kafka.md#12-entry, docs/spec/old-kafka.md#3-wire-frames-of-07.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Final

from kdump.codes import Codes, DamageError, KdumpError
from kdump.explain.checksums import judge
from kdump.explain.lines import Labeller, Layout, Line, Space, Statement, Tone, fixed_fields
from kdump.explain.payload import Container, payload_lines
from kdump.explain.selection import How, select
from kdump.explain.values import count as counted
from kdump.explain.values import quoted, span
from kdump.kafka07.frame import ERRORS_07, MESSAGES, Frame, FrameField, read_all, read_frames
from kdump.kafka07.lognames import base_of
from kdump.kafka07.message import HEAD_SIZES, LENGTH, MAGIC_POSITION, MIN_LENGTH, parse_message
from kdump.kafka07.resync import ResyncWalk07
from kdump.log import files
from kdump.log.gaps import Gap
from kdump.log.source import Source
from kdump.wire.checksum import crc32
from kdump.wire.compression import GZIP, NONE, SNAPPY
from kdump.wire.syndrome import CRC32_POLYNOMIAL

_LARGEST_SHOWN: Final = 1 << 25
"""Bytes after damage that are read: a sparse file may seem to hold terabytes."""
_CODECS: Final = ("none", "gzip", "snappy", "unknown")
_WRONG_CRC: Final = (
    "The dump tool of 0.7 prints isvalid: false and goes on. The start of a broker that was not stopped cleanly cuts "
    "the last log of a partition where this message begins; consumers stop here."
)
_GAP: Final = (
    "The start of a broker that was not stopped cleanly cuts the last log of a partition where these bytes begin. "
    "Consumers stop here."
)
_WRAPPER: Final = "Consumers stop here. The dump tool and the recovery of 0.7 do not look inside."
_NO_MAGIC: Final = (
    "The dump tool of 0.7 ends with an exception, and a broker that has to recover the log does not start."
)


def log_lines(source: Source, position: int, size: int, limit: int) -> Iterator[Line]:
    """See WorldExplanation."""
    base_offset = base_of(source.path)
    number = 0
    for item in ResyncWalk07(source, base_offset).items():
        if isinstance(item, Gap):
            if position < item.end:
                yield from _gap(source, item, position)
                return
        elif position < item.position + item.end:
            index = bisect_right(item.starts, position - item.position) - 1
            start, end = next(item.entries(index))
            where = item.position + start
            data = memoryview(bytes(item.data[start:end]))
            title = f"entry {number + index}: message of magic {data[MAGIC_POSITION]}, offset {base_offset + where}"
            yield Statement(Tone.TITLE, f"{title}, {span(where, where + len(data))} ({counted(len(data), 'byte')})")
            yield from _message(data, where, limit, target=position)
            return
        else:
            number += len(item.starts)


def place_of(paths: Sequence[str], offset: int) -> tuple[str, int]:
    """See WorldExplanation: offsets are positions."""
    for path in paths:
        position = offset - base_of(path)
        if 0 <= position < files.size(path):
            return path, position
    raise KdumpError(Codes.MISSING, f"no log has offset {offset}", path=paths[-1])


def frame_lines(kind: str, source: Source, position: int, limit: int) -> Iterator[Line]:
    """See WorldExplanation."""
    data = read_all(source)
    end = 0
    try:
        for number, frame in enumerate(read_frames(kind, data)):
            end = frame.end
            if position < end:
                what = "request" if frame.is_request else "response"
                where = f"{span(frame.start, end)} ({counted(end - frame.start, 'byte')})"
                yield Statement(Tone.TITLE, f"frame {number}: {kind} {what}, {where}")
                yield from _frame(frame, data, position, limit)
                return
    except DamageError as error:
        rest = memoryview(data)[end:]
        labeller = Labeller(rest, end, target=position)
        yield Statement(Tone.TITLE, f"No {kind} request or response covers byte {position}.")
        yield from _numbers(labeller, (("length", 4), ("requestId", 2)))
        yield Statement(Tone.DAMAGE, f"From byte {end} on: {error.message}.")
        yield Statement(Tone.KAFKA, "A broker closes the connection without an answer.")


def _frame(frame: Frame, data: bytes, target: int, limit: int) -> Iterator[Line]:
    whole = memoryview(data)[frame.start : frame.end]
    labeller = Labeller(whole, frame.start, target=target)
    end = frame.start
    for field in frame.layout:
        end = field.end
        if field.name == MESSAGES:
            yield from _set(whole[field.start - frame.start : field.end - frame.start], field.start, target, limit)
        elif field.start < field.end:
            text = quoted(whole[field.start - frame.start : field.end - frame.start])
            text = text if isinstance(field.value, str) else str(field.value)
            yield labeller.field(field.start - frame.start, field.end - frame.start, field.name, text, _note(field))
    if end < frame.end:
        rest = counted(frame.end - end, "byte")
        yield labeller.field(end - frame.start, len(whole), "rest", rest, "left over, ignored by a broker")


def _note(field: FrameField) -> str:
    if field.name == "errorCode" and isinstance(field.value, int):
        return ERRORS_07.get(field.value, "unknown")
    if field.name == "time":
        return {-1: "the end of the log", -2: "its first offset"}.get(int(field.value or 0), "")
    return ""


def _set(data: memoryview, position: int, target: int, limit: int) -> Iterator[Line]:
    """The messages of a set: those around the target, or the first ones."""
    yield Statement(
        Tone.GROUP,
        f"messages: {span(position, position + len(data)) if data else 'none'} ({counted(len(data), 'byte')})",
    )
    yield from _messages(data, position, limit, target, Space.FILE)


def _messages(data: memoryview, position: int, limit: int, target: int | None, space: Space) -> Iterator[Line]:
    starts, end = _starts(data)
    bounds = [*starts, end]
    wanted = None
    if target is not None and position <= target < position + end:
        wanted = bisect_right(starts, target - position) - 1
    labels = Labeller(data, position, target=target, space=space)
    for first, last, how in select(len(starts), wanted, is_stuck=False):
        start, stop = bounds[first], bounds[last + 1]
        if how is How.FULL:
            where = f"{span(position + start, position + stop)} ({counted(stop - start, 'byte')})"
            yield Statement(Tone.GROUP, f"message {first}: {where}")
            yield from _message(data[start:stop], position + start, limit, target=target, space=space)
        else:
            name = f"message {first}" if first == last else f"messages {first} to {last}"
            yield labels.field(start, stop, name, counted(stop - start, "byte"), is_summary=True)
    if end < len(data):
        is_partial = len(data) - end < LENGTH.size or LENGTH.unpack_from(data, end)[0] >= MIN_LENGTH
        note = "a part of a message, which consumers drop" if is_partial else "not understood"
        yield labels.field(end, len(data), "rest", counted(len(data) - end, "byte"), note, is_damaged=not is_partial)


def _starts(data: memoryview) -> tuple[list[int], int]:
    """Where the whole messages of a set begin, and where the last one ends."""
    starts, position = [], 0
    while len(data) - position >= LENGTH.size:
        length = LENGTH.unpack_from(data, position)[0]
        if length < MIN_LENGTH or position + LENGTH.size + length > len(data):
            break
        starts.append(position)
        position += LENGTH.size + length
    return starts, position


def _message(
    data: memoryview, position: int, limit: int, *, target: int | None, space: Space = Space.FILE
) -> Iterator[Line]:
    """A whole message, each of its bytes in one labelled line."""
    try:
        message = parse_message(data, position)
    except DamageError as error:
        labeller = Labeller(data, position, target=target, space=space)
        yield from _numbers(labeller, (("length", 4), ("magic", 1)))
        yield Statement(Tone.DAMAGE, f"The message cannot be read: {error.message}.")
        yield Statement(Tone.KAFKA, _NO_MAGIC)
        return
    head = HEAD_SIZES[message.magic]
    crc = judge(data, head, head - 4, computed=crc32(message.payload), polynomial=CRC32_POLYNOMIAL)
    labeller = Labeller(data, position, covered=range(head, len(data)), target=target, suspect=crc.suspect, space=space)
    yield labeller.field(0, 4, "length", str(message.length), f"up to byte {labeller.at(len(data)) - 1}")
    yield labeller.field(4, 5, "magic", str(message.magic))
    if message.magic:
        note = "wrapper: its payload holds messages" if message.codec else ""
        yield labeller.field(5, 6, "attributes", f"{message.attributes:#04x}", note)
        unused = message.attributes & ~3
        masks = {"compression": (3, _CODECS[message.codec]), "unused": (0xFC, "set, ignored" if unused else "")}
        yield from labeller.bits(5, 1, masks)
    yield labeller.field(head - 4, head, "crc", str(crc.stored), "CRC-32 of the payload")
    yield from crc.lines(position, _WRONG_CRC)
    if message.codec in (GZIP, SNAPPY):
        container = Container(head, len(data), message.codec, 0, is_cut=False, says=_WRAPPER)

        def inner(payload: memoryview, _: Labeller) -> Iterator[Line]:
            return _messages(payload, 0, limit - len(payload), None, Space.PAYLOAD)

        yield from payload_lines(labeller, container, limit, inner)
    elif head < len(data):
        yield labeller.field(head, len(data), "payload", quoted(message.payload))
    if message.codec not in (NONE, GZIP, SNAPPY):
        yield Statement(Tone.DAMAGE, f"Codec id {message.codec} is none of this format.")
        yield Statement(Tone.KAFKA, "The dump tool of 0.7 ends with an UnknownCodecException, consumers too.")


def _gap(source: Source, gap: Gap, target: int) -> Iterator[Line]:
    end = min(gap.end, gap.position + _LARGEST_SHOWN)
    data = memoryview(source.read(gap.position, end - gap.position))
    where = f"{span(gap.position, gap.end)} ({counted(gap.end - gap.position, 'byte')})"
    yield Statement(Tone.TITLE, f"No entry covers byte {target}: {where} are damaged.")
    yield from _numbers(Labeller(data, gap.position, target=target), (("length", 4), ("magic", 1)))
    message = gap.finding.message.rstrip(".")
    yield Statement(Tone.DAMAGE, f"{message[0].upper()}{message[1:]}.")
    yield Statement(Tone.KAFKA, _GAP)


def _numbers(labeller: Labeller, layout: Layout) -> Iterator[Line]:
    """The first fields of bytes that cannot be read, as far as they are there, and the rest."""
    data, start = labeller.data, 0
    for field in fixed_fields(data, layout):
        if not field.cut:
            start = field.end
            yield labeller.field(field.start, start, field.name, field.value)
    if start < len(data):
        yield labeller.field(
            start, len(data), "rest", counted(len(data) - start, "byte"), "not understood", is_damaged=True
        )
