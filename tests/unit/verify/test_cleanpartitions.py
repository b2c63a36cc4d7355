"""Partitions that are proven clean together: what is said of each is what is said of it alone."""

from __future__ import annotations

import os
import random
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.codes import Finding, KdumpError
from kdump.fast import policy
from kdump.log.paths import PathDirectory
from kdump.stats.grouping import By
from kdump.stats.report import stats_json
from kdump.stats.run import StatsOptions, StatsRun
from kdump.verify.partition import PartitionCheck
from kdump.verify.report import summary_line
from kdump.verify.run import Verification
from kdump.verify.segment import CheckOptions
from kdump.verify.smalllogs import SmallLogs
from tests.harness.random_partitions import partition
from tests.harness.small_partitions import SmallPartition, write_small_partitions
from tests.harness.transaction_logs import random_partition

QUICK = CheckOptions(deep=False)


def said(path: Path, *, least: int, deep: bool = False) -> list[str]:
    """What ``verify`` and ``stats --quick`` say, with logs read together from ``least`` on."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(policy, "CHECKED_LOGS", least)
        errors: list[KdumpError] = []
        check = PartitionCheck(CheckOptions(deep=deep))
        items = list(Verification(check, on_error=errors.append).path(str(path)))
        run = StatsRun(StatsOptions(By.PARTITION, with_records=False, with_curves=True))
        for item in Verification(run.judge(), on_error=errors.append, options=QUICK).path(str(path)):
            if isinstance(item, Finding):
                run.see_finding(item)
        figures = [stats_json(one, By.PARTITION) for one in run.report().groups]
        curves = [str(run.curves())]
    texts = [repr(item) if isinstance(item, Finding) else summary_line(item) for item in items]
    return [*texts, *map(str, errors), *figures, *curves]


def clean_folders(directory: Path) -> set[str]:
    """The names of the partitions that are proven clean."""
    partitions = [one for one in PathDirectory(str(directory)).partitions(lambda error: None) if one.names]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(policy, "CHECKED_LOGS", 1)
        small = SmallLogs(QUICK)
        small.expect(partitions)
        found = {Path(one.path).name for one in partitions if small.clean(one.path) is not None}
        small.expect(())
    return found


@pytest.mark.parametrize("seed", range(12))
def test_what_brokers_write_is_clean(tmp_path: Path, seed: int) -> None:
    directory = tmp_path / "logs"
    written = write_small_partitions(directory, Random(seed), 12)
    assert clean_folders(directory) == {one.folder.name for one in written}
    alone = said(directory, least=sys.maxsize)
    assert said(directory, least=1) == alone
    assert not [line for line in alone if line.startswith("Finding")]


@given(seed=st.integers(0, 2**32), data=st.data())
def test_random_damage(seed: int, data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name) / "logs"
        write_small_partitions(directory, Random(seed), 3)
        files = sorted(path for path in directory.rglob("*") if path.is_file())
        for path in data.draw(st.lists(st.sampled_from(files), min_size=1, max_size=3, unique=True)):
            held = path.read_bytes()
            match data.draw(st.sampled_from(["gone", "cut", "other", "shifted", "zeros", "flipped", "number"])):
                case "gone":
                    path.unlink()
                case "cut":
                    path.write_bytes(held[: data.draw(st.integers(0, len(held)))])
                case "other":
                    path.write_bytes(data.draw(st.sampled_from(files)).read_bytes() if path.exists() else b"")
                case "shifted":
                    path.rename(path.with_name(path.name.replace("0000", "0001", 1)))
                case "zeros":
                    path.write_bytes(held + bytes(data.draw(st.sampled_from((8, 12, 24, 5)))))
                case "number":
                    # A digit of a text file, or the lowest byte of the first number of an index.
                    at = data.draw(st.integers(0, max(0, len(held) - 1)))
                    path.write_bytes(held[:at] + bytes([data.draw(st.integers(48, 57))]) + held[at + 1 :])
                case "flipped" if held:
                    changed = bytearray(held)
                    changed[data.draw(st.integers(0, len(held) - 1))] ^= data.draw(st.integers(1, 255))
                    path.write_bytes(changed)
            files = [path for path in files if path.exists()]
        assert said(directory, least=1) == said(directory, least=sys.maxsize)


@pytest.mark.parametrize("seed", range(30))
def test_transactions_and_compaction(tmp_path: Path, seed: int) -> None:
    directory = tmp_path / "logs"
    write_small_partitions(directory, Random(seed), 3)
    random_partition(Random(seed), 40).write(directory / "transactions-0")
    for is_compacted in (False, True):
        made = partition(seed, is_compacted=is_compacted)
        folder = directory / f"random-{int(is_compacted)}"
        folder.mkdir()
        for base, log in zip(made.bases, made.segments, strict=True):
            (folder / f"{base:020}.log").write_bytes(log)
    for deep in (False, True):
        assert said(directory, least=1, deep=deep) == said(directory, least=sys.maxsize, deep=deep)


def indexed(one: SmallPartition, suffix: str) -> Path:
    """A file of the partition with contents."""
    return next(path for path in sorted(one.folder.glob(f"*{suffix}")) if path.stat().st_size)


def append(suffix: str, data: bytes) -> Callable[[SmallPartition], None]:
    """Adds bytes to a file."""

    def act(one: SmallPartition) -> None:
        with indexed(one, suffix).open("ab") as file:
            file.write(data)

    return act


def begin_earlier(one: SmallPartition) -> None:
    """The file of leader epochs knows an offset before the first segment, which nobody deleted."""
    (one.folder / "leader-epoch-checkpoint").write_text(f"0\n1\n{one.epochs[0][0]} {one.first - 1}\n")
    (one.folder.parent / "log-start-offset-checkpoint").unlink()


UNUSUAL: dict[str, Callable[[SmallPartition], object]] = {
    "half an entry": append(".index", bytes(3)),
    "no time index": lambda one: indexed(one, ".timeindex").unlink(),
    "a transaction index": lambda one: indexed(one, ".log").with_suffix(".txnindex").write_bytes(bytes(34)),
    "a leftover": lambda one: (one.folder / f"{one.first:020}.log.deleted").touch(),
    "a segment between": lambda one: (one.folder / f"{one.end + 9:020}.log").touch(),
    "a log that ends early": lambda one: shutil.move(indexed(one, ".log"), one.folder / f"{one.first + 1:020}.log"),
    "a snapshot after the end": lambda one: (one.folder / f"{one.end + 1:020}.snapshot").touch(),
    "a later leader epoch": lambda one: (one.folder / "leader-epoch-checkpoint").write_text(f"0\n1\n9 {one.first}\n"),
    "a later recovery point": lambda one: (one.folder.parent / "recovery-point-offset-checkpoint").write_text(
        f"0\n1\n{one.folder.name.replace('-', ' ')} {one.end + 1}\n"
    ),
    "an earlier start": begin_earlier,
}


@pytest.mark.parametrize("unusual", UNUSUAL)
def test_what_is_unusual_is_not_accepted(tmp_path: Path, unusual: str) -> None:
    directory = tmp_path / "logs"
    written = write_small_partitions(directory, Random(3), 3)
    assert written[1].first
    UNUSUAL[unusual](written[1])
    assert clean_folders(directory) == {written[0].folder.name, written[2].folder.name}
    assert said(directory, least=1) == said(directory, least=sys.maxsize)


def test_indexes_of_a_killed_broker(tmp_path: Path) -> None:
    """They are preallocated, and most of them is not stored."""
    directory = tmp_path / "logs"
    written = write_small_partitions(directory, Random(3), 3)
    for one in written:
        newest = max(one.folder.glob("*.log"))
        os.truncate(newest.with_suffix(".index"), 10 << 20)
        os.truncate(newest.with_suffix(".timeindex"), (10 << 20) // 12 * 12)
    assert clean_folders(directory) == {one.folder.name for one in written}
    assert said(directory, least=1) == said(directory, least=sys.maxsize)


def test_a_partition_is_read_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More logs than are read together: the next partition is not begun."""
    written = write_small_partitions(tmp_path / "logs", Random(5), 20)
    assert max(len(list(one.folder.glob("*.log"))) for one in written) == 5
    monkeypatch.setattr("kdump.verify.smalllogs._MOST_LOGS", 7)
    assert len(clean_folders(tmp_path / "logs")) == 20


def test_beside_a_broker_each_partition_is_checked_by_itself(tmp_path: Path) -> None:
    directory = tmp_path / "logs"
    write_small_partitions(directory, random.Random(1), 2)
    partitions = [one for one in PathDirectory(str(directory)).partitions(lambda error: None) if one.names]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(policy, "CHECKED_LOGS", 1)
        small = SmallLogs(QUICK)
        small.expect(partitions, is_live=True)
        assert [small.clean(one.path) for one in partitions] == [None, None]
