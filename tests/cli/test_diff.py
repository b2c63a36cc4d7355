"""``kdump diff`` on the command line: outputs, exit statuses, manifests, stores, and what is not there."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import pytest

from tests.harness import s3server
from tests.harness.cli_runs import CLEAN, DAMAGE, UNREADABLE, USAGE, kdump
from tests.harness.examples import sparse
from tests.harness.replicas import MadeBatch, Truth, make_copy, make_log_directory

LOCAL = ("--engine", "local")


def lines(*words: str, cwd: Path, status: int = CLEAN) -> list[dict[str, Any]]:
    run = kdump("diff", *LOCAL, "--output", "jsonl", *words, cwd=cwd)
    assert (run.returncode, run.stderr) == (status, b"")
    return [json.loads(line) for line in run.stdout.splitlines()]


def of_type(kind: str, found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in line.items() if name != "type"} for line in found if line["type"] == kind]


def row(*bases: int, epoch: int = 0) -> list[MadeBatch]:
    return [MadeBatch(base, epoch=epoch, value=b"of epoch %d" % epoch) for base in bases]


@pytest.fixture
def parted(tmp_path: Path) -> Path:
    """Log directories of two nodes whose histories parted at offset 5."""
    for node, batches in ((1, row(5, 10, epoch=1)), (2, row(5, epoch=2))):
        folder = make_log_directory(
            tmp_path / f"n{node}",
            node=node,
            offsets={
                "replication-offset-checkpoint": {("t", 0): 5},
                "recovery-point-offset-checkpoint": {("t", 0): 15},
            },
        )
        make_copy(folder / "t-0", [[*row(0), *batches]], epochs=[(0, 0), (node, 5)])
    make_copy(tmp_path / "n2" / "u-3", [row(0)])
    return tmp_path


def test_json_lines(parted: Path) -> None:
    found = lines("n1", "n2", cwd=parted, status=DAMAGE)
    copies = of_type("copy", found)
    assert copies[0] == {
        **{"topic": "t", "partition": 0, "copy": "n1", "logStart": 0, "logEnd": 15, "highWatermark": 5},
        **{"epochs": [[0, 0], [1, 5]], "topicId": "A5THfWO6RnCFvJyvQ0gEvg", "clusterId": "abcdefghijklmnopqrstuv"},
        **{"nodeId": 1, "isDamaged": False, "isFuture": False, "directory": "n1/t-0"},
    }
    assert [copy["copy"] for copy in copies] == ["n1", "n2", "n2"]
    assert of_type("absent", found) == [{"topic": "u", "partition": 3, "copy": "n1"}]
    differences = of_type("difference", found)
    assert [(one["kind"], one["firstOffset"], one["lastOffset"], one["copies"]) for one in differences] == [
        ("leader-epoch", 5, 9, ["n1", "n2"]),
        ("tail", 10, 14, ["n1"]),
    ]
    assert [(one["code"], one["severity"], one["explained"]) for one in differences] == [
        ("KD902", "error", False),
        ("KD908", "error", False),
    ]
    assert of_type("truncation", found) == [
        {
            **{"topic": "t", "partition": 0, "leader": leader, "follower": follower, "truncationOffset": 5},
            **{"recordsLost": lost, "recordsLostRanges": [[5, 4 + lost]], "loops": False, "fails": False},
            **{"refused": False},
            **{"recordsNowhereElse": lost, "recordsNowhereElseRanges": [[5, 4 + lost]]},
        }
        for leader, follower, lost in (("n1", "n2", 5), ("n2", "n1", 10))
    ]
    (best,) = of_type("recommendation", found)
    assert (best["copy"], best["recordsLost"]) == ("n1", 5)


def test_page(parted: Path) -> None:
    run = kdump("diff", *LOCAL, "n1", "n2", cwd=parted)
    text = run.stdout.decode()
    assert run.returncode == DAMAGE
    assert "t-0: 2 copies, offsets 0..4 are equal in all, 2 findings" in text
    assert (
        "error KD902 copy-epoch n1, n2: offsets 5..9: 5 records with the same offset under another leader epoch" in text
    )
    assert "if n2 leads, n1 truncates to 5 and loses 10 records, 10 of them nowhere else" in text
    assert "keep n1: as the leader it costs 5 records, 5 of them nowhere else" in text
    assert "u-3: 1 copy, offsets 0..4; not in n1" in text
    assert text.endswith("\n2 partitions: 1 with findings, 1 with a single copy\n")


def test_the_page_tells_which_copies_agree(tmp_path: Path) -> None:
    for name, value in (("a", b"x"), ("b", b"y"), ("c", b"x")):
        make_copy(tmp_path / name / "t-0", [[*row(0), MadeBatch(5, value=value)]])
    words = ("a/t-0", "b/t-0", "c/t-0")
    text = kdump("diff", *LOCAL, *words, cwd=tmp_path).stdout.decode()
    assert "copy-record b/t-0 against a/t-0, c/t-0: offsets 5..9: 5 records with the same offset" in text
    assert "keep a/t-0: as the leader it costs no record\n" in text
    (one,) = of_type("difference", lines(*words, cwd=tmp_path, status=DAMAGE))
    assert (one["copies"], one["message"].endswith("another content: b/t-0 against a/t-0, c/t-0")) == ([*words], True)


def test_copies_of_different_topics(tmp_path: Path) -> None:
    make_copy(tmp_path / "a" / "t-0", [row(0, 5)])
    make_copy(tmp_path / "b" / "t-0", [row(0), row(5)], topic_id="B5THfWO6RnCFvJyvQ0gEvg")
    text = kdump("diff", *LOCAL, "a/t-0", "b/t-0", cwd=tmp_path).stdout.decode()
    assert "t-0: 2 copies of different topics, 1 finding\n" in text
    assert not any(word in text for word in ("leads", "keep", "equal", "segment"))
    found = lines("a/t-0", "b/t-0", cwd=tmp_path, status=DAMAGE)
    assert [one["equalTo"] for one in of_type("common", found)] == [None]
    assert [one["refused"] for one in of_type("truncation", found)] == [True, True]


def test_an_empty_copy(tmp_path: Path) -> None:
    (tmp_path / "logs" / "t-0").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    make_copy(tmp_path / "other" / "u-0", [row(0)])
    text = kdump("diff", *LOCAL, "logs", "other", cwd=tmp_path).stdout.decode()
    assert text.splitlines() == [
        "t-0: 1 copy, empty; not in other",
        "u-0: 1 copy, offsets 0..4; not in logs",
        "2 partitions: 2 with a single copy",
    ]


def test_logs_of_kafka_07_are_not_compared(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name / "old-0").mkdir(parents=True)
        (tmp_path / name / "old-0" / f"{0:020}.kafka").write_bytes(b"")
    for paths in (("a", "b"), ("a/old-0", "b/old-0")):
        run = kdump("diff", *LOCAL, *paths, cwd=tmp_path)
        assert (run.returncode, run.stdout) == (UNREADABLE, b"")
        assert run.stderr.count(b"old-0: logs of Kafka 0.7 are not compared\n") == len(paths)
    make_copy(tmp_path / "b" / "t-0", [row(0)])
    run = kdump("diff", *LOCAL, "a", "b", cwd=tmp_path)
    assert (run.returncode, run.stdout) == (UNREADABLE, b"t-0: 1 copy, offsets 0..4; not in a\n")


def test_long_values_are_cut_where_they_begin_to_differ(tmp_path: Path) -> None:
    make_copy(tmp_path / "a" / "t-0", [[MadeBatch(0, 1, value=b"v" * 500 + b"one" + b"w" * 500)]])
    make_copy(tmp_path / "b" / "t-0", [[MadeBatch(0, 1, value=b"v" * 500 + b"two" + b"w" * 500)]])
    text = kdump("diff", *LOCAL, "--records", "a/t-0", "b/t-0", cwd=tmp_path).stdout.decode()
    for value in ("one", "two"):
        assert f'key "key-0"  value ...{"v" * 20}{value}{"w" * 37}...\n' in text


def test_equal_copies_take_a_line(parted: Path) -> None:
    run = kdump("diff", *LOCAL, "n2/u-3", "n2/u-3", cwd=parted)
    assert (run.returncode, run.stdout) == (CLEAN, b"u-3: 2 copies, offsets 0..4 are equal\n")
    assert b"high watermark" in kdump("diff", *LOCAL, "-v", "n2/u-3", "n2/u-3", cwd=parted).stdout


def test_junit(parted: Path) -> None:
    run = kdump("diff", *LOCAL, "--output", "junit", "n1", "n2", cwd=parted)
    root = Xml.fromstring(run.stdout)
    assert run.returncode == DAMAGE
    assert (root.get("name"), root.get("tests"), root.get("failures")) == ("kdump diff", "3", "1")
    failed = [case.get("name") for case in root.iter("testcase") if case.find("failure") is not None]
    assert failed == ["t-0"]


def test_records(tmp_path: Path) -> None:
    make_copy(tmp_path / "a" / "t-0", [row(0, 5)])
    make_copy(tmp_path / "b" / "t-0", [[*row(0), MadeBatch(5, 1, value=b"other")]])
    records = of_type("record", lines("--records", "a/t-0", "b/t-0", cwd=tmp_path, status=DAMAGE))
    assert [(one["offset"], one["kind"], one["copies"]) for one in records] == [(5, "record", ["a/t-0", "b/t-0"])]
    assert [one["value"] for one in records[0]["records"]] == ["of epoch 0", "other"]
    text = kdump("diff", *LOCAL, "--records", "a/t-0", "b/t-0", cwd=tmp_path).stdout.decode()
    assert 'b/t-0  epoch 0  time 1700000000000  key "key-0"  value "other"' in text


def test_content(tmp_path: Path) -> None:
    """Of copies that are no replicas only the records count."""
    make_copy(tmp_path / "a" / "t-0", [row(0, 5)])
    value = b"of epoch 0"
    first = MadeBatch(0, epoch=7, header={"producer_id": 4, "base_sequence": 0}, value=value)
    mirrored = [[first, MadeBatch(5, epoch=7, value=value)]]
    make_copy(tmp_path / "b" / "t-0", mirrored, topic_id="B5THfWO6RnCFvJyvQ0gEvg")
    assert kdump("diff", *LOCAL, "a/t-0", "b/t-0", cwd=tmp_path).returncode == DAMAGE
    found = lines("--content", "a/t-0", "b/t-0", cwd=tmp_path)
    assert [one["kind"] for one in of_type("difference", found)] == ["rewritten"]
    assert not of_type("truncation", found)


def test_strict(tmp_path: Path) -> None:
    for name in ("a", "b"):
        make_copy(tmp_path / name / "t-0", [row(0)])
        make_log_directory(tmp_path / name, node=1, cluster=name * 22)
    assert kdump("diff", *LOCAL, "a/t-0", "b/t-0", cwd=tmp_path).returncode == CLEAN
    assert kdump("diff", *LOCAL, "--strict", "a/t-0", "b/t-0", cwd=tmp_path).returncode == DAMAGE


@pytest.mark.slow
def test_jobs_give_the_same(replicas: Truth) -> None:
    nodes = sorted(path.name for path in (replicas.root / "p4-epochs").iterdir())
    words = ["diff", *LOCAL, "--output", "jsonl", "--records", *nodes]
    one = kdump(*words, cwd=replicas.root / "p4-epochs")
    assert kdump(*words, "-j", "2", cwd=replicas.root / "p4-epochs").stdout == one.stdout
    assert one.returncode == DAMAGE


@pytest.mark.slow
def test_whole_healthy_brokers(replicas: Truth) -> None:
    nodes = sorted(path.name for path in (replicas.root / "p1-healthy").iterdir())
    found = lines(*nodes, cwd=replicas.root / "p1-healthy")
    assert all(one["explained"] for one in of_type("difference", found))
    assert len({(one["topic"], one["partition"]) for one in of_type("copy", found)}) > 20


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (["t-0", "missing"], UNREADABLE),
        (["t-0", "empty"], UNREADABLE),
        (["t-0", "-"], UNREADABLE),
        (["t-0"], USAGE),
        ([], USAGE),
        (["t-0", "t-0", "--output", "junit", "--records"], USAGE),
        (["t-0", "nothing-0"], CLEAN),
        (["logs", "logs"], CLEAN),
    ],
)
def test_exit_statuses(tmp_path: Path, words: list[str], status: int) -> None:
    make_copy(tmp_path / "t-0", [row(0)])
    for folder in ("empty", "nothing-0"):
        (tmp_path / folder).mkdir()
    make_log_directory(tmp_path / "logs", node=1)
    run = kdump("diff", *LOCAL, *words, cwd=tmp_path)
    assert run.returncode == status
    assert b"Traceback" not in run.stderr


@pytest.fixture
def listed(tmp_path: Path) -> Path:
    """A log directory and its manifest."""
    folder = make_log_directory(tmp_path / "n1", node=1, offsets={"recovery-point-offset-checkpoint": {("t", 0): 20}})
    make_copy(folder / "t-0", [row(0, 5), row(10, 15)])
    run = kdump("verify", "--quick", "--manifest", "manifest", "n1", cwd=tmp_path)
    assert (run.returncode, run.stderr) == (CLEAN, b"")
    return tmp_path


def test_a_manifest_is_read_by_sha256sum(listed: Path) -> None:
    subprocess.run(["sha256sum", "--check", "--strict", "--quiet", "manifest"], cwd=listed, check=True)
    remarks = [json.loads(line[2:]) for line in (listed / "manifest").read_text().splitlines() if line.startswith("# ")]
    (partition,) = [one for one in remarks if one["type"] == "partition"]
    assert (partition["logEnd"], partition["batches"], partition["records"]) == (20, 4, 20)
    assert {one["path"] for one in remarks if one["type"] == "file"} >= {"n1/meta.properties", f"n1/t-0/{0:020}.log"}


@pytest.mark.parametrize("name", ["log", "new.log", "meta.properties", "notes", ".lock"])
def test_a_manifest_takes_the_place_of_older_ones_only(listed: Path, name: str) -> None:
    folder = listed / "n1"
    (folder / "notes").write_text("precious\n")
    (folder / ".lock").touch()
    place = folder / {"log": f"t-0/{0:020}.log", "new.log": f"t-0/{7:020}.log"}.get(name, name)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    run = kdump("verify", "--quick", "--manifest", str(place), "n1", cwd=listed)
    assert (run.returncode, run.stdout) == (UNREADABLE, b"")
    assert run.stderr.decode() == f"kdump: {place}: is no place for a report: only an older one is written over\n"
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_a_manifest_takes_the_place_of_an_empty_file(listed: Path) -> None:
    older = (listed / "manifest").read_bytes()
    (listed / "empty").write_bytes(b"")
    for name in ("empty", "manifest"):
        assert kdump("verify", "--quick", "--manifest", name, "n1", cwd=listed).returncode == CLEAN
        assert (listed / name).read_bytes() == older


def test_a_manifest_in_what_it_lists(listed: Path) -> None:
    """It does not list itself, also where it replaces an older one."""
    folder = listed / "n1"
    for path in ("manifest", "./manifest", str(folder / "manifest")):
        assert kdump("verify", "--quick", "--manifest", path, ".", cwd=folder).returncode == CLEAN
        subprocess.run(["sha256sum", "--check", "--strict", "--quiet", "manifest"], cwd=folder, check=True)
        assert kdump("diff", *LOCAL, path, ".", cwd=folder).returncode == CLEAN
    # Another file of this name is one of the files.
    shutil.copy(folder / "manifest", folder / "t-0" / "manifest")
    assert [one["code"] for one in of_type("difference", lines("manifest", ".", cwd=folder))] == ["KD922"]


def test_nothing_changed(listed: Path) -> None:
    assert kdump("diff", *LOCAL, "manifest", "n1", cwd=listed).returncode == CLEAN
    shutil.move(listed / "n1", listed / "elsewhere")
    assert kdump("diff", *LOCAL, "elsewhere", "manifest", cwd=listed).returncode == CLEAN


def test_what_changed(listed: Path) -> None:
    log = listed / "n1" / "t-0" / f"{0:020}.log"
    data = MadeBatch(0).data() + MadeBatch(5, value=b"other").data()
    log.write_bytes(data)
    (listed / "n1" / "t-0" / "leader-epoch-checkpoint").unlink()
    (listed / "n1" / "new").write_text("x")
    (listed / "n1" / "meta.properties").open("a").write("more")
    differences = of_type("difference", lines("manifest", "n1", cwd=listed, status=DAMAGE))
    assert [(one["kind"], one["code"], one["firstOffset"], one["lastOffset"]) for one in differences] == [
        ("changed", "KD910", 0, 19),
        ("file", "KD921", None, None),
        ("file", "KD922", None, None),
        ("file", "KD921", None, None),
        ("file", "KD921", None, None),
    ]
    assert "5 bytes" not in differences[1]["message"]
    assert "4 bytes were appended" in differences[1]["message"]


def test_a_copy_of_another_node_against_a_manifest(listed: Path) -> None:
    """Segments and files are others, the ranges are the same."""
    make_log_directory(listed / "n2", node=2)
    make_copy(listed / "n2" / "t-0", [row(0), row(5, 10), row(15, 20)])
    differences = of_type("difference", lines("manifest", "n2", cwd=listed))
    assert [(one["kind"], one["explained"], one["copies"]) for one in differences] == [("lag", True, ["manifest"])]


def test_a_broken_manifest(listed: Path) -> None:
    manifest = listed / "manifest"
    manifest.write_text(manifest.read_text().replace('"logEnd":20', '"logEnd":[]') + "what is this\n")
    run = kdump("diff", *LOCAL, "manifest", "n1", cwd=listed)
    assert run.returncode == UNREADABLE
    assert b"is none of a manifest" in run.stderr


def test_a_store_against_a_local_copy(
    tmp_path: Path, s3_server: s3server.S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyarrow.fs")
    for name, value in s3_server.environment().items():
        monkeypatch.setenv(name, value)
    _check_uri(s3_server.root / tmp_path.name, s3_server.uri(f"{tmp_path.name}/n1/t-0"), tmp_path)


def test_a_uri_against_a_local_copy(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow.fs")
    _check_uri(tmp_path / "remote", f"file://{tmp_path}/remote/n1/t-0", tmp_path)


def _check_uri(remote: Path, uri: str, here: Path) -> None:
    """The checkpoints of its log directory are found, too."""
    known = {"replication-offset-checkpoint": {("t", 0): 10}, "recovery-point-offset-checkpoint": {("t", 0): 15}}
    make_log_directory(remote / "n1", node=1, offsets=known)
    make_copy(remote / "n1" / "t-0", [row(0, 5, 10)])
    local = make_copy(here / "t-0", [row(0, 5, 10)])
    found = lines(uri, str(local), cwd=here)
    assert not of_type("difference", found)
    assert [(one["highWatermark"], one["nodeId"]) for one in of_type("copy", found)] == [(10, 1), (15, None)]
    changed = make_copy(here / "changed-0", [[*row(0), MadeBatch(5, value=b"other"), *row(10)]])
    (one,) = of_type("difference", lines(uri, str(changed), cwd=here, status=DAMAGE))
    assert (one["kind"], one["firstOffset"], one["lastOffset"]) == ("record", 5, 9)


@pytest.mark.parametrize("value", ["Infinity", "1e999", "9" * 400, "[]", "{}", "null", "true", '"x"', "[" * 100_000])
@pytest.mark.parametrize(
    "name", sparse(["logEnd", "topicId", "nodeId", "partition", "epochs", "ranges", "size"], fast=4)
)
def test_a_manifest_with_values_of_other_types(name: str, value: str, listed: Path) -> None:
    """It is refused, or compared; nothing in it is believed to be a number or a name."""
    lines = (listed / "manifest").read_text().split("\n")
    changed = [line.replace(f'"{name}":', f'"{name}":{value},"other":') for line in lines]
    (listed / "manifest").write_text("\n".join(changed))
    run = kdump("diff", *LOCAL, "--records", "manifest", "n1", cwd=listed)
    assert run.returncode in (CLEAN, DAMAGE, UNREADABLE)
    assert b"internal error" not in run.stderr
