"""What is shown of a registry: what it knew at a time, what changed in it, and what brings its schemas back."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote

from kdump.reading.selection import Range
from kdump.rows.columns import Row
from kdump.schemas.registry import (
    DEFAULT_COMPATIBILITY,
    DEFAULT_CONTEXT,
    DEFAULT_MODE,
    Registry,
    SchemaRecord,
    SchemaVersion,
)
from kdump.state.metadatapage import time_text
from kdump.system.blocks import escaped

_SENT: Final = ("schemaType", "schema", "references", "metadata", "ruleSet")
"""Members of a record that a registration sends; a registry answers the others itself."""
_LONGEST_WORD: Final = 100_000
"""Linux takes arguments of a program of less than 131,072 bytes. ``printf`` is no program but a word of the shell."""


def state_rows(registry: Registry) -> Iterator[tuple[str, list[Row]]]:
    """(type, rows) of the versions, of the subjects with their own compatibility and mode, and of the contexts.

    The subject None has the global ones. The GUID is null in a registry of Karapace, which has none.
    """
    yield "schema", [_schema_row(registry, one) for one in registry.ordered]
    subjects: list[Row] = [_subject_row(registry, subject) for subject in (None, *sorted(registry.subjects()))]
    subjects[0]["compatibility"] = subjects[0]["compatibility"] or DEFAULT_COMPATIBILITY
    subjects[0]["mode"] = subjects[0]["mode"] or DEFAULT_MODE
    yield "subject", subjects
    yield "context", [{"context": context} for context in sorted(registry.contexts)]


def _schema_row(registry: Registry, found: SchemaVersion) -> Row:
    return {
        "subject": found.place.subject,
        "version": found.place.version,
        "id": found.id,
        "guid": registry.guid_of(found),
        "schemaType": found.type,
        "references": [one._asdict() for one in found.references],
        "schema": found.text,
        "deleted": found.deleted,
    }


def _subject_row(registry: Registry, subject: str | None) -> Row:
    return {
        "subject": subject,
        "compatibility": registry.compatibility.get(subject, {}).get("compatibilityLevel"),
        "mode": registry.modes.get(subject, {}).get("mode"),
    }


def change_rows(
    records: Iterable[SchemaRecord], subject: str | None, times: Range | None, offsets: Range | None
) -> Iterator[Row]:
    """What changed, in the order of the log: of one subject or of all (None), in a range of times (ms) or offsets."""
    registry = Registry()
    for record in records:
        is_wanted = (times is None or record.timestamp in times) and (offsets is None or record.offset in offsets)
        for change in registry.take(record):
            if is_wanted and subject in (None, change.subject):
                yield {
                    "type": "schemaChange",
                    "offset": record.offset,
                    "timestamp": record.timestamp,
                    "change": change.kind,
                    "subject": change.subject,
                    "version": change.version,
                    "before": change.before,
                    "after": change.after,
                }


def change_line(row: Row) -> str:
    """A change in one line: time, offset, of what, what, from what to what."""
    what = "all subjects" if row["subject"] is None else row["subject"]
    version = "" if row["version"] is None else f" version {row['version']}"
    texts: list[Any] = [f"offset {row['offset']}", f"{what}{version}", row["change"]]
    before, after = row["before"], row["after"]
    if before is not None and before != after:
        texts.append(f"{before} -> {'nothing' if after is None else after}")
    elif after is not None:
        texts.append(after)
    return escaped(f"{time_text(row['timestamp'])}  {' '.join(map(str, texts))}") + "\n"


def registry_records(registry: Registry) -> Iterator[Row]:
    """Records that make a registry know the same, references first; ``key`` and ``value`` are JSON texts."""
    for context in sorted(registry.contexts - {DEFAULT_CONTEXT}):
        named = {"tenant": "default", "context": context}
        yield _record({"keytype": "CONTEXT", **named}, named)
    for kind, stored in (("CONFIG", registry.compatibility), ("MODE", registry.modes)):
        for subject, value in sorted(stored.items(), key=lambda item: item[0] or ""):
            yield _record({"keytype": kind, **({} if subject is None else {"subject": subject})}, value)
    for one in registry.references_first():
        yield _record({"keytype": "SCHEMA", **one.place._asdict()}, {**one.stored, "deleted": one.deleted}, magic=1)


def _record(key: dict[str, Any], value: Mapping[str, Any], magic: int = 0) -> Row:
    return {"key": _json({**key, "magic": magic}), "value": _json(value)}


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def registry_commands(registry: Registry) -> Iterator[str]:
    """The calls of a registry's REST interface that bring the schemas back, with their ids and versions.

    One command a line, for a shell in which REGISTRY is the address of an empty registry.

    Schemas are registered in IMPORT mode, which takes ids and versions as they are and checks no compatibility. Each
    context has a mode of its own. Then follow soft deletions, and the configs and modes.
    """
    contexts = sorted(registry.contexts)
    for context in contexts:
        yield _call("PUT", f"/mode{_of_context(context)}?force=true", {"mode": "IMPORT"})
    versions = registry.references_first()
    for one in versions:
        yield _call("POST", f"/subjects/{quote(one.place.subject, safe='')}/versions", _registration(one))
    for one in reversed(versions):
        if one.deleted:
            yield _call("DELETE", f"/subjects/{quote(one.place.subject, safe='')}/versions/{one.place.version}")
    for context in contexts:
        name = None if context == DEFAULT_CONTEXT else f":{context}:"
        if name is not None and name not in registry.modes:
            yield _call("DELETE", f"/mode{_of_context(context)}")
    for subject, config in _sorted(registry.compatibility):
        sent = {"compatibility" if name == "compatibilityLevel" else name: value for name, value in config.items()}
        sent.pop("subject", None)
        yield _call("PUT", f"/config{_path(subject)}", sent)
    if None not in registry.modes:
        yield _call("PUT", "/mode", {"mode": DEFAULT_MODE})
    for subject, stored in _sorted(registry.modes):
        yield _call("PUT", f"/mode{_path(subject)}", {"mode": stored.get("mode")})


def _registration(one: SchemaVersion) -> dict[str, Any]:
    sent = {name: one.stored[name] for name in _SENT if one.stored.get(name) is not None}
    return {"version": one.place.version, "id": one.id, **sent}


def _sorted(stored: Mapping[str | None, Mapping[str, Any]]) -> list[tuple[str | None, Mapping[str, Any]]]:
    return sorted(stored.items(), key=lambda item: item[0] or "")


def _of_context(context: str) -> str:
    return _path(None if context == DEFAULT_CONTEXT else f":{context}:")


def _path(subject: str | None) -> str:
    return "" if subject is None else f"/{quote(subject, safe='')}"


def _call(method: str, path: str, body: Mapping[str, Any] | None = None) -> str:
    words, before = ["curl", "-fsS", "-X", method], ""
    if body is not None:
        text = json.dumps(body)
        if len(text) > _LONGEST_WORD:
            text, before = "@-", f"printf %s {shlex.quote(text)} | "
        words += ["-H", "Content-Type: application/vnd.schemaregistry.v1+json", "--data-binary", text]
    return f'{before}{shlex.join(words)} "$REGISTRY"{shlex.quote(path) if path else ""}'
