"""The order of the reports at the end of a run, which is that of a map by absolute path."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kdump.dump.text.dialect import NEWEST_DIALECT
from kdump.dump.text.reports import OffsetContinuity, Reports
from kdump.payloads.java import hash_map_order
from tests.harness.batches import message
from tests.harness.dumpoptions import text_dump
from tests.harness.inprocess import run_in_process

PATHS = [f"/data/orders-0/{number:020}.log" for number in range(100, 113)]


def reported(reports: Reports) -> list[str]:
    """The paths in the order of their headings."""
    return [line.split()[-1] for line in reports.lines() if line.startswith("Non-consecutive")]


def test_logs_without_a_report_have_their_place() -> None:
    """The Java tool names all of them (``-1 is followed by 100``), and with 14 its table is twice as large."""
    reports = Reports(NEWEST_DIALECT)
    shown = PATHS[::2]
    for path in [*PATHS, "/data/orders-0/last.log"]:
        reports.non_consecutive(path, [(5, 7)] if path in shown else [], 2 if path in shown else 1)
    assert reported(reports) == [path for path in hash_map_order([*PATHS, "one more"]) if path in shown]
    assert reported(reports) != hash_map_order(shown)


@pytest.mark.parametrize("found", [1, 2])
def test_the_last_pair_may_double_the_table(found: int) -> None:
    reports = Reports(NEWEST_DIALECT)
    for path in PATHS:
        reports.non_consecutive(path, [(5, 7)], found)
    assert reported(reports) == hash_map_order(PATHS, asked_again=found == 2)
    assert hash_map_order(PATHS) != hash_map_order(PATHS, asked_again=True)


def test_pairs_that_replace_one_another_count() -> None:
    continuity = OffsetContinuity()
    for offset in (0, 1, 1, 1):
        continuity.see(offset)
    assert (continuity.gaps, continuity.found) == ([(1, 1), (1, 1)], 2)


def test_a_log_in_order_is_in_no_report(tmp_path: Path) -> None:
    for number in range(30):
        offset = 0 if number % 2 else number + 1
        log = message(1, offset, None, b"v") + message(1, offset + (1 if number % 2 else 3), None, b"v")
        (tmp_path / f"{number}.log").write_bytes(log)
    names = [str(tmp_path / f"{number}.log") for number in range(30)]
    outcome = run_in_process(names, text_dump(deep_iteration=True))
    headings = re.findall("Non-consecutive offsets in (.*)", outcome.stderr.decode())
    # 0.log is the only one whose name has offset 0 in it, and all of these have two pairs.
    assert headings == hash_map_order(names[::2], asked_again=True)
