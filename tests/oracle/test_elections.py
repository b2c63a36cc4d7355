"""Whom a real cluster elects when its nodes start, and what that costs, against what ``kdump diff`` said before."""

from __future__ import annotations

import json
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.harness.cli_runs import kdump
from tests.oracle.kraft import Cluster

pytestmark = pytest.mark.oracle

_SETTINGS = """
broker.session.timeout.ms=3000
broker.heartbeat.interval.ms=500
"""
_DEADLINE = 120
_KEPT, _ONLY_OLD, _ONLY_NEW = 100, 400, 50


class Orders:
    """A topic with replicas on brokers 2 and 3; broker 1 is the controller."""

    def __init__(self, home: Path) -> None:
        self.cluster = Cluster(home, _SETTINGS, brokers=3)
        self.directories = [self.cluster.nodes[number - 1].logs for number in (2, 3)]

    def create(self) -> None:
        words = ("--create", "--topic", "orders", "--replica-assignment", "2:3")
        self.cluster.tool("org.apache.kafka.tools.TopicCommand", words)

    def produce(self, text: str, count: int) -> None:
        """All of them are acknowledged by all in-sync replicas."""
        lines = "".join(f"{text} {number}\n" for number in range(count))
        words = ("--topic", "orders", "--command-property", "acks=all")
        self.cluster.tool("org.apache.kafka.tools.ConsoleProducer", words, lines.encode())

    def elect_unclean(self) -> None:
        """What ``diff`` names."""
        words = ("--election-type", "UNCLEAN", "--topic", "orders", "--partition", "0")
        self.cluster.tool("org.apache.kafka.tools.LeaderElectionCommand", words)

    def wait_for(self, leader: str, isr: str | None = None) -> None:
        """Until the cluster tells this leader, and these in-sync replicas."""
        end = time.monotonic() + _DEADLINE
        told = ""
        while time.monotonic() < end:
            told = self.cluster.tool("org.apache.kafka.tools.TopicCommand", ("--describe", "--topic", "orders"))
            if f"Leader: {leader}\t" in told and (isr is None or f"Isr: {isr}\t" in told):
                return
            time.sleep(0.5)
        raise AssertionError(told)

    def values(self, count: int) -> list[str]:
        """The values of the first records."""
        words = ("--topic", "orders", "--from-beginning", "--max-messages", str(count))
        return self.cluster.tool("org.apache.kafka.tools.consumer.ConsoleConsumer", words).splitlines()

    def recommendation(self) -> dict[str, Any]:
        """What ``diff`` says of the two log directories."""
        words = ("--topic", "orders", "--output", "jsonl", *map(str, self.directories))
        run = kdump("diff", *words, cwd=self.cluster.logs)
        rows = [json.loads(line) for line in run.stdout.splitlines()]
        (found,) = (row for row in rows if row["type"] == "recommendation")
        return dict(found)

    def part(self) -> None:
        """Broker 2 takes records that broker 3 never gets; then broker 3 leads and takes others."""
        first, old, new = self.cluster.nodes
        with first.run():
            with old.run(is_killed=True):
                with new.run():
                    self.create()
                    self.produce("kept", _KEPT)
                    self.wait_for("2", "2,3")
                self.wait_for("2", "2")
                self.produce("old", _ONLY_OLD)
            with new.run(is_killed=True):
                self.wait_for("none")
                self.elect_unclean()
                self.wait_for("3", "3")
                self.produce("new", _ONLY_NEW)


def test_the_cluster_elects_what_diff_says(tmp_path: Path) -> None:
    orders = Orders(tmp_path)
    orders.part()
    said = orders.recommendation()
    assert (said["copy"], said["recordsNowhereElse"]) == (str(orders.directories[0]), _ONLY_NEW)
    assert (said["expectedLeader"], said["expectedRecordsNowhereElse"]) == (3, _ONLY_OLD)
    with ExitStack() as running:
        for node in orders.cluster.nodes:
            running.enter_context(node.run())
        orders.wait_for("3", "2,3")
        values = orders.values(_KEPT + _ONLY_NEW)
    assert [sum(value.startswith(text) for value in values) for text in ("kept", "old", "new")] == [
        _KEPT,
        0,
        _ONLY_NEW,
    ]


def test_the_steps_let_the_other_copy_lead(tmp_path: Path) -> None:
    orders = Orders(tmp_path)
    orders.part()
    assert "start node 2 and the controllers without the other replicas" in orders.recommendation()["message"]
    first, old, new = orders.cluster.nodes
    with first.run(), old.run():
        orders.wait_for("none")
        orders.elect_unclean()
        orders.wait_for("2", "2")
        with new.run():
            orders.wait_for("2", "2,3")
            values = orders.values(_KEPT + _ONLY_OLD)
    assert [sum(value.startswith(text) for value in values) for text in ("kept", "old", "new")] == [
        _KEPT,
        _ONLY_OLD,
        0,
    ]
