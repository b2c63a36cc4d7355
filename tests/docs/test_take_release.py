"""packaging/take_release.py: the table out of jars, and the comparison of the table with a list of definitions."""

from __future__ import annotations

import importlib.util
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kdump.format import message
from tests.harness import ROOT

spec = importlib.util.spec_from_file_location("take_release", ROOT / "packaging" / "take_release.py")
assert spec is not None
assert spec.loader is not None
script = importlib.util.module_from_spec(spec)
spec.loader.exec_module(script)

DEFINITIONS: list[dict[str, Any]] = [
    {
        "type": "coordinator-value", "name": "ThingValue", "apiKey": 3, "validVersions": "0-2",
        "flexibleVersions": "1+",
        "fields": [
            {"name": "Name", "type": "string", "versions": "0+", "nullableVersions": "1+", "default": "null"},
            {"name": "Parts", "type": "[]Part", "versions": "0+", "fields": [
                {"name": "Id", "type": "int32", "versions": "0+", "mapKey": True, "about": "a // b"},
            ]},
            {"name": "Other", "type": "Shared", "taggedVersions": "2+", "tag": 0, "nullableVersions": "2+"},
        ],
        "commonStructs": [
            {"name": "Shared", "versions": "0+", "fields": [
                {"name": "X", "type": "int8", "versions": "0+", "default": "-1"},
            ]},
        ],
    },
    {"type": "coordinator-key", "name": "ThingKey", "apiKey": 3, "validVersions": "0", "flexibleVersions": "none",
     "fields": [{"name": "GroupId", "type": "string", "versions": "0"}]},
]  # fmt: skip


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A table of the definitions above, made from a jar, in place of Kafka's."""
    (tmp_path / "libs").mkdir()
    with zipfile.ZipFile(tmp_path / "libs" / "kafka-group-coordinator-9.9.jar", "w") as jar:
        for entry in DEFINITIONS:
            text = "// license\n" + json.dumps(entry, indent=1) + "\n// end"
            jar.writestr(f"common/message/{entry['name']}.json", text)
        jar.writestr("common/message/Request.json", '{"type": "request", "name": "Request", "fields": []}')
    monkeypatch.setattr(script, "GROUPS", {"kafka-group-coordinator": {"group-coordinator": ()}})
    path = tmp_path / "messages.json"
    path.write_text(script.make(tmp_path / "libs"))
    for module in (script, message):
        monkeypatch.setattr(module, "TABLE", path)
    message.schemas.cache_clear()
    yield path
    monkeypatch.undo()
    message.schemas.cache_clear()


def listed() -> dict[str, Any]:
    """The same definitions as somebody else might list them."""

    def with_names(field: dict[str, Any]) -> dict[str, Any]:
        name = field["name"]
        inner = {"fields": [with_names(item) for item in field["fields"]]} if "fields" in field else {}
        versions = {"versions": field.get("versions", field.get("taggedVersions"))}
        return {**field, **versions, "jsonName": name[0].lower() + name[1:], **inner}

    records = [
        {
            **entry,
            "group": "group-coordinator",
            "fields": [with_names(field) for field in entry["fields"]],
            "commonStructs": [
                {**struct, "fields": [with_names(field) for field in struct["fields"]]}
                for struct in entry.get("commonStructs", [])
            ],
        }
        for entry in DEFINITIONS
    ]
    return {"kafkaVersion": "9.9", "records": records}


def check(tmp_path: Path, definitions: dict[str, Any]) -> list[str]:
    path = tmp_path / "records.json"
    path.write_text(json.dumps(definitions))
    found: list[str] = script.check(path)
    return found


def test_the_table_has_all_that_was_defined(table: Path, tmp_path: Path) -> None:
    assert json.loads(table.read_text())["kafkaVersion"] == "9.9"
    assert list(message.schemas()) == ["ThingKey", "ThingValue"]
    assert check(tmp_path, listed()) == []


@pytest.mark.parametrize(
    ("path", "value", "found"),
    [
        (("kafkaVersion",), "9.8", ["kafkaVersion"]),
        (("records", 0, "validVersions"), "0-3", ["ThingValue: group, type, apiKey, validVersions or"]),
        (("records", 0, "name"), "New", ["New: not in the table", "ThingValue: not in the list"]),
        (("records", 0, "fields", 0, "nullableVersions"), "0+", ["ThingValue: name: nullable is Versions("]),
        (("records", 0, "fields", 0, "default"), None, ["ThingValue: name: default is None, listed "]),
        (("records", 0, "fields", 1, "fields", 0, "type"), "int64", ["ThingValue: parts.id: type is int32,"]),
        (("records", 0, "fields", 2, "tag"), 4, ["ThingValue: other: tag is 0, listed 4"]),
        (("records", 0, "commonStructs", 0, "fields", 0, "default"), "0", ["ThingValue: other.x: default is -1"]),
        (("records", 1, "fields", 0, "jsonName"), "group", ["ThingKey: fields ['groupId']"]),
    ],
)  # fmt: skip
def test_every_difference_is_found(
    table: Path, tmp_path: Path, path: tuple[Any, ...], value: Any, found: list[str]
) -> None:
    definitions = listed()
    place: Any = definitions
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    differences = check(tmp_path, definitions)
    assert [any(line.startswith(start) for line in differences) for start in found] == [True] * len(found)


def test_a_missing_jar_or_definition_is_said(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="0 files kafka-clients"):
        script.make(tmp_path)
    with zipfile.ZipFile(tmp_path / "kafka-clients-9.9.jar", "w") as jar:
        jar.writestr("common/message/Request.json", '{"type": "request", "name": "Request"}')
    with pytest.raises(SystemExit, match="no definition ControlRecordTypeSchema"):
        script.make(tmp_path)


def test_where_the_oracle_finds_the_jars(tmp_path: Path) -> None:
    """Elsewhere it would skip all tests, and say that all is well."""
    for name in ("k99/lib", "libs"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "kafka-group-coordinator-9.9.0.jar").touch()
    assert script.oracle_directory(tmp_path / "k99" / "lib") == tmp_path
    with pytest.raises(SystemExit, match="in a directory k99/lib, beside those of other releases"):
        script.oracle_directory(tmp_path / "libs")


def test_changed_methods(monkeypatch: pytest.MonkeyPatch) -> None:
    classes = {
        "old": {"Log": {"read()": ["1"], "cut()": ["1"], "close()": ["1"]}, "Gone": {"a()": [], "b()": []}},
        "new": {"Log": {"read()": ["1"], "cut()": ["2"], "shut()": ["1"]}, "Added": {"a()": []}},
    }
    monkeypatch.setattr(script, "MODELLED", {"kafka-storage": "log/"})
    monkeypatch.setattr(script, "_jar", lambda jars, name: jars)
    monkeypatch.setattr(script, "_methods", lambda jar, wanted: classes[jar.name])
    found = script.changed_methods(Path("new"), Path("old"))
    assert found == ["+ Added", "- Gone", "- Log: close()", "~ Log: cut()", "+ Log: shut()"]


def test_noise_of_bytecode() -> None:
    before = "      12: invokevirtual #55   // Method org/apache/kafka/raft/KafkaRaftLog.end:()Lorg/apache/kafka/A;"
    after = (
        "      14: invokevirtual #61   // Method org/apache/kafka/raft/internals/KafkaRaftLog.end:()Lorg/apache/B/A;"
    )
    assert script._NOISE.sub(" ", before) == script._NOISE.sub(" ", after)
    assert script._NOISE.sub(" ", before) != script._NOISE.sub(" ", before.replace("end:", "start:"))
