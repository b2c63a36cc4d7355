"""Columnar lines against f-strings."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kdump.dump.text.columnlines import RecordTextOptions, batch_text, dump_runs
from kdump.fast.headers import read_headers
from kdump.fast.ragged import copy_ranges
from kdump.fast.records import decode_records
from kdump.fast.text import Bytes, Choice, Column, Integer, Literal, RaggedText, assemble
from kdump.fast.utf8 import replace_malformed
from kdump.format.batch import CODEC_NAMES, BatchHeader, header_dtype, increment_sequence, wrap_int64
from kdump.wire.utf8 import decode_utf8
from tests.harness.fast_reference import INT32, INT64, ROWS, Row, encode

EDGES = sorted({sign * (10**k + d) for k in range(19) for d in (-1, 0, 1) for sign in (-1, 1)} | {2**63 - 1, -(2**63)})


@pytest.mark.parametrize("low", EDGES[::5])
def test_integers_between(low: int) -> None:
    for high in EDGES[::7]:
        values = [low, high, (low + high) // 2, low]
        text = assemble([Literal(b"<"), Integer(np.array(values, np.int64)), Literal(b">")], 4)
        assert text.split() == [b"<%d>" % value for value in values]


def test_integer_edges() -> None:
    for values in (EDGES, [value for value in EDGES if value >= 0], [value for value in EDGES if value < 0]):
        assert assemble([Integer(np.array(values, np.int64))], len(values)).split() == [b"%d" % v for v in values]
        for value in values:
            assert assemble([Integer(np.array([value], np.int64))], 1).split() == [b"%d" % value]


@given(st.data(), st.integers(0, 40))
def test_lines_equal_joined_columns(data: st.DataObject, rows: int) -> None:
    columns: list[Column] = []
    expected = [b""] * rows
    for kind in data.draw(st.lists(st.sampled_from(["literal", "integer", "choice", "bytes"]), min_size=1, max_size=6)):
        if kind == "literal":
            literal = data.draw(st.binary(max_size=5))
            columns.append(Literal(literal))
            texts = [literal] * rows
        elif kind == "integer":
            bound = data.draw(st.sampled_from([1, 9, 12, 10_000, 2**63 - 1]))
            low = data.draw(st.sampled_from([-bound - 1, -1, 0, bound - bound // 9]))
            values = data.draw(st.lists(st.integers(low, bound), min_size=rows, max_size=rows))
            columns.append(Integer(np.array(values, np.int64)))
            texts = [b"%d" % value for value in values]
        elif kind == "choice":
            options = data.draw(st.tuples(st.binary(max_size=3), st.binary(max_size=300)))
            index = data.draw(st.lists(st.booleans(), min_size=rows, max_size=rows))
            columns.append(Choice(np.array(index, np.bool_), options))
            texts = [options[number] for number in index]
        else:
            texts = data.draw(st.lists(st.binary(max_size=20), min_size=rows, max_size=rows))
            text = RaggedText.join(texts)
            columns.append(Bytes(text.data, text.bounds[:-1], np.array([len(t) or -1 for t in texts], np.int32)))
        expected = [line + text for line, text in zip(expected, texts, strict=True)]
    assert assemble(columns, rows).split() == expected


@pytest.mark.parametrize("sizes", [(0, 1), (1, 4), (7, 8), (5, 40), (64, 128), (100, 600), (511, 1500), (3000, 9000)])
def test_copy_ranges(sizes: tuple[int, int]) -> None:
    rng = np.random.default_rng(sizes[1])
    source = rng.integers(0, 256, 20_000, dtype=np.uint8)
    size = rng.integers(*sizes, 50)
    start = rng.integers(0, source.size - size + 1)
    end = np.cumsum(size)
    target = np.empty(int(end[-1]), np.uint8)
    copy_ranges(source, start, size, target, end - size)
    assert target.tobytes() == b"".join(source[a : a + n].tobytes() for a, n in zip(start, size, strict=True))


def test_copy_ranges_stays_inside() -> None:
    buffer = np.zeros(10, np.uint8)
    with pytest.raises(IndexError):
        copy_ranges(buffer, np.array([3]), np.array([8]), np.zeros(20, np.uint8), np.array([0]))


@pytest.mark.slow
def test_malformed_utf8_exhaustively() -> None:
    boundary = [0x41, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC1, 0xC2, 0xE0, 0xE1, 0xED, 0xEF, 0xF0, 0xF1, 0xF4, 0xF5]
    for leads, size in ((boundary, 1), (boundary, 2), (boundary, 3), (boundary[-4:], 4)):
        pieces = [bytes(piece) for piece in product(leads, *[boundary] * (size - 1))]
        assert [replace_malformed(piece) for piece in pieces] == [decode_utf8(piece).encode() for piece in pieces]


@given(st.lists(st.binary(max_size=6)))
def test_malformed_utf8_does_not_cross_separators(pieces: list[bytes]) -> None:
    assert replace_malformed(b",".join(pieces)) == b",".join(decode_utf8(piece).encode() for piece in pieces)


SMALL_INT32 = st.sampled_from([-1, 0, 5, 2**31 - 1]) | INT32
HEADER = st.builds(
    BatchHeader,
    base_offset=INT64 | st.integers(0, 2000),
    batch_length=st.integers(49, 2**31 - 13),
    partition_leader_epoch=SMALL_INT32,
    magic=st.sampled_from([2, 127]),
    crc=st.integers(0, 2**32 - 1),
    attributes=st.sampled_from([0, 0, 0x08, 0x10, 0x20, 0x40, 0x58, 0xFF98]).flatmap(
        lambda bits: st.integers(0, 4).map(lambda codec: bits | codec)
    ),
    last_offset_delta=SMALL_INT32,
    base_timestamp=INT64 | st.just(1_700_000_000_000),
    max_timestamp=INT64 | st.just(1_700_000_000_000),
    producer_id=INT64 | st.just(-1),
    producer_epoch=st.integers(-(2**15), 2**15 - 1),
    base_sequence=SMALL_INT32,
    record_count=SMALL_INT32,
)
BATCHES = st.lists(st.tuples(HEADER, ROWS), min_size=1, max_size=5)
BOOLEANS = ("false", "true")


def timestamp_type(header: BatchHeader) -> str:
    return "LogAppendTime" if header.is_log_append_time else "CreateTime"


def expected_batch_line(header: BatchHeader, position: int, is_valid: bool) -> str:
    horizon = header.delete_horizon_ms
    delete_horizon = "OptionalLong.empty" if horizon is None else f"OptionalLong[{horizon}]"
    return (
        f"baseOffset: {header.base_offset} lastOffset: {header.last_offset} count: {header.record_count} "
        f"baseSequence: {header.base_sequence} lastSequence: {int32(header.last_sequence)} "
        f"producerId: {header.producer_id} producerEpoch: {header.producer_epoch} "
        f"partitionLeaderEpoch: {header.partition_leader_epoch} isTransactional: {BOOLEANS[header.is_transactional]} "
        f"isControl: {BOOLEANS[header.is_control]} deleteHorizonMs: {delete_horizon} position: {position} "
        f"{timestamp_type(header)}: {header.max_timestamp} size: {header.size} magic: {header.magic} "
        f"compresscodec: {CODEC_NAMES[header.codec]} crc: {header.crc} isvalid: {BOOLEANS[is_valid]}\n"
    )


def int32(value: int) -> int:
    return int(np.int64(value).astype(np.int32))


def expected_record_line(header: BatchHeader, row: Row, options: RecordTextOptions) -> str:
    timestamp = wrap_int64(header.base_timestamp + row.timestamp_delta)
    line = ""
    if options.metadata:
        sizes = [-1 if field is None else len(field) for field in (row.key, row.value)]
        sequence = -1 if header.base_sequence < 0 else int32(increment_sequence(header.base_sequence, row.offset_delta))
        line = (
            f"| offset: {wrap_int64(header.base_offset + row.offset_delta)} "
            f"{timestamp_type(header)}: {header.max_timestamp if header.is_log_append_time else timestamp} "
            f"keySize: {sizes[0]} valueSize: {sizes[1]} sequence: {sequence} "
            f"headerKeys: [{','.join(decode_utf8(key) for key, _ in row.headers)}]"
        )
    if options.contents:
        line += "" if row.key is None else f" key: {decode_utf8(row.key)}"
        line += "" if row.value is None else f" payload: {decode_utf8(row.value)}"
        if not options.metadata and line:
            line = "|" + line
    return line + "\n"


def lay_out(batches: list[tuple[BatchHeader, list[Row]]]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Arena, body starts, body ends and counts; the headers stay apart, so that they can say anything."""
    bodies = RaggedText.join([b"".join(map(encode, rows)) for _, rows in batches])
    return bodies.data, bodies.bounds[:-1], bodies.bounds[1:], np.array([len(rows) for _, rows in batches], np.int64)


def header_column(headers: list[BatchHeader]) -> np.ndarray:
    return np.array([tuple(header) for header in headers], header_dtype())


OPTIONS = st.builds(RecordTextOptions, st.booleans(), st.booleans())
PLAIN = BatchHeader(0, 100, 0, 2, 0, 0, 0, 0, 0, -1, -1, -1, 1)


@given(BATCHES, OPTIONS, st.sampled_from([1, 7]))
@example([(PLAIN, [Row(0, 0, b"\xed", b"\xa0")])], RecordTextOptions(True, True), 1)
@example([(PLAIN, []), (PLAIN, [Row(0, 0, None, None)])], RecordTextOptions(False, True), 1)
def test_record_lines(kinds: list[tuple[BatchHeader, list[Row]]], options: RecordTextOptions, copies: int) -> None:
    batches = kinds * copies
    arena, *bodies = lay_out(batches)
    headers = header_column([header for header, _ in batches])
    records = decode_records(arena, *bodies)
    expected = [
        None if header.is_control else "".join(expected_record_line(header, row, options) for row in rows).encode()
        for header, rows in batches
    ]
    position = np.arange(len(batches)) * 1000
    lines = batch_text(headers, position, position % 3000 == 0)
    expected_lines = [
        expected_batch_line(header, 1000 * index, index % 3 == 0).encode() for index, (header, _) in enumerate(batches)
    ]
    assert lines.split() == expected_lines
    last = 0
    for run in dump_runs(arena, records, headers, options, lines):
        assert run.first == last < run.last
        last = run.last
        pairs = zip(expected_lines, expected, strict=True)
        texts = [None if text is None else line + text for line, text in pairs][run.first : last]
        if run.rows is None:
            assert texts == [None] * len(texts)
        else:
            assert bytes(run.rows) == b"".join(text or b"?" for text in texts)
    assert last == len(batches)


def test_refused_batches_have_no_text() -> None:
    row = Row(0, 0, b"k", b"v")
    arena, start, end, count = lay_out([(PLAIN, [row])] * 4)
    count[1:3] = 2
    records = decode_records(arena, start, end, count)
    headers = header_column([PLAIN] * 4)
    text = batch_text(headers, start, np.ones(4, np.bool_))
    runs = list(dump_runs(arena, records, headers, RecordTextOptions(), text))
    assert [(run.first, run.last, run.rows is None) for run in runs] == [
        (0, 1, False),
        (1, 3, True),
        (3, 4, False),
    ]


@pytest.mark.parametrize("rows_a_batch", [1, 20_000])
@pytest.mark.slow
def test_more_rows_than_a_block(rows_a_batch: int) -> None:
    count = 25_000 // rows_a_batch
    batch = (PLAIN, [Row(n, n, b"%d" % n, None if n % 3 else "é".encode(), []) for n in range(rows_a_batch)])
    arena, *bodies = lay_out([batch] * count)
    options = RecordTextOptions(contents=True)
    records = decode_records(arena, *bodies)
    lines = RaggedText.join([b"batch\n"] * count)
    runs = list(dump_runs(arena, records, header_column([PLAIN] * count), options, lines))
    records_text = "".join(expected_record_line(PLAIN, row, options) for row in batch[1])
    assert b"".join(b"" if run.rows is None else bytes(run.rows) for run in runs) == (
        ("batch\n" + records_text).encode() * count
    )
    assert [run.first for run in runs] == [0, *(run.last for run in runs[:-1])]


def test_an_unknown_codec_has_no_line() -> None:
    headers = header_column([PLAIN._replace(attributes=5)])
    with pytest.raises(ValueError, match="codec id 5"):
        batch_text(headers, np.zeros(1, np.int64), np.ones(1, np.bool_))


def test_nothing() -> None:
    none = np.empty(0, np.int64)
    arena = np.empty(0, np.uint8)
    headers = read_headers(arena, none)
    records = decode_records(arena, none, none, none)
    lines = batch_text(headers, none, none.astype(np.bool_))
    assert lines.split() == []
    assert list(dump_runs(arena, records, headers, RecordTextOptions(), lines)) == []
