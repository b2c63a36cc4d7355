"""The pipeline, killed at random points. ``tests.harness.killedpipelines`` does it as often as one likes."""

from __future__ import annotations

from pathlib import Path

import pytest

from kdump.spark.sessions import why_not

if (_missing := why_not()) is not None:
    pytest.skip(_missing, allow_module_level=True)

from tests.harness.killedpipelines import KilledPipeline, killed_runs

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_each_record_once(tmp_path: Path) -> None:
    pipeline = KilledPipeline(tmp_path, seed=7)
    ended = list(killed_runs(pipeline, 2))
    assert len(ended) == 4
    assert pipeline.check() == sum(pipeline.ends)
