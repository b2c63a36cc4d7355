"""``kdump.scan`` against the JSON lines of the command."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import pytest

import kdump
from tests.harness.captures import Captures, partition_cases
from tests.harness.scanned import Row, dumped, of_batches, of_records, of_values

pd = pytest.importorskip("pandas")

Item = TypeVar("Item")

BATCH_CRC = "KD108"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def logs(captures: Captures, partition: str) -> str:
    return str(captures.root / partition)


def has_logs(path: str) -> bool:
    return any(Path(path).glob("*.log"))


def columns_of(rows: list[Row]) -> list[str]:
    return list(rows[0]) if rows else ["offset"]


def without_damage(rows: list[Row], found: list[kdump.Finding]) -> list[Row]:
    invalid = {(finding.path, finding.position) for finding in found if finding.code == BATCH_CRC}
    return [
        row
        for row in rows
        if row["isValid"] and row["problem"] is None and (row["file"], row["position"]) not in invalid
    ]


def until_damage(items: Iterable[Item]) -> tuple[list[Item], kdump.KdumpError | None]:
    """What comes before an error, and the error."""
    found: list[Item] = []
    try:
        found.extend(items)
    except kdump.KdumpError as error:
        return found, error
    return found, None


def invalid_rows(path: str) -> list[kdump.Finding]:
    marked = kdump.scan(path, on_damage="mark")
    list(marked)
    return marked.findings


@pytest.mark.parametrize("partition", partition_cases(fast=4))
class TestCaptures:
    def test_mark_gives_the_rows_of_resync(self, captures: Captures, partition: str) -> None:
        path = logs(captures, partition)
        if not has_logs(path):
            pytest.skip("no log")
        expected = dumped(path)
        scan = kdump.scan(path, on_damage="mark")
        assert of_records(scan, columns_of(expected)) == expected
        assert of_values(scan.to_arrow().to_pylist()) == expected
        assert of_values(scan.to_pandas().to_dict("records")) == expected

    def test_skip_leaves_out_what_is_not_valid(self, captures: Captures, partition: str) -> None:
        path = logs(captures, partition)
        if not has_logs(path):
            pytest.skip("no log")
        marked = kdump.scan(path, on_damage="mark")
        rows = dumped(path)
        list(marked)
        expected = without_damage(rows, marked.findings)
        scan = kdump.scan(path, on_damage="skip")
        assert of_records(scan, columns_of(rows)) == expected
        found = scan.findings
        # Of a batch with a wrong CRC that does not decode either, only the CRC is told.
        places = dict.fromkeys((one.path, one.position) for one in marked.findings)
        assert list(dict.fromkeys((one.path, one.position) for one in found)) == list(places)
        assert of_values(scan.to_arrow().to_pylist()) == expected
        assert scan.findings == found

    def test_raise_gives_all_rows_before_the_damage(self, captures: Captures, partition: str) -> None:
        path = logs(captures, partition)
        if not has_logs(path):
            pytest.skip("no log")
        rows = dumped(path, resync=False)
        records, error = until_damage(kdump.scan(path))
        found = of_records(records, columns_of(rows))
        assert found == rows[: len(found)]
        assert (error is None) == (len(found) == len(rows) and not invalid_rows(path))
        batches, same = until_damage(kdump.scan(path).to_reader())
        assert of_values(row for batch in batches for row in batch.to_pylist()) == found
        assert str(same) == str(error)

    def test_batches(self, captures: Captures, partition: str) -> None:
        path = logs(captures, partition)
        if not has_logs(path):
            pytest.skip("no log")
        expected = dumped(path, kind="batches")
        assert of_batches(kdump.scan(path, on_damage="mark").batches(), columns_of(expected)) == expected


FILTERS: list[tuple[dict[str, Any], list[str]]] = [
    ({"offsets": (20, 60)}, ["--offset", "20:60"]),
    ({"offsets": (None, 25)}, ["--offset", ":25"]),
    ({"offsets": (70, None)}, ["--offset", "70:"]),
    ({"keys": "^user-[0-4]"}, ["--key", "^user-[0-4]"]),
    ({"keys": b"[13579]$"}, ["--key", "[13579]$"]),
    ({"headers": "trace"}, ["--header", "trace"]),
    ({"headers": ["trace", "h=1"]}, ["--header", "trace", "--header", "h=1"]),
    ({"headers": {"trace": None}}, ["--header", "trace"]),
    ({"isolation": "read_committed"}, ["--isolation", "read_committed"]),
    ({"decode": "auto"}, ["--decode", "auto"]),
    ({"decode": {"key": "text", "value": "json"}}, ["--key-decoder", "text", "--value-decoder", "json"]),
]
"""Arguments of a scan, and the options of the command."""


@pytest.mark.parametrize("partition", partition_cases(fast=16))
@pytest.mark.parametrize(("arguments", "options"), FILTERS, ids=[" ".join(options) for _, options in FILTERS])
def test_filters(captures: Captures, partition: str, arguments: dict[str, Any], options: list[str]) -> None:
    path = logs(captures, partition)
    if not has_logs(path):
        pytest.skip("no log")
    expected = dumped(*options, path)
    scan = kdump.scan(path, on_damage="mark", **arguments)
    assert of_records(scan, columns_of(expected)) == expected
    assert of_values(scan.to_arrow().to_pylist()) == expected


@pytest.mark.parametrize("partition", partition_cases(fast=16))
def test_times(captures: Captures, partition: str) -> None:
    path = logs(captures, partition)
    rows = dumped(path) if has_logs(path) else []
    times = sorted({row["timestamp"] for row in rows if row["timestamp"] is not None and 0 < row["timestamp"] < 2**42})
    if not times:
        pytest.skip("no times")
    start, end = times[len(times) // 4], times[-len(times) // 4]
    expected = dumped("--time", f"{start}..{end}", path)
    assert of_records(kdump.scan(path, on_damage="mark", time=(start, end)), columns_of(rows)) == expected
    moments = tuple(
        datetime.fromtimestamp(ms // 1000, UTC).replace(microsecond=ms % 1000 * 1000) for ms in (start, end)
    )
    assert of_records(kdump.scan(path, on_damage="mark", time=moments), columns_of(rows)) == expected
