"""Schema registries and the values that they describe, on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.harness.cli_runs import CLEAN, UNREADABLE, kdump
from tests.harness.schemas import schema_cases, write_registry


def rows(*words: str, cwd: Path | None = None) -> list[dict[str, Any]]:
    run = kdump(*words, "--output", "jsonl", cwd=cwd or schema_cases() / "logdir")
    assert run.returncode == CLEAN, run.stderr
    return [json.loads(line) for line in run.stdout.splitlines()]


def test_state_rows() -> None:
    found = rows("state", "--at-offset", "47", "_schemas-0")
    (version,) = (row for row in found if row.get("subject") == "hist-b-value" and row["type"] == "schema")
    text = '{"type":"record","name":"HB","namespace":"com.acme.shop","fields":[{"name":"x","type":"int"}]}'
    assert json.dumps(version) == json.dumps(
        {
            "type": "schema",
            "subject": "hist-b-value",
            "version": 1,
            "id": 30,
            "guid": "93568a86-a3c7-f095-dd55-eb2dde91bdd8",
            "schemaType": "AVRO",
            "references": [],
            "schema": text,
            "deleted": False,
        }
    )
    subjects = [row for row in found if row["type"] == "subject"]
    assert subjects[0] == {"type": "subject", "subject": None, "compatibility": "FULL", "mode": "READWRITE"}
    own = {"type": "subject", "subject": "prims-value", "compatibility": "NONE", "mode": None}
    assert own in subjects
    assert [row for row in found if row["type"] == "context"] == [{"type": "context", "context": "."}]


def test_state_of_a_time_and_of_a_topic_with_any_name() -> None:
    at = rows("state", "--at", "1795893361255", "_schemas-0")
    assert {row["version"]: row["deleted"] for row in at if row.get("subject") == "hist-a-value" and "id" in row} == {
        2: True,
        3: True,
        4: False,
    }
    karapace = rows("state", "_schemas_karapace-0")
    assert {row["guid"] for row in karapace if row["type"] == "schema"} == {None}
    assert {row["version"] for row in karapace if row.get("subject") == "hist-a-value" and "id" in row} == {1, 3, 4}


def test_history() -> None:
    found = rows("state", "--history", "subject=hist-b-value", "_schemas-0")
    assert [(row["offset"], row["change"], row["version"], row["before"], row["after"]) for row in found] == [
        (47, "registered", 1, None, 30),
        (48, "registered", 2, None, 31),
        (49, "deleted", 1, 30, 30),
        (49, "deleted", 2, 31, 31),
        (50, "hard-deleted", 2, 31, None),
        (51, "hard-deleted", 1, 30, None),
        (52, "registered", 1, None, 32),
    ]
    assert [row["offset"] for row in rows("state", "--between-offsets", "84:87", "_schemas-0")] == [85]
    lines = kdump("state", "--history", "subject=dup-id-value", "_schemas-0", cwd=schema_cases() / "logdir")
    assert lines.stdout.decode() == "2026-11-28 19:16:09.342  offset 85 dup-id-value version 1 refused 8000\n"
    nothing = kdump("state", "--history", "subject=nobody", "_schemas-0", cwd=schema_cases() / "logdir")
    assert (nothing.returncode, nothing.stdout) == (CLEAN, b"")
    assert b"no change that was asked for is there" in nothing.stderr


def test_commands_and_pages(tmp_path: Path) -> None:
    write_registry(tmp_path / "any-0", a='"int"')
    run = kdump("state", "--output", "commands", "any-0", cwd=tmp_path)
    assert run.stdout.decode().splitlines()[1].startswith("curl -fsS -X POST -H ")
    page = kdump("state", "any-0", cwd=tmp_path).stdout.decode()
    assert all(word in page for word in ("subject", "compatibility", "AVRO"))
    (record,) = _records(tmp_path)
    assert json.loads(record["key"]) == {"keytype": "SCHEMA", "subject": "a", "version": 1, "magic": 1}


def _records(folder: Path) -> list[dict[str, Any]]:
    run = kdump("state", "--output", "records", "any-0", cwd=folder)
    return [json.loads(line) for line in run.stdout.splitlines()]


def test_a_topic_of_others_is_no_registry() -> None:
    run = kdump("state", "--at-offset", "3", "orders-0", cwd=schema_cases() / "logdir")
    assert run.returncode == UNREADABLE
    assert b"no schemas" in run.stderr
