"""What a scan of the library gives, and what the command gives, as rows in one form: bytes are bytes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

import kdump
from tests.harness.cli_runs import kdump as command
from tests.harness.plainoutput import bytes_of

Row = dict[str, Any]
Form = Callable[[kdump.Scan], list[Row]]
_Item = TypeVar("_Item")
_BATCH_CRC = "KD108"
_BYTES = ("key", "value")
_JSON = ("control", "decodedKey", "decodedValue")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TIMESTAMP_TYPES = {-1: "NoTimestampType", 0: "CreateTime", 1: "LogAppendTime"}


def dumped(*words: str, kind: str = "records", resync: bool = True, cwd: Path | None = None) -> list[Row]:
    """The rows of ``kdump dump --output jsonl``, without findings."""
    options = ["--output", "jsonl", f"--{kind}", *(["--resync"] if resync else [])]
    run = command("dump", *options, *words, cwd=cwd or Path.cwd())
    assert run.returncode in (0, 1), run.stderr
    rows = map(json.loads, run.stdout.splitlines())
    return [_stored(row) for row in rows if row.get("type") != "finding"]


def of_records(records: Iterable[kdump.Record], names: Iterable[str]) -> list[Row]:
    """Records as rows with these columns."""
    columns = [(name, _attribute(name)) for name in names if name != "type"]
    rows = []
    for record in records:
        row = {"type": "record", **{name: getattr(record, attribute) for name, attribute in columns}}
        row["headers"] = [{"key": key, "value": value} for key, value in record.headers]
        rows.append(row)
    return rows


def of_batches(batches: Iterable[kdump.Batch], names: Iterable[str]) -> list[Row]:
    """Batches as rows with these columns."""
    columns = [(name, _attribute(name)) for name in names if name != "type"]
    return [{"type": "batch", **{name: getattr(batch, attribute) for name, attribute in columns}} for batch in batches]


def of_values(rows: Iterable[Row]) -> list[Row]:
    """Rows of Arrow, pandas or polars, whose JSON columns are text, and times are those of Python."""
    found = []
    for given in rows:
        row = {name: _plain(value) for name, value in given.items()}
        for name in _JSON:
            if isinstance(row.get(name), str):
                row[name] = json.loads(row[name])
        if row.get("timestamp") is not None:
            row["timestamp"] = (row["timestamp"] - _EPOCH) // timedelta(milliseconds=1)
        if "timestampType" in row:
            row["timestampType"] = _TIMESTAMP_TYPES[row["timestampType"]]
        found.append(row)
    return found


def by_arrow(scan: kdump.Scan) -> list[Row]:
    """The rows of its Arrow table."""
    return of_values(scan.to_arrow().to_pylist())


def by_pandas(scan: kdump.Scan) -> list[Row]:
    """The rows of its pandas frame."""
    return of_values(scan.to_pandas().to_dict("records"))


def by_polars(scan: kdump.Scan) -> list[Row]:
    """The rows of its polars frame."""
    return of_values(scan.to_polars().to_dicts())


def by_duckdb(scan: kdump.Scan) -> list[Row]:
    """What DuckDB selects from it."""
    with import_module("duckdb").connect() as connection:
        connection.register("records", scan)
        found = connection.sql("from records")
        return of_values(dict(zip(found.columns, row, strict=True)) for row in found.fetchall())


FORMS: list[Form] = [
    by_arrow,
    by_pandas,
    *(form for form, package in ((by_polars, "polars"), (by_duckdb, "duckdb")) if find_spec(package) is not None),
]
"""Each takes all records of a scan; they take turns. ``pip install -e '.[dev]'`` brings what the last two need."""


def columns_of(rows: list[Row]) -> list[str]:
    """The names of the columns; what of_records needs where there are no rows."""
    return list(rows[0]) if rows else ["offset"]


def without_damage(rows: list[Row], found: list[kdump.Finding]) -> list[Row]:
    """The rows of what is sound, by the rows and by the findings of a scan."""
    invalid = {(finding.path, finding.position) for finding in found if finding.code == _BATCH_CRC}
    return [
        row
        for row in rows
        if row["isValid"] and row["problem"] is None and (row["file"], row["position"]) not in invalid
    ]


def until_damage(items: Iterable[_Item]) -> tuple[list[_Item], kdump.KdumpError | None]:
    """What comes before an error, and the error."""
    found: list[_Item] = []
    try:
        found.extend(items)
    except kdump.KdumpError as error:
        return found, error
    return found, None


def _plain(value: Any) -> Any:
    """None in place of the several nulls of pandas."""
    if isinstance(value, str | bytes | dict | None):
        return value
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list):
        return value
    return None if value != value or str(value) == "<NA>" else value  # noqa: PLR0124


def _attribute(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


def _stored(row: Row) -> Row:
    for name in _BYTES:
        if name in row:
            row[name] = bytes_of(row[name])
    if "headers" in row:
        row["headers"] = [
            {"key": (bytes_of(key) or b"").decode("utf-8", "replace"), "value": bytes_of(value)}
            for key, value in row["headers"]
        ]
    return row
