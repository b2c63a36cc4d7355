"""Kafka's internal topics: the frames of their keys and values, and the messages inside.

Source: docs/spec/decoders.md#3-coordinator-decoders (sections 3 to 5; Kafka's CoordinatorRecordSerde and
AbstractApiMessageSerde).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple

from kdump.codes import Codes, DamageError
from kdump.format.message import MessageError, Schema, read_message, record_schemas, schemas
from kdump.format.messagereader import UNKNOWN_TAGS, Value, WholeReader
from kdump.format.record import Headers
from kdump.payloads.decoded import LARGEST_OBJECT, Decoded, DecodeErrorKind, PayloadError, RecordPart
from kdump.payloads.message_json import shown
from kdump.payloads.topics import INTERNAL_TOPICS
from kdump.releases import NEWEST
from kdump.wire.cursor import Cursor

_INT16: Final = 2
_LARGEST_INT16: Final = 0x7FFF
_FRAME_VERSION: Final = 1
_STATE: Final = "transactionStatus"
_SHORT_FRAME: Final = 3
"""Bytes of the frame of a metadata record: its version, type, and the version of the message, each of one byte."""
_LONG_VARINT: Final = 0x80
"""A byte from here on is not the last one of a varint."""
_CONSUMER: Final = "consumer"
"""The protocol type of groups whose members' bytes are messages of the consumer protocol."""
MEMBER_MESSAGES: Final = {"subscription": "ConsumerProtocolSubscription", "assignment": "ConsumerProtocolAssignment"}
"""The members of GroupMetadata that hold another message, with its schema."""


class DecodedMessage(NamedTuple):
    """A decoded message with all fields of its schema."""

    schema: Schema
    version: int
    values: dict[str, Value]

    @property
    def record_type(self) -> int:
        """The number of its type. ValueError for a message that is no record."""
        if self.schema.api_key is None:
            raise ValueError(f"{self.schema.name} is no record")
        return self.schema.api_key

    @property
    def shown(self) -> dict[str, Value]:
        """The members that this version has, as ``message_json.shown`` chooses them."""
        return shown(self.schema.layout(self.version), self.values)


@dataclass(frozen=True, slots=True)
class CoordinatorDecoder:
    """Topics of a coordinator: the key holds the type of the record, the value its version."""

    name: str
    group: str
    """Of the schemas."""
    release: str | None = None
    """Whose schemas these are, see ``kdump.format.message.schemas``."""

    def decode(self, key: bytes | None, value: bytes | None, headers: Headers = ()) -> Decoded:
        """See RecordDecoder; the key is decoded also where the value is not."""
        try:
            key_message = self.key(key)
        except PayloadError as error:
            return Decoded(key, value, [error])
        decoded_key = key_frame(key_message)
        if value is None:
            return Decoded(decoded_key, None)
        try:
            return Decoded(decoded_key, value_frame(self.value(key_message.record_type, value)))
        except PayloadError as error:
            return Decoded(decoded_key, value, [error])

    def key(self, data: bytes | None) -> DecodedMessage:
        """Raises PayloadError; a null key is one too."""
        if data is None:
            raise PayloadError(DecodeErrorKind.MISSING, RecordPart.KEY, "is null, it says what the record is")
        number = _int16(data, RecordPart.KEY)
        schema = self.key_schema(number)
        if schema is None:
            text = f"has the unknown record type {number}"
            raise PayloadError(DecodeErrorKind.UNKNOWN_TYPE, RecordPart.KEY, text, number=number)
        return self._message(schema, 0, data, RecordPart.KEY, number)

    def value(self, record_type: int, data: bytes) -> DecodedMessage:
        """The value of a record of that type. Raises PayloadError."""
        schema = record_schemas(self.group, "coordinator-value", self.release)[record_type]
        version = _int16(data, RecordPart.VALUE)
        if version not in schema.versions:
            text = f"is {schema.name} of version {version}, versions up to {schema.versions.high} are known"
            raise PayloadError(
                DecodeErrorKind.UNKNOWN_VERSION, RecordPart.VALUE, text, number=version, record_type=record_type
            )
        return self._message(schema, version, data, RecordPart.VALUE, version)

    def key_schema(self, number: int) -> Schema | None:
        """The schema of keys of a record type; None for an unknown one."""
        return record_schemas(self.group, "coordinator-key", self.release).get(number)

    def value_schema(self, number: int) -> Schema | None:
        """The schema of its values."""
        return record_schemas(self.group, "coordinator-value", self.release).get(number)

    def _message(self, schema: Schema, version: int, data: bytes, part: RecordPart, number: int) -> DecodedMessage:
        try:
            _check_size(data)
            return DecodedMessage(
                schema, version, read_message(schema, version, Cursor(data, _INT16, code=Codes.DECODER))
            )
        except MessageError as error:
            text = f"is {schema.name} of version {version} and does not decode: {error.message}"
            raise PayloadError(
                DecodeErrorKind.BROKEN, part, text, number=number, record_type=schema.api_key, cause=error.cause
            ) from None


@dataclass(frozen=True, slots=True)
class MetadataDecoder:
    """Topics whose values begin with the type and version of the message. Their keys are not used."""

    name: str
    group: str
    release: str | None = None
    """See CoordinatorDecoder."""

    def decode(self, key: bytes | None, value: bytes | None, headers: Headers = ()) -> Decoded:
        """See RecordDecoder; a key, if there is one, stays as it is."""
        try:
            message = self.value(value)
            frame = metadata_frame(message)
            frame["data"] |= unknown_tags(message)
            return Decoded(key, frame)
        except PayloadError as error:
            return Decoded(key, value, [error])

    def value(self, data: bytes | None) -> DecodedMessage:
        """The value of a record. Raises PayloadError, also for null."""
        data = data or b""
        known = _known_frame(self.group, self.release, data[:_SHORT_FRAME])
        if known is not None and len(data) <= LARGEST_OBJECT:
            schema, version, read = known
            values = read(data, _SHORT_FRAME)
            if values is not None:
                return DecodedMessage(schema, version, values)
        return self._value(data)

    def _value(self, data: bytes) -> DecodedMessage:
        """Step by step, which says what is wrong."""
        cursor = Cursor(data, code=Codes.DECODER)
        frame_version = _frame_number(cursor, "frame version")
        if frame_version != _FRAME_VERSION:
            text = f"has the unknown frame version {frame_version}"
            raise PayloadError(DecodeErrorKind.FRAME_VERSION, RecordPart.VALUE, text, number=frame_version)
        number = _frame_number(cursor, "type")
        version = _frame_number(cursor, "version")
        schema = record_schemas(self.group, "metadata", self.release).get(number)
        if schema is None:
            text = f"has the unknown record type {number}"
            raise PayloadError(DecodeErrorKind.UNKNOWN_TYPE, RecordPart.VALUE, text, number=number)
        try:
            _check_size(data)
            values = read_message(schema, version, cursor)
        except MessageError as error:
            text = f"is {schema.name} of version {version} and does not decode: {error.message}"
            raise PayloadError(
                DecodeErrorKind.BROKEN, RecordPart.VALUE, text, record_type=number, version=version, cause=error.cause
            ) from None
        if cursor.remaining:
            text = f"is {schema.name} of version {version} with {cursor.remaining} bytes left after it"
            raise PayloadError(
                DecodeErrorKind.BYTES_LEFT,
                RecordPart.VALUE,
                text,
                number=cursor.remaining,
                record_type=number,
                version=version,
            )
        return DecodedMessage(schema, version, values)


@lru_cache(maxsize=1 << 10)
def _known_frame(group: str, release: str | None, head: bytes) -> tuple[Schema, int, WholeReader] | None:
    """Schema, version, and how the message is read, by a frame of three bytes; None for any other."""
    if len(head) < _SHORT_FRAME or max(head) >= _LONG_VARINT or head[0] != _FRAME_VERSION:
        return None
    schema = record_schemas(group, "metadata", release).get(head[1])
    return None if schema is None else (schema, head[2], schema.layout(head[2]).read_whole)


InternalDecoder = CoordinatorDecoder | MetadataDecoder

_COORDINATORS: Final = {
    "offsets": "group-coordinator",
    "transaction-log": "transaction-coordinator",
    "share-group-state": "share-coordinator",
}
"""Groups of schemas."""

DECODERS: Final[dict[str, InternalDecoder]] = {
    name: CoordinatorDecoder(name, _COORDINATORS[name]) if name in _COORDINATORS else MetadataDecoder(name, name)
    for name in INTERNAL_TOPICS
}


def key_frame(message: DecodedMessage) -> dict[str, Any]:
    """A coordinator's key as the Java tool frames it; the type is a string there."""
    return {"type": str(message.record_type), "data": message.shown}


def value_frame(message: DecodedMessage) -> dict[str, Any]:
    """A coordinator's value as the Java tool frames it; the version is a string there."""
    return {"version": str(message.version), "data": value_members(message)}


def metadata_frame(message: DecodedMessage) -> dict[str, Any]:
    """A metadata record as the Java tool frames it."""
    return {"type": type_name(message.schema), "version": message.version, "data": message.shown}


def unknown_tags(message: DecodedMessage) -> dict[str, Value]:
    """The tagged fields of a message that kdump does not know, as they are stored; empty where there are none."""
    return {UNKNOWN_TAGS: message.values[UNKNOWN_TAGS]} if UNKNOWN_TAGS in message.values else {}


_WORD: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def type_name(schema: Schema) -> str:
    """``ZkMigrationStateRecord`` is ``ZK_MIGRATION_STATE_RECORD``."""
    return _WORD.sub("_", schema.name).upper()


def value_members(message: DecodedMessage, *, newest: bool = True, names_states: bool = True) -> dict[str, Value]:
    """The members of a coordinator's value, with the messages inside members of a consumer group decoded.

    Bytes that do not decode stay bytes. With ``newest=False`` messages of an unknown version, and structs inside, stay
    bytes too, as in the Java tool. Otherwise they are read as the newest known version. ``names_states``: the state of
    a transaction is shown by its name, an unknown one by its number as a text (TransactionLogMessageParser).
    """
    values = message.shown
    if newest:
        values |= unknown_tags(message)
    if names_states and message.schema.name == "TransactionLogValue":
        number, names = values[_STATE], NEWEST.transaction_states
        assert isinstance(number, int)
        values[_STATE] = names[number] if 0 <= number < len(names) else str(number)
    members = values.get("members")
    if message.schema.name != "GroupMetadataValue" or values["protocolType"] != _CONSUMER:
        return values
    for member in members if isinstance(members, list) else ():
        assert isinstance(member, dict)
        for name, schema_name in MEMBER_MESSAGES.items():
            data = member[name]
            if isinstance(data, bytes):
                member[name] = _member_message(schemas()[schema_name], data, newest)
    return values


def _member_message(schema: Schema, data: bytes, newest: bool) -> Value:
    try:
        return member_message(schema, data, newest=newest)
    except (PayloadError, MessageError):
        return data


def member_message(schema: Schema, data: bytes, *, newest: bool = True) -> dict[str, Value]:
    """A message of the consumer protocol, as ``value_members`` shows it. Raises PayloadError, MessageError."""
    cursor = Cursor(data, code=Codes.DECODER)
    version = _int16(data, RecordPart.VALUE)
    cursor.position = _INT16
    version = min(version, schema.versions.high) if newest else version
    return DecodedMessage(schema, version, read_message(schema, version, cursor)).shown


def _check_size(data: bytes) -> None:
    """Raises MessageError for a message that would take too much memory."""
    if len(data) > LARGEST_OBJECT:
        raise MessageError(Codes.DECODER, f"{len(data):,} bytes, kdump decodes {LARGEST_OBJECT:,} at most")


def _int16(data: bytes, part: RecordPart) -> int:
    if len(data) < _INT16:
        raise PayloadError(DecodeErrorKind.CUT, part, f"has {len(data)} bytes, {_INT16} are needed to tell what it is")
    return int.from_bytes(data[:_INT16], "big", signed=True)


def _frame_number(cursor: Cursor, name: str) -> int:
    position = cursor.position
    # Nearly all are one byte.
    if position < cursor.end and (byte := cursor.buffer[position]) < _LONG_VARINT:
        cursor.position = position + 1
        return byte
    try:
        number = cursor.unsigned_varint()
    except DamageError:
        raise PayloadError(DecodeErrorKind.CUT, RecordPart.VALUE, f"ends inside its {name}", name=name) from None
    if number > _LARGEST_INT16:
        raise PayloadError(
            DecodeErrorKind.TOO_LARGE, RecordPart.VALUE, f"has the {name} {number}, which is out of range", name=name
        )
    # Java casts 2^31 and above to a negative int.
    return (number + 2**15) % 2**16 - 2**15
