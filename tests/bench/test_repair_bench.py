"""``kdump repair`` against a program that only reads, digests and copies (see ``repair_peer``)."""

from __future__ import annotations

import os
import shutil
import statistics
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.bench.cases import BIG
from tests.bench.measure import run
from tests.oracle.toolchain import ToolchainMissingError

pytestmark = pytest.mark.bench

ROUNDS = 5
COPY_LIMIT = 1.3
CUT_LIMIT = 2.0
TORN = 100
"""Bytes that the last batch lacks."""


@pytest.fixture(scope="module")
def segment() -> Path:
    """1 GiB."""
    try:
        return BIG.path()
    except ToolchainMissingError as error:
        pytest.skip(str(error))


def ratio(ours: Callable[[], float], theirs: Callable[[], float]) -> float:
    """Of the medians of rounds that alternate."""
    times = [(ours(), theirs()) for _ in range(ROUNDS)]
    medians = [statistics.median(column) for column in zip(*times, strict=True)]
    print(f"kdump {medians[0]:.2f} s, peer {medians[1]:.2f} s: {medians[0] / medians[1]:.2f}")
    return medians[0] / medians[1]


def wall(command: list[str], output: Path) -> float:
    os.sync()
    return run(command, output).wall


def peer(*words: Path) -> list[str]:
    return [sys.executable, "-m", "tests.bench.repair_peer", *map(str, words)]


def kdump(*words: str | Path) -> list[str]:
    return [sys.executable, "-m", "kdump", "repair", *map(str, words)]


def test_copy(segment: Path, tmp_path: Path) -> None:
    def ours() -> float:
        shutil.rmtree(tmp_path / "ours", ignore_errors=True)
        return wall(kdump(segment, "--first-segment", "-o", tmp_path / "ours"), tmp_path / "out")

    def theirs() -> float:
        (tmp_path / "theirs").unlink(missing_ok=True)
        return wall(peer(segment, tmp_path / "theirs"), tmp_path / "out")

    assert ratio(ours, theirs) <= COPY_LIMIT


def test_cut_in_place(segment: Path, tmp_path: Path) -> None:
    log = tmp_path / "t-0" / segment.name
    log.parent.mkdir()
    shutil.copy(segment, log)
    size = segment.stat().st_size - TORN

    def ours() -> float:
        # The torn batch comes back for the next round.
        with segment.open("rb") as whole, log.open("r+b") as torn:
            torn.seek(end := torn.seek(0, os.SEEK_END))
            whole.seek(end)
            torn.write(whole.read(size - end) if end < size else b"")
            torn.truncate(size)
        for path in log.parent.glob("*index"):
            path.unlink()
        return wall(kdump("--in-place", "--first-segment", log.parent), tmp_path / "out")

    assert ratio(ours, lambda: wall(peer(log), tmp_path / "out")) <= CUT_LIMIT
    assert log.stat().st_size < size
