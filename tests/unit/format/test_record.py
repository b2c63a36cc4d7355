"""format.record: whole batches of every shape, and each way in which one can be malformed."""

from __future__ import annotations

from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.codes import Codes, DamageError
from kdump.format.batch import increment_sequence, parse_header, wrap_int64
from kdump.format.record import Record, read_records
from tests.harness.batches import CODECS, GZIP, LOG_APPEND_TIME, NONE, NOW, ZSTD, compress, plain_rows, v2_batch
from tests.harness.fast_reference import INT32, INT64, ROWS, Row, encode, nullable, varint

HEAD = b"\0" + varint(0, 64) + varint(0)
"""Attributes and deltas of a record."""


def records(batch: bytes, limit: int = 1 << 20) -> list[Record]:
    return list(read_records(parse_header(batch), memoryview(batch), limit))


def damage(batch: bytes, *, before: int = 0, limit: int = 1 << 20) -> DamageError:
    """The error, after exactly ``before`` good records."""
    rows = read_records(parse_header(batch), memoryview(batch), limit)
    assert len(list(islice(rows, before))) == before
    with pytest.raises(DamageError) as caught:
        next(rows)
    return caught.value


def framed(*bodies: bytes) -> bytes:
    return b"".join(varint(len(body)) + body for body in bodies)


@given(ROWS, st.sampled_from([NONE, *CODECS]), INT64, INT64, st.integers(-1, 2**31 - 1))
def test_round_trip(rows: list[Row], codec: int, base_offset: int, base_timestamp: int, base_sequence: int) -> None:
    batch = v2_batch(
        rows,
        codec=codec,
        base_offset=base_offset,
        base_timestamp=base_timestamp,
        max_timestamp=0,
        base_sequence=base_sequence,
    )
    assert records(batch) == [
        Record(
            wrap_int64(base_offset + row.offset_delta),
            wrap_int64(base_timestamp + row.timestamp_delta),
            increment_sequence(base_sequence, row.offset_delta) if base_sequence >= 0 else -1,
            row.key,
            row.value,
            tuple(row.headers),
        )
        for row in rows
    ]


def test_log_append_time_is_that_of_the_batch() -> None:
    batch = v2_batch(plain_rows(3), attributes=LOG_APPEND_TIME, max_timestamp=NOW + 99)
    assert [record.timestamp for record in records(batch)] == [NOW + 99] * 3


@given(st.integers(-(2**31), -1), INT32)
def test_negative_sizes_are_null(size: int, sequence: int) -> None:
    body = framed(HEAD + varint(size) + varint(size) + varint(1) + varint(1) + b"h" + varint(size))
    (record,) = records(v2_batch(body=body, record_count=1, base_sequence=sequence))
    assert (record.key, record.value, record.headers) == (None, None, ((b"h", None),))


def test_attributes_of_a_record_are_unused() -> None:
    body = framed(b"\xff" + HEAD[1:] + nullable(b"k") + nullable(b"v") + varint(0))
    (record,) = records(v2_batch(body=body, record_count=1))
    assert (record.key, record.value) == (b"k", b"v")


def test_no_records_and_nothing_looked_at() -> None:
    assert records(v2_batch()) == []
    assert records(v2_batch(body=b"rubbish", record_count=0)) == []
    assert records(v2_batch(body=b"rubbish", record_count=0, attributes=7)) == []


@pytest.mark.parametrize("count", [-1, -(2**31)])
def test_negative_count(count: int) -> None:
    error = damage(v2_batch(plain_rows(2), record_count=count))
    assert error.code is Codes.RECORD_COUNT
    assert str(count) in error.message


def test_count_too_high() -> None:
    assert damage(v2_batch(plain_rows(3), record_count=4), before=3).code is Codes.RECORD_COUNT
    assert damage(v2_batch(plain_rows(3), record_count=2**31 - 1), before=3).code is Codes.RECORD_COUNT


def test_count_too_low() -> None:
    # The last record counted is not given out: leftover bytes are looked for first.
    assert damage(v2_batch(plain_rows(3), record_count=2), before=1).code is Codes.RECORD_COUNT
    assert damage(v2_batch(body=encode(plain_rows(1)[0]) + b"\0", record_count=1)).code is Codes.RECORD_COUNT


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("count", [2, 4])
def test_compressed_batches_are_decoded_whole_first(codec: int, count: int) -> None:
    assert damage(v2_batch(plain_rows(3), codec=codec, record_count=count)).code is Codes.RECORD_COUNT


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_unknown_codec(codec: int) -> None:
    assert damage(v2_batch(plain_rows(1), attributes=codec)).code is Codes.CODEC


def test_payload_that_does_not_decompress() -> None:
    assert damage(v2_batch(body=b"rubbish", record_count=1, attributes=GZIP)).code is Codes.PAYLOAD


def test_limit() -> None:
    batch = v2_batch(plain_rows(5, 10_000), codec=ZSTD)
    assert len(records(batch, limit=1 << 16)) == 5
    assert damage(batch, limit=50_000).code is Codes.PAYLOAD_TOO_LARGE
    # Records that were never compressed have no limit.
    assert len(records(v2_batch(plain_rows(5, 10_000)), limit=1)) == 5


def test_large_compressed_batch_is_lazy_only_after_a_whole_check() -> None:
    rows = plain_rows(3, 6 << 20)
    assert [len(record.value or b"") for record in records(v2_batch(rows, codec=ZSTD), 1 << 30)] == [6 << 20] * 3
    assert damage(v2_batch(rows, codec=ZSTD, record_count=4), limit=1 << 30).code is Codes.RECORD_COUNT


MALFORMED = {
    "length beyond the batch": varint(50) + HEAD,
    "negative length": varint(-1) + HEAD,
    "length cut": b"\x80",
    "length too long a varint": b"\x80" * 6,
    "empty record": varint(0),
    "only attributes": framed(b"\0"),
    "timestamp cut": framed(b"\0\x80"),
    "no offset": framed(b"\0" + varint(0, 64)),
    "no key": framed(HEAD),
    "no value": framed(HEAD + nullable(b"k")),
    "no headers": framed(HEAD + nullable(b"k") + nullable(b"v")),
    "key beyond the record": framed(HEAD + varint(9) + b"key"),
    "value beyond the record": framed(HEAD + nullable(b"k") + varint(9) + b"value"),
    "negative header count": framed(HEAD + nullable(None) * 2 + varint(-1)),
    "more headers than bytes": framed(HEAD + nullable(None) * 2 + varint(63) + bytes(9)),
    "header without key": framed(HEAD + nullable(None) * 2 + varint(1) + varint(-1) + varint(-1)),
    "header key beyond the record": framed(HEAD + nullable(None) * 2 + varint(1) + varint(9) + b"key"),
    "header without value": framed(HEAD + nullable(None) * 2 + varint(1) + nullable(b"h")),
    "header value beyond the record": framed(HEAD + nullable(None) * 2 + varint(1) + nullable(b"h") + varint(2) + b"v"),
    "bytes after the fields": framed(HEAD + nullable(None) * 2 + varint(0) + b"\0"),
}


@pytest.mark.parametrize("body", MALFORMED.values(), ids=MALFORMED)
def test_malformed_record(body: bytes) -> None:
    error = damage(v2_batch(body=body, record_count=1))
    assert error.code is Codes.RECORD
    assert error.message.startswith("record 0: ")
    # Behind good ones: these stand, unless the batch is compressed.
    good = b"".join(map(encode, plain_rows(2)))
    assert damage(v2_batch(body=good + body, record_count=3), before=2).message.startswith("record 2: ")
    packed = compress(GZIP, good + body)
    assert damage(v2_batch(body=packed, record_count=3, attributes=GZIP)).code is Codes.RECORD


@pytest.mark.parametrize("size", [0, 17, 60])
def test_batch_shorter_than_its_header(size: int) -> None:
    whole = v2_batch()
    with pytest.raises(DamageError) as caught:
        list(read_records(parse_header(whole), memoryview(whole)[:size]))
    assert caught.value.code is Codes.RECORD_COUNT


@given(st.binary(max_size=80), st.integers(-2, 9))
def test_rubbish_never_crashes(body: bytes, count: int) -> None:
    batch = v2_batch(body=body, record_count=count)
    code = None
    try:
        rows = records(batch)
    except DamageError as error:
        code = error.code
    assert code in (Codes.RECORD, Codes.RECORD_COUNT) or len(rows) == count
