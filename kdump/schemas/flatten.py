"""Decoded keys and values as columns of their own: the fields of all schemas that a topic uses, side by side.

A field that two schemas have with different types, and what Arrow cannot say (a union of several types, a type inside
itself), is JSON text.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

import pyarrow as pa

from kdump.codes import OnError
from kdump.inputs import Input
from kdump.payloads.decoded import RecordPart
from kdump.schemas.avro import ITEMS, OWN, parse_avro
from kdump.schemas.decoder import SchemaDecoder, UnknownSchemaError, references_of
from kdump.schemas.registry import Registry, SchemaVersion
from kdump.schemas.topic import registries_at
from kdump.schemas.usage import topic_uses
from kdump.verify.partitionentries import PartitionEntries

Convert: TypeAlias = Callable[[Any], Any]
_JSON_TEXT: Final = pa.string()
_WHOLE: Final = ""
_WHOLE_COLUMN: Final = "data"
"""The name of a value that has no fields, and that of its column."""
_DEEPEST: Final = 20
_MOST_COLUMNS: Final = 2000
_EPOCH: Final = datetime(1970, 1, 1)
_MICROSECOND: Final = timedelta(microseconds=1)
_DECODED: Final = {"decodedKey": RecordPart.KEY, "decodedValue": RecordPart.VALUE}
_PRIMITIVES: Final = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "string": pa.string(),
}
_WIDER: Final = {
    frozenset((pa.int32(), pa.int64())): pa.int64(),
    frozenset((pa.float32(), pa.float64())): pa.float64(),
}
"""Two types of one field of which one holds the other."""


class ArrowField(NamedTuple):
    """A type of Arrow, and what makes a value of it of a decoded one."""

    type: pa.DataType
    convert: Convert


def _json_text(value: Any) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


_JSON: Final = ArrowField(_JSON_TEXT, _json_text)


class Used(NamedTuple):
    """A schema that the keys or values of a topic use, as ``schema`` of a decoded one names it."""

    topic: str
    part: str
    id: int
    guid: str | None


class Flattening(NamedTuple):
    """See ``rows.arrowparts.Reshape``.

    ``schemas``: the partitions in which they lie; ``used``: those whose fields are columns.
    """

    schemas: tuple[str, ...]
    used: tuple[Used, ...]

    def schema_of(self, schema: pa.Schema) -> pa.Schema:
        """The same with the columns of fields in the place of the decoded contents."""
        fields: list[pa.Field] = []
        for field in schema:
            if field.name not in _DECODED:
                fields.append(field)
                continue
            part = _DECODED[field.name].value
            fields.append(pa.field(f"{part}SchemaId", pa.int32()))
            types = _columns(self)[part].types
            fields += [pa.field(f"{part}.{name or _WHOLE_COLUMN}", kind) for name, kind in types.items()]
        return pa.schema(fields)

    def of(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows with these columns. What does not fit the type of its column is null there."""
        schema = self.schema_of(rows.schema)
        arrays: list[pa.Array] = []
        for name, column in zip(rows.schema.names, rows.columns, strict=True):
            if name in _DECODED:
                arrays += _columns(self)[_DECODED[name].value].arrays(column.to_pylist())
            else:
                arrays.append(column)
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def notes(self) -> Iterator[str]:
        """What a user should know about the columns."""
        for part, columns in _columns(self).items():
            if len(columns.of) > 1:
                mixed = (
                    f"; JSON text, as their types differ: {', '.join(name or _WHOLE_COLUMN for name in columns.mixed)}"
                    if columns.mixed
                    else ""
                )
                yield f"--flatten: the columns {part}.* are those of {len(columns.of)} schemas{mixed}"


def flattening(schemas: tuple[str, ...], inputs: Sequence[Input], on_error: OnError) -> Flattening:
    """How the keys and values of inputs are flattened; the logs are read for which schemas they use.

    Raises:
        KdumpError: the schemas cannot be read.
    """
    registries = registries_at(schemas)
    found: list[Used] = []
    for topic, uses in topic_uses(PartitionEntries(inputs, on_error=on_error), on_error).items():
        registry = registries.of_topic(topic)
        for part, frame in uses.by_frame:
            if frame.is_one:
                with suppress(UnknownSchemaError):
                    version, _ = SchemaDecoder(part, topic, registry).find(frame)
                    found.append(Used(topic, part.value, version.id, registry.guid_of(version)))
    return Flattening(schemas, tuple(dict.fromkeys(found)))


class _Columns:
    """The columns of keys or of values.

    Args:
        of: the fields of each schema, by its id and GUID.
    """

    def __init__(self, of: dict[tuple[int, str | None], dict[str, ArrowField]]) -> None:
        self.of = of
        self.types: dict[str, pa.DataType] = {}
        self.mixed: list[str] = []
        for fields in of.values():
            for name, field in fields.items():
                before = self.types.get(name)
                if before is None and len(self.types) < _MOST_COLUMNS:
                    self.types[name] = field.type
                elif before is not None and before != field.type:
                    self.types[name] = _WIDER.get(frozenset((before, field.type)), _JSON_TEXT)
                    if self.types[name] == _JSON_TEXT and name not in self.mixed:
                        self.mixed.append(name)

    def arrays(self, texts: list[str | None]) -> Iterator[pa.Array]:
        """The ids of schemas, then the columns, of decoded keys or values as JSON."""
        decoded = [None if text is None else json.loads(text) for text in texts]
        yield pa.array([None if one is None else one["schema"]["id"] for one in decoded], pa.int32())
        values: dict[str, list[Any]] = {name: [None] * len(decoded) for name in self.types}
        for row, one in enumerate(decoded):
            if one is None:
                continue
            fields = self.of.get((one["schema"]["id"], one["schema"]["guid"]), {})
            data = one["data"]
            for name, field in fields.items():
                value = data if name == _WHOLE else data.get(name) if isinstance(data, dict) else None
                if value is not None and name in values:
                    values[name][row] = self._value(name, field, value)
        for name, kind in self.types.items():
            yield _array(values[name], kind)

    def _value(self, name: str, field: ArrowField, value: Any) -> Any:
        if name in self.mixed:
            return _json_text(value)
        with suppress(ValueError, TypeError, KeyError, ArithmeticError, AttributeError):
            return field.convert(value)
        return None


def _array(values: list[Any], kind: pa.DataType) -> pa.Array:
    """An array; what its type cannot hold is null."""
    try:
        return pa.array(values, kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, ValueError, TypeError):
        if len(values) == 1:
            return pa.array([None], kind)
        return pa.concat_arrays([_array([value], kind) for value in values])


@lru_cache(maxsize=16)
def _columns(of: Flattening) -> dict[str, _Columns]:
    found: dict[str, dict[tuple[int, str | None], dict[str, ArrowField]]] = {part.value: {} for part in RecordPart}
    registries = registries_at(of.schemas)
    for used in of.used:
        version = _version(registries.of_topic(used.topic), used)
        if version is not None:
            found[used.part][used.id, used.guid] = _fields(registries.of_topic(used.topic), version)
    return {part: _Columns(fields) for part, fields in found.items()}


def _version(registry: Registry, used: Used) -> SchemaVersion | None:
    for context in registry.contexts_of_id(used.id):
        for version in registry.of_id(context, used.id):
            if used.guid in (None, version.guid):
                return version
    return None


def _fields(registry: Registry, version: SchemaVersion) -> dict[str, ArrowField]:
    """The fields of a schema. One that cannot be used has none, as none of its values decodes."""
    with suppress(Exception):
        match version.type:
            case "AVRO":
                schema = parse_avro(version.text, references_of(registry, version))
                return _Avro(schema.named).fields(schema.type)
            case "PROTOBUF":
                return _protobuf_fields(registry, version)
            case "JSON":
                properties = json.loads(version.text).get("properties")
                return dict.fromkeys(properties, _JSON) if properties else {_WHOLE: _JSON}
    return {}


class _Avro(NamedTuple):
    """Types of Avro as types of Arrow. ``within``: the records that a type is inside of."""

    named: Mapping[str, Any]
    within: tuple[str, ...] = ()

    def fields(self, schema: Any) -> dict[str, ArrowField]:
        """Those of a record; any other type is one field."""
        if not isinstance(schema, dict) or schema["type"] != "record":
            return {_WHOLE: self.field(schema)}
        inner = self._replace(within=(*self.within, schema["name"]))
        return {field["name"]: inner.field(field["type"]) for field in schema["fields"]}

    def field(self, schema: Any) -> ArrowField:
        """The type of a parsed schema. A type inside itself is text, and so is what is nested deep."""
        match schema:
            case str() if schema in _PRIMITIVES:
                return ArrowField(_PRIMITIVES[schema], lambda value: value)
            case str() if schema in self.named and schema not in self.within and len(self.within) < _DEEPEST:
                return self.field(self.named[schema])
            case list():
                branches = [branch for branch in schema if branch != "null"]
                return self.field(branches[0]) if len(branches) == 1 else _JSON
            case {"type": "array" | "map" as kind}:
                return (_list if kind == "array" else _map)(self.field(schema[ITEMS[kind]]))
            case {"type": "record"}:
                return _struct(self.fields(schema))
            case {"type": "enum"}:
                return ArrowField(pa.string(), str)
            case {"type": str(), "logicalType": str() as name} if name.startswith(OWN):
                return _logical(schema, name.removeprefix(OWN))
            case {"type": str() as kind}:
                return self.field(kind)
        return _JSON


def _logical(schema: Mapping[str, Any], name: str) -> ArrowField:
    """The type of one of kdump's own logical types, see ``avro``."""
    match name:
        case "decimal":
            precision, scale = schema["precision"], schema.get("scale", 0)
            make = pa.decimal128 if precision <= 38 else pa.decimal256
            return ArrowField(make(precision, scale), _decimal) if precision <= 76 else _JSON
        case "float" | "double":
            return ArrowField(pa.float32() if name == "float" else pa.float64(), _float)
        case "uuid":
            return ArrowField(pa.string(), lambda value: value["$uuid"] if isinstance(value, dict) else value)
        case "date":
            return ArrowField(
                pa.date32(), _of_text("$date", lambda text: (date.fromisoformat(text) - _EPOCH.date()).days)
            )
        case "time-millis":
            return ArrowField(pa.time32("ms"), _of_text("$time", lambda text: _micros_of_day(text) // 1000))
        case "time-micros":
            return ArrowField(pa.time64("us"), _of_text("$time", _micros_of_day))
        case "bytes":
            return ArrowField(pa.binary(), _bytes)
    unit, step = ("ms", 1000) if name.endswith("millis") else ("us", 1)
    is_local = name.startswith("local-")
    member = "$local_timestamp" if is_local else "$timestamp"
    return ArrowField(
        pa.timestamp(unit, None if is_local else "UTC"), _of_text(member, lambda text: _micros(text) // step)
    )


def _decimal(value: Any) -> Decimal:
    return Decimal(value["$decimal"])


def _of_text(member: str, number: Callable[[str], int]) -> Convert:
    """Of what Python has no time for, the number itself is there."""
    return lambda value: number(value[member]) if isinstance(value, dict) else value


def _micros(text: str) -> int:
    return (datetime.fromisoformat(text).replace(tzinfo=None) - _EPOCH) // _MICROSECOND


def _micros_of_day(text: str) -> int:
    return (datetime.combine(_EPOCH, time.fromisoformat(text)) - _EPOCH) // _MICROSECOND


def _bytes(value: Any) -> bytes:
    return bytes.fromhex(value["$bytes"])


def _float(value: Any) -> float:
    """Avro's form, and that of Protobuf."""
    return float(value["$float"] if isinstance(value, dict) else value)


def _list(of: ArrowField) -> ArrowField:
    return ArrowField(pa.list_(of.type), lambda value: [None if one is None else of.convert(one) for one in value])


def _map(of: ArrowField) -> ArrowField:
    def convert(value: Any) -> list[tuple[str, Any]]:
        return [(name, None if one is None else of.convert(one)) for name, one in value.items()]

    return ArrowField(pa.map_(pa.string(), of.type), convert)


def _struct(fields: dict[str, ArrowField]) -> ArrowField:
    if not fields:
        return _JSON

    def convert(value: Any) -> dict[str, Any]:
        return {name: None if value.get(name) is None else field.convert(value[name]) for name, field in fields.items()}

    return ArrowField(pa.struct([(name, field.type) for name, field in fields.items()]), convert)


def _protobuf_fields(registry: Registry, version: SchemaVersion) -> dict[str, ArrowField]:
    """The fields of all messages of the file that a value may be: they share names, as versions do."""
    from kdump.schemas.protobuf import ProtobufFile

    file = ProtobufFile(f"schema {version.id}", version.text, references_of(registry, version))
    columns = _Columns({(number, None): _message(found) for number, found in enumerate(file.messages())})
    return {
        name: _JSON if name in columns.mixed else next(of[name] for of in columns.of.values() if name in of)
        for name in columns.types
    }


def _message(descriptor: Any, within: frozenset[str] = frozenset()) -> dict[str, ArrowField]:
    within |= {descriptor.full_name}
    return {field.name: _protobuf_field(field, within) for field in descriptor.fields}


_NUMBERS: Final = {
    **dict.fromkeys((5, 15, 17), pa.int32()),
    **dict.fromkeys((3, 16, 18), pa.int64()),
    **dict.fromkeys((13, 7), pa.uint32()),
    **dict.fromkeys((4, 6), pa.uint64()),
}
"""By the number of a Protobuf type."""


def _protobuf_field(field: Any, within: frozenset[str]) -> ArrowField:
    message = field.message_type
    if message is not None and message.GetOptions().map_entry:
        return _map(_single(message.fields_by_name["value"], within))
    found = _single(field, within)
    return _list(found) if field.is_repeated else found


def _single(field: Any, within: frozenset[str]) -> ArrowField:
    message = field.message_type
    if message is not None:
        # Protobuf's own messages have JSON of their own.
        is_text = message.full_name in within or message.full_name.startswith("google.protobuf.") or len(within) > 9
        return _JSON if is_text else _struct(_message(message, within))
    match field.type:
        case number if number in _NUMBERS:
            return ArrowField(_NUMBERS[number], int)
        case 8:
            return ArrowField(pa.bool_(), bool)
        case 2 | 1:
            return ArrowField(pa.float32() if field.type == 2 else pa.float64(), _float)
        case 12:
            return ArrowField(pa.binary(), b64decode)
    return ArrowField(pa.string(), str)


def flattened_topics(found: Flattening) -> Iterable[tuple[str, Flattening]]:
    """The same for each topic alone."""
    for topic in dict.fromkeys(one.topic for one in found.used):
        yield topic, found._replace(used=tuple(one for one in found.used if one.topic == topic))
