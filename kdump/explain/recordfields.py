"""The fields of v2 records by position.

Source: docs/spec/formats.md#31-record. The rules are those of ``kdump.format.record``, which returns values without
positions. A test checks that both accept the same records.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from kdump.codes import DamageError
from kdump.explain import kafka_says
from kdump.explain.lines import StuckError
from kdump.wire.varint import read_varint, read_varlong

SHOWN_HEADERS: Final = 20
"""Headers of a record with fields of their own, beside those of interest."""


class RecordField(NamedTuple):
    """``data[start:end]`` is field ``name``; ``number`` is its value, None for bytes.

    ``headers``: of how many whole headers it is, 0 for a field.
    """

    name: str
    start: int
    end: int
    number: int | None
    headers: int = 0


def record_fields(data: memoryview, start: int, limit: int, interest: Sequence[int] = ()) -> Iterator[RecordField]:
    """The fields of the record at ``start``; its bytes end at ``limit`` at the latest.

    After SHOWN_HEADERS headers one field stands for all headers up to the next one with an index of ``interest``, or up
    to one that cannot be read.

    Raises:
        StuckError: after the fields before the one that cannot be read.
    """
    size, position = _number(data, "length", start, limit)
    yield RecordField("length", start, position, size)
    end = position + size
    if size < 0 or end > limit:
        raise StuckError(
            position,
            f"the length is {size} where {limit - position} bytes are left",
            kafka_says.RECORD_LENGTH.format(size=size),
            blamed="length",
        )
    first = position
    if size == 0:
        raise StuckError(
            position, "the length is 0: no room for any field", kafka_says.RECORD_STRUCTURE, blamed="length"
        )
    yield RecordField("attributes", position, position + 1, data[position])
    delta, following = _number(data, "timestampDelta", position + 1, end, long=True)
    yield RecordField("timestampDelta", position + 1, following, delta)
    delta, position = _number(data, "offsetDelta", following, end)
    yield RecordField("offsetDelta", following, position, delta)
    for name in ("key", "value"):
        for field in _sized(data, name, position, end):
            yield field
            position = field.end
    count, following = _number(data, "headerCount", position, end)
    yield RecordField("headerCount", position, following, count)
    position = following
    if not 0 <= count <= end - position:
        raise StuckError(
            position,
            f"headerCount is {count} where {end - position} bytes are left",
            kafka_says.HEADER_COUNT,
            blamed="headerCount",
        )
    for field in _headers(data, position, end, count, interest):
        yield field
        position = field.end
    if position != end:
        raise StuckError(
            position,
            f"the length is {size}, the fields take {position - first} bytes",
            kafka_says.RECORD_FIELDS.format(size=size, read=position - first),
            blamed="length",
        )


def _headers(data: memoryview, position: int, end: int, count: int, interest: Sequence[int]) -> Iterator[RecordField]:
    index, passed, start = 0, 0, position
    while index < count:
        stop = min((place for place in interest if place >= position), default=end)
        if index >= SHOWN_HEADERS:
            small, position = _pass_small_headers(data, position, stop, count - index)
            index, passed = index + small, passed + small
        fields, stuck = _header(data, position, end, index) if index < count else ([], None)
        following = fields[-1].end if fields else position
        if stuck is None and fields and index >= SHOWN_HEADERS and not position <= stop < following:
            passed += 1
        else:
            if passed:
                name = f"headers[{index - 1}]" if passed == 1 else f"headers {index - passed} to {index - 1}"
                yield RecordField(name, start, position, None, passed)
            yield from fields
            passed, start = 0, following
        if stuck is not None:
            raise stuck
        index, position = index + 1, following
    if passed:
        yield RecordField(f"headers {count - passed} to {count - 1}", start, position, None, passed)


def _header(data: memoryview, position: int, end: int, index: int) -> tuple[list[RecordField], StuckError | None]:
    """The fields of a header, and what is wrong after them."""
    fields: list[RecordField] = []
    try:
        for part in ("key", "value"):
            for field in _sized(data, f"headers[{index}].{part}", position, end):
                fields.append(field)
                position = field.end
    except StuckError as stuck:
        return fields, stuck
    return fields, None


def _pass_small_headers(data: memoryview, position: int, stop: int, count: int) -> tuple[int, int]:
    """How many headers, ``count`` at most, end at or before ``stop`` and have sizes of one byte, and where they end."""
    passed = 0
    while passed < count and position < stop:
        key = data[position]
        at = position + 1 + (key >> 1)
        if key & 0x81 or at >= stop:
            break
        value = data[at]
        following = at + 1 + (0 if value & 1 else value >> 1)
        if value & 0x80 or following > stop:
            break
        position = following
        passed += 1
    return passed, position


def _sized(data: memoryview, name: str, start: int, end: int) -> Iterator[RecordField]:
    size, position = _number(data, f"{name}Size", start, end)
    yield RecordField(f"{name}Size", start, position, size)
    if size < 0 and name.endswith("].key"):
        raise StuckError(
            position,
            f"{name}Size is {size}: a header needs a key",
            kafka_says.HEADER_KEY.format(size=size),
            blamed=f"{name}Size",
        )
    if size > end - position:
        raise StuckError(
            position,
            f"{name}Size is {size} where {end - position} bytes are left",
            kafka_says.RECORD_STRUCTURE,
            blamed=f"{name}Size",
        )
    if size > 0:
        yield RecordField(name, position, position + size, None)


def _number(data: memoryview, name: str, start: int, end: int, *, long: bool = False) -> tuple[int, int]:
    try:
        return (read_varlong if long else read_varint)(data, start, end)
    except DamageError as error:
        reason = f"{name}: {error.message}" if start < end else f"no byte is left for {name}"
        raise StuckError(start, reason, kafka_says.RECORD_STRUCTURE) from None


@dataclass(slots=True)
class RecordStarts:
    """Where the whole records of a range begin, where the last one ends, and what is wrong there, if anything.

    The count in the header is not used here: it is compared with what the bytes hold.
    """

    starts: array[int]
    end: int
    stuck: StuckError | None

    def bounds(self, index: int) -> tuple[int, int]:
        """(start, end) of a record."""
        return self.starts[index], self.starts[index + 1] if index + 1 < len(self.starts) else self.end

    def cut(self, count: int) -> None:
        """Drop the records from ``count`` on."""
        if count < len(self.starts):
            self.end = self.starts[count]
            del self.starts[count:]


def survey_records(data: memoryview, start: int, end: int, *, most: int | None = None) -> RecordStarts:
    """Read the records in ``data[start:end]`` up to the first that is broken; no more than ``most``."""
    starts = array("q")
    position = start
    while position < end and len(starts) != most:
        following = position
        try:
            for field in record_fields(data, position, end):
                following = field.end
        except StuckError as error:
            # The frames of the traceback hold the data, in a cycle that only the garbage collector finds.
            error.__traceback__ = error.__context__ = None
            return RecordStarts(starts, position, error)
        starts.append(position)
        position = following
    return RecordStarts(starts, position, None)
