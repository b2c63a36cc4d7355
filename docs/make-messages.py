"""Write kdump/format/messages.json and requests.json, the tables of Kafka's message definitions, or check the first.

    python docs/make-messages.py make JARS VERSION   from the jars of a Kafka release (the directory ``libs``)
    python docs/make-messages.py check RECORDS_JSON  every field that kdump reads, against a list of definitions

The jars hold the definitions as their authors wrote them (JSON with comments). For a new Kafka version: ``make``, read
the difference, run ``pytest`` and ``pytest -m oracle``. ``check`` takes a list of the same definitions that somebody
else made (``{"kafkaVersion", "records": [...]}``) and compares it with what ``kdump.format.message`` has after loading
the table; it ends with status 1 and names what differs.

Of a definition only what the bytes depend on is kept: comments, and the marks ``ignorable``, ``mapKey``, ``zeroCopy``
and ``entityType``, say how Kafka's generated classes behave.
"""

from __future__ import annotations

import json
import re
import sys
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from kdump.format.message import REQUESTS_TABLE, TABLE, Field, Schema, Versions, default_of, schemas

GROUPS = {
    "kafka-clients": {
        "control-record": (
            "ControlRecordTypeSchema", "EndTxnMarker", "KRaftVersionRecord", "LeaderChangeMessage",
            "SnapshotFooterRecord", "SnapshotHeaderRecord", "VotersRecord",
        ),
        "consumer-protocol": ("ConsumerProtocolAssignment", "ConsumerProtocolSubscription"),
    },
    "kafka-group-coordinator": {"group-coordinator": ()},
    "kafka-transaction-coordinator": {"transaction-coordinator": ()},
    "kafka-share-coordinator": {"share-coordinator": ()},
    "kafka-metadata": {"cluster-metadata": ()},
    "kafka-storage": {"remote-log-metadata": (), "producer-snapshot-file": ("ProducerSnapshot",)},
    "kafka-raft": {"quorum-state-file": ("QuorumStateData",)},
}  # fmt: skip
"""Which definitions of which jar are wanted, by the group they get; no names: those that are records of a topic."""

REQUESTS = (
    "Produce", "Fetch", "ListOffsets", "Metadata", "OffsetCommit", "OffsetFetch", "FindCoordinator", "JoinGroup",
    "Heartbeat", "LeaveGroup", "SyncGroup", "DescribeGroups", "ListGroups", "SaslHandshake", "ApiVersions",
    "CreateTopics", "DeleteTopics", "DeleteRecords", "InitProducerId", "OffsetForLeaderEpoch", "DescribeConfigs",
    "AlterConfigs", "DescribeLogDirs", "SaslAuthenticate", "CreatePartitions", "DeleteGroups",
    "IncrementalAlterConfigs", "OffsetDelete", "DescribeCluster", "DescribeTopicPartitions",
)  # fmt: skip
"""The requests that ``kdump serve`` answers, each with its response."""

RECORD_TYPES = ("coordinator-key", "coordinator-value", "metadata")
_DEFINITION = re.compile(r"(?:common/)?(?:message|metadata)/\w+\.json")
_COMMENT = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*')

Definition = dict[str, Any]


def definitions(jars: Path) -> Iterator[Definition]:
    """All wanted definitions of a release, with their ``group``; SystemExit when a jar or a definition is missing."""
    for jar, groups in GROUPS.items():
        path = _jar(jars, jar)
        found = {entry["name"]: entry for entry in _definitions_in(path)}
        for group, names in groups.items():
            rest = {name for wanted in groups.values() for name in wanted}
            records = (name for name, entry in found.items() if entry["type"] in RECORD_TYPES and name not in rest)
            for name in names or sorted(records, key=lambda name: _order(found[name])):
                if name not in found:
                    sys.exit(f"{path}: no definition {name}")
                yield {**found[name], "group": group}


def _jar(jars: Path, name: str) -> Path:
    files = [path for path in jars.glob(f"{name}-[0-9]*.jar") if "test" not in path.name]
    if len(files) != 1:
        sys.exit(f"{jars}: {len(files)} files {name}-<version>.jar")
    return files[0]


def _order(entry: Definition) -> tuple[int, str]:
    return entry.get("apiKey", -1), entry["name"]


def _definitions_in(jar: Path) -> Iterator[Definition]:
    with zipfile.ZipFile(jar) as archive:
        for name in archive.namelist():
            if _DEFINITION.fullmatch(name):
                text = _COMMENT.sub(lambda match: match[1] or "", archive.read(name).decode())
                yield json.loads(text)


def compact(entry: Definition) -> Definition:
    """A definition as the table has it: fields as words, all structs by name."""
    structs: dict[str, list[str]] = {}
    for struct in entry.get("commonStructs", ()):
        structs[struct["name"]] = []
    fields = [_words(field, structs) for field in entry["fields"]]
    for struct in entry.get("commonStructs", ()):
        structs[struct["name"]] = [_words(field, structs) for field in struct["fields"]]
    kept = ("name", "group", "type", "apiKey", "validVersions", "flexibleVersions")
    return {name: entry[name] for name in kept if name in entry} | {"fields": fields, "structs": structs}


def _words(field: Definition, structs: dict[str, list[str]]) -> str:
    if "fields" in field:
        name = field["type"].removeprefix("[]")
        structs[name] = []
        structs[name] = [_words(inner, structs) for inner in field["fields"]]
    name = field["name"]
    # As Kafka's generator has it: without versions of its own a field has those in which it is tagged.
    versions = field.get("versions", field.get("taggedVersions"))
    words = [name[:1].lower() + name[1:], field["type"], versions]
    for mark, key in (("nullable", "nullableVersions"), ("tagged", "taggedVersions"), ("tag", "tag")):
        if key in field:
            words.append(f"{mark}={field[key]}")
    if field.get("default") is not None:
        words.append(f"default={field['default']}")
    return " ".join(words)


def requests(jars: Path) -> Iterator[Definition]:
    """The definitions of the requests and responses that are wanted; SystemExit when the jar or one is missing."""
    found = {entry["name"]: entry for entry in _definitions_in(_jar(jars, "kafka-clients"))}
    for name in REQUESTS:
        for kind in ("Request", "Response"):
            if name + kind not in found:
                sys.exit(f"{jars}: no definition {name}{kind}")
            yield {**found[name + kind], "group": "requests"}


def make(wanted: Iterable[Definition], version: str) -> str:
    """The text of a table: a line for each message."""
    lines = [json.dumps(compact(entry), separators=(",", ":")) for entry in wanted]
    return f'{{"kafkaVersion":"{version}","messages":[\n' + ",\n".join(lines) + "\n]}\n"


def check(path: Path) -> list[str]:
    """What differs between kdump's schemas and the list of definitions in ``path``, a line each."""
    listed = json.loads(path.read_text())
    known = dict(schemas())
    found = []
    if json.loads(TABLE.read_text())["kafkaVersion"] != listed["kafkaVersion"]:
        found.append("kafkaVersion")
    for entry in listed["records"]:
        schema = known.pop(entry["name"], None)
        if schema is None:
            found.append(f"{entry['name']}: not in the table")
        else:
            found += [f"{entry['name']}: {what}" for what in _schema_differences(schema, entry)]
    return found + [f"{name}: not in the list" for name in known]


def _schema_differences(schema: Schema, entry: Definition) -> Iterator[str]:
    expected = (
        entry["group"],
        entry["type"],
        entry.get("apiKey"),
        Versions.parse(entry["validVersions"]),
        Versions.parse(entry["flexibleVersions"]),
    )
    if (schema.group, schema.type, schema.api_key, schema.versions, schema.flexible) != expected:
        yield "group, type, apiKey, validVersions or flexibleVersions"
    structs = {struct["name"]: struct["fields"] for struct in entry["commonStructs"]}
    yield from _field_differences(schema.fields, entry["fields"], structs)


def _field_differences(fields: tuple[Field, ...], entries: list[Definition], structs: Definition) -> Iterator[str]:
    if [field.name for field in fields] != [entry["jsonName"] for entry in entries]:
        yield f"fields {[field.name for field in fields]}"
        return
    for field, entry in zip(fields, entries, strict=True):
        inner = entry.get("fields") or structs.get(entry["type"].removeprefix("[]"), [])
        expected = {
            "type": entry["type"],
            "versions": Versions.parse(entry["versions"]),
            "nullable": Versions.parse(entry.get("nullableVersions")),
            "tagged": Versions.parse(entry.get("taggedVersions")),
            "tag": entry.get("tag"),
            "default": default_of(entry["type"], entry.get("default"), field.fields),
        }
        for name, value in expected.items():
            if getattr(field, name) != value:
                yield f"{field.name}: {name} is {getattr(field, name)}, listed {value}"
        for difference in _field_differences(field.fields, inner, structs):
            yield f"{field.name}.{difference}"


def main(words: list[str]) -> int:
    """See above."""
    match words:
        case ["make", jars, version]:
            TABLE.write_text(make(definitions(Path(jars)), version))
            REQUESTS_TABLE.write_text(make(requests(Path(jars)), version))
            return 0
        case ["check", path]:
            differences = check(Path(path))
            print(*differences or [f"{len(schemas())} messages, all as listed"], sep="\n")
            return 1 if differences else 0
    sys.exit(__doc__)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
