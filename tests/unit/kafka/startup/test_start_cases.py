"""``verify --startup``: what a real broker start left of 446 partition directories, byte for byte."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kdump.kafka import recover
from kdump.kafka.startup import producers
from tests.harness import ROOT
from tests.harness.archives import cases, unpack_cases
from tests.harness.cli_runs import kdump
from tests.harness.startcases import NOW, differences, settings_of, started


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack_cases("startup", tmp_path_factory.mktemp("startup"))


def state(directory: Path) -> dict[str, tuple[bytes, int, int]]:
    return {
        path.name: (path.read_bytes(), path.stat().st_mtime_ns, path.stat().st_mode) for path in directory.iterdir()
    }


def unpacked(folder: Path, is_wanted: Callable[[str], bool]) -> Path:
    """The cases with these names."""
    results = "startup/results.jsonl"
    return unpack_cases("startup", folder, lambda path: path == results or is_wanted(path[len("startup/cases/") :][:5]))


def test_every_twelfth_case(tmp_path: Path) -> None:
    root = unpacked(tmp_path, lambda name: name[1:].isdecimal() and int(name[1:]) % 12 == 0)
    found = [case for case in cases(root) if (root / case["dir"]).exists()]
    assert len(found) > 30
    for case in found:
        assert differences(started(root / case["dir"], case["params"]), case["expect"]) == [], case["id"]


@pytest.mark.slow
def test_cases(root: Path) -> None:
    found = {}
    for case in cases(root):
        directory = root / case["dir"]
        before = state(directory), directory.stat().st_mtime_ns
        found[case["id"]] = differences(started(directory, case["params"]), case["expect"])
        assert (state(directory), directory.stat().st_mtime_ns) == before
    assert len(found) == 446
    assert {name: wrong for name, wrong in found.items() if wrong} == {}


def test_edges(tmp_path: Path) -> None:
    """Segments that are split into parts of any order, and an index that leads into a batch."""
    edges = unpack_cases("startedges", tmp_path)
    found = {
        case["id"]: differences(started(edges / case["dir"], case["params"]), case["expect"]) for case in cases(edges)
    }
    assert len(found) == 8
    assert {name: wrong for name, wrong in found.items() if wrong} == {}


@pytest.mark.slow
def test_cases_in_columns(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many batches are read with numpy; the answer is the same, with the clock of the last batches too."""
    for module in (recover, producers):
        monkeypatch.setattr(module, "RECOVERED_BATCHES", 0)
        monkeypatch.setattr(module, "BATCHES_IN_CHUNK", 1)
    for case in cases(root):
        assert differences(started(root / case["dir"], case["params"], now=None), case["expect"]) == []


@pytest.mark.slow
def test_read_only_directories(root: Path) -> None:
    """Run as another user than root, who may write anywhere."""
    chosen = list(cases(root))[::40]
    for case in chosen:
        directory = root / case["dir"]
        for path in directory.iterdir():
            path.chmod(0o444)
        directory.chmod(0o555)
        try:
            assert differences(started(directory, case["params"]), case["expect"]) == []
        finally:
            directory.chmod(0o755)


def options(params: dict[str, Any]) -> list[str]:
    settings = settings_of(params)
    return [
        "--clean" if settings.is_clean else "--unclean",
        *("--recovery-point", str(settings.recovery_point)),
        *("--log-start-offset", str(settings.log_start_offset)),
        *("--segment-index-bytes", str(settings.max_index_size)),
        *("--now", str(NOW)),
    ]


TRAPS = re.findall(r"^\.\\\" trap: (s\d+)$", (ROOT / "man" / "kdump-startup.7").read_text(), flags=re.MULTILINE)


@pytest.fixture(scope="module")
def traps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The few cases that the manual shows."""
    return unpacked(tmp_path_factory.mktemp("traps"), TRAPS.__contains__)


@pytest.mark.parametrize("name", TRAPS)
def test_traps_of_the_manual(traps: Path, name: str) -> None:
    """Every worked example is a case, and shows what kdump prints for it, lines folded."""
    case = next(case for case in cases(traps) if case["id"] == name)
    page = (ROOT / "man" / "kdump-startup.7").read_text()
    shown = page.partition(f'.\\" trap: {name}\n')[2].partition(".EX\n")[2].partition(".EE")[0]
    command, _, output = shown.replace("\\-", "-").partition("\n")
    words = command.removeprefix("$ ").split()[1:]
    directory = (traps / case["dir"]).parent
    run = kdump(
        *words, "--now", str(NOW), "--segment-index-bytes", str(case["params"]["segment_index_bytes"]), cwd=directory
    )
    flags = {"--clean": True, "--unclean": False}
    assert next(flags[word] for word in words if word in flags) == case["params"]["clean"]
    for option, member in (("--recovery-point", "recovery_point"), ("--log-start-offset", "log_start_offset")):
        given = int(words[words.index(option) + 1]) if option in words else 0
        assert given == case["params"][member]
    printed = " ".join(run.stdout.decode().split())
    assert run.stderr == b""
    assert len(output) > 40
    for line in output.replace("\n    ", " ").splitlines():
        assert " ".join(line.split()) in printed


@pytest.mark.slow
def test_command_line(root: Path) -> None:
    for case in list(cases(root))[::60]:
        directory = root / case["dir"]
        run = kdump(
            "verify", "--startup", "--output", "jsonl", *options(case["params"]), directory.name, cwd=directory.parent
        )
        line = json.loads(run.stdout)
        assert list(line) == [
            *("type", "file", "topic", "partition", "outcome", "exception"),
            *(
                "brokerVersion",
                "logStartOffset",
                "recoveryPoint",
                "logEndOffset",
                "segments",
                "files",
                "deletedLater",
                "lost",
                "fate",
            ),
        ]
        assert (line["type"], line["file"]) == ("startup", directory.name)
        assert f"{line['topic']}-{line['partition']}" == directory.name
        assert run.returncode == int(line["outcome"] != "starts" or bool(line["lost"]))
        assert {file["action"] for file in line["files"]} <= {"kept", "cut", "rebuilt", "created", "deleted", "renamed"}
        left = {file["name"]: file["size"] for file in line["files"] if file["action"] != "deleted"}
        assert left == {name: state["size"] for name, state in case["expect"]["files"].items()}
        # Every file that was there is told of: under its name, or under the one that it has now.
        told = {file["name"] for file in line["files"]}
        renamed = {file["name"] for file in line["files"] if file["action"] == "renamed"}
        for name in os.listdir(directory):
            assert name in told or {f"{name}.deleted", name.removesuffix(".swap")} & renamed
