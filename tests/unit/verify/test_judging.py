"""``verify -j``: the same items in the same order from one process and from several, damage included."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kdump.codes import Codes, Finding, KdumpError
from kdump.inputs import resolve
from kdump.tasks.pool import ProcessPool
from kdump.tasks.work import in_process
from kdump.verify import judging, readings
from kdump.verify.judging import has_small_logs, pooled_judge
from kdump.verify.partition import PartitionCheck
from kdump.verify.readings import Group, ReadingEnd, reading_work
from kdump.verify.report import summary_line
from kdump.verify.run import Judge, Verification
from kdump.verify.segment import CheckOptions
from tests.harness.archives import unpack_cases
from tests.harness.captures import FIXTURES
from tests.harness.cli_runs import BATCH, CLEAN, DAMAGE, DAMAGED_BATCH, NAME, USAGE, kdump


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log directory of clean partitions, damaged ones, an empty one and one whose log cannot be opened."""
    root = tmp_path_factory.mktemp("logs")
    unpacked = unpack_cases("repair", tmp_path_factory.mktemp("cases"))
    for number, log in enumerate(sorted(unpacked.glob("mutants/*/*.log"))[::12]):
        shutil.copytree(log.parent, root / f"mutant-{number}")
    for folder in sorted((FIXTURES / "segments").iterdir()):
        shutil.copytree(folder, root / folder.name)
    for name in ("empty-0", "v1-gzip-0"):
        (root / name).mkdir(exist_ok=True)
        (root / name / f"{99999:020}.log").touch()
    (root / "elsewhere-0").mkdir()
    (root / "elsewhere-0" / NAME).symlink_to("/etc/hostname")
    (root / "recovery-point-offset-checkpoint").write_text("0\n1\nv2-txn 0 99999999\n")
    return root


def said(judge: Judge, *paths: Path) -> tuple[list[str], list[str]]:
    errors: list[KdumpError] = []
    verification = Verification(judge, on_error=errors.append)
    items = [
        repr(item) if isinstance(item, Finding) else summary_line(item)
        for path in paths
        for item in verification.items(resolve(str(path)))
    ]
    return items, list(map(str, errors))


@pytest.mark.parametrize("deep", [True, False])
@pytest.mark.slow
def test_equal_with_any_number_of_processes(logs: Path, deep: bool) -> None:
    options = CheckOptions(deep=deep)
    paths = [logs, logs / "v2-txn-0", *sorted((logs / "mutant-0").glob("*.log")), logs]
    expected = said(PartitionCheck(options), *paths)
    assert len(expected[0]) > 100
    for run, min_tasks in ((in_process, 8), (ProcessPool(2), 8), (ProcessPool(7), 28)):
        judge = pooled_judge(map(resolve, map(str, paths)), options, run, min_tasks=min_tasks, takes_small=True)
        assert said(judge, *paths) == expected


def test_partitions_of_small_logs_are_checked_here(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of larger logs among them are read elsewhere."""
    monkeypatch.setattr(judging, "SMALL_LOG", 12_000)
    options = CheckOptions()
    folders = {
        Path(group.segments[0]).parent.name for group in Group.all_of(resolve(str(logs))) if not has_small_logs(group)
    }
    assert {"damaged-crc-0", "v0-snappy-0"} <= folders
    assert "v2-txn-0" not in folders
    judge = pooled_judge([resolve(str(logs))], options, ProcessPool(2))
    assert said(judge, logs) == said(PartitionCheck(options), logs)


def test_relative_paths_and_a_rate(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(logs)
    paths = Path("v2-txn-0"), Path("damaged-crc-0") / NAME
    options = CheckOptions()
    expected = said(PartitionCheck(options), *paths)
    assert (
        said(
            pooled_judge(map(resolve, map(str, paths)), options, ProcessPool(2, rate=1 << 30), takes_small=True), *paths
        )
        == expected
    )


def test_who_dies_names_the_file_and_the_others_are_read(logs: Path) -> None:
    """The second of three logs was being read."""
    groups = [group for name in ("v2-txn-0", "damaged-crc-0") for group in Group.all_of(resolve(str(logs / name)))]
    [[first, second, *_]] = readings.plan_readings(groups)
    work = reading_work(CheckOptions())
    before = list(work.function(first))
    [lost] = work.lost(second, 3, KdumpError(Codes.UNREADABLE, "was killed"))
    assert isinstance(lost.seen, ReadingEnd)
    assert (lost.group, lost.segment, lost.number) == (0, 1, 3)
    items = list(judging.judge(readings.absolute(groups), [*before, lost], CheckOptions()))
    assert [str(item) for _, item in items if isinstance(item, KdumpError)] == [f"{groups[0].segments[1]}: was killed"]
    # No other file of the group is left out: those without pieces are read by the judge.
    assert {number for number, _ in items} == {0}


def test_options_that_exclude_it(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(BATCH)
    assert kdump("verify", "-j", "2", NAME, cwd=tmp_path).returncode == CLEAN
    for words in (["-j", "0"], ["-j", "2", "--engine", "spark"], ["--startup", "-j", "2", "--master", "local[2]"]):
        assert kdump("verify", *words, NAME, cwd=tmp_path).returncode == USAGE
    (tmp_path / NAME).write_bytes(BATCH + DAMAGED_BATCH)
    assert kdump("verify", "-j", "2", "-", cwd=tmp_path, stdin=BATCH + DAMAGED_BATCH).returncode == DAMAGE
