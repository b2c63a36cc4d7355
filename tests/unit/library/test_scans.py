"""The arguments of ``kdump.scan`` against the options of the command; its rows: ``tests/property/test_captures.py``."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import kdump
from kdump.fast import policy
from tests.harness.archives import unpack_cases
from tests.harness.captures import Captures, names_with_logs
from tests.harness.scanned import (
    FORMS,
    columns_of,
    dumped,
    of_batches,
    of_records,
    of_values,
    until_damage,
    without_damage,
)
from tests.harness.store_runs import BUCKET, CountingStore, store

__all__ = ["store"]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
VARIED = [
    "0.8.2.2/v0-gzip-0",
    "0.10.2.2/v1-lz4-0",
    "4.3.1/v2-txn-0",
    "4.3.1/__consumer_offsets-0",
    "damaged/log-flip-crc",
    "damaged/log-gzip-flip",
    "damaged/v1-inner-crc",
    "damaged/dec-txn-04",
]
"""Captures of each magic, with transactions, payloads that decode and some that do not, and damage."""


def logs(captures: Captures, partition: str) -> str:
    return str(captures.root / partition)


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


@pytest.mark.parametrize(("arguments", "options"), FILTERS, ids=[" ".join(options) for _, options in FILTERS])
def test_filters(captures: Captures, arguments: dict[str, Any], options: list[str]) -> None:
    for partition in VARIED:
        path = logs(captures, partition)
        expected = dumped(*options, path)
        columns = columns_of(expected)
        scan = kdump.scan(path, on_damage="mark", **arguments)
        assert of_records(scan, columns) == expected, partition
        assert of_values(scan.to_arrow().to_pylist()) == expected, partition
        # What does not decode is no damage: with a decoder the rows are those without one.
        plain = of_records(kdump.scan(path, on_damage="mark"), columns) if "decode" in arguments else expected
        sound = {(row["position"], row["offset"]) for row in without_damage(plain, scan.findings)}
        skipping = kdump.scan(path, on_damage="skip", **arguments)
        found = of_records(skipping, columns)
        assert found == [row for row in expected if (row["position"], row["offset"]) in sound], partition
        assert of_values(skipping.to_arrow().to_pylist()) == found, partition
        records, error = until_damage(kdump.scan(path, **arguments))
        before = expected if error is None and not scan.findings else dumped(*options, path, resync=False)
        assert of_records(records, columns) == before[: len(records)], partition


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


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [{}, *(arguments for arguments, _ in FILTERS)], ids=str)
def test_columns_give_the_same(captures: Captures, arguments: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Small logs are read row by row, large ones as columns."""
    paths = [logs(captures, partition) for partition in VARIED]
    expected = [passes(path, arguments) for path in paths]
    for name in ("SHOWN", "SHOWN_IN_CHUNK"):
        monkeypatch.setattr(policy, name, 0)
    assert [passes(path, arguments) for path in paths] == expected


def test_times(captures: Captures) -> None:
    path = logs(captures, "4.3.1/v2-multi-0")
    times = sorted({row["timestamp"] for row in dumped(path)})
    start, end = times[len(times) // 4], times[-len(times) // 4]
    expected = dumped("--time", f"{start}..{end}", path)
    assert 0 < len(expected) < len(dumped(path))
    moments = tuple(
        datetime.fromtimestamp(ms // 1000, UTC).replace(microsecond=ms % 1000 * 1000) for ms in (start, end)
    )
    texts = tuple(moment.isoformat() for moment in moments)
    for time in ((start, end), moments, texts, "..".join(texts), f"{start}..{end}"):
        assert of_records(kdump.scan(path, on_damage="mark", time=time), columns_of(expected)) == expected


def test_times_as_the_option_takes_them(captures: Captures) -> None:
    path = logs(captures, "4.3.1/v2-multi-0")
    first = datetime.fromtimestamp(min(row["timestamp"] for row in dumped(path)) / 1000, UTC)
    for time in (f"{first:%H:%M}..", f"..{first:%H:%M}", "-1h..", "..now", f"{first.date()}.."):
        found = of_records(kdump.scan(path, on_damage="mark", time=time), ["offset"])
        assert [row["offset"] for row in found] == [row["offset"] for row in dumped("--time", time, path)], time
    for time, message in (("x..", "'x' is no time"), ("1", "is not T1..T2"), (("12:00", None), "'12:00' has no day")):
        with pytest.raises(ValueError, match=message):
            kdump.scan(path, time=time)  # type: ignore[arg-type]


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
        near = kdump.scan(f"{BUCKET}/{name}", on_damage="mark", offsets=(5, 9))
        assert of_values(near.to_arrow().to_pylist()) == dumped("--offset", "5:9", f"{BUCKET}/{name}")


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
