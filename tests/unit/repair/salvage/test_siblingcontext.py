"""The nearest logs that have valid batches."""

from __future__ import annotations

from pathlib import Path

import pytest

from kdump.repair.salvage.siblingcontext import NearestLog, Neighbours, sibling_context
from tests.harness.batches import plain_rows, v2_batch
from tests.harness.salvaged import counted_reads


def name_of(log: NearestLog | None) -> str | None:
    return None if log is None else Path(log.path).name


@pytest.mark.parametrize("pattern", ["", "B", ".", "....", "B....", "....B", "..B..B.B...", "BBB", ".x.B.x"])
@pytest.mark.parametrize("is_forward", [True, False])
def test_nearest_logs(pattern: str, is_forward: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``B``: a log with batches, ``.``: an empty one, ``x``: one of junk."""
    paths = [tmp_path / f"{10 * number:020}.log" for number in range(len(pattern))]
    for path, what in zip(paths, pattern, strict=True):
        batch = v2_batch(plain_rows(3), base_offset=int(path.stem))
        path.write_bytes({"B": batch * 2, ".": b"", "x": b"x" * 100}[what])
    reads = counted_reads(monkeypatch)
    around = Neighbours(str(tmp_path / f"{0:020}.log"))
    with_batches = [path.name for path, what in zip(paths, pattern, strict=True) if what == "B"]
    for path in paths if is_forward else reversed(paths):
        context = sibling_context(str(path), neighbours=around)
        before = [name for name in with_batches if name < path.name]
        after = [name for name in with_batches if name > path.name]
        assert name_of(context.log_before) == (before[-1] if before else None)
        assert name_of(context.log_after) == (after[0] if after else None)
    assert max(reads.values(), default=0) <= 1


def test_rows_of_a_log_that_has_gone(tmp_path: Path) -> None:
    for number in range(2):
        (tmp_path / f"{number:020}.log").write_bytes(v2_batch(plain_rows(1), base_offset=number) * 2)
    log = sibling_context(str(tmp_path / f"{1:020}.log")).log_before
    assert log is not None
    assert len(log.rows) == len(log.first_rows) == 2
    other = sibling_context(str(tmp_path / f"{0:020}.log")).log_after
    assert other is not None
    Path(other.path).unlink()
    assert len(other.rows) == 0
