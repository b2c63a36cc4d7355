"""A position in a file of fixed-size entries: offset, time and transaction indexes, producer snapshots.

Source: docs/spec/formats.md#6-indexes, docs/spec/formats.md#7-producer-snapshots.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kdump.codes import DamageError
from kdump.explain.lines import Labeller, Layout, Line, Statement, Tone, fixed_fields
from kdump.explain.values import count as counted
from kdump.explain.values import date, span
from kdump.format.index import OFFSET_ENTRY_SIZE, TIME_ENTRY_SIZE, TXN_ENTRY_SIZE
from kdump.format.snapshot import parse_snapshot
from kdump.log.names import Kind
from kdump.log.source import Source

_LAYOUTS: Final = {
    Kind.INDEX: (("relativeOffset", 4), ("position", 4)),
    Kind.TIME_INDEX: (("timestamp", 8), ("relativeOffset", 4)),
    Kind.TXN_INDEX: (
        ("version", 2),
        ("producerId", 8),
        ("firstOffset", 8),
        ("lastOffset", 8),
        ("lastStableOffset", 8),
    ),
    Kind.SNAPSHOT: (
        ("producerId", 8),
        ("producerEpoch", 2),
        ("lastSequence", 4),
        ("lastOffset", 8),
        ("offsetDelta", 4),
        ("timestamp", 8),
        ("coordinatorEpoch", 4),
        ("currentTxnFirstOffset", 8),
    ),
}
_SIZES: Final = {Kind.INDEX: OFFSET_ENTRY_SIZE, Kind.TIME_INDEX: TIME_ENTRY_SIZE, Kind.TXN_INDEX: TXN_ENTRY_SIZE}
_SNAPSHOT_HEADER: Final[Layout] = (("version", 2), ("crc", 4), ("count", 4))
_SNAPSHOT_HEADER_SIZE: Final = 10
_SNAPSHOT_ENTRY_SIZE: Final = 46

KINDS: Final = frozenset(_LAYOUTS)
"""The kinds of files this module explains."""


def entry_lines(source: Source, kind: Kind, position: int, size: int, base_offset: int | None) -> Iterator[Line]:
    """The entry that covers ``position``.

    Args:
        source: the file; it can be read anywhere.
        kind: one of KINDS.
        position: 0 <= position < size.
        size: of the file.
        base_offset: what relative offsets are relative to, if it is known.

    Raises:
        KdumpError: UNREADABLE.
    """
    first = _SNAPSHOT_HEADER_SIZE if kind is Kind.SNAPSHOT else 0
    step = _SIZES.get(kind, _SNAPSHOT_ENTRY_SIZE)
    if position < first:
        start, end, title, layout = 0, first, "header of the snapshot", _SNAPSHOT_HEADER
    else:
        number = (position - first) // step
        start = first + number * step
        end, title, layout = start + step, f"entry {number} of {kind.value}", _LAYOUTS[kind]
    data = memoryview(source.read(start, min(end, size) - start))
    yield Statement(Tone.TITLE, f"{title}: {span(start, start + len(data))}")
    yield from _fields(Labeller(data, start, target=position), layout, base_offset)
    if start + len(data) < end:
        missing = counted(end - start - len(data), "byte")
        yield Statement(Tone.DAMAGE, f"The file ends {missing} before the end of this entry.")
    elif kind in (Kind.INDEX, Kind.TIME_INDEX) and not any(data) and start > 0:
        yield Statement(Tone.TEXT, "A zero entry after the first one: allocated space, the index ends before it.")
    if kind is Kind.SNAPSHOT:
        yield from _snapshot_verdict(source, size)


def _fields(labeller: Labeller, layout: Layout, base_offset: int | None) -> Iterator[Line]:
    for field in fixed_fields(labeller.data, layout):
        note = field.cut or _note(field.name, field.number, base_offset)
        yield labeller.field(field.start, field.end, field.name, field.value, note, is_damaged=bool(field.cut))


def _note(name: str, number: int, base_offset: int | None) -> str:
    if name == "timestamp":
        return date(number)
    if name == "relativeOffset" and base_offset is not None:
        return f"offset {base_offset + number}"
    if name == "crc":
        return "CRC-32C of the bytes from 6 to the end"
    return "none" if number == -1 else ""


def _snapshot_verdict(source: Source, size: int) -> Iterator[Line]:
    try:
        entries = parse_snapshot(source.read(0, size))
    except DamageError as error:
        yield Statement(Tone.DAMAGE, f"{error.message.rstrip('.')}.")
    else:
        yield Statement(Tone.TEXT, f"The snapshot's CRC is right; producers: {len(entries)}.")
