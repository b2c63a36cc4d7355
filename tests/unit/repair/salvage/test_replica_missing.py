"""``repair --salvage --from`` on partitions of which whole segments are missing, and a healthy copy is left."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import pytest

from kdump.codes import Codes, Finding, KdumpError, Severity
from kdump.inputs import resolve
from kdump.kafka.producers import ProducerStates
from kdump.repair.apply.journal import HOME
from kdump.repair.begun import finish_repairs, undo_repair
from kdump.repair.plan.plan import RepairMode
from kdump.repair.run import Repair, Repaired, RepairOptions
from kdump.repair.salvage.pieces import PieceOrigin, SalvageOptions
from kdump.repair.salvage.placeholders import end_marker
from kdump.verify.run import findings as verify
from tests.harness.batches import GZIP, LZ4, NOW, SNAPPY, TRANSACTIONAL, ZSTD, message, plain_rows, v2_batch, wrapper
from tests.harness.captures import FIXTURES, Captures
from tests.harness.cli_runs import kdump
from tests.harness.killing import killed_at

SIZE = 200
"""Bytes of a record's value."""
CAPTURED = FIXTURES / "segments" / "v2-txn-0"
PLACES = {"first": [0], "middle": [1], "last": [-1], "two": [0, -1]}
Damage = Callable[[Path, str], None]


def plain(first: int, codec: int = 0, epoch: int = 0) -> list[bytes]:
    return [
        v2_batch(
            plain_rows(5, SIZE + number), base_offset=first + 5 * number, codec=codec, partition_leader_epoch=epoch
        )
        for number in range(8)
    ]


def transactional(first: int) -> list[bytes]:
    producer = {"producer_id": 7, "producer_epoch": 0}
    batches = []
    for number in range(4):
        at = first + 10 * number
        sequence = 9 * (at // 10)
        rows = plain_rows(9, SIZE)
        batches.append(v2_batch(rows, base_offset=at, attributes=TRANSACTIONAL, base_sequence=sequence, **producer))
        batches.append(end_marker(at + 9, 0, is_abort=True, **producer, coordinator_epoch=0, timestamp=NOW))
    return batches


def legacy(first: int, magic: int, codec: int | None = None) -> list[bytes]:
    if codec is None:
        return [message(magic, first + number, b"k%d" % number, bytes(SIZE)) for number in range(40)]
    entries = []
    for number in range(8):
        at = first + 5 * number
        inner = [message(magic, at + place if magic == 0 else place, b"k", bytes(SIZE)) for place in range(5)]
        entries.append(wrapper(magic, at + 4, inner, codec))
    return entries


def compacted(first: int) -> list[bytes]:
    """Of each 10 offsets 3 are left, in batches with records missing; nothing at either end of the segment."""
    return [
        v2_batch(plain_rows(3, SIZE), base_offset=first + at, last_offset_delta=4, partition_leader_epoch=0)
        for at in (3, 11, 20, 27)
    ]


LOGS: Mapping[str, Mapping[int, Sequence[bytes]]] = {
    "plain": {first: plain(first) for first in (0, 40, 80, 120)},
    "later-start": {first: plain(first) for first in (400, 440, 480)},
    "epochs": {first: plain(first, epoch=first // 40) for first in (0, 40, 80)},
    "compressed": {40 * n: plain(40 * n, codec) for n, codec in enumerate((GZIP, SNAPPY, LZ4, ZSTD))},
    "transactional": {first: transactional(first) for first in (0, 40, 80)},
    "magic0": {first: legacy(first, 0) for first in (0, 40, 80)},
    "magic1": {first: legacy(first, 1) for first in (0, 40, 80)},
    "wrappers0": {first: legacy(first, 0, SNAPPY) for first in (0, 40, 80)},
    "wrappers1": {first: legacy(first, 1, GZIP) for first in (0, 40, 80)},
    "compacted": {first: compacted(first) for first in (0, 40, 80, 120)},
}


def build(directory: Path, segments: Mapping[int, Sequence[bytes]], epochs: str | None = None) -> Path:
    """A healthy partition, its index files made by kdump."""
    directory.mkdir(parents=True)
    for base, batches in segments.items():
        (directory / f"{base:020}.log").write_bytes(b"".join(batches))
    if epochs is not None:
        (directory / "leader-epoch-checkpoint").write_text(epochs)
    run(directory, RepairOptions(RepairMode.INDEXES, in_place=True))
    shutil.rmtree(directory / HOME)
    return directory


def run(directory: Path, options: RepairOptions) -> Repaired:
    errors: list[KdumpError] = []
    with Repair(options, on_error=errors.append) as job:
        done = list(job.of(resolve(str(directory))))
    if errors:
        raise errors[0]
    (repaired,) = done
    return repaired


def options(*replicas: Path, output: Path | None = None, in_place: bool = False) -> RepairOptions:
    salvaging = SalvageOptions(replicas=tuple(map(str, replicas)))
    return RepairOptions(
        RepairMode.SALVAGE, output=None if output is None else str(output), in_place=in_place, salvaging=salvaging
    )


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}


def logs(directory: Path) -> dict[str, bytes]:
    return {name: data for name, data in contents(directory).items() if name.endswith(".log")}


def alarms(directory: Path) -> list[str]:
    found = [item for item in verify(str(directory)) if isinstance(item, Finding)]
    return [f"{item.path}: {item}" for item in found if item.severity is not Severity.INFO]


def empty(directory: Path, stem: str) -> None:
    (directory / f"{stem}.log").write_bytes(b"")


def remove_log(directory: Path, stem: str) -> None:
    (directory / f"{stem}.log").unlink()


def remove_all(directory: Path, stem: str) -> None:
    for path in directory.glob(f"{stem}.*"):
        path.unlink()


DAMAGES: Sequence[Damage] = (empty, remove_log, remove_all)


def check_restored(healthy: Path, damaged: Path, root: Path, *, in_place: bool) -> None:
    """The healthy log is there again, nothing is wrong with it, and a repair in place is undone exactly."""
    before, copied = contents(damaged), contents(healthy)
    if in_place:
        repaired = run(damaged, options(healthy, in_place=True))
        result = damaged
    else:
        repaired = run(damaged, options(healthy, output=root / "out"))
        assert contents(damaged) == before
        result = root / "out" / damaged.name
    assert not repaired.leaves_damage
    assert contents(healthy) == copied
    assert logs(result) == logs(healthy)
    assert {name for name in contents(result) if "index" in name} == {
        name for name in contents(healthy) if "index" in name
    }
    snapshots = {name: data for name, data in contents(healthy).items() if name.endswith(".snapshot")}
    assert {name: data for name, data in contents(result).items() if name in snapshots} == snapshots
    assert alarms(result) == []
    assert run(result, options(healthy)).plan.has_changes is False
    if in_place:
        assert repaired.manifest is not None
        undo_repair(repaired.manifest)
        assert contents(damaged) == before


@pytest.mark.parametrize("name", LOGS)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.slow
def test_whole_segments_come_back(tmp_path: Path, name: str, place: str) -> None:
    healthy = build(tmp_path / "replica" / "t-0", LOGS[name])
    assert alarms(healthy) == []
    chance = random.Random(f"{name} {place}")
    for number, damage in enumerate(DAMAGES):
        in_place = chance.random() < 0.5
        damaged = tmp_path / str(number) / "t-0"
        shutil.copytree(healthy, damaged)
        stems = sorted(path.stem for path in healthy.glob("*.log"))
        for which in PLACES[place]:
            damage(damaged, stems[which])
        check_restored(healthy, damaged, tmp_path / str(number), in_place=in_place)


@pytest.mark.parametrize("number", range(len(PLACES)))
@pytest.mark.slow
def test_captured_transactions(tmp_path: Path, number: int) -> None:
    """With snapshots, .txnindex and leader-epoch-checkpoint."""
    damaged = tmp_path / "t-0"
    shutil.copytree(CAPTURED, damaged)
    stems = sorted(path.stem for path in CAPTURED.glob("*.log"))
    for which in list(PLACES.values())[number]:
        DAMAGES[number % len(DAMAGES)](damaged, stems[which])
    check_restored(CAPTURED, damaged, tmp_path, in_place=bool(number % 2))


@pytest.mark.parametrize(
    "partition", ["0.8.2.2/v0-multi-0", "0.10.2.2/v1-compact-0", "1.1.1/v2-compact-0", "4.3.1/v2-multi-0"]
)
@pytest.mark.slow
def test_captures(captures: Captures, tmp_path: Path, partition: str) -> None:
    healthy = tmp_path / "replica" / Path(partition).name
    healthy.mkdir(parents=True)
    for path in captures.segment_files(partition):
        shutil.copy(path, healthy)
    stems = sorted(path.stem for path in healthy.glob("*.log"))
    chance = random.Random(partition)
    for number, which in enumerate((0, len(stems) // 2, -1)):
        root = tmp_path / str(number)
        damaged = root / healthy.name
        shutil.copytree(healthy, damaged)
        chance.choice(DAMAGES)(damaged, stems[which])
        run(damaged, options(healthy, output=root / "out"))
        assert logs(root / "out" / healthy.name) == logs(healthy)


def test_no_log_is_left(tmp_path: Path) -> None:
    healthy = build(tmp_path / "replica" / "t-0", LOGS["plain"])
    damaged = tmp_path / "t-0"
    shutil.copytree(healthy, damaged)
    for log in damaged.glob("*.log"):
        log.unlink()
    check_restored(healthy, damaged, tmp_path, in_place=True)
    with pytest.raises(KdumpError) as error:
        run(damaged, RepairOptions(RepairMode.SALVAGE))
    assert error.value.code is Codes.NO_SEGMENTS


def test_no_log_is_left_and_the_copy_is_of_another_topic(tmp_path: Path) -> None:
    healthy = build(tmp_path / "replica" / "t-0", LOGS["plain"])
    (healthy / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n")
    damaged = tmp_path / "t-0"
    shutil.copytree(healthy, damaged)
    (damaged / "partition.metadata").write_text("version: 0\ntopic_id: BBBBBBBBBBBBBBBBBBBBBA\n")
    for log in damaged.glob("*.log"):
        log.unlink()
    with pytest.raises(KdumpError) as error:
        run(damaged, options(healthy))
    assert error.value.code is Codes.NO_SEGMENTS


def test_a_log_named_by_its_index(tmp_path: Path) -> None:
    """A PATH may be a file of a segment whose log is gone."""
    healthy = build(tmp_path / "replica" / "t-0", LOGS["plain"])
    damaged = tmp_path / "t-0"
    shutil.copytree(healthy, damaged)
    stem = f"{40:020}"
    remove_log(damaged, stem)
    run(damaged / f"{stem}.index", options(healthy, in_place=True))
    assert logs(damaged) == logs(healthy)


class TestEnd:
    def lacking(self, tmp_path: Path) -> tuple[Path, Path]:
        """A healthy copy, and a partition without its last two segments."""
        healthy = build(tmp_path / "replica" / "t-0", LOGS["plain"])
        damaged = tmp_path / "logs" / "t-0"
        shutil.copytree(healthy, damaged)
        for base in (80, 120):
            remove_all(damaged, f"{base:020}")
        return healthy, damaged

    def test_of_the_copy(self, tmp_path: Path) -> None:
        """Where nothing tells the end of the log, that of the copy is taken, and this is said."""
        healthy, damaged = self.lacking(tmp_path)
        done = kdump("repair", "--salvage", "--from", str(healthy), str(damaged), cwd=tmp_path)
        assert done.returncode == 1
        assert f"the end of the copy is used: offset 160 of {healthy}" in done.stdout.decode()
        done = kdump("repair", "--from", str(healthy), "--output", "jsonl", str(damaged), cwd=tmp_path)
        members = json.loads(done.stdout)
        ends = [log["endFrom"] for log in members["logs"]]
        assert ends == [None, str(healthy / f"{120:020}.log"), None, None]
        assert [log["sha256Before"] is None for log in members["logs"]] == [False, False, True, True]
        assert [log["baseOffset"] for log in members["logs"]] == [0, 40, 80, 120]
        assert members["losses"]["salvage"]["offsets"] == []
        assert members["losses"]["salvage"]["endOffset"] == 160

    def test_of_a_snapshot(self, tmp_path: Path) -> None:
        healthy, damaged = self.lacking(tmp_path)
        (damaged / f"{100:020}.snapshot").write_bytes(ProducerStates(100).snapshot())
        repaired = run(damaged, options(healthy, in_place=True))
        assert repaired.plan.ends()[0] == 100
        assert sorted(logs(damaged)) == [f"{base:020}.log" for base in (0, 40, 80)]

    @pytest.mark.parametrize(("offset", "end"), [(80, 80), (93, 95), (70, 160)])
    def test_of_the_high_watermark(self, tmp_path: Path, offset: int, end: int) -> None:
        """Inside of a batch that batch is still taken; one below what is there tells nothing."""
        healthy, damaged = self.lacking(tmp_path)
        (damaged.parent / "replication-offset-checkpoint").write_text(f"0\n1\nt 0 {offset}\n")
        assert run(damaged, options(healthy)).plan.ends()[0] == end

    def test_what_no_copy_has_is_held(self, tmp_path: Path) -> None:
        healthy, damaged = self.lacking(tmp_path)
        (damaged.parent / "replication-offset-checkpoint").write_text("0\n1\nt 0 200\n")
        plan = run(damaged, options(healthy)).plan
        loss = plan.salvage_loss()
        assert loss is not None
        assert (loss.offsets, loss.end_offset) == (((160, 199),), 200)


class TestStart:
    @pytest.mark.parametrize(("start", "first"), [(None, 0), (40, 40), (47, 45), (80, 80)])
    def test_of_the_log(self, tmp_path: Path, start: int | None, first: int) -> None:
        """A batch that holds the log start is taken as a whole."""
        healthy = build(tmp_path / "replica" / "t-0", LOGS["plain"])
        damaged = tmp_path / "logs" / "t-0"
        shutil.copytree(healthy, damaged)
        for base in (0, 40):
            remove_all(damaged, f"{base:020}")
        if start is not None:
            (damaged.parent / "log-start-offset-checkpoint").write_text(f"0\n1\nt 0 {start}\n")
        plan = run(damaged, options(healthy)).plan
        log = plan.segments[0].salvaged
        assert log is not None
        assert log.pieces[0].first_offset == first
        assert plan.segments[0].base_offset == first

    def test_of_the_copy(self, tmp_path: Path) -> None:
        """What was deleted there below its log start does not come back."""
        healthy = build(tmp_path / "replica" / "t-0", LOGS["plain"])
        (healthy.parent / "log-start-offset-checkpoint").write_text("0\n1\nt 0 40\n")
        damaged = tmp_path / "t-0"
        shutil.copytree(healthy, damaged)
        for base in (0, 40):
            remove_all(damaged, f"{base:020}")
        assert run(damaged, options(healthy)).plan.segments[0].base_offset == 40

    @pytest.mark.parametrize("is_source", [True, False])
    def test_a_directory_that_was_put_aside_has_no_line(self, tmp_path: Path, *, is_source: bool) -> None:
        """The log start is that of the partition in its place; what lies before it was not taken."""
        names = ("t-0.0a-stray", "t-0") if is_source else ("t-0", "t-0.0a-stray")
        healthy = build(tmp_path / "replica" / names[0], LOGS["plain"])
        damaged = tmp_path / "logs" / names[1]
        shutil.copytree(healthy, damaged)
        for base in (0, 40):
            remove_all(damaged, f"{base:020}")
        put_aside = healthy if is_source else damaged
        (put_aside.parent / "log-start-offset-checkpoint").write_text("0\n1\nt 0 40\n")
        assert run(damaged, options(healthy)).plan.segments[0].base_offset == 40
        (put_aside.parent / "t-0").mkdir()
        assert run(damaged, options(healthy)).plan.segments[0].base_offset == 0

    def test_segments_below_it_stay_away(self, tmp_path: Path) -> None:
        """Index files were left behind by segments that were deleted."""
        healthy = build(tmp_path / "replica" / "t-0", LOGS["plain"])
        damaged = tmp_path / "logs" / "t-0"
        shutil.copytree(healthy, damaged)
        remove_log(damaged, f"{0:020}")
        (damaged.parent / "log-start-offset-checkpoint").write_text("0\n1\nt 0 40\n")
        assert not run(damaged, options(healthy)).plan.has_changes


def test_segments_of_the_copy_begin_elsewhere(tmp_path: Path) -> None:
    """Where names are not known the copy's are taken; each segment but for that begins where one ended."""
    batches = [batch for first in (0, 40, 80, 120) for batch in plain(first)]
    healthy = build(tmp_path / "replica" / "t-0", {0: batches[:10], 50: batches[10:20], 100: batches[20:]})
    damaged = build(tmp_path / "t-0", LOGS["plain"])
    for base in (40, 80):
        remove_all(damaged, f"{base:020}")
    run(damaged, options(healthy, in_place=True))
    assert sorted(logs(damaged)) == [f"{base:020}.log" for base in (0, 40, 50, 100, 120)]
    assert b"".join(logs(damaged)[name] for name in sorted(logs(damaged))) == b"".join(batches)
    assert alarms(damaged) == []


def test_a_torn_end_and_the_segment_after_it(tmp_path: Path) -> None:
    """What is torn off belongs to the segment that is there."""
    healthy = build(tmp_path / "replica" / "t-0", LOGS["plain"])
    damaged = tmp_path / "t-0"
    shutil.copytree(healthy, damaged)
    log = damaged / f"{0:020}.log"
    log.write_bytes(log.read_bytes()[:-1500])
    remove_all(damaged, f"{40:020}")
    check_restored(healthy, damaged, tmp_path, in_place=True)


def test_two_copies_make_up_for_one_another(tmp_path: Path) -> None:
    healthy = build(tmp_path / "whole" / "t-0", LOGS["plain"])
    one, other, damaged = (tmp_path / name / "t-0" for name in ("one", "other", "damaged"))
    for directory, gone in ((one, [40]), (other, [80]), (damaged, [40, 80])):
        shutil.copytree(healthy, directory)
        for base in gone:
            remove_all(directory, f"{base:020}")
    plan = run(damaged, options(one, other, in_place=True)).plan
    assert logs(damaged) == logs(healthy)
    taken = {
        piece.path
        for segment in plan.segments
        if segment.salvaged is not None
        for piece in segment.salvaged.pieces
        if piece.origin is PieceOrigin.REPLICA
    }
    assert taken == {str(other / f"{40:020}.log"), str(one / f"{80:020}.log")}


class TestOtherHistories:
    EPOCHS = "0\n2\n0 0\n1 40\n"

    def both(self, tmp_path: Path, epoch: int) -> tuple[Path, Path]:
        """Up to offset 40 the logs are the same; after it the copy has another leader epoch than the log had."""
        ours = {0: plain(0), 40: plain(40, epoch=1), 80: plain(80, epoch=1)}
        theirs = {0: plain(0), 40: plain(40, epoch=epoch), 80: plain(80, epoch=epoch)}
        damaged = build(tmp_path / "t-0", ours, self.EPOCHS)
        return build(tmp_path / "replica" / "t-0", theirs), damaged

    @pytest.mark.parametrize("gone", [[40], [80], [40, 80]])
    def test_are_not_mixed_in(self, tmp_path: Path, gone: list[int]) -> None:
        replica, damaged = self.both(tmp_path, 2)
        for base in gone:
            empty(damaged, f"{base:020}")
        plan = run(damaged, options(replica)).plan
        pieces = [piece for segment in plan.segments if segment.salvaged for piece in segment.salvaged.pieces]
        assert all(piece.origin is not PieceOrigin.REPLICA for piece in pieces)
        assert any(segment.salvaged is not None and segment.salvaged.not_taken for segment in plan.segments)
        done = kdump("repair", "--from", str(replica), str(damaged), cwd=tmp_path)
        assert f"are not taken from the copy {replica}: " in done.stdout.decode()
        members = json.loads(
            kdump("repair", "--from", str(replica), "--output", "jsonl", str(damaged), cwd=tmp_path).stdout
        )
        assert any(log["notTaken"] for log in members["logs"])

    def test_the_same_epoch_is_the_same_history(self, tmp_path: Path) -> None:
        replica, damaged = self.both(tmp_path, 1)
        healthy = logs(damaged)
        for base in (40, 80):
            empty(damaged, f"{base:020}")
        run(damaged, options(replica, in_place=True))
        assert logs(damaged) == healthy

    def test_epochs_alone_tell(self, tmp_path: Path) -> None:
        """The copy ends before what is left of the log begins: the checkpoint has its epochs, or it is not believed."""
        for number, (epochs, is_restored) in enumerate(((self.EPOCHS, True), (None, False))):
            root = tmp_path / str(number)
            ours = {0: plain(0), 40: plain(40, epoch=1), 80: plain(80, epoch=1)}
            damaged = build(root / "t-0", ours, epochs)
            replica = build(root / "replica" / "t-0", {0: ours[0]})
            empty(damaged, f"{0:020}")
            remove_all(damaged, f"{40:020}")
            plan = run(damaged, options(replica)).plan
            first = plan.segments[0].salvaged
            assert first is not None
            assert first.takes_from_replica is is_restored
            assert bool(first.not_taken) is not is_restored


def test_epochs_come_back(tmp_path: Path) -> None:
    """A broker that started without the first segment forgot its epochs."""
    healthy = build(tmp_path / "replica" / "t-0", LOGS["epochs"], "0\n3\n0 0\n1 40\n2 80\n")
    damaged = tmp_path / "t-0"
    shutil.copytree(healthy, damaged)
    remove_all(damaged, f"{0:020}")
    (damaged / "leader-epoch-checkpoint").write_text("0\n2\n1 40\n2 80\n")
    run(damaged, options(healthy, in_place=True))
    assert contents(damaged) == contents(healthy)


def test_offsets_that_the_copy_lacks_too(tmp_path: Path) -> None:
    """In a log that was not compacted they are lost: the copy may have lost the same segment."""
    healthy = build(tmp_path / "replica" / "t-0", LOGS["plain"])
    damaged = tmp_path / "t-0"
    shutil.copytree(healthy, damaged)
    for directory in (healthy, damaged):
        remove_all(directory, f"{40:020}")
    remove_all(damaged, f"{80:020}")
    loss = run(damaged, options(healthy)).plan.salvage_loss()
    assert loss is not None
    assert loss.offsets == ((40, 79),)


@pytest.mark.slow
def test_killed_anywhere(tmp_path: Path) -> None:
    """It goes on, or is taken back, in turns."""
    healthy = build(tmp_path / "replica" / "t-0", LOGS["plain"])

    def damaged(name: str) -> Path:
        directory = tmp_path / name / "t-0"
        shutil.copytree(healthy, directory)
        empty(directory, f"{0:020}")
        remove_log(directory, f"{40:020}")
        remove_all(directory, f"{120:020}")
        return directory

    job = options(healthy, in_place=True)
    whole = damaged("whole")
    before = contents(whole)
    run(whole, job)
    after = contents(whole)
    killed = 0
    for number in range(1, 1000, 9):
        directory = damaged(str(number))
        if not killed_at(number, partial(run, directory, job)):
            break
        killed += 1
        manifests = sorted(directory.glob(f"{HOME}/*/manifest.json"))
        if killed % 2 or not manifests:
            if manifests:
                list(finish_repairs(str(directory), on_error=pytest.fail))
            else:
                run(directory, job)
            assert contents(directory) == after
        else:
            undo_repair(str(manifests[0]))
            assert contents(directory) == before
    assert killed > 10
