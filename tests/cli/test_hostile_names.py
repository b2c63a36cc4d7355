"""Names and keys that would drive a terminal, in every command and every form of its output."""

from __future__ import annotations

import json
import os
import re
import struct
from pathlib import Path

import pytest

from tests.harness.batches import NOW, v2_batch
from tests.harness.cli_runs import CLEAN, kdump, on_a_terminal
from tests.harness.fast_reference import Row

HOSTILE = "t\x1b]0;x\x07\x1b[31m\x7f\u009b31m\u0085\u202e,="
NAME = f"{0:020}.log"
# But for line ends and tabs.
RAW = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]|\r(?!\n)")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two log directories with a topic of this name, and committed offsets of such a group and topic."""
    folder = tmp_path_factory.mktemp("hostile")
    text = HOSTILE.encode()
    batch = v2_batch([Row(0, 0, text, text, [(text, text)]), Row(1, 1, None, text)])
    for copy, data in (("a", batch), ("b", batch + batch[:40])):
        (folder / copy / f"{HOSTILE}-0").mkdir(parents=True)
        (folder / copy / f"{HOSTILE}-0" / NAME).write_bytes(data)
        (folder / copy / f"{HOSTILE}-0" / f"{0:020}.index").write_bytes(b"xyz")
    (folder / "__consumer_offsets-0").mkdir()
    string = struct.pack(">h", len(text)) + text
    key = struct.pack(">h", 1) + string + string + struct.pack(">i", 0)
    value = struct.pack(">hqi", 3, 5, -1) + string + struct.pack(">q", NOW)
    (folder / "__consumer_offsets-0" / NAME).write_bytes(v2_batch([Row(0, 0, key, value)]))
    return folder


@pytest.mark.parametrize(
    "command",
    [
        *(f"dump --output {form} --records b/*" for form in ("kafka", "jsonl", "csv", "table")),
        "dump --print-data-log b/*",
        "dump --offsets-decoder --print-data-log __consumer_offsets-0",
        *(f"verify --output {form} b" for form in ("text", "jsonl", "junit", "sarif", "github")),
        *(f"verify --startup --output {form} b" for form in ("text", "jsonl")),
        *(f"stats --output {form} b" for form in ("table", "jsonl")),
        *(f"stats --by key --output {form} b" for form in ("table", "jsonl")),
        *(f"stats --offsets-for 1 --output {form} b" for form in ("table", "jsonl", "reset-csv")),
        *(f"state --output {form} __consumer_offsets-0" for form in ("table", "jsonl", "reset-csv")),
        *(f"diff --records --output {form} a b" for form in ("table", "jsonl", "junit")),
        *(f"repair --output {form} b" for form in ("text", "jsonl")),
        *(f"restore --output {form} b" for form in ("text", "jsonl", "commands")),
        "explain --offset 0 b/*",
        "convert -o - --to jsonl b/*",
        "convert -o new --to-magic 1 --skip-damaged b/*",
        "stats --what-if compaction b",
    ],
)
@pytest.mark.slow
def test_nothing_drives_a_terminal(command: str, root: Path) -> None:
    words = [os.path.join("b", f"{HOSTILE}-0") if word == "b/*" else word for word in command.split()]
    shown = on_a_terminal(*words, cwd=root, NO_COLOR="1").decode()
    assert shown
    assert RAW.findall(shown) == []


def test_a_pipe_gets_the_exact_bytes(root: Path) -> None:
    run = kdump("state", "--at", "now", "--output", "reset-csv", "__consumer_offsets-0", cwd=root)
    assert HOSTILE.encode() in run.stdout


def test_names_that_are_no_text(tmp_path: Path) -> None:
    """JSON lines are UTF-8, whatever the files are called."""
    for copy in ("a", "b"):
        folder = os.fsencode(tmp_path / copy) + b"/t\xff-0"
        os.makedirs(folder)
        with open(folder + b"/" + NAME.encode(), "wb") as file:
            file.write(v2_batch([Row(0, 0, b"k", b"v")]))
    for words in (["diff", "a", "b"], ["verify", "a"], ["verify", "--startup", "a"], ["stats", "a"]):
        run = kdump(*words, "--output", "jsonl", cwd=tmp_path)
        assert run.returncode == CLEAN
        rows = [json.loads(line) for line in run.stdout.decode().splitlines()]
        assert {row["topic"] for row in rows if row.get("topic")} <= {"t\ufffd"}
        assert "t\ufffd" in run.stdout.decode()
