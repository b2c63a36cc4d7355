"""PATHs of ``kdump dump``: directories in order, suffixes, tiered storage, names nobody expects."""

from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path

import pytest

from kdump.cli.main import cli
from tests.harness.batches import v2_batch
from tests.harness.cli_runs import BATCH, CLEAN, KDUMP, UNREADABLE, dump, dumped

UUID = "AAECAwQFBgcICQoLDA0ODw"


def make(directory: Path, *names: str) -> None:
    for name in names:
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(BATCH if ".log" in name else b"")


def test_partition_directory(tmp_path: Path) -> None:
    make(tmp_path, "t-0/00000000000000000100.log", "t-0/00000000000000000000.log", "t-0/00000000000000000009.log")
    make(tmp_path, "t-0/00000000000000000000.index", "t-0/00000000000000000009.log.deleted")
    for name in ("t-0", "t-0/", "./t-0//"):
        status, out, errors = dump(name, cwd=tmp_path)
        assert (status, errors) == (CLEAN, [])
        prefix = "./t-0" if name.startswith(".") else "t-0"
        assert dumped(out) == [f"{prefix}/{offset:020}.log" for offset in (0, 9, 100)]


def test_log_directory(tmp_path: Path) -> None:
    make(tmp_path, "b-10/0.log", "b-2/7.log", "b-2/0.log", "a-0/3.log", "other/0.log", "meta.properties")
    status, out, errors = dump(".", cwd=tmp_path)
    assert (status, errors) == (CLEAN, [])
    assert dumped(out) == ["./a-0/3.log", "./b-2/0.log", "./b-2/7.log", "./b-10/0.log"]


def test_all_files(tmp_path: Path) -> None:
    make(
        tmp_path,
        "t-0/0.log",
        "t-0/0.index",
        "t-0/0.timeindex",
        "t-0/0.txnindex",
        "t-0/5.log",
        "t-0/leader-epoch-checkpoint",
    )
    status, out, errors = dump("--all-files", "t-0", cwd=tmp_path)
    assert (status, errors) == (CLEAN, [])
    assert dumped(out) == ["t-0/0.log", "t-0/0.index", "t-0/0.timeindex", "t-0/0.txnindex", "t-0/5.log"]
    assert "t-0/0.index is empty." in out


def test_several_paths_in_the_order_given(tmp_path: Path) -> None:
    make(tmp_path, "b-0/0.log", "a-0/0.log", "5.log")
    assert dumped(dump("b-0", "5.log", "a-0", "5.log", cwd=tmp_path)[1]) == ["b-0/0.log", "5.log", "a-0/0.log", "5.log"]


def test_suffixes_and_tiered_names(tmp_path: Path) -> None:
    names = [f"{7:020}.log.deleted", f"{7:020}.log.swap", f"{7:020}.log.cleaned", f"{7:020}-{UUID}.log"]
    make(tmp_path, *names)
    status, out, errors = dump(*names, cwd=tmp_path)
    assert (status, errors, dumped(out)) == (CLEAN, [], names)
    assert out.count("Log starting offset: 7") == 4


def test_siblings_have_the_same_suffix(tmp_path: Path) -> None:
    make(tmp_path, "7.log", "8.log.deleted", f"{9:020}-{UUID}.log")
    names = ["7.index", "8.index.deleted", f"{9:020}-{UUID}.index"]
    for name, base in zip(names, (7, 8, 9), strict=True):
        (tmp_path / name).write_bytes((2 - base).to_bytes(4, "big", signed=True) + bytes(4))
    status, out, errors = dump(*names, cwd=tmp_path)
    assert (status, errors) == (CLEAN, [])
    assert out.count("offset: 2 position: 0") == 3


def test_checkpoints(tmp_path: Path) -> None:
    make(tmp_path, "bootstrap.checkpoint", f"{100:020}-{3:010}.checkpoint", f"{100:020}-{3:010}.checkpoint.deleted")
    status, out, errors = dump(*sorted(os.listdir(tmp_path)), cwd=tmp_path)
    assert (status, errors) == (CLEAN, [])
    assert out.count("Snapshot end offset: 100, epoch: 3") == 2
    assert out.count("KRaft bootstrap snapshot") == 1


def test_directories_do_not_stop_at_a_bad_file(tmp_path: Path) -> None:
    make(tmp_path, "t-0/0.log", "t-0/9.log")
    (tmp_path / "t-0" / "5.log").write_bytes(bytes(50))
    (tmp_path / "t-0" / "7.log").write_bytes(v2_batch(attributes=7))
    status, out, errors = dump("t-0", "nowhere-0", cwd=tmp_path)
    assert status == UNREADABLE
    assert dumped(out) == [f"t-0/{offset}.log" for offset in (0, 5, 7, 9)]
    assert [line.split(":")[1] for line in errors] == [" t-0/5.log", " t-0/7.log", " nowhere-0"]


def test_broken_links_in_a_directory(tmp_path: Path) -> None:
    make(tmp_path, "t-0/0.log", "t-0/9.log", "u-0/0.log")
    (tmp_path / "t-0" / "5.log").symlink_to("nowhere")
    (tmp_path / "t-0" / "6.log").symlink_to("6.log")
    (tmp_path / "t-1").symlink_to("t-1")
    status, out, errors = dump(".", cwd=tmp_path)
    assert status == UNREADABLE
    assert [name for name in dumped(out) if name[-5:] in ("0.log", "9.log")] == [
        "./t-0/0.log",
        "./t-0/9.log",
        "./u-0/0.log",
    ]
    assert [line.split(":")[1] for line in errors][:2] == [" ./t-0/5.log", " ./t-0/6.log"]


def test_unreadable_partition_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    make(tmp_path, "a-0/0.log", "b-0/0.log", "c-0/0.log")
    opened = os.open

    def refuse_b(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if os.fspath(path).endswith("b-0"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return opened(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", refuse_b)
    status = cli.invoke(cli.make_context("kdump", ["dump", str(tmp_path)]))
    printed = capfd.readouterr()
    assert status == UNREADABLE
    assert dumped(printed.out.splitlines()) == [f"{tmp_path}/a-0/0.log", f"{tmp_path}/c-0/0.log"]
    assert printed.err == f"kdump: {tmp_path}/b-0: Permission denied\n"


@pytest.mark.slow
def test_names_with_odd_characters(tmp_path: Path) -> None:
    for name in ("été 1/0.log", "a,b/0.log", "new\nline/0.log"):
        make(tmp_path, name)
        run = subprocess.run([*KDUMP, "dump", name], cwd=tmp_path, capture_output=True, timeout=60, check=False)
        assert (run.returncode, run.stderr) == (CLEAN, b"")
        assert run.stdout.startswith(b"Dumping " + name.encode() + b"\n")


@pytest.mark.slow
def test_name_that_is_not_utf8(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path) + b"/\xff"
    os.mkdir(folder)
    with open(folder + b"/0.log", "wb") as file:
        file.write(BATCH + b"rest")
    command = [*map(os.fsencode, KDUMP), b"dump", b"\xff/0.log", b"\xff/1.log"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=60, check=False)
    assert run.returncode == UNREADABLE
    assert run.stdout.startswith(b"Dumping \xff/0.log\n")
    assert run.stderr == b"kdump: \xff/1.log: no such file or directory\n"


def test_inputs_are_untouched(tmp_path: Path) -> None:
    make(tmp_path, "t-0/0.log", "t-0/0.index", "t-0/0.timeindex", "t-0/0.txnindex", "t-0/0.snapshot")
    (tmp_path / "t-0" / "0.index").write_bytes(bytes(11))
    (tmp_path / "t-0" / "0.timeindex").write_bytes(bytes(13))
    paths = sorted((tmp_path / "t-0").iterdir())
    for path in paths:
        path.chmod(0o400)
        os.utime(path, (1_000_000_000, 1_000_000_000))
    (tmp_path / "t-0").chmod(0o500)
    before = [(path.name, path.read_bytes(), path.stat().st_mtime_ns, path.stat().st_mode) for path in paths]
    for words in ([], ["--print-data-log"], ["--index-sanity-check"], ["--verify-index-only"]):
        dump("--all-files", *words, "t-0", cwd=tmp_path)
    now = [
        (path.name, path.read_bytes(), path.stat().st_mtime_ns, path.stat().st_mode)
        for path in sorted((tmp_path / "t-0").iterdir())
    ]
    (tmp_path / "t-0").chmod(0o700)
    assert now == before
