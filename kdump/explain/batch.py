"""A batch of magic 2 as lines: header, CRC, container of the records, records.

Source: docs/spec/formats.md#3-record-batches-v2.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kdump.explain import kafka_says
from kdump.explain.checksums import judge
from kdump.explain.lines import Labeller, Line, Statement, Tone, fixed_fields
from kdump.explain.payload import Container, payload_lines
from kdump.explain.records import RecordRegion
from kdump.explain.values import count as counted
from kdump.explain.values import date, span
from kdump.format.batch import (
    CODEC_MASK,
    CONTROL,
    CRC_START,
    DELETE_HORIZON,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    TRANSACTIONAL,
    BatchHeader,
    batch_crc,
    codec_name,
    parse_header,
)
from kdump.payloads.decoded import RecordDecoder
from kdump.wire.syndrome import CRC32C_POLYNOMIAL

_FIELDS: Final = (
    ("baseOffset", 8),
    ("batchLength", 4),
    ("partitionLeaderEpoch", 4),
    ("magic", 1),
    ("crc", 4),
    ("attributes", 2),
    ("lastOffsetDelta", 4),
    ("baseTimestamp", 8),
    ("maxTimestamp", 8),
    ("producerId", 8),
    ("producerEpoch", 2),
    ("baseSequence", 4),
    ("count", 4),
)
"""The fields in the order of BatchHeader, with the names of the dump's output where it has one."""

_UNUSED_ATTRIBUTES: Final = 0xFF80
_MAGIC: Final = 2
_CRC: Final = 17
"""Position of the CRC in the header."""
_HEADER_WITH_MAGIC: Final = 17


def batch_lines(
    data: memoryview,
    position: int,
    target: int | None,
    limit: int,
    *,
    is_cut: bool = False,
    decoder: RecordDecoder | None = None,
) -> Iterator[Line]:
    """The batch at ``data[0]``, each of its bytes in exactly one labelled line.

    Args:
        data: the batch, whatever its length field is, or as much of it as the file has.
        position: its file position.
        target: the requested file position.
        limit: most bytes to which its records may decompress.
        is_cut: the file ends inside the batch.
        decoder: of its keys and values.
    """
    if len(data) < HEADER_SIZE:
        labeller = Labeller(data, position, covered=range(CRC_START, len(data)), target=target)
        yield from _short_header(labeller)
        return
    header = parse_header(data)
    crc = None if is_cut else judge(data, CRC_START, _CRC, computed=batch_crc(data), polynomial=CRC32C_POLYNOMIAL)
    labeller = Labeller(
        data, position, covered=range(CRC_START, len(data)), target=target, suspect=None if crc is None else crc.suspect
    )
    yield Statement(Tone.GROUP, f"header: {span(position, position + HEADER_SIZE)}")
    yield from _header(labeller, header, is_cut=is_cut)
    if crc is not None:
        yield from crc.lines(position)
    else:
        missing = counted(header.size - len(data), "byte")
        yield Statement(Tone.TEXT, f"The CRC cannot be checked: the last {missing} of the batch are missing.")
    if len(data) == HEADER_SIZE and header.record_count == 0:
        yield Statement(Tone.TEXT, "The batch holds no records: compaction leaves such batches.")
    elif header.codec == 0:
        yield Statement(Tone.GROUP, f"records: {span(position + HEADER_SIZE, position + len(data))}")
        yield from RecordRegion(header, labeller, HEADER_SIZE, len(data), is_cut, decoder).lines()
    else:
        yield from _compressed(labeller, header, limit, is_cut, decoder)


def _header(labeller: Labeller, header: BatchHeader, *, is_cut: bool) -> Iterator[Line]:
    start = 0
    for (name, size), number in zip(_FIELDS, header, strict=True):
        is_damaged = (
            (name == "magic" and number != _MAGIC)
            or (name == "count" and number < 0)
            or (name == "batchLength" and LOG_OVERHEAD + number != len(labeller.data))
        )
        note = _note(name, header, labeller.position, len(labeller.data), is_cut=is_cut)
        yield labeller.field(start, start + size, name, str(number), note, is_damaged=is_damaged)
        if name == "attributes":
            yield from labeller.bits(start, size, _attribute_bits(header))
        start += size


def _note(name: str, header: BatchHeader, position: int, size: int, *, is_cut: bool) -> str:
    end = position + (header.size if is_cut else size) - 1
    notes = {
        "baseOffset": "",
        "batchLength": _length_note(header, position, size, is_cut=is_cut),
        "partitionLeaderEpoch": "none" if header.partition_leader_epoch == -1 else "",
        "crc": f"CRC-32C of {position + CRC_START} to {end}",
        "attributes": f"{header.attributes:#06x}",
        "lastOffsetDelta": f"lastOffset {header.last_offset}",
        "baseTimestamp": date(header.base_timestamp)
        + (" (the delete horizon)" if header.delete_horizon_ms is not None else ""),
        "maxTimestamp": date(header.max_timestamp),
        "producerId": "none" if header.producer_id == -1 else "",
        "producerEpoch": "none" if header.producer_epoch == -1 else "",
        "baseSequence": "none" if header.base_sequence == -1 else f"lastSequence {header.last_sequence}",
        "count": _count_note(header),
    }
    return notes.get(name, "")


def _length_note(header: BatchHeader, position: int, size: int, *, is_cut: bool) -> str:
    if header.size != size and not is_cut:
        return f"should be {size - LOG_OVERHEAD}"
    return f"size {header.size}, up to byte {position + header.size - 1}"


def _count_note(header: BatchHeader) -> str:
    offsets = header.last_offset_delta + 1
    return f"of {counted(offsets, 'offset')}: compacted" if 0 <= header.record_count < offsets else ""


def _attribute_bits(header: BatchHeader) -> dict[str, tuple[int, str]]:
    unused = header.attributes & _UNUSED_ATTRIBUTES
    return {
        "compression": (CODEC_MASK, codec_note(header.codec)),
        "timestampType": (LOG_APPEND_TIME, header.timestamp_type),
        "isTransactional": (TRANSACTIONAL, str(header.is_transactional).lower()),
        "isControl": (CONTROL, str(header.is_control).lower()),
        "deleteHorizonMs": (DELETE_HORIZON, "in baseTimestamp" if header.attributes & DELETE_HORIZON else "none"),
        "unused": (_UNUSED_ATTRIBUTES, "set, ignored" if unused else ""),
    }


def codec_note(codec: int) -> str:
    """Kafka's name of a codec id."""
    return codec_name(codec, "unknown ({})")


def _compressed(
    labeller: Labeller, header: BatchHeader, limit: int, is_cut: bool, decoder: RecordDecoder | None
) -> Iterator[Line]:
    def records(payload: memoryview, inner: Labeller) -> Iterator[Line]:
        return RecordRegion(header, inner, 0, len(payload), decoder=decoder).lines()

    container = Container(HEADER_SIZE, len(labeller.data), header.codec, header.magic, is_cut)
    yield from payload_lines(labeller, container, limit, records)


def _short_header(labeller: Labeller) -> Iterator[Line]:
    """A batch, or the rest of one, that ends inside its header."""
    data = labeller.data
    for field in fixed_fields(data, _FIELDS):
        is_damaged = bool(field.cut) or field.name == "batchLength"
        yield labeller.field(field.start, field.end, field.name, field.value, field.cut, is_damaged=is_damaged)
    if len(data) < _HEADER_WITH_MAGIC:
        return
    declared = LOG_OVERHEAD + int.from_bytes(data[8:LOG_OVERHEAD], "big", signed=True)
    if declared <= len(data):
        text = f"batchLength makes the batch end with byte {labeller.at(len(data)) - 1}, inside its own header"
        yield Statement(Tone.DAMAGE, f"{text} of {HEADER_SIZE} bytes.")
        yield Statement(Tone.KAFKA, kafka_says.SHORT_BATCH)
