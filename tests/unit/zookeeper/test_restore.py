"""The trees of real clients and servers of ZooKeeper, against those that kdump restores."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path
from typing import Any
from zlib import adler32

import pytest

from kdump.codes import Codes, KdumpError
from kdump.zookeeper import restore as restoring
from kdump.zookeeper.datafiles import data_sets
from kdump.zookeeper.releases import release_of
from kdump.zookeeper.restore import RestoredTree, follows, last_zxid_at, restore, tree_at
from kdump.zookeeper.tree import ServerRelease, ZNodeTree
from kdump.zookeeper.txnlog import EndKind, TxnLog
from tests.harness.archives import unpack_cases
from tests.harness.zookeepercases import (
    as_client_may_see,
    by_path,
    damaged_truth,
    data_set,
    live_directory,
    live_moments,
    restored_directory,
    shown,
)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack_cases("zookeeper", tmp_path_factory.mktemp("cases"))


@pytest.fixture(scope="module")
def mutants(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack_cases("zookeepermutants", tmp_path_factory.mktemp("cases"))


@pytest.mark.slow
def test_live_trees(root: Path) -> None:
    moments = live_moments(root)
    assert len(moments) > 30
    for moment in moments:
        truth = json.loads(moment.read_text())
        nodes = {node["path"]: node for node in truth["nodes"]}
        files = data_set(live_directory(moment))
        zxid = int(truth["zxidAfter"], 16)
        found = tree_at(files, zxid)
        assert found.is_whole
        assert as_client_may_see(shown(found.tree), nodes) == nodes, moment
        assert last_zxid_at(files, truth["timeAfter"]) == zxid, moment


def test_restored_trees(root: Path) -> None:
    truths = sorted(root.glob("*/restored*.json"))
    assert len(truths) == 6
    for path in truths:
        truth = json.loads(path.read_text())
        found = restore(data_set(restored_directory(path)))
        assert shown(found.tree) == by_path(truth["nodes"]), path
        sessions = {hex(session % (1 << 64)): timeout for session, timeout in found.tree.sessions.items()}
        assert (found.last_zxid, sessions, found.failure) == (truth["lastZxid"], truth["sessions"], None)
        if found.tree.release > ServerRelease.V33:
            assert found.replayed == truth["replayed"]


def test_damaged_directories(root: Path) -> None:
    cases = sorted((root / "damaged").glob("*/restored.json"))
    assert len(cases) == 64
    for path in cases:
        truth = json.loads(path.read_text())
        found = restore(data_set(path.parent))
        assert shown(found.tree) == damaged_truth(root, truth), path
        assert found.replayed == truth["replayed"], path
        exception = (truth["exception"] or "").replace("DIR", str(path.parent))
        assert exception.startswith(found.failure or ""), path
        assert (found.failure is None) == (truth["exception"] is None), path
        if found.failure is None:
            assert found.last_zxid == truth["lastZxid"], path


def test_digests(root: Path) -> None:
    """The digest of the tree after each transaction is the one that ZooKeeper wrote beside it."""
    tree = ZNodeTree.initial(ServerRelease.V36)
    seen = 0
    for file in data_set(root / "3.9.1" / "data").logs:
        for entry in TxnLog.of(file, ServerRelease.V36).entries():
            tree.apply(entry.transaction)
            if entry.transaction.digest is not None:
                seen += 1
                assert tree.digest() == entry.transaction.digest
    assert seen == 147


def test_releases(root: Path) -> None:
    found = {name: release_of(data_set(root / name / "data")) for name in ("0.7.0", "1.1.1", "3.9.1")}
    assert found == {"0.7.0": ServerRelease.V33, "1.1.1": ServerRelease.V34, "3.9.1": ServerRelease.V36}
    # Snapshots alone tell it too.
    for name, release in found.items():
        snapshots = sorted((root / name / "data" / "version-2").glob("snapshot.*"))
        for snapshot in snapshots:
            [alone] = data_sets([str(snapshot)])
            tells = snapshot.name != "snapshot.0" or release is ServerRelease.V36
            assert not tells or release_of(alone) == release, snapshot


def test_logs_of_their_own_directory(root: Path, tmp_path: Path) -> None:
    """Snapshots and logs may lie in two directories; single files make a set too."""
    whole = root / "3.9.1" / "data"
    for kind in ("log", "snapshot"):
        (tmp_path / kind / "version-2").mkdir(parents=True)
        for file in (whole / "version-2").glob(f"{kind}.*"):
            shutil.copy(file, tmp_path / kind / "version-2")
    [apart] = data_sets([str(tmp_path / "snapshot"), str(tmp_path / "log")])
    [single] = data_sets([str(file) for file in sorted((whole / "version-2").iterdir())])
    truth = shown(restore(data_set(whole)).tree)
    assert shown(restore(apart).tree) == shown(restore(single).tree) == truth


def test_a_log_that_a_user_compressed(root: Path, tmp_path: Path) -> None:
    (tmp_path / "version-2").mkdir()
    for file in (root / "1.1.1" / "data" / "version-2").iterdir():
        (tmp_path / "version-2" / f"{file.name}.gz").write_bytes(gzip.compress(file.read_bytes()))
    assert shown(tree_at(data_set(tmp_path), 0x2F0).tree) == shown(
        tree_at(data_set(root / "1.1.1" / "data"), 0x2F0).tree
    )


def test_before_the_files(root: Path, tmp_path: Path) -> None:
    (tmp_path / "version-2").mkdir()
    for name in ("snapshot.b9", "log.ba"):
        shutil.copy(root / "3.9.1" / "data" / "version-2" / name, tmp_path / "version-2")
    files = data_set(tmp_path)
    for zxid in (0, 0xB8):
        with pytest.raises(KdumpError) as caught:
            tree_at(files, zxid)
        assert caught.value.code is Codes.ZOOKEEPER_STATE
    assert tree_at(files, 0xB9).replayed == 0
    assert tree_at(files, 0xBB).replayed == 2


def test_a_gap_in_the_logs_is_told(root: Path, tmp_path: Path) -> None:
    """Without the log in the middle a replay from the older snapshot has a gap, so the newer one is taken."""
    shutil.copytree(root / "3.9.1" / "data", tmp_path, dirs_exist_ok=True)
    (tmp_path / "version-2" / "log.77").unlink()
    found = tree_at(data_set(tmp_path), 0xBE)
    assert found.is_whole
    assert found.snapshot is not None
    assert found.snapshot.file_name == "snapshot.b9"
    between = tree_at(data_set(tmp_path), 0xB0)
    assert (between.last_zxid, between.failure) == (0x76, None)


def test_a_gap_after_many_snapshots_is_replayed_a_few_times(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each replay reads the logs, and an older snapshot has the same gap."""
    source = root / "3.9.1" / "data"
    shutil.copytree(source, tmp_path, dirs_exist_ok=True)
    (tmp_path / "version-2" / "log.77").unlink()
    snapshots = sorted((tmp_path / "version-2").glob("snapshot.*"))
    content = snapshots[0].read_bytes()
    for path in snapshots:
        path.unlink()
    for zxid in range(1, 40):
        (tmp_path / "version-2" / f"snapshot.{zxid:x}").write_bytes(content)
    replays: list[int] = []
    replay = restoring._replay

    def counted(found: RestoredTree, *words: Any) -> None:
        replays.append(found.last_zxid)
        replay(found, *words)

    monkeypatch.setattr(restoring, "_replay", counted)
    found = tree_at(data_set(tmp_path), 0xBE)
    assert len(replays) == 4
    assert not found.is_whole


def test_the_list_of_servers(root: Path, tmp_path: Path) -> None:
    """A server of an ensemble sets it without a transaction: it is in later snapshots only."""
    shutil.copytree(root / "3.9.1" / "data", tmp_path, dirs_exist_ok=True)
    snapshot = tmp_path / "version-2" / "snapshot.b9"
    data = snapshot.read_bytes()
    servers = b"server.1=a:1:2:participant"
    start = data.index(b"/zookeeper/config") + len(b"/zookeeper/config")
    body = data[:start] + len(servers).to_bytes(4, "big") + servers + data[start + 4 : len(data) - 46]
    content = body + adler32(body).to_bytes(8, "big") + b"\0\0\0\1/"
    snapshot.write_bytes(content)
    found = tree_at(data_set(tmp_path), 0xB0).tree
    assert found.nodes["/zookeeper/config"].data == servers
    without = tree_at(data_set(root / "3.9.1" / "data"), 0xB0).tree
    assert without.nodes["/zookeeper/config"].data == b""
    del found.nodes["/zookeeper/config"], without.nodes["/zookeeper/config"]
    assert found.digest() == without.digest()


@pytest.mark.parametrize(
    ("zxid", "before", "expected"),
    [(2, 1, True), (3, 1, False), (1 << 32 | 1, 77, True), (1 << 32 | 2, 77, False), (5, 5, False)],
)
def test_follows(zxid: int, before: int, expected: bool) -> None:
    assert follows(zxid, before) is expected


def test_every_cut_of_a_log_ends_quietly(root: Path) -> None:
    data = (root / "3.9.1" / "data" / "version-2" / "log.ba").read_bytes().rstrip(b"\0")
    whole = list(TxnLog(data, ServerRelease.V36).entries())
    for size in range(16, len(data)):
        log = TxnLog(data[:size], ServerRelease.V36)
        found = list(log.entries())
        assert found == whole[: len(found)]
        assert log.end.kind is not EndKind.FAILURE


@pytest.mark.slow
def test_every_flipped_byte_of_a_file_is_no_traceback(root: Path, tmp_path: Path) -> None:
    (tmp_path / "version-2").mkdir()
    for name in ("snapshot.b9", "log.ba"):
        data = (root / "3.9.1" / "data" / "version-2" / name).read_bytes().rstrip(b"\0")
        for other in ("snapshot.b9", "log.ba"):
            shutil.copy(root / "3.9.1" / "data" / "version-2" / other, tmp_path / "version-2")
        for position in range(0, len(data), 37):
            damaged = bytearray(data)
            damaged[position] ^= 0x80
            (tmp_path / "version-2" / name).write_bytes(damaged)
            restore(data_set(tmp_path))


@pytest.mark.parametrize(
    ("version", "release"), [("3.4.6", ServerRelease.V34), ("3.5.9", ServerRelease.V35), ("3.8.4", ServerRelease.V36)]
)
@pytest.mark.slow
def test_mutants(mutants: Path, version: str, release: ServerRelease) -> None:
    """Directories with random damage, against what the real FileTxnSnapLog restores of them."""
    truths = sorted((mutants / version).glob("*.truth"))
    assert len(truths) == 25
    for truth in truths:
        head, *nodes = truth.read_text().splitlines()
        last, replayed, exception, sessions = head.split("\t")
        found = restore(data_set(truth.with_suffix("")))
        assert found.tree.release is release, truth
        assert sorted(map(line_of, shown(found.tree).values())) == sorted(nodes), truth
        assert found.replayed == int(replayed), truth
        assert (
            sessions == f"{{{', '.join(f'{one}={timeout}' for one, timeout in sorted(found.tree.sessions.items()))}}}"
        )
        if found.failure is None:
            assert (exception, int(last)) == ("-", found.last_zxid), truth
        else:
            assert exception.replace("DIR", str(truth.with_suffix(""))).startswith(found.failure), truth


def line_of(node: dict[str, Any]) -> str:
    names = ("czxid", "mzxid", "pzxid", "ctime", "mtime", "version", "cversion", "aversion", "ephemeralOwner")
    numbers = ",".join(str(node[name]) for name in (*names, "numChildren"))
    acl = "".join(f"{rule['perms']}:{rule['scheme']}:{rule['id']};" for rule in node["acl"])
    return f"{node['path']}|{'null' if node['data'] is None else node['data']}|{numbers}|{acl}"
