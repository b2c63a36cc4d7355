"""``verify --startup``: the last line and the status say what clients get, as real brokers did."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.harness.archives import case_files, unpack_cases
from tests.harness.cli_runs import DAMAGE, UNREADABLE, kdump
from tests.harness.examples import sparse

CASES = [json.loads(line) for line in case_files("strays")["strays/results.jsonl"].decode().splitlines()]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack_cases("strays", tmp_path_factory.mktemp("cases"))


@pytest.fixture
def broker(root: Path, tmp_path: Path) -> Path:
    """The two log directories of a broker, without those that become strays."""
    shutil.copytree(root / "plain", tmp_path / "broker")
    fates = next(case["fate"] for case in CASES if case["id"] == "plain")
    for path, fate in fates.items():
        if fate != "served":
            shutil.rmtree(tmp_path / "broker" / path)
    return tmp_path / "broker"


def last_lines(folder: Path, *names: str) -> tuple[int, list[str]]:
    """The exit status, and the line that sums up each log directory."""
    run = kdump("verify", "--startup", *names, cwd=folder)
    lines = {line.partition(": ")[0]: line for line in run.stdout.decode().splitlines() if " partitions, " in line}
    return run.returncode, [lines[name] for name in names if name in lines]


@pytest.mark.parametrize("case", sparse(CASES, fast=4), ids=lambda case: str(case["id"]))
def test_what_brokers_did(root: Path, case: dict[str, Any]) -> None:
    folder = root / case["id"]
    status, lines = last_lines(folder, *sorted(place.name for place in folder.glob("n2-d?")))
    # An empty directory is an error of its own.
    assert status == (UNREADABLE if case["id"] == "d1-lost" else DAMAGE)
    assert lines
    has_stopped = "left" in case["fate"].values()
    for line in lines:
        assert ("the whole broker stops" in line) is has_stopped, line
        strays = sum(
            fate == "stray" and not path.endswith("-stray")
            for path, fate in case["fate"].items()
            if path.startswith(line.partition(":")[0])
        )
        if not has_stopped:
            assert f" {strays} become strays and are not served" in line


def test_all_start(broker: Path) -> None:
    status, lines = last_lines(broker, "n2-d0", "n2-d1")
    assert status == 0
    assert [line.rpartition(": ")[2] for line in lines] == ["all start", "all start"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "it is empty"),
        (bytes(80), "its first line is no JSON object"),
        (b'{"leaderId":1,"leaderEpoch":5,"votedId":-1,"data_version":1}', "it has no votedDirectoryId"),
        (
            b'{"leaderId":1,"leaderEpoch":5,"votedId":-1,"votedDirectoryId":"x","data_version":1}',
            "its votedDirectoryId",
        ),
        (b'{"leaderId":1,"leaderEpoch":5,"votedId":-1,"data_version":2}', "its data_version is 2"),
    ],
)
def test_quorum_state(broker: Path, content: bytes, message: str) -> None:
    path = broker / "n2-d0" / "__cluster_metadata-0" / "quorum-state"
    path.write_bytes(content)
    run = kdump("verify", "--startup", "n2-d0", cwd=broker)
    assert run.returncode == DAMAGE
    assert f"quorum-state: the whole broker stops: quorum-state is refused: {message}" in run.stdout.decode()
    result, last = run.stdout.decode().splitlines()[-2:]
    assert result.endswith("the whole broker stops, because of quorum-state")
    assert ".kafka_cleanshutdown is gone when the whole broker stops" in last
    row = json.loads(kdump("verify", "--startup", "--output", "jsonl", "n2-d0", cwd=broker).stdout.splitlines()[-1])
    assert (row["outcome"], row["file"]) == ("broker_stops", "n2-d0/__cluster_metadata-0/quorum-state")
    path.unlink()
    assert last_lines(broker, "n2-d0", "n2-d1")[0] == 0, "a node starts without the file"


def test_meta_properties(broker: Path) -> None:
    (broker / "n2-d1" / "meta.properties").write_text("version=1\nnode.id=x\n")
    status, lines = last_lines(broker, "n2-d1")
    assert (status, "goes offline" in lines[0]) == (DAMAGE, True), "the other log directory has the metadata log"
    (broker / "n2-d0" / "meta.properties").unlink()
    status, lines = last_lines(broker, "n2-d0")
    assert (status, "the whole broker stops" in lines[0]) == (DAMAGE, True)


def test_a_metadata_log_that_cannot_be_loaded(broker: Path) -> None:
    metadata = broker / "n2-d0" / "__cluster_metadata-0"
    snapshot = metadata / "00000000000000000005-0000000001.checkpoint"
    snapshot.write_bytes(b"no snapshot" * 20)
    status, lines = last_lines(broker, "n2-d0")
    assert (status, lines[0].endswith(f"the whole broker stops, because of {snapshot.name}")) == (DAMAGE, True)


def test_the_last_log_directory_of_a_broker(broker: Path) -> None:
    """RegisterBrokerRecord names both."""
    for name in ("n2-d0", "n2-d1"):
        (broker / name / "recovery-point-offset-checkpoint").write_text("0\n1\n")
    status, lines = last_lines(broker, "n2-d0", "n2-d1")
    assert status == DAMAGE
    assert "its log directory goes offline; the broker runs on if it has another one" in lines[0]
    assert "the whole broker stops" in lines[1]
    status, lines = last_lines(broker, "n2-d1")
    assert (status, "its log directory goes offline" in lines[0]) == (DAMAGE, True)


def test_one_flipped_bit_in_the_metadata_log(broker: Path) -> None:
    """The node cuts its metadata log there, and what comes later is not known to it."""
    log = next((broker / "n2-d0" / "__cluster_metadata-0").glob("*.log"))
    data = bytearray(log.read_bytes())
    data[len(data) // 8] ^= 4
    log.write_bytes(data)
    status, lines = last_lines(broker, "n2-d0")
    assert status == DAMAGE
    assert "become strays and are not served" in lines[0]
