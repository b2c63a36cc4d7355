"""Every stored byte comes back from JSON lines and CSV."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness.batches import CODECS, NONE, message, v2_batch, wrapper
from tests.harness.captures import Captures, partition_cases, partition_names
from tests.harness.examples import examples
from tests.harness.fast_reference import INT64, ROWS, reference
from tests.harness.fast_reference import Row as RecordRow
from tests.harness.plainoutput import bytes_of, csv_cell
from tests.harness.row_runs import BOTH_PATHS, Row, batches, records, run_rows

HEADER_SIZE = 61
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
    headers = [(bytes_of(key), bytes_of(value)) for key, value in row["headers"]]
    return bytes_of(row["key"]), bytes_of(row["value"]), headers


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
    fields = ("key", "headers", "value")
    text = run_rows([tmp_path / "0.log"], syntax="csv", fields=fields, path=path).output.decode()
    head, *lines = csv.reader(io.StringIO(text, newline=""))
    assert tuple(head) == fields
    assert lines == [[csv_cell(row[name]) for name in fields] for row in found]


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
@pytest.mark.parametrize("codec", [NONE, 2])
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
