"""From end to end: a broker serves what a repair in place left, to both kinds of consumers, and takes new records."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from kdump.mend.plan import Way
from tests.harness.captures import FIXTURES
from tests.harness.killedrepairs import DAMAGED, repair
from tests.oracle.kraft import Cluster
from tests.oracle.toolchain import ToolchainMissingError

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
    for way, lost, end in ((Way.SALVAGE, LOST, sound.ends["read_uncommitted"]), (Way.LIKE_BROKER, set(), min(LOST))):
        put(partition, damaged=True)
        assert (cluster.logs / ".kafka_cleanshutdown").exists()
        repair(partition, way)
        with cluster.broker():
            served, expected = serve(cluster), sound.without(lost, end)
            assert served.records["read_uncommitted"] == expected.records["read_uncommitted"]
            assert served.ends["read_uncommitted"] == end
            if way is Way.SALVAGE:
                assert served == expected
            else:
                # Transactions that end behind the cut are open now: readers wait at the first of them.
                stable = served.ends["read_committed"]
                assert served.records["read_committed"] == expected.without(set(), stable).records["read_committed"]
            assert cluster.client("produce", TOPIC, str(NEW)) == [str(end + number) for number in range(NEW)]
        print(f"{way.value}: {len(served.records['read_uncommitted'])} records served, new ones from offset {end} on")
