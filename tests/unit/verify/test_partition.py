"""Partitions of small logs: what brokers write is clean, and each file is opened once."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from kdump.codes import Finding
from kdump.inputs import resolve
from kdump.verify.run import Verification
from tests.bench.manyfiles import write_log_directory
from tests.harness.examples import sparse
from tests.harness.small_partitions import write_small_partitions


@pytest.mark.parametrize("seed", sparse(range(12), fast=3))
def test_what_brokers_write_is_clean(tmp_path: Path, seed: int) -> None:
    write_small_partitions(tmp_path / "logs", Random(seed), 12)
    assert not [item for item in Verification().items(resolve(str(tmp_path / "logs"))) if isinstance(item, Finding)]


def test_each_file_is_opened_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A partition is listed once, too. What is not there is not opened."""
    write_log_directory(tmp_path / "logs", 1, 1)
    folder = tmp_path / "logs" / "topic-0"
    # As if it had not changed lately.
    monkeypatch.setattr("kdump.log.files._SETTLED_NS", -(10**9))
    opened: Counter[str] = Counter()
    listed: Counter[str] = Counter()
    open_file, scan = os.open, os.scandir

    def noted_open(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        opened[os.path.basename(path)] += 1
        return open_file(path, flags, mode, dir_fd=dir_fd)

    def noted_scan(path: str | int) -> Iterator[os.DirEntry[str]]:
        listed[os.path.realpath(path if isinstance(path, str) else f"/proc/self/fd/{path}")] += 1
        return scan(path)

    monkeypatch.setattr(os, "open", noted_open)
    monkeypatch.setattr(os, "scandir", noted_scan)
    assert not [item for item in Verification().items(resolve(str(folder.parent))) if isinstance(item, Finding)]
    names = {path.name for path in folder.iterdir()}
    assert {name: opened[name] for name in names} == dict.fromkeys(names, 1)
    assert {name for name in opened if name[0] == "0"} <= names
    assert listed[str(folder)] == 1
