"""Copies as a start leaves them: the state of real brokers, and the short way that the batch table proves."""

from __future__ import annotations

from pathlib import Path

import pytest

from kdump.diff import copies as module
from kdump.diff.copies import load
from kdump.diff.places import copies_of
from kdump.inputs import resolve
from tests.harness.replicas import MadeBatch, Truth, fail, loaded, make_copy, make_log_directory


@pytest.mark.slow
def test_state_after_the_start(replicas: Truth) -> None:
    for line in replicas.lines:
        for name, copy in zip(("leaderState", "followerState"), replicas.pair(line), strict=True):
            state = [copy.log_start, copy.log_end, copy.high_watermark, [list(epoch) for epoch in copy.epochs]]
            assert state == line[name], line["id"]


@pytest.mark.slow
def test_what_the_table_proves_is_what_the_model_finds(replicas: Truth, monkeypatch: pytest.MonkeyPatch) -> None:
    proved, asked = 0, module._proved

    def counted(*given: object) -> object:
        nonlocal proved
        state = asked(*given)  # type: ignore[arg-type]
        proved += state is not None
        return state

    monkeypatch.setattr(module, "_proved", counted)
    directories = sorted({line["follower"] for line in replicas.lines})[::3]
    short = [load(*copies_of(resolve(str(replicas.root / name)), fail).copies) for name in directories]
    assert 0 < proved < len(directories)
    monkeypatch.setattr(module, "_proved", lambda *given: None)
    for name, one in zip(directories, short, strict=True):
        other = load(*copies_of(resolve(str(replicas.root / name)), fail).copies)
        assert (one.log_start, one.log_end, one.epochs) == (other.log_start, other.log_end, other.epochs), name
        assert (one.table.rows == other.table.rows).all(), name


def test_an_empty_directory(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    copy = loaded(tmp_path / "t-0")
    assert (copy.log_start, copy.log_end, copy.epochs, copy.table.rows.size) == (0, 0, (), 0)


def test_a_segment_alone(tmp_path: Path) -> None:
    folder = make_copy(tmp_path / "t-0", [[MadeBatch(0)], [MadeBatch(5), MadeBatch(10, epoch=3)]])
    copy = loaded(folder / f"{5:020}.log")
    assert (copy.log_start, copy.log_end, copy.epochs) == (5, 15, ((0, 5), (3, 10)))


def test_a_copy_without_its_log_directory_counts_as_stopped_cleanly(tmp_path: Path) -> None:
    folder = make_copy(tmp_path / "logs" / "t-0", [[MadeBatch(0), MadeBatch(5)]])
    path = folder / f"{0:020}.log"
    path.write_bytes(path.read_bytes()[:-3])
    assert [finding.first_offset for finding in loaded(folder).damage] == [5]
    # A broker that was killed leaves such a tail, and its start cuts it off.
    make_log_directory(tmp_path / "logs", node=1, is_clean=False)
    assert loaded(folder).damage == ()
    assert loaded(folder).log_end == 5
