"""Schema registries and the values that they describe, on the command line."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from kdump import scan as scan_logs
from kdump.codes import KdumpError
from kdump.rows.humantable import value_text
from kdump.state.coordinatorpage import state_table
from tests.harness.cli_runs import CLEAN, UNREADABLE, USAGE, kdump
from tests.harness.schemas import TOPICS, answers, schema_cases, write_registry


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


def test_what_no_registry_can_read_is_counted() -> None:
    run = kdump("state", "--json", "_schemas-0", cwd=schema_cases() / "logdir")
    assert run.stderr == b"kdump: _schemas-0: 1 record that no registry can read\n"


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


def decoded(name: str, *words: str) -> dict[tuple[str, int, int], dict[str, Any]]:
    """The rows of all topics of a registry, by topic, partition and offset."""
    topics = {f"{one['topic']}-{one['partition']}" for one in answers("records.jsonl") if one["registry"] == name}
    found = rows("dump", "--schemas", TOPICS[name], *words, *sorted(topics))
    return {(row["topic"], row["partition"], row["offset"]): row for row in found if row["type"] == "record"}


OTHER_FORMAT = {("bad", 16), ("bad-pb", 11)}
"""Values by a schema of another format than the topic's client takes: kdump takes that of the schema."""
GONE = ("kp-hist-a", 1)
"""The live registry still had the schema in memory, the disk has not."""


def in_the_words_of_python(value: Any) -> Any:
    """Two answers of Java: Avro's bytes of a decimal are text, Protobuf shows absent fields and other names."""
    if value == {"order_id": 1, "customer": "Zo\u00eb", "amount": "\u0007\u00cf"}:
        return {**value, "amount": {"$decimal": "19.99"}}
    if isinstance(value, dict) and "theText" in value:
        return {"text": value["theText"]}
    if isinstance(value, dict) and "zig" in value:
        return {"card": "kp", "zig": ["-1", "2"]}
    return value


def test_every_record_of_real_serializers() -> None:
    found = {name: decoded(name) for name in TOPICS}
    counts = Counter[str]()
    for one in answers("records.jsonl"):
        row = found[one["registry"]][one["topic"], one["partition"], one["offset"]]
        for part, column in (("key", "decodedKey"), ("value", "decodedValue")):
            expected, shown = one[part], row[column]
            place = (one["topic"], one["offset"])
            if "null" in expected or "string" in expected:
                assert shown is None, place
                counts["none"] += 1
            elif place == GONE:
                assert (shown, row["problem"]) == (
                    None,
                    "the value does not decode as schema: the id 13 is not in the registry; hist-a-value version 2 had "
                    "it, and was deleted for good at offset 18",
                )
            elif not {"python", "java", "java_json_error"} & expected.keys():
                assert (shown is None and row["problem"] is not None) == (place not in OTHER_FORMAT), place
                counts["error"] += 1
            else:
                data = expected["python"] if "python" in expected else in_the_words_of_python(expected["java"])
                assert json.dumps(shown["data"], sort_keys=True) == json.dumps(data, sort_keys=True), place
                if "id" in expected:
                    subjects = [{"subject": of["subject"], "version": of["version"]} for of in expected["subjects"]]
                    head = dict(shown["schema"])
                    assert sorted(map(str, head.pop("subjects"))) == sorted(map(str, subjects)), place
                    assert head == {name: expected.get(key) for name, key in HEAD.items()}, place
                counts["data"] += 1
    assert counts == {"none": 153, "data": 184, "error": 40}


HEAD = {"id": "id", "guid": "guid", "type": "schema_type"}


def test_a_log_directory_has_its_own_schemas() -> None:
    found = rows("dump", "--decode", "auto", "--topic", "orders", "--topic", "kp-orders", ".")
    values = {(row["topic"], row["decodedValue"]["schema"]["subjects"][0]["subject"]) for row in found if row["value"]}
    assert values == {("orders", "orders-value"), ("kp-orders", "kp-orders-value")}
    named = rows("dump", "--value-decoder", "schema", "orders-0", "--tombstones")
    assert [(row["decodedKey"]["data"]["region"], row["decodedValue"]) for row in named] == [("EU", None)]
    # Of what is found by itself, nothing is said about values of others.
    quiet = kdump("dump", "--decode", "auto", "bad-0", "--output", "jsonl", cwd=schema_cases() / "logdir")
    assert quiet.stderr.count(b"\n") == 1


def test_text_shows_what_is_decoded() -> None:
    run = kdump("dump", "--schemas", ".", "profiles-0", cwd=schema_cases() / "logdir")
    line = run.stdout.decode().splitlines()[3]
    assert 'payload: {"schema":{"id":28,"guid":"6ca01212-5e4d-c992-0193-58df187b1fd1","type":"JSON","subjects":' in line


def test_a_table_shows_the_data() -> None:
    run = kdump("dump", "--schemas", ".", "--output", "table", "-n", "1", "orders-0", cwd=schema_cases() / "logdir")
    shown = value_text(rows("dump", "--schemas", ".", "orders-0")[0]["decodedValue"])
    assert shown == "order_id=1 customer=Zo\u00eb amount=(19.99) (schema 1)"
    assert "region=EU" in run.stdout.decode()


def test_schemas_that_are_not_there(tmp_path: Path) -> None:
    logdir = schema_cases() / "logdir"
    missing = kdump("dump", "--schemas", "nowhere", "orders-0", cwd=logdir)
    assert (missing.returncode, missing.stderr) == (UNREADABLE, b"kdump: nowhere: no such file or directory\n")
    shutil.copytree(logdir / "orders-0", tmp_path / "orders-0")
    without = kdump("dump", "--value-decoder", "schema", "orders-0", cwd=tmp_path)
    assert b"decoder 'schema': it needs to know where the schemas are (--schemas PATH)" in without.stderr
    nothing = kdump("dump", "--schemas", ".", "orders-0", cwd=tmp_path)
    assert (nothing.returncode, nothing.stderr) == (
        UNREADABLE,
        b"kdump: .: no partition of _schemas, and none with the records of a schema registry\n",
    )


def test_exports(tmp_path: Path) -> None:
    logdir = schema_cases() / "logdir"
    text = kdump("convert", "bad-json-0", "-o", "-", "--to", "jsonl", "--schemas", ".", cwd=logdir)
    shown = [json.loads(line) for line in text.stdout.splitlines()]
    assert {row["type"] for row in shown} == {"record"}
    assert shown[0]["decodedValue"]["data"] == {"name": 5, "code": "x"}
    assert shown[1]["problem"].startswith("the value does not decode as schema: ")
    assert b"offset 1: the value does not decode as schema: " in text.stderr
    wrong = kdump("convert", "bad-json-0", "-o", str(tmp_path), "--schemas", ".", "--codec", "gzip", cwd=logdir)
    assert (wrong.returncode, b"--schemas decodes records for other tools" in wrong.stderr) == (USAGE, True)
    nowhere = kdump("convert", "bad-json-0", "-o", "-", "--to", "csv", "--schemas", "no", cwd=logdir)
    assert (nowhere.returncode, nowhere.stderr) == (UNREADABLE, b"kdump: no: no such file or directory\n")


def test_an_export_as_parquet(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    words = ("convert", "profiles-0", "-o", str(tmp_path / "out"), "--to", "parquet", "--schemas", ".")
    assert kdump(*words, cwd=schema_cases() / "logdir").returncode == CLEAN
    table = parquet.read_table(next((tmp_path / "out").iterdir()))
    assert table.schema.names[-3:] == ["decodedKey", "decodedValue", "problem"]
    assert [json.loads(one)["data"]["name"] for one in table["decodedValue"].to_pylist()][:1] == ["Ann"]


def test_explain(tmp_path: Path) -> None:
    logdir = schema_cases() / "logdir"
    shown = kdump("explain", "bad-json-0", "--offset", "0", "--schemas", ".", cwd=logdir).stdout.decode()
    flat = "".join(line.strip() for line in shown.splitlines())
    assert '"data":{"name":5,"code":"x"}}' in flat
    assert "the value does not decode as schema" in "".join(
        kdump("explain", "bad-json-0", "--offset", "1", "--schemas", ".", cwd=logdir).stdout.decode().splitlines()
    )
    without = kdump("explain", "bad-json-0", "--offset", "0", cwd=logdir).stdout.decode()
    assert "the value" not in without
    assert kdump("explain", "bad-json-0", "--offset", "0", "--schemas", "no", cwd=logdir).returncode == UNREADABLE


def test_the_library() -> None:
    logdir = schema_cases() / "logdir"
    for given in ({"schemas": logdir / "_schemas-0"}, {"decode": "auto"}, {"decode": {"value": "schema"}}):
        scan = scan_logs(logdir / "prims-0", **given)
        assert next(iter(scan)).decoded_value["data"] == "h\u00e9llo"
    with pytest.raises(KdumpError, match="no such file"):
        next(iter(scan_logs(logdir / "prims-0", schemas="nowhere")))


def test_values_by_key() -> None:
    found = rows("state", "--at", "now", "--decode", "auto", "hist-a-0")
    assert [row["value"]["data"] for row in found if row["type"] == "key"] == ["three"]


def used(*words: str) -> list[tuple[Any, ...]]:
    """Topic, part, id, versions, whether they are in the registry, records and bytes."""
    found = rows("stats", "--by", "schema", *words)
    assert {(row["type"], row["by"]) for row in found} == {("stats", "schema")}
    return [
        (
            row["topic"],
            row["part"],
            row["id"],
            [f"{one['subject']} {one['version']}" for one in row["subjects"]],
            row["inRegistry"],
            row["records"],
            row["bytes"],
        )
        for row in found
    ]


def test_schemas_that_topics_use() -> None:
    assert used("ctx-topic-0", "hist-b-0", "customers-0")[:4] == [
        ("ctx-topic", "value", 2, ["orders-value 2"], True, 2, 27),
        ("ctx-topic", "value", 2, [":.eu:only-here-value 1"], True, 1, 8),
        ("customers", "value", 20, ["customers-value 1"], True, 2, 72),
        ("hist-b", "value", 30, [], False, 1, 6),
    ]
    # What customers-value refers to is used, too.
    unused = {one[3][0]: one[5:] for one in used("--schemas", "_schemas-0", "customers-0") if one[0] is None}
    assert unused["orders-value 1"] == (0, 0)
    assert not {"geo-type 1", "address-type 1", "customers-value 1"} & unused.keys()
    (first,) = (row for row in rows("stats", "--by", "schema", "hist-b-0") if row["topic"] == "hist-b")
    assert (first["minTimestamp"], first["maxTimestamp"]) == (1795893362997, 1795893362997)


def test_every_record_is_counted() -> None:
    """As the answers count them: by the schema that each value names."""
    expected: Counter[tuple[str, int]] = Counter()
    for one in answers("records.jsonl"):
        value = one["value"]
        # In bad topics the answers tell no id where something else is wrong, too.
        if one["registry"] == "confluent" and "id" in value and not one["topic"].startswith("bad"):
            expected[one["topic"], value["id"]] += 1
    found = used("--schemas", "_schemas-0", ".")
    known = Counter({(one[0], one[2]): 0 for one in found})
    for topic, part, number, _, is_known, records, _ in found:
        if is_known and part == "value" and not topic.startswith(("kp-", "bad")):
            known[topic, number] += records
    assert {key: count for key, count in known.items() if count} == dict(expected)


def test_a_page_of_uses_and_what_it_needs(tmp_path: Path) -> None:
    logdir = schema_cases() / "logdir"
    page = kdump("stats", "--by", "schema", "orders-0", cwd=logdir).stdout.decode()
    assert "orders-value 3" in page
    wide = "".join(state_table("schemaUse", rows("stats", "--by", "schema", "orders-0"), width=200, color=False))
    assert "2026-11-28 19:15:52.155" in wide
    (tmp_path / "t-0").mkdir()
    for words in (("--by", "schema", "t-0"), ("--schemas", str(logdir), "t-0"), ("--by", "schema", "--quick", "t-0")):
        assert kdump("stats", *words, cwd=tmp_path).returncode == USAGE


def test_restore_says_what_brings_schemas_back() -> None:
    logdir = schema_cases() / "logdir"
    plan = kdump("restore", ".", cwd=logdir).stdout.decode()
    assert "_schemas-0 holds 48 schemas of a registry: --output commands also has what an empty registry needs" in plan
    script = kdump("restore", "--output", "commands", ".", cwd=logdir).stdout.decode()
    assert script.count('if [ -n "${REGISTRY-}" ]; then\ncurl ') == 2
