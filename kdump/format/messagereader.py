"""How the fields of a message are read: a function for each, made once for each version of a message.

Source: docs/spec/formats.md#10-messages-with-a-schema. The functions take bytes and positions, and no cursor, because
a metadata log may have a million messages.
"""

from __future__ import annotations

import struct
import threading
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

from kdump.codes import DamageError
from kdump.wire.checksum import Buffer
from kdump.wire.utf8 import decode_utf8
from kdump.wire.varint import read_unsigned_varint

Value: TypeAlias = "int | float | bool | str | bytes | list[Value] | dict[str, Value] | None"
"""The value of a field. A uuid is its 22-character URL-safe base64 form."""
Step: TypeAlias = "Callable[[Buffer, int, int, dict[str, Value]], int]"
"""Reads a field at a position of bytes that end at another, puts it among the values, and gives the position after it.

It raises UnreadableError.
"""
StructReader: TypeAlias = "Callable[[Buffer, int, int], tuple[dict[str, Value], int]]"
"""Reads all fields of a message, or of a struct in it, at a position; gives them and the position after them."""
WholeReader: TypeAlias = "Callable[[bytes, int], dict[str, Value] | None]"
"""Reads from a position to the end of the bytes; None where they hold something else, and StructReader says what."""
_Reader: TypeAlias = "Callable[[Buffer, int, int], tuple[Value, int]]"
"""Reads one value at a position; gives it and the position after it."""

FIXED: Final = {
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "uint16": "H",
    "uint32": "I",
    "bool": "?",
    "float64": "d",
}
"""Types of a fixed size, as ``struct`` names them."""
FIXED_SIZES: Final = {name: struct.calcsize(f">{code}") for name, code in FIXED.items()}
"""Their sizes in bytes."""
UUID_SIZE: Final = 16
HEAD_TYPES: Final = frozenset({*FIXED_SIZES, "uuid"})
"""Types whose size is known without their bytes."""
LONGEST_STRING: Final = 0x7FFF
_REMEMBERED: Final = 2048
"""Messages of each layout that are remembered, and the most bytes of one."""
MOST_ELEMENTS: Final = 1 << 17
"""Of all arrays of a message. Each may take one byte of the message, and as a struct a kilobyte of memory."""
_LONGEST_REMEMBERED: Final = 256
_LENGTHS: Final = {"string": struct.Struct(">h"), "bytes": struct.Struct(">i"), "[]": struct.Struct(">i")}
_LONGEST_VARINT: Final = 5
UNKNOWN_TAGS: Final = "unknownTaggedFields"
"""Among the values of a message or a struct, where it has any: what a newer Kafka wrote, as it is stored."""
_MOST_TAGS: Final = 10_000


class UnreadableError(Exception):
    """A field cannot be read. ``cause``: see MessageError."""

    def __init__(self, cause: str | None) -> None:
        super().__init__(cause)
        self.cause = cause


class _ElementsLeft(threading.local):
    """How many elements the message that this thread reads may still have."""

    count = 0


_elements_left: Final = _ElementsLeft()


def begin_message(most_elements: int = MOST_ELEMENTS) -> None:
    """To be called before each message is read."""
    _elements_left.count = most_elements


class Member(NamedTuple):
    """A field in one version.

    ``type`` is that of the field, or of the elements of an array; ``layout`` that of a struct.
    """

    name: str
    type: str
    is_array: bool
    is_nullable: bool
    tag: int | None
    """None: it is not tagged in this version."""
    default: Value
    layout: Layout | None


class Layout(NamedTuple):
    """A message, or a struct in it, in one version."""

    is_flexible: bool
    members: tuple[Member, ...]
    """In the order of the schema, which is the order of the printed text."""
    read: StructReader
    """How it is read: all fields, those that this version does not have with their defaults."""
    read_whole: WholeReader
    """How bytes are read that hold nothing else."""


def struct_reader(
    defaults: Mapping[str, Value],
    steps: tuple[Step, ...],
    tagged: Mapping[int, Step] | None,
    *,
    checks_tag_counts: bool = True,
) -> StructReader:
    """A function that reads a message, or a struct in it.

    Args:
        defaults: of all fields.
        steps: read the fields that have no tag.
        tagged: read those that have one; None: the version is not flexible.
        checks_tag_counts: a number of tagged fields that cannot be is refused before they are read.
    """

    def read(data: Buffer, at: int, end: int) -> tuple[dict[str, Value], int]:
        values = dict(defaults)
        for step in steps:
            at = step(data, at, end, values)
        if tagged is None:
            return values, at
        count, at = _unsigned_varint(data, at, end)
        if count and checks_tag_counts:
            _check_tag_count(count, end - at)
        for _ in range(count):
            tag, at = _unsigned_varint(data, at, end)
            size, at = _unsigned_varint(data, at, end)
            known = tagged.get(tag)
            if known is None:
                start, at = at, _after(at, end, size)
                _keep_unknown(values, tag, bytes(data[start:at]))
            else:
                # Like Kafka's reader, which ignores the size of a tagged field that it knows.
                at = known(data, at, end, values)
        return values, at

    return read


def _keep_unknown(values: dict[str, Value], tag: int, data: bytes) -> None:
    unknown = values.setdefault(UNKNOWN_TAGS, [])
    assert isinstance(unknown, list)
    unknown.append({"tag": tag, "data": data})


def unknown_tag_numbers(values: Mapping[str, Value]) -> Iterator[int]:
    """The numbers of the unknown tagged fields of a message, and of structs in its arrays."""
    for name, value in values.items():
        if name == UNKNOWN_TAGS:
            yield from (field["tag"] for field in value)  # type: ignore[misc, union-attr, index, call-overload]
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            for item in value:
                yield from unknown_tag_numbers(item)  # type: ignore[arg-type]


def whole_reader(head: Sequence[tuple[str, str]], read_rest: StructReader) -> WholeReader:
    """A function that reads whole messages of a kind of which there are many.

    They differ in their first fields, such as topic and partition. What follows repeats, and is remembered.

    Args:
        head: name and type of the first fields, of HEAD_TYPES.
        read_rest: reads the others.
    """
    names = [name for name, _ in head]
    uuids = [name for name, type_name in head if type_name == "uuid"]
    layout = struct.Struct(">" + "".join(FIXED.get(type_name, f"{UUID_SIZE}s") for _, type_name in head))

    def rest(data: bytes) -> dict[str, Value] | None:
        begin_message()
        try:
            values, end = read_rest(data, 0, len(data))
        except UnreadableError:
            return None
        return values if end == len(data) else None

    remembered = lru_cache(maxsize=_REMEMBERED)(rest)

    def read(data: bytes, at: int) -> dict[str, Value] | None:
        after = at + layout.size
        left = data[after:]
        known = remembered(left) if len(left) <= _LONGEST_REMEMBERED else rest(left)
        if known is None or after > len(data):
            return None
        values = dict(known)
        values.update(zip(names, layout.unpack_from(data, at), strict=False))
        for name in uuids:
            values[name] = uuid_text(values[name])  # type: ignore[arg-type]
        return values

    return read


def fixed_step(fields: Sequence[tuple[str, str]]) -> Step:
    """Reads fields of fixed size, given by (name, type), that follow one another."""
    names = [name for name, _ in fields]
    layout = struct.Struct(">" + "".join(FIXED[type_name] for _, type_name in fields))
    size = layout.size

    def step(data: Buffer, at: int, end: int, values: dict[str, Value]) -> int:
        if size > end - at:
            raise UnreadableError(None)
        values.update(zip(names, layout.unpack_from(data, at), strict=False))
        return at + size

    return step


def value_step(field: Member, is_flexible: bool) -> Step:
    """Reads one value."""
    name, read = field.name, _reader(field, field.name, is_flexible)

    def step(data: Buffer, at: int, end: int, values: dict[str, Value]) -> int:
        values[name], at = read(data, at, end)
        return at

    return step


def array_step(field: Member, is_flexible: bool) -> Step:
    """Reads an array."""
    name = field.name
    read_element = _reader(field._replace(is_nullable=False, tag=None), f"{name} element", is_flexible)
    code, size = FIXED.get(field.type), FIXED_SIZES.get(field.type, 0)

    def step(data: Buffer, at: int, end: int, values: dict[str, Value]) -> int:
        count, at = _length(data, at, end, "[]", is_flexible)
        if count < 0:
            _check_null(field.is_nullable, name)
            values[name] = None
            return at
        if count > end - at:
            left = end - at
            cause = f"Tried to allocate a collection of size {count}, but there are only {left} bytes remaining."
            raise UnreadableError(cause)
        _elements_left.count -= count
        if _elements_left.count < 0:
            raise UnreadableError("its arrays have more elements than kdump reads")
        if code is not None and count * size <= end - at:
            values[name] = list(struct.unpack_from(f">{count}{code}", data, at))
            return at + count * size
        values[name] = elements = []
        for _ in range(count):
            element, at = read_element(data, at, end)
            elements.append(element)
        return at

    return step


def refusal(cause: str) -> Step:
    """Reads nothing."""

    def step(data: Buffer, at: int, end: int, values: dict[str, Value]) -> int:
        raise UnreadableError(cause)

    return step


@lru_cache(maxsize=1 << 16)
def uuid_text(data: bytes) -> str:
    """The 22 characters by which Kafka names the 16 bytes of a uuid."""
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def _reader(field: Member, name: str, is_flexible: bool) -> _Reader:
    if field.layout is not None:
        read = field.layout.read
        return _struct_or_null(read, field.tag is not None) if field.is_nullable else read
    match field.type:
        case "string":
            return _string_reader(field, name, is_flexible)
        case "bytes" | "records":
            return _bytes_reader(field, name, is_flexible)
        case "uuid":
            return _read_uuid
    fixed = struct.Struct(">" + FIXED[field.type])
    return lambda data, at, end: (_unpack(fixed, data, at, end), at + fixed.size)


def _struct_or_null(read_struct: StructReader, is_tagged: bool) -> _Reader:
    def read(data: Buffer, at: int, end: int) -> tuple[Value, int]:
        # A byte says whether the struct is there. In the tagged section a varint does: above 0 it is.
        if is_tagged:
            mark, at = _unsigned_varint(data, at, end)
            is_there = mark > 0
        else:
            is_there = _unpack(_INT8, data, at, end) >= 0
            at += 1
        return read_struct(data, at, end) if is_there else (None, at)

    return read


def _string_reader(field: Member, name: str, is_flexible: bool) -> _Reader:
    def read(data: Buffer, at: int, end: int) -> tuple[Value, int]:
        size, at = _length(data, at, end, "string", is_flexible)
        if size < 0:
            _check_null(field.is_nullable, name)
            return None, at
        if size > LONGEST_STRING:
            raise UnreadableError(f"string field {name} had invalid length {size}")
        after = _after(at, end, size)
        return decode_utf8(bytes(data[at:after])), after

    return read


def _bytes_reader(field: Member, name: str, is_flexible: bool) -> _Reader:
    def read(data: Buffer, at: int, end: int) -> tuple[Value, int]:
        size, at = _length(data, at, end, "bytes", is_flexible)
        if size < 0:
            _check_null(field.is_nullable, name)
            return None, at
        after = _after(at, end, size)
        return bytes(data[at:after]), after

    return read


def _read_uuid(data: Buffer, at: int, end: int) -> tuple[Value, int]:
    after = at + UUID_SIZE
    if after > end:
        raise UnreadableError(None)
    return uuid_text(bytes(data[at:after])), after


def _check_tag_count(count: int, left: int) -> None:
    """In the order and the words of the readers that Kafka generates."""
    if count < 0:
        raise UnreadableError(f"Invalid negative number of tagged fields {count}")
    if count > left:
        raise UnreadableError(f"Tried to read {count} tagged fields, but there are only {left} bytes remaining.")
    if count > _MOST_TAGS:
        cause = f"Tried to read {count} tagged fields, which exceeds the maximum allowed count of {_MOST_TAGS}."
        raise UnreadableError(cause)


_INT8: Final = struct.Struct(">b")


def _check_null(is_nullable: bool, name: str) -> None:
    if not is_nullable:
        raise UnreadableError(f"non-nullable field {name} was serialized as null")


def _length(data: Buffer, at: int, end: int, type_name: str, is_flexible: bool) -> tuple[int, int]:
    if is_flexible:
        length, at = _unsigned_varint(data, at, end)
        # In Java's int arithmetic, where 2^31 less one is the largest length and not a negative one.
        return (length - 1 + 2**31) % 2**32 - 2**31, at
    layout = _LENGTHS[type_name]
    return int(_unpack(layout, data, at, end)), at + layout.size


def _unpack(layout: struct.Struct, data: Buffer, at: int, end: int) -> int | float:
    """The one value of a layout."""
    if layout.size > end - at:
        raise UnreadableError(None)
    value: int | float = layout.unpack_from(data, at)[0]
    return value


def _after(at: int, end: int, size: int) -> int:
    """The position after some bytes."""
    if not 0 <= size <= end - at:
        few = f"Error reading byte array of {size} byte(s): only {end - at} byte(s) available"
        # A negative size fails in Java where the array is made.
        raise UnreadableError(few if size > 0 else str(size))
    return at + size


def _unsigned_varint(data: Buffer, at: int, end: int) -> tuple[int, int]:
    """As the int32 it is in Java: 2^31 and above is negative."""
    # Nearly all are one byte.
    if at < end and (byte := data[at]) < 0x80:
        return byte, at + 1
    try:
        value, at = read_unsigned_varint(data, at, end)
    except DamageError:
        raise UnreadableError(_varint_cause(data, at, end)) from None
    return value - (value >> 31 << 32), at


def _varint_cause(data: Buffer, at: int, end: int) -> str | None:
    found = bytes(data[at : min(end, at + _LONGEST_VARINT)])
    if len(found) < _LONGEST_VARINT:
        return None
    value = sum((byte & 0x7F) << 7 * place for place, byte in enumerate(found)) & 0xFFFF_FFFF
    return f"Varint is too long, the most significant bit in the 5th byte is set, converted value: {value:x}"
