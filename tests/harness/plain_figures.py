"""Figures of logs counted plainly, over the JSON rows of ``kdump dump --resync``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

from kdump.codes import Finding
from kdump.inputs import resolve
from kdump.reading.view import ViewOptions
from kdump.rows.tables import BATCH, RECORD
from kdump.stats.groupfigures import FiguresReport
from kdump.stats.grouping import By
from kdump.stats.report import stats_row
from kdump.stats.run import StatsOptions, StatsRun
from kdump.verify.run import Verification
from tests.harness.row_runs import Row, run_rows


@cache
def shown(*paths: str) -> tuple[list[Row], list[Row]]:
    """The batches and the records of some logs, after damage too."""
    found = []
    for table in (BATCH, RECORD):
        view = ViewOptions(with_records=table is RECORD, resync=True)
        found.append([row for row in run_rows(paths, table, view=view).rows if row["type"] == table.type])
    return found[0], found[1]


def key_of(by: By) -> Callable[[Row], str]:
    """The group of a row of either table."""
    match by:
        case By.SEGMENT:
            return lambda row: str(row["file"])
        case By.PARTITION:
            return lambda row: f"{row['topic']}-{row['partition']}"
        case By.TOPIC:
            return lambda row: str(row["topic"])
        case By.PRODUCER:
            return lambda row: str(-1 if row["producerId"] is None else row["producerId"])
        case By.CODEC:
            return lambda row: str(row["compression"])
        case By.MAGIC:
            return lambda row: str(row["magic"])
        case By.LEADER_EPOCH:
            return lambda row: str(-1 if row["partitionLeaderEpoch"] is None else row["partitionLeaderEpoch"])
    return lambda row: _time(row, by)


def _time(row: Row, by: By) -> str:
    """The beginning of its minute, hour or day (ms)."""
    assert by.span is not None
    timestamp = row["timestamp"] if row["type"] == "record" else row["maxTimestamp"]
    return "none" if timestamp is None or timestamp < 0 else str(timestamp // by.span * by.span)


def plain_figures(batches: Iterable[Row], records: Iterable[Row]) -> dict[str, Any]:
    """The figures of one group, by the names of the table STATS."""
    batches, records = list(batches), list(records)
    offsets = [row["offset"] for row in records]
    times = [row["timestamp"] for row in records if row["timestamp"] is not None and row["timestamp"] >= 0]
    return {
        "files": len({row["file"] for row in (*batches, *records)}),
        "bytes": sum(row["size"] for row in batches),
        "batches": len(batches),
        "controlBatches": sum(bool(row["isControl"]) for row in batches),
        "records": len(records),
        "controlRecords": sum(bool(row["isControl"]) for row in records),
        "nullKeys": sum(row["key"] is None for row in records),
        "tombstones": sum(row["key"] is not None and row["value"] is None for row in records),
        "minOffset": min(offsets, default=None),
        "maxOffset": max(offsets, default=None),
        "minTimestamp": min(times, default=None),
        "maxTimestamp": max(times, default=None),
        "keyBytes": sum(max(row["keySize"], 0) for row in records),
        "valueBytes": sum(max(row["valueSize"], 0) for row in records),
        "headers": sum(len(row["headers"]) for row in records),
        "recordsWithHeaders": sum(bool(row["headers"]) for row in records),
        "damagedBatches": sum(not row["isValid"] for row in batches),
        "timestampTypes": {
            kind: count
            for kind in ("NoTimestampType", "CreateTime", "LogAppendTime")
            if (count := sum(row["timestampType"] == kind for row in records))
        },
        "codecs": _shares("compression", batches, records),
        "magics": _shares("magic", batches, records),
    }


def _shares(name: str, batches: list[Row], records: list[Row]) -> dict[str, dict[str, int]]:
    found = {}
    for value in {row[name] for row in (*batches, *records)}:
        own = [row for row in batches if row[name] == value]
        found[str(value)] = {
            "batches": len(own),
            "records": sum(row[name] == value for row in records),
            "bytes": sum(row["size"] for row in own),
        }
    return found


def outcomes(records: Iterable[Row]) -> dict[str, int]:
    """Records by what became of their transaction."""
    states = [row["txnState"] for row in records]
    return {outcome: states.count(outcome) for outcome in ("committed", "aborted", "open")}


def report_of(*paths: str, by: By = By.SEGMENT, with_records: bool = True) -> FiguresReport:
    """What ``kdump stats`` has to say of paths."""
    run = StatsRun(StatsOptions(by, with_records=with_records))
    verification = Verification(run.judge(), on_error=lambda error: None)
    for path in paths:
        for item in verification.items(resolve(path)):
            if isinstance(item, Finding):
                run.see_finding(item)
    return run.report()


def figures_of(*paths: str, by: By = By.SEGMENT) -> dict[str, dict[str, Any]]:
    """The rows of ``report_of`` by group, codecs without their ratios."""
    rows = {str(figures.group): stats_row(figures, by) for figures in report_of(*paths, by=by).groups}
    for row in rows.values():
        row["codecs"] = {
            name: {what: share[what] for what in ("batches", "records", "bytes")}
            for name, share in row["codecs"].items()
        }
    return rows
