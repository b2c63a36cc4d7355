"""Messages as the generated ``*JsonConverter`` classes print them.

Source: docs/spec/decoders.md#2-json-text.
"""

from __future__ import annotations

import math
from base64 import b64encode
from typing import Any, cast

from kdump.format.message import Schema
from kdump.format.messagereader import Layout, Value
from kdump.payloads.java import json_string
from kdump.payloads.javadouble import double_string


def known_version(schema: Schema, values: dict[str, Value]) -> int:
    """The version whose members are shown: the one the message's own field claims, or the nearest known one."""
    return min(max(cast(int, values["version"]), schema.versions.low), schema.versions.high)


def shown(layout: Layout, values: dict[str, Value]) -> dict[str, Value]:
    """The members that a message of this version has, tagged ones where they are not at their default."""
    members: dict[str, Value] = {}
    for member in layout.members:
        value = values[member.name]
        if member.tag is not None and value == member.default:
            continue
        if member.layout is not None and value is not None:
            inner = member.layout
            if isinstance(value, list):
                value = [shown(inner, item) for item in value if isinstance(item, dict)]
            elif isinstance(value, dict):
                value = shown(inner, value)
        elif isinstance(value, list):
            value = list(value)
        members[member.name] = value
    return members


def message_json(schema: Schema, version: int, values: dict[str, Value]) -> str:
    """Compact JSON of ``values`` with the members that ``version`` has, in the schema's order."""
    return json_text(shown(schema.layout(version), values))


def json_text(value: Value) -> str:
    """Compact JSON of any value of a message, or of an object that holds some."""
    match value:
        case str():
            return json_string(value)
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case dict():
            return "{" + ",".join([f"{json_string(name)}:{json_text(item)}" for name, item in value.items()]) + "}"
        case list():
            return "[" + ",".join(map(json_text, value)) + "]"
        case bytes():
            return f'"{b64encode(value).decode()}"'
        case float():
            text = double_string(value)
            return text if math.isfinite(value) else f'"{text}"'
    return "null"


def json_value(value: Any) -> Any:
    """A value of a message as ``json`` takes it. Bytes and special numbers are written as ``json_text`` does."""
    match value:
        case bytes():
            return b64encode(value).decode()
        case float() if not math.isfinite(value):
            return double_string(value)
        case dict():
            return {name: json_value(item) for name, item in value.items()}
        case list():
            return [json_value(item) for item in value]
    return value
