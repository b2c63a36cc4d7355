"""Avro schemas as decoders of values, by fastavro.

Types that JSON does not have become objects with one member (docs/contract.md#24-values-by-a-schema). fastavro makes
them while it reads: they are logical types of kdump's own in the schema that it gets.
"""

from __future__ import annotations

import json
import math
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from functools import cache, partial
from io import BytesIO
from typing import Any, Final, NamedTuple

Decode = Callable[[bytes], Any]

_DEEPEST: Final = 100
"""Records, arrays, maps and unions inside one another, in a schema and in a value."""
_MOST_FIELDS: Final = 1 << 16
"""Values of a schema without the items of its arrays and maps."""
_FREE: Final = 1 << 16
_FOR_ONE: Final = 10
_MOST: Final = 1 << 24
"""Values that any payload may become, and that each byte of it may be besides; and the most in all: half a gigabyte."""
_OBJECT: Final = 8
"""A record or map counts as so many values."""
_MOST_DIGITS: Final = 4300
"""The largest scale of a decimal, and what Python writes of a number."""
_EPOCH: Final = datetime(1970, 1, 1)
_DAY: Final = timedelta(days=1)
OWN: Final = "kdump-"
_SIZES: Final = {"null": 0, "boolean": 1, "int": 1, "long": 1, "float": 4, "double": 8, "bytes": 1, "string": 1}
"""Primitive types, and the bytes that a value has at least."""
ITEMS: Final = {"array": "items", "map": "values"}
_LOGICAL: Final = {
    "int": {"date", "time-millis"},
    "long": {"time-micros", "timestamp-millis", "timestamp-micros", "local-timestamp-millis", "local-timestamp-micros"},
    "string": {"uuid"},
}


class AvroSchema(NamedTuple):
    """A schema as fastavro has it, with full names.

    ``named``: the named types that it uses. ``is_watched``: values must be scanned before they are read.
    """

    type: Any
    named: Mapping[str, Any]
    is_watched: bool


def parse_avro(text: str, references: Mapping[str, str]) -> AvroSchema:
    """Parse a schema.

    Args:
        text: the schema.
        references: the texts of the schemas that it needs, by name; each after those that it needs itself.

    Raises:
        ValueError: it is no JSON, or nested too deep, or its values would be too large.
        ModuleNotFoundError: fastavro is not installed.
        Exception: it is no schema.
    """
    from fastavro import parse_schema

    named: dict[str, Any] = {}
    for one in references.values():
        parse_schema(_own_types(_loaded(one)), named_schemas=named)
    schema = parse_schema(_own_types(_loaded(text)), named_schemas=named)
    return AvroSchema(schema, named, _outline(schema, named, {}).is_watched)


def avro_decoder(text: str, references: Mapping[str, str]) -> Decode:
    """The decoder of a schema. It raises ValueError, EOFError or others for bytes that do not fit.

    Args and Raises: see ``parse_avro``.
    """
    schema, named, is_watched = parse_avro(text, references)
    from fastavro import schemaless_reader

    _register()
    if isinstance(schema, dict) and (schema["type"], schema.get("logicalType")) == ("bytes", f"{OWN}bytes"):
        # Both deserializers take all that is left.
        return lambda data: {"$bytes": data.hex()}

    def decode(data: bytes) -> Any:
        if is_watched or len(data) * _FOR_ONE > _MOST:
            _scan(schema, named, _AvroScan(data))
        return schemaless_reader(BytesIO(data), schema, None, handle_unicode_errors="replace")

    return decode


def _loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError(f"it is nested more than {_DEEPEST} deep") from None


def _own_types(schema: Any, depth: int = 0) -> Any:
    """A schema with logical types of kdump's own, where values need them; unknown ones are left out."""
    if depth > _DEEPEST:
        raise ValueError(f"it is nested more than {_DEEPEST} deep")
    if isinstance(schema, list):
        return [_own_types(branch, depth + 1) for branch in schema]
    if not isinstance(schema, dict):
        return {"type": schema, "logicalType": f"{OWN}{schema}"} if schema in ("bytes", "float", "double") else schema
    kind, logical = schema.get("type"), schema.get("logicalType")
    if isinstance(kind, dict | list):
        return _own_types(kind, depth + 1)
    found = {name: value for name, value in schema.items() if name not in ("logicalType", "default", "aliases")}
    if kind in ("record", "error"):
        found["type"] = "record"
        found["fields"] = [
            {"name": field["name"], "type": _own_types(field["type"], depth + 1)} for field in schema["fields"]
        ]
    elif kind in ITEMS:
        found[ITEMS[kind]] = _own_types(schema[ITEMS[kind]], depth + 1)
    elif kind in ("bytes", "fixed"):
        found["logicalType"] = f"{OWN}decimal" if logical == "decimal" and _has_scale(schema) else f"{OWN}bytes"
    elif kind in ("float", "double"):
        found["logicalType"] = f"{OWN}{kind}"
    elif isinstance(kind, str) and isinstance(logical, str) and logical in _LOGICAL.get(kind, ()):
        found["logicalType"] = f"{OWN}{logical}"
    return found


def _has_scale(schema: Mapping[str, Any]) -> bool:
    scale, precision = schema.get("scale", 0), schema.get("precision")
    return type(scale) is int and type(precision) is int and 0 <= scale <= min(precision, _MOST_DIGITS)


@cache
def _register() -> None:
    """Tell fastavro the logical types, once a process."""
    from fastavro.read import LOGICAL_READERS

    readers: dict[str, Callable[[Any, Any], Any]] = {
        "bytes-bytes": lambda data, schema: {"$bytes": data.hex()},
        "fixed-bytes": lambda data, schema: {"$bytes": data.hex()},
        "bytes-decimal": _decimal,
        "fixed-decimal": _decimal,
        "float-float": _float,
        "double-double": _float,
        "string-uuid": _uuid,
        "int-date": lambda days, schema: _date(days),
        "int-time-millis": lambda number, schema: _time(number, 1000),
        "long-time-micros": lambda number, schema: _time(number, 1),
        "long-timestamp-millis": lambda number, schema: _timestamp(number, 1000, "$timestamp", "+00:00"),
        "long-timestamp-micros": lambda number, schema: _timestamp(number, 1, "$timestamp", "+00:00"),
        "long-local-timestamp-millis": lambda number, schema: _timestamp(number, 1000, "$local_timestamp", ""),
        "long-local-timestamp-micros": lambda number, schema: _timestamp(number, 1, "$local_timestamp", ""),
    }
    for name, read in readers.items():
        kind, _, logical = name.partition("-")
        LOGICAL_READERS[f"{kind}-{OWN}{logical}"] = partial(_of_schema, read)


def _of_schema(read: Callable[[Any, Any], Any], value: Any, schema: Any = None, reader_schema: Any = None) -> Any:
    return read(value, schema)


def _float(value: float, schema: Any) -> Any:
    if math.isfinite(value):
        return value
    return {"$float": "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"}


def _decimal(data: bytes, schema: Any) -> Any:
    """With all digits of its scale."""
    number, scale = int.from_bytes(data, "big", signed=True), schema.get("scale", 0)
    digits = str(abs(number)).rjust(scale + 1, "0")
    whole, rest = (digits[:-scale], f".{digits[-scale:]}") if scale else (digits, "")
    return {"$decimal": f"{'-' if number < 0 else ''}{whole}{rest}"}


def _uuid(text: str, schema: Any) -> Any:
    """Text that is no uuid stays text, as in Java."""
    try:
        return {"$uuid": str(uuid.UUID(text))}
    except ValueError:
        return text


def _timestamp(number: int, micros: int, name: str, zone: str) -> Any:
    """A time that Python does not have stays a number, and so do the others."""
    with suppress(OverflowError):
        return {name: (_EPOCH + timedelta(microseconds=number * micros)).isoformat(timespec="microseconds") + zone}
    return number


def _date(days: int) -> Any:
    with suppress(OverflowError):
        return {"$date": (_EPOCH + timedelta(days=days)).date().isoformat()}
    return days


def _time(number: int, micros: int) -> Any:
    with suppress(OverflowError):
        since = timedelta(microseconds=number * micros)
        if timedelta() <= since < _DAY:
            return {"$time": (_EPOCH + since).time().isoformat(timespec="microseconds")}
    return number


class _Outline(NamedTuple):
    """What a type may hold, without the items of its arrays and maps.

    Attributes:
        excess: by how much its values may exceed ``_FOR_ONE`` for each byte, at most.
        values: how many they may be.
        depth: how deep they may be nested.
        is_watched: a few bytes may become many values, or values of any depth.
    """

    excess: int
    values: int = 1
    depth: int = 1
    is_watched: bool = False


def _outline(schema: Any, named: Mapping[str, Any], known: dict[str, _Outline | None], depth: int = 0) -> _Outline:
    """The outline of a parsed schema. ``known``: those of named types; None: it is being made."""
    if depth > _DEEPEST:
        raise ValueError(f"it is nested more than {_DEEPEST} deep")

    def inner(of: Any) -> _Outline:
        return _outline(of, named, known, depth + 1)

    match schema:
        case str() if schema in _SIZES:
            return _primitive(_SIZES[schema])
        case str():
            # A type inside itself has any depth.
            return (known[schema] or _Outline(1, is_watched=True)) if schema in known else inner(named[schema])
        case list():
            branches = list(map(inner, schema))
            most = max((one.excess for one in branches), default=0) - _FOR_ONE
            return _joined(branches, most, max((one.values for one in branches), default=0))
        case {"type": "array" | "map" as kind}:
            items = inner(schema[ITEMS[kind]])
            # In front of a value of a map is its name.
            excess = items.excess - (_FOR_ONE if kind == "map" else 0)
            return _joined([items], _OBJECT - _FOR_ONE, 1, is_watched=excess > 0)
        case {"type": "enum"}:
            return _primitive(1)
        case {"type": "fixed", "size": int() as size} if size >= 0:
            return _primitive(size)
        case {"type": "record", "name": name, "fields": fields}:
            known[name] = None
            parts = [inner(field["type"]) for field in fields]
            found = _joined(parts, _OBJECT + sum(one.excess for one in parts), 1 + sum(one.values for one in parts))
            known[name] = found
            return found
        case {"type": str() as kind} if kind in _SIZES:
            return _primitive(_SIZES[kind])
    raise ValueError("it has a type that Avro does not know")


def _primitive(size: int) -> _Outline:
    """Of one value with ``size`` bytes at least."""
    return _Outline(1 - _FOR_ONE * size)


def _joined(parts: list[_Outline], excess: int, values: int, *, is_watched: bool = False) -> _Outline:
    depth = 1 + max((one.depth for one in parts), default=0)
    if values > _MOST_FIELDS or depth > _DEEPEST:
        raise ValueError("it describes values that are too large or too deep")
    return _Outline(excess, values, depth, is_watched or any(one.is_watched for one in parts))


class _AvroScan:
    """Where a scan is, and how many values may still come."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self.left = min(_FREE + _FOR_ONE * len(data), _MOST)

    def take(self, values: int) -> None:
        self.left -= values
        if self.left < 0:
            raise ValueError(f"{len(self.data):,} bytes become too many values")

    def skip(self, size: int) -> None:
        if not 0 <= size <= len(self.data) - self.at:
            raise ValueError("it ends early")
        self.at += size

    def long(self) -> int:
        found = shift = 0
        while True:
            self.skip(1)
            byte = self.data[self.at - 1]
            found |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                return found >> 1 ^ -(found & 1)
            if shift > 63:
                raise ValueError("a number has more than 64 bits")


def _scan(schema: Any, named: Mapping[str, Any], reading: _AvroScan, depth: int = 0) -> None:  # noqa: PLR0912
    """Go over a value of a parsed schema. Raises ValueError where it is too deep or too large."""
    if depth > _DEEPEST:
        raise ValueError(f"it is nested more than {_DEEPEST} deep")
    if isinstance(schema, list):
        number = reading.long()
        if not 0 <= number < len(schema):
            raise ValueError(f"a union has no branch {number}")
        return _scan(schema[number], named, reading, depth + 1)
    kind = schema["type"] if isinstance(schema, dict) else schema
    reading.take(_OBJECT if kind in ("record", "array", "map") else 1)
    match kind:
        case "null":
            pass
        case "boolean":
            reading.skip(1)
        case "int" | "long" | "enum":
            reading.long()
        case "float" | "double":
            reading.skip(_SIZES[kind])
        case "bytes" | "string":
            reading.skip(reading.long())
        case "fixed":
            reading.skip(schema["size"])
        case "record" | "error":
            for field in schema["fields"]:
                _scan(field["type"], named, reading, depth + 1)
        case "array" | "map":
            while count := reading.long():
                if count < 0:
                    reading.long()
                if abs(count) > reading.left:
                    reading.take(abs(count))
                for _ in range(abs(count)):
                    if kind == "map":
                        reading.skip(reading.long())
                    _scan(schema[ITEMS[kind]], named, reading, depth + 1)
        case str():
            _scan(named[kind], named, reading, depth)
        case _:
            _scan(kind, named, reading, depth)
    return None
