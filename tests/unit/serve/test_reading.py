"""What clients get, compared with what a real broker of Kafka 4.3.1 gave a real consumer of the same files."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kdump
from kdump.inputs import inputs_of, paths_with_tier
from kdump.log.tiers import Tier
from kdump.serve.run import ServeOptions, Service
from tests.harness.archives import unpack_cases
from tests.harness.kafkaclient import KafkaClient, ReadRecord, consume
from tests.harness.tiers import LOGS, ZSTD

PARTITIONS = [
    "k08-v0-0", "k010-v1-0", "k010-v1-compact-0", "k11-compact-txn-0", "k28-v2-zstd-0", "k39-delrec-0", "k39-txn-0",
    "k39-v2-multi-0", "k43-txn-0", "made-open-txn-0", "flip-txn-0", "flip-v1-0", "flip-v2-0",
]  # fmt: skip
CUT = ["dmg-flip-crc-0", "dmg-v1-gzip-0"]
"""Partitions that the broker had cut at the damage before it answered."""
SPECIAL = {"latest": -1, "earliest": -2, "max_timestamp": -3, "earliest_local": -4, "latest_tiered": -5}


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack_cases("serve", tmp_path_factory.mktemp("serve"))


@pytest.fixture(scope="module")
def client(answers: Path) -> Iterator[KafkaClient]:
    with kdump.serving(answers / "partitions") as address, KafkaClient(address) as client:
        yield client


@pytest.fixture(scope="module")
def expected(answers: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((answers / "answers" / "answers.json").read_text())["partitions"]
    return found


def topic_of(name: str) -> str:
    return name.rpartition("-")[0]


def offset(client: KafkaClient, name: str, timestamp: int, *, committed: bool = False, version: int = 11) -> Any:
    topic = {"name": topic_of(name), "partitions": [{"partitionIndex": 0, "timestamp": timestamp}]}
    answer = client.ask("ListOffsets", version, replicaId=-1, isolationLevel=int(committed), topics=[topic])
    found = answer["topics"][0]["partitions"][0]
    assert found["errorCode"] == 0
    return found


def shown(record: ReadRecord) -> dict[str, Any]:
    def digest(data: bytes | None) -> str | None:
        return None if data is None else hashlib.sha256(data).hexdigest()[:32]

    headers = [[key.decode(), digest(value)] for key, value in record.headers]
    sizes = {"key_size": len(record.key or b"") if record.key is not None else -1}
    return {
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": digest(record.key),
        "value": digest(record.value),
        "headers": headers,
        **sizes,
    }


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
@pytest.mark.parametrize("name", PARTITIONS)
def test_records(client: KafkaClient, answers: Path, expected: dict[str, Any], name: str, isolation: str) -> None:
    text = (answers / "answers" / f"{name}.{isolation}.jsonl").read_text()
    wanted = [json.loads(line) for line in text.splitlines()]
    bounds = expected[name]["bounds"]
    committed = isolation == "read_committed"
    end = bounds["last_stable" if committed else "end"]
    # Some of the others have batches with zstd.
    for version in (4 if name.startswith("k0") else 10, 17):
        found = consume(client, topic_of(name), 0, bounds["beginning"], end, committed=committed, version=version)
        assert [{**row, **shown(record)} for row, record in zip(wanted, found, strict=True)] == wanted
    for start, tail in expected[name].get(f"{isolation}_from", {}).items():
        part = consume(client, topic_of(name), 0, int(start), end, committed=committed)
        assert len(part) == tail["records"]
        assert [record.offset for record in part] == [r["offset"] for r in wanted if r["offset"] >= int(start)]


@pytest.mark.parametrize("name", PARTITIONS)
def test_bounds_and_times(client: KafkaClient, expected: dict[str, Any], name: str) -> None:
    wanted = expected[name]["admin_offsets"]
    for word, special in SPECIAL.items():
        found = offset(client, name, special)
        assert (found["offset"] if word != "max_timestamp" else [found["offset"], found["timestamp"]]) == wanted[word]
    assert offset(client, name, -1, committed=True)["offset"] == wanted["last_stable"]
    for time, answer in expected[name]["offsets_for_times"].items():
        found = offset(client, name, int(time))
        epoch = None if found["leaderEpoch"] < 0 else found["leaderEpoch"]
        assert (None if found["offset"] < 0 else [found["offset"], found["timestamp"], epoch]) == answer


@pytest.mark.parametrize("name", CUT)
def test_what_a_broker_would_have_cut(client: KafkaClient, answers: Path, expected: dict[str, Any], name: str) -> None:
    """All that the broker gave after its cut is there, and more: what follows the damage."""
    text = (answers / "answers" / f"{name}.read_uncommitted.jsonl").read_text()
    wanted = [json.loads(line)["offset"] for line in text.splitlines()]
    end = offset(client, name, -1)["offset"]
    found = [record.offset for record in consume(client, topic_of(name), 0, 0, end, committed=False)]
    assert end > expected[name]["bounds"]["end"]
    assert found[: len(wanted)] == wanted
    assert len(found) > len(wanted)


def fetch(client: KafkaClient, version: int, topic: str, **partition: Any) -> dict[str, Any]:
    values = {"partition": 0, "fetchOffset": 0, "partitionMaxBytes": 1 << 20} | partition
    topics = [{"topic": topic, "partitions": [values]}]
    answer = client.ask("Fetch", version, maxWaitMs=0, maxBytes=1 << 20, topics=topics)
    found: dict[str, Any] = answer["responses"][0]["partitions"][0]
    return found


def test_errors_of_a_fetch(client: KafkaClient) -> None:
    assert fetch(client, 12, "k39-txn", fetchOffset=517)["errorCode"] == 1
    assert fetch(client, 12, "k39-delrec", fetchOffset=41)["errorCode"] == 1
    assert fetch(client, 12, "k39-txn", fetchOffset=516)["records"] == b""
    assert fetch(client, 12, "nosuch")["errorCode"] == 3
    assert fetch(client, 12, "k39-txn", partition=1)["errorCode"] == 3
    assert fetch(client, 12, "k43-txn", currentLeaderEpoch=1)["errorCode"] == 74
    assert fetch(client, 12, "k43-txn", currentLeaderEpoch=3)["errorCode"] == 75
    assert fetch(client, 12, "k43-txn", currentLeaderEpoch=2)["errorCode"] == 0
    assert fetch(client, 9, "k28-v2-zstd")["errorCode"] == 76
    assert fetch(client, 10, "k28-v2-zstd")["errorCode"] == 0
    assert client.ask("Fetch", 12, sessionId=7, sessionEpoch=1)["errorCode"] == 70
    diverging = fetch(client, 12, "k43-txn", fetchOffset=448, lastFetchedEpoch=1)
    assert diverging["divergingEpoch"] == {"epoch": 0, "endOffset": 448}


def test_a_small_fetch_gets_one_batch_of_the_first_partition_only(client: KafkaClient) -> None:
    parts = [{"partition": 0, "fetchOffset": 0, "partitionMaxBytes": 1}]
    topics = [{"topic": topic, "partitions": parts} for topic in ("k43-txn", "k39-txn")]
    found = client.ask("Fetch", 12, maxWaitMs=0, maxBytes=1, topics=topics)["responses"]
    sizes = [len(topic["partitions"][0]["records"]) for topic in found]
    assert sizes[0] > 60
    assert sizes[1] == 0


def test_leader_epochs(client: KafkaClient) -> None:
    def end(topic: str, epoch: int) -> tuple[int, int]:
        asked = {"topic": topic, "partitions": [{"partition": 0, "leaderEpoch": epoch}]}
        found = client.ask("OffsetForLeaderEpoch", 4, topics=[asked])["topics"][0]["partitions"][0]
        return found["leaderEpoch"], found["endOffset"]

    assert end("k43-txn", 2) == (2, 448)
    assert end("k43-txn", 0) == (0, 448)
    assert end("k43-txn", 3) == (-1, -1)
    # Without a checkpoint the log counts as one of any epoch.
    assert end("dmg-flip-crc", 5)[0] == 5


def test_offsets_of_a_tiered_partition() -> None:
    """As the real broker of the set answered, once it had looked at remote storage."""
    inputs = inputs_of(paths_with_tier([str(LOGS)], Tier(str(ZSTD))), lambda error: None)
    service = Service(inputs, ServeOptions(), lambda error: None, lambda line: None)
    threading.Thread(target=service.run, daemon=True).start()
    with KafkaClient(service.address) as client:
        for name, wanted in (("mixed-0", (677, 1318, 1770, 1771)), ("txn-0", (0, 411, 410, 411))):
            found = tuple(offset(client, name, timestamp)["offset"] for timestamp in (-2, -4, -5, -6))
            assert found == wanted
    service.close()
