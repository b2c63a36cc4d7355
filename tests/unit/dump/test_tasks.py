"""Dumps made in several tasks are those of one run; tests/spark has them made by workers."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from kdump.convert.export import TextForm
from kdump.dump.output import DumpOptions
from kdump.dump.rows import RowOptions, row_output
from kdump.dump.tasks import DumpTask, PieceKind, dump_task, plan_dump
from kdump.reading.view import ViewOptions
from kdump.rows.printers import RowLines
from tests.harness.captures import FIXTURES


def rows(tasks: Sequence[DumpTask], options: DumpOptions) -> bytes:
    pieces = (piece for task in tasks for piece in dump_task(task, options))
    return b"".join(piece.data for piece in pieces if piece.kind is PieceKind.ROWS)


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
def test_as_of_one_run(logs: list[str], output: TextForm, read_committed: bool) -> None:
    for paths in (sorted(logs), logs, logs[::-1]):
        options = DumpOptions(
            row_output(RowOptions(partial(RowLines, output, None))),
            ViewOptions(resync=True),
            read_committed=read_committed,
        )
        tasks = plan_dump(paths, task_bytes=1, whole_partitions=read_committed)
        assert len(tasks) == (len(paths) if not read_committed else 2 if paths == sorted(logs) else 1)
        assert rows(tasks, options) == rows([DumpTask(tuple(paths), True)], options)


def test_a_task_has_so_many_bytes(logs: list[str]) -> None:
    assert [len(task.paths) for task in plan_dump(logs)] == [len(logs)]
    assert [task.is_first for task in plan_dump(logs, task_bytes=8 << 20)] == [True] + [False] * 9
    assert [len(task.paths) for task in plan_dump(sorted(logs), task_bytes=1, whole_partitions=True)] == [5, 5]
