"""What a scan of the library gives, and what the command gives, as rows in one form: bytes are bytes."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import kdump
from tests.harness.cli_runs import kdump as command

Row = dict[str, Any]
_BYTES = ("key", "value")
_JSON = ("control", "decodedKey", "decodedValue")


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
    """Rows of Arrow, pandas or polars, whose JSON columns are text."""
    found = []
    for given in rows:
        row = {name: _plain(value) for name, value in given.items()}
        for name in _JSON:
            if isinstance(row.get(name), str):
                row[name] = json.loads(row[name])
        found.append(row)
    return found


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
            row[name] = _bytes(row[name])
    if "headers" in row:
        row["headers"] = [
            {"key": (_bytes(key) or b"").decode("utf-8", "replace"), "value": _bytes(value)}
            for key, value in row["headers"]
        ]
    return row


def _bytes(value: Any) -> bytes | None:
    if value is None:
        return None
    return b64decode(value["base64"]) if isinstance(value, dict) else str(value).encode()
