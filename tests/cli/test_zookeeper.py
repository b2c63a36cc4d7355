"""Files of ZooKeeper: ``kdump state``, ``dump`` and ``verify``, as a process."""

from __future__ import annotations

import base64
import json
import shutil
import struct
from pathlib import Path
from typing import Any
from zlib import adler32

import pytest

from tests.harness.archives import unpack_cases
from tests.harness.batches import plain_rows, v2_batch
from tests.harness.cli_runs import CLEAN, DAMAGE, UNREADABLE, USAGE, kdump
from tests.harness.zookeepercases import Nodes, as_client_may_see, by_path, restored_directory


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack_cases("zookeeper", tmp_path_factory.mktemp("cases"))


def run(*words: str, cwd: Path) -> tuple[int, str, str]:
    """Exit status, stdout, stderr."""
    done = kdump(*words, cwd=cwd)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def rows(*words: str, cwd: Path, status: int = CLEAN) -> list[dict[str, Any]]:
    code, out, _ = run(*words, cwd=cwd)
    assert code == status
    return [json.loads(line) for line in out.splitlines()]


def records(*words: str, cwd: Path) -> Nodes:
    return by_path(rows("state", *words, "--output", "records", cwd=cwd))


@pytest.mark.parametrize("name", ["0.7.0/live/11-weird", "1.1.1/live/05-offsets", "3.9.1/live/03-weird"])
def test_records_at_a_moment(root: Path, name: str) -> None:
    moment = json.loads((root / f"{name}.json").read_text())
    truth = {node["path"]: node for node in moment["nodes"]}
    directory = name.partition("/")[0] + "/data"
    zxid = moment["zxidAfter"]
    for point in (["--at-zxid", zxid], ["--at-zxid", str(int(zxid, 16))], ["--at", str(moment["timeAfter"])]):
        found = records(*point, "--show-secrets", directory, cwd=root)
        assert as_client_may_see(found, truth) == truth


def test_records_now(root: Path) -> None:
    for truth in sorted(root.glob("*/restored*.json")):
        nodes = by_path(json.loads(truth.read_text())["nodes"])
        assert records("--at", "now", "--show-secrets", str(restored_directory(truth)), cwd=root) == nodes


def test_secrets_are_hidden(root: Path) -> None:
    def text(nodes: Nodes) -> str:
        return "".join(base64.b64decode(node["data"] or "").decode("utf-8", "replace") for node in nodes.values())

    point = ("--at-zxid", "0x6f", "3.9.1/data")
    assert "stored_key=" in text(records("--show-secrets", *point, cwd=root))
    hidden = records(*point, cwd=root)
    assert "stored_key=" not in text(hidden)
    user = json.loads(base64.b64decode(hidden["/config/users/alice"]["data"]))
    assert "[redacted]" in user["config"].values()
    weird = records("--at-zxid", "0x48e", "0.7.0/data", cwd=root)
    assert weird["/weird/acl"]["acl"] == [{"perms": 31, "scheme": "digest", "id": "u:x"}]
    for output in ("kafka", "jsonl", "csv"):
        file = "3.9.1/data/version-2/log.1"
        assert "stored_key=" not in run("dump", "--output", output, file, cwd=root)[1]
        assert "stored_key=" in run("dump", "--output", output, "--show-secrets", file, cwd=root)[1]


def test_rows_and_page(root: Path) -> None:
    head, *found = rows("state", "--at", "now", "--output", "jsonl", "1.1.1/data-running", cwd=root)
    assert (head["type"], head["zxid"], head["snapshot"], head["failure"]) == ("zookeeper", 749, "snapshot.1b7", None)
    assert [row["type"] for row in found[:3]] == ["session", "session", "cluster"]
    status, page, errors = run("state", "--at", "now", "1.1.1/data-running", cwd=root)
    assert (status, errors) == (CLEAN, "")
    assert page.startswith("1.1.1/data-running after zxid 0x2ed")
    assert "2 sessions" in page
    assert "/chroot" in page


def test_a_damaged_directory(root: Path) -> None:
    """What was restored before the damage is shown, and the exit status says that it is not all."""
    directory = "damaged/z384-log-mid-flip"
    status, out, errors = run("state", "--at", "now", "--output", "records", directory, cwd=root)
    assert (status, len(out.splitlines())) == (DAMAGE, 76)
    assert "KD446 zookeeper-no-start" in errors
    found = rows("state", "--at", "now", "--output", "jsonl", directory, cwd=root, status=DAMAGE)
    assert (found[0]["failure"], found[-1]["code"]) == ("java.io.IOException: CRC check failed", "KD446")


def test_before_the_files(root: Path) -> None:
    status, out, errors = run("state", "--at-zxid", "0x10", "3.9.1/data/version-2/snapshot.75", cwd=root)
    assert (status, out) == (UNREADABLE, "")
    assert "do not go back to zxid 0x10" in errors


@pytest.mark.parametrize(
    "words",
    [
        ("stats", "3.9.1/data"),
        ("state", "--at-zxid", "x", "3.9.1/data"),
        ("state", "--at-zxid", "1", "3.9.1"),
        ("state", "--at", "now", "--output", "commands", "3.9.1/data"),
        ("state", "--history", "group=g1", "3.9.1/data", "3.9.1"),
        ("state", "--output", "records", "3.9.1/data", "3.9.1"),
        ("dump", "--offset", "1:2", "3.9.1/data"),
        ("dump", "3.9.1/data", "3.9.1"),
        ("dump", "--show-secrets", "3.9.1"),
        ("state", "--history", "group=g1", "--output", "reset-csv", "3.9.1/data"),
        ("state", "--at", "now", "--decode", "auto", "3.9.1/data"),
    ],
)
def test_what_does_not_go_together(root: Path, words: tuple[str, ...]) -> None:
    assert run(*words, cwd=root)[0] == USAGE


@pytest.mark.parametrize(
    "words", [("diff", "3.9.1/data", "1.1.1/data"), ("explain", "3.9.1/data/version-2/snapshot.75", "0")]
)
def test_what_takes_no_files_of_zookeeper(root: Path, words: tuple[str, ...]) -> None:
    """They are not taken for something else."""
    status, out, errors = run(*words, cwd=root)
    assert (status, out, errors.count("of ZooKeeper")) == (UNREADABLE, "", len(words) - 1 if "diff" in words else 1)


def test_dump_of_a_log(root: Path) -> None:
    found = rows("dump", "--output", "jsonl", "3.9.1/data/version-2/log.77", cwd=root)
    assert [row["zxid"] for row in found] == list(range(0x77, 0xBA))
    multi = next(row for row in found if row["zxid"] == 142)
    assert [part["operation"] for part in multi["operations"]] == ["create", "delete"]
    ttl = next(row for row in found if row["operation"] == "createTTL")
    assert (ttl["path"], ttl["ttl"], ttl["data"]) == ("/weird/ttl", 600000, "x")
    text = run("dump", "3.9.1/data/version-2/log.77", cwd=root)[1].splitlines()
    assert len(text) == len(found) + 1
    assert "zxid: 0x77 " in text[1]
    table = run("dump", "--output", "table", "-n", "2", "3.9.1/data/version-2/log.77", cwd=root)[1]
    assert "transaction" in table.splitlines()[0]


def test_dump_of_snapshots(root: Path) -> None:
    for directory in ("data-snap-gz", "data-snap-snappy"):
        found = rows("dump", "--output", "jsonl", f"3.9.1/{directory}", cwd=root)
        kinds = [row["type"] for row in found]
        assert kinds[0] == "node"
        assert kinds[-1] == "transaction"
    status, out, _ = run(
        "dump", "--output", "csv", "--fields", "path,version", "1.1.1/data/version-2/snapshot.e3", cwd=root
    )
    assert (status, out.splitlines()[0]) == (CLEAN, "path,version")


def test_dump_of_a_damaged_log(root: Path) -> None:
    log = "damaged/z384-log-mid-flip/version-2/log.ba"
    found = rows("dump", "--output", "jsonl", log, cwd=root, status=DAMAGE)
    assert [row.get("zxid", row.get("code")) for row in found] == [0xBA, 0xBB, 0xBC, "KD441"]
    found = rows("dump", "--output", "jsonl", "--resync", log, cwd=root, status=DAMAGE)
    assert [row.get("zxid", row.get("code")) for row in found] == [0xBA, 0xBB, 0xBC, 0xBE, 0xBF, "KD441"]


def codes(directory: str, root: Path) -> tuple[int, list[str]]:
    status, out, _ = run("verify", "--output", "jsonl", directory, cwd=root)
    return status, [json.loads(line)["code"] for line in out.splitlines()]


@pytest.mark.parametrize(
    ("case", "status", "expected"),
    [
        ("ok", CLEAN, ["KD449"]),
        ("log-mid-flip", DAMAGE, ["KD441", "KD445", "KD446"]),
        ("log-mid-len0", DAMAGE, ["KD442", "KD445", "KD449"]),
        ("log-torn-half", CLEAN, ["KD442", "KD449"]),
        ("log-magic", DAMAGE, ["KD441", "KD445", "KD446"]),
        ("log-middle-gone", DAMAGE, ["KD444", "KD449"]),
        ("log-dup", CLEAN, ["KD444", "KD449"]),
        ("snap-crc", DAMAGE, ["KD443", "KD449"]),
        ("snap-empty", DAMAGE, ["KD443", "KD449"]),
        ("snap-all-gone", DAMAGE, ["KD446"]),
        ("snap-name-higher", DAMAGE, ["KD447", "KD449"]),
        ("log-missing-txn", DAMAGE, ["KD444", "KD444", "KD447", "KD449"]),
        ("empty-dir", CLEAN, ["KD449"]),
    ],
)
def test_verify(root: Path, case: str, status: int, expected: list[str]) -> None:
    assert codes(f"damaged/z384-{case}", root) == (status, expected)


def test_verify_of_sound_directories(root: Path) -> None:
    for directory in ("0.7.0/data", "1.1.1/data", "1.1.1/data-running", "3.9.1/data", "3.9.1/data-snap-gz"):
        assert codes(directory, root) == (CLEAN, ["KD449"])
    assert codes("3.9.1/data/version-2/log.77", root) == (CLEAN, [])
    assert codes("3.9.1/data-snap-gz/version-2/snapshot.c.gz", root) == (CLEAN, [])
    _, out, _ = run("verify", "3.9.1/data", cwd=root)
    assert "ZooKeeper restores 74 nodes and 0 sessions up to zxid 0xbf, from snapshot.b9 and 6 transactions" in out


def test_verify_of_a_server_with_its_logs_elsewhere(root: Path, tmp_path: Path) -> None:
    for file in (root / "3.9.1/data/version-2").iterdir():
        folder = tmp_path / file.name.partition(".")[0]
        folder.mkdir(exist_ok=True)
        shutil.copy(file, folder)
    for paths in (("snapshot", "log"), ("log", "snapshot")):
        status, out, errors = run("verify", *paths, "missing", cwd=tmp_path)
        (restored,) = [line for line in out.splitlines() if "KD449" in line]
        assert restored.startswith(f"{paths[0]}: info")
        assert "up to zxid 0xbf, from snapshot.b9 and 6 transactions" in restored
        assert (status, errors.count("missing")) == (UNREADABLE, 1)
    assert "from snapshot.b9 and 0 transactions" in run("verify", "snapshot", cwd=tmp_path)[1]


def test_every_command_refuses_or_reads_every_damaged_file(root: Path) -> None:
    """Nothing ends in a traceback."""
    for command in (["dump", "--output", "jsonl"], ["verify"]):
        files = sorted(str(path) for path in (root / "damaged").glob("*/version-2/[ls]*"))
        status, _, errors = run(*command, *files[:200], cwd=root)
        assert status in (DAMAGE, UNREADABLE, USAGE)
        assert "internal error" not in errors


def test_a_group_that_is_not_there(root: Path) -> None:
    run = kdump("state", "--history", "group=nope", "1.1.1/data", cwd=root)
    assert (run.returncode, run.stdout) == (CLEAN, b"")
    assert run.stderr == b"kdump: 1.1.1/data: no change that was asked for is there\n"


def test_offsets_of_a_group_over_time(root: Path) -> None:
    found = rows("state", "--history", "group=g1", "--output", "jsonl", "1.1.1/data", cwd=root)
    path = "/chroot/kafka/consumers/g1/offsets/t-b/0"
    history = [(row["operation"], row["data"]) for row in found if row["path"] == path]
    assert history[0][0] == "create"
    assert history[-1] == ("set", "2")
    assert all("/consumers/g1" in row["path"] for row in found)
    assert any(row["operation"] == "expire" and row["ephemeral"] for row in found)
    start, end = found[3]["timestamp"], found[9]["timestamp"]
    part = rows(
        "state", "--history", "group=g1", "--between", f"{start}..{end}", "--output", "jsonl", "1.1.1/data", cwd=root
    )
    assert part == [row for row in found if start <= row["timestamp"] < end]
    status, text, errors = run("state", "--history", "topic=t-del", "1.1.1/data", cwd=root)
    assert (status, errors) == (CLEAN, "")
    assert "create /chroot/kafka/admin/delete_topics/t-del" in text
    assert run("state", "--history", "group=g1", "1.1.1", cwd=root)[0] == USAGE


def acl_directory(folder: Path, rules: int, nodes: int) -> Path:
    """A data directory: nodes of a snapshot share one ACL, and one transaction sets it."""
    names = (b'u\xff%02d:"\n\x9b' % (number % 100) for number in range(rules))
    stored = [struct.pack(">ii6si8s", number, 6, b"digest", 8, name) for number, name in enumerate(names)]
    acl = b"".join((struct.pack(">i", rules), *stored))
    parts = [struct.pack(">iiqiiq", 0x5A4B534E, 2, -1, 0, 1, 1), acl]
    paths = [b"", *(b"/%03d" % number for number in range(nodes))]
    parts += (struct.pack(f">i{len(path)}siq", len(path), path, -1, 1) + bytes(60) for path in paths)
    content = b"".join(parts) + b"\0\0\0\1/"
    (folder / "version-2").mkdir()
    (folder / "version-2/snapshot.0").write_bytes(content + struct.pack(">q", adler32(content)) + b"\0\0\0\1/")
    body = struct.pack(">qiqqii4s", 1, 0, 1, 0, 7, 4, b"/000") + acl + struct.pack(">i", 1)
    entry = struct.pack(">qi", adler32(body), len(body)) + body + b"B"
    (folder / "version-2/log.1").write_bytes(struct.pack(">iiq", 0x5A4B4C47, 2, 0) + entry)
    return folder


def test_committed_offsets_to_reset_a_group(root: Path) -> None:
    status, out, errors = run("state", "--at-zxid", "0x27b", "--output", "reset-csv", "1.1.1/data", cwd=root)
    offsets = rows("state", "--at-zxid", "0x27b", "--output", "jsonl", "1.1.1/data", cwd=root)
    wanted = [f"{row['group']},{row['topic']},{row['partition']},{row['offset']}" for row in offsets if "offset" in row]
    assert (status, out.splitlines(), errors) == (CLEAN, wanted, "")
    assert "g1,t-a,0,60" in wanted
    _, out, errors = run("state", "--output", "reset-csv", "0.7.0/data", cwd=root)
    assert (out, errors.startswith("kdump: 27 offsets left out")) == ("", True)


def test_the_lag_of_a_group_whose_logs_are_named(root: Path, tmp_path: Path) -> None:
    log = tmp_path / "logs" / "t-a-0" / f"{0:020}.log"
    log.parent.mkdir(parents=True)
    log.write_bytes(v2_batch(plain_rows(75)))
    named = ("state", "--output", "jsonl", "1.1.1/data")
    found = {
        (row["group"], row["topic"], row["partition"]): row
        for row in rows(*named, str(log.parents[1]), cwd=root)
        if row["type"] == "offset"
    }
    row = found["g1", "t-a", 0]
    assert (row["offset"], row["logStartOffset"], row["logEndOffset"], row["lag"]) == (60, 0, 75, 15)
    assert found["g1", "t-a", 1]["lag"] is None
    assert not any("lag" in row for row in rows(*named, cwd=root))
    assert "15" in run("state", "1.1.1/data", str(log.parents[1]), cwd=root)[1]
    assert run("state", "1.1.1/data", "nowhere", cwd=root)[0] == UNREADABLE


def test_a_cluster_and_its_consumers(root: Path) -> None:
    found = rows("state", "--at-zxid", "0x1dc", "--output", "jsonl", "1.1.1/data", cwd=root)
    assert [row for row in found if row["type"] == "cluster"] == [
        {"type": "cluster", "root": "/chroot/kafka", "clusterId": "t668zkKaS-6IGGZFk0pJjw"}
    ]
    static = next(row for row in found if row["type"] == "consumer" and row["pattern"] == "static")
    told = json.loads(static["subscription"])
    assert (static["topics"], static["version"]) == (told["subscription"], 1)
    assert static["timestamp"] == int(told["timestamp"])
    old = rows("state", "--at-zxid", "0x1d0", "--output", "jsonl", "0.7.0/data", cwd=root)
    topics = {row["id"]: (row["topics"], row["pattern"]) for row in old if row["type"] == "consumer"}
    assert topics["g1_c1"] == ({"events": 2, "gzip": 1}, "static")
    assert topics["g2_vm-1795351232383-67e2b275"] == ({"ev.*|multi": 2}, "white_list")
    assert not any(row["type"] == "cluster" for row in old)
