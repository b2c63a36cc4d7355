"""fast.records against a slow reference: it only accepts, and what it accepts has the same rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.fast import records
from kdump.fast.headers import native_column, read_headers
from kdump.fast.records import RecordColumns, decode_records
from kdump.format.batch import HEADER_SIZE, parse_header
from tests.harness.examples import examples
from tests.harness.fast_reference import ROWS, Row, encode, reference, varint


def decode(bodies: list[bytes], counts: list[int]) -> tuple[bytes, RecordColumns]:
    """Lay the bodies out with a little room between them and decode."""
    arena = bytearray()
    starts = []
    for body in bodies:
        arena += b"\x7f" * 3
        starts.append(len(arena))
        arena += body
    start = np.array(starts, np.int64)
    end = start + np.array([len(body) for body in bodies], np.int64)
    data = bytes(arena)
    return data, decode_records(np.frombuffer(data, np.uint8), start, end, np.array(counts, np.int64))


def rows_of(data: bytes, columns: RecordColumns) -> list[list[Row] | None]:
    """The columns as rows of each batch, None for a refused one."""

    def piece(start: int, size: int) -> bytes | None:
        assert size >= -1
        assert 0 <= start <= start + max(size, 0) <= len(data)
        return None if size < 0 else data[start : start + size]

    header_first = np.cumsum(columns.header_count) - columns.header_count
    headers = columns.headers
    result: list[list[Row] | None] = []
    for batch, accepted in enumerate(columns.accepted):
        first = int(columns.first_row[batch])
        rows = []
        for row in range(first, first + int(columns.row_count[batch])):
            assert columns.batch[row] == batch
            own = range(header_first[row], header_first[row] + columns.header_count[row])
            rows.append(
                Row(
                    int(columns.timestamp_delta[row]),
                    int(columns.offset_delta[row]),
                    piece(int(columns.key_start[row]), int(columns.key_size[row])),
                    piece(int(columns.value_start[row]), int(columns.value_size[row])),
                    [
                        (
                            piece(int(headers.key_start[i]), int(headers.key_size[i])) or b"",
                            piece(int(headers.value_start[i]), int(headers.value_size[i])),
                        )
                        for i in own
                    ],
                )
            )
        result.append(rows if accepted else None)
    return result


@given(st.lists(ROWS, max_size=6), st.integers(0, 2))
def test_well_formed_batches_are_accepted(batches: list[list[Row]], padding: int) -> None:
    bodies = [b"".join(encode(row, padding) for row in rows) for rows in batches]
    assert rows_of(*decode(bodies, [len(rows) for rows in batches])) == batches


@examples(200)
@given(
    st.lists(ROWS.filter(bool), min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(0, 2**16), st.integers(0, 255)), max_size=3),
    st.integers(-2, 2),
    st.integers(-3, 3),
    st.sampled_from([1, 60]),
)
def test_damaged_batches_agree_with_the_reference(
    batches: list[list[Row]], flips: list[tuple[int, int]], extra_count: int, extra_bytes: int, copies: int
) -> None:
    bodies = [bytearray(b"".join(map(encode, rows))) for rows in batches]
    for at, byte in flips:
        body = bodies[at % len(bodies)]
        body[at % len(body)] = byte
    counts = [len(rows) for rows in batches]
    counts[0] += extra_count
    bodies[-1] = bodies[-1] + bytes(extra_bytes) if extra_bytes > 0 else bodies[-1][: len(bodies[-1]) + extra_bytes]
    damaged = [bytes(body) for body in bodies] * copies
    expected = [reference(body, count) for body, count in zip(damaged, counts * copies, strict=True)]
    assert rows_of(*decode(damaged, counts * copies)) == expected


@examples(100)
@given(
    ROWS.filter(bool),
    st.none() | st.tuples(st.integers(0, 2**16), st.integers(1, 255)),
    st.tuples(st.integers(1, 4), st.integers(1, 40)),
)
def test_slices_are_the_whole(rows: list[Row], damage: tuple[int, int] | None, most: tuple[int, int]) -> None:
    """Of so many rows or bytes at most: they are accepted where the whole is, and not only so."""
    body = bytearray(b"".join(map(encode, rows)))
    if damage is not None:
        body[damage[0] % len(body)] ^= damage[1]
    # Records do not lie at the arena's begin only.
    data = b"12345" + bytes(body) + b"67"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "_SLICE_ROWS", most[0])
        patch.setattr(records, "_SLICE_BYTES", most[1])
        slices = records.SlicedRecords(np.frombuffer(data, np.uint8), 5, 5 + len(body), len(rows))
        found = [rows_of(data, part.columns)[0] for part in slices]
    whole = None if None in found else [row for part in found for row in part or ()]
    assert whole == reference(bytes(body), len(rows))


@given(st.lists(st.binary(max_size=30), min_size=1, max_size=10), st.integers(1, 6))
def test_noise_agrees_with_the_reference(bodies: list[bytes], count: int) -> None:
    expected = [reference(body, count) for body in bodies] * 40
    assert rows_of(*decode(bodies * 40, [count] * len(expected))) == expected


ROW = Row(1, 0, b"k", b"v")


@pytest.mark.parametrize("copies", [1, 100])
@pytest.mark.parametrize(
    ("body", "count", "accepted"),
    [
        (b"", 0, True),
        (b"not looked at", 0, True),
        (b"", 1, False),
        (encode(ROW), -1, False),
        (encode(ROW), 2, False),
        (encode(ROW), 2**31 - 1, False),
        (encode(ROW) + b"\0", 1, False),
        (encode(ROW) * 3, 3, True),
        (b"\x80" * 50, 3, False),
        (b"\xff\xff\xff\xff\x0f" + bytes(20), 1, False),
        (b"\xff\xff\xff\xff\x1f" + bytes(20), 1, False),
        (b"\xfe\xff\xff\xff\x0f" + bytes(20), 1, False),
        # A null key written as -2: Kafka takes any negative size.
        (varint(7) + b"\0\0\0\x03" + b"\x02v\0", 1, True),
        # Key size 2^31 - 1, header count -1, header count too high, header key size -1.
        (varint(10) + b"\0\0\0" + varint(2**31 - 1) + b"\0\0", 1, False),
        (varint(6) + b"\0\0\0\x01\x01\x01", 1, False),
        (varint(6) + b"\0\0\0\x01\x01" + b"\x02", 1, False),
        (varint(8) + b"\0\0\0\x01\x01\x02\x01\x01", 1, False),
        (varint(8) + b"\0\0\0\x01\x01\x02\x00\x01", 1, True),
        # Eleven bytes, and ten that overflow an int64.
        (varint(16) + b"\0" + b"\x80" * 10 + b"\0" + b"\0\x01\x01\0", 1, False),
        (varint(15) + b"\0" + b"\x80" * 9 + b"\x02" + b"\0\x01\x01\0", 1, False),
        (varint(15) + b"\0" + b"\x80" * 9 + b"\x01" + b"\0\x01\x01\0", 1, True),
    ],
)
def test_edges(body: bytes, count: int, accepted: bool, copies: int) -> None:
    assert (reference(body, count) is not None) == accepted
    _, columns = decode([body] * copies, [count] * copies)
    assert columns.accepted.tolist() == [accepted] * copies
    assert columns.row_count.tolist() == [count if accepted else 0] * copies


def test_nothing() -> None:
    none = np.empty(0, np.int64)
    columns = decode_records(np.empty(0, np.uint8), none, none, none)
    assert columns.accepted.size == columns.batch.size == columns.headers.key_start.size == 0


def test_a_body_beyond_the_arena_is_refused() -> None:
    arena = np.frombuffer(encode(ROW), np.uint8)
    bounds = np.array([-1, 0, 0], np.int64), np.array([arena.size, arena.size + 1, arena.size], np.int64)
    assert decode_records(arena, *bounds, np.ones(3, np.int64)).accepted.tolist() == [False, False, True]


@pytest.mark.parametrize("copies", [1, 40])
def test_large_records_and_many_headers(copies: int) -> None:
    rows = [
        Row(0, 0, b"k" * 9000, b"v" * 70_000, [(b"h%d" % i, None) for i in range(100)]),
        Row(2**63 - 1, 1, None, b"v" * 3_000_000 if copies == 1 else b"", [(b"", b"x" * 300)]),
        Row(0, 2, None, None),
    ]
    assert rows_of(*decode([b"".join(map(encode, rows))] * copies, [3] * copies)) == [rows] * copies


def test_headers_equal_the_struct_parser() -> None:
    rng = np.random.default_rng(4)
    buffer = rng.integers(0, 256, 4000, dtype=np.uint8)
    starts = np.array([0, 3, 77, 4000 - HEADER_SIZE], np.int64)
    headers = read_headers(buffer, starts)
    for start, header in zip(starts.tolist(), headers, strict=True):
        assert tuple(header.item()) == tuple(parse_header(buffer.tobytes(), start))
    assert native_column(headers, "base_offset").tolist() == [parse_header(buffer.tobytes(), s)[0] for s in starts]
    assert read_headers(buffer, starts[:0]).size == 0
    for bad in (-1, 4000 - HEADER_SIZE + 1):
        with pytest.raises(IndexError):
            read_headers(buffer, np.array([bad], np.int64))
