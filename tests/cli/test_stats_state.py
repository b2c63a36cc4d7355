"""``kdump stats --at`` and ``--at-offset`` of a metadata log, as a process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.harness.archives import unpack_cases
from tests.harness.cli_runs import CLEAN, DAMAGE, UNREADABLE, USAGE, kdump
from tests.harness.metadatacases import as_counted, metadata_case

CLUSTER = "cluster/n1"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack_cases("metadata", tmp_path_factory.mktemp("cases"))


def stats(*words: str, cwd: Path) -> tuple[int, str, str]:
    """Exit status, stdout, stderr."""
    run = kdump("stats", *words, cwd=cwd)
    return run.returncode, run.stdout.decode(), run.stderr.decode()


def rows(*words: str, cwd: Path) -> list[dict[str, Any]]:
    status, out, errors = stats(*words, "--output", "jsonl", cwd=cwd)
    assert (status, errors) == (CLEAN, "")
    return [json.loads(line) for line in out.splitlines()]


@pytest.mark.parametrize("name", ["cluster/moment-03", "cluster/moment-15", "cluster/offset-103", "upgraded/end"])
def test_records(root: Path, name: str) -> None:
    case = metadata_case(name)
    at = ("--at-offset", str(case["offset"])) if case["offset"] else ("--at", str(case["time_ms"] or "now"))
    status, out, errors = stats(*at, "--output", "records", "--show-secrets", case["dir"], cwd=root)
    assert (status, errors) == (CLEAN, "")
    assert as_counted(json.loads(line) for line in out.splitlines()) == as_counted(case["records"])


def test_secrets_are_redacted(root: Path) -> None:
    for output in ("records", "jsonl", "table"):
        _, out, _ = stats("--at", "now", "--output", output, CLUSTER, cwd=root)
        case = metadata_case("cluster/end") if output == "records" else metadata_case("cluster/offset-203")
        for record in case["records"]:
            for name in ("salt", "storedKey", "serverKey", "tokenId"):
                assert record["data"].get(name, "\0") not in out
    _, out, _ = stats("--at", "now", "--output", "jsonl", "--show-secrets", CLUSTER, cwd=root)
    assert "[redacted]" not in out


def test_rows(root: Path) -> None:
    found = rows("--at", "now", CLUSTER, cwd=root)
    head = found[0]
    assert (head["type"], head["offset"], head["epoch"], head["nodeId"]) == ("metadata", 311, 2, 1)
    kinds = list(dict.fromkeys(row["type"] for row in found))
    assert kinds[:6] == ["metadata", "voter", "feature", "broker", "controller", "topic"]
    partition = next(row for row in found if row["type"] == "partition" and row["topic"] == "clicks")
    assert partition["replicas"]
    assert [row["id"] for row in found if row["type"] == "voter"] == [101, 103]


def test_selection(root: Path) -> None:
    found = rows("--at", "now", "--topic", "payments", CLUSTER, cwd=root)
    assert {row["type"] for row in found} <= {"metadata", "voter", "topic", "partition", "config"}
    assert {row["topic"] for row in found if row["type"] == "partition"} == {"payments"}
    found = rows("--at", "now", "--broker", "2", CLUSTER, cwd=root)
    assert [row["id"] for row in found if row["type"] == "broker"] == [2]
    assert all(2 in row["replicas"] for row in found if row["type"] == "partition")


def test_page(root: Path) -> None:
    status, out, errors = stats("--at", "now", CLUSTER, "cluster/n101", "cluster/n103", cwd=root)
    assert (status, errors) == (CLEAN, "")
    assert "after offset 311 (epoch 2, 2026-11-22 12:57:13.345)" in out
    assert "certain is what is below offset 277" in out
    for title in ("features", "brokers", "topics", "partitions", "configs", "ACLs"):
        assert f"\n{title}\n" in out


def test_a_log_that_would_be_cut(root: Path) -> None:
    status, _, errors = stats("--at", "now", "damaged/bitflip", cwd=root)
    assert status == DAMAGE
    assert "error KD421 metadata-log-cut" in errors
    assert "cuts the log here" in errors
    status, out, _ = stats("--at", "now", "--output", "jsonl", "damaged/bitflip", cwd=root)
    assert json.loads(out.splitlines()[-1])["code"] == "KD421"
    status, _, errors = stats("--at", "now", "damaged/sound", cwd=root)
    assert (status, errors) == (CLEAN, "")


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("unknown-type", "KD422"),
        ("null-value", "KD422"),
        ("fence-unknown", "KD423"),
        ("again-Topic", "KD424"),
        ("feature-mv-low", "KD424"),
        ("snapshot-lost", "KD426"),
        ("snapshot-bitflip", "KD426"),
        ("snapshot-beyond", "KD426"),
    ],
)
def test_verify_and_stats_say_what_is_wrong(root: Path, name: str, code: str) -> None:
    status, _, errors = stats("--at", "now", f"damaged/{name}", cwd=root)
    assert (status, f" {code} " in errors) == (DAMAGE, True)
    run = kdump("verify", f"damaged/{name}/__cluster_metadata-0", cwd=root)
    assert (run.returncode, f" {code} " in run.stdout.decode()) == (DAMAGE, True)


@pytest.mark.parametrize(
    "words",
    [
        ["--at", "now", "--at-offset", "5", CLUSTER],
        ["--topic", "payments", CLUSTER],
        ["--show-secrets", CLUSTER],
        ["--output", "records", CLUSTER],
        ["--at-offset", "-1", CLUSTER],
        ["--at", "now", "--quick", CLUSTER],
    ],
)
def test_usage(root: Path, words: list[str]) -> None:
    assert stats(*words, cwd=root)[0] == USAGE


def test_nothing_there(tmp_path: Path) -> None:
    status, out, errors = stats("--at", "now", ".", cwd=tmp_path)
    assert (status, out) == (UNREADABLE, "")
    assert "no segment files" in errors
