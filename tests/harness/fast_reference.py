"""A writer of v2 record batches and a reader of them, a byte at a time: the reference of the tests of ``fast``.

Written from docs/spec/formats.md#31-record alone; it shares no code with kdump.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import strategies as st

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
NULLABLE = st.none() | st.binary(max_size=40) | st.binary(min_size=60, max_size=70)


@dataclass(frozen=True)
class Row:
    """One record as the reference sees it; a size below 0 reads as null."""

    timestamp_delta: int
    offset_delta: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[bytes, bytes | None]] = field(default_factory=list)


HEADERS = st.lists(st.tuples(st.binary(max_size=9), st.none() | st.binary(max_size=9)), max_size=3)
ROWS = st.lists(
    st.builds(Row, INT64 | st.integers(-9, 300), INT32 | st.integers(0, 300), NULLABLE, NULLABLE, HEADERS), max_size=6
)


def varint(value: int, bits: int = 32, padding: int = 0) -> bytes:
    """Zig-zag varint with ``padding`` superfluous bytes, as no writer makes them but every reader takes them."""
    raw = (value << 1 ^ value >> bits - 1) & (1 << bits) - 1
    out = bytearray()
    while raw >= 0x80:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)
    for _ in range(min(padding, (bits + 6) // 7 - len(out))):
        out[-1] |= 0x80
        out.append(0)
    return bytes(out)


def nullable(value: bytes | None) -> bytes:
    return varint(-1) if value is None else varint(len(value)) + value


def encode(row: Row, padding: int = 0) -> bytes:
    body = bytearray(b"\0" + varint(row.timestamp_delta, 64, padding) + varint(row.offset_delta))
    body += nullable(row.key) + nullable(row.value) + varint(len(row.headers))
    for key, value in row.headers:
        body += varint(len(key)) + key + nullable(value)
    return varint(len(body), 32, padding) + bytes(body)


class Reader:
    """The strict reader, a byte at a time; ValueError for whatever Kafka refuses."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    def take(self, size: int) -> bytes:
        if size > len(self.data) - self.position:
            raise ValueError("beyond the end")
        self.position += size
        return self.data[self.position - size : self.position]

    def varint(self, bits: int = 32) -> int:
        raw = 0
        for index in range(5 if bits == 32 else 10):
            byte = self.take(1)[0]
            raw |= (byte & 0x7F) << 7 * index
            if byte < 0x80:
                if raw >> bits:
                    break
                return raw >> 1 ^ -(raw & 1)
        raise ValueError("varint")

    def nullable(self) -> bytes | None:
        size = self.varint()
        return None if size < 0 else self.take(size)

    def record(self) -> Row:
        size = self.varint()
        start = self.position
        self.take(1)
        timestamp_delta, offset_delta = self.varint(64), self.varint()
        key, value = self.nullable(), self.nullable()
        count = self.varint()
        if not 0 <= count <= len(self.data):
            raise ValueError("header count")
        headers = []
        for _ in range(count):
            header_key = self.nullable()
            if header_key is None:
                raise ValueError("header key")
            headers.append((header_key, self.nullable()))
        if self.position - start != size:
            raise ValueError("record size")
        return Row(timestamp_delta, offset_delta, key, value, headers)


def reference(body: bytes, count: int) -> list[Row] | None:
    if count == 0:
        return []
    reader = Reader(body)
    try:
        if count < 0 or count > len(body):
            raise ValueError("count")
        rows = [reader.record() for _ in range(count)]
    except ValueError:
        return None
    return rows if reader.position == len(body) else None
