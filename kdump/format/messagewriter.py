"""Messages with a schema as bytes: what ``kdump.format.message`` reads.

Source: docs/spec/formats.md#10-messages-with-a-schema (KIP-482 for flexible versions and tagged fields).
"""

from __future__ import annotations

import struct
from base64 import urlsafe_b64decode
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from kdump.format.message import Schema
from kdump.format.messagereader import FIXED, Layout, Member
from kdump.wire.checksum import Buffer
from kdump.wire.varint import write_unsigned_varint

_FIXED: Final = {name: struct.Struct(">" + code) for name, code in FIXED.items()}
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")


def write_message(schema: Schema, version: int, values: Mapping[str, Any]) -> list[Buffer]:
    """The bytes of one message, in parts: long values are not copied.

    ``values``: a field without a value has its default. Fields that the version does not have are left out.
    """
    out: list[Buffer] = []
    _write_struct(out, schema.layout(version), values)
    return out


def _write_struct(out: list[Buffer], layout: Layout, values: Mapping[str, Any]) -> None:
    tagged: list[tuple[int, list[Buffer]]] = []
    for member in layout.members:
        value = values.get(member.name, member.default)
        if member.tag is None:
            _write_member(out, member, value, layout.is_flexible)
        elif value != member.default:
            section: list[Buffer] = []
            _write_member(section, member, value, layout.is_flexible)
            tagged.append((member.tag, section))
    if layout.is_flexible:
        out.append(write_unsigned_varint(len(tagged)))
        for tag, section in sorted(tagged, key=lambda each: each[0]):
            out += (write_unsigned_varint(tag), write_unsigned_varint(sum(map(len, section))), *section)


def _write_member(out: list[Buffer], member: Member, value: Any, is_flexible: bool) -> None:
    if not member.is_array:
        if member.layout is not None and member.is_nullable:
            is_there = value is not None
            out.append(bytes([is_there]) if member.tag is not None else b"\1" if is_there else b"\xff")
            if not is_there:
                return
        _write_value(out, member, value, is_flexible)
        return
    out.append(_length(None if value is None else len(value), _INT32, is_flexible))
    for element in value or ():
        _write_value(out, member, element, is_flexible)


def _write_value(out: list[Buffer], member: Member, value: Any, is_flexible: bool) -> None:
    if member.layout is not None:
        _write_struct(out, member.layout, value)
        return
    fixed = _FIXED.get(member.type)
    if fixed is not None:
        out.append(fixed.pack(value))
    elif member.type == "uuid":
        out.append(_uuid_bytes(value))
    elif member.type == "string":
        data = None if value is None else value.encode("utf-8", "surrogateescape")
        out += (_length(None if data is None else len(data), _INT16, is_flexible), data or b"")
    else:
        out += (_length(None if value is None else len(value), _INT32, is_flexible), value or b"")


def _length(size: int | None, layout: struct.Struct, is_flexible: bool) -> bytes:
    """The length in front of a value; None: the value is null."""
    if is_flexible:
        return write_unsigned_varint(0 if size is None else size + 1)
    return layout.pack(-1 if size is None else size)


@lru_cache(maxsize=1 << 12)
def _uuid_bytes(text: str) -> bytes:
    """The 16 bytes of a uuid that ``messagereader.uuid_text`` names."""
    return urlsafe_b64decode(text + "==")
