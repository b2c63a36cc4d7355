"""``kdump dump`` of the text files of a broker: as they are, and as rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kdump.format import checkpoint
from kdump.log.names import TEXT_FILES
from tests.harness.batches import plain_rows, v2_batch
from tests.harness.cli_runs import CLEAN, DAMAGE, NAME, UNREADABLE, USAGE, kdump, on_a_terminal

META = (
    b"#\n#Sun Nov 22 12:20:25 UTC 2026\nnode.id=1\ndirectory.id=y7WZoGyu4_KTwm50J6_1Jg\nversion=1\ncluster.id=a\\=b\n"
)
QUORUM = b'{"clusterId":"","leaderId":3,"leaderEpoch":2,"votedId":-1,"currentVoters":[{"voterId":3}],"data_version":0}'
IDS = b"version: 0\ntopic_id: _DiAct9rTjW0upMwVX9Grg"

OFFSETS = sorted(name for name in TEXT_FILES if name.endswith("-offset-checkpoint"))


def rows(text: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def folder(tmp_path: Path) -> Path:
    made = tmp_path / "orders-7"
    made.mkdir(exist_ok=True)
    return made


def properties(file: str, **members: object) -> list[dict[str, Any]]:
    return [
        {"type": "property", "file": file, "name": name.replace("__", "."), "value": value}
        for name, value in members.items()
    ]


def test_names_are_those_that_are_read() -> None:
    assert checkpoint.READERS.keys() == TEXT_FILES


@pytest.mark.parametrize("name", OFFSETS)
def test_checkpoints(tmp_path: Path, name: str) -> None:
    text = b"0\n2\norders 0 5\na.b-c 12 9223372036854775807\n"
    (tmp_path / name).write_bytes(text)
    assert kdump("dump", name, cwd=tmp_path).stdout == text
    run = kdump("dump", "--output", "jsonl", name, cwd=tmp_path)
    assert (run.returncode, run.stderr) == (CLEAN, b"")
    assert run.stdout.decode() == (
        f'{{"type":"checkpoint","file":"{name}","topic":"orders","partition":0,"offset":5}}\n'
        f'{{"type":"checkpoint","file":"{name}","topic":"a.b-c","partition":12,"offset":9223372036854775807}}\n'
    )
    run = kdump("dump", "--output", "csv", name, cwd=tmp_path)
    assert run.stdout.decode() == (
        f"type,file,topic,partition,offset\ncheckpoint,{name},orders,0,5\ncheckpoint,{name},a.b-c,12,9223372036854775807\n"
    )
    assert b"9223372036854775807" in kdump("dump", "--output", "table", name, cwd=tmp_path).stdout


def test_epochs(tmp_path: Path) -> None:
    name = "leader-epoch-checkpoint"
    for path, topic, partition in ((folder(tmp_path) / name, "orders", 7), (tmp_path / name, None, None)):
        path.write_text("0\n2\n0 0\n3 200\n")
        run = kdump("dump", "--output", "jsonl", str(path), cwd=tmp_path)
        start = {"type": "epoch", "file": str(path), "topic": topic, "partition": partition}
        assert rows(run.stdout) == [start | {"epoch": 0, "startOffset": 0}, start | {"epoch": 3, "startOffset": 200}]
        assert list(rows(run.stdout)[0]) == ["type", "file", "topic", "partition", "epoch", "startOffset"]


@pytest.mark.parametrize(
    ("name", "data", "members"),
    [
        (
            "meta.properties",
            META,
            {"node__id": "1", "directory__id": "y7WZoGyu4_KTwm50J6_1Jg", "version": "1", "cluster__id": "a=b"},
        ),
        ("partition.metadata", IDS, {"version": "0", "topic_id": "_DiAct9rTjW0upMwVX9Grg"}),
        (
            "quorum-state",
            QUORUM,
            {
                "clusterId": "",
                "leaderId": 3,
                "leaderEpoch": 2,
                "votedId": -1,
                "currentVoters": [{"voterId": 3}],
                "data_version": 0,
            },
        ),
        (".kafka_cleanshutdown", b'{"version":0,"brokerEpoch":951}', {"version": 0, "brokerEpoch": 951}),
        (".kafka_cleanshutdown", b"", {}),
    ],
)
def test_properties(tmp_path: Path, name: str, data: bytes, members: dict[str, object]) -> None:
    path = folder(tmp_path) / name
    path.write_bytes(data)
    run = kdump("dump", f"orders-7/{name}", cwd=tmp_path)
    assert (run.returncode, run.stdout, run.stderr) == (CLEAN, data, b"")
    run = kdump("dump", "--output", "jsonl", f"orders-7/{name}", cwd=tmp_path)
    assert (run.returncode, run.stderr) == (CLEAN, b"")
    assert rows(run.stdout) == properties(f"orders-7/{name}", **members)


def test_nested_values_in_csv(tmp_path: Path) -> None:
    (tmp_path / "quorum-state").write_bytes(QUORUM)
    lines = kdump("dump", "--output", "csv", "quorum-state", cwd=tmp_path).stdout.decode().splitlines()
    assert lines[0] == "type,file,name,value"
    assert lines[5] == 'property,quorum-state,currentVoters,"[{""voterId"":3}]"'


@pytest.mark.parametrize(
    ("name", "data", "shown", "position"),
    [
        (OFFSETS[0], b"1\n1\na 0 5\n", 0, 0),
        (OFFSETS[1], b"0\n3\na 0 5\nb 1 6\n", 2, 2),
        (OFFSETS[2], b"0\n2\na 0 5\nb 1 \xff\n", 1, 14),
        (OFFSETS[3], b"0\n2\na 0 5\nb one 6\n", 1, 10),
        (OFFSETS[3], b"\x1f\x8b\x08\0\0\1\2", 0, 1),
        (OFFSETS[3], b"?\n", 0, 0),
        ("leader-epoch-checkpoint", b"0\n2\n0 0\n-1 5\n", 1, 8),
        ("partition.metadata", b"version: 1\ntopic_id: x\n", 2, 0),
        ("partition.metadata", b"version: 0\nfoo\n", 1, 11),
        ("meta.properties", b"version=2\nnode.id=1\n", 2, 0),
        ("quorum-state", b"{", 0, 0),
        ("quorum-state", b'{"leaderId":1}', 1, 0),
        (".kafka_cleanshutdown", b"[]", 0, 0),
    ],
)
def test_damaged(tmp_path: Path, name: str, data: bytes, shown: int, position: int) -> None:
    (tmp_path / name).write_bytes(data)
    run = kdump("dump", name, cwd=tmp_path)
    assert (run.returncode, run.stdout) == (DAMAGE, data)
    assert run.stderr.decode().startswith(f"kdump: {name}: at {position}: ")
    run = kdump("dump", "--output", "jsonl", name, cwd=tmp_path)
    *good, finding = rows(run.stdout)
    assert (run.returncode, len(good)) == (DAMAGE, shown)
    assert (finding["type"], finding["code"], finding["position"]) == ("finding", "KD319", position)
    assert run.stderr.decode().count("\n") == 1


def test_a_terminal_gets_no_controls(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_bytes(b"version=1\nnode.id=1\ncluster.id=\x1b]0;x\x07\n")
    assert b"\x1b" not in on_a_terminal("dump", "meta.properties", cwd=tmp_path)
    assert b"\x1b]0;x\x07" in kdump("dump", "meta.properties", cwd=tmp_path).stdout


def test_among_others(tmp_path: Path) -> None:
    """In their order; a file that does not end with a line end does not run into the next one."""
    path = folder(tmp_path)
    (path / NAME).write_bytes(v2_batch(plain_rows(1)))
    (path / "partition.metadata").write_bytes(IDS)
    files = [f"orders-7/{name}" for name in ("partition.metadata", NAME, "partition.metadata")]
    lines = kdump("dump", "--print-data-log", *files, cwd=tmp_path).stdout.decode().splitlines()
    assert lines[:3] == [*IDS.decode().splitlines(), f"Dumping orders-7/{NAME}"]
    assert lines[-2:] == IDS.decode().splitlines()
    found = rows(kdump("dump", "--output", "jsonl", "-n", "2", *files, cwd=tmp_path).stdout)
    assert [row["type"] for row in found] == ["property", "property"]


def test_only_where_they_are_named(tmp_path: Path) -> None:
    path = folder(tmp_path)
    (path / NAME).write_bytes(v2_batch(plain_rows(1)))
    (path / "partition.metadata").write_bytes(IDS)
    for words in (["orders-7"], ["--all-files", "orders-7"], ["--all-files", "."]):
        run = kdump("dump", *words, cwd=tmp_path)
        assert (run.returncode, run.stderr) == (CLEAN, b"")
        assert b"topic_id" not in run.stdout
    run = kdump("dump", "--files", "orders-7/partition.metadata", cwd=tmp_path)
    assert run.stdout.decode() == "Dumping orders-7/partition.metadata\n"
    assert run.stderr.decode() == "Ignoring unknown file orders-7/partition.metadata\n"


@pytest.mark.parametrize(
    "words",
    [
        ("--print-data-log",),
        ("-n", "1"),
        ("--tail", "1"),
        ("--follow",),
        ("--explain", "0"),
        ("--output", "jsonl", "--records"),
        ("--output", "jsonl", "--key", "x"),
        ("--format", "%o"),
        ("--redact",),
        ("--resync",),
        ("--output", "jsonl", "--fields", "baseOffset"),
        ("--fields", "name"),
        ("--output", "jsonl", "--engine", "spark"),
    ],
)
def test_usage(tmp_path: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "meta.properties").write_bytes(META)
    run = kdump("dump", *words, "meta.properties", cwd=tmp_path)
    assert (run.returncode, run.stdout) == (USAGE, b"")


def test_fields(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_bytes(META)
    run = kdump("dump", "--output", "jsonl", "--fields", "value,name", "meta.properties", cwd=tmp_path)
    assert rows(run.stdout)[0] == {"value": "1", "name": "node.id"}


def test_one_that_is_not_there(tmp_path: Path) -> None:
    run = kdump("dump", "meta.properties", cwd=tmp_path)
    assert (run.returncode, run.stdout) == (UNREADABLE, b"")
    assert run.stderr == b"kdump: meta.properties: no such file or directory\n"


def test_other_commands_take_none(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_bytes(META)
    for words in (["verify"], ["stats"], ["repair"], ["convert", "--codec", "none", "-o", "x"]):
        assert kdump(*words, "meta.properties", cwd=tmp_path).returncode == UNREADABLE
