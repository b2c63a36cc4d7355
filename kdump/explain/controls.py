"""Control records: their keys and values taken apart.

Source: docs/spec/formats.md#32-control-records. The decoding is ``kdump.format.control``'s.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kdump.codes import DamageError
from kdump.explain import kafka_says
from kdump.explain.lines import Labeller, Line, Statement, Tone
from kdump.explain.values import escaped
from kdump.format import control
from kdump.payloads.message_json import message_json

_NAMES: Final = (
    "ABORT",
    "COMMIT",
    "LEADER_CHANGE",
    "SNAPSHOT_HEADER",
    "SNAPSHOT_FOOTER",
    "KRAFT_VERSION",
    "KRAFT_VOTERS",
)


def type_name(key: bytes | None) -> str:
    """Kafka's name of a control record's type, ``UNKNOWN(<type>)``, or what is wrong with the key."""
    try:
        number = control.parse_type(key)
    except DamageError as error:
        return error.message
    return _NAMES[number] if 0 <= number < len(_NAMES) else f"UNKNOWN({number})"


def key_lines(labeller: Labeller, start: int, end: int) -> Iterator[Line]:
    """The bytes of the key: version, type, and what follows."""
    yield from _integers(
        labeller, start, end, "key", (("version", 2), ("type", 2)), note=type_name(_bytes(labeller, start, end))
    )


def value_lines(labeller: Labeller, start: int, end: int, key: bytes | None) -> Iterator[Line]:
    """The value's bytes: a transaction marker field by field, a KRaft record in one piece."""
    if type_name(key) in ("ABORT", "COMMIT"):
        yield from _integers(labeller, start, end, "value", (("version", 2), ("coordinatorEpoch", 4)))
    else:
        yield labeller.field(start, end, "value", "", "decoded below")


def verdict(key: bytes | None, value: bytes | None) -> Iterator[Line]:
    """The decoded KRaft message, and what is wrong with the control record."""
    try:
        number = control.parse_type(key)
        schema = control.schema_of(number)
        if schema is not None:
            text = message_json(schema, 0, control.parse_kraft(schema, value))
            yield Statement(Tone.TEXT, f"{_NAMES[number]} {escaped(text)}")
        elif number in (control.ABORT, control.COMMIT):
            control.parse_end_txn(value)
    except DamageError as error:
        what = error.message.removeprefix("control record: ")
        yield Statement(Tone.DAMAGE, f"It makes no sense as a control record: {what}.")
        yield Statement(Tone.KAFKA, kafka_says.CONTROL)


def _bytes(labeller: Labeller, start: int, end: int) -> bytes:
    return bytes(labeller.data[start:end])


def _integers(
    labeller: Labeller, start: int, end: int, prefix: str, layout: tuple[tuple[str, int], ...], *, note: str = ""
) -> Iterator[Line]:
    for name, size in layout:
        if end - start < size:
            break
        number = int.from_bytes(labeller.data[start : start + size], "big", signed=True)
        yield labeller.field(start, start + size, f"{prefix}.{name}", str(number), note if name == "type" else "")
        start += size
    if start < end:
        yield labeller.field(start, end, f"{prefix} (rest)", "", "ignored")
