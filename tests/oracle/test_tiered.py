"""A real broker with Kafka's LocalTieredStorage: its bucket is read, judged and listed as it has it."""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.harness.cli_runs import CLEAN, kdump
from tests.oracle.kraft import Cluster
from tests.oracle.toolchain import TIERED_RELEASE, ToolchainMissingError, held_storage

pytestmark = pytest.mark.oracle

SETTINGS = """
remote.log.storage.system.enable=true
remote.log.storage.manager.class.name=HeldStorage
remote.log.storage.manager.class.path={path}
remote.log.metadata.manager.listener.name=PLAINTEXT
remote.log.manager.task.interval.ms=500
rsm.config.dir={bucket}
rsm.config.delete.on.close=false
rlmm.config.remote.log.metadata.topic.num.partitions=3
rlmm.config.remote.log.metadata.topic.replication.factor=1
log.retention.check.interval.ms=500
log.initial.task.delay.ms=500
log.segment.delete.delay.ms=100
log.flush.offset.checkpoint.interval.ms=1000
log.flush.start.offset.checkpoint.interval.ms=1000
"""
NOTHING_ELSE = """
log.initial.task.delay.ms=86400000
log.retention.check.interval.ms=86400000
"""
"""A start that is not followed by deletions."""
CONFIGS = (
    "remote.storage.enable=true,internal.segment.bytes=8000,index.interval.bytes=500,segment.index.bytes=100000,"
    "local.retention.bytes=12000"
)
TOPICS = ("kept", "other")
RECORDS = 600
WAIT_SECONDS = 120
OFFSETS = "org.apache.kafka.tools.GetOffsetShell"


def plain(value: Any) -> bytes:
    return base64.b64decode(value["base64"]) if isinstance(value, dict) else (value or "").encode()


def wait_for(what: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT_SECONDS
    while not what():
        assert time.monotonic() < end
        time.sleep(0.2)


def read(cluster: Cluster, topic: str) -> dict[int, int]:
    """CRC-32 of key and value by offset, as a real consumer gets them."""
    lines = cluster.client("consume", topic, "read_uncommitted")
    return {int(offset): int(crc) for offset, crc in (line.split() for line in lines if not line.startswith("end"))}


def dumped(*words: str, cwd: Path) -> dict[int, int]:
    done = kdump("dump", "--output", "jsonl", "--print-data-log", *words, cwd=cwd)
    assert done.returncode == CLEAN, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return {row["offset"]: zlib.crc32(plain(row["value"]), zlib.crc32(plain(row["key"]))) for row in rows}


def rows(command: str, *words: str, cwd: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in kdump(command, "--output", "jsonl", *words, cwd=cwd).stdout.splitlines()]


class Tier(NamedTuple):
    """A broker that has stopped, and what a consumer read before of each topic; ``held``: it was killed in copies."""

    cluster: Cluster
    bucket: Path
    served: dict[str, dict[int, int]]
    is_held: bool


@pytest.fixture(params=[False, True], ids=["clean", "killed"])
def tier(tmp_path: Path, request: pytest.FixtureRequest) -> Tier:
    bucket, is_held = tmp_path / "bucket", bool(request.param)
    try:
        settings = SETTINGS.format(path=held_storage(), bucket=bucket)
        cluster = Cluster(tmp_path, settings, release=TIERED_RELEASE)
    except ToolchainMissingError as error:
        pytest.skip(str(error))

    def is_copied() -> bool:
        """All but the active segments, as the broker says."""
        shown = cluster.tool(OFFSETS, ["--topic-partitions", ",".join(TOPICS), "--time", "latest-tiered"])
        ends = {line.split(":")[0]: int(line.split(":")[2]) for line in shown.splitlines()}
        actives = {topic: max((cluster.logs / f"{topic}-0").glob("*.log")) for topic in TOPICS}
        return all(ends[topic] + 1 == int(actives[topic].stem) for topic in TOPICS)

    def is_shorter() -> bool:
        return not any((cluster.logs / f"{topic}-0/{0:020d}.log").exists() for topic in TOPICS)

    def segments() -> list[int]:
        return [len(list(bucket.rglob(f"{topic}-0-*/*.log"))) for topic in TOPICS]

    with cluster.broker(is_killed=is_held):
        cluster.client("create", CONFIGS, *TOPICS, program="TopicsClient")
        cluster.client("produce", str(RECORDS), *TOPICS, program="TopicsClient")
        wait_for(is_copied)
        wait_for(is_shorter)
        if is_held:
            before = segments()
            (tmp_path / "bucket.hold").touch()
            cluster.client("produce", str(RECORDS), *TOPICS, program="TopicsClient")
            wait_for(lambda: all(now > then for now, then in zip(segments(), before, strict=True)))
        served = {topic: read(cluster, topic) for topic in TOPICS}
    (tmp_path / "bucket.hold").unlink(missing_ok=True)
    return Tier(cluster, bucket, served, is_held)


def test_a_bucket_is_read_and_judged(tier: Tier, tmp_path: Path) -> None:
    bucket, logs = tier.bucket, tier.cluster.logs
    listed = [row for row in rows("state", str(logs), cwd=tmp_path) if row["type"] == "remoteSegment"]
    objects = {path.stem[21:]: path for path in bucket.rglob("*.log")}
    assert {row["segmentId"] for row in listed} == objects.keys()
    begun = {row["segmentId"]: row["topic"] for row in listed if row["state"] != "COPY_SEGMENT_FINISHED"}
    assert sorted(begun.values()) == (sorted(TOPICS) if tier.is_held else [])
    for row in listed:
        path = objects[row["segmentId"]]
        assert (row["size"], row["startOffset"]) == (path.stat().st_size, int(path.stem[:20]))
        assert max(dumped(str(path), cwd=tmp_path)) == row["endOffset"]
    found = rows("verify", "--tier", str(bucket), str(logs), cwd=tmp_path)
    serious = [(one["code"], one.get("segmentId")) for one in found if one["severity"] != "info"]
    assert sorted(serious) == sorted(("KD455", one) for one in begun)
    assert "KD464" in {one["code"] for one in found}
    for topic, expected in tier.served.items():
        assert len(expected) == RECORDS * (1 + tier.is_held)
        assert dumped("--tier", str(bucket), str(logs / f"{topic}-0"), cwd=tmp_path) == expected
        (folder,) = bucket.rglob(f"{topic}-0-*")
        remote = dumped(str(folder), cwd=tmp_path)
        assert remote == {offset: crc for offset, crc in expected.items() if offset <= max(remote)}


def test_a_start_beside_remote_storage(tier: Tier, tmp_path: Path) -> None:
    """What the next start does to logs, indexes and snapshots. How the topic makes indexes is in the metadata."""
    cluster = tier.cluster
    shutil.copytree(cluster.logs, tmp_path / "before")
    with (tmp_path / "server.properties").open("a") as properties:
        properties.write(NOTHING_ELSE)
    now = int(time.time() * 1000)
    with cluster.broker(is_killed=True):
        pass
    words = ("--startup", "--now", str(now), "--broker-version", "4.3")
    for topic in TOPICS:
        (told,) = rows("verify", *words, str(tmp_path / "before" / f"{topic}-0"), cwd=tmp_path)
        files = {file["name"]: file for file in told["files"] if file["name"].startswith("0")}
        expected = {name: (file["size"], file["sha256"]) for name, file in files.items() if file["action"] != "deleted"}
        real = {file.name: digest(file.read_bytes()) for file in (cluster.logs / f"{topic}-0").glob("0*")}
        assert real == expected


def digest(data: bytes) -> tuple[int, str]:
    return len(data), hashlib.sha256(data).hexdigest()
