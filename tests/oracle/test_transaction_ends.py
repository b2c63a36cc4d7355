"""Open transactions and committed offsets: what a real broker makes of them, and what a restored cluster serves."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import stat
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from crc32c import crc32c

from kdump.releases import KAFKA_4_3
from tests.harness import ROOT
from tests.harness.archives import unpack_cases
from tests.harness.cli_runs import KDUMP, kdump
from tests.oracle.kraft import Cluster
from tests.oracle.toolchain import DUMP_RELEASE, MODELLED, ToolchainMissingError, java_command

pytestmark = pytest.mark.oracle

GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
TOPICS = "org.apache.kafka.tools.TopicCommand"
TOOLS = {
    "kafka-topics.sh": TOPICS,
    "kafka-consumer-groups.sh": GROUPS,
    "kafka-configs.sh": "kafka.admin.ConfigCommand"
    if MODELLED is KAFKA_4_3
    else "org.apache.kafka.tools.ConfigCommand",
}
WRITER = "org.apache.kafka.tools.ProducerPerformance"
STATE = f"__transaction_state-0/{0:020}.log"
PARTITIONS = {"orders-0": (21416, 21435), "orders-1": (21424, 21443)}
"""The offsets of the transaction that is open."""
STATUS = {"Ongoing": 1, "PrepareCommit": 2, "PrepareAbort": 3, "CompleteCommit": 4, "CompleteAbort": 5}
WAIT_SECONDS = 120


def cluster_in(root: Path) -> Cluster:
    try:
        return Cluster(root)
    except ToolchainMissingError as error:
        pytest.skip(str(error))


def set_state(log: Path, state: str) -> None:
    """Change the newest value of the coordinator's log; complete ones name no partitions, which is left out here."""
    data = bytearray(log.read_bytes())
    position = last = 0
    while position < len(data):
        last = position
        position += 12 + struct.unpack_from(">i", data, position + 8)[0]
    # The value of tx-orders: version 1, producer id 2, epoch 1, timeout 60,000, status.
    start = data.index(struct.pack(">hqhi", 1, 2, 1, 60_000), last) + 16
    data[start] = STATUS[state]
    struct.pack_into(">I", data, last + 17, crc32c(bytes(data[last + 21 :])))
    log.write_bytes(data)


def markers(directory: Path, after: int) -> list[tuple[int, str]]:
    """Offset and type of the control records from an offset on."""
    done = kdump("dump", "--output", "jsonl", "--records", "--offset", f"{after}:", ".", cwd=directory)
    rows = map(json.loads, filter(None, done.stdout.decode().split("\n")))
    return [(row["offset"], row["controlType"]) for row in rows if row["isControl"]]


def plans(directory: Path, cwd: Path) -> dict[str, str]:
    """What the plan of a restore says of the open transactions, by partition."""
    done = kdump("restore", "--output", "jsonl", str(directory), cwd=cwd)
    rows = map(json.loads, filter(None, done.stdout.decode().split("\n")))
    return {
        f"{row['topic']}-{row['partition']}": row["message"] for row in rows if row.get("kind") == "open-transaction"
    }


def are_ended(logs: Path) -> bool:
    """All partitions have a marker of the transaction."""
    return all(markers(logs / name, last) for name, (_, last) in PARTITIONS.items())


@pytest.mark.parametrize(
    ("state", "marker"), [("PrepareCommit", "COMMIT"), ("PrepareAbort", "ABORT"), ("Ongoing", "ABORT")]
)
def test_a_broker_writes_what_kdump_says(tmp_path: Path, state: str, marker: str) -> None:
    """The broker starts on the log directory of one that was killed before it wrote the markers."""
    cluster = cluster_in(tmp_path)
    shutil.rmtree(cluster.logs)
    unpack_cases("prepared-commit", tmp_path).rename(cluster.logs)
    set_state(cluster.logs / STATE, state)
    said = plans(cluster.logs, tmp_path)
    assert {name for name, text in said.items() if f"a marker {marker} is added" in text} == set(PARTITIONS)
    # A start may try for ever the address of the dead broker, which the metadata names. The next one finds its own.
    for _ in range(2):
        end = time.monotonic() + WAIT_SECONDS
        with cluster.broker():
            while not are_ended(cluster.logs) and time.monotonic() < end:
                time.sleep(0.5)
        if are_ended(cluster.logs):
            break
    for name, (_, last) in PARTITIONS.items():
        assert markers(cluster.logs / name, last) == [(last + 1, marker)]


def tools_in(home: Path) -> str:
    """A directory for the PATH with Kafka's tools and kdump."""
    place = home / "bin"
    place.mkdir()
    for name, program in TOOLS.items():
        (place / name).write_text(f'#!/bin/sh\nexec {shlex.join(java_command(DUMP_RELEASE, program))} "$@"\n')
    (place / "kdump").write_text(f'#!/bin/sh\nexec env PYTHONPATH={ROOT} {shlex.join(KDUMP)} "$@"\n')
    for path in place.iterdir():
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(place)


def run(script: str, cluster: Cluster, home: Path) -> str:
    """Run lines of a script with the tools on the PATH."""
    path = f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "SERVER": cluster.server, "LOGDIR": str(cluster.logs)}
    done = subprocess.run(
        ["sh", "-euc", script], cwd=home, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, (done.stdout, done.stderr)
    return done.stdout


def steps(directory: Path, cwd: Path) -> Iterator[str]:
    """The steps of the script that restores a log directory."""
    text = kdump("restore", "--output", "commands", str(directory), cwd=cwd).stdout.decode()
    yield from re.split(r"^# \d+\. .*\n", text, flags=re.MULTILINE)[1:]


def restored(old: Path, home: Path) -> Cluster:
    """A new cluster, on which the script for an old log directory was run; it does not run any more."""
    cluster = cluster_in(home)
    tools_in(home)
    create, convert, _, *later = steps(old, home)
    with cluster.broker():
        run(create, cluster, home)
    run(convert, cluster, home)
    with cluster.broker():
        for step in later:
            run(step, cluster, home)
    return cluster


def test_a_restored_cluster_serves_what_was_committed(tmp_path: Path) -> None:
    old = unpack_cases("prepared-commit", tmp_path / "old")
    home = tmp_path / "new"
    home.mkdir()
    cluster = restored(old, home)
    first, last = PARTITIONS["orders-0"]
    with cluster.broker():
        lines = cluster.client("consume", "read_committed", "orders", program="TopicsClient")
    offsets = [int(words[1]) for words in map(str.split, lines) if words[1] != "end"]
    assert offsets[-20:] == list(range(first, last + 1))
    assert lines[-1] == f"orders end {last + 2}"


def committed(cluster: Cluster) -> dict[tuple[str, str, int], int]:
    """The committed offsets, by Kafka's own tool; the names of the groups are those of their words."""
    found = {}
    for line in cluster.tool(GROUPS, ["--describe", "--all-groups", "--offsets"]).splitlines():
        if match := re.match(r"(.+?) +(plain|other) +(\d+) +(\d+) ", line):
            found[match[1], match[2], int(match[3])] = int(match[4])
    return found


def test_groups_have_the_offsets_of_the_old_cluster(tmp_path: Path) -> None:
    """By the script and by the guide. Of one group a topic is lost: the others of it are restored."""
    (tmp_path / "old").mkdir()
    old = cluster_in(tmp_path / "old")
    names = ["g", "it's a group, $HOME", "-odd"]
    with old.broker():
        for topic in ("plain", "other", "lost"):
            old.tool(TOPICS, ["--create", "--topic", topic, "--partitions", "2"])
            words = ["--topic", topic, "--num-records", "300", "--record-size", "100", "--throughput", "-1"]
            old.tool(WRITER, [*words, "--producer-props", "batch.size=500"])
        topics = [word for topic in ("plain", "other", "lost") for word in ("--topic", topic)]
        for number, name in enumerate(names):
            words = ["--reset-offsets", f"--group={name}", *topics, "--to-offset", str(7 * number + 3)]
            old.tool(GROUPS, [*words, "--execute"])
        wanted = committed(old)
    assert {group for group, _, _ in wanted} == set(names)
    for partition in old.logs.glob("lost-*"):
        shutil.rmtree(partition)
    home = tmp_path / "new"
    home.mkdir()
    new = restored(old.logs, home)
    guide = (ROOT / "docs/guides/restore-offsets.md").read_text()
    block = next(text for text in re.findall(r"```sh\n(.*?)```", guide, re.DOTALL) if "--reset-offsets" in text)
    for before, after in (
        ("2026-11-21T12:00", "now"),
        ("/var/lib/kafka", str(old.logs)),
        ("HOST:9092", new.server),
        (r"s/^payments,//p", "/,lost,/d; s/^g,//p"),
        ("payments", "g"),
    ):
        assert before in block
        block = block.replace(before, after)
    with new.broker():
        assert committed(new) == wanted
        zero = ["--reset-offsets", "--group", "g", "--all-topics", "--to-earliest", "--execute"]
        new.tool(GROUPS, zero)
        assert committed(new) != wanted
        run(block, new, home)
        assert committed(new) == wanted
