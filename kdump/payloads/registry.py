"""Decoders of keys and values by name: kdump's own and those of other distributions.

A distribution adds one by an entry point in the group ``kdump.decoders``::

    [project.entry-points."kdump.decoders"]
    avro = "my_package:decode_avro"

It names a callable that takes the bytes of a key or value (never None) and returns what JSON can hold; whatever it
raises is a finding. Where it has a method ``for_log``, that makes the decoder of a log, see ``LogDecoders``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from kdump.codes import Codes, KdumpError
from kdump.format.record import Headers
from kdump.payloads.decoded import LARGEST_OBJECT, Decoded, DecodeErrorKind, PayloadError, RecordPart
from kdump.payloads.plain import DECODERS, PlainDecoder, json_like
from kdump.system.blocks import escaped

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

GROUP: Final = "kdump.decoders"
NONE: Final = "none"
"""The name for no decoding: the bytes stay as they are."""
SCHEMA: Final = "schema"
"""The name of the decoder that asks a schema registry."""


class LogDecoder(Protocol):
    """Decodes keys or values of one log."""

    def __call__(self, data: bytes, headers: Headers) -> Any:
        """What JSON can hold; the bytes themselves stay bytes. ValueError with the reason where it cannot."""


class LogDecoders(Protocol):
    """A decoder that needs to know more than the bytes."""

    def for_log(
        self, part: RecordPart, topic: str | None, schemas: tuple[str, ...] | None, *, is_asked: bool
    ) -> LogDecoder:
        """The decoder of a log.

        Args:
            part: keys or values.
            topic: of the log; None: its directory names none.
            schemas: the partitions with schemas; None: nobody says where they are.
            is_asked: the user named this decoder for this part. False: what is not its own is to stay bytes.

        Raises:
            ValueError: it lacks something that the user can give.
            KdumpError: something cannot be read.
        """


_OWN: Final = {SCHEMA: "kdump.schemas.decoder:SchemaDecoder"}
"""kdump's own entry points: a program of one file, or a checkout, has none of its distribution."""


def _entries() -> EntryPoints:
    from importlib.metadata import EntryPoint, EntryPoints, entry_points  # slow, and needed for these decoders only

    own = [EntryPoint(name, value, GROUP) for name, value in _OWN.items()]
    return EntryPoints([*own, *(entry for entry in entry_points(group=GROUP) if entry.name not in _OWN)])


def names() -> list[str]:
    """All names of decoders, kdump's own first."""
    others = {entry.name for entry in _entries()}
    return [*DECODERS, NONE, *sorted(others - DECODERS.keys() - {NONE})]


def plain_decoder(name: str) -> PlainDecoder | None:
    """The decoder of that name, None for ``none``. kdump's own names cannot be taken by others.

    Raises:
        KeyError: there is none.
        KdumpError: DECODER, it is there and cannot be loaded.
    """
    if name == NONE:
        return None
    if name in DECODERS:
        return DECODERS[name]
    decode = _load(name)
    return lambda data: json_like(decode(data), len(data))


def _load(name: str) -> Any:
    """What another distribution, or kdump's own entry point, calls so. Raises as ``plain_decoder``."""
    entry = next(iter(_entries().select(name=name)), None)
    if entry is None:
        raise KeyError(name)
    try:
        decode = entry.load()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        text = f"decoder '{entry.name}' ({entry.value}) cannot be loaded: {_text(error)}"
        raise KdumpError(Codes.DECODER, text) from error
    if not callable(decode):
        raise KdumpError(Codes.DECODER, f"decoder '{entry.name}' ({entry.value}) cannot be called")
    return decode


@dataclass(frozen=True, slots=True)
class WithHeaders:
    """A decoder that takes the headers of the record, too."""

    decode: LogDecoder


def log_decoder(
    name: str, part: RecordPart, topic: str | None, schemas: tuple[str, ...] | None, *, is_asked: bool
) -> PlainDecoder | WithHeaders | None:
    """The decoder of that name for a log, None for ``none``; see ``LogDecoders``. Raises as ``plain_decoder``."""
    found = None if name in DECODERS or name == NONE else _load(name)
    if found is None or not hasattr(found, "for_log"):
        return plain_decoder(name)
    try:
        return WithHeaders(found.for_log(part, topic, schemas, is_asked=is_asked))
    except ValueError as error:
        raise KdumpError(Codes.DECODER, f"decoder '{name}': {error}") from error


def _text(error: BaseException) -> str:
    """The message of an exception in one line. The exception is not ours: it may fail to give one in any way."""
    kind = str.__str__(type.__dict__["__name__"].__get__(type(error)))
    try:
        said = escaped(str.__str__(str(error)))
    except KeyboardInterrupt:
        raise
    except BaseException:
        return kind
    return f"{kind}: {said}" if said else kind


@dataclass(frozen=True, slots=True)
class PlainRecordDecoder:
    """A decoder for keys and one for values. Without a decoder they stay bytes.

    ``key_name``, ``value_name``: their names.
    """

    key_name: str | None
    value_name: str | None
    key: PlainDecoder | WithHeaders | None
    value: PlainDecoder | WithHeaders | None

    @classmethod
    def of(
        cls, key: str | None, value: str | None, topic: str | None = None, schemas: tuple[str, ...] | None = None
    ) -> PlainRecordDecoder:
        """By names, for a log. With schemas, what has no decoder is decoded by them. Raises as ``log_decoder``.

        ``topic``: of the log, if it is known; ``schemas``: the partitions that hold them.
        """
        default = None if schemas is None else SCHEMA
        made = [
            None
            if (name or default) is None
            else log_decoder(name or SCHEMA, part, topic, schemas, is_asked=name is not None)
            for name, part in ((key, RecordPart.KEY), (value, RecordPart.VALUE))
        ]
        return cls(key or default, value or default, *made)

    def decode(self, key: bytes | None, value: bytes | None, headers: Headers = ()) -> Decoded:
        """See RecordDecoder."""
        findings: list[PayloadError] = []
        decoded_key = _decoded(self.key, self.key_name, RecordPart.KEY, key, headers=headers, findings=findings)
        decoded_value = _decoded(
            self.value, self.value_name, RecordPart.VALUE, value, headers=headers, findings=findings
        )
        return Decoded(decoded_key, decoded_value, findings)


def _decoded(
    decoder: PlainDecoder | WithHeaders | None,
    name: str | None,
    part: RecordPart,
    data: bytes | None,
    *,
    headers: Headers,
    findings: list[PayloadError],
) -> Any:
    if decoder is None or data is None:
        return data
    if len(data) > LARGEST_OBJECT:
        reason = f"it has {len(data):,} bytes, kdump decodes {LARGEST_OBJECT:,} at most"
    else:
        try:
            return decoder.decode(data, headers) if isinstance(decoder, WithHeaders) else decoder(data)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            # A plugin may raise anything (panics of Rust are no Exception). The bytes it was given are still there.
            is_ours = isinstance(decoder, WithHeaders) or name in DECODERS
            reason = str(error) if isinstance(error, ValueError) and is_ours else _text(error)
    findings.append(PayloadError(DecodeErrorKind.REFUSED, part, f"does not decode as {name}: {reason}"))
    return data
