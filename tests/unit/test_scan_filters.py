"""Every range and filter equals the same filter applied to the whole dump, on every capture and both decode paths."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from row_runs import BOTH_PATHS, Row, batches, records, run_rows
from row_text import batch_line, record_line
from selections import Wanted, expected_batches, wanted

from kdump.kafka.dumplog.options import DumpOptions
from kdump.kafka.dumplog.tool import DumpTool
from kdump.scan.run import Reporter
from kdump.scan.selection import RowBudget
from kdump.scan.target import target_by_path
from kdump.scan.view import DecodePath
from kdump.tables import BATCH, RECORD, RECORD_METADATA
from tests.harness.captures import Captures, partition_names

MOST_BYTES = 200_000
EXAMPLES = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=12, deadline=None
)
SOUND = [name for name in partition_names() if not name.startswith("damaged/")]
DAMAGED = [name for name in partition_names() if name.startswith("damaged/")]


def logs(captures: Captures, partition: str) -> tuple[Path, ...]:
    """In offset order."""
    found = tuple(path for path in captures.segment_files(partition) if path.name.endswith(".log"))
    if not found or sum(path.stat().st_size for path in found) > MOST_BYTES:
        pytest.skip("no log, or a big one")
    return found


@cache
def whole(*paths: Path) -> tuple[list[Row], list[Row]]:
    """All batches and records of these logs; read only."""
    return batches(*paths), records(*paths)


def draw_wanted(data: st.DataObject, rows: list[Row]) -> Wanted:
    return data.draw(wanted(rows), label="wanted")


@pytest.mark.parametrize("partition", SOUND)
@given(st.data())
@EXAMPLES
def test_records(captures: Captures, partition: str, data: st.DataObject) -> None:
    paths = logs(captures, partition)
    _, rows = whole(*paths)
    asked = draw_wanted(data, rows)
    expected = [row for row in rows if asked.keeps_record(row)]
    take, skip = data.draw(st.none() | st.integers(0, 20)), data.draw(st.integers(0, 20))
    path = data.draw(st.sampled_from(BOTH_PATHS))
    run = run_rows(paths, selection=asked.selection(), path=path, take=take, skip=skip)
    assert run.rows == expected[skip : None if take is None else skip + take]
    assert (run.errors, run.notes) == ([], [])


@pytest.mark.parametrize("partition", SOUND)
@given(st.data())
@EXAMPLES
def test_batches(captures: Captures, partition: str, data: st.DataObject) -> None:
    paths = logs(captures, partition)
    rows, all_records = whole(*paths)
    asked = draw_wanted(data, all_records)
    asked = Wanted(asked.offsets, asked.times, producer_ids=asked.producer_ids, control=asked.control)
    expected = []
    for path in paths:
        expected += expected_batches([row for row in rows if row["file"] == str(path)], path, asked)
    take, skip = data.draw(st.none() | st.integers(0, 20)), data.draw(st.integers(0, 20))
    decode_path = data.draw(st.sampled_from(BOTH_PATHS))
    run = run_rows(paths, BATCH, selection=asked.selection(), path=decode_path, take=take, skip=skip)
    assert run.rows == expected[skip : None if take is None else skip + take]


@pytest.mark.parametrize("partition", SOUND)
@given(st.data())
@EXAMPLES
def test_compatible_text(captures: Captures, partition: str, data: st.DataObject) -> None:
    paths = logs(captures, partition)
    batch_rows, rows = whole(*paths)
    asked = draw_wanted(data, rows)
    expected: list[str] = []
    for path in paths:
        name = str(path)
        expected += [f"Dumping {name}", f"Log starting offset: {int(path.stem)}"]
        below: dict[int, list[str]] = {}
        for row in rows:
            if row["file"] == name and asked.keeps_record(row):
                below.setdefault(row["position"], []).append(text_line(row))
        for row in batch_rows:
            if row["file"] == name and row["position"] in below:
                expected += [batch_line(row), *below[row["position"]]]
    options = DumpOptions(
        print_data_log=True, selection=asked.selection(), path=data.draw(st.sampled_from(BOTH_PATHS), label="path")
    )
    assert text(paths, options) == "".join(f"{line}\n" for line in expected)


def text_line(row: Row) -> str:
    """A record's line; KRaft control records, whose JSON has no place in this comparison, are left to the goldens."""
    return record_line(row)


def text(paths: tuple[Path, ...], options: DumpOptions, budget: RowBudget | None = None) -> str:
    out: list[bytes] = []
    tool = DumpTool(options, lambda part: out.append(bytes(part)), Reporter(print, print), budget=budget)
    for path in paths:
        target = target_by_path(str(path))
        assert target is not None
        tool.dump(target)
    return b"".join(out).decode("utf-8", "surrogateescape")


@pytest.mark.parametrize("partition", DAMAGED)
@given(st.data())
@settings(EXAMPLES, max_examples=6)
def test_damaged_logs(captures: Captures, partition: str, data: st.DataObject) -> None:
    """A dump stops at some kinds of damage; what is selected before that place is the same."""
    for path in logs(captures, partition):
        _, rows = whole(path)
        asked = draw_wanted(data, rows)
        expected = [row for row in rows if asked.keeps_record(row)]
        run = run_rows([path], selection=asked.selection(), path=data.draw(st.sampled_from(BOTH_PATHS)))
        if whole_run_stopped(path):
            # A batch that is not selected is not decoded, so it does not stop a selective dump.
            assert run.rows[: len(expected)] == expected
        else:
            assert run.rows == expected


@cache
def whole_run_stopped(path: Path) -> bool:
    return bool(run_rows([path]).errors)


@pytest.mark.parametrize("path", BOTH_PATHS, ids=lambda path: path.name.lower())
def test_view_without_contents(captures: Captures, path: DecodePath) -> None:
    for partition in SOUND[::4]:
        paths = logs(captures, partition)
        rows = records(*paths)
        short = run_rows(paths, RECORD_METADATA, path=path).rows
        assert [list(row) for row in short] == [list(RECORD_METADATA.names)] * len(rows)
        for row, full in zip(short, rows, strict=True):
            assert row.pop("headerKeys") == [key for key, _ in full["headers"]]
            assert row == {name: full[name] for name in row}


@pytest.mark.parametrize("table", [BATCH, RECORD], ids=lambda table: table.type)
def test_first_and_last(captures: Captures, table: object) -> None:
    """``-n`` and ``--tail`` count rows of the view over all files."""
    paths = logs(captures, "3.9.1/v2-txn-0")
    assert len(paths) > 2
    all_rows = whole(*paths)[0 if table is BATCH else 1]
    count = len(all_rows)
    for take, skip in ((0, 0), (1, 0), (count - 1, 0), (count + 5, 0), (5, count - 5), (1, count)):
        for path in BOTH_PATHS:
            run = run_rows(paths, BATCH if table is BATCH else RECORD, take=take, skip=skip, path=path)
            assert run.rows == all_rows[skip : skip + take]
