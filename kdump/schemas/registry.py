"""A schema registry as a fold of the records of its topic.

The rules are those of the registries of Confluent and of Karapace, which read the whole topic at each start. A record
that they skip changes nothing here.
"""

from __future__ import annotations

import json
import uuid
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import md5
from heapq import heappop, heappush
from typing import Any, Final, NamedTuple

DEFAULT_CONTEXT: Final = "."
DEFAULT_COMPATIBILITY: Final = "BACKWARD"
DEFAULT_MODE: Final = "READWRITE"
"""What both registries answer where the topic says nothing, unless they are configured otherwise."""

_CONFIG_MEMBERS: Final = {"compatibilityLevel": "compatibility", "mode": "mode"}


class SchemaRecord(NamedTuple):
    """A record of the topic. ``timestamp``: ms since 1970. ``of_karapace``: a header says that Karapace wrote it."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    of_karapace: bool = False


class Reference(NamedTuple):
    """A schema that another one refers to by ``name``; a version of -1 is the newest one."""

    name: str
    subject: str
    version: int


class Place(NamedTuple):
    """A version of a subject."""

    subject: str
    version: int


@dataclass(frozen=True)
class SchemaVersion:
    """A version of a subject. ``deleted``: soft-deleted. ``offset``, ``timestamp`` (ms): of the record that says so."""

    place: Place
    id: int
    type: str
    text: str
    references: tuple[Reference, ...]
    deleted: bool
    offset: int
    timestamp: int
    stored: Mapping[str, Any] = field(repr=False)
    """All members of the record's value: metadata, rules and what later registries may add."""

    @property
    def context(self) -> str:
        """The context of its subject."""
        return context_of(self.place.subject)

    @cached_property
    def guid(self) -> str:
        """The GUID that Confluent's registry answers: the MD5 that the record has, or that of what it says."""
        with suppress(TypeError, ValueError, Base64Error):
            given = b64decode(self.stored["md5"], validate=True) if "md5" in self.stored else b""
            if len(given) == 16:
                return str(uuid.UUID(bytes=given))
        return self.digest

    @cached_property
    def digest(self) -> str:
        """The MD5 of the text, the references, and what metadata and rules there are; the type is not part of it."""
        digest = md5(self.text.encode("utf-8", "surrogatepass"), usedforsecurity=False)
        for name, subject, version in self.references:
            digest.update(f"{name}{subject}".encode("utf-8", "surrogatepass"))
            digest.update((version & 0xFFFFFFFF).to_bytes(4, "big"))
        for part in _hashed(self.stored):
            digest.update(part)
        return str(uuid.UUID(bytes=digest.digest()))


class Change(NamedTuple):
    """What a record changed. ``kind``: ``registered``, ``deleted``, ``hard-deleted``, ``refused``, ``compatibility``...

    ``before``, ``after``: ids of schemas, or levels and modes; null: none.
    """

    kind: str
    subject: str | None
    version: int | None = None
    before: Any = None
    after: Any = None


class Registry:
    """What a registry knows that has read the topic up to a record."""

    def __init__(self) -> None:
        self.versions: dict[Place, SchemaVersion] = {}
        """Live and soft-deleted ones."""
        self.compatibility: dict[str | None, Mapping[str, Any]] = {}
        """The CONFIG records by subject; None: the global one."""
        self.modes: dict[str | None, Mapping[str, Any]] = {}
        self.contexts: set[str] = {DEFAULT_CONTEXT}
        self.skipped = 0
        """Records that no registry can read."""
        self.gone: dict[tuple[str, int], tuple[SchemaVersion, int]] = {}
        """What was deleted for good, by context and id, and the offset that did it; the records may still be there."""
        self.of_karapace = False
        self._of_subject: dict[str, set[int]] = {}
        self._live: dict[str, list[int]] = {}
        """Versions of each subject as a heap, among them all live ones."""
        self._deleted: dict[str, dict[str, set[int]]] = {}
        """The soft-deleted versions of each subject, by context."""
        self._by_id: dict[tuple[str, int], dict[Place, None]] = {}
        self._contexts_of: dict[int, set[str]] = {}
        self._by_guid: dict[tuple[str, str], int] = {}
        """The newest id of a schema in each context: one text may have been imported with several ids."""

    def take(self, record: SchemaRecord) -> Iterator[Change]:
        """Add the next record. Gives what it changes; all of it must be asked for."""
        self.of_karapace |= record.of_karapace
        key, value = _object(record.key), _object(record.value) if record.value else None
        kind = None if key is None else key.get("keytype")
        # A deletion of Karapace is an empty value.
        is_tombstone = not record.value
        if key is None or not isinstance(kind, str) or (value is None and not is_tombstone):
            self.skipped += 1
            return
        subject = key.get("subject")
        if subject is not None and not isinstance(subject, str):
            self.skipped += 1
            return
        match kind:
            case "SCHEMA":
                version = key.get("version")
                if subject is None or type(version) is not int:
                    self.skipped += 1
                else:
                    yield from self._schema(Place(subject, version), value, record)
            case "DELETE_SUBJECT" if value is not None:
                yield from self._delete_subject(value, subject)
            case "CLEAR_SUBJECT" if value is not None and subject is not None:
                yield from self._clear(subject)
            case "CONFIG":
                yield from _set(self.compatibility, "compatibilityLevel", subject, value)
            case "MODE":
                yield from _set(self.modes, "mode", subject, value)
            case "CONTEXT":
                yield from self._context(key.get("context"), is_removed=is_tombstone)

    def _schema(self, place: Place, value: dict[str, Any] | None, record: SchemaRecord) -> Iterator[Change]:
        before = self.versions.get(place)
        if value is None:
            if before is not None:
                self._remove(before)
                self.gone[before.context, before.id] = before, record.offset
                yield Change("hard-deleted", *place, before=before.id)
            return
        number, text = value.get("id"), value.get("schema")
        references = tuple(_references(value.get("references")))
        if type(number) is not int or not isinstance(text, str):
            self.skipped += 1
            return
        found = SchemaVersion(
            place, number, value.get("schemaType") or "AVRO", text, references, value.get("deleted") is True,
            record.offset, record.timestamp, value,
        )  # fmt: skip
        owner = next(iter(self.of_id(found.context, number)), None)
        if owner is not None and owner.text != text and not self.of_karapace:
            # Its leader writes what was there before, or a tombstone, at once.
            yield Change("refused", *place, before=owner.id, after=number)
            return
        if before is not None:
            self._remove(before)
        self._put(found)
        self.contexts.add(found.context)
        kind = "registered"
        if found.deleted:
            kind = "deleted"
        elif before is not None and not before.deleted:
            kind = "rewritten"
        yield Change(kind, *place, before=None if before is None else before.id, after=number)

    def _delete_subject(self, value: dict[str, Any], subject: str | None) -> Iterator[Change]:
        subject, last = value.get("subject", subject), value.get("version")
        if last is None:
            # Redpanda's registry names none: all are deleted.
            last = max(self._live.get(str(subject), ()), default=0)
        if not isinstance(subject, str) or not isinstance(last, int):
            self.skipped += 1
            return
        live = self._live.get(subject, [])
        while live and live[0] <= last:
            found = self.versions.get(Place(subject, heappop(live)))
            if found is not None and not found.deleted:
                self._put(replace(found, deleted=True))
                yield Change("deleted", *found.place, before=found.id, after=found.id)

    def _clear(self, subject: str) -> Iterator[Change]:
        """IMPORT mode begins: what is soft-deleted goes, of a subject or of a context."""
        of = self._deleted.get(context_of(subject), {})
        for name in list(of) if subject.endswith(":") else [subject]:
            for version in sorted(of.get(name, ())):
                found = self.versions[Place(name, version)]
                self._remove(found)
                yield Change("hard-deleted", *found.place, before=found.id)

    def _context(self, name: object, *, is_removed: bool) -> Iterator[Change]:
        if not isinstance(name, str) or name == DEFAULT_CONTEXT:
            return
        if is_removed:
            self.contexts.discard(name)
        elif name not in self.contexts:
            self.contexts.add(name)
            yield Change("context", f":{name}:")

    def _put(self, found: SchemaVersion) -> None:
        self.versions[found.place] = found
        subject, version = found.place
        self._of_subject.setdefault(subject, set()).add(version)
        if found.deleted:
            self._deleted.setdefault(found.context, {}).setdefault(subject, set()).add(version)
        else:
            heappush(self._live.setdefault(subject, []), version)
        self._by_id.setdefault((found.context, found.id), {})[found.place] = None
        self._contexts_of.setdefault(found.id, set()).add(found.context)
        self._by_guid[found.context, found.guid] = found.id

    def _remove(self, found: SchemaVersion) -> None:
        del self.versions[found.place]
        subject, version = found.place
        self._of_subject[subject].remove(version)
        if found.deleted:
            self._deleted[found.context][subject].remove(version)
        places = self._by_id[found.context, found.id]
        del places[found.place]
        if not places:
            del self._by_id[found.context, found.id]
            self._contexts_of[found.id].remove(found.context)

    def of_subject(self, subject: object) -> list[SchemaVersion]:
        """The versions of a subject, rising."""
        numbers = self._of_subject.get(subject, ()) if isinstance(subject, str) else ()
        return [self.versions[Place(str(subject), version)] for version in sorted(numbers)]

    def of_id(self, context: str, number: int) -> Iterator[SchemaVersion]:
        """The versions with an id in a context, soft-deleted ones too, in the order of their registration."""
        return (self.versions[place] for place in self._by_id.get((context, number), ()))

    def of_guid(self, guid: str) -> SchemaVersion | None:
        """A version with a GUID: one of the default context, else of the first one that has it."""
        for context in (DEFAULT_CONTEXT, *sorted(self.contexts - {DEFAULT_CONTEXT})):
            number = self._by_guid.get((context, guid))
            found = None if number is None else next(self.of_id(context, number), None)
            if found is not None:
                return found
        return None

    def places_of(self, found: SchemaVersion) -> list[Place]:
        """Where the registry says that a schema is registered: under the newest id that its text has in its context."""
        newest = None if self.of_karapace else self._by_guid.get((found.context, found.digest))
        number = found.id if newest is None or (found.context, newest) not in self._by_id else newest
        return sorted(self._by_id[found.context, number])

    def guid_of(self, found: SchemaVersion) -> str | None:
        """The GUID that the registry answers; None: Karapace has none."""
        return None if self.of_karapace else found.guid

    def contexts_of_id(self, number: int) -> list[str]:
        """The contexts that have an id."""
        return sorted(self._contexts_of.get(number, ()))

    def referred(self, reference: Reference, context: str) -> SchemaVersion | None:
        """What a schema of a context refers to; a subject without context is one of its own context."""
        subjects = [reference.subject]
        if context != DEFAULT_CONTEXT and not reference.subject.startswith(":."):
            subjects.insert(0, f":{context}:{reference.subject}")
        for subject in subjects:
            version = reference.version
            if version == -1:
                version = max((one.place.version for one in self.of_subject(subject) if not one.deleted), default=-1)
            if (found := self.versions.get(Place(subject, version))) is not None:
                return found
        return None

    def subjects(self) -> set[str]:
        """Subjects that have versions, a compatibility or a mode."""
        found = {subject for subject, versions in self._of_subject.items() if versions}
        return found | {name for name in (*self.compatibility, *self.modes) if name is not None}

    @property
    def ordered(self) -> list[SchemaVersion]:
        """All versions, by subject and version."""
        return [self.versions[place] for place in sorted(self.versions)]

    def references_first(self) -> list[SchemaVersion]:
        """All versions, each after those that it refers to; else in the order of their registration."""
        found: dict[Place, SchemaVersion] = {}
        for one in sorted(self.versions.values(), key=lambda version: (version.id, version.offset)):
            waiting = [(one, iter(one.references))]
            begun = {one.place}
            while waiting:
                owner, left = waiting[-1]
                reference = next(left, None)
                if reference is None:
                    found.setdefault(owner.place, owner)
                    waiting.pop()
                    continue
                needed = self.referred(reference, owner.context)
                if needed is not None and needed.place not in found and needed.place not in begun:
                    begun.add(needed.place)
                    waiting.append((needed, iter(needed.references)))
        return list(found.values())


def registry_of(records: Iterable[SchemaRecord], at: int | None = None, at_offset: int | None = None) -> Registry:
    """What a registry knows after these records.

    Args:
        records: in the order of the log.
        at: ms since 1970; records with a later timestamp do not count. None: all count.
        at_offset: the last offset that counts.
    """
    registry = Registry()
    for record in records:
        if counts(record, at, at_offset):
            for _ in registry.take(record):
                pass
    return registry


def counts(record: SchemaRecord, at: int | None, at_offset: int | None) -> bool:
    """A record is not after a time (ms since 1970) and an offset."""
    return (at is None or record.timestamp <= at) and (at_offset is None or record.offset <= at_offset)


def context_of(subject: str) -> str:
    """The context of a subject: ``.eu`` of ``:.eu:orders-value``, and ``.`` of ``orders-value``."""
    head, _, rest = subject.removeprefix(":").partition(":")
    return head if subject.startswith(":.") and (rest or subject.endswith(":")) else DEFAULT_CONTEXT


def plain_subject(subject: str) -> str:
    """A subject without its context."""
    return subject if context_of(subject) == DEFAULT_CONTEXT else subject.removeprefix(":").partition(":")[2]


def _set(
    target: dict[str | None, Mapping[str, Any]], member: str, subject: str | None, value: dict[str, Any] | None
) -> Iterator[Change]:
    before = target.pop(subject, {}).get(member)
    if value is not None:
        target[subject] = value
    after = None if value is None else value.get(member)
    yield Change(_CONFIG_MEMBERS[member], subject, before=before, after=after)


def _object(data: bytes | None) -> dict[str, Any] | None:
    """A JSON object; None: it is none. Half a character (a lone surrogate) becomes ``?``, as where Java writes it."""
    try:
        text = (data or b"").decode()
        found = json.loads(text)
        if "\\u" in text:
            found = json.loads(json.dumps(found, ensure_ascii=False).encode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _references(given: object) -> Iterator[Reference]:
    for one in given if isinstance(given, list) else ():
        if isinstance(one, dict) and isinstance(one.get("subject"), str) and type(one.get("version")) is int:
            yield Reference(str(one.get("name", "")), one["subject"], one["version"])


def _hashed(stored: Mapping[str, Any]) -> Iterator[bytes]:
    """What of metadata and rules is part of the GUID. Tags, properties, sensitive names and parameters are sorted."""
    metadata, rules = stored.get("metadata"), stored.get("ruleSet")
    if isinstance(metadata, dict):
        yield b"\1"
        for name, tags in sorted(_members(metadata, "tags")):
            yield from _texts(name, *(sorted(map(str, tags)) if isinstance(tags, list) else ()))
        for name, text in sorted(_members(metadata, "properties")):
            yield from _texts(name, str(text))
        sensitive = metadata.get("sensitive")
        yield from _texts(*(sorted(map(str, sensitive)) if isinstance(sensitive, list) else ()))
    if isinstance(rules, dict):
        yield b"\1"
        for kind in ("migrationRules", "domainRules", "encodingRules"):
            own = rules.get(kind)
            for rule in own if isinstance(own, list) else ():
                yield from _rule(rule)


def _members(metadata: Mapping[str, Any], name: str) -> Iterable[tuple[str, Any]]:
    found = metadata.get(name)
    return found.items() if isinstance(found, dict) else ()


def _rule(rule: object) -> Iterator[bytes]:
    for name in ("name", "doc", "kind", "mode", "type", "tags", "params", "expr", "onSuccess", "onFailure"):
        match rule.get(name) if isinstance(rule, dict) else None:
            case str() as text:
                yield from _texts(text)
            case list() as texts:
                yield from _texts(*sorted(map(str, texts)))
            case dict() as members:
                for member, text in sorted(members.items()):
                    yield from _texts(member, str(text))


def _texts(*texts: str) -> Iterator[bytes]:
    return (text.encode("utf-8", "surrogatepass") for text in texts)
