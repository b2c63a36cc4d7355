"""Take in a release of Kafka: its messages and facts, and what it does in another way than the release before.

    python packaging/take_release.py facts LIBS [OLDER_LIBS...]     write the tables, from jars; the newest comes first
    python packaging/take_release.py methods LIBS OLDER_LIBS        list the methods of modelled classes that changed
    python packaging/take_release.py outputs LIBS OLDER_LIBS CAPTURES... -o DIR
                                                                    list outputs of DumpLogSegments that changed, and
                                                                    keep goldens of these
    python packaging/take_release.py check RECORDS_JSON             compare the messages with another list
    python packaging/take_release.py all LIBS OLDER_LIBS CAPTURES... -o DIR     the first three and the oracle tests

LIBS is the directory of the jars of a release, for ``all`` one called ``k44/lib`` or so beside those of the others
(``tests/oracle/poms``). CAPTURES are the unpacked archives of ``fixtures/captures``.

``facts`` writes ``kdump/format/messages.json`` and ``requests.json`` (the definitions of messages, which lie in the
jars as their authors wrote them) and ``kdump/releases.json`` (levels, features, states and configs, which
``tests/oracle/java/ReleaseFacts.java`` asks of the classes). What differs in an older release stays in them beside the
newest. ``check`` takes a list of the same definitions that somebody else made (``{"kafkaVersion", "records": [...]}``);
it ends with status 1 and names what differs.

Of a definition only what the bytes depend on is kept: comments, and the marks ``ignorable``, ``mapKey``, ``zeroCopy``
and ``entityType``, say how Kafka's generated classes behave.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kdump.format.message import REQUESTS_TABLE, TABLE, Field, Schema, Versions, default_of, schemas
from kdump.releases import FACTS

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

JAVA = Path(__file__).parents[1] / "tests" / "oracle" / "java"
QUIET = "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"
RECORD_TYPES = ("coordinator-key", "coordinator-value", "metadata")
_DEFINITION = re.compile(r"(?:common/)?(?:message|metadata)/\w+\.json")
_COMMENT = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*')

Definition = dict[str, Any]


def definitions(jars: Path) -> Iterator[Definition]:
    """All wanted definitions of a release, with their ``group``; SystemExit when a jar or a definition is missing."""
    for jar, groups in GROUPS.items():
        file = _jar(jars, jar)
        found = {entry["name"]: entry for entry in _definitions_in(file)}
        for group, names in groups.items():
            rest = {name for wanted in groups.values() for name in wanted}
            records = (name for name, entry in found.items() if entry["type"] in RECORD_TYPES and name not in rest)
            for name in names or sorted(records, key=lambda name: _order(found[name])):
                if name not in found:
                    sys.exit(f"{file}: no definition {name}")
                yield {**found[name], "group": group}


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


def make(jars: Path, *older: Path) -> str:
    """The text of the table: a line a message of the newest release, then what the older ones have in another way."""
    newest = {entry["name"]: compact(entry) for entry in definitions(jars)}
    lines = [json.dumps(entry, separators=(",", ":")) for entry in newest.values()]
    differences = [f'"{name_of(each)}":{_older(each, newest)}' for each in older]
    return (
        f'{{"kafkaVersion":"{version_of(jars)}","messages":[\n'
        + ",\n".join(lines)
        + '\n],"older":{\n'
        + ",\n".join(differences)
        + "\n}}\n"
    )


def requests(jars: Path) -> str:
    """The text of the table of requests and responses: a line for each of them."""
    file = _jar(jars, "kafka-clients")
    found = {entry["name"]: entry for entry in _definitions_in(file)}
    lines = []
    for name in (name + kind for name in REQUESTS for kind in ("Request", "Response")):
        if name not in found:
            sys.exit(f"{file}: no definition {name}")
        lines.append(json.dumps(compact({**found[name], "group": "requests"}), separators=(",", ":")))
    return f'{{"kafkaVersion":"{version_of(jars)}","messages":[\n' + ",\n".join(lines) + "\n]}\n"


def _older(jars: Path, newest: dict[str, Definition]) -> str:
    """What a release has in another way: whole definitions, null for those that it does not have."""
    its = {entry["name"]: compact(entry) for entry in definitions(jars)}
    changed = {name: its.get(name) for name in newest if its.get(name) != newest[name]}
    changed |= {name: entry for name, entry in its.items() if name not in newest}
    fields = {"checksTagCounts": _checks_tag_counts(jars), "messages": changed}
    return json.dumps(fields, separators=(",", ":"))


def _checks_tag_counts(jars: Path) -> bool:
    """Whether the generated readers look at the number of tagged fields before they read them."""
    with zipfile.ZipFile(_jar(jars, "kafka-metadata")) as archive:
        names = [name for name in archive.namelist() if name.endswith("common/metadata/TopicRecord.class")]
        return any(b"Invalid negative number of tagged fields" in archive.read(name) for name in names)


def version_of(jars: Path) -> str:
    """``4.4.0``."""
    return _jar(jars, "kafka-group-coordinator").stem.removeprefix("kafka-group-coordinator-")


def name_of(jars: Path) -> str:
    """``4.4``, as options and tables name a release."""
    return ".".join(version_of(jars).split(".")[:2])


def _jar(jars: Path, name: str) -> Path:
    files = [path for path in jars.glob(f"{name}-[0-9]*.jar") if "test" not in path.name]
    if len(files) != 1:
        sys.exit(f"{jars}: {len(files)} files {name}-<version>.jar")
    return files[0]


def facts(jars: Path) -> Definition:
    """Levels, features, states and configs of a release; it needs Java."""
    with tempfile.TemporaryDirectory() as classes:
        _compile(JAVA / "ReleaseFacts.java", jars, classes)
        command = ["java", QUIET, "-cp", f"{classes}:{jars}/*", "ReleaseFacts"]
        found = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return {"version": version_of(jars), **json.loads(found)}


def facts_text(releases: dict[str, Definition]) -> str:
    """The text of the table of facts: a line a fact."""
    shown = []
    for name, release in releases.items():
        lines = ",\n".join(f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in release.items())
        shown.append(f" {json.dumps(name)}: {{\n{lines}\n }}")
    return "{\n" + ",\n".join(shown) + "\n}\n"


def write_facts(jars: list[Path]) -> None:
    """Write both tables; the newest release comes first, in the table of facts last."""
    TABLE.write_text(make(*jars))
    REQUESTS_TABLE.write_text(requests(jars[0]))
    Path(FACTS).write_text(facts_text({name_of(each): facts(each) for each in reversed(jars)}))


def _compile(source: Path, jars: Path, classes: str) -> None:
    subprocess.run(["javac", "-nowarn", "-cp", f"{jars}/*", "-d", classes, str(source)], check=True)


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


MODELLED = {
    "kafka-tools": r"tools/DumpLogSegments",
    "kafka-storage": r"internals/(log|epoch|checkpoint)/|log/remote/(metadata/storage|storage)/Remote",
    "kafka-storage-api": r"log/remote/storage/Remote(LogSegment|Partition)",
    "kafka-metadata": r"image/|controller/(\w+ControlManager|QuorumController|QuorumFeatures|PartitionChangeBuilder)"
    r"|metadata/(\w+Registration|bootstrap/|storage/)|MetadataRecordSerde",
    "kafka-raft": r"raft/((internals/)?KafkaRaftLog|VoterSet|FileQuorumStateStore"
    r"|internals/(KRaftControlRecord|RecordsIterator))|snapshot/",
    "kafka-server-common": r"server/common/(\w*(Version|Feature)|CheckpointFile|serialization/)|metadata/properties/"
    r"|ServerTopicConfigSynonyms",
    "kafka-transaction-coordinator": r"transaction/Transaction(Metadata|Log|State|Coordinator)",
    "kafka-group-coordinator": r"group/(GroupMetadataManager|OffsetMetadataManager|GroupCoordinatorRecord|GroupConfig"
    r"|(\w+/)+\w+Group\b)",
    "kafka-clients": r"common/(record|compress|protocol)/",
    "kafka_2.13": r"kafka/server/(\w+FetcherThread|ReplicaAlterLogDirsThread|ReplicaManager|SharedServer"
    r"|metadata/BrokerMetadataPublisher)|kafka/cluster/Partition|kafka/coordinator/transaction/|kafka/log/LogManager",
}
"""Classes that kdump models or follows, by their jars: a method of theirs that changed has to be read."""
_NOISE = re.compile(
    r"^\s*\d+: |#\d+(, *\d+)?|(?<=lambda\$)(\w+)\$\d+|InvokeDynamic #?\d*:?\d*|\b(\w+[./])+(?=[A-Z])|\s+"
)
"""Numbers of constants and lambdas, and packages, between which classes move."""
_JUMP = re.compile(r"^(if\w*|goto\w*)\s*\d+")
_METHOD = re.compile(r"^  \S.*\(.*;$|^  static \{\};$")


def changed_methods(jars: Path, older: Path) -> list[str]:
    """``+``, ``-`` or ``~``, class and method: those of modelled classes that are new, gone or changed.

    A class that is new or gone is one line.
    """
    found = []
    for jar, pattern in MODELLED.items():
        before, after = (_methods(_jar(each, jar), re.compile(pattern)) for each in (older, jars))
        for name in sorted(before.keys() | after.keys()):
            if name in before and name in after:
                found += [f"{mark} {name}: {method}" for mark, method in _differences(before[name], after[name])]
            else:
                found.append(f"{'+' if name in after else '-'} {name}")
    return found


def _differences(before: dict[str, list[str]], after: dict[str, list[str]]) -> Iterator[tuple[str, str]]:
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) != after.get(name):
            yield "+" if name not in before else "-" if name not in after else "~", name


def _methods(jar: Path, wanted: re.Pattern[str]) -> dict[str, dict[str, list[str]]]:
    """The bytecode of all methods of the wanted classes, without what differs though the source does not."""
    with zipfile.ZipFile(jar) as archive:
        names = [name for name in archive.namelist() if name.endswith(".class") and wanted.search(name)]
    classes: dict[str, dict[str, list[str]]] = {}
    for start in range(0, len(names), 100):
        chosen = [name.removesuffix(".class").replace("/", ".") for name in names[start : start + 100]]
        command = ["javap", "-c", "-p", "-constants", "-cp", str(jar), *chosen]
        methods: dict[str, list[str]] = {}
        body: list[str] = []
        for line in subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines():
            if line.endswith("{") and not line.startswith(" "):
                owner = next(word for word in line.split() if "." in word)
                methods = classes.setdefault(owner.replace("internals.", ""), {})
                body = []
            elif _METHOD.match(line):
                body = methods.setdefault(" ".join(_NOISE.sub(" ", line).split()).strip(";"), [])
            else:
                body.append(_JUMP.sub(r"\1", _NOISE.sub(" ", line).strip()))
    return classes


_DECODERS = {
    "__consumer_offsets": "--offsets-decoder",
    "__transaction_state": "--transaction-log-decoder",
    "__cluster_metadata": "--cluster-metadata-decoder",
    "_bootstrap": "--cluster-metadata-decoder",
    "__share_group_state": "--share-group-state-decoder",
    "__remote_log_metadata": "--remote-log-metadata-decoder",
    "dec-offsets-": "--offsets-decoder",
    "dec-txn-": "--transaction-log-decoder",
    "dec-metadata-": "--cluster-metadata-decoder",
    "dec-remote-": "--remote-log-metadata-decoder",
    "dec-share-": "--share-group-state-decoder",
}
"""By the beginning of the name of a captured directory."""
_LOG_RUNS = {
    "default": [],
    "deep": ["--deep-iteration"],
    "print": ["--print-data-log"],
    "skipmeta": ["--print-data-log", "--skip-record-metadata"],
    "maxbytes1000": ["--deep-iteration", "--max-bytes", "1000"],
}
_INDEX_RUNS = {"default": [], "verify": ["--verify-index-only"], "sanity": ["--index-sanity-check"]}


def runs(directory: Path) -> Iterator[tuple[str, str, list[str]]]:
    """(file, flags, arguments) of all runs of DumpLogSegments over a captured directory."""
    for path in sorted(directory.iterdir()):
        if path.suffix in (".log", ".checkpoint"):
            flags: dict[str, list[str]] = dict(_LOG_RUNS)
            for start, option in _DECODERS.items():
                if directory.name.startswith(start):
                    flags |= {"decoder": [option], "decoder-skipmeta": [option, "--skip-record-metadata"]}
        elif path.suffix in (".index", ".timeindex"):
            flags = _INDEX_RUNS
        elif path.suffix in (".txnindex", ".snapshot"):
            flags = {"default": []}
        else:
            continue
        for name, arguments in flags.items():
            yield path.name, name, [*arguments, "--files", str(path)]


def changed_outputs(jars: Path, older: Path, captures: list[Path], target: Path) -> list[str]:
    """Run both tools over all captured directories; keep a golden of each run that differs, and name it.

    Captures are ``GROUP/DIRECTORY`` below each of the roots. A golden is ``GROUP/DIRECTORY/golden/FILE.VERSION.FLAGS``
    with ``.out``, ``.err`` and ``.rc``, as those of ``fixtures/captures``.
    """
    jobs, places = [], []
    for root in captures:
        for directory in sorted(path for path in root.glob("*/*") if path.is_dir()):
            for file, flags, arguments in runs(directory):
                jobs.append("\t".join([str(directory), f"{file}.{flags}", *arguments]))
                places.append((directory, directory.relative_to(root) / "golden", file, flags))
    found = []
    with tempfile.TemporaryDirectory() as work:
        _compile(JAVA / "SideBySide.java", jars, work)
        listed = Path(work) / "jobs"
        listed.write_text("\n".join(jobs) + "\n")
        report = Path(work) / "report"
        options = ["-Djava.security.manager=allow", "-Dfile.encoding=UTF-8", "-Xmx1500m"]
        command = ["java", *options, "-cp", work, "SideBySide", str(older), str(jars), str(listed), str(report)]
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
        statuses = {}
        for line in (report / "list.txt").read_text().splitlines():
            kind, directory_name, run, *rest = line.split("\t")
            if kind == "DIFF":
                statuses[directory_name, run] = rest[0].rpartition("/")[2]
        for number, (directory, golden, file, flags) in enumerate(places, 1):
            status = statuses.get((str(directory), f"{file}.{flags}"))
            if status is None:
                continue
            base = target / golden / f"{file}.{version_of(jars)}.{flags}"
            base.parent.mkdir(parents=True, exist_ok=True)
            out, err = ((report / f"{number:05d}.b.{part}").read_bytes() for part in ("out", "err"))
            own = f"{directory}/".encode()
            base.with_name(f"{base.name}.out").write_bytes(out.replace(own, b""))
            base.with_name(f"{base.name}.err").write_bytes(err.replace(own, f"/captures/{directory.name}/".encode()))
            base.with_name(f"{base.name}.rc").write_text(f"{status}\n")
            found.append(str(golden.parent / f"{file}.{flags}"))
    return found


def oracle_directory(jars: Path) -> Path:
    """Where the oracle tests find the jars of all releases, those of this one in ``k44/lib`` or so; else SystemExit."""
    place = jars.resolve()
    name = f"k{name_of(jars).replace('.', '')}/lib"
    if not place.match(name):
        sys.exit(f"{jars}: the oracle tests look for these jars in a directory {name}, beside those of other releases")
    return place.parents[1]


def oracle(jars: Path) -> int:
    """Run the oracle tests against a release; gives their exit status. What was skipped is told with the reason."""
    environment = {**os.environ, "KAFKA_RELEASE": name_of(jars), "KAFKA_JARS": str(oracle_directory(jars))}
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "-m", "oracle", "tests/oracle", "-p", "no:cacheprovider"]
    return subprocess.run(command, env=environment, check=False).returncode


def main(words: list[str]) -> int:
    """See above."""
    match words:
        case ["facts", *jars] if jars:
            write_facts([Path(each) for each in jars])
        case ["methods", jars, older]:
            print(*changed_methods(Path(jars), Path(older)), sep="\n")
        case ["outputs", jars, older, *captures, "-o", target] if captures:
            print(*changed_outputs(Path(jars), Path(older), [Path(each) for each in captures], Path(target)), sep="\n")
        case ["all", jars, older, *captures, "-o", target] if captures:
            oracle_directory(Path(jars))
            for step in (["facts"], ["methods"], ["outputs", *captures, "-o", target]):
                began = time.monotonic()
                main([step[0], jars, older, *step[1:]])
                print(f"{step[0]}: {time.monotonic() - began:.0f} s", file=sys.stderr)
            return oracle(Path(jars))
        case ["check", path]:
            differences = check(Path(path))
            print(*differences or [f"{len(schemas())} messages, all as listed"], sep="\n")
            return 1 if differences else 0
        case _:
            sys.exit(__doc__)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
