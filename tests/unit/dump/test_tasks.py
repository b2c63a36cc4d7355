"""Dumps made in several parts are those of one run; tests/spark has them made by workers."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from kdump.convert.export import TextForm
from kdump.dump.output import DumpOptions
from kdump.dump.rows import RowOptions, row_output
from kdump.dump.run import DumpRun
from kdump.dump.targets import Target, target_by_path
from kdump.dump.tasks import CollectedRun, DumpPart, PartDump, PartEnd, plan_dump
from kdump.log.extents import Extent
from kdump.reading.reporter import Reporter
from kdump.reading.selection import Range, Selection
from kdump.reading.view import ViewOptions
from kdump.rows.printers import RowLines
from kdump.rows.tables import BATCH, RECORD
from tests.harness.captures import FIXTURES
from tests.harness.forgedlogs import FORGED, PART, forged_log, small_proof


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


def in_parts(tasks: Sequence[Sequence[DumpPart]], options: DumpOptions, logs: Sequence[str], jobs: int) -> Dumped:
    """Each task is done by one of ``jobs`` that take turns."""
    run = Run(options)
    run.run.begin_elsewhere(tasks[0][0].target)
    here, *functions = [PartDump(options, verbose=True, logs=logs) for _ in range(jobs + 1)]
    collected = CollectedRun(run.run, run.out.extend, chain.from_iterable(tasks), here)
    for number, task in enumerate(tasks):
        for part in task:
            for piece in functions[number % jobs](part):
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
        for split_bytes, jobs in ((None, 3), (2000, 1), (2000, 3)):
            tasks = plan_dump(targets, task_bytes=1, split_bytes=split_bytes)
            assert (len(tasks) > len(paths)) is (split_bytes is not None)
            assert in_parts(tasks, options, paths, jobs) == expected
        tasks = plan_dump(targets, task_bytes=1, whole_partitions=True)
        assert len(tasks) == (2 if paths == sorted(logs) else 1)
        assert in_parts(tasks, options, (), 2).out == expected.out


def changed(data: bytes, random: Random) -> bytes:
    """A log with damage of some kind."""
    found = bytearray(data)
    position = random.randrange(len(found))
    match random.randrange(6):
        case 0:
            found[position] ^= 1 << random.randrange(8)
        case 1:
            del found[position : position + random.randrange(1, 300)]
        case 2:
            found[position:position] = random.randbytes(random.randrange(1, 300))
        case 3:
            end = min(len(found), position + random.randrange(1, 3000))
            found[position:end] = bytes(end - position)
        case 4:
            del found[position:]
        case 5:
            found += bytes(random.randrange(3000)) + random.randbytes(random.randrange(2))
    return bytes(found)


@pytest.mark.parametrize("resync", [False, True])
@pytest.mark.parametrize("with_records", [False, True])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.slow
def test_damage_ends_a_log_or_is_gone_past_as_in_one_run(
    tmp_path: Path, resync: bool, with_records: bool, seed: int
) -> None:
    random = Random(seed)
    table = RECORD if with_records else BATCH
    for number, folder in enumerate(sorted((FIXTURES / "segments").iterdir())):
        shutil.copytree(folder, tmp_path / f"{number}-{folder.name}")
    paths = sorted(map(str, tmp_path.glob("*/*.log")))
    whole = {path: Path(path).read_bytes() for path in paths}
    for selection in (Selection(), Selection(), Selection(offsets=Range(20, 120)), Selection(times=Range(1, None))):
        for path, data in whole.items():
            Path(path).write_bytes(changed(data, random) if random.random() < 0.8 else data)
        options = DumpOptions(
            row_output(RowOptions(partial(RowLines, "jsonl", None), table)),
            ViewOptions(resync=resync, with_records=with_records, selection=selection),
        )
        targets = targets_of(paths)
        expected = in_one_run(targets, options)
        for split_bytes in (700, 3000):
            tasks = plan_dump(targets, task_bytes=1, split_bytes=split_bytes)
            assert in_parts(tasks, options, paths, 2) == expected


@pytest.mark.parametrize("kind", FORGED)
def test_forged_logs_are_dumped_as_in_one_run(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Payload looks like batches of the log where it is cut. The rest is read once, however often that happens."""
    small_proof(monkeypatch)
    path = tmp_path / f"{0:020d}.log"
    forged_log(kind, path)
    targets = targets_of([str(path)])
    rests: list[Extent] = []
    for table, resync, offsets in (
        (RECORD, True, Range()),
        (BATCH, True, Range()),
        (BATCH, True, Range(40, 91)),
        (BATCH, False, Range()),
        (BATCH, False, Range(None, 301)),
    ):
        view = ViewOptions(
            resync=resync, with_records=table is RECORD, seek=False, selection=Selection(offsets=offsets)
        )
        options = DumpOptions(row_output(RowOptions(partial(RowLines, "jsonl", None), table)), view)
        expected = in_one_run(targets, options)
        for split_bytes in (PART, PART // 2):
            tasks = plan_dump(targets, task_bytes=1, split_bytes=split_bytes)
            with monkeypatch.context() as patch:
                patch.setattr(CollectedRun, "_end", noting_rests(rests))
                assert in_parts(tasks, options, (), 2) == expected
            assert len(rests) <= 1
            if resync:
                assert len(rests) == (split_bytes == PART or bool(rests))
            rests.clear()


def noting_rests(rests: list[Extent]) -> Callable[[CollectedRun, PartEnd], None]:
    """CollectedRun._end, which also adds what this process has to read."""
    end_part = CollectedRun._end

    def noted(self: CollectedRun, end: PartEnd) -> None:
        if end.rest is not None:
            rests.append(end.rest)
        end_part(self, end)

    return noted


def test_a_task_has_so_many_bytes(logs: list[str]) -> None:
    targets = targets_of(logs)
    assert [len(task) for task in plan_dump(targets)] == [len(logs)]
    assert [len(task) for task in plan_dump(targets, task_bytes=8 << 20)] == [1] * 10
    tasks = plan_dump(targets_of(sorted(logs)), task_bytes=1, split_bytes=5000, whole_partitions=True)
    assert [len({part.target for part in task}) for task in tasks] == [5, 5]


def test_a_log_that_was_cut_is_no_dump_of_less(logs: list[str]) -> None:
    """It has become shorter since it was planned."""
    targets = targets_of(logs[:1])
    tasks = plan_dump(targets, split_bytes=3000)
    Path(logs[0]).write_bytes(Path(logs[0]).read_bytes()[:5000])
    options = DumpOptions(row_output(RowOptions(partial(RowLines, "jsonl", None))))
    found = in_parts(tasks, options, logs, 1)
    assert found.unreadable
    [error] = found.errors
    assert "it had 11818 when the job was planned" in error
