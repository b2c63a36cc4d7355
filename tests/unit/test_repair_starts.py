"""A repair and the start behind it: what is planned is what is done, and a worse start is refused."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest
from batches import plain_rows, v2_batch
from cli_runs import CLEAN, DAMAGE, kdump

from kdump.engine.repair import Repair, RepairOptions
from kdump.kafka.startup.content import sha256
from kdump.kafka.startup.names import CLEANED, LOG, SWAP
from kdump.log.partition import segment_files
from kdump.mend.pieces import TxnPolicy
from kdump.mend.place import place_of
from kdump.mend.plan import Loss, PartitionPlan, Settings, Way
from kdump.mend.planned import planned_directory
from kdump.mend.planner import Planner
from kdump.mend.salvageoptions import SalvageOptions
from tests.harness.archives import cases, unpack_cases

STEP = 9
"""Of the cases every so many is repaired."""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack_cases("startup", tmp_path_factory.mktemp("startup"))


def plan_of(directory: Path, way: Way, salvaging: SalvageOptions) -> PartitionPlan:
    """As a repair in place makes it: salvage is worked out where it is asked for."""
    segments = list(segment_files(str(directory), lambda error: None))
    planner = Planner(way, Settings(), salvaging=salvaging if way is Way.SALVAGE else None)
    return planner.partition(str(directory), segments, place_of(str(directory)), is_whole=True)


def state(directory: Path) -> dict[str, tuple[int, str]]:
    found = {}
    for path in directory.iterdir():
        if path.is_file():
            data = path.read_bytes()
            found[path.name] = len(data), hashlib.sha256(data).hexdigest()
    return found


def batches_of(*bases: int) -> bytes:
    return b"".join(v2_batch(plain_rows(5), base_offset=base) for base in bases)


def partition_of(directory: Path, **logs: bytes) -> Path:
    """``logs``: contents by base offset behind an ``o``."""
    directory.mkdir()
    for base, data in logs.items():
        (directory / f"{int(base[1:]):020}.log").write_bytes(data)
    return directory


def logs_of(directory: Path) -> dict[int, bytes]:
    return {int(path.stem): path.read_bytes() for path in directory.glob("*.log")}


def test_a_segment_that_begins_before_its_name_gets_its_own(tmp_path: Path) -> None:
    """The offsets before the name are neither lost nor held in the segment before."""
    directory = partition_of(tmp_path / "t-0", o0=batches_of(0, 5), o13=batches_of(10, 15))
    assert plan_of(directory, Way.SALVAGE, SalvageOptions()).salvage_loss() == Loss(0, 0, 0, (), 0, 20)
    assert kdump("repair", "--salvage", "--in-place", str(directory), cwd=tmp_path).returncode == CLEAN
    assert logs_of(directory) == {0: batches_of(0, 5), 10: batches_of(10, 15)}


def test_offsets_up_to_a_name_are_lost_where_one_batch_alone_denies_it(tmp_path: Path) -> None:
    """No checksum covers its offset."""
    for number, log in enumerate((batches_of(10), batches_of(10, 20), batches_of(10) + b"\0" * 90)):
        directory = partition_of(tmp_path / f"t-{number}", o0=batches_of(0, 5), o13=log)
        loss = plan_of(directory, Way.SALVAGE, SalvageOptions()).salvage_loss()
        assert loss is not None
        assert loss.offsets[0] == (10, 12)


def test_batches_that_the_segment_before_has_do_not_rename_one(tmp_path: Path) -> None:
    """No broker starts over them; without them one does."""
    directory = partition_of(tmp_path / "t-0", o0=batches_of(0, 5), o10=batches_of(5, 10, 15))
    plan = plan_of(directory, Way.SALVAGE, SalvageOptions())
    assert plan.overlapping is None
    assert plan.salvage_loss() == Loss(len(batches_of(5)), 5, 1, (), 0, 20)
    assert kdump("repair", "--salvage", "--in-place", str(directory), cwd=tmp_path).returncode == CLEAN
    assert logs_of(directory) == {0: batches_of(0, 5), 10: batches_of(10, 15)}


def test_both_ways_count_the_offsets_that_other_files_tell_of(tmp_path: Path) -> None:
    directory = partition_of(tmp_path / "t-0", o0=batches_of(0, 5)[:-3], o20=b"\0" * 20)
    (directory / f"{30:020}.snapshot").write_bytes(b"")
    plan = plan_of(directory, Way.SALVAGE, SalvageOptions())
    losses = plan.broker_loss(), plan.salvage_loss()
    assert [loss and loss.offsets for loss in losses] == [((5, 29),), ((5, 19), (20, 29))]
    run = kdump("repair", str(directory), cwd=tmp_path)
    assert run.returncode == DAMAGE
    assert "would remove the segment, which lies behind the cut: 0 good records, no offsets\n" in run.stdout.decode()


@pytest.mark.parametrize("way", Way)
def test_the_planned_directory_is_the_repaired_one(root: Path, tmp_path: Path, way: Way) -> None:
    salvaging = SalvageOptions(deep=False, transactions=TxnPolicy.ABORT)
    compared = 0
    for case in list(cases(root))[::STEP]:
        directory = tmp_path / case["id"] / Path(case["dir"]).name
        shutil.copytree(root / case["dir"], directory)
        if any(
            name.endswith((SWAP, CLEANED)) or (name.endswith(LOG) and not name[0].isdigit())
            for name in state(directory)
        ):
            continue
        plan = plan_of(directory, way, salvaging)
        if not plan.has_changes or plan.is_refused or (way is Way.SALVAGE and plan.overlapping):
            continue
        planned = planned_directory(plan, Settings())
        expected = {name: (planned[name].size, sha256(planned[name])) for name in planned.names()}
        options = RepairOptions(way, in_place=True, salvaging=salvaging, decides_transactions=True)
        errors: list[Exception] = []
        for repaired in Repair(options, on_error=errors.append).path(str(directory)):
            assert repaired.is_done
        if not errors:
            assert state(directory) == expected, case["id"]
            compared += 1
    assert compared > 5


def test_the_plan_shows_both_starts(root: Path, tmp_path: Path) -> None:
    case = next(case for case in cases(root) if case["id"] == "s0112")
    directory = tmp_path / "logs" / Path(case["dir"]).name
    shutil.copytree(root / case["dir"], directory)
    run = kdump("repair", "--salvage", "--txn", "abort", str(directory), cwd=tmp_path)
    assert run.returncode == DAMAGE
    table = run.stdout.decode().partition("the next start of the broker\n")[2].splitlines()
    cells = {row[:26].strip(): row[26:].split() for row in table[:7]}
    assert cells["good records lost"] == ["103", "0"]
    assert cells["log end offset"] == ["239", "351"]
    run = kdump("repair", "--output", "jsonl", "--salvage", str(directory), cwd=tmp_path)
    starts = json.loads(run.stdout)["starts"]
    assert starts["without"]["lost"] == [
        {"firstOffset": 239, "lastOffset": 350, "records": 103, "reason": "behind-cut"}
    ]
    assert starts["with"] == {"outcome": "starts", "exception": None, "logEndOffset": 351, "lost": []}


def test_a_repair_behind_which_the_start_is_worse_is_refused(tmp_path: Path) -> None:
    """The log starts behind the damage: a log that is cut there ends before its start, and all of it would go."""
    directory = tmp_path / "logs" / "orders-0"
    directory.mkdir(parents=True)
    for base in (0, 3, 6):
        (directory / f"{base:020}.log").write_bytes(v2_batch(plain_rows(3), base_offset=base))
    (directory / f"{3:020}.log").write_bytes(v2_batch(plain_rows(3), base_offset=3, crc=1))
    (tmp_path / "logs" / "meta.properties").write_bytes(b"version=1\nnode.id=1\ncluster.id=x\n")
    (tmp_path / "logs" / "recovery-point-offset-checkpoint").write_bytes(b"0\n1\norders 0 9\n")
    checkpoint = tmp_path / "logs" / "log-start-offset-checkpoint"
    checkpoint.write_bytes(b"0\n1\norders 0 6\n")
    for base in (0, 3, 6):
        (directory / f"{base:020}.index").write_bytes(b"")
    before = state(directory)
    run = kdump("repair", "--in-place", "--like-broker", "logs/orders-0", cwd=tmp_path)
    assert run.returncode == DAMAGE
    assert b"the next start of the broker would end worse behind this repair" in run.stderr
    assert state(directory) == before
    assert not (directory / ".kdump").exists()
    # Nothing is wrong with the same repair where the log starts before the cut.
    checkpoint.write_bytes(b"0\n0\n")
    assert kdump("repair", "--in-place", "--like-broker", "logs/orders-0", cwd=tmp_path).returncode == CLEAN
