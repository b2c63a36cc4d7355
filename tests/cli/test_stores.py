"""The command line on paths with a scheme: through pyarrow's local file system, and a real S3 server where it is."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from kdump.log import files
from kdump.log.opening import open_source
from tests.harness import s3server
from tests.harness.captures import FIXTURES
from tests.harness.cli_runs import BATCH, CLEAN, DAMAGE, DAMAGED_BATCH, KDUMP, NAME, UNREADABLE, USAGE, kdump, shell

pytest.importorskip("pyarrow.fs", reason="paths with a scheme need pyarrow")

SEGMENTS = FIXTURES / "segments"
TIERED = "00000000000000000000-qCJLz5ZmQjmVAr1bYQ5wSg"


@dataclass(frozen=True)
class Place:
    """Where files are to be put, and what leads there; ``clean``: what kdump may show of that."""

    folder: Path
    uri: Callable[[str], str]
    clean: str

    def kdump(self, *words: str) -> subprocess.CompletedProcess[bytes]:
        return kdump(*words, cwd=self.folder)


@pytest.fixture(params=["file", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """An empty folder behind ``file://``, or of the S3 server."""
    if request.param == "file":
        return Place(tmp_path, lambda path: f"file://{tmp_path}/{path}", f"file://{tmp_path}")
    server: s3server.S3Server = request.getfixturevalue("s3_server")
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    folder = server.root / tmp_path.name
    folder.mkdir()
    return Place(folder, lambda path: server.uri(f"{tmp_path.name}/{path}"), f"s3://{s3server.BUCKET}/{tmp_path.name}")


def same(place: Place, command: list[str], path: str) -> subprocess.CompletedProcess[bytes]:
    """Run on the local path and on the URI; all that may differ is what the file is called."""
    local = place.kdump(*command, path)
    remote = place.kdump(*command, place.uri(path))
    assert remote.stdout.decode().replace(f"{place.clean}/", "") == local.stdout.decode()
    # The order of the reports depends on the hashes of the absolute paths.
    theirs = remote.stderr.decode().replace(f"{place.clean}/", "")
    ours = local.stderr.decode().replace(f"{place.folder}/", "")
    assert sorted(theirs.splitlines()) == sorted(ours.splitlines())
    assert remote.returncode == local.returncode
    return remote


@pytest.mark.parametrize(
    "command",
    [
        ["dump"],
        ["dump", "--print-data-log", "--all-files"],
        ["dump", "--output", "jsonl", "--records"],
        ["dump", "--output", "jsonl", "--records", "--isolation", "read_committed"],
        ["dump", "--offset", "100:120", "--output", "csv"],
        ["dump", "--tail", "3", "--resync"],
        ["verify"],
        ["verify", "--output", "jsonl"],
        ["verify", "--output", "junit", "--quick"],
    ],
    ids=" ".join,
)
def test_log_directory(place: Place, command: list[str]) -> None:
    shutil.copytree(SEGMENTS, place.folder / "logs")
    (place.folder / "logs" / "recovery-point-offset-checkpoint").write_text("0\n1\nv2-txn 0 999999\n")
    run = same(place, command, "logs")
    assert run.stdout
    assert place.clean.encode() in run.stdout or "csv" in command or "jsonl" not in command


@pytest.mark.parametrize("path", ["nowhere", f"nowhere-0/{NAME}", "text.txt", "empty", f"empty/{NAME}"])
@pytest.mark.parametrize("command", ["dump", "verify"])
def test_what_is_no_segment(place: Place, command: str, path: str) -> None:
    (place.folder / "text.txt").write_text("text")
    (place.folder / "empty").mkdir()
    run = place.kdump(command, place.uri(path))
    assert run.returncode == UNREADABLE
    assert run.stderr.decode().startswith(f"kdump: {place.clean}/{path}: ")
    assert b"Traceback" not in run.stderr


def test_a_path_that_fails_does_not_stop_the_next(place: Place) -> None:
    (place.folder / NAME).write_bytes(BATCH)
    run = place.kdump("dump", place.uri("nowhere"), "unknown://host/x", place.uri(NAME))
    assert run.returncode == UNREADABLE
    assert run.stdout.decode().startswith(f"Dumping {place.clean}/{NAME}\n")
    assert [line.split(": ")[1] for line in run.stderr.decode().splitlines()] == [
        f"{place.clean}/nowhere",
        "unknown://host/x",
    ]


def test_damage_and_explain(place: Place) -> None:
    (place.folder / NAME).write_bytes(DAMAGED_BATCH)
    assert same(place, ["verify"], NAME).returncode == DAMAGE
    assert place.kdump("dump", "--explain", "0", place.uri(NAME)).returncode == DAMAGE


def test_tiered_storage_names(place: Place) -> None:
    folder = place.folder / "orders-0"
    folder.mkdir()
    (folder / f"{TIERED}.log").write_bytes(BATCH)
    for kind in ("index", "timeindex"):
        (folder / f"{TIERED}.{kind}").touch()
    assert same(place, ["verify"], "orders-0").returncode == CLEAN
    assert same(place, ["dump"], f"orders-0/{TIERED}.log").stdout.splitlines()[1] == b"Log starting offset: 0"
    run = same(place, ["dump", "--output", "jsonl"], "orders-0")
    row = json.loads(run.stdout)
    assert (row["topic"], row["partition"], row["file"]) == ("orders", 0, f"{place.clean}/orders-0/{TIERED}.log")


def test_files_stay_local_and_nothing_behind_a_uri_is_followed(tmp_path: Path) -> None:
    (tmp_path / "s3:" / "bucket").mkdir(parents=True)
    (tmp_path / "s3:" / "bucket" / NAME).write_bytes(BATCH)
    run = kdump("dump", "--files", f"s3://bucket/{NAME}", cwd=tmp_path)
    assert (run.returncode, run.stdout.splitlines()[0]) == (CLEAN, f"Dumping s3:/bucket/{NAME}".encode())
    run = kdump("dump", "--follow", f"s3://bucket/{NAME}", cwd=tmp_path)
    assert (run.returncode, run.stdout) == (USAGE, b"")
    assert b"--follow takes a PATH of this machine" in run.stderr


@pytest.mark.slow
def test_without_pyarrow(tmp_path: Path) -> None:
    (tmp_path / "pyarrow.py").write_text("raise ImportError")
    for command in ("dump", "verify"):
        run = shell(f"$KDUMP {command} s3://bucket/orders-0 s3://bucket/{NAME}", tmp_path)
        lines = run.stderr.decode().splitlines()
        needs = "a path with a scheme needs pyarrow: pip install pyarrow"
        assert lines == [f"kdump: s3://bucket/orders-0: {needs}", f"kdump: s3://bucket/{NAME}: {needs}"]
        assert run.returncode == UNREADABLE


def test_a_local_run_does_not_import_pyarrow(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(BATCH)
    command = [KDUMP[0], "-X", "importtime", *KDUMP[1:], "dump", NAME]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    imported = {line.rpartition("|")[2].strip() for line in run.stderr.splitlines()}
    assert "kdump.log.files" in imported
    assert imported.isdisjoint({"pyarrow", "kdump.log.stores", "kdump.log.uris", "concurrent.futures"})
    # A short dump is mostly imports: what only other files need is loaded for them.
    assert imported.isdisjoint({"numpy", "kdump.format.message", "kdump.format.index", "kdump.dump.text.indexes"})


# --- S3 alone ---


@pytest.mark.parametrize(
    "command", [["dump", "-v"], ["dump", "--output", "jsonl"], ["verify", "-v"], ["verify", "--output", "junit"]]
)
@pytest.mark.parametrize("secret", [s3server.SECRET_KEY, "a/wrong+secret"])
def test_keys_in_a_uri_work_and_are_never_shown(s3_server: s3server.S3Server, command: list[str], secret: str) -> None:
    folder = s3_server.root / "keys-0"
    folder.mkdir(exist_ok=True)
    (folder / NAME).write_bytes(DAMAGED_BATCH)
    keys = f"{s3server.ACCESS_KEY}:{secret}"
    paths = [s3_server.uri(path, keys=keys) for path in ("keys-0", f"keys-0/{NAME}", "nowhere-0")]
    strange = [f"unknown://{keys}@host/x", f"file://{keys}@host/x"]
    run = kdump(*command, "--traceback", *paths, *strange, cwd=s3_server.root)
    # A store has one set of options in a process, the newest.
    refused = kdump(*command, "--traceback", f"{paths[0]}&access_key=hidden", cwd=s3_server.root)
    shown = b"".join((run.stdout, run.stderr, refused.stdout, refused.stderr)).decode()
    assert f"s3://{s3server.BUCKET}/keys-0" in shown
    is_read = any(word in run.stdout for word in (b"isvalid: false", b'"isValid":false', b"KD108"))
    assert is_read == (secret == s3server.SECRET_KEY)
    for part in (s3server.ACCESS_KEY, secret, secret.replace("/", "%2F"), secret.partition("/")[2], "hidden"):
        assert part not in shown
    assert refused.returncode == UNREADABLE
    assert run.returncode == UNREADABLE


def test_patterns(place: Place) -> None:
    for name in ("logs/orders-0", "logs/orders-1", "logs/pay-0", "other/orders-2"):
        (place.folder / name).mkdir(parents=True)
        (place.folder / name / NAME).write_bytes(BATCH)
    for pattern, expected in (
        ("logs/orders-*/", ("logs/orders-0", "logs/orders-1")),
        ("*/orders-[02]", ("logs/orders-0", "other/orders-2")),
        (f"logs/pay-*/{NAME}", ("logs/pay-0",)),
    ):
        for command in (("dump", "--output", "jsonl"), ("stats", "--output", "jsonl"), ("verify",)):
            run = place.kdump(*command, place.uri(pattern))
            assert (run.returncode, run.stderr) == (CLEAN, b"")
            assert all(f"{place.clean}/{name}/{NAME}".encode() in run.stdout for name in expected)
            assert run.stdout.count(NAME.encode()) == len(expected)
    assert place.kdump("stats", "--topic", "pay", "--output", "jsonl", place.uri("logs")).returncode == CLEAN
    run = place.kdump("dump", place.uri("logs/none-*"))
    assert run.returncode == UNREADABLE
    assert b"no file or directory fits" in run.stderr


def test_requests_of_a_range(s3_server: s3server.S3Server) -> None:
    """With an index a range costs two opens and two reads; without the keys nothing but a refusal."""
    shutil.copytree(SEGMENTS / "v2-txn-0", s3_server.root / "range-0")
    before = len(s3_server.requests())
    uri = s3_server.uri(f"range-0/{NAME}", keys=f"{s3server.ACCESS_KEY}:{s3server.SECRET_KEY}")
    run = kdump("dump", "--offset", "20:22", uri, cwd=s3_server.root)
    assert run.returncode == CLEAN
    path = f"/{s3server.BUCKET}/range-0/{NAME}"
    index = path.replace(".log", ".index")
    assert s3_server.requests()[before:] == [
        (200, "HEAD", path),
        (200, "HEAD", index),
        (206, "GET", index),
        (206, "GET", path),
    ]
    assert (
        kdump("dump", s3_server.uri(f"range-0/{NAME}", keys="other:key"), cwd=s3_server.root).returncode == UNREADABLE
    )


@pytest.mark.parametrize("then", ["cut", "gone"])
def test_objects_that_change_while_they_are_read(s3_server: s3server.S3Server, then: str) -> None:
    path = s3_server.root / f"{then}.log"
    data = BATCH * (6_000_000 // len(BATCH))
    path.write_bytes(data)
    uri = files.strip_credentials(s3_server.uri(path.name, keys=f"{s3server.ACCESS_KEY}:{s3server.SECRET_KEY}"))
    with open_source(uri) as source:
        assert source.read(0, 1_000_000) == data[:1_000_000]
        if then == "cut":
            path.write_bytes(data[:2_000_000])
            assert source.read(0, len(data)) == data[:2_000_000]
            assert source.read(3_000_000, 10) == b""
        else:
            path.unlink()
            with pytest.raises(files.KdumpError, match="vanished while it was read"):
                source.read(1_000_000, 10)
