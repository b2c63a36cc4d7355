"""Figures from folds that other processes made are those of one pass."""

from __future__ import annotations

from pathlib import Path

import pytest

from kdump.log.opening import open_source
from kdump.stats.groupfigures import FiguresReport
from kdump.stats.run import StatsOptions, StatsRun
from kdump.stats.tasks import take_folds
from kdump.tasks.work import in_process
from kdump.verify.partition import next_segment_of
from tests.harness.forgedlogs import FORGED, PART, forged_log, small_proof


@pytest.mark.parametrize("kind", FORGED)
@pytest.mark.parametrize("with_records", [False, True])
def test_a_log_that_is_cut_at_a_false_place(
    tmp_path: Path, kind: str, with_records: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is folded again in one process."""
    path = tmp_path / "t-0" / f"{0:020d}.log"
    forged_log(kind, path)
    options = StatsOptions(with_records=with_records)
    whole = StatsRun(options)
    with open_source(str(path)) as source:
        for _ in whole.read(source, next_segment_of(str(path), ())).items():
            pass
    small_proof(monkeypatch)
    run = StatsRun(options)
    monkeypatch.chdir(tmp_path)
    take_folds(["t-0"], options, run, in_process, split_bytes=PART)
    assert figures(run.report()) == [text.replace(f"{tmp_path}/", "") for text in figures(whole.report())]


def figures(report: FiguresReport) -> list[str]:
    return list(map(repr, report.groups))
