"""What a decoder gives, and why something does not decode."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum, auto
from typing import Any, Final, Protocol, Self, TypeAlias

from kdump.codes import Codes, DamageError
from kdump.format.record import Headers

LARGEST_OBJECT: Final = 8 << 20
"""Bytes of a payload that is decoded: eight times the largest batch that a broker takes by default. Lists and objects
take 50 times its bytes, and text 17 times while it is written."""


class RecordPart(Enum):
    """The parts of a record that are decoded."""

    KEY = "key"
    VALUE = "value"


class DecodeErrorKind(Enum):
    """Why a key or value does not decode."""

    MISSING = auto()
    """It is null where it may not be."""
    CUT = auto()
    """Its frame ends early. ``name``: the field of the frame, empty for a type or version of two bytes."""
    TOO_LARGE = auto()
    """A number of its frame (``name``) is out of range."""
    FRAME_VERSION = auto()
    """Its frame is of an unknown version (``number``)."""
    UNKNOWN_TYPE = auto()
    """The record type (``number``) is unknown."""
    UNKNOWN_VERSION = auto()
    """The record type is known, the version (``number``) is not."""
    BROKEN = auto()
    """Type and version are known, the message does not decode. ``cause``: the words of Kafka's reader, if any."""
    BYTES_LEFT = auto()
    """The message decodes, and ``number`` bytes are left."""
    REFUSED = auto()
    """A decoder of keys or values does not accept it."""


UNKNOWN = frozenset({DecodeErrorKind.FRAME_VERSION, DecodeErrorKind.UNKNOWN_TYPE, DecodeErrorKind.UNKNOWN_VERSION})
"""A newer Kafka may have written it."""


class PayloadError(DamageError):
    """A key or value does not decode. ``record_type``: the kind of record, where that is known.

    ``version``: of a message of the metadata log that is not as long as one of that version.
    """

    def __init__(
        self,
        trouble: DecodeErrorKind,
        part: RecordPart,
        message: str,
        *,
        number: int = 0,
        record_type: int | None = None,
        version: int | None = None,
        name: str = "",
        cause: str | None = None,
    ) -> None:
        code = Codes.PAYLOAD_UNKNOWN if trouble in UNKNOWN else Codes.DECODER
        super().__init__(code, f"the {part.value} {message}")
        self.trouble = trouble
        self.part = part
        self.number = number
        self.record_type = record_type
        self.version = version
        self.name = name
        self.cause = cause


Undecoded: TypeAlias = Callable[[int, PayloadError], None]
"""Takes the offset of a record whose key or value does not decode, and the reason."""


class Decoded(tuple[Any, Any]):
    """A decoded (key, value). ``findings``: why a part is still the bytes that it was."""

    findings: tuple[PayloadError, ...]

    def __new__(cls, key: Any, value: Any, findings: Iterable[PayloadError] = ()) -> Self:
        """Both parts, decoded or as they were."""
        pair = super().__new__(cls, (key, value))
        pair.findings = tuple(findings)
        return pair

    @property
    def key(self) -> Any:
        """The key."""
        return self[0]

    @property
    def value(self) -> Any:
        """The value."""
        return self[1]


class RecordDecoder(Protocol):
    """Decodes the records of one log."""

    def decode(self, key: bytes | None, value: bytes | None, headers: Headers = ()) -> Decoded:
        """Key and value. A part that does not decode stays bytes and has a finding. ``headers``: of the record."""
