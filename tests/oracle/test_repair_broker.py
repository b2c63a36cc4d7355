"""From end to end: a broker serves what a repair in place left, to both kinds of consumers, and takes new records."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from kdump.log.names import BOOTSTRAP_CHECKPOINT
from kdump.releases import KAFKA_4_3
from kdump.repair.apply.manifest import HOME
from kdump.repair.begun import undo_repair
from kdump.repair.plan.plan import RepairMode
from tests.harness.batches import entries
from tests.harness.captures import FIXTURES
from tests.harness.cli_runs import CLEAN, kdump
from tests.harness.killedrepairs import DAMAGED, MARKER, manifests, repair
from tests.oracle.kraft import Cluster
from tests.oracle.toolchain import MODELLED, ToolchainMissingError

pytestmark = pytest.mark.oracle

TOPIC = "v2-txn"
ISOLATIONS = ("read_uncommitted", "read_committed")
LOST = {146, *range(346, 352)}
"""Offsets of the batches that are damaged."""
NEW = 3


@dataclass(frozen=True, slots=True)
class Served:
    """By isolation level: the records with their checksums, and where a consumer ends."""

    records: dict[str, dict[int, str]]
    ends: dict[str, int]

    def without(self, lost: set[int], end: int) -> Served:
        """What is left of it when offsets are lost and the log ends before ``end``."""
        records = {
            isolation: {offset: crc for offset, crc in found.items() if offset not in lost and offset < end}
            for isolation, found in self.records.items()
        }
        return Served(records, {isolation: min(known, end) for isolation, known in self.ends.items()})


def serve(cluster: Cluster) -> Served:
    records, ends = {}, {}
    for isolation in ISOLATIONS:
        *lines, last = cluster.client("consume", TOPIC, isolation)
        records[isolation] = {int(offset): crc for offset, crc in (line.split() for line in lines)}
        ends[isolation] = int(last.split()[1])
    return Served(records, ends)


def put(partition: Path, *, damaged: bool) -> None:
    """Give the partition the files of the fixture; the broker's own topic id stays."""
    for path in partition.iterdir():
        if path.name != "partition.metadata":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    for path in (FIXTURES / "segments" / "v2-txn-0").iterdir():
        if path.name != "partition.metadata":
            shutil.copy(path, partition)
    for base_offset in DAMAGED if damaged else ():
        log = partition / f"{base_offset:020}.log"
        data = bytearray(log.read_bytes())
        data[5000] ^= 0x42
        log.write_bytes(data)


def test_repaired_partitions(tmp_path: Path) -> None:
    try:
        cluster = Cluster(tmp_path)
    except ToolchainMissingError as error:
        pytest.skip(str(error))
    with cluster.broker():
        cluster.client("create", TOPIC)
    partition = cluster.logs / f"{TOPIC}-0"
    put(partition, damaged=False)
    with cluster.broker():
        sound = serve(cluster)
    for way, lost, end in (
        (RepairMode.SALVAGE, LOST, sound.ends["read_uncommitted"]),
        (RepairMode.LIKE_BROKER, set(), min(LOST)),
    ):
        put(partition, damaged=True)
        assert (cluster.logs / MARKER).exists()
        repair(partition, way)
        assert (cluster.logs / MARKER).exists()
        with cluster.broker():
            served, expected = serve(cluster), sound.without(lost, end)
            assert served.records["read_uncommitted"] == expected.records["read_uncommitted"]
            assert served.ends["read_uncommitted"] == end
            if way is RepairMode.SALVAGE:
                assert served == expected
            else:
                # Transactions that end after the cut are open now: readers wait at the first of them.
                stable = served.ends["read_committed"]
                assert served.records["read_committed"] == expected.without(set(), stable).records["read_committed"]
            assert cluster.client("produce", TOPIC, str(NEW)) == [str(end + number) for number in range(NEW)]
        print(f"{way.value}: {len(served.records['read_uncommitted'])} records served, new ones from offset {end} on")


def test_other_partitions_and_undo(tmp_path: Path) -> None:
    """Three partitions after a clean stop, two of them damaged: one is repaired, the others are served as before.

    Recovery would cut one of them, and stop the broker at the other. Afterwards the repair is undone.
    """
    try:
        cluster = Cluster(tmp_path)
    except ToolchainMissingError as error:
        pytest.skip(str(error))
    topics = ("v2-txn", "cut", "stops")
    with cluster.broker():
        for topic in topics:
            cluster.client("create", topic)
    partition, cut, stops = (cluster.logs / f"{topic}-0" for topic in topics)
    for one in (partition, cut, stops):
        put(one, damaged=one is not stops)
    log = max(stops.glob("*.log"))
    data = log.read_bytes()
    # The base offset of the first batch, which no checksum covers: it does not fit the segment any more.
    log.write_bytes((3).to_bytes(8, "big") + data[8:])
    logs = {path: path.read_bytes() for one in (cut, stops) for path in one.glob("*.log")}
    before = {path.name: path.read_bytes() for path in partition.iterdir() if path.is_file()}
    repair(partition, RepairMode.SALVAGE)
    with cluster.broker():
        assert not set(serve(cluster).records["read_uncommitted"]) & LOST
    # Not even the damage is gone: neither was recovered.
    assert {path: path.read_bytes() for path in logs} == logs
    assert (cluster.logs / MARKER).exists()
    (manifest,) = manifests(partition)
    _, undone = undo_repair(str(manifest))
    assert undone.marker is None
    named = {difference.name for difference in undone.differences} | set(undone.kept)
    after = {path.name: path.read_bytes() for path in partition.iterdir() if path.is_file()}
    changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    assert changed <= named
    assert not [name for name in changed if name.endswith((".log", "index"))]
    assert (cluster.logs / MARKER).exists()


def test_nothing_in_a_log_directory_stops_its_broker(tmp_path: Path) -> None:
    """After a repair of a log directory of KRaft, and after what earlier versions did to its root was undone."""
    try:
        cluster = Cluster(tmp_path)
    except ToolchainMissingError as error:
        pytest.skip(str(error))
    with cluster.broker():
        cluster.client("create", TOPIC)
    partition = cluster.logs / f"{TOPIC}-0"
    assert (cluster.logs / BOOTSTRAP_CHECKPOINT).exists() == (MODELLED is KAFKA_4_3)
    good = tmp_path / "good"
    shutil.copytree(FIXTURES / "segments" / "v2-txn-0", good / partition.name)
    put(partition, damaged=True)
    (good / partition.name / "partition.metadata").unlink()
    shutil.copy(good / partition.name / f"{105:020}.index", cluster.logs)
    words = ("repair", "--salvage", "--in-place", "--from", str(good), str(cluster.logs))
    assert kdump(*words, cwd=tmp_path).returncode == CLEAN
    assert not (cluster.logs / HOME).exists()
    with cluster.broker():
        assert serve(cluster).ends["read_uncommitted"] == 448
    # What an earlier version left: the root repaired as if it were a partition.
    taken = tmp_path / "taken"
    taken.mkdir()
    put(taken, damaged=True)
    repair(taken, RepairMode.SALVAGE)
    (manifest,) = manifests(taken)
    shutil.copytree(taken, cluster.logs, dirs_exist_ok=True)
    with pytest.raises(AssertionError), cluster.broker():
        pass
    assert any(HOME in line for line in cluster.said)
    undo_repair(str(cluster.logs / manifest.relative_to(taken)))
    assert not (cluster.logs / HOME).exists()
    with cluster.broker():
        assert serve(cluster).ends["read_uncommitted"] == 448


def test_a_corrected_metadata_log(tmp_path: Path) -> None:
    """The only controller of a cluster does not start with one flipped bit in its metadata log, and does after it.

    Its image is that of the original: the topics are there, and the records of a partition are served.
    """
    try:
        cluster = Cluster(tmp_path)
    except ToolchainMissingError as error:
        pytest.skip(str(error))
    with cluster.broker():
        cluster.client("create", TOPIC)
        cluster.client("create", "other")
        cluster.client("produce", TOPIC, "3")
    (log,) = (cluster.logs / "__cluster_metadata-0").glob("*.log")
    sound = log.read_bytes()
    batches = entries(sound)
    position = sum(map(len, batches[: len(batches) // 2]))
    damaged = bytearray(sound)
    damaged[position + 70] ^= 8
    log.write_bytes(damaged)
    words = ("repair", "--correct", "--in-place", str(log.parent))
    assert kdump(*words, cwd=tmp_path).returncode == CLEAN
    assert log.read_bytes() == sound
    with cluster.broker():
        assert serve(cluster).ends["read_uncommitted"] == 3
        assert cluster.client("produce", "other", "1") == ["0"]
    assert log.read_bytes()[: len(sound)] == sound
