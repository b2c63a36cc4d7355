"""The fold of a registry's topic, against the answers of real registries and rule by rule."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kdump.codes import Codes
from kdump.schemas.registry import (
    DEFAULT_COMPATIBILITY,
    DEFAULT_MODE,
    Place,
    Reference,
    Registry,
    SchemaRecord,
    context_of,
    registry_of,
)
from kdump.schemas.topic import cleaned
from kdump.verify.run import findings as verified
from tests.harness.schemas import TOPICS, answers, records_in, registry, schema_cases, schema_key, schema_value, schemas

IN_MEMORY = "after compaction, the registry not restarted"
"""The only state that the disk does not have: the registry still knows what the cleaner has removed."""


def states() -> Iterator[tuple[str, str, dict[str, Any], Registry]]:
    """Registry, label, what it answered, and the fold of the records up to then."""
    for name, topic in TOPICS.items():
        before, after = (records_in(schema_cases() / folder / topic) for folder in ("logdir", "compacted"))
        for line in answers(f"registry-{name}.jsonl"):
            state = line.get("state")
            if state is not None and state["label"] != IN_MEMORY:
                is_whole = state["end_offset"] <= before[-1].offset + 1 or "full log" in state["label"]
                found = registry_of(before if is_whole else after, at_offset=state["end_offset"] - 1)
                yield name, state["label"], state, found


def shown(found: Registry, name: str) -> dict[str, Any]:
    """A fold in the words of the answers."""
    of_live = {one.place.subject for one in found.ordered if not one.deleted}
    subjects = {one.place.subject for one in found.ordered}
    is_confluent = name == "confluent"
    return {
        "subjects": sorted(of_live),
        "subjects_soft_deleted": sorted(subjects - of_live),
        "contexts": sorted(found.contexts),
        "config_global": found.compatibility.get(None, {}).get("compatibilityLevel", DEFAULT_COMPATIBILITY),
        "mode_global": found.modes.get(None, {}).get("mode", DEFAULT_MODE),
        "versions": {one.place: (one.id, one.type, one.deleted) for one in found.ordered},
        "guids": {one.place: one.guid for one in found.ordered} if is_confluent else {},
        "texts": {one.place: one.text for one in found.ordered} if is_confluent else {},
        "references": {one.place: list(one.references) for one in found.ordered if one.references},
        "configs": {subject: found.compatibility.get(subject, {}).get("compatibilityLevel") for subject in subjects},
        "modes": {subject: found.modes.get(subject, {}).get("mode") for subject in subjects} if is_confluent else {},
    }


def expected(state: dict[str, Any], name: str) -> dict[str, Any]:
    """An answer in the same words."""
    detail = state["detail"]
    details = [(Place(one["subject"], one["version"]), one) for of in detail.values() for one in of["detail"].values()]
    is_confluent = name == "confluent"
    referring = {place: one["references"] for place, one in details if one.get("references")}
    deleted = {Place(subject, version) for subject, of in detail.items() for version in of["versions_soft_deleted"]}
    subjects = {place.subject for place, _ in details}
    return {
        "subjects": sorted(state["subjects"]),
        "subjects_soft_deleted": sorted(one for one in state["subjects_soft_deleted"] if one in subjects),
        "contexts": state.get("contexts", ["."]),
        "config_global": state["config_global"]["compatibilityLevel"],
        "mode_global": state["mode_global"]["mode"],
        "versions": {place: (one["id"], one.get("schemaType", "AVRO"), place in deleted) for place, one in details},
        "guids": {place: one["guid"] for place, one in details} if is_confluent else {},
        "texts": {place: one["schema"] for place, one in details} if is_confluent else {},
        "references": {place: [Reference(**of) for of in given] for place, given in referring.items()},
        "configs": {subject: (detail[subject]["config"] or {}).get("compatibilityLevel") for subject in subjects},
        "modes": {subject: (detail[subject]["mode"] or {}).get("mode") for subject in subjects} if is_confluent else {},
    }  # fmt: skip


def test_every_state_of_real_registries() -> None:
    count = 0
    for name, label, state, found in states():
        count += 1
        assert shown(found, name) == expected(state, name), f"{name}: {label}"
        for one in state["ids"]:
            if one.get("http", 200) != 200 or isinstance(one["versions_with_deleted"], dict):
                continue
            owner = next(found.of_id(one.get("context", "."), one["id"]))
            places = found.places_of(owner)
            assert {(of["subject"], of["version"]) for of in one["versions_with_deleted"]} == set(places), one["id"]
            live = {place for place in places if not found.versions[place].deleted}
            assert {(of["subject"], of["version"]) for of in one["versions"]} == live, one["id"]
    assert count == 34


def test_an_id_that_another_text_has_is_refused() -> None:
    first = (schema_key("a", 1), schema_value("a", 1, 7, '"int"'))
    found = registry(first, (schema_key("b", 1), schema_value("b", 1, 7, '"long"')))
    assert list(found.versions) == [("a", 1)]
    same = registry(first, (schema_key("b", 1), schema_value("b", 1, 7, '"int"')))
    assert list(same.versions) == [("a", 1), ("b", 1)]
    elsewhere = registry(first, (schema_key(":.eu:b", 1), schema_value(":.eu:b", 1, 7, '"long"')))
    assert list(elsewhere.versions) == [("a", 1), (":.eu:b", 1)]


def test_a_hard_deletion_frees_the_id() -> None:
    found = registry(
        (schema_key("a", 1), schema_value("a", 1, 7, '"int"')),
        (schema_key("a", 1), None),
        (schema_key("b", 1), schema_value("b", 1, 7, '"long"')),
    )
    assert [(one.place, one.text) for one in found.of_id(".", 7)] == [(("b", 1), '"long"')]


def test_import_mode_removes_what_is_softly_deleted() -> None:
    subjects = {"a": True, "b": True, ":.eu:c": True, ":.eu:d": False}
    pairs = [
        (schema_key(subject, 1), schema_value(subject, 1, number, f'"{number}"', deleted=deleted))
        for number, (subject, deleted) in enumerate(subjects.items())
    ]
    clear = {"keytype": "CLEAR_SUBJECT", "magic": 0}
    one = registry(*pairs, ({**clear, "subject": "a"}, {"subject": "a"}))
    assert list(one.versions) == [("b", 1), (":.eu:c", 1), (":.eu:d", 1)]
    context = registry(*pairs, ({**clear, "subject": ":.eu:"}, {"subject": ":.eu:"}))
    assert list(context.versions) == [("a", 1), ("b", 1), (":.eu:d", 1)]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"no JSON", b"x"),
        (b"[" * 100_000, b"{}"),
        (b"[]", b"{}"),
        ({"keytype": 7}, {}),
        ({"keytype": "SCHEMA", "subject": 7, "version": 1}, {}),
        ({"keytype": "SCHEMA", "subject": "a", "version": "1"}, {}),
        (schema_key("a", 1), b"no JSON"),
        (schema_key("a", 1), {"id": "1", "schema": "x"}),
        (schema_key("a", 1), {"id": 1, "schema": {}}),
    ],
)
def test_what_is_no_record_of_a_registry_is_skipped(key: Any, value: Any) -> None:
    found = registry((key, value))
    assert (found.versions, found.skipped) == ({}, 1)


def test_time_and_offset() -> None:
    records = [
        SchemaRecord(offset, 1000 + offset, b'{"keytype":"MODE","magic":0}', b'{"mode":"M%d"}' % offset)
        for offset in range(3)
    ]
    assert registry_of(records, at=1001).modes[None] == registry_of(records, at_offset=1).modes[None] == {"mode": "M1"}
    assert registry_of(records).modes[None] == {"mode": "M2"}


def test_references_come_first() -> None:
    def refers(subject: str, *to: str) -> dict[str, Any]:
        references = [{"name": one, "subject": one, "version": 1} for one in to]
        return schema_value(subject, 1, ord(subject), f'"{subject}"', references=references)

    found = schemas(a=refers("a", "b", "gone"), b=refers("b", "c"), c=refers("c", "c", "b"), d=refers("d"))
    assert [one.place.subject for one in found.references_first()] == ["c", "b", "a", "d"]


def test_references_in_contexts() -> None:
    found = registry(
        (schema_key("t", 1), schema_value("t", 1, 1, '"int"')),
        (schema_key(":.eu:t", 3), schema_value(":.eu:t", 3, 2, '"long"')),
    )
    asked = [(1, "."), (3, ".eu"), (1, ".eu"), (-1, ".eu"), (2, ".")]
    referred = [found.referred(Reference("n", "t", version), context) for version, context in asked]
    texts = [None if one is None else one.text for one in referred]
    assert texts == ['"int"', '"long"', '"int"', '"long"', None]


def test_contexts_of_subjects() -> None:
    assert [context_of(one) for one in ("a", ":.eu:a", ":.eu:", ":a:b", ":.eu")] == [".", ".eu", ".eu", ".", "."]


def findings(logdir: Path) -> list[tuple[str, str]]:
    """Code and message of what verify says of registries in a log directory."""
    found = [one for one in verified(str(logdir)) if one.code is Codes.REGISTRY_RETURNS]
    return [(Path(one.path or "").name, one.message) for one in found]


def test_what_a_start_after_compaction_brings_back() -> None:
    """What Confluent's registry did (its number 4420), as it happened: the last state says so."""
    assert findings(schema_cases() / "logdir") == [
        (
            "00000000000000000047.log",
            "once the cleaner has removed tombstones, and the registry starts again, res-value version 1 comes back "
            "(id 8, soft-deleted), by the record at offset 88",
        )
    ]
    last = [line["state"] for line in answers("registry-confluent.jsonl") if "state" in line][-1]
    assert "res-value" in last["subjects_soft_deleted"]
    assert findings(schema_cases() / "compacted") == []


def test_other_ways_to_come_back() -> None:
    value = schema_value("a", 1, 1, '"int"')
    records = [
        SchemaRecord(0, 0, b'{"keytype":"SCHEMA","subject":"a","version":1,"magic":0}', json.dumps(value).encode()),
        SchemaRecord(1, 0, b'{"keytype":"SCHEMA","subject":"a","version":1,"magic":1}', None),
        SchemaRecord(2, 0, b'{"keytype":"SCHEMA","subject":"a","version":1,"magic":0}', None),
    ]
    assert list(registry_of(cleaned(records[:2])).versions) == [("a", 1)]
    assert list(cleaned(records)) == []
    # A deletion of Karapace is no tombstone to the cleaner, and stays.
    assert list(registry_of(cleaned([records[0], records[1]._replace(value=b"")])).versions) == []


def test_a_deleted_subject_without_a_version() -> None:
    """As Redpanda's registry writes it."""
    key = {"keytype": "DELETE_SUBJECT", "subject": "a", "magic": 0, "seq": 3, "node": 1}
    pairs = [(schema_key("a", number), schema_value("a", number, number, f'"{number}"')) for number in (1, 2)]
    found = registry(*pairs, (key, {"subject": "a"}), (schema_key("a", 3), schema_value("a", 3, 3, '"3"')))
    assert [one.deleted for one in found.ordered] == [True, True, False]
    assert registry((key, {"subject": "a", "version": "2"})).skipped == 1


def test_rules_and_texts_that_java_would_not_write_change_nothing_else() -> None:
    value = schema_value("a\ud800", 1, 1, "int", ruleSet={"domainRules": 5, "migrationRules": [None]})
    found = registry((schema_key("a\ud800", 1), value))
    assert [one.place for one in found.ordered] == [Place("a?", 1)]
