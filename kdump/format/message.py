"""Kafka's schema-driven ("message") encoding, driven by one table of schemas.

Source: shared/spec/formats.md section 10, shared/spec/records.json (the message definitions of Kafka 4.3.1; KIP-482
for flexible versions and tagged fields). ``messages.json`` beside this module holds the schemas in use: the values of
control records.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeAlias

from kdump.codes import Codes, DamageError
from kdump.wire.cursor import Cursor
from kdump.wire.utf8 import decode_utf8

Value: TypeAlias = "int | float | bool | str | bytes | list[Value] | dict[str, Value] | None"
"""What a field reads as; a uuid is its 22-character URL-safe base64 form."""

ZERO_UUID: Final = "A" * 22

_INTEGER_TYPES: Final = {
    "int8": (1, True),
    "int16": (2, True),
    "int32": (4, True),
    "int64": (8, True),
    "uint16": (2, False),
    "uint32": (4, False),
}


@dataclass(frozen=True, slots=True)
class Versions:
    """A range of message versions as the definitions spell it: ``0+``, ``1-3``, ``2``, ``none``."""

    low: int
    high: int

    def __contains__(self, version: int) -> bool:
        return self.low <= version <= self.high

    @classmethod
    def parse(cls, text: str | None) -> Versions:
        """``None`` and ``none`` are the empty range."""
        if text is None or text == "none":
            return cls(0, -1)
        low, dash, high = text.rstrip("+").partition("-")
        return cls(int(low), 0x7FFF if text.endswith("+") else int(high if dash else low))


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a schema; ``fields`` are those of a struct or of an array's structs."""

    name: str
    type: str
    versions: Versions
    nullable: Versions
    tagged: Versions
    tag: int | None
    default: Value
    fields: tuple[Field, ...]

    @property
    def element(self) -> Field | None:
        """For an array: its element as a field that is never null."""
        if not self.type.startswith("[]"):
            return None
        none = Versions.parse(None)
        return Field(self.name, self.type[2:], self.versions, none, none, None, None, self.fields)


@dataclass(frozen=True, slots=True)
class Schema:
    """One message definition."""

    name: str
    versions: Versions
    flexible: Versions
    fields: tuple[Field, ...]


@cache
def schemas() -> Mapping[str, Schema]:
    """The table by message name."""
    table = json.loads(Path(__file__).with_name("messages.json").read_text("utf-8"))
    return {entry["name"]: _schema(entry) for entry in table["records"]}


def _schema(entry: dict[str, Any]) -> Schema:
    structs = {struct["name"]: struct["fields"] for struct in entry["commonStructs"]}
    fields = tuple(_field(field, structs) for field in entry["fields"])
    return Schema(
        entry["name"], Versions.parse(entry["validVersions"]), Versions.parse(entry["flexibleVersions"]), fields
    )


def _field(entry: dict[str, Any], structs: dict[str, Any]) -> Field:
    type_name: str = entry["type"]
    inner = entry.get("fields") or structs.get(type_name.removeprefix("[]"), ())
    fields = tuple(_field(field, structs) for field in inner)
    return Field(
        entry["jsonName"],
        type_name,
        Versions.parse(entry["versions"]),
        Versions.parse(entry.get("nullableVersions")),
        Versions.parse(entry.get("taggedVersions")),
        entry.get("tag"),
        _default(type_name, entry.get("default"), fields),
        fields,
    )


def _default(type_name: str, text: Any, fields: tuple[Field, ...]) -> Value:
    if text == "null":
        return None
    if type_name in _INTEGER_TYPES:
        return int(str(text), 0) if text not in (None, "") else 0
    if type_name == "float64":
        return float(text) if text else 0.0
    if type_name == "bool":
        return str(text).lower() == "true"
    if type_name == "string":
        return str(text or "")
    if type_name == "uuid":
        return ZERO_UUID
    if type_name in ("bytes", "records"):
        return b""
    if type_name.startswith("[]"):
        return []
    return {field.name: field.default for field in fields}


def read_message(schema: Schema, version: int, cursor: Cursor) -> dict[str, Value]:
    """Read one message; absent fields have their defaults, unknown tagged fields are skipped.

    Raises:
        DamageError: the bytes end early, or null stands where it may not.
    """
    return _read_struct(schema.fields, version, version in schema.flexible, cursor)


def _read_struct(fields: tuple[Field, ...], version: int, flexible: bool, cursor: Cursor) -> dict[str, Value]:
    values: dict[str, Value] = {}
    tagged: dict[int, Field] = {}
    for field in fields:
        values[field.name] = field.default
        if field.tag is not None and version in field.tagged:
            tagged[field.tag] = field
        elif version in field.versions:
            values[field.name] = _read_field(field, version, flexible, cursor)
    if flexible:
        for _ in range(cursor.unsigned_varint()):
            tag = cursor.unsigned_varint()
            section = Cursor(cursor.take(cursor.unsigned_varint()))
            if tag in tagged:
                values[tagged[tag].name] = _read_field(tagged[tag], version, flexible, section, tagged=True)
    return values


def _read_field(field: Field, version: int, flexible: bool, cursor: Cursor, *, tagged: bool = False) -> Value:
    nullable = version in field.nullable
    element = field.element
    if field.fields and element is None:
        if nullable and _null_marker(cursor, tagged):
            return None
        return _read_struct(field.fields, version, flexible, cursor)
    if element is None and field.type not in ("string", "bytes", "records"):
        return _SCALARS[field.type](cursor)
    size = _read_length(field.type, flexible, cursor)
    if size < 0:
        if not nullable:
            raise DamageError(Codes.RECORD, f"non-nullable field {field.name} was serialized as null")
        return None
    if element is None:
        raw = cursor.take(size)
        return decode_utf8(raw) if field.type == "string" else raw
    if size > cursor.remaining:
        raise DamageError(Codes.RECORD, f"{size} elements of {field.name} where {cursor.remaining} bytes are left")
    return [_read_field(element, version, flexible, cursor) for _ in range(size)]


def _null_marker(cursor: Cursor, tagged: bool) -> bool:
    return cursor.unsigned_varint() == 0 if tagged else cursor.integer(1) < 0


def _read_length(type_name: str, flexible: bool, cursor: Cursor) -> int:
    if flexible:
        return cursor.unsigned_varint() - 1
    return cursor.integer(2 if type_name == "string" else 4)


def _integer_reader(size: int, signed: bool) -> Callable[[Cursor], Value]:
    return lambda cursor: cursor.integer(size, signed=signed)


_SCALARS: Final[dict[str, Callable[[Cursor], Value]]] = {
    **{name: _integer_reader(*layout) for name, layout in _INTEGER_TYPES.items()},
    "bool": lambda cursor: cursor.integer(1) != 0,
    "float64": lambda cursor: cursor.float64(),
    "uuid": lambda cursor: urlsafe_b64encode(cursor.take(16)).rstrip(b"=").decode(),
}
