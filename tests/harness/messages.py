"""Random messages of any schema and version, and a writer for them.

Written apart from ``kdump.format.message``, of which only the table is taken.
Source: docs/spec/formats.md#10-messages-with-a-schema.
"""

from __future__ import annotations

import base64
import struct
from dataclasses import dataclass
from random import Random
from typing import Any

from kdump.format.message import Field, Schema

_FIXED = {
    "int8": (">b", 8, True), "int16": (">h", 16, True), "int32": (">i", 32, True), "int64": (">q", 64, True),
    "uint16": (">H", 16, False), "uint32": (">I", 32, False),
}  # fmt: skip
_TEXTS = (
    "", "g", "consumer", "range", 'quo"te', "back\\slash", "\b\f\n\r\t\x00\x1f\x7f", "caf\u00e9", "\u2028",
    "\U0001f600", "a/b<c>'d", "\ufffd",
)  # fmt: skip
_FLOATS = (
    0.0, -0.0, 1.0, 1e7, 9999999.999, 0.001, 0.00099, 1e23, 2e23, 4.9e-324, float("inf"), float("-inf"), float("nan"),
)  # fmt: skip
UNKNOWN_TAG = 77


def random_values(fields: tuple[Field, ...], version: int, random: Random) -> dict[str, Any]:
    """A value for every field; a field that the version does not have is at its default."""
    return {
        field.name: _random_value(field, version, random) if version in field.versions else field.default
        for field in fields
    }


def _random_value(field: Field, version: int, random: Random) -> Any:
    if version in field.nullable and random.random() < 0.2:
        return None
    if version in field.tagged and random.random() < 0.4:
        return field.default
    if field.type.startswith("[]"):
        return [_random_item(field, field.type[2:], version, random) for _ in range(random.choice((0, 1, 1, 2, 3)))]
    return _random_item(field, field.type, version, random)


def _random_item(field: Field, type_name: str, version: int, random: Random) -> Any:
    if field.fields:
        return random_values(field.fields, version, random)
    if type_name in _FIXED:
        _, bits, signed = _FIXED[type_name]
        low = -(1 << bits - 1) if signed else 0
        return random.choice((0, 1, low, low + (1 << bits) - 1, random.randrange(low, low + (1 << bits))))
    match type_name:
        case "bool":
            return random.random() < 0.5
        case "float64":
            return random.choice((*_FLOATS, random.uniform(-1e9, 1e9), random.randrange(10**6) / 100))
        case "uuid":
            return base64.urlsafe_b64encode(random.choice((bytes(16), random.randbytes(16)))).decode()[:22]
        case "bytes" | "records":
            return random.randbytes(random.choice((0, 1, 2, 3, 200)))
    return random.choice((*_TEXTS, "x" * random.choice((63, 126, 127, 128, 300))))


def write_message(schema: Schema, version: int, values: dict[str, Any], random: Random | None = None) -> bytes:
    """The bytes of a message; with ``random``: tagged fields may be there at their default, and unknown ones too."""
    return _Writer(version, version in schema.flexible, random).struct(schema.fields, values)


@dataclass
class _Writer:
    version: int
    is_flexible: bool
    random: Random | None

    def struct(self, fields: tuple[Field, ...], values: dict[str, Any]) -> bytes:
        out = b""
        tagged: dict[int, bytes] = {}
        for field in fields:
            value = values[field.name]
            if self.version in field.tagged:
                assert field.tag is not None
                if value != field.default or (self.random is not None and self.random.random() < 0.1):
                    tagged[field.tag] = self._field(field, value, is_tagged=True)
            elif self.version in field.versions:
                out += self._field(field, value)
        if not self.is_flexible:
            return out
        if self.random is not None and self.random.random() < 0.2:
            tagged[UNKNOWN_TAG] = self.random.randbytes(self.random.randrange(4))
        sections = (unsigned_varint(tag) + unsigned_varint(len(data)) + data for tag, data in sorted(tagged.items()))
        return out + unsigned_varint(len(tagged)) + b"".join(sections)

    def _field(self, field: Field, value: Any, *, is_tagged: bool = False) -> bytes:
        if not field.type.startswith("[]"):
            may_be_null = field.fields and self.version in field.nullable
            if may_be_null and value is None:
                return b"\0" if is_tagged else b"\xff"
            return (b"\1" if may_be_null else b"") + self._item(field, field.type, value)
        items = [self._item(field, field.type[2:], item) for item in value or ()]
        return self._length(None if value is None else len(items), ">i") + b"".join(items)

    def _item(self, field: Field, type_name: str, value: Any) -> bytes:
        if field.fields:
            return self.struct(field.fields, value)
        if type_name in _FIXED:
            return struct.pack(_FIXED[type_name][0], value)
        match type_name:
            case "bool":
                return bytes([value])
            case "float64":
                return struct.pack(">d", value)
            case "uuid":
                return base64.urlsafe_b64decode(value + "==")
            case "string":
                return self._sized(None if value is None else value.encode(), ">h")
        return self._sized(value, ">i")

    def _sized(self, data: bytes | None, layout: str) -> bytes:
        return self._length(None if data is None else len(data), layout) + (data or b"")

    def _length(self, size: int | None, layout: str) -> bytes:
        if self.is_flexible:
            return unsigned_varint(0 if size is None else size + 1)
        return struct.pack(layout, -1 if size is None else size)


def unsigned_varint(value: int) -> bytes:
    """Base 128, low bits first."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def expected_members(fields: tuple[Field, ...], version: int, values: dict[str, Any]) -> dict[str, Any]:
    """What is printed of a message, as docs/spec/decoders.md#2-json-text has it."""
    return {
        field.name: _expected(field, version, values[field.name])
        for field in fields
        if version in field.versions and not (version in field.tagged and values[field.name] == field.default)
    }


def _expected(field: Field, version: int, value: Any) -> Any:
    if isinstance(value, list):
        return [_expected(field, version, item) for item in value]
    return expected_members(field.fields, version, value) if isinstance(value, dict) else value
