"""The guide of MirrorMaker 2 on a real cluster: every partition that kdump serves is there, record by record."""

from __future__ import annotations

import hashlib
import json
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

import kdump
from tests.harness import ROOT
from tests.harness.archives import unpack_cases
from tests.oracle.kraft import Cluster
from tests.oracle.toolchain import ToolchainMissingError, java_command

pytestmark = pytest.mark.oracle

_GUIDE = ROOT / "docs/guides/mirror-to-cluster.md"
_SECONDS = 300


def properties(old: str, new: str) -> str:
    """The guide's ``mm2.properties`` for two addresses and a cluster of one broker."""
    text = _GUIDE.read_text().partition("```text\n")[2].partition("```")[0]
    text = text.replace("127.0.0.1:9092", old).replace("broker.example.com:9092", new)
    internal = ("offset.storage", "config.storage", "status.storage")
    factors = [f"{name}.{topic}.replication.factor=1\n" for name in ("old", "new") for topic in internal]
    factors += [f"{topic}.replication.factor=1\n" for topic in ("offset-syncs.topic", "checkpoints.topic")]
    return text + "".join(factors) + "replication.factor=1\ndedicated.mode.enable.internal.rest=false\n"


def told(record: dict[str, Any]) -> tuple[Any, ...]:
    """A record of the real consumer's answers; the messages of magic 0 have no timestamp, and get one."""
    headers = [tuple(pair) if isinstance(pair, list) else (pair["key"], pair["value"]) for pair in record["headers"]]
    return record["timestamp"], record["key"], record["value"], headers


def copied(record: Any, *, has_timestamp: bool) -> tuple[Any, ...]:
    headers = [(key, _digest(value)) for key, value in record.headers]
    return record.timestamp if has_timestamp else -1, _digest(record.key), _digest(record.value), headers


def _digest(value: bytes | None) -> str | None:
    return None if value is None else hashlib.sha256(value).hexdigest()[:32]


def test_the_guide_copies_every_partition(tmp_path: Path) -> None:
    answers = unpack_cases("serve", tmp_path / "served")
    wanted: dict[str, list[tuple[Any, ...]]] = {}
    for name, answer in json.loads((answers / "answers" / "answers.json").read_text())["partitions"].items():
        # Of those that the real broker cut when it started, its answers tell less than is there.
        if not answer.get("truncated_at_start"):
            lines = (answers / "answers" / f"{name}.read_committed.jsonl").read_text().splitlines()
            wanted[name] = [told(json.loads(line)) for line in lines]
    assert sum(map(len, wanted.values())) > 3000
    try:
        cluster = Cluster(tmp_path)
        command = java_command("mirror", "org.apache.kafka.connect.mirror.MirrorMaker", options=("-Xmx512m",))
    except ToolchainMissingError as error:
        pytest.skip(str(error))
    paths = [answers / "partitions" / name for name in wanted]
    with kdump.serving(*paths) as address, cluster.broker(), (tmp_path / "mirror.log").open("wb") as log:
        settings = tmp_path / "mm2.properties"
        settings.write_text(properties(address, cluster.server))
        # The tool of the log ends refuses a cluster without topics.
        cluster.tool("org.apache.kafka.tools.TopicCommand", ["--create", "--topic", "first"])
        with subprocess.Popen([*command, str(settings)], stdout=log, stderr=log) as mirror:
            try:
                _wait(cluster, mirror, wanted, tmp_path / "mirror.log")
            finally:
                mirror.kill()
    for name, records in wanted.items():
        has_timestamp = records[0][0] != -1
        found = [
            copied(record, has_timestamp=has_timestamp)
            for record in kdump.scan(cluster.logs / name)
            if not record.is_control
        ]
        assert found == records, name


def _wait(cluster: Cluster, mirror: subprocess.Popen[bytes], wanted: dict[str, list[Any]], log: Path) -> None:
    """Until the log ends of the new cluster say that all is there."""
    end = time.monotonic() + _SECONDS
    while time.monotonic() < end:
        assert mirror.poll() is None, log.read_text(errors="replace")[-3000:]
        lines = cluster.tool("org.apache.kafka.tools.GetOffsetShell", []).splitlines()
        ends = {f"{topic}-{partition}": int(offset) for topic, partition, offset in (line.split(":") for line in lines)}
        if all(ends.get(name) == len(records) for name, records in wanted.items()):
            return
        time.sleep(2)
    raise AssertionError(f"{ends}\n{log.read_text(errors='replace')[-3000:]}")
