"""``kdump state`` of groups and transactional ids."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.harness import ROOT
from tests.harness.batches import NOW
from tests.harness.cli_runs import BATCH, CLEAN, NAME, UNREADABLE, kdump
from tests.harness.decoder_logs import commit, transaction, write_log


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """``t-0``: a log; ``__consumer_offsets-4``: two commits."""
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / NAME).write_bytes(BATCH)
    write_log(tmp_path, "__consumer_offsets-4", [commit("\x1b[31mgroup", offset=7), commit("other", "u", 2, offset=8)])
    return tmp_path


def state(*words: str, cwd: Path) -> tuple[int, str, str]:
    """Exit status, stdout, stderr."""
    run = kdump("state", *words, cwd=cwd)
    return run.returncode, run.stdout.decode(), run.stderr.decode()


def rows(*words: str, cwd: Path) -> list[dict[str, Any]]:
    status, out, errors = state(*words, "--output", "jsonl", cwd=cwd)
    assert (status, errors) == (CLEAN, "")
    return [json.loads(line) for line in out.splitlines()]


def test_committed_offsets(folder: Path) -> None:
    found = rows("--at", "2100-01-01", "__consumer_offsets-4", cwd=folder)
    assert [(row["type"], row["group"], row["topic"], row["partition"], row["offset"]) for row in found] == [
        ("committedOffset", "\x1b[31mgroup", "t", 0, 7),
        ("committedOffset", "other", "u", 2, 8),
    ]
    assert list(found[0]) == [
        "type",
        "group",
        "topic",
        "partition",
        "offset",
        "leaderEpoch",
        "metadata",
        "commitTimestamp",
        "expireTimestamp",
        "recordOffset",
        "timestamp",
        "logStartOffset",
        "logEndOffset",
        "lag",
        "isOutOfRange",
    ]


def test_before_the_first_commit(folder: Path) -> None:
    status, out, errors = state("--at", str(NOW - 1), "--output", "jsonl", "__consumer_offsets-4", cwd=folder)
    assert (status, out) == (CLEAN, "")
    assert "2 later records were passed over" in errors


def test_no_coordinator_among_the_paths(folder: Path) -> None:
    shutil.copytree(folder / "t-0", folder / "logs" / "t-0")
    status, out, errors = state("--at", "2100-01-01", "logs", cwd=folder)
    assert (status, out) == (UNREADABLE, "")
    assert "__consumer_offsets" in errors


@pytest.mark.slow
def test_keys_are_in_the_manual(folder: Path) -> None:
    manual = (ROOT / "man" / "kdump-state.1").read_text()
    documented = set(re.findall(r"\w+", manual.partition('.SS "JSON lines"')[2].partition(".SH")[0]))
    write_log(folder, "__transaction_state-1", [transaction("t")])
    found = rows("__consumer_offsets-4", "__transaction_state-1", cwd=folder)
    assert {str(row["type"]) for row in found} == {"committedOffset", "transactionalId"}
    for row in found:
        assert row.keys() <= documented
        assert row["type"] in documented
