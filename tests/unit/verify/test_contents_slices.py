"""Large batches that are checked by slices: the findings are those of reading every record."""

from __future__ import annotations

import random
import struct
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.codes import Codes, Finding
from kdump.format.record import Record
from kdump.verify.contents import BatchRecords, check_batch
from kdump.wire.compression import DEFAULT_LIMIT
from tests.harness.batches import (
    CONTROL,
    DELETE_HORIZON,
    GZIP,
    LOG_APPEND_TIME,
    NOW,
    ZSTD,
    compress,
    plain_rows,
    v2_batch,
)
from tests.harness.checked import both_ways
from tests.harness.examples import examples
from tests.harness.fast_reference import Row, encode
from tests.oracle.mutations import with_right_crc

KEYS = st.sampled_from((b"", b"key", "ключ".encode(), b"\xff", b"\xd0"))
HEADERS = st.lists(st.tuples(KEYS, st.none() | st.binary(max_size=3)), max_size=3)
RECORDS = st.builds(
    Row,
    # Mostly rising: see rows_of.
    offset_delta=st.sampled_from((1, 1, 1, 1, 2, 0, -1, -9, 50)),
    timestamp_delta=st.sampled_from((0, 1, 5, -3, -NOW, -NOW - 9, 2**62)),
    key=st.none() | st.binary(max_size=4),
    value=st.none() | st.binary(max_size=4),
    headers=HEADERS.map(tuple),
)
EDGES = st.sampled_from((-(2**31), -1, 0, 1, 7, 2**31 - 1))
FIELDS = st.fixed_dictionaries(
    {"codec": st.sampled_from((0, GZIP))},
    optional={
        "base_offset": st.sampled_from((0, 5, 2**63 - 3, -(2**63))),
        "last_offset_delta": EDGES,
        "max_timestamp": st.sampled_from((-1, 0, NOW, NOW + 5, 2**63 - 1)),
        "base_timestamp": st.sampled_from((-6, NOW, 2**63 - 2)),
        "record_count": st.integers(0, 20),
        "attributes": st.sampled_from((LOG_APPEND_TIME, CONTROL, DELETE_HORIZON, 5)),
        "producer_id": st.sampled_from((-1, 7)),
    },
)


def rows_of(steps: list[Row]) -> list[Row]:
    """The records with offset deltas that are the sums of theirs."""
    delta = -1
    rows = []
    for step in steps:
        delta += step.offset_delta
        rows.append(replace(step, offset_delta=delta))
    return rows


def sliced(patch: pytest.MonkeyPatch, count: int = 2, size: int = 1 << 20) -> None:
    """Every batch with some records is large."""
    patch.setattr("kdump.format.record.PIECE_RECORDS", 1)
    patch.setattr("kdump.fast.blocks._LARGEST_COUNT", 1)
    patch.setattr("kdump.fast.records._SLICE_ROWS", count)
    patch.setattr("kdump.fast.records._SLICE_BYTES", size)


def findings(batch: bytes) -> list[Finding]:
    return list(check_batch(memoryview(batch), 11, DEFAULT_LIMIT))


def assert_alike(patch: pytest.MonkeyPatch, batch: bytes, count: int = 2, size: int = 1 << 20) -> None:
    expected = findings(batch)
    with patch.context() as inner:
        sliced(inner, count, size)
        assert findings(batch) == expected


@given(
    st.lists(RECORDS, min_size=2, max_size=20).map(rows_of),
    FIELDS,
    st.tuples(st.integers(1, 6), st.integers(1, 60)),
    st.randoms(use_true_random=False),
)
@examples(300)
def test_findings_are_alike(
    monkeypatch: pytest.MonkeyPatch,
    rows: list[Row],
    fields: dict[str, int],
    slice_sizes: tuple[int, int],
    choose: random.Random,
) -> None:
    body = bytearray(b"".join(map(encode, rows)))
    if choose.random() < 0.4:
        body[choose.randrange(len(body))] ^= 1 << choose.randrange(8)
    if choose.random() < 0.1:
        del body[choose.randrange(len(body)) :]
    stored = compress(fields["codec"], bytes(body)) if fields["codec"] else bytes(body)
    batch = v2_batch(rows, body=stored, **fields)
    assert_alike(monkeypatch, batch, *slice_sizes)


@pytest.mark.parametrize(("codec", "at"), [(0, 0), (0, 2), (ZSTD, 3), (ZSTD, 9)])
@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, None),
        ({"offset_delta": -2}, Codes.OFFSET_DELTA),
        ({"offset_delta": 10}, Codes.OFFSET_DELTA),
        ({"offset_delta": 0}, Codes.OFFSET_DELTA),
        ({"timestamp_delta": -NOW - 2}, Codes.MAX_TIMESTAMP),
        ({"headers": ((b"\xff", None),)}, Codes.HEADER_ENCODING),
    ],
)
def test_one_record_that_is_wrong(
    monkeypatch: pytest.MonkeyPatch, codec: int, at: int, changed: dict[str, object], expected: Codes | None
) -> None:
    """In each place of a slice, so between two slices too."""
    rows = plain_rows(10)
    rows[at] = replace(rows[at], **changed)  # type: ignore[arg-type]
    batch = v2_batch(rows, codec=codec, last_offset_delta=9, max_timestamp=NOW + 9)
    whole = both_ways(batch)
    with monkeypatch.context() as patch:
        sliced(patch, 3)
        assert both_ways(batch) == whole
    if expected is not None and (at or changed != {"offset_delta": 0}):
        assert expected in {one.code for one in whole}


def test_sound_slices_are_not_read_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    sliced(monkeypatch)
    monkeypatch.setattr("kdump.verify.contents.BatchRecords.see", None)
    assert both_ways(v2_batch(plain_rows(9), codec=ZSTD)) == []


def test_a_rule_that_was_broken_is_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """All records have one offset: 14 million of them in 9 KB took 108 s."""
    count = 20_000
    batch = v2_batch(
        body=compress(ZSTD, encode(Row(0, 0, None, None)) * count),
        codec=ZSTD,
        record_count=count,
        last_offset_delta=count - 1,
        max_timestamp=NOW,
    )
    expected = findings(batch)
    sliced(monkeypatch, 100)
    read = []
    see = BatchRecords.see

    def counted(records: BatchRecords, record: Record) -> None:
        read.append(record)
        see(records, record)

    monkeypatch.setattr(BatchRecords, "see", counted)
    assert findings(batch) == expected
    assert [one.code for one in expected] == [Codes.OFFSET_DELTA]
    assert len(read) == 100


@pytest.mark.parametrize("codec", [0, ZSTD])
def test_records_before_the_damage(monkeypatch: pytest.MonkeyPatch, codec: int) -> None:
    """Of a compressed batch the damage alone is told, as Kafka gives none of its records."""
    rows = [replace(row, offset_delta=0) for row in plain_rows(9)]
    body = b"".join(map(encode, rows)) + b"\x0e\x01"
    batch = v2_batch(rows, body=compress(codec, body) if codec else body, codec=codec, record_count=10)
    assert_alike(monkeypatch, batch)
    found = [one.code for one in findings(batch)]
    assert found == ([Codes.RECORD] if codec else [Codes.OFFSET_DELTA, Codes.RECORD])


def test_offsets_that_wrap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways count from the base offset, which no CRC covers."""
    batch = bytearray(v2_batch(plain_rows(9)))
    struct.pack_into(">q", batch, 0, 2**63 - 4)
    sound = with_right_crc(bytes(batch))
    assert findings(sound) == []
    assert_alike(monkeypatch, sound)
