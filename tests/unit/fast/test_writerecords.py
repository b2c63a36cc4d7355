"""Messages and records written all at once against a writer that works a byte at a time."""

from __future__ import annotations

import zlib

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kdump.fast.recordtable import RecordTable
from kdump.fast.writemessages import message_crcs, write_messages
from kdump.fast.writerecords import write_records
from kdump.format.batch import HEADER_SIZE, parse_header, write_batch
from kdump.format.legacy import parse_message, write_message
from kdump.format.record import Record
from tests.harness.batches import message, v2_batch
from tests.harness.fast_reference import Row, encode

INT64 = st.integers(-(2**63), 2**63 - 1)
CONTENT = st.none() | st.binary(max_size=40) | st.binary(min_size=60, max_size=70) | st.just(bytes(range(256)) * 5)
HEADERS = st.lists(st.tuples(st.binary(max_size=9), CONTENT), max_size=3).map(tuple)
RECORDS = st.lists(
    st.builds(Record, INT64 | st.integers(0, 300), INT64, st.just(-1), CONTENT, CONTENT, HEADERS),
    min_size=1,
    max_size=9,
)


@given(RECORDS, st.sampled_from([0, 1]), st.integers(0, 255))
def test_messages(records: list[Record], magic: int, attributes: int) -> None:
    table = RecordTable.of(records)
    data, bounds = write_messages(table, magic, table.offset, attributes)
    expected = [
        message(magic, record.offset, record.key, record.value, timestamp=record.timestamp, attributes=attributes)
        for record in records
    ]
    assert data.tobytes() == b"".join(expected)
    assert bounds.tolist() == np.cumsum([0, *map(len, expected)]).tolist()
    assert message_crcs(data, bounds[:-1], bounds[1:]).tolist() == [zlib.crc32(entry[16:]) for entry in expected]


@given(RECORDS, st.data())
def test_records(records: list[Record], data: st.DataObject) -> None:
    offsets = data.draw(st.lists(st.integers(0, 2**31 - 1), min_size=len(records), max_size=len(records)))
    table = RecordTable.of(records)
    body, bounds = write_records(table, np.array(offsets), table.timestamp)
    expected = [
        encode(Row(record.timestamp, offset, record.key, record.value, list(record.headers)))
        for record, offset in zip(records, offsets, strict=True)
    ]
    assert body.tobytes() == b"".join(expected)
    assert bounds.tolist() == np.cumsum([0, *map(len, expected)]).tolist()


@given(RECORDS, st.data())
def test_selecting(records: list[Record], data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.booleans(), min_size=len(records), max_size=len(records)))
    first = data.draw(st.integers(0, len(records)))
    for keep, kept in (
        (np.array(chosen), [record for record, is_kept in zip(records, chosen, strict=True) if is_kept]),
        (slice(first, len(records)), records[first:]),
    ):
        table = RecordTable.of(records).select(keep)
        body, _ = write_records(table, np.zeros(len(kept), np.int64), table.timestamp)
        rows = (Row(record.timestamp, 0, record.key, record.value, list(record.headers)) for record in kept)
        assert body.tobytes() == b"".join(map(encode, rows))


@given(st.integers(0, 1), INT64, INT64, CONTENT, CONTENT)
def test_a_message(magic: int, offset: int, timestamp: int, key: bytes | None, value: bytes | None) -> None:
    entry = write_message(magic, offset=offset, attributes=9, timestamp=timestamp, key=key, value=value)
    assert entry == message(magic, offset, key, value, timestamp=timestamp, attributes=9)
    assert parse_message(memoryview(entry)).is_valid


def test_a_batch() -> None:
    batch = v2_batch([Row(0, 0, b"k", b"v")], producer_id=7, producer_epoch=1, base_sequence=3, attributes=0x10)
    header = parse_header(batch)._replace(batch_length=0, crc=0)
    assert write_batch(header, batch[HEADER_SIZE:]) == batch
