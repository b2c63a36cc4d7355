"""Every stored byte comes back from JSON lines, CSV says the same, and both decode paths write the same bytes."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.rows.schema import Table
from kdump.rows.tables import BATCH, RECORD, RECORD_METADATA
from tests.harness.batches import CODECS, LOG_APPEND_TIME, NONE, message, v2_batch, wrapper
from tests.harness.captures import Captures, partition_cases, partition_names
from tests.harness.examples import examples
from tests.harness.fast_reference import INT64, ROWS, reference
from tests.harness.fast_reference import Row as RecordRow
from tests.harness.row_runs import BOTH_PATHS, Row, batches, records, run_rows, stored

HEADER_SIZE = 61
TABLES = (BATCH, RECORD, RECORD_METADATA)
PROPERTY = examples(80)

TRICKY = [
    b"",
    b"\0",
    b"\xff",
    b"\xc3\x28",
    b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80",
    b'"\\/\b\f\n\r\t\x1f\x7f',
    "\u2028\u2029\ufeff\U0001f600\ufffd".encode(),
    b'{"base64": "AA=="}',
    b'a,b;"c"\r\n\'d',
    bytes(range(256)),
    "é".encode() * 5000,
]


def contents(row: Row) -> tuple[Any, ...]:
    """Key, value and headers as bytes."""
    headers = [(stored(key), stored(value)) for key, value in row["headers"]]
    return stored(row["key"]), stored(row["value"]), headers


@pytest.mark.parametrize("path", BOTH_PATHS, ids=lambda path: path.name.lower())
@pytest.mark.parametrize("codec", [NONE, *CODECS])
def test_tricky_bytes(tmp_path: Path, codec: int, path: Any) -> None:
    rows = [
        RecordRow(0, number, key, TRICKY[-1 - number], [(key, value) for value in (None, *TRICKY)])
        for number, key in enumerate(TRICKY)
    ]
    rows.append(RecordRow(0, len(rows), None, None))
    (tmp_path / "0.log").write_bytes(v2_batch(rows, codec=codec))
    found = records(tmp_path / "0.log", path=path)
    assert [contents(row) for row in found] == [(row.key, row.value, row.headers) for row in rows]


@given(ROWS, st.sampled_from([NONE, *CODECS]), st.tuples(INT64, INT64), st.sampled_from(BOTH_PATHS))
@PROPERTY
def test_any_record_comes_back(
    tmp_path: Path, rows: list[RecordRow], codec: int, base: tuple[int, int], path: Any
) -> None:
    offset, time = base
    (tmp_path / "0.log").write_bytes(v2_batch(rows, codec=codec, base_offset=offset, base_timestamp=time))
    found = records(tmp_path / "0.log", path=path)
    assert [contents(row) for row in found] == [(row.key, row.value, row.headers) for row in rows]
    assert [row["offset"] for row in found] == [wrapped(offset + row.offset_delta) for row in rows]
    assert [row["timestamp"] for row in found] == [wrapped(time + row.timestamp_delta) for row in rows]


def wrapped(number: int) -> int:
    """As a Java long."""
    return (number + 2**63) % 2**64 - 2**63


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [NONE, 1, 2, 3])
def test_legacy_bytes(tmp_path: Path, magic: int, codec: int) -> None:
    pairs = [(key, TRICKY[-1 - number]) for number, key in enumerate(TRICKY)] + [(None, b"x"), (b"x", None)]
    inner = [message(magic, number, key, value) for number, (key, value) in enumerate(pairs)]
    data = b"".join(inner) if codec == NONE else wrapper(magic, len(inner) - 1, inner, codec)
    (tmp_path / "0.log").write_bytes(data)
    found = records(tmp_path / "0.log")
    assert [contents(row) for row in found] == [(key, value, []) for key, value in pairs]
    assert [row["offset"] for row in found] == list(range(len(pairs)))


@pytest.mark.parametrize(
    "partition", partition_cases((name for name in partition_names() if not name.startswith(("damaged", "0."))), fast=4)
)
def test_captured_bytes(captures: Captures, partition: str) -> None:
    """Uncompressed batches of real brokers, against a reader that shares nothing with kdump."""
    for log in captures.segment_files(partition):
        if not log.name.endswith(".log"):
            continue
        data = log.read_bytes()
        below: dict[int, list[Row]] = {}
        for row in records(log):
            below.setdefault(row["position"], []).append(row)
        for batch in batches(log):
            if batch["compression"] != "none":
                continue
            body = data[batch["position"] + HEADER_SIZE : batch["position"] + batch["size"]]
            expected = reference(body, batch["count"])
            assert expected is not None
            found = below.get(batch["position"], [])
            assert [contents(row) for row in found] == [(row.key, row.value, row.headers) for row in expected]


@pytest.mark.parametrize("table", TABLES, ids=["batch", "record", "metadata"])
@pytest.mark.parametrize("syntax", ["jsonl", "csv"])
@pytest.mark.slow
def test_decode_paths_write_the_same(captures: Captures, table: Table, syntax: Any) -> None:
    # CSV differs in its quoting only.
    for partition in captures.partitions()[:: 1 if syntax == "jsonl" else 4]:
        logs = [path for path in captures.segment_files(partition) if path.name.endswith((".log", ".checkpoint"))]
        scalar, columnar = (run_rows(logs, table, syntax=syntax, path=path) for path in BOTH_PATHS)
        assert scalar == columnar, partition


ENTRIES = st.one_of(
    st.builds(
        v2_batch,
        ROWS,
        codec=st.sampled_from([NONE, *CODECS]),
        attributes=st.sampled_from([0, LOG_APPEND_TIME, 0x10, 0x20, 0x40]),
        base_offset=st.integers(0, 50) | INT64,
        base_timestamp=INT64,
        record_count=st.integers(0, 6),
    ),
    st.builds(message, st.integers(0, 1), st.integers(0, 50), st.none() | st.binary(max_size=9), st.binary(max_size=9)),
)


@given(st.lists(ENTRIES, max_size=8), st.sampled_from(TABLES), st.sampled_from(["jsonl", "csv"]), st.data())
@PROPERTY
def test_decode_paths_agree_on_anything(
    tmp_path: Path, entries: list[bytes], table: Table, syntax: Any, data: Any
) -> None:
    (tmp_path / "0.log").write_bytes(b"".join(entries))
    fields = data.draw(st.none() | st.lists(st.sampled_from(table.names), min_size=1, max_size=6).map(tuple))
    scalar, columnar = (
        run_rows([tmp_path / "0.log"], table, syntax=syntax, path=path, fields=fields) for path in BOTH_PATHS
    )
    assert scalar == columnar


def cell(value: Any) -> str:
    """A JSON value as CSV has it."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


@pytest.mark.parametrize("table", TABLES, ids=["batch", "record", "metadata"])
@pytest.mark.slow
def test_csv_says_what_json_says(captures: Captures, table: Table) -> None:
    for partition in captures.partitions()[::3]:
        logs = [path for path in captures.segment_files(partition) if path.name.endswith(".log")]
        if not logs:
            continue
        run = run_rows(logs, table, syntax="csv")
        head, *lines = csv.reader(io.StringIO(run.output.decode(), newline=""))
        assert tuple(head) == table.names
        assert lines == [[cell(value) for value in row.values()] for row in run_rows(logs, table).rows]


def test_tricky_bytes_in_csv(tmp_path: Path) -> None:
    rows = [RecordRow(0, number, key, None, [(key, b"v")]) for number, key in enumerate(TRICKY)]
    (tmp_path / "0.log").write_bytes(v2_batch(rows))
    for path in BOTH_PATHS:
        text = run_rows([tmp_path / "0.log"], syntax="csv", fields=("key", "headers", "value"), path=path).output
        head, *lines = csv.reader(io.StringIO(text.decode(), newline=""))
        assert head == ["key", "headers", "value"]
        found = records(tmp_path / "0.log")
        assert lines == [[cell(row["key"]), cell(row["headers"]), ""] for row in found]


@pytest.mark.slow
def test_types_and_order_of_columns(captures: Captures) -> None:
    """A row has all columns of its table, in order, of the type the table says."""
    kinds: dict[str, type | tuple[type, ...]] = {
        "INT32": int,
        "INT64": int,
        "BOOLEAN": bool,
        "TEXT": str,
        "BYTES": (str, dict),
        "BYTES_LIST": list,
        "HEADERS": list,
        "OBJECT": dict,
    }
    for partition in captures.partitions()[::4]:
        for log in captures.segment_files(partition):
            if log.name.endswith(".log"):
                for table in TABLES:
                    for row in run_rows([log], table).rows:
                        assert tuple(row) == table.names
                        for column in table.columns:
                            value = row[column.name]
                            kind = kinds[column.type.name]
                            assert value is None or isinstance(value, kind), column
                            assert kind is bool or not isinstance(value, bool), column
                        assert row["type"] == table.type
