"""Beside a broker that writes, rolls, compacts and deletes kdump finds nothing wrong, and true damage still.

Environment: ``KDUMP_LIVE_SECONDS`` (how long the broker is kept busy; default 60), ``KDUMP_LIVE_REPORT`` (a file that
gets a line a run).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from itertools import cycle
from pathlib import Path

import pytest

from tests.oracle.kraft import Cluster
from tests.oracle.toolchain import ToolchainMissingError

pytestmark = pytest.mark.oracle

SECONDS = int(os.environ.get("KDUMP_LIVE_SECONDS", "60"))
TOPICS = ("plain", "comp", "tx", "zs")
SETTINGS = """
transaction.state.log.num.partitions=2
log.retention.check.interval.ms=1000
log.initial.task.delay.ms=500
log.cleaner.backoff.ms=300
log.cleaner.min.compaction.lag.ms=0
log.flush.offset.checkpoint.interval.ms=1000
log.flush.start.offset.checkpoint.interval.ms=1000
log.segment.delete.delay.ms=1000
"""
UNREADABLE = 3
KDUMP = (sys.executable, "-m", "kdump")
PARTITION, LOG = "partition", "log"
LEAST_SEGMENTS = 3
LEAST_BYTES = 100_000
"""Of a log that is damaged: batches lie on both sides of the middle."""

Paths = Callable[[], list[str]]


class Runs:
    """What kdump said, run after run."""

    def __init__(self) -> None:
        self.statuses: Counter[tuple[str, int]] = Counter()
        self.serious: list[str] = []
        self.found: Counter[str] = Counter()
        self._report = os.environ.get("KDUMP_LIVE_REPORT")

    def run(self, name: str, words: list[str], paths: list[str]) -> list[dict[str, object]]:
        """One run; gives the errors and warnings of a verify."""
        done = subprocess.run(
            [*KDUMP, *words, "--engine", "local", *paths], capture_output=True, text=True, check=False
        )
        serious = []
        if "verify" in words and "--startup" not in words:
            lines = [json.loads(line) for line in done.stdout.splitlines()]
            self.found.update(str(line["code"]) for line in lines if line["severity"] == "info")
            serious = [line for line in lines if line["severity"] != "info"]
        self.statuses[name, done.returncode] += 1
        if self._report:
            said = f"{serious} {done.stderr[-2000:] if done.returncode else ''}" if done.returncode or serious else ""
            if done.returncode and "--startup" in words:
                said += done.stdout[-3000:]
            with open(self._report, "a", encoding="utf-8") as report:
                report.write(f"{name} {done.returncode} {said}\n")
        # A file that was named has gone since: that it is missing is true.
        is_gone = done.returncode == UNREADABLE and not serious and not all(map(os.path.exists, paths))
        if done.returncode and not is_gone:
            self.serious.append(f"{name}: {done.returncode} {serious} {done.stderr}")
        return serious

    def summary(self) -> str:
        """How many runs of each kind ended with which status."""
        runs = "".join(f"{name}: {count} with status {status}\n" for (name, status), count in self.statuses.items())
        return f"{runs}information: {dict(self.found)}\n"


def kinds(logs: Path) -> Iterator[tuple[str, list[str], Paths]]:
    """A name, words and paths of each kind of run."""

    def newest(topic: str) -> list[str]:
        return sorted(map(str, (logs / f"{topic}-0").glob("*.log")))[-2:]

    json_lines = ["verify", "--output", "jsonl", "--strict"]
    yield "log directory", json_lines, lambda: [str(logs)]
    yield "log directory, quick", [*json_lines, "--quick"], lambda: [str(logs)]
    for topic in TOPICS:
        partition = [str(logs / f"{topic}-0")]
        yield topic, json_lines, partition.copy
        yield f"{topic}, quick", [*json_lines, "--quick"], partition.copy
        yield f"{topic}, newest segments", json_lines, partial(newest, topic)
    partitions = [str(logs / f"{topic}-0") for topic in TOPICS]
    yield "startup", ["verify", "--startup", "--output", "jsonl"], partitions.copy
    yield "startup, log directory", ["verify", "--startup"], lambda: [str(logs)]
    yield "stats", ["stats", "--quick"], lambda: [str(logs)]
    yield "dump, all files", ["dump", "--all-files"], partitions.copy


def middle_of_a_batch(log: Path) -> int:
    """A position in the records of a batch, somewhere in the middle of a log."""
    data, at = log.read_bytes(), 0
    while at < len(data) // 2:
        at += 12 + int.from_bytes(data[at + 8 : at + 12], "big")
    return at + 70


def damage(log: Path) -> int:
    """Flip a byte in the middle of a log; gives its position."""
    at = middle_of_a_batch(log)
    with log.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0] ^ 0x42
        file.seek(at)
        file.write(bytes([byte]))
    return at


def beside(home: Path) -> tuple[Cluster, ExitStack]:
    try:
        cluster = Cluster(home, SETTINGS)
    except ToolchainMissingError as error:
        pytest.skip(str(error))
    opened = ExitStack()
    opened.enter_context(cluster.broker())
    return cluster, opened


def test_nothing_is_wrong_beside_a_broker(tmp_path: Path) -> None:
    cluster, opened = beside(tmp_path)
    runs = Runs()
    with opened:
        load = opened.enter_context(cluster.load(SECONDS))
        for name, words, paths in cycle(kinds(cluster.logs)):
            if load.poll() is not None:
                break
            runs.run(name, words, paths())
        assert load.stdout
        print(load.stdout.read())
    print(runs.summary())
    assert not runs.serious
    assert load.returncode == 0


@pytest.mark.parametrize("which", [-1, -2], ids=["written to", "before it"])
@pytest.mark.parametrize("path_of", [PARTITION, LOG], ids=["partition", "segment"])
def test_damage_is_found_beside_a_broker(tmp_path: Path, which: int, path_of: str) -> None:
    """Each time, until retention deletes the segment."""
    cluster, opened = beside(tmp_path)
    runs = Runs()
    found_count = 0
    with opened:
        opened.enter_context(cluster.load(SECONDS))
        partition = cluster.logs / "plain-0"
        while len(logs := sorted(partition.glob("*.log"))) < LEAST_SEGMENTS or logs[which].stat().st_size < LEAST_BYTES:
            time.sleep(0.05)
        log, at = logs[which], damage(logs[which])
        path = partition if path_of == PARTITION else log
        while True:
            found = runs.run("damaged", ["verify", "--output", "jsonl"], [str(path)])
            if not log.exists():
                break
            assert any(one["code"] == "KD108" and one["file"] == str(log) for one in found), (log, at, found)
            found_count += 1
    assert found_count
