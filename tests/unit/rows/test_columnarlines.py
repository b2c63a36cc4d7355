"""Rows of JSON lines and CSV made of columns against a dict a row, ``json.dumps`` and ``csv.writer``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.fast.blocks import BatchBlock, BlockReader
from kdump.format.batch import CODEC_NAMES, BatchHeader, increment_sequence, parse_header, wrap_int64
from kdump.log.context import FileContext
from kdump.reading.outcomes import STATES
from kdump.reading.printing import BatchRun, TextBytes
from kdump.rows import columnarlines
from kdump.rows.columnarlines import batch_rows, record_runs
from kdump.rows.scalarlines import Output
from kdump.rows.tables import BATCH, RECORD, RECORD_METADATA
from tests.harness.batches import (
    CODECS,
    CONTROL,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    NONE,
    TRANSACTIONAL,
    plain_rows,
    v2_batch,
)
from tests.harness.examples import examples
from tests.harness.fast_reference import INT32, INT64, Row
from tests.harness.plainoutput import csv_field, csv_line, dumps, json_value

POSITION = 1000
OUTPUTS: tuple[Output, ...] = ("jsonl", "csv")
OUTPUT = st.sampled_from(OUTPUTS)
HERE = FileContext('a "b".log', None, None)
CONTEXT = st.builds(FileContext, st.text('a,"\\é\n', max_size=5), st.none() | st.just("t"), st.none() | INT32)

CONTENT = (
    st.none()
    | st.binary(max_size=9)
    | st.text(max_size=9).map(str.encode)
    | st.text('{}"\\,\r\n\t\x00\x1f\x7fé\u2028\U0001f600 ', max_size=30).map(str.encode)
    | st.binary(min_size=200, max_size=200)
)
HEADER_KEY = st.binary(max_size=3) | st.text('k"\\,\né', max_size=4).map(str.encode)
RECORDS = st.lists(
    st.builds(
        Row,
        st.integers(-9, 300) | INT64,
        st.integers(0, 300) | INT32,
        CONTENT,
        CONTENT,
        st.lists(st.tuples(HEADER_KEY, CONTENT), max_size=3),
    ),
    max_size=6,
)


@dataclass(frozen=True)
class Batch:
    """A batch and what the reference knows about it."""

    data: bytes
    rows: list[Row]
    is_shown: bool = True

    @property
    def header(self) -> BatchHeader:
        return parse_header(self.data)


def batch(rows: list[Row], **header: int) -> Batch:
    return Batch(v2_batch(rows, **header), rows)


GOOD = st.builds(
    batch,
    RECORDS,
    codec=st.sampled_from((NONE, NONE, *CODECS)),
    attributes=st.sampled_from((0, LOG_APPEND_TIME, TRANSACTIONAL, DELETE_HORIZON, 0x7F80)),
    base_offset=st.integers(0, 50) | INT64,
    base_timestamp=st.integers(0, 10**13) | INT64,
    max_timestamp=INT64,
    base_sequence=st.just(-1) | st.integers(0, 9) | INT32,
    last_offset_delta=INT32,
    partition_leader_epoch=INT32,
    producer_id=st.just(-1) | INT64,
    producer_epoch=st.integers(-(2**15), 2**15 - 1),
)
WRONG_CRC = GOOD.map(lambda good: Batch(good.data[:17] + bytes([good.data[17] ^ 1]) + good.data[18:], good.rows))
LEFT_OUT = st.sampled_from(
    [
        Batch(v2_batch([Row(0, 0, b"\0\0\0\1", b"\0\0\0\0\0\5")], attributes=CONTROL | TRANSACTIONAL), [], False),
        Batch(v2_batch([], body=b"garbage", record_count=3), [], False),
        Batch(v2_batch([], body=b"garbage", record_count=3, codec=CODECS[0]), [], False),
    ]
)
BATCHES = st.lists(GOOD | GOOD | WRONG_CRC | LEFT_OUT, min_size=1, max_size=6)


def read(batches: Sequence[Batch], *, with_records: bool = True) -> BatchBlock:
    bounds = list(accumulate((len(each.data) for each in batches), initial=0))
    view = memoryview(b"".join(each.data for each in batches))
    (block,) = BlockReader(1 << 30, with_records=with_records).read(view, bounds, POSITION)
    assert isinstance(block, BatchBlock)
    return block


def positions(batches: Sequence[Batch]) -> list[int]:
    return list(accumulate((len(each.data) for each in batches[:-1]), initial=POSITION))


def with_right_crc(data: bytes) -> bytes:
    header = parse_header(data)._asdict()
    del header["crc"]
    return v2_batch([], body=data[61:], **header)


def common(of: Batch, position: int, context: FileContext) -> dict[str, object]:
    header = of.header
    return {
        "file": context.file,
        "topic": context.topic,
        "partition": context.partition,
        "producerId": header.producer_id,
        "producerEpoch": header.producer_epoch,
        "partitionLeaderEpoch": header.partition_leader_epoch,
        "isTransactional": header.is_transactional,
        "isControl": header.is_control,
        "position": position,
        "timestampType": "LogAppendTime" if header.is_log_append_time else "CreateTime",
        "magic": header.magic,
        "compression": CODEC_NAMES[header.codec],
        "crc": header.crc,
        "isValid": with_right_crc(of.data) == of.data,
    }


def record_dicts(
    batches: Sequence[Batch], context: FileContext, states: Sequence[int] | None = None
) -> list[list[dict[str, object]]]:
    """The rows of each batch; of those left out none."""
    found = []
    for number, (of, position) in enumerate(zip(batches, positions(batches), strict=True)):
        header, shared = of.header, common(of, position, context)
        rows = []
        for row in of.rows:
            timestamp = wrap_int64(header.base_timestamp + row.timestamp_delta)
            headers = [[json_value(key), json_value(value)] for key, value in row.headers]
            rows.append(
                shared
                | {
                    "type": "record",
                    "offset": wrap_int64(header.base_offset + row.offset_delta),
                    "timestamp": header.max_timestamp if header.is_log_append_time else timestamp,
                    "key": json_value(row.key),
                    "value": json_value(row.value),
                    "headers": headers,
                    "headerKeys": [key for key, _ in headers],
                    "keySize": -1 if row.key is None else len(row.key),
                    "valueSize": -1 if row.value is None else len(row.value),
                    "sequence": -1
                    if header.base_sequence < 0
                    else increment_sequence(header.base_sequence, row.offset_delta),
                    "controlType": None,
                    "control": None,
                    "txnState": None if states is None else STATES[states[number]],
                    "batchBaseOffset": header.base_offset,
                    "problem": None if shared["isValid"] else "the CRC of the batch is wrong",
                }
            )
        found.append(rows)
    return found


def batch_dict(of: Batch, position: int, context: FileContext) -> dict[str, object]:
    header = of.header
    return common(of, position, context) | {
        "type": "batch",
        "baseOffset": header.base_offset,
        "lastOffset": header.last_offset,
        "count": header.record_count,
        "baseSequence": header.base_sequence,
        "lastSequence": header.last_sequence,
        "deleteHorizonMs": header.delete_horizon_ms,
        "maxTimestamp": header.max_timestamp,
        "size": header.size,
    }


def line(row: dict[str, object], fields: Sequence[str], output: Output) -> str:
    if output == "jsonl":
        return dumps({name: row[name] for name in fields}) + "\n"
    values = [csv_field(row[name]) for name in fields]
    return csv_line([str(value).lower() if isinstance(value, bool) else value for value in values])


def some_of(names: tuple[str, ...]) -> st.SearchStrategy[tuple[str, ...]]:
    subset = st.lists(st.sampled_from(names), min_size=1, max_size=8).map(tuple)
    return st.just(names) | subset | st.sampled_from(names).map(lambda name: (name,))


RECORD_FIELDS = some_of(RECORD.names) | some_of(RECORD_METADATA.names)


def text_of(runs: Sequence[BatchRun[TextBytes]]) -> str:
    return b"".join(run.rows for run in runs if run.rows is not None).decode()


@pytest.fixture(params=[(4096, 1 << 20), (2, 1 << 20), (4096, 1)], ids=["blocks", "two-rows", "one-byte"])
def block_size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are assembled in one block, or in many that cut batches."""
    rows, size = request.param
    monkeypatch.setattr(columnarlines, "_BLOCK_ROWS", rows)
    monkeypatch.setattr(columnarlines, "_BLOCK_BYTES", size)


@pytest.mark.usefixtures("block_size")
@examples(60)
@given(BATCHES, RECORD_FIELDS, CONTEXT, OUTPUT, st.data())
def test_record_runs(
    batches: list[Batch], fields: tuple[str, ...], context: FileContext, output: Output, data: st.DataObject
) -> None:
    states = data.draw(st.none() | st.lists(st.integers(0, 3), min_size=len(batches), max_size=len(batches)))
    txn_state = None if states is None else np.array(states, np.int8)
    runs = list(record_runs(read(batches), fields, context, output, txn_state=txn_state))
    expected = [[line(row, fields, output) for row in rows] for rows in record_dicts(batches, context, states)]
    assert text_of(runs) == "".join(map("".join, expected))
    shown_at = 0
    for run in runs:
        assert run.first in (shown_at, shown_at - 1)
        assert run.first < run.last
        assert {each.is_shown for each in batches[run.first : run.last]} == {run.rows is not None}
        shown_at = run.last
    assert shown_at == len(batches)
    left_out = [number for number, each in enumerate(batches) if not each.is_shown]
    assert [n for run in runs if run.rows is None for n in range(run.first, run.last)] == left_out


@given(BATCHES, RECORD_FIELDS, OUTPUT, st.randoms(use_true_random=False))
def test_selected_rows(batches: list[Batch], fields: tuple[str, ...], output: Output, random: Random) -> None:
    block = read(batches)
    assert block.records is not None
    rows = np.array([random.random() < 0.5 for _ in range(block.records.batch.size)], np.bool_)
    runs = list(record_runs(block.select(np.ones(len(batches), np.bool_), rows), fields, HERE, output))
    expected = []
    for number, of_batch in enumerate(record_dicts(batches, HERE)):
        kept = rows[block.records.batch == number].tolist()
        expected += [row for row, keep in zip(of_batch, kept, strict=False) if keep]
    assert text_of(runs) == "".join(line(row, fields, output) for row in expected)


@given(BATCHES, some_of(BATCH.names), CONTEXT, OUTPUT)
def test_batch_rows(batches: list[Batch], fields: tuple[str, ...], context: FileContext, output: Output) -> None:
    rows = [batch_dict(of, position, context) for of, position in zip(batches, positions(batches), strict=True)]
    text = bytes(batch_rows(read(batches, with_records=False), fields, context, output)).decode()
    assert text == "".join(line(row, fields, output) for row in rows)


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.slow
def test_many_blocks(output: Output) -> None:
    """More rows than are assembled at a time, with their real size: small batches, then one with most of the rows."""
    batches = [batch(plain_rows(count, 5), base_offset=7 * count) for count in (1, 80, 0, 10_000, 1, 1)]
    runs = list(record_runs(read(batches), RECORD.names, HERE, output))
    assert len(runs) > 2
    rows = [row for of_batch in record_dicts(batches, HERE) for row in of_batch]
    assert text_of(runs) == "".join(line(row, RECORD.names, output) for row in rows)


def test_only_what_is_asked_for_is_read() -> None:
    block = read([batch([Row(0, 0, b"k", b"v", [(b"h", b"w")])])])
    assert block.records is not None
    nowhere = np.array([1 << 40])
    headers = replace(block.records.headers, key_start=nowhere, value_start=nowhere)
    broken = replace(block, records=replace(block.records, value_start=nowhere, headers=headers))
    assert text_of(list(record_runs(broken, ("key", "valueSize"), HERE, "csv"))) == "k,1\n"
    with pytest.raises(IndexError):
        list(record_runs(broken, ("value",), HERE, "csv"))


def test_nothing_to_show() -> None:
    block = read([batch([])])
    nothing = block.select(np.zeros(1, np.bool_))
    assert list(record_runs(nothing, RECORD.names, HERE, "jsonl")) == []
    assert bytes(batch_rows(nothing, BATCH.names, HERE, "jsonl")) == b""
    assert text_of(list(record_runs(block, RECORD.names, HERE, "jsonl"))) == ""


@pytest.mark.parametrize("fields", [(), ("offset", "nonsense"), ("headers", "count_")])
def test_unknown_fields(fields: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match=r"needs a field|no column"):
        list(record_runs(read([batch([])]), fields, HERE, "jsonl"))
