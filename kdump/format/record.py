"""Records of a v2 batch, one at a time: strict, with precise errors.

Source: docs/spec/formats.md#31-record (KIP-98, KIP-82 for headers). This decoder alone rejects; ``kdump.fast`` only
accepts and must give the same rows where it does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, TypeAlias

from kdump.codes import Codes, DamageError
from kdump.format.batch import CODEC_MASK, HEADER_SIZE, NO_SEQUENCE, BatchHeader, increment_sequence, wrap_int64
from kdump.wire import compression
from kdump.wire.checksum import Buffer
from kdump.wire.varint import read_varint, read_varlong

_KEPT_WHOLE: Final = 1 << 20
"""Bytes of a decompressed body up to which its records are kept rather than decoded twice; as objects they take up to
fifty times as much."""
PIECE_RECORDS: Final = 1 << 16
PIECE_BYTES: Final = 4 << 20
"""Records, and bytes of them, that are looked at together where they are in memory as objects or as columns."""
Headers: TypeAlias = tuple[tuple[bytes, bytes | None], ...]
"""Pairs of key and value."""
_FREE_HEADERS: Final = 1000
HEADER_COST: Final = 512
"""Bytes of the limit that a header of a record takes: what becomes of the smallest one, of two bytes, and its texts."""


class Record(NamedTuple):
    """One record. ``offset``, ``timestamp`` (ms) and ``sequence`` are absolute; null key or value is None."""

    offset: int
    timestamp: int
    sequence: int
    key: bytes | None
    value: bytes | None
    headers: Headers

    @property
    def key_size(self) -> int:
        """Bytes of the key, -1 for null."""
        return size_of(self.key)

    @property
    def value_size(self) -> int:
        """Bytes of the value, -1 for null."""
        return size_of(self.value)


def most_headers(limit: int) -> int:
    """Headers that one record may have: each takes 512 bytes of the limit of a decompressed batch, and 1,000 are free.

    Kafka knows no bound; a record of a few bytes, compressed, could become gigabytes of them.
    """
    return _FREE_HEADERS + limit // HEADER_COST


def size_of(data: bytes | None) -> int:
    """Bytes of a key or a value as records and messages store it: -1 for null."""
    return -1 if data is None else len(data)


def is_large(record_count: int, size: int) -> bool:
    """``record_count`` records in ``size`` bytes are looked at in pieces."""
    return record_count > PIECE_RECORDS or size > PIECE_BYTES


def batch_body(header: BatchHeader, batch: memoryview, limit: int = compression.DEFAULT_LIMIT) -> Buffer:
    """The records of ``batch`` (the whole batch, header included), decompressed.

    Raises:
        DamageError: the payload cannot be decompressed, or grows over ``limit`` bytes.
    """
    body = batch[HEADER_SIZE:]
    if header.codec == compression.NONE:
        return body
    return compression.decompress(header.codec, body, magic=header.magic, limit=limit)


def read_records(header: BatchHeader, batch: memoryview, limit: int = compression.DEFAULT_LIMIT) -> Iterator[Record]:
    """The records of one whole batch, in stored order.

    As in Kafka, an uncompressed batch is decoded lazily (the records before the damage are yielded) and a compressed
    one completely before its first record is yielded; a batch that claims 0 records is not looked into.

    Raises:
        DamageError: CODEC, PAYLOAD, RECORD_COUNT or RECORD.
    """
    if len(batch) < HEADER_SIZE:
        raise DamageError(Codes.RECORD_COUNT, f"a batch of {len(batch)} bytes holds no whole header")
    if header.record_count == 0:
        return
    if header.record_count < 0:
        raise DamageError(Codes.RECORD_COUNT, f"the record count is {header.record_count}")
    body = batch_body(header, batch, limit)
    if not header.attributes & CODEC_MASK:
        yield from read_body(header, body, limit)
    elif len(body) <= _KEPT_WHOLE:
        yield from list(read_body(header, body, limit))
    else:
        for _ in read_body(header, body, limit):
            pass
        yield from read_body(header, body, limit)


def in_pieces(records: Iterable[Record]) -> Iterator[list[Record]]:
    """Some thousand records at a time, or some megabytes of them.

    Raises:
        DamageError: as ``records`` does, after a piece with those before the damage.
    """
    piece: list[Record] = []
    size = 0
    try:
        for record in records:
            piece.append(record)
            size += len(record.key or b"") + len(record.value or b"") + HEADER_COST * len(record.headers)
            if len(piece) >= PIECE_RECORDS or size >= PIECE_BYTES:
                yield piece
                piece, size = [], 0
    except DamageError:
        if piece:
            yield piece
        raise
    if piece:
        yield piece


def read_body(
    header: BatchHeader, body: Buffer, limit: int = compression.DEFAULT_LIMIT, first: int = 0, position: int = 0
) -> Iterator[Record]:
    """The records in the decompressed ``body`` from number ``first`` on, which begins at byte ``position`` of it.

    Raises:
        DamageError: as ``read_records``, after the records before the damage.
    """
    count = header.record_count
    most = most_headers(limit)
    end = len(body)
    fixed_timestamp = header.max_timestamp if header.is_log_append_time else None
    for index in range(first, count):
        if position >= end:
            raise DamageError(Codes.RECORD_COUNT, f"{count} records declared, {index} found")
        try:
            record, position = _read_record(
                header, body, position, end, fixed_timestamp=fixed_timestamp, most_headers=most
            )
        except DamageError as error:
            raise DamageError(error.code, f"record {index}: {error.message}") from None
        # Kafka looks for leftover bytes before it hands out the last record.
        if index == count - 1 and position != end:
            raise DamageError(Codes.RECORD_COUNT, f"{end - position} bytes left after the {count} records declared")
        yield record


def _read_record(
    header: BatchHeader, body: Buffer, position: int, batch_end: int, *, fixed_timestamp: int | None, most_headers: int
) -> tuple[Record, int]:
    size, start = read_varint(body, position, batch_end)
    end = start + size
    if size < 0 or end > batch_end:
        raise DamageError(Codes.RECORD, f"its length is {size} where {batch_end - start} bytes are left")
    # start is the attributes byte, which no version uses.
    timestamp_delta, position = read_varlong(body, start + 1, end)
    offset_delta, position = read_varint(body, position, end)
    key, position = _read_bytes(body, position, end, "key")
    value, position = _read_bytes(body, position, end, "value")
    header_count, position = read_varint(body, position, end)
    headers: Headers = ()
    if header_count:
        headers, position = _read_headers(body, position, end, header_count, most=most_headers)
    if position != end:
        raise DamageError(Codes.RECORD, f"its length is {size}, its fields take {position - start} bytes")
    sequence = header.base_sequence
    record = Record(
        wrap_int64(header.base_offset + offset_delta),
        fixed_timestamp if fixed_timestamp is not None else wrap_int64(header.base_timestamp + timestamp_delta),
        increment_sequence(sequence, offset_delta) if sequence >= 0 else NO_SEQUENCE,
        key,
        value,
        headers,
    )
    return record, end


def _read_bytes(body: Buffer, position: int, end: int, what: str) -> tuple[bytes | None, int]:
    size, position = read_varint(body, position, end)
    if size < 0:
        return None, position
    if size > end - position:
        raise DamageError(Codes.RECORD, f"a {what} of {size} bytes where {end - position} are left")
    return bytes(body[position : position + size]), position + size


def _read_headers(body: Buffer, position: int, end: int, count: int, *, most: int) -> tuple[Headers, int]:
    if not 0 <= count <= end - position:
        raise DamageError(Codes.RECORD, f"{count} headers where {end - position} bytes are left")
    if count > most:
        raise DamageError(
            Codes.PAYLOAD_TOO_LARGE, f"{count:,} headers are more than {most:,} (--max-decompressed-size)"
        )
    headers = []
    for _ in range(count):
        header, position = _read_header(body, position, end)
        headers.append(header)
    return tuple(headers), position


def _read_header(body: Buffer, position: int, end: int) -> tuple[tuple[bytes, bytes | None], int]:
    key, position = _read_bytes(body, position, end, "header key")
    if key is None:
        raise DamageError(Codes.RECORD, "a header without key")
    value, position = _read_bytes(body, position, end, "header value")
    return (key, value), position
