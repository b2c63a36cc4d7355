"""Small logs whose rows are made together: they are those of each log alone."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random
from typing import Any

import pytest

import kdump
from kdump.dump.output import DumpOptions
from kdump.dump.run import DumpRun
from kdump.dump.targets import targets_of
from kdump.dump.text.options import TextOptions
from kdump.dump.text.output import text_output
from kdump.fast import policy
from kdump.inputs import inputs_of
from kdump.log.source import FileSource
from kdump.reading.joint import JointLogs
from kdump.reading.reporter import Reporter
from kdump.reading.view import ViewOptions
from tests.harness.captures import FIXTURES
from tests.harness.cli_runs import BATCH, DAMAGED_BATCH
from tests.harness.scanned import dumped, until_damage
from tests.harness.small_partitions import write_small_partitions


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Logs of every magic, with transactions and damage, among many small ones; all runs have enough for columns."""
    monkeypatch.setattr(policy, "SHOWN", 0)
    root = tmp_path / "logs"
    write_small_partitions(root, Random(7), 6)
    for folder in sorted((FIXTURES / "segments").iterdir()):
        shutil.copytree(folder, root / folder.name)
    for number, content in enumerate((BATCH, BATCH[:-1], BATCH, DAMAGED_BATCH, b"", BATCH + b"\0", BATCH, BATCH)):
        folder = root / f"torn-{number}"
        folder.mkdir()
        (folder / f"{0:020d}.log").write_bytes(content)
    return root


def of_runs(folder: Path, options: DumpOptions, *, together: bool) -> tuple[bytes, list[str], bool]:
    """The output of a run over all logs, its errors, and whether there was damage."""
    parts: list[bytes] = []
    told: list[str] = []
    reporter = Reporter(lambda error: told.append(str(error)), told.append)
    run = DumpRun(options, lambda text: parts.append(bytes(text)), reporter)
    targets = list(targets_of(inputs_of([str(folder)], run.fail), run.fail))
    if together:
        run.expect(targets)
    for target in targets:
        run.dump(target)
    told += run.finish()
    return b"".join(parts), told, run.damaged


@pytest.mark.parametrize("contents", [False, True])
@pytest.mark.parametrize("resync", [False, True])
def test_the_text_is_that_of_each_alone(logs: Path, contents: bool, resync: bool) -> None:
    options = DumpOptions(
        text_output(TextOptions(print_data_log=contents)), ViewOptions(with_records=True, resync=resync)
    )
    alone = of_runs(logs, options, together=False)
    assert alone[2]
    assert of_runs(logs, options, together=True) == alone


@pytest.mark.parametrize("on_damage", ["raise", "skip", "mark"])
def test_rows_have_the_columns_of_their_file(logs: Path, on_damage: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As objects and as Arrow, with the findings; topics and partitions may be null."""
    (logs / "nameless").mkdir()
    paths = [str(folder) for folder in sorted(logs.iterdir()) if any(folder.glob("*.log"))]
    for number in range(3):
        path = logs / "nameless" / f"{number:020d}.log"
        path.write_bytes(BATCH)
        paths.insert(number, str(path))

    def found() -> list[Any]:
        scan = kdump.scan(paths, on_damage=on_damage)
        records, error = until_damage(scan)
        tables, _ = until_damage(scan.to_reader())
        return [records, str(error), list(scan.findings), [row for table in tables for row in table.to_pylist()]]

    together = found()
    monkeypatch.setattr(JointLogs, "make", lambda *arguments: None)
    assert found() == together
    assert len(together[0]) > 20


def test_json_lines(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    together = dumped("--records", str(logs))
    monkeypatch.setattr(JointLogs, "make", lambda *arguments: None)
    assert dumped("--records", str(logs)) == together


def test_every_log_is_opened_once_and_closed(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the reader leaves in the middle."""
    opened: list[str] = []
    closed: list[str] = []
    make, close = FileSource.__init__, FileSource.close
    monkeypatch.setattr(
        FileSource, "__init__", lambda self, path, *rest: (opened.append(path), make(self, path, *rest))[1]
    )
    monkeypatch.setattr(FileSource, "close", lambda self: (closed.append(self.path), close(self))[1])
    folders = [str(logs / f"torn-{number}") for number in (0, 2, 6, 7)]
    records = iter(kdump.scan(folders))
    next(records)
    assert len(opened) == len(folders)
    records.close()
    assert sorted(closed) == sorted(opened)
    opened.clear()
    closed.clear()
    assert len(list(kdump.scan(folders))) >= len(folders)
    assert sorted(closed) == sorted(opened) == sorted(f"{folder}/{0:020d}.log" for folder in folders)
