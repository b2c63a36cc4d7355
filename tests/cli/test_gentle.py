"""``--rate`` and ``--idle``, which all commands have."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kdump.log import metering
from kdump.system import processes
from tests.harness import ROOT
from tests.harness.cli_runs import CLEAN, NAME, USAGE, kdump
from tests.harness.clock import Clock

RATE = 1000
COMMANDS = {
    "dump": ("dump", "v2-txn-0/" + NAME),
    "dump jsonl": ("dump", "--output", "jsonl", "v2-txn-0/" + NAME),
    "explain": ("dump", "--explain", "0", "v2-txn-0/" + NAME),
    "verify": ("verify", "v2-txn-0"),
    "startup": ("verify", "--startup", "v2-txn-0"),
    "repair": ("repair", "v2-txn-0"),
    "convert": ("convert", "--to", "jsonl", "v2-txn-0", "-o", "out"),
    "stats": ("stats", "v2-txn-0"),
    "what-if": ("stats", "--what-if", "compaction", "v2-txn-0"),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "fixtures" / "segments" / "v2-txn-0", tmp_path / "v2-txn-0")
    return tmp_path


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_reads_at_the_rate(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    clock = Clock()
    monkeypatch.setattr(metering, "time", clock)
    words = COMMANDS[name]
    slow = kdump(*words, "--rate", str(RATE), cwd=folder)
    assert slow.returncode == CLEAN, slow.stderr
    least = 100 if name == "explain" else (folder / "v2-txn-0" / NAME).stat().st_size
    assert clock.now - 100 >= least / RATE
    shutil.rmtree(folder / "out", ignore_errors=True)
    quick = kdump(*words, cwd=folder)
    assert (quick.stdout, quick.returncode) == (slow.stdout, slow.returncode)


@pytest.mark.parametrize("command", ["dump", "verify", "stats", "convert"])
@pytest.mark.parametrize("option", [("--rate", "5"), ("--idle",)])
def test_not_with_spark(folder: Path, command: str, option: tuple[str, ...]) -> None:
    words = ["-o", "out", "--to", "jsonl"] if command == "convert" else ["--output", "jsonl"]
    run = kdump(command, *words, "--engine", "spark", *option, "v2-txn-0", cwd=folder)
    assert run.returncode == USAGE
    assert f"{option[0]} goes with --engine local only".encode() in run.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_idle(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    idle: list[None] = []
    monkeypatch.setattr(processes, "be_idle", lambda: idle.append(None))
    assert kdump(*COMMANDS[name], "--idle", cwd=folder).returncode == CLEAN
    assert len(idle) == 1


def test_idle_where_the_system_has_no_such_priority(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def cannot() -> None:
        raise OSError("no idle I/O class is known on pdp11")

    monkeypatch.setattr(processes, "be_idle", cannot)
    run = kdump("dump", "--idle", "v2-txn-0/" + NAME, cwd=folder)
    assert run.returncode == CLEAN
    assert run.stderr == b"kdump: --idle: no idle I/O class is known on pdp11\n"
