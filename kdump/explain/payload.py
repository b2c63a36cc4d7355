"""Compressed records as lines: the container in the file, then the decompressed bytes.

Source: docs/spec/formats.md#4-compression-payloads. Only ``kdump.wire.compression`` decides whether a payload is good;
the pieces of its container are labelled as far as they can be told apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from kdump.codes import Codes, DamageError
from kdump.explain import kafka_says
from kdump.explain.containers import FieldBytes, container_pieces
from kdump.explain.lines import Labeller, Line, Space, Statement, StuckError, Tone
from kdump.explain.values import count as counted
from kdump.explain.values import span
from kdump.format.batch import CODEC_NAMES, codec_name
from kdump.wire import compression

_FIRST_BLOCKS: Final = 2
"""So many blocks of a container are shown first, then the number of the middle ones, then the last one."""

Inner: TypeAlias = Callable[[memoryview, Labeller], Iterator[Line]]
"""Makes the lines of the decompressed bytes."""


@dataclass(frozen=True, slots=True)
class Container:
    """Compressed records at ``start`` to ``end`` of an entry of ``magic``; ``is_cut``: the file ends in them.

    ``says``: what Kafka does with records that do not decompress.
    """

    start: int
    end: int
    codec: int
    magic: int
    is_cut: bool
    says: str = kafka_says.UNDECOMPRESSABLE


def payload_lines(labeller: Labeller, container: Container, limit: int, inner: Inner) -> Iterator[Line]:
    """A container and the records in it; if the container is cut, the records are unknown.

    Args:
        labeller: of the entry.
        container: where it is.
        limit: most bytes to which it may decompress.
        inner: see Inner.
    """
    start, end, codec = container.start, container.end, container.codec
    data = labeller.data[start:end]
    where = span(labeller.at(start), labeller.at(end))
    name = codec_name(codec, "unknown codec {}")
    yield Statement(Tone.GROUP, f"compressed records ({name}): {where} ({counted(len(data), 'byte')})")
    if codec >= len(CODEC_NAMES):
        if len(data):
            yield labeller.field(start, end, "payload", counted(len(data), "byte"), is_damaged=True)
        yield Statement(Tone.DAMAGE, f"Codec id {codec} is unknown, so these bytes cannot be read.")
        yield Statement(Tone.KAFKA, kafka_says.UNKNOWN_CODEC.format(codec=codec))
        return
    try:
        payload = None if container.is_cut else _decompress(container, data, limit)
        error = None
    except DamageError as damage:
        payload, error = None, damage
    stuck = None
    pieces: list[FieldBytes] = []
    try:
        # The pieces before the error stay in the list.
        pieces.extend(piece for piece in container_pieces(codec, data, container.magic) if piece.start < piece.end)
    except StuckError as broken:
        stuck = broken
    yield from _pieces(labeller, start, end, pieces, is_good=payload is not None)
    if container.is_cut:
        yield Statement(Tone.TEXT, "The file ends inside the compressed records: none of them is shown.")
    elif error is not None:
        at = f"At byte {labeller.at(start + stuck.start)}: {stuck.reason}. " if stuck else ""
        yield Statement(Tone.DAMAGE, f"{at}The records cannot be decompressed: {error.message}.")
        if error.code is not Codes.PAYLOAD_TOO_LARGE:
            yield Statement(Tone.KAFKA, container.says)
    elif payload is not None:
        yield Statement(
            Tone.GROUP, f"decompressed: {counted(len(payload), 'byte')}; from here on positions count in them"
        )
        yield from inner(payload, Labeller(payload, space=Space.PAYLOAD))


def _decompress(container: Container, data: memoryview, limit: int) -> memoryview:
    return memoryview(compression.decompress(container.codec, data, magic=container.magic, limit=limit))


def _pieces(labeller: Labeller, start: int, end: int, pieces: list[FieldBytes], *, is_good: bool) -> Iterator[Line]:
    last_block = max((piece.block for piece in pieces), default=-1)
    following = start
    skipped: list[FieldBytes] = []

    def middle() -> Iterator[Line]:
        if skipped:
            name = f"blocks {skipped[0].block} to {skipped[-1].block}"
            size = counted(skipped[-1].end - skipped[0].start, "byte")
            yield labeller.field(start + skipped[0].start, start + skipped[-1].end, name, size, is_summary=True)
            skipped.clear()

    for piece in pieces:
        following = start + piece.end
        if _FIRST_BLOCKS <= piece.block < last_block:
            skipped.append(piece)
            continue
        yield from middle()
        yield labeller.field(start + piece.start, start + piece.end, piece.name, piece.value, piece.note)
    yield from middle()
    if following < end:
        name, note = ("rest", "ignored") if is_good else ("rest", "not understood")
        yield labeller.field(following, end, name, counted(end - following, "byte"), note, is_damaged=not is_good)
