"""What brings a registry back: the calls of its REST interface, and the records."""

from __future__ import annotations

import json
import shlex
import subprocess
from typing import Any

from kdump.schemas.registry import SchemaRecord, registry_of
from kdump.schemas.rows import registry_commands, registry_records, state_rows
from tests.harness.schemas import TOPICS, records_in, registry, schema_cases, schema_key, schema_value


def calls(lines: list[str]) -> list[tuple[str, str, Any]]:
    """Method, path and body."""
    found = []
    for line in lines:
        words = shlex.split(line)
        body = json.loads(words[words.index("--data-binary") + 1]) if "--data-binary" in words else None
        found.append((words[3], words[-1].removeprefix("$REGISTRY"), body))
    return found


def test_calls() -> None:
    reference = [{"name": "B", "subject": "it's b", "version": 1}]
    found = registry(
        (schema_key("a", 1), schema_value("a", 1, 1, "A", references=reference)),
        (schema_key("it's b", 1), schema_value("it's b", 1, 2, "B", schemaType="PROTOBUF")),
        (schema_key(":.eu:c", 4), schema_value(":.eu:c", 4, 1, "C", deleted=True, metadata={"tags": {}})),
        ({"keytype": "CONFIG"}, {"compatibilityLevel": "FULL"}),
        ({"keytype": "CONFIG", "subject": "a"}, {"subject": "a", "alias": "b"}),
        ({"keytype": "MODE", "subject": ":.eu:"}, {"mode": "READONLY"}),
    )
    of_b = "/subjects/it%27s%20b/versions"
    assert calls(list(registry_commands(found))) == [
        ("PUT", "/mode?force=true", {"mode": "IMPORT"}),
        ("PUT", "/mode/%3A.eu%3A?force=true", {"mode": "IMPORT"}),
        ("POST", of_b, {"version": 1, "id": 2, "schemaType": "PROTOBUF", "schema": "B"}),
        ("POST", "/subjects/a/versions", {"version": 1, "id": 1, "schema": "A", "references": reference}),
        ("POST", "/subjects/%3A.eu%3Ac/versions", {"version": 4, "id": 1, "schema": "C", "metadata": {"tags": {}}}),
        ("DELETE", "/subjects/%3A.eu%3Ac/versions/4", None),
        ("PUT", "/config", {"compatibility": "FULL"}),
        ("PUT", "/config/a", {"alias": "b"}),
        ("PUT", "/mode", {"mode": "READWRITE"}),
        ("PUT", "/mode/%3A.eu%3A", {"mode": "READONLY"}),
    ]


def test_a_large_schema_is_no_argument_of_a_program() -> None:
    """Linux starts no program with a word of 128 KiB; the shell itself runs ``printf``."""
    text = "it's " * 50_000
    found = registry((schema_key("a", 1), schema_value("a", 1, 1, text)))
    line = next(one for one in registry_commands(found) if " | " in one)
    script = line.replace(" | curl", "; : curl").encode()
    said = subprocess.run(["sh"], input=script, capture_output=True, check=True).stdout
    assert json.loads(said)["schema"] == text
    assert "--data-binary @- " in line


def test_the_records_say_the_same() -> None:
    for topic in TOPICS.values():
        before = registry_of(records_in(schema_cases() / "logdir" / topic))
        rows = list(registry_records(before))
        again = registry_of(
            SchemaRecord(offset, 0, row["key"].encode(), row["value"].encode(), before.of_karapace)
            for offset, row in enumerate(rows)
        )
        assert list(state_rows(again)) == list(state_rows(before))
        assert again.compatibility == before.compatibility
