"""A repair and the start after it: what is planned is what is done, and a worse start is refused."""

from __future__ import annotations

import hashlib
import json
import shutil
import struct
from collections import Counter
from pathlib import Path

import pytest

from kdump.codes import Codes, KdumpError
from kdump.format.checkpoint import CLEAN_SHUTDOWN
from kdump.format.snapshot import ProducerEntry
from kdump.inputs import PathDirectory, log_paths, resolve
from kdump.kafka.producers import ProducerStates
from kdump.kafka.startup.names import CLEANED, LOG, SWAP
from kdump.log.content import sha256
from kdump.repair import run as engine
from kdump.repair.begun import undo_repair
from kdump.repair.plan import starts
from kdump.repair.plan.location import place_of
from kdump.repair.plan.plan import PartitionPlan, RepairLoss, RepairMode, RepairSettings
from kdump.repair.plan.planner import Planner
from kdump.repair.plan.repaireddirectory import RepairedDirectory
from kdump.repair.plan.starts import is_worse, predicted_start
from kdump.repair.run import Repair, Repaired, RepairOptions, _started
from kdump.repair.salvage.pieces import SalvageOptions, TxnPolicy
from kdump.repair.startreport import starts_text
from kdump.verify.producers import ProducerChecks
from kdump.verify.startcheck import StartCheck
from kdump.verify.startups import StartOptions, Task, task_of
from tests.harness.archives import cases, unpack_cases
from tests.harness.batches import Row, plain_rows, v2_batch
from tests.harness.cli_runs import CLEAN, DAMAGE, kdump
from tests.harness.salvaged import counted_reads

TRANSACTIONAL, CONTROL = 0x10, 0x20
STEP = 9
"""Of the cases every so many is repaired."""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack_cases("startup", tmp_path_factory.mktemp("startup"))


def plan_of(directory: Path, mode: RepairMode, salvaging: SalvageOptions) -> PartitionPlan:
    """As a repair in place makes it: salvage is worked out where it is asked for."""
    segments = list(log_paths([PathDirectory(str(directory))]))
    planner = Planner(mode, RepairSettings(), salvaging=salvaging if mode is RepairMode.SALVAGE else None)
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
    """``logs``: contents by base offset after an ``o``."""
    directory.mkdir()
    for base, data in logs.items():
        (directory / f"{int(base[1:]):020}.log").write_bytes(data)
    return directory


def logs_of(directory: Path) -> dict[int, bytes]:
    return {int(path.stem): path.read_bytes() for path in directory.glob("*.log")}


def test_a_segment_that_begins_before_its_name_gets_its_own(tmp_path: Path) -> None:
    """The offsets before the name are neither lost nor held in the segment before."""
    directory = partition_of(tmp_path / "t-0", o0=batches_of(0, 5), o13=batches_of(10, 15))
    assert plan_of(directory, RepairMode.SALVAGE, SalvageOptions()).salvage_loss() == RepairLoss(0, 0, 0, (), 0, 20)
    assert kdump("repair", "--salvage", "--in-place", str(directory), cwd=tmp_path).returncode == CLEAN
    assert logs_of(directory) == {0: batches_of(0, 5), 10: batches_of(10, 15)}


def test_offsets_up_to_a_name_are_lost_where_one_batch_alone_denies_it(tmp_path: Path) -> None:
    """No checksum covers its offset."""
    for number, log in enumerate((batches_of(10), batches_of(10, 20), batches_of(10) + b"\0" * 90)):
        directory = partition_of(tmp_path / f"t-{number}", o0=batches_of(0, 5), o13=log)
        loss = plan_of(directory, RepairMode.SALVAGE, SalvageOptions()).salvage_loss()
        assert loss is not None
        assert loss.offsets[0] == (10, 12)


def test_batches_that_the_segment_before_has_do_not_rename_one(tmp_path: Path) -> None:
    """No broker starts over them; without them one does."""
    directory = partition_of(tmp_path / "t-0", o0=batches_of(0, 5), o10=batches_of(5, 10, 15))
    plan = plan_of(directory, RepairMode.SALVAGE, SalvageOptions())
    assert plan.overlapping is None
    assert plan.salvage_loss() == RepairLoss(len(batches_of(5)), 5, 1, (), 0, 20)
    assert kdump("repair", "--salvage", "--in-place", str(directory), cwd=tmp_path).returncode == CLEAN
    assert logs_of(directory) == {0: batches_of(0, 5), 10: batches_of(10, 15)}


def test_both_ways_count_the_offsets_that_other_files_tell_of(tmp_path: Path) -> None:
    directory = partition_of(tmp_path / "t-0", o0=batches_of(0, 5)[:-3], o20=b"\0" * 20)
    (directory / f"{30:020}.snapshot").write_bytes(b"")
    plan = plan_of(directory, RepairMode.SALVAGE, SalvageOptions())
    losses = plan.broker_loss(), plan.salvage_loss()
    assert [loss and loss.offsets for loss in losses] == [((5, 29),), ((5, 19), (20, 29))]
    run = kdump("repair", str(directory), cwd=tmp_path)
    assert run.returncode == DAMAGE
    assert "would remove the segment, which lies after the cut: 0 good records, no offsets\n" in run.stdout.decode()


@pytest.mark.parametrize("is_clean", [False, True])
@pytest.mark.parametrize("mode", RepairMode)
@pytest.mark.slow
def test_the_predicted_directory_is_the_repaired_one(
    root: Path, tmp_path: Path, mode: RepairMode, is_clean: bool
) -> None:
    salvaging = SalvageOptions(deep=False, transactions=TxnPolicy.ABORT)
    compared = 0
    for case in list(cases(root))[::STEP]:
        logs = tmp_path / case["id"]
        directory = logs / Path(case["dir"]).name
        shutil.copytree(root / case["dir"], directory)
        if is_clean:
            (logs / CLEAN_SHUTDOWN).write_bytes(b"")
        if any(
            name.endswith((SWAP, CLEANED)) or (name.endswith(LOG) and not name[0].isdigit())
            for name in state(directory)
        ):
            continue
        plan = plan_of(directory, mode, salvaging)
        if not plan.has_changes or plan.is_refused or (mode is RepairMode.SALVAGE and plan.overlapping):
            continue
        before = task_of(str(directory), StartOptions()).run()
        assert isinstance(before, StartCheck)
        directory_after = RepairedDirectory(plan)
        expected = {}
        for keeps in (False, True):
            files = predicted_start(directory_after, before.settings, keeps_marker=keeps)[0]
            expected[keeps] = {name: (files[name].size, sha256(files[name])) for name in files.names()}
        options = RepairOptions(mode, in_place=True, salvaging=salvaging, decides_transactions=True)
        errors: list[Exception] = []
        for repaired in Repair(options, on_error=errors.append).of(resolve(str(directory))):
            assert repaired.is_done
        if not errors:
            assert state(directory) == expected[(logs / CLEAN_SHUTDOWN).exists()], case["id"]
            after = task_of(str(directory), StartOptions()).run()
            assert isinstance(after, StartCheck)
            assert not is_worse(after, before)
            compared += 1
    assert compared > 5


def test_a_log_that_goes_after_the_plan(tmp_path: Path) -> None:
    """A broker may delete a segment at any time; found by the fuzzer."""
    directory = partition_of(tmp_path / "t-0", o0=batches_of(0, 10)[:-1])
    plan = plan_of(directory, RepairMode.LIKE_BROKER, SalvageOptions())
    assert RepairedDirectory(plan).files
    (directory / f"{0:020}.log").unlink()
    with pytest.raises(KdumpError) as caught:
        _ = RepairedDirectory(plan).files
    assert caught.value.code is Codes.CHANGED_WHILE_READ


@pytest.mark.slow
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
    assert (starts["marker"], starts["worse"]) == (None, [])


def broker_directory(root: Path, **checkpoints: str) -> Path:
    """A log directory; ``checkpoints``: content of each after the version, by the first word of its name."""
    names = {"recovery": "recovery-point-offset-checkpoint", "log": "log-start-offset-checkpoint"}
    names |= {"replication": "replication-offset-checkpoint", "cleaner": "cleaner-offset-checkpoint"}
    logs = root / "logs"
    logs.mkdir()
    (logs / "meta.properties").write_bytes(b"version=1\nnode.id=1\ncluster.id=x\n")
    for word, lines in checkpoints.items():
        (logs / names[word]).write_text(f"0\n{len(lines.splitlines())}\n{lines}")
    return logs


def outside_of_its_transaction(directory: Path, *, snapshots: bool) -> Path:
    """Two segments; after the damage in the first lies the marker of a transaction, later its producer writes plainly.

    Without the marker no broker recovers the second one.
    """
    directory.mkdir()
    producer = {"producer_id": 7, "producer_epoch": 0}
    begun = v2_batch(plain_rows(2), base_offset=0, base_sequence=0, attributes=TRANSACTIONAL, **producer)
    damaged = v2_batch(plain_rows(2), base_offset=2, crc=1)
    commit = Row(0, 0, struct.pack(">hh", 0, 1), struct.pack(">hi", 0, 0))
    marker = v2_batch([commit], base_offset=4, attributes=TRANSACTIONAL | CONTROL, **producer)
    (directory / f"{0:020}.log").write_bytes(begun + damaged + marker)
    plain = v2_batch(plain_rows(2), base_offset=5, base_sequence=2, **producer)
    (directory / f"{5:020}.log").write_bytes(plain)
    for base in (0, 5):
        (directory / f"{base:020}.index").write_bytes(b"")
        (directory / f"{base:020}.timeindex").write_bytes(b"")
    if snapshots:
        entry = ProducerEntry(7, 0, 1, 1, 1, 0, 0, -1)
        for base in (5, 7):
            states = ProducerStates.from_snapshot([entry], base)
            (directory / f"{base:020}.snapshot").write_bytes(states.snapshot())
    return directory


def test_a_repair_after_which_the_start_is_worse_is_refused(tmp_path: Path) -> None:
    logs = broker_directory(tmp_path, recovery="orders 0 6\n")
    directory = outside_of_its_transaction(logs / "orders-0", snapshots=True)
    before = state(directory)
    words = ["repair", "--in-place", "--like-broker", f"logs/orders-0/{0:020}.log"]
    plan = kdump("repair", words[-1], cwd=tmp_path)
    assert b"logs/orders-0 broker stops: " in plan.stdout
    assert b"in place this is refused without --allow-worse-start" in plan.stdout
    run = kdump(*words, cwd=tmp_path)
    assert run.returncode == DAMAGE
    assert b"the next start of the broker would end worse after this repair than without it: " in run.stderr
    assert b"logs/orders-0 broker stops: " in run.stderr
    assert b"--allow-worse-start goes on" in run.stderr
    assert state(directory) == before
    assert not (directory / ".kdump").exists()
    assert kdump(*words, "--allow-worse-start", cwd=tmp_path).returncode == CLEAN
    assert state(directory) != before


def test_a_clean_start_does_not_read_what_a_recovery_would_stop_at(tmp_path: Path) -> None:
    """The same as above; the marker stays, and the snapshot at the end of the log, too."""
    logs = broker_directory(tmp_path)
    (logs / CLEAN_SHUTDOWN).write_bytes(b"")
    directory = outside_of_its_transaction(logs / "orders-0", snapshots=True)
    run = kdump("repair", "--in-place", "--like-broker", f"logs/orders-0/{0:020}.log", cwd=tmp_path)
    assert run.returncode == CLEAN, run.stderr
    assert b".kafka_cleanshutdown: stays" in run.stdout
    assert (logs / CLEAN_SHUTDOWN).exists()
    check = task_of(str(directory), StartOptions()).run()
    assert isinstance(check, StartCheck)
    assert check.is_harmless
    assert check.start.served is not None
    assert not check.start.served.is_forgotten


@pytest.mark.parametrize("is_clean", [False, True])
def test_the_own_lines_of_the_checkpoints_fit_the_repaired_log(tmp_path: Path, is_clean: bool) -> None:
    """A log that ends before its log start offset would lose everything at a start."""
    lines = "other 0 9\norders 0 9\norders 1 9\n"
    logs = broker_directory(tmp_path, recovery=lines, log=lines.replace("9", "6"), replication=lines, cleaner=lines)
    if is_clean:
        (logs / CLEAN_SHUTDOWN).write_bytes(b"")
    directory = logs / "orders-0"
    directory.mkdir()
    for base in (0, 3, 6):
        crc = {"crc": 1} if base == 3 else {}
        (directory / f"{base:020}.log").write_bytes(v2_batch(plain_rows(3), base_offset=base, **crc))
        (directory / f"{base:020}.index").write_bytes(b"")
    before = {path.name: path.read_text() for path in logs.glob("*checkpoint")}
    run = kdump("repair", "--in-place", "--like-broker", "logs/orders-0", cwd=tmp_path)
    assert run.returncode == CLEAN, run.stderr
    after = {path.name: path.read_text() for path in logs.glob("*checkpoint")}
    assert {text.replace("orders 0 3", "orders 0 9") for text in after.values()} == {
        text.replace("orders 0 6", "orders 0 9") for text in before.values()
    }
    assert all("orders 0 3\n" in text for text in after.values())
    assert (logs / CLEAN_SHUTDOWN).exists() == is_clean
    check = task_of(str(directory), StartOptions()).run()
    assert isinstance(check, StartCheck)
    assert check.is_harmless
    # A broker writes the others' lines; undoing the repair leaves those alone.
    points = logs / "recovery-point-offset-checkpoint"
    points.write_text("0\n2\norders 0 4\nother 0 12\n")
    (manifest,) = directory.glob(".kdump/*/manifest.json")
    assert kdump("repair", "--undo", str(manifest), cwd=tmp_path).returncode == CLEAN
    assert points.read_text() == "0\n2\norders 0 9\nother 0 12\n"
    del before[points.name]
    assert {name: (logs / name).read_text() for name in before} == before


def damaged_beside(logs: Path) -> None:
    """A partition that a clean start serves whole, and of which one that recovers cuts a good batch."""
    directory = logs / "beside-0"
    directory.mkdir()
    log = batches_of(0) + v2_batch(plain_rows(5), base_offset=5, crc=1) + batches_of(10)
    (directory / f"{0:020}.log").write_bytes(log)
    entry = (10).to_bytes(4, "big") + len(batches_of(0) * 2).to_bytes(4, "big")
    (directory / f"{0:020}.index").write_bytes(entry)


@pytest.mark.parametrize("mode", ["--like-broker", "--salvage"])
@pytest.mark.parametrize("path", ["logs/orders-0", f"logs/orders-0/{0:020}.log"])
def test_other_partitions_start_as_before(tmp_path: Path, mode: str, path: str) -> None:
    logs = broker_directory(tmp_path)
    (logs / CLEAN_SHUTDOWN).write_bytes(b"")
    damaged_beside(logs)
    shutil.copytree(logs / "beside-0", logs / "orders-0")
    before = task_of(str(logs / "beside-0"), StartOptions()).run()
    plan = json.loads(kdump("repair", mode, "--output", "jsonl", path, cwd=tmp_path).stdout)
    assert (plan["starts"]["marker"], plan["starts"]["worse"]) == ("kept", [])
    assert kdump("repair", mode, "--in-place", path, cwd=tmp_path).returncode == CLEAN
    assert (logs / CLEAN_SHUTDOWN).exists()
    assert task_of(str(logs / "beside-0"), StartOptions()).run() == before
    check = task_of(str(logs / "orders-0"), StartOptions()).run()
    assert isinstance(check, StartCheck)
    assert check.is_harmless
    assert check.start.served is not None
    assert check.start.served.end_offset == (5 if mode == "--like-broker" else 15)


def test_where_the_marker_has_to_go_the_others_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logs = broker_directory(tmp_path)
    marker = logs / CLEAN_SHUTDOWN
    marker.write_bytes(b"")
    damaged_beside(logs)
    orders = outside_of_its_transaction(logs / "orders-0", snapshots=True)
    (orders / f"{5:020}.log").write_bytes(batches_of(5))
    before = state(orders)
    # As if no snapshot could be made.
    monkeypatch.setattr(starts, "_snapshot_at_end", lambda *words: None)

    def repaired(**options: bool) -> tuple[list[Repaired], list[KdumpError]]:
        errors: list[KdumpError] = []
        job = Repair(RepairOptions(RepairMode.SALVAGE, decides_transactions=True, **options), on_error=errors.append)
        try:
            with job:
                return list(job.of(resolve(str(orders)))), errors
        except KdumpError as error:
            return [], [error]

    (plan,), _ = repaired()
    assert plan.starts is not None
    assert plan.starts.removes_marker
    assert [Path(worse.after.path).name for worse in plan.starts.worse] == ["beside-0"]
    text = starts_text("orders-0", plan.starts, is_done=False)
    assert "goes when the logs are repaired in place, because a clean start would not load what is left" in text
    assert "beside-0 loses 5 good records (without the repair: loses 0 good records" in text
    assert "in place this is refused without --allow-worse-start" in text
    _, (refusal,) = repaired(in_place=True)
    assert refusal.code is Codes.REPAIR_REFUSED
    assert "beside-0 loses 5 good records" in str(refusal)
    assert (state(orders), marker.exists()) == (before, True)
    (done,), _ = repaired(in_place=True, allow_worse_start=True)
    assert done.is_done
    assert not marker.exists()
    assert done.manifest is not None
    undo_repair(done.manifest)
    assert (state(orders), marker.exists()) == (before, True)


def test_the_starts_of_the_others_are_found_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the marker has to go for each of many partitions."""
    logs = broker_directory(tmp_path)
    (logs / CLEAN_SHUTDOWN).write_bytes(b"")
    damaged_beside(logs)
    orders = outside_of_its_transaction(logs / "orders-0", snapshots=True)
    (orders / f"{5:020}.log").write_bytes(batches_of(5))
    for number in range(1, 4):
        shutil.copytree(orders, logs / f"orders-{number}")
    monkeypatch.setattr(starts, "_snapshot_at_end", lambda *words: None)
    started, run = Counter[str](), engine._started

    def counted(task: Task) -> StartCheck:
        started[Path(task.path).name] += 1
        return run(task)

    monkeypatch.setattr(engine, "_started", counted)
    options = RepairOptions(RepairMode.SALVAGE, decides_transactions=True)
    with Repair(options, on_error=pytest.fail) as job:
        plans = [plan for plan in job.of(resolve(str(logs))) if isinstance(plan, Repaired) and plan.starts is not None]
    shown = [[Path(worse.after.path).name for worse in plan.starts.worse] for plan in plans if plan.starts is not None]
    assert [names[0] for names in shown if names] == ["beside-0"] * 4
    assert started["beside-0"] == 3, "its own plan, and once with and without the marker"


def test_a_plan_holds_no_producers_that_it_does_not_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A partition may have a million open transactions; each took memory several times."""
    directory = tmp_path / "t-0"
    directory.mkdir()
    header = {"producer_epoch": 0, "base_sequence": 0, "attributes": TRANSACTIONAL}
    log = b"".join(v2_batch(plain_rows(1), base_offset=n, producer_id=n, **header) for n in range(9))
    (directory / f"{0:020}.log").write_bytes(log)
    followed: list[int] = []
    monkeypatch.setattr(ProducerChecks, "see", lambda self, row: iter(followed.append(row.producer_id) or ()))
    plan = plan_of(directory, RepairMode.LIKE_BROKER, SalvageOptions())
    assert plan.has_changes
    assert not any(segment.recovered.producers.by_id for segment in plan.segments)
    assert not followed, "only a .txnindex depends on producers"
    (directory / f"{0:020}.txnindex").write_bytes(b"\0" * 33 + b"\1")
    plan_of(directory, RepairMode.LIKE_BROKER, SalvageOptions())
    assert followed == [*range(9)]
    monkeypatch.undo()
    task = task_of(str(directory), StartOptions(is_clean=False))
    told, started = task.run(), _started(task)
    assert isinstance(told, StartCheck)
    assert len(told.begun) == 9
    assert not started.begun
    assert started.start.served == told.start.served


@pytest.mark.parametrize("mode", list(RepairMode))
def test_segments_without_batches_are_read_a_few_times(
    mode: RepairMode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For each of them all those after it were read."""
    reads = counted_reads(monkeypatch)
    empty = {f"o{base}": b"" for base in range(1, 30)}
    folder = partition_of(tmp_path / "t-0", o0=batches_of(0), **empty, o30=batches_of(30, 40), o50=b"", o60=b"")
    plan_of(folder, mode, SalvageOptions())
    assert max(reads.values(), default=0) <= 3
