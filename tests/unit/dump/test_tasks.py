"""Dumps of files that are made apart are those of one run; tests/spark has them made by workers."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import pytest

from kdump.convert.export import TextForm
from kdump.dump.output import DumpOptions
from kdump.dump.rows import RowOptions, row_output
from kdump.dump.run import DumpRun
from kdump.dump.targets import Target
from kdump.dump.tasks import CollectedRun, FileDump, plan_dump
from kdump.reading.reporter import Reporter
from kdump.reading.view import ViewOptions
from kdump.rows.printers import RowLines
from kdump.rows.tables import RECORD
from tests.harness.captures import FIXTURES
from tests.harness.targets import target_by_path


class Dumped(NamedTuple):
    """What came of a run: standard output, the lines on standard error in any order, damaged, unreadable."""

    out: bytes
    errors: list[str]
    damaged: bool
    unreadable: bool


class Run:
    """A run that keeps what it gives."""

    def __init__(self, options: DumpOptions) -> None:
        self.out = bytearray()
        self.errors: list[str] = []
        reporter = Reporter(lambda error: self.errors.append(str(error)), self.errors.append, verbose=True)
        self.run = DumpRun(options, self.out.extend, reporter)

    @property
    def dumped(self) -> Dumped:
        return Dumped(bytes(self.out), sorted(self.errors), self.run.damaged, self.run.unreadable)


def in_one_run(targets: Sequence[Target], options: DumpOptions) -> Dumped:
    run = Run(options)
    for target in targets:
        run.run.dump(target)
    return run.dumped


def apart(tasks: Sequence[Sequence[Target]], options: DumpOptions) -> Dumped:
    """Each task is done by a worker of its own."""
    run = Run(options)
    run.run.begin_elsewhere(tasks[0][0])
    collected = CollectedRun(run.run, run.out.extend, chain.from_iterable(tasks))
    for task in tasks:
        dump = FileDump(options, verbose=True)
        for target in task:
            for piece in dump(target):
                collected.take(piece)
    return run.dumped


def targets_of(paths: Sequence[str]) -> list[Target]:
    return [target for path in paths if (target := target_by_path(path)) is not None]


@pytest.fixture
def logs(tmp_path: Path) -> list[str]:
    """Of two partitions in turns; the first log of each has lost the end of a transaction."""
    found: list[list[str]] = []
    for name in ("a-0", "b-0"):
        shutil.copytree(FIXTURES / "segments" / "v2-txn-0", tmp_path / name)
        own = sorted((tmp_path / name).glob("*.log"))
        own[0].write_bytes(own[0].read_bytes()[:-1])
        found.append(list(map(str, own)))
    return [path for pair in zip(*found, strict=True) for path in pair]


@pytest.mark.parametrize("read_committed", [False, True])
@pytest.mark.parametrize("output", ["jsonl", "csv"])
@pytest.mark.parametrize("resync", [False, True])
@pytest.mark.slow
def test_as_of_one_run(logs: list[str], output: TextForm, read_committed: bool, resync: bool) -> None:
    """Transactions are followed as by one run, whoever dumps the log."""
    for paths in (sorted(logs), logs, logs[::-1]):
        options = DumpOptions(
            row_output(RowOptions(partial(RowLines, output, None), RECORD)),
            ViewOptions(resync=resync, with_records=True),
            read_committed=read_committed,
        )
        targets = targets_of(paths)
        expected = in_one_run(targets, options)
        assert len(expected.out) > 10_000
        tasks = plan_dump(targets, task_bytes=1, whole_partitions=read_committed)
        assert len(tasks) == (len(paths) if not read_committed else 2 if paths == sorted(logs) else 1)
        assert apart(tasks, options) == expected


def test_a_task_has_so_many_bytes(logs: list[str]) -> None:
    targets = targets_of(logs)
    assert [len(task) for task in plan_dump(targets)] == [len(logs)]
    assert [len(task) for task in plan_dump(targets, task_bytes=8 << 20)] == [1] * 10
    tasks = plan_dump(targets_of(sorted(logs)), task_bytes=1, whole_partitions=True)
    assert [len(task) for task in tasks] == [5, 5]
