"""``kdump state`` of a metadata log, as a process."""

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


def state(*words: str, cwd: Path) -> tuple[int, str, str]:
    """Exit status, stdout, stderr."""
    run = kdump("state", *words, cwd=cwd)
    return run.returncode, run.stdout.decode(), run.stderr.decode()


def rows(*words: str, cwd: Path) -> list[dict[str, Any]]:
    status, out, errors = state(*words, "--output", "jsonl", cwd=cwd)
    assert (status, errors) == (CLEAN, "")
    return [json.loads(line) for line in out.splitlines()]


@pytest.mark.parametrize("name", ["cluster/moment-03", "cluster/moment-15", "cluster/offset-103", "upgraded/end"])
def test_records(root: Path, name: str) -> None:
    case = metadata_case(name)
    at = ("--at-offset", str(case["offset"])) if case["offset"] else ("--at", str(case["time_ms"] or "now"))
    status, out, errors = state(*at, "--output", "records", "--show-secrets", case["dir"], cwd=root)
    assert (status, errors) == (CLEAN, "")
    assert as_counted(json.loads(line) for line in out.splitlines()) == as_counted(case["records"])


def test_secrets_are_redacted(root: Path) -> None:
    for output in ("records", "jsonl", "table"):
        _, out, _ = state("--at", "now", "--output", output, CLUSTER, cwd=root)
        case = metadata_case("cluster/end") if output == "records" else metadata_case("cluster/offset-203")
        for record in case["records"]:
            for name in ("salt", "storedKey", "serverKey", "tokenId"):
                assert record["data"].get(name, "\0") not in out
    _, out, _ = state("--at", "now", "--output", "jsonl", "--show-secrets", CLUSTER, cwd=root)
    assert "[redacted]" not in out


def test_the_records_of_a_format_are_no_state_yet(root: Path, tmp_path: Path) -> None:
    directory = tmp_path / "__cluster_metadata-0"
    directory.mkdir()
    snapshot = min((root / CLUSTER).rglob("*.checkpoint"))
    (directory / f"{0:020}-{0:010}.checkpoint").write_bytes(snapshot.read_bytes())
    status, _, errors = state("--at", "now", str(directory), cwd=root)
    assert status == CLEAN
    assert "count when a leader has written them into the log" in errors


def test_the_state_now_is_the_default(root: Path) -> None:
    for output in ("jsonl", "records"):
        words = ("--output", output, CLUSTER)
        assert state(*words, cwd=root) == state("--at", "now", *words, cwd=root)


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
    assert rows("--at", "now", "--topic", "p?yment*", CLUSTER, cwd=root) == found
    assert {row["type"] for row in found} <= {"metadata", "voter", "topic", "partition", "config"}
    assert {row["topic"] for row in found if row["type"] == "partition"} == {"payments"}
    _, out, _ = state("--at", "now", "--topic", "payments", "--output", "records", CLUSTER, cwd=root)
    records = [json.loads(line) for line in out.splitlines()]
    assert {record["type"] for record in records} == {"TOPIC_RECORD", "PARTITION_RECORD", "CONFIG_RECORD"}
    assert [record["data"]["name"] for record in records if record["type"] == "TOPIC_RECORD"] == ["payments"]
    assert len(records) == len([row for row in found if row["type"] not in ("metadata", "voter")])
    found = rows("--at", "now", "--broker", "2", CLUSTER, cwd=root)
    _, out, _ = state("--at", "now", "--broker", "2", "--output", "records", CLUSTER, cwd=root)
    assert len(out.splitlines()) == len([row for row in found if row["type"] not in ("metadata", "voter")])
    assert [row["id"] for row in found if row["type"] == "broker"] == [2]
    assert all(2 in row["replicas"] for row in found if row["type"] == "partition")


def test_page(root: Path) -> None:
    status, out, errors = state("--at", "now", CLUSTER, "cluster/n101", "cluster/n103", cwd=root)
    assert (status, errors) == (CLEAN, "")
    assert "after offset 311 (epoch 2, 2026-11-22 12:57:13.345)" in out
    assert "certain is what is below offset 277" in out
    for title in ("features", "brokers", "topics", "partitions", "configs", "ACLs"):
        assert f"\n{title}\n" in out


def test_quotas_are_exact(root: Path) -> None:
    _, page, _ = state("--at", "now", CLUSTER, cwd=root)
    found = {line.split("│")[2].strip(): line.split("│")[3].strip() for line in page.splitlines() if "_rate" in line}
    assert found["producer_byte_rate"] == "96,989"
    assert found["controller_mutation_rate"] == "3.25"
    _, changes, _ = state("--between-offsets", "0:", CLUSTER, cwd=root)
    assert "  user alice consumer_byte_rate quota 100,000\n" in changes
    assert "  user alice consumer_byte_rate quota 100,000 -> nothing\n" in changes
    assert "  client-id (default) request_percentage quota 12.5\n" in changes


def test_names_that_are_not_there(root: Path) -> None:
    """They may be misspelled."""
    assert state("--at", "now", "--topic", "click*", CLUSTER, cwd=root)[2] == ""
    status, out, errors = state(
        "--at", "now", "--topic", "nope", "--topic", "clicks", "--broker", "77", CLUSTER, cwd=root
    )
    assert (status, "clicks" in out) == (CLEAN, True)
    assert [line.partition(" has ")[2] for line in errors.splitlines()] == ["no topic nope there", "no broker 77 there"]
    assert state("--history", "topic=nope", CLUSTER, cwd=root) == (
        CLEAN,
        "",
        "kdump: no change that was asked for is there\n",
    )


def test_a_log_that_would_be_cut(root: Path) -> None:
    status, _, errors = state("--at", "now", "damaged/bitflip", cwd=root)
    assert status == DAMAGE
    assert "error KD421 metadata-log-cut" in errors
    assert "cuts the log here" in errors
    status, out, _ = state("--at", "now", "--output", "jsonl", "damaged/bitflip", cwd=root)
    assert json.loads(out.splitlines()[-1])["code"] == "KD421"
    status, _, errors = state("--at", "now", "damaged/sound", cwd=root)
    assert (status, errors) == (CLEAN, "")


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("trailing-bytes", "KD422"),
        ("null-value", "KD422"),
        ("fence-unknown", "KD423"),
        ("again-Topic", "KD424"),
        ("feature-mv-low", "KD424"),
        ("snapshot-lost", "KD426"),
        ("snapshot-bitflip", "KD426"),
        ("snapshot-beyond", "KD426"),
    ],
)
def test_verify_and_state_say_what_is_wrong(root: Path, name: str, code: str) -> None:
    status, _, errors = state("--at", "now", f"damaged/{name}", cwd=root)
    assert (status, f" {code} " in errors) == (DAMAGE, True)
    run = kdump("verify", f"damaged/{name}/__cluster_metadata-0", cwd=root)
    assert (run.returncode, f" {code} " in run.stdout.decode()) == (DAMAGE, True)


@pytest.mark.parametrize(
    "words",
    [
        ["--at", "now", "--at-offset", "5", CLUSTER],
        ["--history", "group=g", CLUSTER],
        ["--at-zxid", "1", CLUSTER],
        ["--at-offset", "-1", CLUSTER],
        ["--at-offset", "5", "--output", "reset-csv", CLUSTER],
        ["--decode", "auto", "--between", "now..", CLUSTER],
        ["--at", "now", "--between-offsets", "1:2", CLUSTER],
        ["--history", "colour=red", CLUSTER],
        ["--history", "broker=x", CLUSTER],
        ["--history", "topic=a", "--output", "records", CLUSTER],
    ],
)
def test_usage(root: Path, words: list[str]) -> None:
    assert state(*words, cwd=root)[0] == USAGE


def test_nothing_there(tmp_path: Path) -> None:
    status, out, errors = state("--at", "now", ".", cwd=tmp_path)
    assert (status, out) == (UNREADABLE, "")
    assert "no segment files" in errors


def test_commands(root: Path) -> None:
    _, out, errors = state("--at", "now", "--output", "commands", CLUSTER, cwd=root)
    assert errors == ""
    lines = out.splitlines()
    assert 'kafka-features.sh --bootstrap-server "$SERVER" upgrade --metadata 4.3-IV0' in lines
    create = 'kafka-topics.sh --bootstrap-server "$SERVER" --create --topic'
    assert f"{create} elr-41 --replica-assignment 1:2:3,2:3:1,3:1:2" in lines
    assert any(line.startswith("kafka-acls.sh") and "--deny-principal User:bob" in line for line in lines)
    assert sum("password=PASSWORD" in line for line in lines) == 2
    _, out, _ = state("--at", "now", "--output", "commands", "--topic", "elr-41", CLUSTER, cwd=root)
    assert [line.split()[0] for line in out.splitlines()] == ["kafka-topics.sh", "kafka-configs.sh"]


def test_between(root: Path) -> None:
    found = rows("--between-offsets", "71:72", CLUSTER, cwd=root)
    assert [(row["change"], row["topic"], row["offset"]) for row in found] == [("topic-deleted", "clicks", 71)]
    found = rows("--between-offsets", "262:263", CLUSTER, cwd=root)
    assert [row["change"] for row in found] == ["unclean-leader", "isr", "last-known-elr"]
    assert (found[0]["topic"], found[0]["partition"]) == ("payments", 2)
    assert found[0]["before"] == {"leader": -1, "leaderEpoch": 3}
    first, end = found[0]["timestamp"], found[0]["timestamp"] + 1
    by_time = rows("--between", f"{first}..{end}", CLUSTER, cwd=root)
    assert found == [row for row in by_time if row["offset"] == 262]
    assert {row["timestamp"] for row in by_time} == {first}


def test_changes_lead_to_the_image(root: Path) -> None:
    """Topics and leaders of the image are what the changes say."""
    topics: dict[str, str] = {}
    leaders: dict[tuple[str, int], int] = {}
    for row in rows("--between-offsets", ":", CLUSTER, cwd=root):
        if row["change"] == "topic-created":
            topics[row["topicId"]] = row["topic"]
        elif row["change"] == "topic-deleted":
            assert topics.pop(row["topicId"]) == row["topic"]
        elif row["change"] in ("partition-created", "leader", "unclean-leader"):
            leaders[row["topicId"], row["partition"]] = row["after"]["leader"]
    found = rows("--at", "now", CLUSTER, cwd=root)
    assert topics == {row["topicId"]: row["name"] for row in found if row["type"] == "topic"}
    image = {(row["topicId"], row["partition"]): row["leader"] for row in found if row["type"] == "partition"}
    assert {key: leader for key, leader in leaders.items() if key[0] in topics} == image


def test_history(root: Path) -> None:
    assert {row["topic"] for row in rows("--history", "topic=orders", CLUSTER, cwd=root)} == {"orders"}
    found = rows("--history", "partition=payments-2", CLUSTER, cwd=root)
    assert {(row["topic"], row["partition"]) for row in found} == {("payments", 2)}
    changes = [row["change"] for row in rows("--history", "broker=3", "--between-offsets", ":200", CLUSTER, cwd=root)]
    assert changes[:3] == ["broker-registered", "broker-unfenced", "broker-fenced"]
    status, out, errors = state("--history", "broker=3", "cluster/n2", cwd=root)
    assert (status, "known from a snapshot only" in errors) == (CLEAN, True)
    assert "3 broker-registered" in out


def test_what_was_aborted_did_not_change(root: Path) -> None:
    last = [
        rows("--between-offsets", "109:", f"damaged/{name}-transaction", cwd=root) for name in ("aborted", "committed")
    ]
    assert [len(found) for found in last] == [0, 1]
    status, out, _ = state("--between-offsets", "109:", "damaged/open-transaction", cwd=root)
    assert (status, out.count("topic-created")) == (CLEAN, 0)


def test_refused_records_are_no_changes(root: Path) -> None:
    for name in ("fence-unknown", "remove-unknown-topic", "change-unknown-topic"):
        status, out, _ = state("--between-offsets", "109:", f"damaged/{name}", cwd=root)
        assert (status, out) == (DAMAGE, "")
