"""Messages as the generated ``*JsonConverter`` classes print them.

Source: shared/spec/decoders.md section 2.
"""

from __future__ import annotations

from base64 import b64encode
from typing import cast

from kdump.format.message import Field, Schema, Value
from kdump.kafka.java import json_string


def known_version(schema: Schema, values: dict[str, Value]) -> int:
    """The version whose members are shown: the one the message's own field claims, or the nearest known one."""
    return min(max(cast(int, values["version"]), schema.versions.low), schema.versions.high)


def message_json(schema: Schema, version: int, values: dict[str, Value]) -> str:
    """Compact JSON of ``values`` with the members that ``version`` has, in the schema's order."""
    return _struct_json(schema.fields, version, values)


def _struct_json(fields: tuple[Field, ...], version: int, values: dict[str, Value]) -> str:
    members = []
    for field in fields:
        value = values[field.name]
        tagged = field.tag is not None and version in field.tagged
        # A tagged field is printed when it differs from its default, any other one always.
        if version in field.versions and not (tagged and value == field.default):
            members.append(f'"{field.name}":{_value_json(field, version, value)}')
    return "{" + ",".join(members) + "}"


def _value_json(field: Field, version: int, value: Value) -> str:
    if value is None:
        return "null"
    element = field.element
    if element is not None:
        return "[" + ",".join(_value_json(element, version, item) for item in cast(list[Value], value)) + "]"
    if field.fields:
        return _struct_json(field.fields, version, cast(dict[str, Value], value))
    if isinstance(value, bytes):
        return f'"{b64encode(value).decode()}"'
    if isinstance(value, str):
        return json_string(value)
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)
