"""verify.reach: what was lost before, by the files beside the logs; and what healthy brokers leave is no loss."""

from __future__ import annotations

import json
import random
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from kdump.kafka.producers import ProducerStates
from kdump.verify.reach import AlreadyLost, KnownOffsets, PartitionEvidence, SegmentReach, Witness
from tests.harness import ROOT
from tests.harness.archives import unpack_archive, unpack_cases
from tests.harness.batches import plain_rows, v2_batch
from tests.harness.cli_runs import CLEAN, DAMAGE, kdump, shell

SNAPSHOT = ProducerStates(9).snapshot()
TXN = "v2-txn-0"
"""Segments 0, 105, 201, 297, 397; the log ends before 448."""


@pytest.fixture(scope="module")
def drills(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Partitions of a real cluster: without the first log, with the last one emptied, with an index of garbage."""
    return unpack_cases("lost", tmp_path_factory.mktemp("lost"))


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    return Path(shutil.copytree(ROOT / "fixtures" / "segments" / TXN, tmp_path / TXN))


def lost(directory: Path) -> list[tuple[int, int]]:
    """What ``verify`` and ``verify --startup`` call already lost; they agree, and end with 1 because of it."""
    found = kdump("verify", "--output", "jsonl", directory.name, cwd=directory.parent)
    rows = [json.loads(line) for line in found.stdout.splitlines()]
    ranges = [(row["firstOffset"], row["lastOffset"]) for row in rows if row["code"] == "KD416"]
    start = kdump("verify", "--startup", "--output", "jsonl", directory.name, cwd=directory.parent)
    line = json.loads(start.stdout)
    assert [(one["firstOffset"], one["lastOffset"]) for one in line.get("alreadyLost", [])] == ranges
    if ranges:
        assert all(row["severity"] == "error" for row in rows if row["code"] == "KD416")
        assert (found.returncode, start.returncode) == (DAMAGE, DAMAGE)
    return ranges


def startup_text(directory: Path) -> str:
    return kdump("verify", "--startup", directory.name, cwd=directory.parent).stdout.decode()


@pytest.mark.parametrize(("name", "range_"), [("dm-15", (0, 1511)), ("dm-28", (1512, 2267))])
def test_drills_of_lost_segments(drills: Path, name: str, range_: tuple[int, int]) -> None:
    assert lost(drills / name) == [range_]
    text = startup_text(drills / name)
    assert f"already lost: offsets {range_[0]}..{range_[1]}, known from " in text
    assert "nothing more is lost" in text


@pytest.mark.parametrize("name", ["dm-21", "dm-22"])
def test_drills_of_garbage_indexes(drills: Path, name: str) -> None:
    """The log of the first goes on in the next segment, the last offset of the second is in its snapshot."""
    assert lost(drills / name) == []
    found = kdump("verify", name, cwd=drills)
    assert (found.returncode, b" lost " in found.stdout) == (CLEAN, False)
    assert b"warning KD307" in found.stdout
    assert "nothing is lost" in startup_text(drills / name)


def test_a_healthy_partition(partition: Path) -> None:
    assert lost(partition) == []


@pytest.mark.parametrize(
    ("gone", "expected"),
    [
        (["00000000000000000000.log"], [(0, 104)]),
        (["00000000000000000000.*"], [(0, 104)]),
        (["00000000000000000000.*", "00000000000000000105.*"], [(0, 200)]),
        (["00000000000000000201.log"], [(201, 296)]),
        (["00000000000000000397.log"], [(397, 447)]),
        (["00000000000000000397.*"], [(397, 447)]),
        (["*.snapshot", "leader-epoch-checkpoint", "00000000000000000397.log"], [(397, 447)]),
        (["00000000000000000297.*", "00000000000000000397.*"], [(297, 447)]),
        (["*.log"], [(0, 447)]),
    ],
)
def test_segments_that_are_gone(partition: Path, gone: list[str], expected: list[tuple[int, int]]) -> None:
    for pattern in gone:
        for path in partition.glob(pattern):
            path.unlink()
    if not list(partition.glob("*.log")):
        # A broker makes an empty log, and takes everything else away.
        found = kdump("verify", partition.name, cwd=partition.parent)
        assert (found.returncode, f"offsets {expected[0][0]}..{expected[0][1]}" in found.stdout.decode()) == (3, True)
        assert "already lost" in startup_text(partition)
        return
    (found,) = lost(partition)
    assert found[0] == expected[0][0]
    if "*.snapshot" in gone:
        # By the .index, whose last entry is not that of the last batch.
        assert 420 < found[1] <= expected[0][1]
    else:
        assert found == expected[0]


@pytest.mark.parametrize("base", [0, 201, 397])
def test_segments_that_are_emptied(partition: Path, base: int) -> None:
    (partition / f"{base:020}.log").write_bytes(b"")
    following = {0: 105, 201: 297, 397: 448}[base]
    assert lost(partition) == [(base, following - 1)]


@pytest.mark.parametrize("was_cleaned", [False, True])
def test_an_empty_last_segment_after_a_cleaned_one(tmp_path: Path, was_cleaned: bool) -> None:
    """A follower that truncates a compacted log to an offset without records leaves this, and nothing is lost."""
    partition = tmp_path / "compacted-0"
    partition.mkdir()
    batch = v2_batch([] if was_cleaned else plain_rows(3), base_offset=77, last_offset_delta=2)
    (partition / f"{0 if was_cleaned else 77:020}.log").write_bytes(batch)
    (partition / f"{80:020}.log").touch()
    (partition / f"{120:020}.snapshot").write_bytes(SNAPSHOT)
    assert lost(partition) == ([] if was_cleaned else [(80, 119)])


def test_a_log_that_was_cut(partition: Path) -> None:
    """Behind a whole batch; what is left of a torn one is lost by the start, and told by it."""
    log = partition / f"{397:020}.log"
    data = log.read_bytes()
    end = 0
    while end < 2000:
        first, length = struct.unpack_from(">qi", data, end)
        end += 12 + length
    (following,) = struct.unpack_from(">q", data, end)
    log.write_bytes(data[:end])
    assert first < following
    assert lost(partition) == [(following, 447)]


class TestWhatBrokersLeave:
    """No loss."""

    def test_retention_moves_the_first_epoch(self, partition: Path) -> None:
        for path in partition.glob(f"{0:020}.*"):
            path.unlink()
        (partition / "leader-epoch-checkpoint").write_text("0\n2\n0 105\n2 448\n")
        assert lost(partition) == []
        # Half of the renaming of a deleted segment was done.
        for name in (f"{0:020}.log.deleted", f"{0:020}.index"):
            (partition / name).write_bytes(b"")
        assert lost(partition) == []

    def test_delete_records(self, partition: Path) -> None:
        for path in partition.glob(f"{0:020}.*"):
            path.unlink()
        (partition.parent / "log-start-offset-checkpoint").write_text("0\n1\nv2-txn 0 150\n")
        assert lost(partition) == []
        (partition.parent / "log-start-offset-checkpoint").write_text("0\n1\nv2-txn 0 50\n")
        assert lost(partition) == [(50, 104)]

    def test_a_deletion_under_way(self, partition: Path) -> None:
        (partition / f"{0:020}.log").rename(partition / f"{0:020}.log.deleted")
        (partition / "leader-epoch-checkpoint").unlink()
        assert lost(partition) == []

    def test_checkpoints_older_than_the_log(self, partition: Path) -> None:
        for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
            (partition.parent / name).write_text("0\n1\nv2-txn 0 297\n")
        (partition / f"{448:020}.snapshot").unlink()
        assert lost(partition) == []

    def test_an_empty_segment_after_the_last_batch(self, partition: Path) -> None:
        for suffix, data in ((".log", b""), (".index", bytes(800)), (".timeindex", bytes(1200))):
            (partition / f"{448:020}{suffix}").write_bytes(data)
        assert lost(partition) == []

    def test_tiered_storage(self, partition: Path) -> None:
        for path in partition.glob(f"{0:020}.*"):
            path.unlink()
        assert lost(partition) == [(0, 104)]
        (partition.parent / "__remote_log_metadata-3").mkdir()
        assert lost(partition) == [(0, 104)], "no remote segment has them; see test_remotesegments.py"

    def test_a_swap_that_was_not_finished(self, partition: Path) -> None:
        (partition / f"{0:020}.log").rename(partition / f"{0:020}.log.swap")
        (partition / f"{0:020}.index").rename(partition / f"{0:020}.index.swap")
        found = kdump("verify", partition.name, cwd=partition.parent)
        assert b"KD416" not in found.stdout

    def test_a_directory_that_is_deleted(self, partition: Path) -> None:
        (partition / f"{0:020}.log").unlink()
        gone = partition.rename(partition.with_name(f"{TXN}.0123456789abcdef0123456789abcdef-delete"))
        assert b"KD416" not in kdump("verify", gone.name, cwd=gone.parent).stdout

    def test_entries_of_what_a_follower_truncated(self, partition: Path) -> None:
        """They stay in the preallocated .index of the active segment."""
        log, index = partition / f"{397:020}.log", partition / f"{397:020}.index"
        log.write_bytes(b"")
        index.write_bytes(index.read_bytes() + bytes(800))
        for path in (*partition.glob(f"{397:020}.t*index"), partition / f"{448:020}.snapshot"):
            path.unlink()
        (partition / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
        assert lost(partition) == []


def numbers(text: str) -> Callable[[Path], None]:
    def write(partition: Path) -> None:
        for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
            (partition.parent / name).write_text(f"0\n1\nv2-txn 0 {text}\n")

    return write


def garbage(name: str) -> Callable[[Path], None]:
    def write(partition: Path) -> None:
        path = partition / name
        path.write_bytes(random.Random(name).randbytes(path.stat().st_size))

    return write


def huge_entry(partition: Path) -> None:
    path = partition / f"{397:020}.timeindex"
    path.write_bytes(path.read_bytes() + struct.pack(">qi", 2**60, 2**30))


@pytest.mark.parametrize(
    "damage",
    [
        *(garbage(f"{base:020}.{kind}") for base in (201, 397) for kind in ("index", "timeindex", "txnindex")),
        lambda partition: (partition / "99999999999999.snapshot").write_bytes(SNAPSHOT),
        lambda partition: (partition / f"{10**9:020}.snapshot").write_bytes(SNAPSHOT),
        lambda partition: (partition / f"{2**62:020}.snapshot").write_bytes(b"garbage"),
        lambda partition: (partition.parent / "replication-offset-checkpoint").write_text(f"0\n1\nv2-txn 0 {10**12}\n"),
        lambda partition: (partition / "leader-epoch-checkpoint").write_text(f"0\n2\n0 0\n2 {10**15}\n"),
        huge_entry,
    ],
)
def test_garbage_invents_no_loss(partition: Path, damage: Callable[[Path], object]) -> None:
    damage(partition)
    for directory in (partition, partition.parent):
        found = kdump("verify", "--output", "jsonl", str(directory), cwd=partition.parent)
        rows = [json.loads(line) for line in found.stdout.splitlines()]
        assert not [row for row in rows if row["code"] != "KD406" and row["lastOffset"] is not None], rows
        # A .txnindex of an unknown version stops a start.
        assert not [row for row in rows if row["severity"] == "error" and row["code"] != "KD418"], rows
    assert lost(partition) == []


def evidence(*names: str, **checkpoints: int | bool) -> PartitionEvidence:
    return PartitionEvidence("t-0", names, lambda name: SNAPSHOT, KnownOffsets(**checkpoints))  # type: ignore[arg-type]


def segments(*bounds: tuple[int, int]) -> list[SegmentReach]:
    return [SegmentReach(first, first == end, lambda end=end: end) for first, end in bounds]  # type: ignore[misc]


class TestWitnesses:
    def test_each_kind(self) -> None:
        found = evidence(f"{30:020}.snapshot", recovery_point=20, high_watermark=25)
        assert found.already_lost(segments((0, 10)), None) == [
            AlreadyLost(
                10, 29, (f"{30:020}.snapshot", "replication-offset-checkpoint", "recovery-point-offset-checkpoint")
            )
        ]
        assert found.already_lost(segments((0, 25)), None)[0].witnesses == (f"{30:020}.snapshot",)
        assert found.already_lost(segments((0, 30)), None) == []

    def test_what_is_deleted_is_not_lost(self) -> None:
        assert evidence(f"{30:020}.snapshot", log_start=30).already_lost(segments((0, 10)), None) == []
        found = evidence(f"{30:020}.snapshot", log_start=20).already_lost(segments((0, 10)), None)
        assert [one[:2] for one in found] == [(20, 29)]

    def test_one_that_is_far_away_needs_a_second(self) -> None:
        far = f"{10**8:020}.snapshot"
        assert evidence(far).already_lost(segments((0, 10)), None) == []
        found = evidence(far, high_watermark=10**8 - 7).already_lost(segments((0, 10)), None)
        assert [one[:2] for one in found] == [(10, 10**8 - 1)]
        # One that is near does not bear it out.
        assert evidence(far, high_watermark=20).already_lost(segments((0, 10)), None)[0][:2] == (10, 19)

    def test_the_recovery_point_of_a_clean_stop_is_the_end(self) -> None:
        names = f"{40:020}.snapshot"
        assert evidence(names, is_clean=True, recovery_point=10).already_lost(segments((0, 10)), None) == []
        assert evidence(names, is_clean=False, recovery_point=10).already_lost(segments((0, 10)), None)

    def test_a_snapshot_that_names_later_offsets_has_a_wrong_name(self) -> None:
        entry = struct.pack(">qhiqiqiq", 1, 0, 5, 90, 0, 0, 0, -1)
        from crc32c import crc32c

        body = struct.pack(">i", 1) + entry
        data = struct.pack(">hI", 1, crc32c(body)) + body
        found = PartitionEvidence("t-0", [f"{30:020}.snapshot"], lambda name: data, KnownOffsets())
        assert list(found.ends(10)) == []
        found = PartitionEvidence("t-0", [f"{91:020}.snapshot"], lambda name: data, KnownOffsets())
        assert list(found.ends(10)) == [Witness(f"{91:020}.snapshot", 91)]


class TestSwapped:
    """Two logs whose contents were exchanged."""

    @pytest.mark.parametrize("pair", [(0, 105), (105, 297), (201, 397)])
    @pytest.mark.parametrize("with_siblings", [False, True])
    def test_it_is_said_in_one_line(self, partition: Path, pair: tuple[int, int], with_siblings: bool) -> None:
        suffixes = (".log", ".index", ".timeindex", ".txnindex") if with_siblings else (".log",)
        for suffix in suffixes:
            one, other = (partition / f"{base:020}{suffix}" for base in pair)
            kept = one.read_bytes()
            one.write_bytes(other.read_bytes())
            other.write_bytes(kept)
        run = kdump("verify", "--output", "jsonl", partition.name, cwd=partition.parent)
        rows = [json.loads(line) for line in run.stdout.splitlines()]
        (row,) = [row for row in rows if row["severity"] != "info"]
        assert (run.returncode, row["code"], row["severity"]) == (DAMAGE, "KD417", "error")
        assert row["file"].endswith(f"{pair[0]:020}.log")
        assert f"{pair[1]:020}.log are exchanged" in row["message"]
        start = kdump("verify", "--startup", partition.name, cwd=partition.parent)
        assert start.returncode == DAMAGE
        assert b"already lost" not in start.stdout
        line = f"swapped: the contents of {pair[0]:020}.log and {pair[1]:020}.log are exchanged"
        assert start.stdout.decode().count(line) == 1

    @pytest.mark.parametrize("options", [(), ("--salvage", "--in-place"), ("--like-broker", "-o", "out")])
    def test_repair_leaves_them_and_goes_on(self, partition: Path, options: tuple[str, ...]) -> None:
        """Good data are not dropped as damage; the other partitions are repaired."""
        shutil.copytree(partition, partition.parent / "whole-0")
        one, other = (partition / f"{base:020}.log" for base in (105, 297))
        kept = one.read_bytes()
        one.write_bytes(other.read_bytes())
        other.write_bytes(kept)
        before = {path.name: path.read_bytes() for path in partition.iterdir()}
        run = kdump("repair", *options, str(partition), str(partition.parent / "whole-0"), cwd=partition.parent)
        assert run.returncode == DAMAGE
        assert b"would drop" not in run.stdout
        (line,) = run.stderr.decode().splitlines()
        assert f"{one.name}: " in line
        assert f"its contents and those of {other.name} are exchanged: give each the other's name" in line
        assert b"whole-0" in run.stdout
        assert {path.name: path.read_bytes() for path in partition.iterdir()} == before
        alone = kdump("repair", *options, str(other), cwd=partition.parent)
        assert (alone.returncode, b"are exchanged" in alone.stderr) == (DAMAGE, True)

    def test_one_wrong_log_is_not_swapped(self, partition: Path) -> None:
        (partition / f"{0:020}.log").write_bytes((partition / f"{105:020}.log").read_bytes())
        assert b"KD417" not in kdump("verify", partition.name, cwd=partition.parent).stdout


@pytest.mark.slow
def test_open_transactions_say_whose_they_are_and_when_they_began(tmp_path: Path) -> None:
    unpack_archive(ROOT / "fixtures" / "captures" / "4.3.1.tar.zst", tmp_path)
    directory = tmp_path / "4.3.1"
    words = "offset 442 (2026-11-21 10:38:03.816 UTC)"
    shown = kdump("verify", TXN, cwd=directory).stdout.decode()
    assert f"the transaction of transactional id 't43-open' of producer 12 (epoch 0) is open since {words}" in shown
    start = kdump("verify", "--startup", "-v", TXN, cwd=directory).stdout.decode()
    began = "it began at 2026-11-21 10:38:03.816 UTC; transactional id 't43-open'"
    assert f"left open: the transaction of producer 12, open since offset 442; {began}" in start
    # Without the coordinator's topic nothing tells the id. A process asks the topic once: a new one.
    shutil.rmtree(directory / "__transaction_state-0")
    shown = shell(f"$KDUMP verify {TXN}", directory).stdout.decode()
    assert f"the transaction of producer 12 (epoch 0) is open since {words}" in shown


def test_what_holds_for_a_log_directory_is_said_once(partition: Path) -> None:
    logs = partition.parent
    shutil.copytree(partition, logs / "v2-txn-1")
    for directory in (partition, logs / "v2-txn-1"):
        (directory / "partition.metadata").unlink()
    shown = kdump("verify", "--startup", ".", cwd=logs).stdout.decode()
    assert shown.count("there is no partition.metadata") == 1
    assert ".: there is no partition.metadata in 2 partitions (v2-txn-0, v2-txn-1): Kafka 4 takes" in shown
    shown = kdump("verify", "--startup", "v2-txn-0", "v2-txn-1", cwd=logs).stdout.decode()
    assert shown.count("there is no partition.metadata: Kafka 4 takes the directory for a stray one") == 2
