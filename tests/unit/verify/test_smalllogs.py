"""Small logs that are read together: what is said of each is what is said of it alone."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.codes import Finding, KdumpError
from kdump.fast import policy
from kdump.inputs import PartitionFolder, resolve
from kdump.log.opening import open_source
from kdump.log.source import Source
from kdump.stats.grouping import By
from kdump.stats.report import stats_row
from kdump.stats.run import StatsOptions, StatsRun
from kdump.verify.partition import PartitionCheck
from kdump.verify.report import summary_line
from kdump.verify.run import Verification
from kdump.verify.segment import CheckOptions, SegmentReading
from kdump.verify.smalllogs import SmallLogs
from tests.bench.manyfiles import write_log_directory
from tests.harness.archives import unpack_cases
from tests.harness.captures import FIXTURES
from tests.harness.cli_runs import BATCH, DAMAGED_BATCH, NAME
from tests.harness.examples import sparse
from tests.harness.random_partitions import partition
from tests.harness.small_partitions import write_small_partitions
from tests.harness.transaction_logs import random_partition

DEEP, QUICK = CheckOptions(), CheckOptions(deep=False)


def said(path: Path, options: CheckOptions, least: int) -> list[str]:
    """What ``verify`` and ``stats --quick`` say, with logs read together from ``least`` on."""
    errors: list[KdumpError] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(policy, "CHECKED_LOGS", least)
        items = list(Verification(PartitionCheck(options), on_error=errors.append).items(resolve(str(path))))
        run = StatsRun(StatsOptions(By.PARTITION, with_records=False, with_curves=True))
        for item in Verification(run.judge(), on_error=errors.append, options=QUICK).items(resolve(str(path))):
            if isinstance(item, Finding):
                run.see_finding(item)
        figures = [str(stats_row(one, By.PARTITION)) for one in run.report().groups]
        curves = str(run.curves())
    texts = [repr(item) if isinstance(item, Finding) else summary_line(item) for item in items]
    return [*texts, *map(str, errors), *figures, curves]


@pytest.mark.parametrize("seed", sparse(range(12), fast=3))
def test_what_brokers_write_is_clean(tmp_path: Path, seed: int) -> None:
    write_small_partitions(tmp_path / "logs", Random(seed), 12)
    alone = said(tmp_path / "logs", DEEP, sys.maxsize)
    assert said(tmp_path / "logs", DEEP, 1) == alone
    assert not [line for line in alone if line.startswith("Finding")]


@pytest.mark.parametrize("seed", sparse(range(30), fast=6))
def test_transactions_and_compaction(tmp_path: Path, seed: int) -> None:
    write_small_partitions(tmp_path, Random(seed), 3)
    random_partition(Random(seed), 40).write(tmp_path / "transactions-0")
    for is_compacted in (False, True):
        made = partition(seed, is_compacted=is_compacted)
        folder = tmp_path / f"random-{int(is_compacted)}"
        folder.mkdir()
        for base, log in zip(made.bases, made.segments, strict=True):
            (folder / f"{base:020}.log").write_bytes(log)
    assert said(tmp_path, DEEP, 1) == said(tmp_path, DEEP, sys.maxsize)


@pytest.mark.parametrize("options", [DEEP, QUICK], ids=["deep", "quick"])
@pytest.mark.slow
def test_every_case(tmp_path: Path, options: CheckOptions) -> None:
    root = tmp_path / "logs"
    unpacked = unpack_cases("repair", tmp_path / "cases")
    for number, log in enumerate(sorted(unpacked.glob("mutants/*/*.log"))[::3]):
        shutil.copytree(log.parent, root / f"mutant-{number}")
    for folder in sorted((FIXTURES / "segments").iterdir()):
        shutil.copytree(folder, root / folder.name)
    (root / "empty-0").mkdir()
    (root / "empty-0" / NAME).touch()
    (root / "link-0").mkdir()
    (root / "link-0" / NAME).symlink_to("/etc/hostname")
    expected = said(root, options, sys.maxsize)
    assert len(expected) > 100
    assert said(root, options, 1) == expected


@given(seed=st.integers(0, 2**32), data=st.data(), deep=st.booleans())
def test_random_damage(seed: int, data: st.DataObject, deep: bool) -> None:
    with tempfile.TemporaryDirectory() as name:
        root = Path(name) / "logs"
        write_small_partitions(root, Random(seed), 3)
        files = sorted(path for path in root.rglob("*") if path.is_file())
        for path in data.draw(st.lists(st.sampled_from(files), min_size=1, max_size=3, unique=True)):
            held = path.read_bytes()
            match data.draw(st.sampled_from(["gone", "cut", "longer", "other", "shifted", "flipped"])):
                case "gone":
                    path.unlink()
                case "cut":
                    path.write_bytes(held[: data.draw(st.integers(0, len(held)))])
                case "longer":
                    path.write_bytes(held + data.draw(st.binary(min_size=1, max_size=80) | st.just(held)))
                case "other":
                    path.write_bytes(data.draw(st.sampled_from(files)).read_bytes())
                case "shifted":
                    path.rename(path.with_name(path.name.replace("0000", "0001", 1)))
                case "flipped" if held:
                    changed = bytearray(held)
                    changed[data.draw(st.integers(0, len(held) - 1))] ^= data.draw(st.integers(1, 255))
                    path.write_bytes(changed)
            files = [path for path in files if path.exists()]
        options = CheckOptions(deep=deep)
        assert said(root, options, 1) == said(root, options, sys.maxsize)


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
    # Not with Path.iterdir, which scans from Python 3.14 on.
    names = set(os.listdir(folder))
    assert {name: opened[name] for name in names} == dict.fromkeys(names, 1)
    assert {name for name in opened if name[0] == "0"} <= names
    assert listed[str(folder)] == 1


def test_only_clean_logs_are_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Damage in one log may cost the next one a reading of its own. A log that is opened again is read again."""
    monkeypatch.setattr(policy, "CHECKED_LOGS", 1)
    contents = [BATCH, DAMAGED_BATCH, BATCH[:-1], BATCH, b"", BATCH + b"\0", bytes(70), BATCH]
    paths = [str(tmp_path / f"{number:020}.log") for number in range(len(contents))]
    for path, content in zip(paths, contents, strict=True):
        Path(path).write_bytes(content)
    small = SmallLogs(DEEP)
    small.expect([PartitionFolder(str(tmp_path), tuple(map(os.path.basename, paths)), True)])
    known = []
    for path in paths:
        with small.open(path) as source:
            reading = small.reading(source)
            if reading is not None:
                known.append(int(Path(path).stem))
                alone = [item.tolist() for item in SegmentReading(source).items() if not isinstance(item, Finding)]
                assert [item.tolist() for item in reading.items() if not isinstance(item, Finding)] == alone
    # The end of log 2 is looked for in log 3.
    assert known == [0, 4, 7]
    with small.open(paths[0]) as source:
        assert small.reading(source) is None


def test_every_log_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Logs that nobody asks for, too."""
    monkeypatch.setattr(policy, "CHECKED_LOGS", 1)
    paths = [str(tmp_path / f"{number:020}.log") for number in range(5)]
    for path in paths:
        Path(path).write_bytes(BATCH)
    opened: list[str] = []
    closed: list[str] = []

    def noted(path: str) -> Source:
        opened.append(path)
        source = open_source(path)
        close = source.close
        monkeypatch.setattr(source, "close", lambda: (closed.append(path), close()))
        return source

    small = SmallLogs(DEEP, noted)
    small.expect([PartitionFolder(str(tmp_path), tuple(map(os.path.basename, paths)), True)])
    small.open(paths[1]).close()
    assert closed == paths[1:2]
    small.expect(())
    assert opened == paths[1:]
    assert sorted(closed) == paths[1:]
