"""Exact figures of groups; ``tests/property/test_captures.py`` has those of each log."""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kdump.stats.grouping import By
from tests.harness.batches import CONTROL, GZIP, MAX_INT64, TRANSACTIONAL, Row, plain_rows, v2_batch
from tests.harness.captures import Captures, partition_names
from tests.harness.plain_figures import figures_of, key_of, outcomes, plain_figures, report_of, shown

LOGS = [name for name in partition_names() if not name.startswith("damaged/")]


def logs_of(captures: Captures, partition: str) -> list[Path]:
    return [path for path in captures.segment_files(partition) if path.suffix == ".log"]


def grouped(rows: list[dict[str, Any]], key: Callable[[dict[str, Any]], str]) -> defaultdict[str, list[dict[str, Any]]]:
    found = defaultdict(list)
    for row in rows:
        found[key(row)].append(row)
    return found


@pytest.mark.parametrize("by", [by for by in By if by is not By.SEGMENT and not by.is_of_contents])
@pytest.mark.parametrize("group", sorted({name.partition("/")[0] for name in LOGS}))
@pytest.mark.slow
def test_groups(captures: Captures, group: str, by: By) -> None:
    """Partitions of one broker's log directory together; what has no batch or record makes no group here."""
    partitions = [name for name in LOGS if name.startswith(f"{group}/")]
    paths = [str(captures.root / name) for name in partitions if logs_of(captures, name)]
    batches, records = shown(*(str(log) for name in partitions for log in logs_of(captures, name)))
    key = key_of(by)
    rows = figures_of(*paths, by=by)
    if by.span is not None:
        rows = {"none" if name == "none" else str(_milliseconds(name)): row for name, row in rows.items()}
    own_batches, own_records = grouped(batches, key), grouped(records, key)
    keys = own_batches.keys() | own_records.keys()
    if not by.is_of_files:
        assert set(rows) == keys
    for name in keys:
        own = own_records[name]
        plain = plain_figures(own_batches[name], own)
        if by.is_of_files:
            # Empty logs are files too.
            del plain["files"]
        if by.span is None:
            # A batch is in the minute, hour or day of its largest timestamp, its records each in their own.
            assert {outcome: share["records"] for outcome, share in rows[name]["transactions"].items()} == outcomes(own)
        assert {what: rows[name][what] for what in plain} == plain, name


def _milliseconds(label: str) -> int:
    moment = datetime.fromisoformat(label)
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()) * 1000


def test_a_wrong_base_offset_leaves_no_gap(tmp_path: Path) -> None:
    """No CRC guards it. A gap that compaction left beside it is not told apart, others are."""
    batches = [v2_batch(plain_rows(2), base_offset=offset) for offset in (0, 2, 4, 9, 11)]
    log = tmp_path / f"{0:020}.log"
    for number in range(4):
        wrong = list(batches)
        wrong[number] = (2**62).to_bytes(8, "big") + batches[number][8:]
        log.write_bytes(b"".join(wrong))
        (figures,) = report_of(str(log)).groups
        assert figures.sums["missing_offsets"] == (0 if number in (2, 3) else 3), number


def test_missing_offsets_are_counted_exactly(tmp_path: Path) -> None:
    """Of each group of one log, also above the integers that a floating-point number holds."""
    log = tmp_path / f"{0:020}.log"
    log.write_bytes(
        v2_batch(plain_rows(1))
        + v2_batch(plain_rows(1), base_offset=3, codec=GZIP)
        + v2_batch(plain_rows(2), base_offset=2**62 + 5)
        + v2_batch(plain_rows(1), base_offset=2**62 + 7)
    )
    report = report_of(str(log), by=By.CODEC)
    assert {figures.group: figures.sums["missing_offsets"] for figures in report.groups} == {
        "none": 2**62 + 1,
        "gzip": 2,
    }


def test_a_directory_is_listed_once_for_all_open_transactions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def after(path: str) -> list[str]:
        asked.append(path)
        return []

    monkeypatch.setattr("kdump.stats.run.segments_after", after)
    log = tmp_path / f"{0:020}.log"
    batches = (
        v2_batch(plain_rows(1), base_offset=number, producer_id=number, attributes=TRANSACTIONAL) for number in range(9)
    )
    log.write_bytes(b"".join(batches))
    (figures,) = report_of(str(log)).groups
    assert figures.sums["open_transactions"] == 9
    assert asked == [str(log)]


def test_a_control_batch_that_is_no_marker_is_no_transaction(tmp_path: Path) -> None:
    log = tmp_path / f"{0:020}.log"
    marker = {"attributes": TRANSACTIONAL | CONTROL, "producer_id": 1}
    commit, value = struct.pack(">hh", 0, 1), struct.pack(">hi", 0, 0)
    log.write_bytes(
        v2_batch(plain_rows(2), base_offset=0, producer_id=1, attributes=TRANSACTIONAL)
        + v2_batch([Row(0, 0, commit, b"")], base_offset=2, **marker)
        + v2_batch([Row(0, 0, commit, value)], base_offset=3, **marker)
    )
    (figures,) = report_of(str(log)).groups
    assert (figures.sums["committed_transactions"], figures.sums["committed_records"]) == (1, 2)


def test_the_largest_timestamp_of_all_is_one(tmp_path: Path) -> None:
    log = tmp_path / f"{0:020}.log"
    log.write_bytes(v2_batch(plain_rows(1), base_timestamp=MAX_INT64))
    for with_records in (True, False):
        (figures,) = report_of(str(log), with_records=with_records).groups
        assert (figures.min_timestamp, figures.max_timestamp) == (MAX_INT64, MAX_INT64)
    log.write_bytes(v2_batch(plain_rows(1), base_timestamp=-1, max_timestamp=-1))
    (figures,) = report_of(str(log)).groups
    assert (figures.min_timestamp, figures.max_timestamp) == (None, None)


def test_a_header_whose_first_timestamp_is_after_its_largest(tmp_path: Path) -> None:
    log = tmp_path / f"{0:020}.log"
    log.write_bytes(v2_batch(plain_rows(1), base_timestamp=2000, max_timestamp=1000))
    (figures,) = report_of(str(log), with_records=False).groups
    assert (figures.min_timestamp, figures.max_timestamp) == (1000, 1000)
