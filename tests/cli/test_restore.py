"""``kdump restore -o`` on the command line."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kdump.log.siblings import read_topic_id
from kdump.restore.target import TargetCluster
from tests.harness.archives import unpack_cases
from tests.harness.batches import plain_rows, v2_batch
from tests.harness.captures import FIXTURES
from tests.harness.cli_runs import CLEAN, DAMAGE, UNREADABLE, USAGE, kdump

SOURCE = FIXTURES / "segments" / "v2-txn-0"
ID = "kdumpkdumpkdumpkdumpkg"
ONE = ("--topic", "t", "--topic-id", ID)


def restore(home: Path, *words: str) -> tuple[int, str, str]:
    run = kdump("restore", *words, cwd=home)
    return run.returncode, run.stdout.decode(), run.stderr.decode()


def rows(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_a_partition_in_a_new_place(tmp_path: Path) -> None:
    """LOGDIR is no log directory yet: nothing but the partition is made in it."""
    status, text, error = restore(tmp_path, str(SOURCE), "-o", "out", *ONE, "--partition", "3")
    assert (status, error) == (CLEAN, "")
    assert "t-3: restored in " in text
    assert "transaction of producer" in text
    assert {name.split("/")[0] for name in files(tmp_path / "out")} == {"t-3"}
    assert read_topic_id(str(tmp_path / "out" / "t-3")) == ID
    assert kdump("verify", "--startup", "out/t-3", cwd=tmp_path).returncode == CLEAN
    manifest = text.split("--undo ")[1].strip()
    assert kdump("repair", "--undo", manifest, cwd=tmp_path).returncode == CLEAN
    # A broker would take what is left of the directory for one of a topic that is gone.
    assert list((tmp_path / "out").iterdir()) == []


def test_several_partitions(tmp_path: Path) -> None:
    """Each PATH becomes the partition of its number; one that is missing does not stop the others."""
    for number in (0, 1):
        shutil.copytree(SOURCE, tmp_path / f"old-{number}")
    status, _, error = restore(tmp_path, "old-1", "old-2", "old-0", "-o", "out", *ONE)
    assert (status, error) == (UNREADABLE, "kdump: old-2: no such file or directory\n")
    assert {name.split("/")[0] for name in files(tmp_path / "out")} == {"t-0", "t-1"}


def test_json_lines(tmp_path: Path) -> None:
    words = (str(SOURCE), "-o", "out", *ONE, "--output", "jsonl")
    status, text, _ = restore(tmp_path, *words)
    found = rows(text)
    assert status == CLEAN
    assert [row["type"] for row in found[:-1]] == ["restoreNote"] * (len(found) - 1)
    # The records grow older than the default of retention.ms.
    assert {row["kind"] for row in found[:-1]} - {"retention"} == {"open-transaction", "producer-ids"}
    assert not any(row["isLoss"] for row in found[:-1])
    last = found[-1]
    named = {name: last[name] for name in ("type", "topic", "partition", "topicId", "logs", "logEndOffset", "linked")}
    assert named == {
        "type": "restored", "topic": "t", "partition": 0, "topicId": ID, "logs": 5, "logEndOffset": 448, "linked": 0,
    }  # fmt: skip
    before = files(tmp_path / "out")
    status, text, _ = restore(tmp_path, *words)
    assert (status, rows(text)[-1], files(tmp_path / "out")) == (CLEAN, last, before)
    assert "t-0: already restored in " in restore(tmp_path, *words[:-2])[1]
    status, text, error = restore(tmp_path, *words, "--forget-producers")
    assert status == DAMAGE
    assert "--overwrite" in error
    assert "restored" not in [row["type"] for row in rows(text)]


def damaged(home: Path) -> None:
    source = home / "old-0"
    source.mkdir()
    log = bytearray(v2_batch(plain_rows(2)) + v2_batch(plain_rows(2), base_offset=2))
    log[-1] ^= 1
    (source / f"{0:020}.log").write_bytes(log)


def test_strict(tmp_path: Path) -> None:
    damaged(tmp_path)
    status, text, error = restore(tmp_path, "old-0", "-o", "out", *ONE, "--strict")
    assert status == DAMAGE
    assert "t-0: lost to damage at offsets 2 to 3" in text
    assert "nothing was written" in error
    assert not (tmp_path / "out").exists()
    status, text, _ = restore(tmp_path, "old-0", "-o", "out", *ONE)
    assert status == DAMAGE
    assert (tmp_path / "out" / "t-0" / f"{0:020}.log").read_bytes() == v2_batch(plain_rows(2), partition_leader_epoch=0)


@pytest.mark.parametrize(
    "words",
    [
        (str(SOURCE), "-o", "out"),
        (str(SOURCE), "-o", "out", "--topic", "t"),
        (str(SOURCE), "-o", "out", "--topic", "t", "--topic-id", "AAAAAAAAAAAAAAAAAAAAAA"),
        (str(SOURCE), "-o", "out", "--topic", "a/b", "--topic-id", ID),
        # A blank in a name makes the checkpoints unreadable for a broker.
        (str(SOURCE), "-o", "out", "--topic", "a b", "--topic-id", ID),
        (str(SOURCE), "-o", "out", "--topic", "..", "--topic-id", ID),
        (str(SOURCE), "-o", "out", "--topic", "t" * 250, "--topic-id", ID),
        (str(SOURCE), "-o", "out", "--topic", "__cluster_metadata", "--topic-id", ID, "--overwrite"),
        # Without markers nothing is aborted: the records would be read as committed ones.
        (str(SOURCE), "-o", "out", *ONE, "--renumber", "0", "--open-transactions", "abort"),
        (str(SOURCE), "-o", "out", *ONE, "--renumber", "0", "--open-transactions", "refuse"),
        (str(SOURCE), "-o", "out", *ONE, "--output", "commands"),
        (str(SOURCE), str(SOURCE.parent / "v2-0"), "-o", "out", *ONE, "--partition", "0"),
        (str(SOURCE), f"{SOURCE}/{0:020}.log", "-o", "out", *ONE),
        (str(SOURCE), "-o", "-", *ONE),
        (str(SOURCE), "-o", "", *ONE),
        ("-", "-o", "out", *ONE),
        (str(SOURCE), *ONE),
        (str(SOURCE), "-o", "out", *ONE, "--from-log-dir", "old", "--metadata", "m"),
        ("-o", "out", "--from-log-dir", "old"),
        ("-o", "out", *ONE),
        (str(SOURCE), "-o", "out", *ONE, "--renumber", "0", "--open-transactions", "12=abort"),
        (str(SOURCE), "-o", "out", *ONE, "--open-transactions", "12=refuse"),
        (str(SOURCE), "-o", "out", *ONE, "--open-transactions", "12=commit,keep"),
    ],
)
def test_usage(tmp_path: Path, words: tuple[str, ...]) -> None:
    assert restore(tmp_path, *words)[0] == USAGE
    assert not (tmp_path / "out").exists()


def test_the_target_is_a_partition_directory(tmp_path: Path) -> None:
    """LOGDIR/t-0 instead of LOGDIR: a broker would not look there."""
    assert restore(tmp_path, str(SOURCE), "-o", "out", *ONE)[0] == CLEAN
    before = files(tmp_path / "out")
    status, _, error = restore(tmp_path, str(SOURCE), "-o", "out/t-0", *ONE)
    assert status == DAMAGE
    assert "is a partition directory" in error
    assert files(tmp_path / "out") == before


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log directory of a broker, with the metadata of its cluster and directories that do not belong to it.

    Nothing changes it.
    """
    return unpack_cases("strays", tmp_path_factory.mktemp("cases")) / "bad-name" / "n2-d0"


def new_log_directory(old: Path, home: Path) -> Path:
    """An empty log directory of the same broker."""
    logs = home / "new"
    logs.mkdir()
    shutil.copy(old / "meta.properties", logs)
    return logs


@pytest.mark.slow
def test_a_whole_log_directory(tmp_path: Path, old: Path) -> None:
    logs = new_log_directory(old, tmp_path)
    words = ("-o", str(logs), "--from-log-dir", str(old), "--metadata", str(old), "--output", "jsonl")
    status, text, _ = restore(tmp_path, *words)
    found = rows(text)
    left = {f"{row['topic']}-{row['partition']}": row["kind"] for row in found if row.get("kind") == "no-target"}
    restored = {f"{row['topic']}-{row['partition']}": row for row in found if row["type"] == "restored"}
    assert status == DAMAGE
    assert "deleted-51-1" in left
    assert "keep-51-0" in restored
    assert not set(left) & set(restored)
    assert {path.name for path in logs.iterdir() if path.is_dir()} == set(restored)
    for name, row in restored.items():
        assert read_topic_id(str(logs / name)) == row["topicId"]
    status, text, error = restore(tmp_path, *words, "--overwrite", "--strict")
    assert status == DAMAGE
    assert "nothing was written" in error


def test_metadata_of_another_cluster(tmp_path: Path, old: Path) -> None:
    logs = new_log_directory(old, tmp_path)
    (logs / "meta.properties").write_text("version=1\ncluster.id=other\nnode.id=2\n")
    words = ("-o", str(logs), "--topic", "keep-51", "--metadata", str(old))
    status, _, error = restore(tmp_path, str(old / "keep-51-0"), *words)
    assert status == DAMAGE
    assert "is of cluster other" in error
    assert [path.name for path in logs.iterdir()] == ["meta.properties"]


def test_one_partition_by_the_metadata(tmp_path: Path, old: Path) -> None:
    logs = new_log_directory(old, tmp_path)
    words = ("-o", str(logs), "--metadata", str(old))
    source = str(old / "keep-51-0")
    assert restore(tmp_path, source, *words, "--topic", "keep-51", "--topic-id", ID)[0] == USAGE
    assert restore(tmp_path, source, *words, "--topic", "not-there")[0] == USAGE
    assert restore(tmp_path, source, *words, "--topic", "keep-51")[0] == CLEAN
    assert read_topic_id(str(logs / "keep-51-0")) == read_topic_id(source)


def test_ended_transactions_change_no_other_log(tmp_path: Path) -> None:
    """Only the last log gets a marker; the others may still be links."""
    shutil.copytree(SOURCE, tmp_path / "old")
    words = ("old", "-o", "out", *ONE, "--link", "hard", "--output", "jsonl")
    assert restore(tmp_path, *words, "--open-transactions", "refuse")[0] == DAMAGE
    assert not (tmp_path / "out").exists()
    status, text, _ = restore(tmp_path, *words, "--open-transactions", "abort")
    last = rows(text)[-1]
    assert (status, last["linked"], last["transactionsEnded"], last["logEndOffset"]) == (CLEAN, 4, 1, 449)


@pytest.mark.parametrize(
    ("words", "is_at_hand", "marker", "told"),
    [
        ((), True, "COMMIT", "its coordinator commits it (PrepareCommit); a marker COMMIT"),
        ((), False, None, "nobody can know whether it was committed"),
        (("abort",), True, "ABORT", "has no end marker: a marker ABORT"),
        (("2=abort",), True, "ABORT", "has no end marker: a marker ABORT"),
        (("3=abort",), True, "COMMIT", "its coordinator commits it (PrepareCommit); a marker COMMIT"),
        (("keep",), True, None, "readers of committed records wait there"),
    ],
)
def test_the_coordinator_decides(
    tmp_path: Path, words: tuple[str, ...], is_at_hand: bool, marker: str | None, told: str
) -> None:
    """A commit that was acknowledged, in a real log directory; what is asked for comes first."""
    logs = unpack_cases("prepared-commit", tmp_path)
    if not is_at_hand:
        shutil.rmtree(logs / "__transaction_state-0")
    option = [word for one in words for word in ("--open-transactions", one)]
    status, text, _ = restore(tmp_path, str(logs / "orders-0"), "-o", "out", *ONE, "--forget-producers", *option)
    assert status == CLEAN
    assert told in text
    words = ("--output", "jsonl", "--records", "--isolation", "read_committed", "--offset", "21416:")
    shown = rows(kdump("dump", *words, "out/t-0", cwd=tmp_path).stdout.decode())
    found = [(row["offset"], row["controlType"]) for row in shown]
    records = [(offset, None) for offset in range(21416, 21436)]
    assert found == [*(records if marker == "COMMIT" else ()), *([(21436, marker)] if marker else ())]


def test_losses_of_a_conversion(tmp_path: Path) -> None:
    """A renumbered log has no markers: what they decided is told, and --strict refuses it."""
    words = (str(SOURCE), "-o", "out", *ONE, "--renumber", "0")
    status, _, error = restore(tmp_path, *words, "--strict")
    assert status == DAMAGE
    assert "--strict" in error
    assert not (tmp_path / "out").exists()
    status, text, _ = restore(tmp_path, *words)
    assert status == CLEAN
    assert "of aborted transactions become visible" in text
    status, text, _ = restore(tmp_path, *words, "--overwrite", "--output", "jsonl")
    assert "aborted-records" in rows(text)[-1]["losses"]


@pytest.fixture
def metadata(tmp_path: Path) -> Path:
    """The metadata of a cluster that has __transaction_state and mail, each with some partitions."""
    return unpack_cases("metadata", tmp_path) / "cluster" / "n1"


def old_log_directory(home: Path, topic_ids: dict[str, str | None]) -> Path:
    old = home / "old"
    for name, topic_id in topic_ids.items():
        (old / name).mkdir(parents=True)
        (old / name / f"{0:020}.log").write_bytes(v2_batch(plain_rows(2)))
        if topic_id is not None:
            (old / name / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}\n")
    return old


def id_of(metadata: Path, topic: str) -> str:
    found = TargetCluster(str(metadata), "nowhere").topic_id(topic)
    assert found is not None
    return found


@pytest.mark.parametrize("topic", ["__transaction_state", "__remote_log_metadata", "__share_group_state"])
@pytest.mark.parametrize("topic_id", [None, ID])
def test_the_state_of_other_brokers_is_left_out(
    tmp_path: Path, metadata: Path, topic: str, topic_id: str | None
) -> None:
    """It is no loss: --strict goes on. Named, it is restored with a note."""
    old = old_log_directory(tmp_path, {f"{topic}-0": topic_id, "mail-0": ID})
    words = ("-o", "out", "--metadata", str(metadata))
    status, text, _ = restore(tmp_path, *words, "--from-log-dir", str(old), "--strict", "--output", "jsonl")
    found = rows(text)
    left = [(row["topic"], row["isLoss"]) for row in found if row.get("kind") == "broker-state"]
    assert (status, left) == (CLEAN, [(topic, False)])
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["mail-0"]
    (old / f"{topic}-0").rename(old / f"{topic}-7")
    shutil.copytree(old / f"{topic}-7", old / f"{topic}-0")
    text = restore(tmp_path, *words, "--from-log-dir", str(old))[1]
    assert f"{topic}-0: left out: " in text
    assert f"{topic}: 1 more left out" in text
    assert "mail-0: already restored in" in text
    if topic == "__transaction_state":
        status, text, _ = restore(tmp_path, str(old / f"{topic}-0"), *words, "--topic", topic)
        assert status == CLEAN
        assert f"{topic}-0: state of brokers: " in text
        assert (tmp_path / "out" / f"{topic}-0").exists()


def test_the_state_of_the_same_topic(tmp_path: Path, metadata: Path) -> None:
    """By its id; it comes from another disk of the cluster."""
    old = old_log_directory(tmp_path, {"__transaction_state-0": id_of(metadata, "__transaction_state")})
    words = ("-o", "out", "--metadata", str(metadata), "--from-log-dir", str(old))
    status, text, _ = restore(tmp_path, *words)
    assert status == CLEAN
    assert "__transaction_state-0: restored in" in text


def test_metadata_whose_newest_snapshot_is_damaged(tmp_path: Path, metadata: Path) -> None:
    """The older one counts where the log ends before it, and what may have changed since is said."""
    inner = metadata / "__cluster_metadata-0"
    newest = max(inner.glob("*.checkpoint"))
    newest.write_bytes(newest.read_bytes()[:80])
    old = old_log_directory(tmp_path, {"mail-0": ID})
    words = ("-o", "out", "--metadata", str(metadata), "--from-log-dir", str(old))
    # The log has all that the snapshot had.
    assert restore(tmp_path, *words)[::2] == (CLEAN, "")
    shutil.rmtree(tmp_path / "out")
    for log in inner.glob("*.log"):
        log.unlink()
    status, text, error = restore(tmp_path, *words)
    assert status == CLEAN
    assert "mail-0: restored in" in text
    assert f"{newest.name}: cannot be loaded" in error


def test_a_backup_in_the_source(tmp_path: Path, metadata: Path) -> None:
    old = old_log_directory(tmp_path, {"mail-0": ID, "mail-1": ID})
    (old / "meta.properties").write_text("version=1\ncluster.id=x\nnode.id=1\n")
    (tmp_path / "link").symlink_to(old)
    before = files(tmp_path)
    whole = ("-o", "out", "--metadata", str(metadata), "--from-log-dir", str(old))
    for backup in ("old", "old/backup", "link/backup", "old/mail-0/backup", "old/mail-1"):
        for words in (whole, (str(old / "mail-0"), "-o", "out", *ONE), (f"old/mail-0/{0:020}.log", "-o", "out", *ONE)):
            status, _, error = restore(tmp_path, *words, "--backup-dir", backup)
            assert (status, "is only read" in error) == (USAGE, True)
    assert files(tmp_path) == before
    assert restore(tmp_path, *whole, "--backup-dir", "backup")[0] == CLEAN


def test_another_kdump_is_no_broker(tmp_path: Path) -> None:
    """Its name stands in the message; whoever else holds the lock is called a broker."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "meta.properties").write_text("version=1\ncluster.id=x\nnode.id=1\n")
    holder = "import sys; from kdump.log.lock import DirectoryLock; DirectoryLock('out'); print(1, flush=True); input()"
    for name, said in (("kdump", "another kdump (process "), ("other", "a broker runs")):
        (tmp_path / name).write_text(holder)
        command = [sys.executable, str(tmp_path / name)]
        with subprocess.Popen(command, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdout
            process.stdout.readline()
            status, _, error = restore(tmp_path, str(SOURCE), "-o", "out", *ONE)
            process.kill()
        assert status != CLEAN
        assert said in error
