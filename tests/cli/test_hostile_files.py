"""Pipes, devices, links and giants in place of the files that kdump looks for by itself: no hang, no guess."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import socket
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kdump.cli.main import cli
from kdump.codes import HOSTILE_CODES, Codes, KdumpError
from kdump.format.batch import HEADER_SIZE, LENGTH_OFFSET, LOG_OVERHEAD
from kdump.log import files, named
from kdump.log.lock import DirectoryLock, is_held
from kdump.log.named import is_stream
from kdump.log.opening import open_source, read_whole
from kdump.repair.plan.repaireddirectory import RepairedSegment
from kdump.verify.run import findings as verify
from tests.harness import ROOT
from tests.harness.batches import plain_rows, v2_batch
from tests.harness.cli_runs import BATCH, CLEAN, DAMAGE, NAME, UNREADABLE, USAGE, kdump, shell
from tests.harness.examples import sparse

SEGMENTS = ROOT / "fixtures" / "segments" / "v2-txn-0"
SIBLINGS = (
    f"{0:020}.index",
    f"{0:020}.timeindex",
    f"{0:020}.txnindex",
    f"{105:020}.snapshot",
    "leader-epoch-checkpoint",
    "partition.metadata",
    "quorum-state",
    f"{999:020}.log",
)
OF_LOG_DIRECTORY = (
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "replication-offset-checkpoint",
    "cleaner-offset-checkpoint",
    "meta.properties",
    ".kafka_cleanshutdown",
    ".lock",
)
PLACES = (*(f"orders-0/{name}" for name in SIBLINGS), *OF_LOG_DIRECTORY)
LARGEST = 20 << 30


def fifo(path: Path) -> None:
    os.mkfifo(path)


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def foreign_link(path: Path) -> None:
    secret = Path(*path.parts[: path.parts.index("logs")]) / "secret"
    secret.write_bytes(b"somebody else's")
    path.symlink_to(secret)


def giant(path: Path) -> None:
    path.write_bytes(b"")
    os.truncate(path, LARGEST)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A log directory; a test that hangs ends."""
    shutil.copytree(SEGMENTS, tmp_path / "a" / "logs" / "orders-0")

    def hang(*_: object) -> None:
        raise AssertionError("kdump hangs")

    signal.signal(signal.SIGALRM, hang)
    signal.alarm(60)
    yield tmp_path / "a" / "logs"
    signal.alarm(0)


def replaced(home: Path, place: str, make: Callable[[Path], None]) -> Path:
    path = home / place
    path.unlink(missing_ok=True)
    make(path)
    return path


def status_of(*words: str) -> int:
    """In this process; an exception is none that a command may raise."""
    result = CliRunner().invoke(cli, list(words), standalone_mode=False)
    assert result.exception is None, result.exception
    return result.return_value or CLEAN


@pytest.mark.parametrize("make", [fifo, device, foreign_link, giant], ids=lambda make: str(make.__name__))
@pytest.mark.parametrize("place", sparse(PLACES, fast=4))
def test_verify_has_a_finding_and_goes_on(home: Path, place: str, make: Callable[[Path], None]) -> None:
    if place.endswith((".log", ".lock")) and make is giant:
        pytest.skip("never read whole")
    path = replaced(home, place, make)
    findings = list(verify(str(home)))
    [found] = [finding for finding in findings if finding.code in HOSTILE_CODES]
    assert found.path == str(path)
    assert (
        found.code
        is {
            fifo: Codes.SPECIAL_FILE,
            device: Codes.LINK_OUTSIDE,
            foreign_link: Codes.LINK_OUTSIDE,
            giant: Codes.FILE_SIZE,
        }[make]
    )
    # The open transaction at the end of the last segment.
    assert any(finding.code is Codes.TRANSACTION_OPEN for finding in findings)


COMMANDS = (
    "verify",
    "verify --quick",
    "verify --startup",
    "stats",
    "repair",
    "repair --salvage -o OUT",
    "repair --in-place --indexes",
    "dump --all-files",
    "dump --output jsonl --records --isolation read_committed --offset 5:10",
    "convert -o OUT --codec none",
    "convert -o OUT --to jsonl",
)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.slow
def test_no_command_waits_at_a_pipe(home: Path, command: str, tmp_path: Path) -> None:
    words = command.replace("OUT", str(tmp_path / "out")).split()
    for place in PLACES:
        path = replaced(home, place, fifo)
        assert status_of(*words, str(home)) in (CLEAN, DAMAGE, UNREADABLE), place
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
        if path.is_fifo():
            path.unlink()
        kept = SEGMENTS / path.name
        if kept.exists():
            shutil.copy(kept, path)


@pytest.mark.parametrize("place", [f"orders-0/{0:020}.index", "orders-0/leader-epoch-checkpoint", "meta.properties"])
@pytest.mark.parametrize("make", [fifo, device], ids=["fifo", "device"])
def test_no_start_is_foretold_where_a_broker_would_wait(home: Path, place: str, make: Callable[[Path], None]) -> None:
    replaced(home, place, make)
    run = kdump("verify", "--startup", ".", cwd=home)
    assert run.returncode == UNREADABLE
    assert run.stderr.startswith(b"kdump: ")
    assert b"starts after" not in run.stdout


# --- What a user names ---


def test_what_is_named_may_be_a_link_or_a_pipe(home: Path, tmp_path: Path) -> None:
    link = tmp_path / "b" / NAME
    link.parent.mkdir()
    link.symlink_to(home / "orders-0" / NAME)
    for words in (["dump", str(link)], ["dump", "--files", str(link)], ["verify", str(link)], ["stats", str(link)]):
        assert status_of(*words) in (CLEAN, DAMAGE)
    # The same link as a member of a directory is one that kdump found. A process remembers what was named: a new one.
    run = shell(f"$KDUMP dump {link.parent}", tmp_path)
    assert run.returncode == UNREADABLE
    assert b"a link to " in run.stderr


@pytest.mark.slow
def test_named_pipe_is_read(tmp_path: Path) -> None:
    (tmp_path / "0.log").write_bytes(BATCH)
    for words in ("<(cat 0.log)", "- < 0.log", "/dev/stdin < <(cat 0.log)"):
        run = shell(f"$KDUMP dump {words}", tmp_path)
        assert (run.returncode, b"baseOffset: 0 lastOffset: 2" in run.stdout) == (CLEAN, True)


def test_named_paths_are_known_relative_and_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    name = "known-by-its-name.log"
    os.mkfifo(tmp_path / name)
    assert not is_stream(name)
    assert files.strip_credentials(name) == name
    assert is_stream(name)
    assert is_stream(str(tmp_path / name))


# --- Links ---


def code_of(path: Path) -> Codes | None:
    try:
        open_source(str(path)).close()
    except KdumpError as error:
        return error.code
    return None


@pytest.mark.parametrize(
    ("link", "target", "code"),
    [
        ("logs/orders-0/a.index", "b.index", None),
        ("logs/orders-0/a.index", "../orders-1/b.index", None),
        ("logs/orders-0/a.index", "../../other/b.index", Codes.LINK_OUTSIDE),
        ("logs/orders-0/a.index", "../../logs-2/b.index", Codes.LINK_OUTSIDE),
        # A directory that is no partition's stands for itself.
        ("logs/a.index", "orders-1/b.index", None),
        ("logs/a.index", "../other/b.index", Codes.LINK_OUTSIDE),
        # Also one that is called as a partition, for what lies in log directories only.
        ("logs-2/meta.properties", "../other/b.index", Codes.LINK_OUTSIDE),
        ("logs-2/.lock", "../other/b.index", Codes.LINK_OUTSIDE),
        ("logs-2/orders-0/a.index", "../b.index", None),
        ("logs/orders-0/a.index", "nowhere", Codes.MISSING),
        ("logs/orders-0/a.index", "a.index", Codes.UNREADABLE),
    ],
)
def test_links_stay_inside_the_log_directory(tmp_path: Path, link: str, target: str, code: Codes | None) -> None:
    for place in ("logs/orders-0", "logs/orders-1", "other", "logs-2", "logs-2/orders-0"):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "b.index").write_bytes(b"")
    (tmp_path / link).symlink_to(target)
    assert code_of(tmp_path / link) is code
    # The whole log directory may be reached through a link.
    (tmp_path / "deployed").symlink_to(tmp_path / link.split("/", maxsplit=1)[0])
    assert code_of(tmp_path / "deployed" / link.split("/", 1)[1]) is code


def test_a_link_that_changes_once_it_was_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "secret").write_bytes(b"somebody else's")
    (tmp_path / "logs" / "orders-0").mkdir(parents=True)
    link, inside = tmp_path / "logs" / "orders-0" / "a.index", tmp_path / "logs" / "b.index"
    inside.write_bytes(b"good")
    link.symlink_to(inside)
    checked = named.check_link

    def changed(path: str) -> str:
        target = checked(path)
        link.unlink()
        link.symlink_to(tmp_path / "secret")
        return target

    monkeypatch.setattr(named, "check_link", changed)
    with open_source(str(link)) as source:
        assert source.read(0, 100) == b"good"


def test_link_to_a_partition_elsewhere_is_not_entered(home: Path, tmp_path: Path) -> None:
    shutil.copytree(SEGMENTS, tmp_path / "elsewhere" / "orders-1")
    (home / "orders-1").symlink_to(tmp_path / "elsewhere" / "orders-1")
    (home / "orders-2").symlink_to("orders-0")
    findings = [finding for finding in verify(str(home)) if finding.code in HOSTILE_CODES]
    assert [(finding.code, finding.path) for finding in findings] == [(Codes.LINK_OUTSIDE, str(home / "orders-1"))]
    run = kdump("dump", ".", cwd=home)
    assert run.returncode == UNREADABLE
    assert b"./orders-1: a link to " in run.stderr
    assert b"orders-1/" not in run.stdout
    assert b"orders-2/" in run.stdout
    # Named, it is what the user means.
    assert status_of("dump", str(home / "orders-1")) == CLEAN


# --- Sizes, sockets, locks ---


@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("leader-epoch-checkpoint", 16 << 20),
        ("replication-offset-checkpoint", 16 << 20),
        ("meta.properties", 1 << 20),
        ("partition.metadata", 1 << 20),
        ("quorum-state", 1 << 20),
        (".kafka_cleanshutdown", 1 << 20),
        ("0.index", 128 << 20),
    ],
)
def test_sizes_of_what_is_read_whole(tmp_path: Path, name: str, most: int) -> None:
    path = tmp_path / name
    path.write_bytes(b"x")
    assert read_whole(str(path)) == b"x"
    if most < 64 << 20:
        os.truncate(path, most)
        assert len(read_whole(str(path))) == most
    os.truncate(path, most + 1)
    with pytest.raises(KdumpError) as caught:
        read_whole(str(path))
    assert caught.value.code is Codes.FILE_SIZE


def test_endless_stream_in_place_of_a_text_file() -> None:
    with pytest.raises(KdumpError) as caught:
        read_whole(files.strip_credentials("/dev/zero"))
    assert caught.value.code is Codes.FILE_SIZE


def test_socket(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "0.index"))
        assert code_of(tmp_path / "0.index") is Codes.SPECIAL_FILE


@pytest.mark.parametrize("make", [fifo, device], ids=["fifo", "device"])
def test_lock_that_is_no_file(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / ".lock")
    assert not is_held(str(tmp_path))
    with pytest.raises(KdumpError) as caught:
        DirectoryLock(str(tmp_path))
    assert caught.value.code is Codes.UNWRITABLE


@pytest.mark.parametrize("place", [f"orders-0/{0:020}.index", "orders-0/leader-epoch-checkpoint"])
def test_giant_is_not_kept_in_a_backup(home: Path, place: str) -> None:
    path = replaced(home, place, giant)
    assert status_of("repair", "--in-place", "--indexes", str(home)) == UNREADABLE
    assert path.stat().st_size == LARGEST


@pytest.mark.parametrize("words", [(), ("--salvage",), ("--like-broker",), ("--indexes",)])
def test_a_giant_index_differs_from_the_right_one(home: Path, words: tuple[str, ...]) -> None:
    """It was read to its end, to see whether only zeros follow its entries."""
    path = home / "orders-0" / f"{0:020}.txnindex"
    os.truncate(path, 4 << 40)
    run = kdump("repair", *words, "orders-0", cwd=home)
    assert run.returncode == DAMAGE, run.stderr
    [line] = [line for line in run.stdout.decode().split("\n") if f"{0:020}.log: would rebuild" in line]
    assert ".txnindex" in line


def test_a_giant_among_the_files_that_stay_is_not_read(home: Path) -> None:
    """A repair notes what it leaves as it is. A digest of 4 TiB of nothing takes an hour."""
    giant = home / "orders-0" / "core.1234"
    giant.write_bytes(b"")
    os.truncate(giant, 4 << 40)
    index = home / "orders-0" / f"{0:020}.index"
    index.unlink()
    assert status_of("repair", "--in-place", "--indexes", str(home)) == CLEAN
    (manifest,) = home.glob("orders-0/.kdump/*/manifest.json")
    assert index.exists()
    assert status_of("repair", "--undo", str(manifest)) == CLEAN
    assert not index.exists()


@pytest.mark.parametrize(
    "words",
    [
        ("repair", "--in-place", "--indexes"),
        ("repair", "--in-place", "--like-broker"),
        ("verify", "--startup", "--unclean", "--output", "jsonl"),
        ("verify", "--quick", "--manifest", "out"),
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("size", [4 << 40, LARGEST])
def test_no_digest_is_made_of_a_giant_log(home: Path, words: tuple[str, ...], size: int, tmp_path: Path) -> None:
    """A digest of 4 TiB of nothing takes an hour, one of 20 GiB a minute."""
    log = max(home.glob("orders-0/*.log"))
    os.truncate(log, size)
    run = kdump(*words, str(home), cwd=tmp_path)
    assert run.returncode == UNREADABLE
    told = (run.stdout + run.stderr).decode()
    assert f"{log}: has {f'{size:,}'[:4]}" in told
    assert "are the most that a digest is made of" in told


@pytest.mark.parametrize("make", [fifo, device])
def test_special_files_of_zookeeper_are_named(make: Callable[[Path], None], tmp_path: Path) -> None:
    """Without its log a server would be restored as it was before."""
    for name in ("snapshot.1", "snapshot.2"):
        (tmp_path / name).write_bytes(b"ZKSN" + bytes(100))
    make(tmp_path / "log.2")
    run = kdump("verify", str(tmp_path), cwd=tmp_path)
    assert run.returncode == UNREADABLE
    assert f"{tmp_path}/log.2: " in run.stderr.decode()


def test_nothing_is_written_in_place_of_a_pipe(home: Path) -> None:
    path = replaced(home, f"orders-0/{0:020}.index", fifo)
    assert status_of("repair", "--in-place", "--indexes", str(home)) == DAMAGE
    assert path.is_fifo()


@pytest.mark.parametrize("option", ["--manifest", "--html"])
def test_an_output_does_not_take_the_place_of_a_directory(option: str, home: Path, tmp_path: Path) -> None:
    """It moved the directory to a hidden name."""
    place = tmp_path / "place"
    place.mkdir()
    (place / "evidence").touch()
    command = "verify" if option == "--manifest" else "stats"
    run = kdump(command, option, "place", str(home / "orders-0"), cwd=tmp_path)
    assert run.returncode in (USAGE, UNREADABLE)
    assert b"place" in run.stderr
    assert [path.name for path in place.iterdir()] == ["evidence"]
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


@pytest.mark.parametrize("words", [("verify",), ("state", "--at", "now"), ("dump",)])
def test_a_giant_log_of_zookeeper(words: tuple[str, ...], tmp_path: Path) -> None:
    """A sparse one costs nothing to make, and was allocated whole."""
    (tmp_path / "snapshot.0").write_bytes(b"ZKSN")
    with (tmp_path / "log.1").open("wb") as file:
        file.write(b"ZKLG\0\0\0\2" + bytes(8))
        file.truncate(40 << 30)
    run = kdump(*words, str(tmp_path / "log.1"), cwd=tmp_path)
    assert run.returncode in (DAMAGE, UNREADABLE)
    assert b"internal error" not in run.stderr
    if words != ("state", "--at", "now"):
        assert b"at most 1,073,741,824 are read" in run.stderr


@pytest.mark.parametrize("words", ["dump", "dump --print-data-log", "dump --output jsonl", "explain"])
@pytest.mark.slow
def test_an_entry_that_a_sparse_log_does_not_store(home: Path, words: str) -> None:
    """2 GiB of nothing after a length field came into memory three times."""
    log = min(home.glob("orders-0/*.log"))
    entry = v2_batch(plain_rows(1))
    claimed = bytearray(entry)
    struct.pack_into(">i", claimed, LENGTH_OFFSET, (1 << 31) - 1 - LOG_OVERHEAD)
    # Its last byte is wrong too, so no other length explains the CRC.
    log.write_bytes(entry + claimed[:-1] + b"x")
    os.truncate(log, 4 << 30)
    position = "200000" if words == "explain" else ""
    run = shell(f"ulimit -v 2000000; $KDUMP {words} {log.name} {position}", log.parent)
    assert run.returncode == DAMAGE, run.stderr
    assert b"internal error" not in run.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("dump", b"more entries follow position 127"),
        ("verify", b"length-too-large at 127"),
        ("verify --startup", b"log end offset 7 -> 3"),
        ("repair", b"at 127"),
    ],
)
@pytest.mark.slow
def test_a_valid_entry_that_a_sparse_log_does_not_store(tmp_path: Path, words: str, said: bytes) -> None:
    """A right CRC over 400 MiB of nothing had them read three times into memory."""
    large = v2_batch(body=bytes(400 << 20), base_offset=3)
    log = tmp_path / "t-0" / f"{0:020}.log"
    log.parent.mkdir()
    with log.open("wb") as file:
        file.write(v2_batch(plain_rows(3)) + large[:HEADER_SIZE])
        file.seek(len(large) - HEADER_SIZE, os.SEEK_CUR)
        file.write(v2_batch(plain_rows(3), base_offset=4))
    run = shell(f"ulimit -v 1100000; $KDUMP {words} {log.parent.name}", tmp_path)
    assert b"internal error" not in run.stderr
    assert said in run.stdout + run.stderr


@pytest.fixture
def torn(home: Path) -> Path:
    """A log directory with two partitions, the last logs of which are damaged."""
    shutil.copytree(home / "orders-0", home / "orders-1")
    for partition in home.glob("orders-?"):
        log = max(partition.glob("*.log"))
        os.truncate(log, log.stat().st_size - 30)
    return home


@pytest.mark.parametrize("words", ["", "--salvage --from replica", "-o out"])
@pytest.mark.parametrize("name", ["zzz", f"{105:020}.index"])
def test_a_link_to_itself_stops_no_repair(torn: Path, name: str, words: str, tmp_path: Path) -> None:
    shutil.copytree(torn, tmp_path / "replica")
    link = torn / "orders-0" / name
    link.unlink(missing_ok=True)
    link.symlink_to(name)
    run = kdump("repair", *words.split(), str(torn), cwd=tmp_path)
    assert run.returncode == (CLEAN if "-o" in words else DAMAGE)
    assert not run.stderr
    for partition in ("orders-0", "orders-1"):
        assert f"{torn}/{partition}/{397:020}.log: " in run.stdout.decode()


@pytest.mark.parametrize("what", ["log", "directory", "loop"])
def test_a_partition_that_goes_meanwhile_stops_no_other_repair(
    torn: Path, what: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    partition, log = torn / "orders-0", torn / "orders-0" / f"{0:020}.log"
    recover = RepairedSegment.recover

    def exchanged(segment: RepairedSegment, *words: Any, **options: Any) -> Any:
        if segment.plan.path == str(log):
            log.unlink()
            if what == "directory":
                shutil.rmtree(partition)
            if what == "loop":
                log.symlink_to(log.name)
        return recover(segment, *words, **options)

    monkeypatch.setattr(RepairedSegment, "recover", exchanged)
    run = kdump("repair", "-o", "out", str(torn), cwd=tmp_path)
    assert run.returncode == UNREADABLE
    assert run.stderr.decode().startswith(f"kdump: {log}: ")
    assert [path.name for path in tmp_path.glob("out/orders-*")] == ["orders-1"]


def test_an_error_that_nobody_expects_names_its_file(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), "a\x1bb")

    monkeypatch.setattr("kdump.repair.run.Repair.of", fail)
    run = kdump("repair", "orders-0", cwd=home)
    assert run.returncode == UNREADABLE
    assert run.stderr == b"kdump: a\\x1bb: Permission denied\n"


def deny(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """What is called so can neither be opened nor looked at, as in a directory that the user may only list."""

    def denying(call: Callable[..., Any]) -> Callable[..., Any]:
        def denied(path: Any, *words: Any, **options: Any) -> Any:
            if isinstance(path, str) and os.path.basename(path) == name:
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
            return call(path, *words, **options)

        return denied

    for call in ("open", "stat", "lstat"):
        monkeypatch.setattr(os, call, denying(getattr(os, call)))


@pytest.mark.parametrize("words", [(), ("--output", "jsonl")])
def test_a_log_that_can_only_be_listed_is_no_deleted_one(
    words: tuple[str, ...], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"{105:020}.log"
    deny(monkeypatch, name)
    run = kdump("dump", *words, "orders-0", cwd=home)
    assert run.returncode == UNREADABLE
    assert run.stderr.decode() == f"kdump: orders-0/{name}: Permission denied\n"


def test_repairs_that_may_be_there_are_not_passed_over(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deny(monkeypatch, ".kdump")
    run = kdump("repair", "--finish", "orders-0", cwd=home)
    assert run.returncode == UNREADABLE
    assert b"orders-0/.kdump: cannot be read" in run.stderr
