"""Decoders of keys and values by name: kdump's own and those of other distributions.

A distribution adds one by an entry point in the group ``kdump.decoders``::

    [project.entry-points."kdump.decoders"]
    avro = "my_package:decode_avro"

It names a callable that takes the bytes of a key or value (never None) and returns what JSON can hold; whatever it
raises is a finding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kdump.codes import Codes, KdumpError
from kdump.payloads.decoded import LARGEST_OBJECT, Decoded, DecodeErrorKind, PayloadError, RecordPart
from kdump.payloads.plain import DECODERS, PlainDecoder, json_like
from kdump.system.blocks import escaped

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint, EntryPoints

GROUP: Final = "kdump.decoders"
NONE: Final = "none"
"""The name for no decoding: the bytes stay as they are."""


def _entries() -> EntryPoints:
    from importlib.metadata import entry_points  # slow, and needed for the decoders of others only

    return entry_points(group=GROUP)


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
    entry = next(iter(_entries().select(name=name)), None)
    if entry is None:
        raise KeyError(name)
    return _loaded(entry)


def _loaded(entry: EntryPoint) -> PlainDecoder:
    try:
        decode = entry.load()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        text = f"decoder '{entry.name}' ({entry.value}) cannot be loaded: {_text(error)}"
        raise KdumpError(Codes.DECODER, text) from error
    if not callable(decode):
        raise KdumpError(Codes.DECODER, f"decoder '{entry.name}' ({entry.value}) cannot be called")

    return lambda data: json_like(decode(data), len(data))


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
    key: PlainDecoder | None
    value: PlainDecoder | None

    @classmethod
    def of(cls, key: str | None, value: str | None) -> PlainRecordDecoder:
        """By names. Raises as ``plain_decoder``."""
        return cls(key, value, *(None if name is None else plain_decoder(name) for name in (key, value)))

    def decode(self, key: bytes | None, value: bytes | None) -> Decoded:
        """See RecordDecoder."""
        findings: list[PayloadError] = []
        decoded_key = _decoded(self.key, self.key_name, RecordPart.KEY, key, findings)
        return Decoded(decoded_key, _decoded(self.value, self.value_name, RecordPart.VALUE, value, findings), findings)


def _decoded(
    decoder: PlainDecoder | None, name: str | None, part: RecordPart, data: bytes | None, findings: list[PayloadError]
) -> Any:
    if decoder is None or data is None:
        return data
    if len(data) > LARGEST_OBJECT:
        reason = f"it has {len(data):,} bytes, kdump decodes {LARGEST_OBJECT:,} at most"
    else:
        try:
            return decoder(data)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            # A plugin may raise anything (panics of Rust are no Exception). The bytes it was given are still there.
            reason = str(error) if isinstance(error, ValueError) and name in DECODERS else _text(error)
    findings.append(PayloadError(DecodeErrorKind.REFUSED, part, f"does not decode as {name}: {reason}"))
    return data
