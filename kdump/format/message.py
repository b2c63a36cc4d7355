"""Messages with a schema, as Kafka's generated classes encode them, read by one table of schemas.

Source: docs/spec/formats.md#10-messages-with-a-schema (KIP-482 for flexible versions and tagged fields).
``messages.json`` beside this module holds the schemas of all messages that the newest release of Kafka stores, and what
older ones have in another way; ``requests.json`` those of the requests that ``kdump serve`` answers.
``packaging/take_release.py`` makes both from the jars of releases.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import groupby, takewhile
from pathlib import Path
from typing import Any, Final, NamedTuple

from kdump.codes import Codes, DamageError
from kdump.format.messagereader import (
    FIXED_SIZES,
    HEAD_TYPES,
    MOST_ELEMENTS,
    Layout,
    Member,
    Step,
    StructReader,
    UnreadableError,
    Value,
    array_step,
    begin_message,
    fixed_step,
    refusal,
    struct_reader,
    value_step,
    whole_reader,
)
from kdump.wire.cursor import Cursor

TABLE: Final = Path(__file__).with_name("messages.json")
REQUESTS_TABLE: Final = Path(__file__).with_name("requests.json")
ZERO_UUID: Final = "A" * 22


class MessageError(DamageError):
    """A message cannot be read.

    ``cause``: the words of Kafka's reader; None where it has none (the data ends inside a field of fixed size, or
    inside a length).
    """

    def __init__(self, code: Codes, cause: str | None) -> None:
        super().__init__(code, cause or "the message ends inside a field")
        self.cause = cause


class Versions(NamedTuple):
    """A range of message versions as Kafka's definitions write it: ``0+``, ``1-3``, ``2``, ``none``."""

    low: int
    high: int

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.low <= version <= self.high

    @classmethod
    def parse(cls, text: str | None) -> Versions:
        """``None`` and ``none`` are the empty range."""
        if text is None or text == "none":
            return cls(0, -1)
        low, dash, high = text.rstrip("+").partition("-")
        return cls(int(low), 0x7FFF if text.endswith("+") else int(high if dash else low))


class Field(NamedTuple):
    """One field of a schema; ``fields`` are those of a struct or of an array's structs."""

    name: str
    type: str
    versions: Versions
    nullable: Versions
    tagged: Versions
    tag: int | None
    default: Value
    fields: tuple[Field, ...]


@dataclass(frozen=True)
class Schema:
    """One message definition. ``api_key``: the number of the record type, None for messages that are no records."""

    name: str
    group: str
    type: str
    api_key: int | None
    versions: Versions
    flexible: Versions
    fields: tuple[Field, ...]
    checks_tag_counts: bool = True
    """Its reader refuses a number of tagged fields that cannot be, before it reads them."""

    def layout(self, version: int) -> Layout:
        """The message in ``version``. As in Kafka an unknown version is read as the nearest known one.

        Above the highest known version, structs inside the message are refused where they occur.
        """
        if version not in self._layouts:
            known = min(max(version, self.versions.low), self.versions.high)
            refused = version if version > known else None
            self._layouts[version] = _layout(self, self.fields, known, refused)
        return self._layouts[version]

    @cached_property
    def _layouts(self) -> dict[int, Layout]:
        return {}


@cache
def schemas(release: str | None = None) -> Mapping[str, Schema]:
    """The table by message name, as a release (``4.3``) has it; None: the newest."""
    table = json.loads(TABLE.read_text("utf-8"))
    entries = {entry["name"]: entry for entry in table["messages"]}
    older: dict[str, Any] = table["older"].get(release, {"checksTagCounts": True, "messages": {}})
    entries |= older["messages"]
    return {name: _schema(entry, older["checksTagCounts"]) for name, entry in entries.items() if entry is not None}


@cache
def request_schemas() -> Mapping[str, Schema]:
    """The table of requests and responses by message name."""
    entries = json.loads(REQUESTS_TABLE.read_text("utf-8"))["messages"]
    return {entry["name"]: _schema(entry, True) for entry in entries}


@cache
def record_schemas(group: str, kind: str, release: str | None = None) -> Mapping[int, Schema]:
    """The schemas of one group (``group-coordinator``) and type (``coordinator-value``) by their record type.

    ``release``: see ``schemas``.
    """
    return {
        schema.api_key: schema
        for schema in (schemas(release) if release else schemas()).values()
        if schema.api_key is not None and (schema.group, schema.type) == (group, kind)
    }


def _schema(entry: dict[str, Any], checks_tag_counts: bool) -> Schema:
    return Schema(
        entry["name"],
        entry["group"],
        entry["type"],
        entry.get("apiKey"),
        Versions.parse(entry["validVersions"]),
        Versions.parse(entry["flexibleVersions"]),
        tuple(_field(words, entry["structs"]) for words in entry["fields"]),
        checks_tag_counts,
    )


def _field(words: str, structs: dict[str, list[str]]) -> Field:
    """A field out of ``name type versions [nullable=VERSIONS] [tagged=VERSIONS tag=N] [default=VALUE]``."""
    name, type_name, versions, *marks = words.split(" ")
    given = dict(mark.split("=", 1) for mark in marks)
    fields = tuple(_field(inner, structs) for inner in structs.get(type_name.removeprefix("[]"), ()))
    return Field(
        name,
        type_name,
        Versions.parse(versions),
        Versions.parse(given.get("nullable")),
        Versions.parse(given.get("tagged")),
        int(given["tag"]) if "tag" in given else None,
        default_of(type_name, given.get("default"), fields),
        fields,
    )


def default_of(type_name: str, text: Any, fields: tuple[Field, ...]) -> Value:
    """The value of a field that a message does not have.

    ``text``: the default in the definition, None where it has none.
    """
    if text == "null":
        return None
    if type_name == "bool":
        return str(text).lower() == "true"
    if type_name == "float64":
        return float(text or 0)
    if type_name in FIXED_SIZES:
        return int(str(text or 0), 0)
    if type_name == "string":
        return str(text or "")
    if type_name == "uuid":
        return ZERO_UUID
    if type_name in ("bytes", "records"):
        return b""
    if type_name.startswith("[]"):
        return []
    return {field.name: field.default for field in fields}


def _layout(schema: Schema, fields: tuple[Field, ...], version: int, refused: int | None) -> Layout:
    """``refused``: the version that structs inside the message refuse to read; None: they refuse none."""
    is_flexible = version in schema.flexible
    members = tuple(_member(schema, field, version, refused) for field in fields if version in field.versions)
    # A tag that only other versions have is known, and an error here.
    tagged = {
        field.tag: refusal(f"Tag {field.tag} is not valid for version {version}")
        for field in fields
        if field.tag is not None
    }
    tagged |= {member.tag: _step(member, is_flexible) for member in members if member.tag is not None}
    defaults = {field.name: field.default for field in fields}
    untagged = [member for member in members if member.tag is None]
    head = list(takewhile(lambda member: member.type in HEAD_TYPES and not member.is_array, untagged))

    def reader(some: list[Member]) -> StructReader:
        steps = tuple(_steps(some, is_flexible))
        return struct_reader(
            defaults, steps, tagged if is_flexible else None, checks_tag_counts=schema.checks_tag_counts
        )

    rest = whole_reader([(member.name, member.type) for member in head], reader(untagged[len(head) :]))
    return Layout(is_flexible, members, reader(untagged), rest)


def _member(schema: Schema, field: Field, version: int, refused: int | None) -> Member:
    type_name = field.type.removeprefix("[]")
    layout = None
    if field.fields:
        layout = _layout(schema, field.fields, version, refused)
        if refused is not None:
            cause = f"Can't read version {refused} of {type_name}"
            read = struct_reader({}, (refusal(cause),), None)
            layout = Layout(layout.is_flexible, (), read, whole_reader([], read))
    return Member(
        field.name,
        type_name,
        field.type.startswith("[]"),
        version in field.nullable,
        field.tag if version in field.tagged else None,
        field.default,
        layout,
    )


def read_message(schema: Schema, version: int, cursor: Cursor, most_elements: int = MOST_ELEMENTS) -> dict[str, Value]:
    """Read one message; absent fields have their defaults, unknown tagged fields are skipped.

    ``most_elements``: of all its arrays.

    Raises:
        MessageError: the bytes end early, or something stands where it may not.
    """
    begin_message(most_elements)
    try:
        values, cursor.position = schema.layout(version).read(cursor.buffer, cursor.position, cursor.end)
    except UnreadableError as error:
        raise MessageError(cursor.code, error.cause) from None
    return values


def _step(member: Member, is_flexible: bool) -> Step:
    """How a member is read."""
    return array_step(member, is_flexible) if member.is_array else value_step(member, is_flexible)


def _steps(members: Iterable[Member], is_flexible: bool) -> Iterator[Step]:
    for is_fixed, run in groupby(members, lambda member: member.type in FIXED_SIZES and not member.is_array):
        if is_fixed:
            yield fixed_step([(member.name, member.type) for member in run])
        else:
            yield from (_step(member, is_flexible) for member in run)
