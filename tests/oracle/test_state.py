"""Groups, lag and transactions of a live broker at two times, against Kafka's own tools."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.oracle.kraft import Cluster
from tests.oracle.toolchain import DUMP_RELEASE, ToolchainMissingError, java_command

pytestmark = pytest.mark.oracle

KDUMP = (sys.executable, "-m", "kdump")
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"
OFFSETS = "org.apache.kafka.tools.GetOffsetShell"
WRITER = "org.apache.kafka.tools.ProducerPerformance"
TOPICS = "org.apache.kafka.tools.TopicCommand"


def rows(logs: Path, *words: str) -> list[dict[str, Any]]:
    command = "stats" if "--offsets-for" in words else "state"
    run = subprocess.run([*KDUMP, command, *words, "--output", "jsonl", str(logs)], capture_output=True, check=False)
    return [json.loads(line) for line in run.stdout.splitlines()]


class Tools:
    """Kafka's own, on a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._server = cluster.server

    def run(self, tool: str, *words: str) -> list[str]:
        command = [*java_command(DUMP_RELEASE, tool), "--bootstrap-server", self._server, *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr + done.stdout
        return done.stdout.splitlines()

    def write(self, topic: str, records: int, *words: str) -> None:
        """Records of 100 bytes."""
        fixed = ("--topic", topic, "--num-records", str(records), "--record-size", "100", "--throughput", "-1")
        self.run(WRITER, *fixed, *words)

    def lags(self) -> set[tuple[str, str, int, int, int, int]]:
        """Group, topic, partition, offset, log end, lag."""
        found = set()
        for line in self.run(GROUPS, "--describe", "--all-groups"):
            words = line.split()
            if len(words) > 5 and words[3].isdecimal():
                found.add((words[0], words[1], *map(int, words[2:6])))
        return found

    def transactions(self) -> set[tuple[str, int, str]]:
        """Transactional id, producer, state."""
        lines = self.run(TRANSACTIONS, "list")[1:]
        return {(words[0], int(words[2]), words[3]) for words in map(str.split, lines) if len(words) == 4}


def lags_at(logs: Path, at: str) -> set[tuple[str, str, int, int, int, int]]:
    names = ("group", "topic", "partition", "offset", "logEndOffset", "lag")
    found = [row for row in rows(logs, "--at", at) if row["type"] == "committedOffset"]
    return {tuple(row[name] for name in names) for row in found}


def test_groups_and_transactions_at_two_times(tmp_path: Path) -> None:
    try:
        cluster = Cluster(tmp_path, "transaction.state.log.num.partitions=1\n")
    except ToolchainMissingError as error:
        pytest.skip(str(error))
    with cluster.broker():
        tools = Tools(cluster)
        for topic in ("plain", "tx"):
            tools.run(TOPICS, "--create", "--topic", topic, "--partitions", "2")
        moments: list[tuple[str, Any, Any]] = []
        for records in (300, 500):
            tools.write("plain", records)
            for topic in ("plain", "tx"):
                tools.run(
                    GROUPS, "--reset-offsets", "--group", f"g-{topic}", "--topic", topic, "--to-latest", "--execute"
                )
            written_at = int(time.time() * 1000)
            tools.write("plain", records)
            tools.write("tx", records, "--transactional-id", f"id-{records}", "--transaction-duration-ms", "100")
            time.sleep(1)
            moments.append((str(int(time.time() * 1000)), tools.lags(), tools.transactions()))
            time.sleep(1)
        for at, lags, transactions in moments:
            assert lags
            assert lags_at(cluster.logs, at) == lags
            names = ("transactionalId", "producerId", "state")
            found = [row for row in rows(cluster.logs, "--at", at) if row["type"] == "transactionalId"]
            assert {tuple(row[name] for name in names) for row in found} == transactions
        _, last_lags, _ = moments[-1]
        assert lags_at(cluster.logs, "now") == last_lags
        told = {tuple(line.split(":")) for line in tools.run(OFFSETS, "--topic", "plain", "--time", str(written_at))}
        assert told
        ours = [row for row in rows(cluster.logs, "--offsets-for", str(written_at)) if row["topic"] == "plain"]
        ends = {(topic, partition): end for _, topic, partition, _, end, _ in last_lags}
        for row in ours:
            found = (row["topic"], str(row["partition"]), str(row["offset"]))
            # Without a record at or after the time Kafka's tool is silent, and a consumer starts at the end.
            assert found in told or row["offset"] == ends[row["topic"], row["partition"]]
            told.discard(found)
        assert not told
