"""Every range and filter equals the same filter applied to the whole dump, on every capture and both decode paths."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.dump.output import DumpOptions
from kdump.dump.run import DumpRun
from kdump.reading.reporter import Reporter
from kdump.reading.selection import RowBudget, Selection
from kdump.rows.tables import BATCH, RECORD
from tests.harness.batches import plain_rows, v2_batch
from tests.harness.captures import Captures
from tests.harness.dumpoptions import text_dump
from tests.harness.examples import examples
from tests.harness.row_runs import BOTH_PATHS, Row, batches, records, run_rows
from tests.harness.row_text import batch_line, record_line
from tests.harness.selections import Wanted, expected_batches, wanted
from tests.harness.targets import target_by_path

MOST_BYTES = 200_000
EXAMPLES = examples(60)


class Logs(tuple[Path, ...]):
    """The logs of a partition in offset order; a short name in the reports of hypothesis."""

    def __repr__(self) -> str:
        return self[0].parent.name


@pytest.fixture(scope="module")
def sound(captures: Captures) -> list[Logs]:
    """The undamaged partitions that are small enough to be dumped again and again."""
    return partitions(captures, lambda name: not name.startswith("damaged/"))


@pytest.fixture(scope="module")
def damaged(captures: Captures) -> list[Logs]:
    """The damaged ones."""
    return partitions(captures, lambda name: name.startswith("damaged/"))


def partitions(captures: Captures, wanted: Callable[[str], bool]) -> list[Logs]:
    """Those with logs, which are not too big."""
    found = [
        Logs(path for path in captures.segment_files(name) if path.name.endswith(".log"))
        for name in captures.partitions()
        if wanted(name)
    ]
    return [logs for logs in found if logs and sum(path.stat().st_size for path in logs) <= MOST_BYTES]


@cache
def whole(*paths: Path) -> tuple[list[Row], list[Row]]:
    """All batches and records of these logs; read only."""
    return batches(*paths), records(*paths)


def draw_wanted(data: st.DataObject, rows: list[Row]) -> Wanted:
    return data.draw(wanted(rows), label="wanted")


@given(st.data())
@EXAMPLES
def test_records(sound: list[Logs], data: st.DataObject) -> None:
    paths = data.draw(st.sampled_from(sound))
    _, rows = whole(*paths)
    asked = draw_wanted(data, rows)
    expected = [row for row in rows if asked.keeps_record(row)]
    take, skip = data.draw(st.none() | st.integers(0, 20)), data.draw(st.integers(0, 20))
    path = data.draw(st.sampled_from(BOTH_PATHS))
    run = run_rows(paths, selection=asked.selection(), path=path, take=take, skip=skip)
    assert run.rows == expected[skip : None if take is None else skip + take]
    assert (run.errors, run.notes) == ([], [])


@given(st.data())
@EXAMPLES
def test_batches(sound: list[Logs], data: st.DataObject) -> None:
    paths = data.draw(st.sampled_from(sound))
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


@given(st.data())
@EXAMPLES
def test_compatible_text(sound: list[Logs], data: st.DataObject) -> None:
    paths = data.draw(st.sampled_from(sound))
    batch_rows, rows = whole(*paths)
    asked = draw_wanted(data, rows)
    expected: list[str] = []
    for path in paths:
        name = str(path)
        below: dict[int, list[str]] = {}
        for row in rows:
            if row["file"] == name and asked.keeps_record(row):
                below.setdefault(row["position"], []).append(record_line(row))
        # Batches without records, and files without batches, are shown only when nothing is asked for.
        shown = [row for row in batch_rows if row["file"] == name and (row["position"] in below or asked == Wanted())]
        if shown or asked == Wanted():
            expected += [f"Dumping {name}", f"Log starting offset: {int(path.stem)}"]
        for row in shown:
            expected += [batch_line(row), *below.get(row["position"], ())]
    options = text_dump(
        print_data_log=True, selection=asked.selection(), path=data.draw(st.sampled_from(BOTH_PATHS), label="path")
    )
    assert text(paths, options) == "".join(f"{line}\n" for line in expected)


def text(paths: tuple[Path, ...], options: DumpOptions, budget: RowBudget | None = None) -> str:
    out: list[bytes] = []
    tool = DumpRun(options, lambda part: out.append(bytes(part)), Reporter(print, print), budget=budget)
    for path in paths:
        target = target_by_path(str(path))
        assert target is not None
        tool.dump(target)
    return b"".join(out).decode("utf-8", "surrogateescape")


@given(st.data())
@EXAMPLES
def test_damaged_logs(damaged: list[Logs], data: st.DataObject) -> None:
    """A dump stops at some kinds of damage; what is selected before that place is the same."""
    for path in data.draw(st.sampled_from(damaged)):
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


def test_both_paths_judge_what_they_leave_out(tmp_path: Path) -> None:
    log = tmp_path / f"{0:020}.log"
    log.write_bytes(v2_batch(plain_rows(3), crc=1) + v2_batch(plain_rows(3), base_offset=3))
    for table, options in (
        (RECORD, {"skip": 4}),
        (BATCH, {"skip": 1}),
        (RECORD, {"selection": Selection(key=re.compile(b"none has it"))}),
    ):
        assert [run_rows([log], table, path=path, **options).damaged for path in BOTH_PATHS] == [True, True]
