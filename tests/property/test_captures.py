"""Each captured log once through everything that shows its rows: the same rows come out, damage included.

What the rows hold is compared with the real tool in ``tests/unit/dump/test_rows.py``.
"""

from __future__ import annotations

import csv
import io
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kdump
from kdump import testing
from kdump.inputs import inputs_of
from kdump.rows.arrow import arrow_schema
from kdump.rows.tables import BATCH, RECORD, RECORD_METADATA
from kdump.spark.readrecords import ArrowOptions, read_logs
from kdump.stats.grouping import By
from kdump.stats.report import stats_row
from kdump.tasks.logs import log_files, plan
from tests.harness.captures import Captures, names_with_logs, partition_cases
from tests.harness.cli_runs import kdump as command
from tests.harness.plain_figures import figures_of, outcomes, plain_figures, report_of, shown
from tests.harness.plainoutput import csv_cell
from tests.harness.row_runs import BOTH_PATHS, run_rows
from tests.harness.scanned import (
    FORMS,
    Form,
    Row,
    by_duckdb,
    columns_of,
    dumped,
    of_batches,
    of_records,
    of_values,
    until_damage,
    without_damage,
)

pytest.importorskip("pandas")
csv.field_size_limit(1 << 30)


def check_scans(path: str, expected: list[Row], batches: list[Row], form: Form) -> None:
    """Records and batches of the library, with each ``on_damage``."""
    columns = columns_of(expected)
    marked = kdump.scan(path, on_damage="mark")
    assert of_records(marked, columns) == expected
    findings = marked.findings
    assert form(marked) == expected
    assert of_batches(kdump.scan(path, on_damage="mark").batches(), columns_of(batches)) == batches

    sound = without_damage(expected, findings)
    skipping = kdump.scan(path, on_damage="skip")
    assert of_records(skipping, columns) == sound
    # Of a batch with a wrong CRC that does not decode either, only the CRC is told.
    told = dict.fromkeys((one.path, one.position) for one in findings)
    assert dict.fromkeys((one.path, one.position) for one in skipping.findings) == told
    assert form(skipping) == sound

    before = expected if not findings else dumped(path, resync=False)
    records, error = until_damage(kdump.scan(path))
    found = of_records(records, columns_of(before))
    assert found == before[: len(found)]
    assert (error is None) == (len(found) == len(before) and not findings)
    tables, same = until_damage(kdump.scan(path).to_reader())
    assert of_values(row for table in tables for row in table.to_pylist()) == found
    assert str(same) == str(error)
    if error is None:
        assert form(kdump.scan(path)) == found
    else:
        # DuckDB makes an error of its own of what is raised while it reads.
        with pytest.raises(kdump.KdumpError if form is not by_duckdb else Exception):
            form(kdump.scan(path))


def check_lines(paths: list[Path]) -> None:
    """Both decode paths write the same lines, CSV says what they say, and without contents the rest is as with them."""
    found = {}
    for table in (BATCH, RECORD, RECORD_METADATA):
        alone, many = (run_rows(paths, table, path=path) for path in BOTH_PATHS)
        assert alone == many, table.type
        found[table] = many.rows
        text = run_rows(paths, table, syntax="csv", path=BOTH_PATHS[1]).output.decode()
        head, *lines = csv.reader(io.StringIO(text, newline=""))
        assert tuple(head) == table.names
        assert lines == [[csv_cell(value) for value in row.values()] for row in many.rows]
    for row, full in zip(found[RECORD_METADATA], found[RECORD], strict=True):
        assert row.pop("headerKeys") == [key for key, _ in full["headers"]]
        assert row == {name: full[name] for name in row}


def table_of(form: str, data: bytes) -> pa.Table:
    return pa.ipc.open_stream(data).read_all() if form == "arrow" else pq.read_table(io.BytesIO(data))


def check_tables(path: str, kind: str, expected: list[Row]) -> None:
    for form in ("arrow", "parquet"):
        run = command("dump", "--output", form, f"--{kind}", "--resync", path, cwd=Path.cwd())
        table = table_of(form, run.stdout)
        assert of_values(table.to_pylist()) == expected, form
        assert not expected or table.schema.names == list(expected[0]), form


def check_spark(path: str, **expected: list[Row]) -> None:
    """What a task of Spark reads."""
    for kind, table in (("records", RECORD), ("batches", BATCH)):
        options = ArrowOptions(table, arrow_schema(table))
        tasks = plan(log_files(inputs_of([path], pytest.fail, with_patterns=True), pytest.fail))
        found = of_values(row for task in tasks for part in read_logs(task, options) for row in part.to_pylist())
        assert sorted(found, key=_place) == sorted(expected[kind], key=_place), kind


def _place(row: Row) -> tuple[str, int]:
    return row["file"], row["position"]


def check_written_again(log: Path, target: Path) -> None:
    """The records of a log make a log with the same records."""
    records = list(kdump.scan(log, on_damage="skip"))
    offsets = [record.offset for record in records]
    if not records or offsets != sorted(set(offsets)):
        return
    write = partial(testing.write_segment, target / log.name, records)
    if any(record.magic > 2 for record in records):
        # Readers take it for 2; nobody writes it.
        with pytest.raises(ValueError, match="magic is 3"):
            write()
        return
    again = list(kdump.scan(write()))
    assert [one[2:5] for one in again] == [record[2:5] for record in records]
    assert [one.offset for one in again] == offsets


@pytest.mark.parametrize("partition", partition_cases(names_with_logs(), fast=32))
def test_rows(captures: Captures, partition: str, tmp_path: Path) -> None:
    folder = captures.root / partition
    path = str(folder)
    records, batches = dumped(path), dumped(path, kind="batches")
    check_scans(path, records, batches, FORMS[names_with_logs().index(partition) % len(FORMS)])
    check_tables(path, "records", records)
    check_tables(path, "batches", batches)
    check_spark(path, records=records, batches=batches)
    check_lines([one for one in captures.segment_files(partition) if one.suffix in (".log", ".checkpoint")])
    for log in sorted(folder.glob("*.log")):
        check_written_again(log, tmp_path)


def check_headers_only(log: str, batches: list[Row], plain: Row) -> None:
    """What batch headers say; of compressed messages of magic 0 and 1 not how many there are."""
    (figures,) = report_of(log, with_records=False).groups
    row = stats_row(figures, By.SEGMENT)
    same = {"bytes", "batches", "controlBatches", "maxOffset", "damagedBatches"}
    if all(batch["magic"] == 2 for batch in batches):
        same |= {"records", "controlRecords", "maxTimestamp", "timestampTypes", "codecs", "magics"}
        # Compaction takes records, and leaves the header.
        same -= {"maxOffset", "maxTimestamp"} if row["missingOffsets"] else set()
    row["codecs"] = {
        name: {what: share[what] for what in plain["codecs"][name]} for name, share in row["codecs"].items()
    }
    assert {name: row[name] for name in same} == {name: plain[name] for name in same}
    assert row["nullKeys"] is row["tombstones"] is row["distinctKeys"] is row["heaviestKeys"] is None


def check_whole_partition(folder: Path, logs: list[str]) -> None:
    """Steps back over the segments of a partition as one log; offsets that are missing, if nothing is damaged."""
    batches, records = shown(*logs)
    report = report_of(str(folder), by=By.PARTITION)
    times = [record["timestamp"] for record in records if record["timestamp"] is not None and record["timestamp"] >= 0]
    back = [before - time for before, time in pairwise(times) if time < before]
    assert (report.total.sums["timestamps_back"], report.total.step_back) == (len(back), max(back, default=0))
    if not batches or report.total.is_damaged or any(not batch["isValid"] for batch in batches):
        return
    first = int(Path(logs[0]).name.partition(".")[0])
    last = max(batch["lastOffset"] for batch in batches)
    assert report.total.sums["missing_offsets"] == last - first + 1 - len({record["offset"] for record in records})


@pytest.mark.parametrize("partition", partition_cases(names_with_logs(), fast=16))
def test_figures(captures: Captures, partition: str) -> None:
    """The exact ones of ``stats`` are those of a plain count over the rows."""
    is_sound = not partition.startswith("damaged/")
    logs = [str(path) for path in captures.segment_files(partition) if path.suffix == ".log"]
    for log in logs:
        batches, records = shown(log)
        row = figures_of(log)[log]
        plain: dict[str, Any] = plain_figures(batches, records) | {"files": 1}
        assert {name: row[name] for name in plain} == plain
        assert {outcome: share["records"] for outcome, share in row["transactions"].items()} == outcomes(records)
        if is_sound:
            check_headers_only(log, batches, plain)
    if is_sound:
        check_whole_partition(captures.root / partition, logs)
