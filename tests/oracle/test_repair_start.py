"""A real broker start (UnifiedLog.create) on every state in which a killed repair in place leaves a partition."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from pathlib import Path

import pytest

from kdump.inputs import resolve
from kdump.repair.begun import undo_repair
from kdump.repair.plan.plan import RepairMode
from kdump.repair.run import Repair, RepairOptions
from kdump.repair.salvage.pieces import SalvageOptions
from tests.harness.killedrepairs import (
    INDEXES,
    MARKER,
    SOURCE,
    build,
    check_pairs,
    contents,
    killed_states,
    manifests,
    recover,
    repair,
    tree,
)
from tests.oracle.toolchain import DUMP_RELEASE, ToolchainMissingError, java_command

pytestmark = pytest.mark.oracle


@dataclass(frozen=True, slots=True)
class Started:
    """What a start found; ``batches`` as the helper prints them."""

    failure: str | None
    end_offset: int
    producers: str
    batches: frozenset[str]

    @property
    def surviving(self) -> set[str]:
        """Batches that hold records; empty ones were made to hold offsets."""
        return {batch for batch in self.batches if batch.split(":")[2] != "0"}


@dataclass
class Broker:
    """The real code, in one JVM a call."""

    work: Path
    command: list[str] = field(default_factory=list)
    calls: int = 0

    def start(self, partitions: list[Path]) -> list[Started]:
        """Start on copies; everything from the first offset on is recovered unless the shutdown was clean."""
        self.calls += 1
        requests = [
            f"{partition}\t{str((partition.parent / MARKER).exists()).lower()}\t0\t0\n" for partition in partitions
        ]
        command = [*self.command, str(self.work / str(self.calls))]
        done = subprocess.run(command, input="".join(requests), capture_output=True, text=True, check=False)
        answers = [_started(line.split("\t")) for line in done.stdout.splitlines()]
        assert len(answers) == len(partitions), done.stderr
        return answers


def _started(fields: list[str]) -> Started:
    if fields[0] != "-":
        return Started(fields[0], -1, "", frozenset())
    return Started(None, int(fields[1]), fields[2], frozenset(fields[3:]))


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    try:
        return Broker(tmp_path / "work", java_command(DUMP_RELEASE, "PartitionStart"))
    except ToolchainMissingError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("is_clean", [True, False], ids=["clean", "crash"])
@pytest.mark.parametrize("way", [RepairMode.LIKE_BROKER, RepairMode.SALVAGE])
def test_killed_at_every_call(broker: Broker, tmp_path: Path, way: RepairMode, is_clean: bool) -> None:
    """After a clean stop the marker stays: each state is loaded without recovery, and no producer is forgotten."""
    built = partial(build, is_clean=is_clean)
    sound = built(tmp_path / "sound")
    before, started_before = contents(tree(sound)), broker.start([sound])[0]
    repair(sound, way)
    after, started_after = contents(tree(sound)), broker.start([sound])[0]
    left = killed_states(tmp_path, partial(repair, mode=way), built=built)
    for partition, started in zip(left, broker.start(left), strict=True):
        found = contents(tree(partition))
        check_pairs(before, after, found)
        assert (MARKER in found) == is_clean
        assert started.failure is None
        if is_clean:
            assert started.batches >= started_after.surviving
            assert started.end_offset in (started_before.end_offset, started_after.end_offset)
            assert started.producers in (started_before.producers, started_after.producers)
        else:
            assert started.batches >= started_before.surviving
    for number, partition in enumerate(left):
        if number % 2 or not manifests(partition):
            recover(partition, way)
            assert contents(tree(partition)) == after
        else:
            undo_repair(str(manifests(partition)[0]))
            assert contents(tree(partition)) == before
    print(f"{way.value}: {len(left)} kill points, a broker starts on each")
    assert len(left) > 100


@pytest.mark.parametrize("way", [RepairMode.LIKE_BROKER, RepairMode.SALVAGE])
def test_a_clean_start_loads_what_a_recovery_would(broker: Broker, tmp_path: Path, way: RepairMode) -> None:
    """The same batches, the same end and the same producers."""
    partition = build(tmp_path)
    started_before = broker.start([partition])[0]
    repair(partition, way)
    clean = broker.start([partition])[0]
    (partition.parent / MARKER).unlink()
    assert broker.start([partition])[0] == clean
    assert clean.producers != "[]"
    if way is RepairMode.SALVAGE:
        assert clean.producers == started_before.producers


@pytest.mark.parametrize("is_clean", [False, True])
def test_segments_from_a_replica(broker: Broker, tmp_path: Path, is_clean: bool) -> None:
    """A broker finds in a partition whose missing segments came back what it finds in the healthy one."""
    healthy = tmp_path / "healthy" / SOURCE.name
    shutil.copytree(SOURCE, healthy)
    stems = sorted(path.stem for path in SOURCE.glob("*.log"))
    restored = []
    for number, suffixes in product(range(len(stems)), ([".log"], [".log", *INDEXES], [".log", *INDEXES, ".snapshot"])):
        damaged = tmp_path / f"{number}-{len(suffixes)}" / SOURCE.name
        shutil.copytree(SOURCE, damaged)
        for suffix in suffixes:
            (damaged / f"{stems[number]}{suffix}").unlink(missing_ok=True)
        salvaging = SalvageOptions(replicas=(str(healthy),))
        with Repair(RepairOptions(RepairMode.SALVAGE, in_place=True, salvaging=salvaging), on_error=pytest.fail) as job:
            list(job.of(resolve(str(damaged))))
        restored.append(damaged)
    partitions = [healthy, *restored]
    for partition in partitions if is_clean else ():
        (partition.parent / MARKER).touch()
    expected, *found = broker.start(partitions)
    assert expected.failure is None
    assert expected.batches
    assert all(one == expected for one in found)
