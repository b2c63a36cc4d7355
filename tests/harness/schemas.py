"""The registries of ``fixtures/cases/schemas.tar.zst``, and records for their topics."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from kdump.inputs import inputs_of
from kdump.schemas.registry import Registry, SchemaRecord, registry_of
from kdump.schemas.topic import schema_records
from kdump.verify.partitionentries import PartitionEntries
from tests.harness.archives import unpack_cases
from tests.harness.batches import Row, v2_batch

TOPICS = {"confluent": "_schemas-0", "karapace": "_schemas_karapace-0"}
_FOLDER = TemporaryDirectory(prefix="kdump-schemas-")


@cache
def schema_cases() -> Path:
    """The unpacked archive. No test changes it."""
    return unpack_cases("schemas", Path(_FOLDER.name))


def answers(name: str) -> list[dict[str, Any]]:
    """The lines of a file with answers."""
    return [json.loads(line) for line in (schema_cases() / "answers" / name).read_text().splitlines()]


def records_in(directory: Path) -> list[SchemaRecord]:
    """The records of a partition, which is whole."""
    failed: list[Exception] = []
    logs = PartitionEntries(inputs_of([str(directory)], failed.append), on_error=failed.append)
    found = list(schema_records(logs, logs.partitions[0], failed.append))
    assert failed == []
    return found


def schema_key(subject: str, version: int, magic: int = 1) -> dict[str, Any]:
    return {"keytype": "SCHEMA", "subject": subject, "version": version, "magic": magic}


def schema_value(subject: str, version: int, number: int, schema: Any, **more: Any) -> dict[str, Any]:
    """``schema``: a text, or what becomes JSON."""
    text = schema if isinstance(schema, str) else json.dumps(schema)
    return {"subject": subject, "version": version, "id": number, "schema": text, "deleted": False} | more


def registry(*pairs: tuple[Any, Any], karapace: bool = False) -> Registry:
    """What a registry knows of records with these keys and values: JSON, or bytes as they are."""
    return registry_of(
        SchemaRecord(offset, offset, _bytes(key), None if value is None else _bytes(value), karapace)
        for offset, (key, value) in enumerate(pairs)
    )


def schemas(**of: Any) -> Registry:
    """A registry with one version of a subject for each schema (see ``schema_value``), with the ids 1, 2, ..."""
    return registry(*_pairs(of))


def write_registry(directory: Path, **of: Any) -> None:
    """The same as a partition."""
    directory.mkdir(parents=True)
    rows = [Row(number, number, _bytes(key), _bytes(value)) for number, (key, value) in enumerate(_pairs(of))]
    (directory / f"{0:020}.log").write_bytes(v2_batch(rows))


def _pairs(of: dict[str, Any]) -> list[tuple[Any, Any]]:
    found = []
    for number, (subject, schema) in enumerate(of.items(), 1):
        value = schema if isinstance(schema, dict) and "id" in schema else schema_value(subject, 1, number, schema)
        found.append((schema_key(subject, 1), value))
    return found


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else json.dumps(value).encode()
