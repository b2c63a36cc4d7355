"""Messages with a schema, as Kafka's generated classes encode them, read by one table of schemas.

Source: docs/spec/formats.md#10-messages-with-a-schema (KIP-482 for flexible versions and tagged fields).
``messages.json`` beside this module holds the schemas of all messages that Kafka 4.3.1 stores.
``docs/make-messages.py`` makes it from the jars of a release.
"""

from __future__ import annotations

import json
import struct
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from itertools import groupby
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

from kdump.codes import Codes, DamageError
from kdump.wire.cursor import Cursor
from kdump.wire.utf8 import decode_utf8

Value: TypeAlias = "int | float | bool | str | bytes | list[Value] | dict[str, Value] | None"
"""The value of a field. A uuid is its 22-character URL-safe base64 form."""

TABLE: Final = Path(__file__).with_name("messages.json")
ZERO_UUID: Final = "A" * 22

_FIXED: Final = {
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
FIXED_SIZES: Final = {name: struct.calcsize(f">{code}") for name, code in _FIXED.items()}
"""Their sizes in bytes."""
UUID_SIZE: Final = 16
LONGEST_STRING: Final = 0x7FFF


class MessageError(DamageError):
    """A message cannot be read.

    ``cause``: the words of Kafka's reader; None where it has none (the data ends inside a field of fixed size, or
    inside a length).
    """

    def __init__(self, code: Codes, cause: str | None) -> None:
        super().__init__(code, cause or "the message ends inside a field")
        self.cause = cause


class Versions(NamedTuple):
    """A range of message versions as Kafka's definitions write it: ``0+``, ``1-3``, ``2``, ``none``."""

    low: int
    high: int

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.low <= version <= self.high

    @classmethod
    def parse(cls, text: str | None) -> Versions:
        """``None`` and ``none`` are the empty range."""
        if text is None or text == "none":
            return cls(0, -1)
        low, dash, high = text.rstrip("+").partition("-")
        return cls(int(low), 0x7FFF if text.endswith("+") else int(high if dash else low))


class Field(NamedTuple):
    """One field of a schema; ``fields`` are those of a struct or of an array's structs."""

    name: str
    type: str
    versions: Versions
    nullable: Versions
    tagged: Versions
    tag: int | None
    default: Value
    fields: tuple[Field, ...]


@dataclass(frozen=True)
class Schema:
    """One message definition. ``api_key``: the number of the record type, None for messages that are no records."""

    name: str
    group: str
    type: str
    api_key: int | None
    versions: Versions
    flexible: Versions
    fields: tuple[Field, ...]

    def layout(self, version: int) -> Layout:
        """The message in ``version``. As in Kafka an unknown version is read as the nearest known one.

        Above the highest known version, structs inside the message are refused where they occur.
        """
        if version not in self._layouts:
            known = min(max(version, self.versions.low), self.versions.high)
            refused = version if version > known else None
            self._layouts[version] = Layout.of(self.fields, known, known in self.flexible, refused)
        return self._layouts[version]

    @cached_property
    def _layouts(self) -> dict[int, Layout]:
        return {}


@cache
def schemas() -> Mapping[str, Schema]:
    """The table by message name."""
    return {entry["name"]: _schema(entry) for entry in json.loads(TABLE.read_text("utf-8"))["messages"]}


@cache
def record_schemas(group: str, kind: str) -> Mapping[int, Schema]:
    """The schemas of one group (``group-coordinator``) and type (``coordinator-value``) by their record type."""
    return {
        schema.api_key: schema
        for schema in schemas().values()
        if schema.api_key is not None and (schema.group, schema.type) == (group, kind)
    }


def _schema(entry: dict[str, Any]) -> Schema:
    return Schema(
        entry["name"],
        entry["group"],
        entry["type"],
        entry.get("apiKey"),
        Versions.parse(entry["validVersions"]),
        Versions.parse(entry["flexibleVersions"]),
        tuple(_field(words, entry["structs"]) for words in entry["fields"]),
    )


def _field(words: str, structs: dict[str, list[str]]) -> Field:
    """A field out of ``name type versions [nullable=VERSIONS] [tagged=VERSIONS tag=N] [default=VALUE]``."""
    name, type_name, versions, *marks = words.split(" ")
    given = dict(mark.split("=", 1) for mark in marks)
    fields = tuple(_field(inner, structs) for inner in structs.get(type_name.removeprefix("[]"), ()))
    return Field(
        name,
        type_name,
        Versions.parse(versions),
        Versions.parse(given.get("nullable")),
        Versions.parse(given.get("tagged")),
        int(given["tag"]) if "tag" in given else None,
        default_of(type_name, given.get("default"), fields),
        fields,
    )


def default_of(type_name: str, text: Any, fields: tuple[Field, ...]) -> Value:
    """The value of a field that a message does not have.

    ``text``: the default in the definition, None where it has none.
    """
    if text == "null":
        return None
    if type_name == "bool":
        return str(text).lower() == "true"
    if type_name == "float64":
        return float(text or 0)
    if type_name in _FIXED:
        return int(str(text or 0), 0)
    if type_name == "string":
        return str(text or "")
    if type_name == "uuid":
        return ZERO_UUID
    if type_name in ("bytes", "records"):
        return b""
    if type_name.startswith("[]"):
        return []
    return {field.name: field.default for field in fields}


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
    defaults: Mapping[str, Value]
    """The defaults of all fields, also of those that this version does not have."""
    steps: tuple[_Step, ...]
    """How the untagged members are read."""
    tagged: Mapping[int, _Step]
    """How the tagged ones are read, by tag."""

    @classmethod
    def of(cls, fields: tuple[Field, ...], version: int, is_flexible: bool, refused: int | None) -> Layout:
        """``refused``: the version that structs inside the message refuse to read; None: they refuse none."""
        members = tuple(_member(field, version, is_flexible, refused) for field in fields if version in field.versions)
        # A tag that only other versions have is known, and an error here.
        tagged = {
            field.tag: _refusal(f"Tag {field.tag} is not valid for version {version}")
            for field in fields
            if field.tag is not None
        }
        tagged |= {member.tag: _step(member, is_flexible) for member in members if member.tag is not None}
        return cls(
            is_flexible,
            members,
            {field.name: field.default for field in fields},
            tuple(_steps((member for member in members if member.tag is None), is_flexible)),
            tagged,
        )


def _member(field: Field, version: int, is_flexible: bool, refused: int | None) -> Member:
    type_name = field.type.removeprefix("[]")
    layout = None
    if field.fields:
        layout = Layout.of(field.fields, version, is_flexible, refused)
        if refused is not None:
            layout = Layout(is_flexible, (), {}, (_refusal(f"Can't read version {refused} of {type_name}"),), {})
    return Member(
        field.name,
        type_name,
        field.type.startswith("[]"),
        version in field.nullable,
        field.tag if version in field.tagged else None,
        field.default,
        layout,
    )


_Step: TypeAlias = "Callable[[Cursor, dict[str, Value]], None]"
"""Reads one member, or a few of fixed size in a row."""
_Reader: TypeAlias = "Callable[[Cursor], Value]"


def read_message(schema: Schema, version: int, cursor: Cursor) -> dict[str, Value]:
    """Read one message; absent fields have their defaults, unknown tagged fields are skipped.

    Raises:
        MessageError: the bytes end early, or something stands where it may not.
    """
    return _read_struct(schema.layout(version), cursor)


def _read_struct(layout: Layout, cursor: Cursor) -> dict[str, Value]:
    values = dict(layout.defaults)
    for step in layout.steps:
        step(cursor, values)
    if layout.is_flexible:
        for _ in range(_unsigned_varint(cursor)):
            tag, size = _unsigned_varint(cursor), _unsigned_varint(cursor)
            known = layout.tagged.get(tag)
            # Like Kafka's reader, which ignores the size of a tagged field that it knows.
            if known is None:
                _take(cursor, size)
            else:
                known(cursor, values)
    return values


def _steps(members: Iterable[Member], is_flexible: bool) -> Iterator[_Step]:
    for is_fixed, run in groupby(members, lambda member: member.type in _FIXED and not member.is_array):
        if is_fixed:
            yield _fixed_step(list(run))
        else:
            yield from (_step(member, is_flexible) for member in run)


def _fixed_step(members: list[Member]) -> _Step:
    names = [member.name for member in members]
    layout = struct.Struct(">" + "".join(_FIXED[member.type] for member in members))

    def step(cursor: Cursor, values: dict[str, Value]) -> None:
        values.update(zip(names, _unpack(layout, cursor), strict=True))

    return step


def _step(member: Member, is_flexible: bool) -> _Step:
    name, read = member.name, _reader(member, is_flexible)

    def step(cursor: Cursor, values: dict[str, Value]) -> None:
        values[name] = read(cursor)

    return step


def _refusal(cause: str) -> _Step:
    def step(cursor: Cursor, values: dict[str, Value]) -> None:
        raise MessageError(cursor.code, cause)

    return step


def _reader(member: Member, is_flexible: bool) -> _Reader:
    """A function that reads the value of a member."""
    if not member.is_array:
        return _scalar_reader(member, member.name, is_flexible)
    element = Member(member.name, member.type, False, False, None, None, member.layout)
    read_element = _scalar_reader(element, f"{member.name} element", is_flexible)
    code = _FIXED.get(member.type)
    size = FIXED_SIZES.get(member.type, 0)

    def read(cursor: Cursor) -> Value:
        count = _length(cursor, "[]", is_flexible)
        if count < 0:
            return _null(member, member.name, cursor)
        if count > cursor.remaining:
            left = cursor.remaining
            cause = f"Tried to allocate a collection of size {count}, but there are only {left} bytes remaining."
            raise MessageError(cursor.code, cause)
        cursor.elements += count
        if cursor.elements > MOST_ELEMENTS:
            raise MessageError(cursor.code, f"it has more than {MOST_ELEMENTS:,} elements, kdump reads no more")
        if code is not None and count * size <= cursor.remaining:
            numbers = struct.unpack_from(f">{count}{code}", cursor.buffer, cursor.position)
            cursor.position += count * size
            return list(numbers)
        return [read_element(cursor) for _ in range(count)]

    return read


def _scalar_reader(member: Member, name: str, is_flexible: bool) -> _Reader:
    layout = member.layout
    if layout is not None:
        return _struct_reader(member, layout)
    match member.type:
        case "string":
            return _string_reader(member, name, is_flexible)
        case "bytes" | "records":
            return _bytes_reader(member, name, is_flexible)
        case "uuid":
            return _read_uuid
    fixed = struct.Struct(">" + _FIXED[member.type])
    return lambda cursor: _unpack(fixed, cursor)[0]


def _struct_reader(member: Member, layout: Layout) -> _Reader:
    if not member.is_nullable:
        return lambda cursor: _read_struct(layout, cursor)

    def read(cursor: Cursor) -> Value:
        # A byte says whether the struct is there. In the tagged section a varint does: above 0 it is.
        is_there = _unpack(_INT8, cursor)[0] >= 0 if member.tag is None else _unsigned_varint(cursor) > 0
        return _read_struct(layout, cursor) if is_there else None

    return read


def _string_reader(member: Member, name: str, is_flexible: bool) -> _Reader:
    def read(cursor: Cursor) -> Value:
        size = _length(cursor, "string", is_flexible)
        if size < 0:
            return _null(member, name, cursor)
        if size > LONGEST_STRING:
            raise MessageError(cursor.code, f"string field {name} had invalid length {size}")
        return decode_utf8(_take(cursor, size))

    return read


def _bytes_reader(member: Member, name: str, is_flexible: bool) -> _Reader:
    def read(cursor: Cursor) -> Value:
        size = _length(cursor, "bytes", is_flexible)
        return _null(member, name, cursor) if size < 0 else _take(cursor, size)

    return read


def _read_uuid(cursor: Cursor) -> Value:
    return uuid_text(_unpack(_UUID, cursor)[0])


_INT8: Final = struct.Struct(">b")
_UUID: Final = struct.Struct(f">{UUID_SIZE}s")
_LENGTHS: Final = {"string": struct.Struct(">h"), "bytes": struct.Struct(">i"), "[]": struct.Struct(">i")}
MOST_ELEMENTS: Final = 1_000_000
"""Of all arrays of a message. Each takes some 100 bytes of memory, but may take one byte of the message."""
_LONGEST_VARINT: Final = 5


@lru_cache(maxsize=1 << 16)
def uuid_text(data: bytes) -> str:
    """The 22 characters by which Kafka names the 16 bytes of a uuid."""
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def _null(member: Member, name: str, cursor: Cursor) -> Value:
    if not member.is_nullable:
        raise MessageError(cursor.code, f"non-nullable field {name} was serialized as null")
    return None


def _length(cursor: Cursor, type_name: str, is_flexible: bool) -> int:
    if is_flexible:
        # In Java's int arithmetic, where 2^31 less one is the largest length and not a negative one.
        return (_unsigned_varint(cursor) - 1 + 2**31) % 2**32 - 2**31
    length: int = _unpack(_LENGTHS[type_name], cursor)[0]
    return length


def _unpack(layout: struct.Struct, cursor: Cursor) -> tuple[Any, ...]:
    start = cursor.position
    if layout.size > cursor.end - start:
        raise MessageError(cursor.code, None)
    cursor.position = start + layout.size
    return layout.unpack_from(cursor.buffer, start)


def _take(cursor: Cursor, size: int) -> bytes:
    if not 0 <= size <= cursor.remaining:
        few = f"Error reading byte array of {size} byte(s): only {cursor.remaining} byte(s) available"
        # A negative size fails in Java where the array is made.
        raise MessageError(cursor.code, few if size > 0 else str(size))
    return cursor.take(size)


def _unsigned_varint(cursor: Cursor) -> int:
    position = cursor.position
    # Nearly all are one byte.
    if position < cursor.end and (byte := cursor.buffer[position]) < 0x80:
        cursor.position = position + 1
        return byte
    try:
        return cursor.unsigned_varint()
    except DamageError:
        raise MessageError(cursor.code, _varint_cause(cursor)) from None


def _varint_cause(cursor: Cursor) -> str | None:
    data = bytes(cursor.buffer[cursor.position : min(cursor.end, cursor.position + _LONGEST_VARINT)])
    if len(data) < _LONGEST_VARINT:
        return None
    value = sum((byte & 0x7F) << 7 * place for place, byte in enumerate(data)) & 0xFFFF_FFFF
    return f"Varint is too long, the most significant bit in the 5th byte is set, converted value: {value:x}"
