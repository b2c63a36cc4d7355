"""The calls of a registry's REST interface that bring the schemas back, with their ids and versions."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote

from kdump.schemas.registry import DEFAULT_CONTEXT, DEFAULT_MODE, Registry, SchemaVersion

_SENT: Final = ("schemaType", "schema", "references", "metadata", "ruleSet")
"""Members of a record that a registration sends; a registry answers the others itself."""
_LONGEST_WORD: Final = 100_000
"""Linux takes arguments of a program of less than 131,072 bytes. ``printf`` is no program but a word of the shell."""


def registry_commands(registry: Registry) -> Iterator[str]:
    """One command a line, for a shell in which REGISTRY is the address of an empty registry.

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
