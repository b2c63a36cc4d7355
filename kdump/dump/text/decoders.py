"""Keys and payloads of internal topics as DumpLogSegments prints them with a decoder, errors included.

Source: docs/spec/decoders.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, Protocol

from kdump.codes import Codes, DamageError
from kdump.dump.text.remotemetadata import RefusedError, remote_metadata_text
from kdump.format.legacy import ContentSizeError, Message
from kdump.format.record import Headers
from kdump.payloads.decoded import DecodeErrorKind, PayloadError, RecordDecoder, RecordPart, Undecoded
from kdump.payloads.internal import (
    CoordinatorDecoder,
    DecodedMessage,
    MetadataDecoder,
    key_frame,
    metadata_frame,
    value_members,
)
from kdump.payloads.javadouble import double_string
from kdump.payloads.message_json import json_text
from kdump.payloads.registry import NONE, PlainRecordDecoder
from kdump.wire.utf8 import decode_utf8

DELETED: Final = "<DELETE>"


class LineContents(NamedTuple):
    """The texts of a record's line. None: the line shows nothing, not even the word in front of it."""

    key: str | None
    payload: str | None
    problems: tuple[PayloadError, ...] = ()
    """Why parts of it do not decode."""


class ContentsDecoder(Protocol):
    """Makes the contents of record lines."""

    @property
    def coordinator(self) -> CoordinatorDecoder | None:
        """The records are those of a coordinator, which stops at a record without key."""

    @property
    def in_columns(self) -> bool:
        """Its texts are always valid UTF-8, which lines made as columns need."""

    def contents(self, offset: int, key: bytes | None, value: bytes | None, headers: Headers = ()) -> LineContents:
        """The contents of one record. DamageError where the Java tool stops."""

    def ill_fitting(self, offset: int, message: Message, error: ContentSizeError) -> LineContents:
        """The contents of a message of magic 0 or 1 whose key or value does not fit it.

        DamageError where the Java tool stops.
        """


class TextDecoding(NamedTuple):
    """How the contents of a log's records are made, and who takes the reasons of what does not decode."""

    decoder: ContentsDecoder
    report: Undecoded

    def contents(self, offset: int, key: bytes | None, value: bytes | None, headers: Headers = ()) -> LineContents:
        """The contents of the next record. Its problems are reported."""
        return self._reported(offset, self.decoder.contents(offset, key, value, headers))

    def message_contents(self, offset: int, message: Message) -> LineContents:
        """The contents of a message of magic 0 or 1. ``offset`` is that of its record."""
        try:
            key, value = message.key(), message.value()
        except ContentSizeError as error:
            return self._reported(offset, self.decoder.ill_fitting(offset, message, error))
        return self.contents(offset, key, value)

    def _reported(self, offset: int, made: LineContents) -> LineContents:
        for problem in made.problems:
            self.report(offset, problem)
        return made


class JavaNames(NamedTuple):
    """What a version of Kafka calls things that its texts name."""

    record_class: str = "org.apache.kafka.common.record.internal.Record"
    remote_metadata: Callable[[DecodedMessage], str] = remote_metadata_text
    """The text of a record of remote log metadata."""
    names_states: bool = True
    """The state of a transaction is a name, and not a number."""


def contents_decoder(
    decoder: RecordDecoder, *, goes_on: bool = False, names: JavaNames | None = None
) -> ContentsDecoder:
    """How the tool prints the records that ``decoder`` reads, or would print them with that decoder.

    ``goes_on``: a record at which the Java tool stops is shown as it is without a decoder. ``names``: of an older
    version.
    """
    names = names or JavaNames()
    match decoder:
        case CoordinatorDecoder():
            return CoordinatorContents(decoder, names, goes_on=goes_on)
        case MetadataDecoder():
            return MetadataContents(decoder, names)
        case PlainRecordDecoder():
            return PlainContents(decoder)
    raise TypeError(f"no text for {decoder!r}")


class CoordinatorContents:
    """``--offsets-decoder``, ``--transaction-log-decoder`` and ``--share-group-state-decoder``."""

    in_columns = True

    def __init__(self, decoder: CoordinatorDecoder, names: JavaNames, *, goes_on: bool) -> None:
        self.coordinator = decoder
        self._names = names
        self._goes_on = goes_on

    def contents(self, offset: int, key: bytes | None, value: bytes | None, headers: Headers = ()) -> LineContents:
        """See ContentsDecoder: the Java tool stops at a record without key."""
        self._require_key(offset, is_null=key is None)
        try:
            message = self.coordinator.key(key)
            key_text = json_text(key_frame(message))
            if value is None:
                return LineContents(key_text, DELETED)
            decoded = self.coordinator.value(message.record_type, value)
        except PayloadError as error:
            if error.trouble is DecodeErrorKind.MISSING:
                return LineContents(None, None if value is None else decode_utf8(value), (error,))
            return LineContents(_coordinator_error(error, offset), None, (error,))
        data = value_members(decoded, newest=False, names_states=self._names.names_states)
        return LineContents(key_text, json_text({"version": str(decoded.version), "data": data}))

    def ill_fitting(self, offset: int, message: Message, error: ContentSizeError) -> LineContents:
        """See ContentsDecoder: the key is asked for before the value, and its size before both."""
        self._require_key(offset, is_null=message.key_size() < 0)
        return LineContents(f"Error at offset {offset}, skipping. {_size_cause(error)}", None, (_size_problem(error),))

    def _require_key(self, offset: int, *, is_null: bool) -> None:
        if is_null and not self._goes_on:
            raise DamageError(
                Codes.DECODER,
                f"Failed to decode message at offset {offset} using the specified decoder (message had a missing key)",
            )


class MetadataContents:
    """``--cluster-metadata-decoder`` and ``--remote-log-metadata-decoder``."""

    coordinator = None
    in_columns = True

    def __init__(self, decoder: MetadataDecoder, names: JavaNames) -> None:
        self._decoder = decoder
        self._names = names
        self._is_remote = decoder.name == "remote-log-metadata"
        self._at = "at offset" if self._is_remote else "at"

    def contents(self, offset: int, key: bytes | None, value: bytes | None, headers: Headers = ()) -> LineContents:
        """See ContentsDecoder."""
        try:
            if value is None and self._is_remote:
                raise PayloadError(DecodeErrorKind.MISSING, RecordPart.VALUE, "is null")
            message = self._decoder.value(value)
            return LineContents(
                None, self._names.remote_metadata(message) if self._is_remote else json_text(metadata_frame(message))
            )
        except RefusedError as refused:
            text = str(refused)
            error = PayloadError(DecodeErrorKind.REFUSED, RecordPart.VALUE, f"is refused by Kafka: {refused}")
        except PayloadError as undecoded:
            text, error = _metadata_error(undecoded, self._names), undecoded
        return LineContents(None, f"Error {self._at} {offset}, skipping. {text}", (error,))

    def ill_fitting(self, offset: int, message: Message, error: ContentSizeError) -> LineContents:
        """See ContentsDecoder."""
        text = f"Error {self._at} {offset}, skipping. {_value_size_cause(error)}"
        return LineContents(None, text, (_size_problem(error),))


class PlainContents:
    """kdump's own ``--key-decoder`` and ``--value-decoder``: texts as they are, other values as JSON."""

    coordinator = None
    in_columns = False

    def __init__(self, decoder: PlainRecordDecoder) -> None:
        self._decoder = decoder

    def contents(self, offset: int, key: bytes | None, value: bytes | None, headers: Headers = ()) -> LineContents:
        """See ContentsDecoder; what does not decode is shown as it is without a decoder."""
        decoded = self._decoder.decode(key, value, headers)
        return LineContents(
            None if key is None else _plain_text(decoded.key, as_stored=self._decoder.key_name == NONE),
            None if value is None else _plain_text(decoded.value, as_stored=self._decoder.value_name == NONE),
            decoded.findings,
        )

    def ill_fitting(self, offset: int, message: Message, error: ContentSizeError) -> LineContents:
        """See ContentsDecoder: no such decoder is asked."""
        raise error


def _plain_text(value: Any, *, as_stored: bool) -> str:
    match value:
        case str():
            return value
        case bytes() if as_stored:
            return value.decode("utf-8", "surrogateescape")
        case bytes():
            return decode_utf8(value)
        case float():
            return double_string(value)
    return json_text(value)


def _coordinator_error(error: PayloadError, offset: int) -> str:
    number, part = error.number, error.part.value
    match error.trouble:
        case DecodeErrorKind.UNKNOWN_TYPE:
            return f"Unknown record type {number} at offset {offset}, skipping."
        case DecodeErrorKind.CUT:
            text = f"Could not read version from {part}'s buffer."
        case DecodeErrorKind.UNKNOWN_VERSION:
            text = f"Found an unknown record version {number} for {error.record_type} type"
        case _:
            cause = error.cause or "null"
            text = f"Could not read record with version {number} from {part}'s buffer due to: {cause}."
    return f"Error at offset {offset}, skipping. {text}"


def _size_cause(error: ContentSizeError) -> str:
    """The words of Java's buffers for a size that does not fit."""
    return "null" if error.size is None else f"newLimit > capacity: ({error.size} > {error.left})"


def _value_size_cause(error: ContentSizeError) -> str:
    """The words for a value's size. After a key that does not fit, the size of the value cannot be found."""
    return _size_cause(error) if error.what == RecordPart.VALUE.value else "null"


def _size_problem(error: ContentSizeError) -> PayloadError:
    text = "has its size outside the message"
    if error.size is not None:
        text = f"has {error.size} bytes where {error.left} are left in its message"
    return PayloadError(DecodeErrorKind.REFUSED, RecordPart(error.what), text)


_PREVIEW: Final = (
    "Could not deserialize metadata record with frame version 0. Note that upgrades from the preview release of KRaft "
    "in 2.8 to newer versions are not supported."
)


def _metadata_error(error: PayloadError, names: JavaNames) -> str:
    match error.trouble:
        case DecodeErrorKind.MISSING:
            return (
                'Cannot invoke "java.nio.ByteBuffer.remaining()" because the return value of '
                f'"{names.record_class}.value()" is null'
            )
        case DecodeErrorKind.CUT:
            return f"Error while reading {error.name}"
        case DecodeErrorKind.TOO_LARGE:
            return f"Value for {error.name} was too large."
        case DecodeErrorKind.FRAME_VERSION if error.number == 0:
            return _PREVIEW
        case DecodeErrorKind.FRAME_VERSION:
            return (
                f"Could not deserialize metadata record due to unknown frame version {error.number}"
                "(only frame version 1 is supported)"
            )
        case DecodeErrorKind.UNKNOWN_TYPE:
            unsupported = "org.apache.kafka.common.errors.UnsupportedVersionException"
            return f"{unsupported}: Unknown metadata id {error.number}"
        case DecodeErrorKind.BYTES_LEFT:
            return f"Found {error.number} byte(s) of garbage after {error.record_type}"
    return f"Failed to deserialize record with type {error.record_type}"
