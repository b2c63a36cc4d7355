"""Figures from folds that other processes made are those of one pass."""

from __future__ import annotations

from pathlib import Path

import pytest

from kdump.inputs import resolve
from kdump.log.opening import open_source
from kdump.stats.groupfigures import FiguresReport
from kdump.stats.run import StatsOptions, StatsRun
from kdump.stats.tasks import take_folds
from kdump.tasks.work import in_process
from kdump.verify.partition import next_segment_of
from tests.harness.forgedlogs import FORGED, forged_log


@pytest.mark.parametrize("kind", FORGED)
@pytest.mark.parametrize("with_records", [False, True])
def test_forged_logs(tmp_path: Path, kind: str, with_records: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The .index leads into payload that looks like batches of the log."""
    path = tmp_path / "t-0" / f"{0:020d}.log"
    forged_log(kind, path)
    options = StatsOptions(with_records=with_records)
    whole = StatsRun(options)
    with open_source(str(path)) as source:
        for _ in whole.read(source, next_segment_of(str(path), ())).items():
            pass
    run = StatsRun(options)
    monkeypatch.chdir(tmp_path)
    take_folds([resolve("t-0")], options, run, in_process)
    assert figures(run.report()) == [text.replace(f"{tmp_path}/", "") for text in figures(whole.report())]


def figures(report: FiguresReport) -> list[str]:
    return list(map(repr, report.groups))
