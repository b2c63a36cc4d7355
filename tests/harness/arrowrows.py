"""Rows of JSON lines as Arrow and Spark are to have them: the documented mapping (man kdump-spark), written again."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tests.harness.cli_runs import kdump
from tests.harness.plainoutput import bytes_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Row = dict[str, Any]

TIMESTAMP_TYPES = {"NoTimestampType": -1, "CreateTime": 0, "LogAppendTime": 1}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LAST_MILLISECOND = 9_223_372_036_854_775


def dumped(kind: str, *paths: Path | str) -> list[Row]:
    """What ``kdump dump`` gives of ``kind`` (records, batches), after damage too."""
    options = ["--output", "jsonl", f"--{kind}", "--resync", "--engine", "local"]
    run = kdump("dump", *options, *map(str, paths), cwd=Path.cwd())
    assert run.returncode in (0, 1), run.stderr
    rows = map(json.loads, run.stdout.splitlines())
    return [row for row in rows if row["type"] != "finding"]


def mapped(row: Row) -> Row:
    """A row as Arrow has it, timestamps in microseconds."""
    row = dict(row)
    if "timestampType" in row:
        row["timestampType"] = TIMESTAMP_TYPES[row["timestampType"]]
    milliseconds = row.get("timestamp")
    if milliseconds is not None:
        row["timestamp"] = milliseconds * 1000
        if not -LAST_MILLISECOND <= milliseconds <= LAST_MILLISECOND:
            row["timestamp"] = None
            problems = [row["problem"], f"the timestamp {milliseconds} ms is out of range"]
            row["problem"] = "; ".join(problem for problem in problems if problem)
    if "key" in row:
        row["key"], row["value"] = bytes_of(row["key"]), bytes_of(row["value"])
        row["headers"] = [{"key": _java(bytes_of(key)), "value": bytes_of(value)} for key, value in row["headers"]]
    for name in ("control", "decodedKey", "decodedValue"):
        if row.get(name) is not None:
            row[name] = json.dumps(row[name], ensure_ascii=False, separators=(",", ":"))
    return row


def rows_of(batches: Iterable[pa.RecordBatch]) -> list[Row]:
    """The rows of record batches in the order of their positions, timestamps in microseconds."""
    rows: list[Row] = []
    for batch in batches:
        plain = batch
        if "timestamp" in batch.schema.names:
            place = batch.schema.get_field_index("timestamp")
            plain = batch.set_column(place, "timestamp", batch.column(place).view(pa.int64()))
        rows += plain.to_pylist()
    return sorted(rows, key=lambda row: (row["file"], row["position"]))


def collected(frame: DataFrame) -> list[Row]:
    """All rows of a Spark frame by file and position, timestamps in microseconds."""
    rows = [row.asDict(recursive=True) for row in frame.collect()]
    for row in rows:
        if row.get("timestamp") is not None:
            row["timestamp"] = (row["timestamp"].astimezone(UTC) - EPOCH) // timedelta(microseconds=1)
        for name in ("key", "value"):
            if row.get(name) is not None:
                row[name] = bytes(row[name])
    return sorted(rows, key=lambda row: (row["file"], row["position"]))


def _java(key: bytes | None) -> str:
    """Java counts an encoded surrogate as one malformed unit, Python each of its bytes; no capture has one."""
    assert key is not None
    return key.decode("utf-8", "replace")
