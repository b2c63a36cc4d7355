"""Buckets of remote storage as PATHs, with --tier and --key-ring; what real software said is in fixtures/tiered."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import kdump as library
from tests.harness import s3server
from tests.harness.cli_runs import CLEAN, DAMAGE, UNREADABLE, USAGE, kdump, on_a_terminal
from tests.harness.tiers import (
    AES,
    ANSWERS,
    KEY,
    LOCAL,
    LOGS,
    OTHER_KEY,
    ZSTD,
    damaged,
    needs_crypto,
    rows_digest,
    touched,
)

RECORDS = ("dump", "--output", "jsonl", "--records", "--print-data-log")
INDEX_FILES = {"log": "log", "offset": "index", "timestamp": "timeindex", "transaction": "txnindex"}


def findings(*words: str, cwd: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in kdump("verify", "--output", "jsonl", *words, cwd=cwd).stdout.splitlines()]


def told(found: list[dict[str, Any]]) -> set[tuple[str, str | None, str]]:
    """What counts of findings: without totals, and without the place of the bucket."""
    return {
        (one["code"], one.get("segmentId"), one["message"].partition("; to delete")[0])
        for one in found
        if one["code"] != "KD464"
    }


@pytest.mark.parametrize("name", ANSWERS["zstd"]["rows"])
def test_a_partition_begins_with_its_remote_segments(name: str, tmp_path: Path) -> None:
    """Records are those of a real consumer: also where the log start is inside a batch, and of committed ones."""
    partition, _, isolation = name.partition(".")
    done = kdump(*RECORDS, "--isolation", isolation, "--tier", str(ZSTD), str(LOGS / partition), cwd=tmp_path)
    assert done.returncode == CLEAN
    assert rows_digest(done.stdout.decode().splitlines()) == ANSWERS["zstd"]["rows"][name]


def test_a_bucket_in_s3(tmp_path: Path, s3_server: s3server.S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyarrow.fs")
    for variable, value in s3_server.environment().items():
        monkeypatch.setenv(variable, value)
    shutil.copytree(ZSTD, s3_server.root / "zstd")
    name = "mixed-0.read_uncommitted"
    uri = s3_server.uri("zstd")
    done = kdump(*RECORDS, "--tier", uri, str(LOGS / "mixed-0"), cwd=tmp_path)
    assert rows_digest(done.stdout.decode().splitlines()) == ANSWERS["zstd"]["rows"][name]
    assert told(findings("--tier", uri, str(LOGS), cwd=tmp_path)) == told(
        findings("--tier", str(ZSTD), str(LOGS), cwd=tmp_path)
    )


def test_the_library_reads_it_too() -> None:
    assert sum(1 for _ in library.scan(str(LOGS / "mixed-0"), tier=str(ZSTD))) == 1323


@needs_crypto
def test_the_library_takes_keys() -> None:
    assert sum(1 for _ in library.scan(str(AES), key_ring={"key-1": str(KEY)})) == 60


@pytest.mark.parametrize(
    ("bucket", "of"), [(ZSTD, "zstd"), (LOCAL, "local"), pytest.param(AES, "aes", marks=needs_crypto)]
)
def test_extracted_files_are_those_of_the_plugin(bucket: Path, of: str, tmp_path: Path) -> None:
    done = kdump("convert", str(bucket), "--key-ring", f"key-1={KEY}", "-o", str(tmp_path / "out"), cwd=tmp_path)
    assert done.returncode == CLEAN, done.stderr
    readable = [one for one in ANSWERS[of]["segments"] if "log" in one["files"]]
    assert readable
    for one in readable:
        folder = tmp_path / "out" / f"{one['topic']}-{one['partition']}"
        names = {kind: f"{one['start_offset']:020d}.{suffix}" for kind, suffix in INDEX_FILES.items()}
        names["producer_snapshot"] = f"{one['end_offset'] + 1:020d}.snapshot"
        for kind in one["files"].keys() & names.keys():
            assert hashlib.sha256((folder / names[kind]).read_bytes()).hexdigest() == one["files"][kind]
    assert (tmp_path / "out/txn-0/leader-epoch-checkpoint").read_text().startswith("0\n")


def test_states_are_those_of_the_store(tmp_path: Path) -> None:
    done = kdump("state", "--output", "jsonl", str(LOGS), cwd=tmp_path)
    rows = [row for row in map(json.loads, done.stdout.splitlines()) if row["type"] == "remoteSegment"]
    wanted = {one["segment_id"]: (one["state"], one["start_offset"]) for one in ANSWERS["zstd"]["segments"]}
    assert {row["segmentId"]: (row["state"], row["startOffset"]) for row in rows} == wanted
    assert {row["customMetadata"]["remoteSize"] for row in rows if row["customMetadata"]} != set()


def test_states_at_an_offset(tmp_path: Path) -> None:
    done = kdump("state", "--output", "jsonl", "--at-offset", "1", str(LOGS / "__remote_log_metadata-0"), cwd=tmp_path)
    rows = list(map(json.loads, done.stdout.splitlines()))
    assert [row["segmentId"] for row in rows]
    assert all(event["offset"] <= 1 for row in rows for event in row["history"])


def test_a_table_of_states_has_times(tmp_path: Path) -> None:
    words = "state", "--at-offset", "1", str(LOGS / "__remote_log_metadata-0")
    assert b"2026-11-28 18:" in on_a_terminal(*words, cwd=tmp_path, columns=160)


@pytest.mark.parametrize(("question", "is_told"), [(("--at-offset", "1"), True), (("--between", "-1d.."), False)])
def test_remote_segments_are_missed_where_they_would_be_told(
    question: tuple[str, ...], is_told: bool, tmp_path: Path
) -> None:
    """A path of another topic has no state; what changed is told of metadata and schemas only."""
    partition = "mixed-0" if is_told else "__remote_log_metadata-0"
    done = kdump("state", *question, str(LOGS / partition), cwd=tmp_path)
    assert done.returncode == UNREADABLE
    assert b"no __cluster_metadata-0" in done.stderr
    assert (b"no partition of __remote_log_metadata" in done.stderr) == is_told


def test_a_directory_without_objects_is_a_bucket_without_segments(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    done = kdump("verify", "--tier", "empty", str(LOGS), cwd=tmp_path)
    assert b"a bucket without segments" in done.stderr


def test_a_sound_set_has_no_error(tmp_path: Path) -> None:
    done = kdump("verify", "--tier", str(ZSTD), str(LOGS), cwd=tmp_path)
    assert done.returncode == CLEAN
    assert b"KD455" in done.stdout
    assert b"KD456" in done.stdout
    assert kdump("verify", str(ZSTD), cwd=tmp_path).returncode == CLEAN


@pytest.mark.parametrize("name", ANSWERS["damage"])
def test_each_damage_is_found_with_its_segment(name: str, tmp_path: Path) -> None:
    """And nothing else is found."""
    operations = ANSWERS["damage"][name]
    bucket = damaged(ZSTD, tmp_path / "bucket", operations)
    before = told(findings("--tier", str(ZSTD), str(LOGS), cwd=tmp_path))
    after = told(findings("--tier", str(bucket), str(LOGS), cwd=tmp_path))
    assert {segment_id for _, segment_id, _ in after - before} == touched(operations)
    assert before <= after
    status = kdump("verify", "--tier", str(bucket), str(LOGS), cwd=tmp_path).returncode
    assert status == (CLEAN if name == "extra-objects" else DAMAGE)


def test_one_partition_is_audited_alone(tmp_path: Path) -> None:
    found = findings("--tier", str(ZSTD), str(LOGS / "txn-0"), cwd=tmp_path)
    assert {one["message"].partition(":")[0] for one in found if one["code"] == "KD464"} == {"txn"}


def test_metadata_that_is_not_complete_makes_no_orphans(tmp_path: Path) -> None:
    shutil.copytree(LOGS, tmp_path / "logs")
    shutil.rmtree(tmp_path / "logs/__remote_log_metadata-0")
    orphans = [one for one in findings("--tier", str(ZSTD), "logs", cwd=tmp_path) if one["code"] == "KD457"]
    assert orphans
    assert all(one["message"].startswith("perhaps") for one in orphans)


def test_an_orphan_is_one_where_the_metadata_is_complete(tmp_path: Path) -> None:
    bucket = shutil.copytree(ZSTD, tmp_path / "bucket")
    log = next(bucket.glob("env1-txn-*/0/*.log"))
    (log.parent / f"{7:020d}-{'A' * 22}.log").write_bytes(log.read_bytes())
    (found,) = [one for one in findings("--tier", "bucket", str(LOGS), cwd=tmp_path) if one["code"] == "KD457"]
    assert found["segmentId"] == "A" * 22
    assert "rm -- " in found["message"]


@pytest.mark.parametrize(
    ("later", "topic_id", "says"),
    [
        (-600_000, None, "the metadata has no such segment"),
        (600_000, None, "perhaps it is newer than the metadata, which ends at 2026-"),
        (-600_000, "B" * 22, "perhaps another cluster owns it"),
    ],
)
def test_only_what_nobody_can_own_is_an_orphan(later: int, topic_id: str | None, says: str, tmp_path: Path) -> None:
    """A copy of a segment under another id: written before the metadata ends, or after; or of an unknown topic."""
    bucket = shutil.copytree(ZSTD, tmp_path / "bucket")
    done = kdump("state", "--output", "jsonl", str(LOGS), cwd=tmp_path)
    rows = [row for row in map(json.loads, done.stdout.splitlines()) if row["type"] == "remoteSegment"]
    end = max(event["timestamp"] for row in rows for event in row["history"])
    manifest = next(bucket.glob("env1-txn-*/0/*.rsm-manifest"))
    topic, own_id = manifest.parent.parent.name[:-23], manifest.parent.parent.name[-22:]
    folder = bucket / f"{topic}-{topic_id or own_id}" / "0"
    folder.mkdir(parents=True, exist_ok=True)
    for path in (manifest.with_suffix(suffix) for suffix in (".log", ".indexes", ".rsm-manifest")):
        (folder / f"{path.name[:21]}{'A' * 22}{path.suffix}").write_bytes(path.read_bytes())
    found = json.loads(manifest.read_text())
    about = found["remoteLogSegmentMetadata"]
    about["eventTimestampMs"] = end + later
    about["remoteLogSegmentId"]["id"] = "A" * 22
    about["remoteLogSegmentId"]["topicIdPartition"]["topicId"] = topic_id or own_id
    (folder / f"{manifest.name[:21]}{'A' * 22}.rsm-manifest").write_text(json.dumps(found))
    orphans = [one for one in findings("--tier", "bucket", str(LOGS), cwd=tmp_path) if one["code"] == "KD457"]
    assert [one["segmentId"] for one in orphans] == ["A" * 22]
    assert orphans[0]["message"].startswith(says)
    assert ("rm -- " in orphans[0]["message"]) == (not says.startswith("perhaps"))


def test_other_objects_are_named(tmp_path: Path) -> None:
    bucket = shutil.copytree(LOCAL, tmp_path / "bucket")
    (bucket / "0-1-v1.log").write_bytes(b"x")
    found = [one for one in findings("bucket", cwd=tmp_path) if one["code"] == "KD462"]
    assert ["Redpanda" in one["message"] for one in found] == [True]


def test_an_object_is_read_by_its_manifest(tmp_path: Path) -> None:
    log = next(ZSTD.glob("env1-txn-*/0/*.log"))
    done = kdump(*RECORDS, str(log), cwd=tmp_path)
    assert done.returncode == CLEAN
    assert b'"topic":"txn"' in done.stdout


@needs_crypto
@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), b"key key-1, which is not in the key ring"),
        (("--key-ring", f"key-1={OTHER_KEY}"), b"is not the one"),
    ],
)
def test_a_missing_or_wrong_key_is_named(words: tuple[str, ...], says: bytes, tmp_path: Path) -> None:
    done = kdump("dump", *words, str(AES), cwd=tmp_path)
    assert done.returncode == UNREADABLE
    assert says in done.stderr
    assert b"BEGIN" not in done.stderr + done.stdout


@needs_crypto
@pytest.mark.parametrize("index", ["offset", "leaderEpoch"])
def test_an_encrypted_index_is_damaged(index: str, tmp_path: Path) -> None:
    bucket = shutil.copytree(AES, tmp_path / "bucket")
    (path,) = bucket.rglob("*.indexes")
    spans = json.loads(path.with_suffix(".rsm-manifest").read_text())["segmentIndexes"]
    data = bytearray(path.read_bytes())
    data[spans[index]["position"] + 14] ^= 1
    path.write_bytes(data)
    found = findings("--key-ring", f"key-1={KEY}", "bucket", cwd=tmp_path)
    own = [one for one in found if one["file"].endswith(".indexes")]
    assert [(one["code"], one["position"], one["segmentId"]) for one in own] == [
        ("KD452", spans[index]["position"], path.name[21:43])
    ]
    assert f"the index {index}: the tag" in own[0]["message"]
    assert "KD464" in {one["code"] for one in found}, "the audit goes on"


@needs_crypto
@pytest.mark.parametrize(
    ("content", "why"),
    [(None, "No such file or directory"), ("x", "holds no RSA key in PEM"), ("public", "holds a public key")],
)
def test_a_file_without_a_key_is_named_with_its_id(content: str | None, why: str, tmp_path: Path) -> None:
    """And no index of the bucket is said to be missing."""
    if content is not None:
        from Crypto.PublicKey import RSA

        public = RSA.import_key(KEY.read_bytes()).public_key().export_key().decode()
        (tmp_path / "k.pem").write_text(public if content == "public" else content)
    done = kdump("verify", "--key-ring", "key-1=k.pem", "--output", "jsonl", str(AES), cwd=tmp_path)
    assert done.returncode == UNREADABLE
    assert f"the key key-1 of the key ring cannot be used: k.pem: {why}" in done.stderr.decode()
    assert {json.loads(line)["code"] for line in done.stdout.splitlines()} == {"KD454", "KD464"}


def test_what_might_be_a_key_is_not_shown(tmp_path: Path) -> None:
    done = kdump("dump", "--key-ring", "MIIEvgIBADAN", str(AES), cwd=tmp_path)
    assert done.returncode == USAGE
    assert b"MIIE" not in done.stderr


def test_a_topic_comes_back(tmp_path: Path) -> None:
    """Both halves of a partition, from the log start offset on."""
    (tmp_path / "new").mkdir()
    shutil.copy(LOGS / "meta.properties", tmp_path / "new")
    words = ("--topic", "back", "--topic-id", "Fv31EkiaRzmL2NWP36y54g", "-o", "new")
    done = kdump("restore", str(LOGS / "mixed-0"), "--tier", str(ZSTD), *words, cwd=tmp_path)
    assert done.returncode == CLEAN, done.stderr
    assert b"offsets 677 to 2000" in done.stdout
    names = sorted(path.name for path in (tmp_path / "new/back-0").glob("*.log"))
    assert names[0] == f"{469:020d}.log"
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".kdump-tier")]


def test_a_bucket_needs_a_place(tmp_path: Path) -> None:
    assert kdump("restore", str(ZSTD), cwd=tmp_path).returncode == USAGE
    assert kdump("restore", str(ZSTD), "-o", "new", cwd=tmp_path).returncode == USAGE


def test_a_damaged_file_is_written_by_nobody(tmp_path: Path) -> None:
    damage = ANSWERS["damage"]["flip-first-byte"]
    bucket = damaged(ZSTD, tmp_path / "bucket", damage)
    assert kdump("convert", str(bucket), "-o", "out", cwd=tmp_path).returncode == DAMAGE
    assert not (tmp_path / "out").exists()
    done = kdump("convert", str(bucket), "--skip-damaged", "-o", "out", cwd=tmp_path)
    assert done.returncode == DAMAGE
    assert len(list((tmp_path / "out").rglob("*.log"))) == 9


def test_through_a_store(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow.fs", reason="paths with a scheme need pyarrow")
    done = kdump(*RECORDS, "--tier", f"file://{ZSTD}", f"file://{LOGS}/mixed-0", cwd=tmp_path)
    assert rows_digest(done.stdout.decode().splitlines()) == ANSWERS["zstd"]["rows"]["mixed-0.read_uncommitted"]
    assert kdump("verify", f"file://{ZSTD}", cwd=tmp_path).returncode == CLEAN


@pytest.mark.slow
def test_workers_find_the_bucket(tmp_path: Path) -> None:
    words = ("verify", "--tier", str(ZSTD), str(LOGS))
    assert kdump(*words, "-j", "2", cwd=tmp_path).stdout == kdump(*words, cwd=tmp_path).stdout


def retention(*words: str, cwd: Path) -> dict[str, tuple[str | None, int | None]]:
    """Why each segment goes, and the log start, by id or base offset."""
    now = ("--now", "2026-11-28T19:00:00", "--output", "jsonl")
    done = kdump("stats", *now, *words, str(LOGS / "mixed-0"), cwd=cwd)
    assert done.returncode == CLEAN, done.stderr
    rows = map(json.loads, done.stdout.splitlines())
    return {row["segmentId"] or Path(row["segment"]).stem: (row["reason"], row["logStartOffset"]) for row in rows}


def test_retention_of_remote_and_local_segments(tmp_path: Path) -> None:
    first, second, dead, third = (
        one["segment_id"]
        for one in sorted(ANSWERS["zstd"]["segments"], key=lambda one: (one["start_offset"], one["state"]))
        if one["topic"] == "mixed"
    )
    old, active = f"{1318:020d}", f"{1771:020d}"
    found = retention("--what-if", "retention=100KB", cwd=tmp_path)
    assert found[first] == ("retention.bytes", 885)
    assert {found[one] for one in (second, dead, third, active)} == {(None, 885)}
    found = retention("--what-if", "retention=1d,local:1TB", cwd=tmp_path)
    assert {found[one] for one in (first, second, dead, third)} == {("retention.ms", 1771)}
    assert (found[old], found[active]) == (("logStartOffset", 1771), (None, 1771))
    found = retention("--what-if", "retention=local:1d", "--what-if", "retention=1000d,local:1d", cwd=tmp_path)
    assert found == {**dict.fromkeys((first, second, dead, third, active), (None, 677)), old: ("retention.ms", 677)}


@pytest.mark.parametrize("release", ["4.3", "4.4"])
def test_retention_names_the_release(release: str, tmp_path: Path) -> None:
    """Where it depends on it: of a topic with remote storage."""
    words = ("stats", "--what-if", "retention=100KB", "--broker-version", release)
    said = f"So does a broker of Kafka {release}."
    for partition, depends in (("mixed-0", True), ("__transaction_state-0", False)):
        path = str(LOGS / partition)
        assert (said in kdump(*words, path, cwd=tmp_path).stdout.decode()) == depends
        rows = map(json.loads, kdump(*words, "--output", "jsonl", path, cwd=tmp_path).stdout.splitlines())
        assert {row["brokerVersion"] for row in rows} == {release if depends else None}


def test_retention_is_asked_of_a_broker(tmp_path: Path) -> None:
    """What --tier joins is a broker's log; a bucket alone has no broker that deletes."""
    words = ("--what-if", "retention=100KB")
    assert retention(*words, "--tier", str(ZSTD), cwd=tmp_path) == retention(*words, cwd=tmp_path)
    done = kdump("stats", *words, str(ZSTD), cwd=tmp_path)
    assert done.returncode == UNREADABLE
    assert b"is in a bucket" in done.stderr
    done = kdump("stats", *words, str(LOGS / "mixed-0"), cwd=tmp_path)
    # Lines are wrapped by the length of the path.
    text = b" ".join(done.stdout.split())
    assert b"mixed-0: 1 of 4 remote segments would go" in text
    assert b"remote storage holds up to offset 1770: 0 of 2 local segments would go" in text
