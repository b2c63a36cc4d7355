"""Keys and values as the serializers of a schema registry write them: a decoder for ``kdump.payloads.registry``.

In front of the data, or in a header of the record, stands which schema it has: a byte 0 and an id (int32), or a byte 1
and a GUID (16 bytes). Protobuf has after it the path of the message in its file.
"""

from __future__ import annotations

import json
import math
import struct
import uuid
from collections.abc import Callable
from typing import Any, Final, NamedTuple, NoReturn, Self, TypeAlias
from weakref import WeakKeyDictionary

from kdump.codes import DamageError
from kdump.format.record import Headers
from kdump.payloads.decoded import RecordPart
from kdump.payloads.plain import json_like
from kdump.schemas.registry import DEFAULT_CONTEXT, Place, Registry, SchemaVersion, context_of, plain_subject
from kdump.schemas.topic import registries_at
from kdump.wire.jsontext import no_constant
from kdump.wire.varint import read_varint

HEADERS: Final = {RecordPart.KEY: b"__key_schema_id", RecordPart.VALUE: b"__value_schema_id"}
ID: Final = 0
GUID: Final = 1
_GLUE: Final = 3
"""The first byte."""
ID_END: Final = 5
GUID_END: Final = 17
_INT32: Final = struct.Struct(">i")
_MOST_INDEXES: Final = 100
_MOST_REFERENCES: Final = 1000


class SchemaFrame(NamedTuple):
    """Which schema some bytes name. ``end``: where they end. Either an id or a GUID is there."""

    id: int | None
    guid: str | None
    end: int

    @property
    def is_one(self) -> bool:
        """It names a schema."""
        return self.end > 0


class NotFramedError(ValueError):
    """Bytes name no schema."""


def parse_frame(data: bytes) -> SchemaFrame:
    """The schema that bytes begin with.

    Raises:
        NotFramedError: it names none.
        ValueError: it ends early.
    """
    kind = data[0] if data else -1
    if kind == ID:
        if len(data) < ID_END:
            raise NotFramedError(f"it has {len(data)} bytes, a prefix with an id has {ID_END}")
        return SchemaFrame(_INT32.unpack_from(data, 1)[0], None, ID_END)
    if kind == GUID:
        if len(data) < GUID_END:
            raise NotFramedError(f"it has {len(data)} bytes, a prefix with a GUID has {GUID_END}")
        return SchemaFrame(None, str(uuid.UUID(bytes=data[1:GUID_END])), GUID_END)
    if kind == _GLUE:
        raise NotFramedError("it begins with 0x03, as values of AWS Glue do: their schemas are not in Kafka")
    what = f"begins with 0x{kind:02x}" if data else "is empty"
    raise NotFramedError(f"it is not in the wire format of a schema registry: it {what}")


class UnknownSchemaError(ValueError):
    """Bytes name a schema that is not in the registry."""


class _Doubt(NamedTuple):
    """What else an id may stand for. ``is_own``: a schema of a subject of the same topic."""

    text: str = ""
    is_own: bool = False


class SchemaDecoder:
    """Decodes the keys or the values of one topic. Called, it gives ``{"schema": ..., "data": ...}``.

    Args:
        part: keys or values.
        topic: of the log, if it is known.
        registry: with the schemas.
        is_asked: the user asked for this decoder. False: bytes that name no schema of the registry stay bytes, and
            nothing is said, unless the registry has a subject of the topic.
    """

    def __init__(self, part: RecordPart, topic: str | None, registry: Registry, *, is_asked: bool = True) -> None:
        self._header = HEADERS[part]
        self._own = f"{topic}-{part.value}"
        self._registry = registry
        self._is_asked = is_asked or any(plain_subject(one) == self._own for one in registry.subjects())
        self._known: dict[tuple[int | None, str | None], _Schema] = {}

    @classmethod
    def for_log(cls, part: RecordPart, topic: str | None, schemas: tuple[str, ...] | None, *, is_asked: bool) -> Self:
        """The decoder of a log, see ``payloads.registry``. Raises KdumpError where the schemas cannot be read."""
        if schemas is None:
            raise ValueError("it needs to know where the schemas are (--schemas PATH)")
        return cls(part, topic, registries_at(schemas).of_topic(topic), is_asked=is_asked)

    def __call__(self, data: bytes, headers: Headers = ()) -> Any:
        """Decode. Bytes come back as they are where they name no schema and nobody asked for this decoder.

        Raises:
            ValueError: with the reason why they do not decode.
        """
        header = None
        for name, value in headers:
            if name == self._header:
                # Of several the last one counts, as in Java.
                header = value
        try:
            frame = parse_frame(data if header is None else header)
        except NotFramedError as error:
            if header is None and not self._is_asked:
                return data
            raise (error if header is None else ValueError(f"its header {self._header.decode()}: {error}")) from None
        try:
            schema = self._schema(frame)
        except UnknownSchemaError:
            if header is None and not self._is_asked:
                # A number in eight bytes begins so.
                return data
            raise
        if header is not None:
            return {"schema": schema.head, "data": schema.decode(data, 0, header, frame.end)}
        return {"schema": schema.head, "data": schema.decode(data, frame.end, data, frame.end)}

    def _schema(self, frame: SchemaFrame) -> _Schema:
        found = self._known.get(frame[:2])
        if found is None:
            found = self._known[frame[:2]] = _Schema(self._registry, *self.find(frame))
        return found

    def find(self, frame: SchemaFrame) -> tuple[SchemaVersion, _Doubt]:
        """The schema that some bytes name, and what is in doubt about it. Raises UnknownSchemaError."""
        if frame.id is not None:
            return self._of_id(frame.id)
        assert frame.guid is not None
        version = None if self._registry.of_karapace else self._registry.of_guid(frame.guid)
        if version is None:
            raise UnknownSchemaError(f"the GUID {frame.guid} is not in the registry")
        return version, _Doubt()

    def _of_id(self, number: int) -> tuple[SchemaVersion, _Doubt]:
        """See ``find``.

        A client asks for ids of the default context, unless its address names another one. The bytes do not say which.
        """
        found = next(self._registry.of_id(DEFAULT_CONTEXT, number), None)
        others = [
            next(self._registry.of_id(context, number))
            for context in self._registry.contexts_of_id(number)
            if context != DEFAULT_CONTEXT
        ]
        others = [one for one in others if found is None or one.digest != found.digest]
        own = [one for one in others if self._is_own(one)]
        if found is None:
            if len(own) == 1:
                return own[0], _Doubt()
            where = f"; it is in the contexts {', '.join(one.context for one in others)}" if others else ""
            if (lost := self._registry.gone.get((DEFAULT_CONTEXT, number))) is not None:
                subject, version = lost[0].place
                where = f"; {subject} version {version} had it, and was deleted for good at offset {lost[1]}"
            raise UnknownSchemaError(f"the id {number} is not in the registry{where}")
        if not others:
            return found, _Doubt()
        places = ", ".join(f"{one.place.subject} {one.place.version}" for one in own or others)
        return found, _Doubt(f"in another context the id {number} is {places}", bool(own))

    def _is_own(self, version: SchemaVersion) -> bool:
        """Its subject is that of the topic in the context of the schema."""
        return any(
            plain_subject(place.subject) == self._own and context_of(place.subject) == version.context
            for place in self._registry.places_of(version)
        )


_Decode: TypeAlias = Callable[[bytes, int, bytes, int], Any]
_compiled: Final[WeakKeyDictionary[Registry, dict[Place, _Decode]]] = WeakKeyDictionary()
"""A topic has many logs, and each has a decoder."""


class _Schema:
    """A schema as a decoder. It is compiled when it is used first, once.

    Attributes:
        head: what is said of it.
    """

    def __init__(self, registry: Registry, version: SchemaVersion, doubt: _Doubt) -> None:
        self.head: dict[str, Any] = {
            "id": version.id,
            "guid": registry.guid_of(version),
            "type": version.type,
            "subjects": [place._asdict() for place in registry.places_of(version)],
        }
        if doubt.is_own:
            self.head["doubt"] = doubt.text
        self._doubt = f"; {doubt.text}" if doubt.text else ""
        compiled = _compiled.setdefault(registry, {})
        if version.place not in compiled:
            compiled[version.place] = _compile(registry, version)
        self._decode = compiled[version.place]

    def decode(self, data: bytes, start: int, index: bytes, index_start: int) -> Any:
        """Decode bytes from ``start`` on. ``index``: what has the path of a message, from ``index_start`` on.

        Raises:
            ValueError: they do not decode.
        """
        try:
            return self._decode(data, start, index, index_start)
        except MemoryError:
            raise
        except Exception as error:
            raise ValueError(f"{_text(error)} (schema {self.head['id']}{self._doubt})") from None


def _failing(reason: str) -> Callable[[bytes, int, bytes, int], NoReturn]:
    def fail(data: bytes, start: int, index: bytes, index_start: int) -> NoReturn:
        raise ValueError(reason)

    return fail


def _text(error: Exception) -> str:
    if isinstance(error, EOFError):
        return "it ends early"
    if isinstance(error, IndexError):
        return "it has a branch of a union or a symbol of an enum that the schema does not have"
    said = str(error)
    return said if type(error) is ValueError else f"{type(error).__name__}: {said}".removesuffix(": ")


def _compile(registry: Registry, version: SchemaVersion) -> _Decode:
    """A decoder that raises what is wrong with the schema, if there is something."""
    try:
        return _of_type(registry, version)
    except ModuleNotFoundError as error:
        package = "protobuf" if version.type == "PROTOBUF" else "fastavro"
        return _failing(f"its schema needs {package}: pip install {package} ({error})")
    except MemoryError:
        raise
    except Exception as error:
        # Libraries raise what they like at a schema that is none.
        return _failing(f"its schema {version.id} cannot be used: {_text(error)}")


def _of_type(registry: Registry, version: SchemaVersion) -> _Decode:
    match version.type:
        case "AVRO":
            from kdump.schemas.avro import avro_decoder

            decode = avro_decoder(version.text, references_of(registry, version))
            return lambda data, start, index, index_start: decode(data[start:])
        case "PROTOBUF":
            return _protobuf(registry, version)
        case "JSON":
            return lambda data, start, index, index_start: _json(data[start:])
    raise ValueError(f"schemas of the type {version.type} are unknown")


def _protobuf(registry: Registry, version: SchemaVersion) -> _Decode:
    from kdump.schemas.protobuf import ProtobufFile

    file = ProtobufFile(f"schema {version.id}", version.text, references_of(registry, version))

    def decode(data: bytes, start: int, index: bytes, index_start: int) -> Any:
        path, end = _message_index(index, index_start)
        return file.decoder(path)(data[end if index is data else start :])

    return decode


def references_of(registry: Registry, version: SchemaVersion) -> dict[str, str]:
    """The texts that a schema refers to, and those that they refer to, each after its own. Raises ValueError."""
    found: dict[str, str] = {}
    begun: set[str] = set()

    def add(owner: SchemaVersion) -> None:
        for reference in owner.references:
            if reference.name in begun:
                continue
            begun.add(reference.name)
            if len(begun) > _MOST_REFERENCES:
                raise ValueError(f"it needs more than {_MOST_REFERENCES:,} other schemas")
            needed = registry.referred(reference, owner.context)
            if needed is None:
                raise ValueError(f"{reference.subject} version {reference.version} is not in the registry")
            add(needed)
            found[reference.name] = needed.text

    try:
        add(version)
    except RecursionError:
        raise ValueError("its references are too deep") from None
    return found


def _message_index(data: bytes, at: int) -> tuple[tuple[int, ...], int]:
    """The path of a message in its file, and where it ends. Nothing but a 0 stands for the first message."""
    try:
        count, at = read_varint(data, at, len(data))
        if not 0 <= count <= _MOST_INDEXES:
            raise ValueError(f"its message index has {count} numbers")
        path = []
        for _ in range(count):
            number, at = read_varint(data, at, len(data))
            path.append(number)
    except DamageError as error:
        raise ValueError(f"its message index cannot be read: {error.message}") from None
    return tuple(path) or (0,), at


def _number(text: str) -> Any:
    number = float(text)
    return number if math.isfinite(number) else {"$float": "Infinity" if number > 0 else "-Infinity"}


def _json(data: bytes) -> Any:
    try:
        found = json.loads(data, parse_float=_number, parse_constant=no_constant)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    return json_like(found, len(data))
