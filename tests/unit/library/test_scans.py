"""``kdump.scan`` against the JSON lines of the command."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

import pytest

import kdump
from kdump.fast import policy
from tests.harness.archives import unpack_cases
from tests.harness.captures import Captures, names_with_logs, partition_cases
from tests.harness.scanned import Row, dumped, of_batches, of_records, of_values
from tests.harness.store_runs import BUCKET, CountingStore, store

__all__ = ["store"]

pytest.importorskip("pandas")

Item = TypeVar("Item")

BATCH_CRC = "KD108"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def logs(captures: Captures, partition: str) -> str:
    return str(captures.root / partition)


def by_arrow(scan: kdump.Scan) -> list[Row]:
    return of_values(scan.to_arrow().to_pylist())


def by_pandas(scan: kdump.Scan) -> list[Row]:
    return of_values(scan.to_pandas().to_dict("records"))


def by_polars(scan: kdump.Scan) -> list[Row]:
    return of_values(scan.to_polars().to_dicts())


@cache
def duckdb_connection() -> Any:
    """One for all: its threads cost more than most queries."""
    return import_module("duckdb").connect()


@pytest.fixture(scope="module", autouse=True)
def closes_duckdb() -> Iterator[None]:
    yield
    if duckdb_connection.cache_info().currsize:
        duckdb_connection().close()
        duckdb_connection.cache_clear()


def by_duckdb(scan: kdump.Scan) -> list[Row]:
    connection = duckdb_connection()
    connection.register("records", scan)
    try:
        found = connection.sql("from records")
        return of_values(dict(zip(found.columns, row, strict=True)) for row in found.fetchall())
    finally:
        connection.unregister("records")


FORMS = [
    by_arrow,
    by_pandas,
    *(form for form, package in ((by_polars, "polars"), (by_duckdb, "duckdb")) if find_spec(package) is not None),
]
"""Each takes all records of a scan. ``pip install -e '.[dev]'`` brings what the last two need."""


def check_raises(form: Callable[[kdump.Scan], list[Row]], scan: kdump.Scan) -> None:
    """DuckDB makes an error of its own of what is raised while it reads."""
    with pytest.raises(Exception) as caught:  # noqa: PT011
        form(scan)
    assert isinstance(caught.value, kdump.KdumpError) or form is by_duckdb


def columns_of(rows: list[Row]) -> list[str]:
    return list(rows[0]) if rows else ["offset"]


def without_damage(rows: list[Row], found: list[kdump.Finding]) -> list[Row]:
    invalid = {(finding.path, finding.position) for finding in found if finding.code == BATCH_CRC}
    return [
        row
        for row in rows
        if row["isValid"] and row["problem"] is None and (row["file"], row["position"]) not in invalid
    ]


def places(rows: list[Row]) -> list[tuple[Any, ...]]:
    return [(row["file"], row["position"], row["offset"]) for row in rows]


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


@pytest.mark.parametrize("partition", partition_cases(names_with_logs(), fast=32))
class TestCaptures:
    def test_mark_gives_the_rows_of_resync(self, captures: Captures, partition: str) -> None:
        path = logs(captures, partition)
        expected = dumped(path)
        scan = kdump.scan(path, on_damage="mark")
        assert of_records(scan, columns_of(expected)) == expected
        for form in FORMS:
            assert form(scan) == expected, form

    def test_skip_leaves_out_what_is_not_valid(self, captures: Captures, partition: str) -> None:
        path = logs(captures, partition)
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
        for form in FORMS:
            assert form(scan) == expected, form
            assert scan.findings == found

    def test_raise_gives_all_rows_before_the_damage(self, captures: Captures, partition: str) -> None:
        path = logs(captures, partition)
        rows = dumped(path, resync=False)
        records, error = until_damage(kdump.scan(path))
        found = of_records(records, columns_of(rows))
        assert found == rows[: len(found)]
        assert (error is None) == (len(found) == len(rows) and not invalid_rows(path))
        batches, same = until_damage(kdump.scan(path).to_reader())
        assert of_values(row for batch in batches for row in batch.to_pylist()) == found
        assert str(same) == str(error)
        for form in FORMS:
            if error is None:
                assert form(kdump.scan(path)) == found, form
            else:
                check_raises(form, kdump.scan(path))

    def test_batches(self, captures: Captures, partition: str) -> None:
        path = logs(captures, partition)
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


@pytest.mark.parametrize("partition", partition_cases(names_with_logs(), fast=64))
@pytest.mark.parametrize("number", range(len(FILTERS)), ids=[" ".join(options) for _, options in FILTERS])
def test_filters(captures: Captures, partition: str, number: int) -> None:
    """Of the forms one takes turns: each filter meets each of them on many captures."""
    path = logs(captures, partition)
    arguments, options = FILTERS[number]
    form = FORMS[(number + names_with_logs().index(partition)) % len(FORMS)]
    expected = dumped(*options, path)
    scan = kdump.scan(path, on_damage="mark", **arguments)
    assert of_records(scan, columns_of(expected)) == expected
    assert form(scan) == expected
    skipping = kdump.scan(path, on_damage="skip", **arguments)
    found = of_records(skipping, columns_of(expected))
    # What does not decode is no damage: with a decoder the rows are those without one.
    plain = of_records(kdump.scan(path, on_damage="mark"), columns_of(expected)) if "decode" in arguments else expected
    assert places(found) == places(without_damage(plain, scan.findings))
    left = iter(expected)
    assert all(row in left for row in found), "rows of the command, in its order"
    assert form(skipping) == found
    rows, error = until_damage(kdump.scan(path, **arguments))
    before = expected if error is None and not scan.findings else dumped(*options, path, resync=False)
    found = of_records(rows, columns_of(before))
    assert found == before[: len(found)]
    if error is None:
        assert form(kdump.scan(path, **arguments)) == found
    else:
        check_raises(form, kdump.scan(path, **arguments))


def passes(path: str, arguments: dict[str, Any]) -> list[Any]:
    """All that scans of a path give: records and Arrow rows with every ``on_damage``, errors, findings, batches."""
    found: list[Any] = []
    for on_damage in ("raise", "skip", "mark"):
        scan = kdump.scan(path, on_damage=on_damage, **arguments)
        records, error = until_damage(scan)
        found += [records, str(error), list(scan.findings)]
        tables, error = until_damage(scan.to_reader())
        found += [[row for table in tables for row in table.to_pylist()], str(error), list(scan.findings)]
        if "keys" not in arguments and "headers" not in arguments:
            batches, error = until_damage(scan.batches())
            found += [batches, str(error)]
    return found


@pytest.mark.parametrize("partition", partition_cases(names_with_logs(), fast=64))
def test_columns_give_the_same(captures: Captures, partition: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small logs are read row by row, large ones as columns. The filters take turns."""
    path = logs(captures, partition)
    turns: list[dict[str, Any]] = [{}, *(arguments for arguments, _ in FILTERS)]
    arguments = turns[names_with_logs().index(partition) % len(turns)]
    expected = passes(path, arguments)
    for name in ("SHOWN", "SHOWN_IN_CHUNK"):
        monkeypatch.setattr(policy, name, 0)
    assert passes(path, arguments) == expected


@pytest.mark.parametrize("partition", partition_cases(names_with_logs(), fast=64))
def test_times(captures: Captures, partition: str) -> None:
    path = logs(captures, partition)
    rows = dumped(path)
    times = sorted({row["timestamp"] for row in rows if row["timestamp"] is not None and 0 < row["timestamp"] < 2**42})
    start, end = (times[len(times) // 4], times[-len(times) // 4]) if times else (1, 2)
    expected = dumped("--time", f"{start}..{end}", path)
    assert of_records(kdump.scan(path, on_damage="mark", time=(start, end)), columns_of(rows)) == expected
    moments = tuple(
        datetime.fromtimestamp(ms // 1000, UTC).replace(microsecond=ms % 1000 * 1000) for ms in (start, end)
    )
    assert of_records(kdump.scan(path, on_damage="mark", time=moments), columns_of(rows)) == expected


def test_captures_without_a_log(captures: Captures) -> None:
    """``names_with_logs`` names all others."""
    with_logs = {name for name in captures.partitions() if any((captures.root / name).glob("*.log"))}
    assert with_logs == set(names_with_logs())


@pytest.mark.slow
def test_a_store_gives_the_same(captures: Captures, store: CountingStore) -> None:
    damaged = [name for name in names_with_logs() if name.startswith("damaged/")][::12]
    for number, partition in enumerate(
        ("4.3.1/v2-txn-0", "1.1.1/__transaction_state-0", "0.10.2.2/v1-lz4-0", *damaged)
    ):
        name = f"orders-{number}"
        shutil.copytree(captures.root / partition, store.root / name)
        expected = dumped(f"{BUCKET}/{name}")
        local = dumped(str(store.root / name))
        assert [row | {"file": ""} for row in expected] == [row | {"file": ""} for row in local]
        scan = kdump.scan(f"{BUCKET}/{name}", on_damage="mark")
        assert of_records(scan, columns_of(expected)) == expected
        for form in FORMS:
            assert form(scan) == expected, form
        near = kdump.scan(f"{BUCKET}/{name}", on_damage="mark", offsets=(5, 9))
        assert by_polars(near) == dumped("--offset", "5:9", f"{BUCKET}/{name}")


@pytest.mark.slow
def test_logs_of_kafka_07(tmp_path: Path) -> None:
    """Objects have the column that only they have, and Arrow where it is named."""
    root = unpack_cases("kafka07", tmp_path)
    for folder in sorted(path.parent for path in root.glob("*/*.kafka")):
        expected = dumped(str(folder))
        scan = kdump.scan(folder, on_damage="mark")
        assert of_records(scan, columns_of(expected)) == expected
        named = kdump.scan(folder, columns=columns_of(expected), on_damage="mark")
        unnamed = [{name: value for name, value in row.items() if name != "nextOffset"} for row in expected]
        for form in FORMS:
            assert form(named) == expected, form
            assert form(scan) == unnamed, form
        batches = dumped(str(folder), kind="batches")
        assert of_batches(scan.batches(), list(batches[0]) if batches else []) == batches


def test_next_offset_is_null_in_logs_of_today(captures: Captures) -> None:
    path = logs(captures, names_with_logs()[0])
    scan = kdump.scan(path, columns=["nextOffset", "offset"])
    offsets = [record.offset for record in scan]
    assert of_values(scan.to_arrow().to_pylist()) == [{"nextOffset": None, "offset": offset} for offset in offsets]
    assert {record.next_offset for record in scan} == {None}
