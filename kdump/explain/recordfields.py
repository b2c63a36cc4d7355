"""The fields of v2 records by position.

Source: docs/spec/formats.md#31-record. The rules are those of ``kdump.format.record``, which returns values without
positions. A test checks that both accept the same records.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from kdump.codes import DamageError
from kdump.explain import kafka_says
from kdump.explain.lines import StuckError
from kdump.wire.varint import read_varint, read_varlong


class RecordField(NamedTuple):
    """``data[start:end]`` is field ``name``; ``number`` is its value, None for bytes."""

    name: str
    start: int
    end: int
    number: int | None


def record_fields(data: memoryview, start: int, limit: int) -> Iterator[RecordField]:
    """The fields of the record at ``start``; its bytes end at ``limit`` at the latest.

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
    for index in range(count):
        for part in ("key", "value"):
            for field in _sized(data, f"headers[{index}].{part}", position, end):
                yield field
                position = field.end
    if position != end:
        raise StuckError(
            position,
            f"the length is {size}, the fields take {position - first} bytes",
            kafka_says.RECORD_FIELDS.format(size=size, read=position - first),
            blamed="length",
        )


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
            return RecordStarts(starts, position, error)
        starts.append(position)
        position = following
    return RecordStarts(starts, position, None)
