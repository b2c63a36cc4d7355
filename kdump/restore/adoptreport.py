"""The plan for log directories without their cluster, as a page, as JSON lines, and as commands."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

from kdump.payloads.secretconfigs import is_secret_config
from kdump.repair.salvage.pieces import TxnPolicy
from kdump.restore.adopt import AdoptedPartition, AdoptedTopic, AdoptionPlan
from kdump.restore.plan import NoteKind
from kdump.restore.report import json_row, left_lines, left_row, note_lines, note_row
from kdump.state.metadatacommands import add_config
from kdump.system.blocks import escaped

_SERVER: Final = '--bootstrap-server "$SERVER"'
_RETENTION: Final = ("retention.ms", "retention.bytes")
_STOPS: Final = "cat group-offsets.txt; if grep -q ^Error group-offsets.txt; then exit 1; fi"
"""The tool for groups ends with 0 also where it has done nothing."""
_WORDS: Final = {TxnPolicy.ABORT: "abort", TxnPolicy.COMMIT: "commit", TxnPolicy.LEAVE: "keep"}
_REPLICAS: Final = (
    "Give a topic one replica, restore that, and extend it with kafka-reassign-partitions.sh once it runs. Or put the\n"
    "directory on every broker that gets a replica, made with the same --metadata, before any of them starts.\n"
    "Nothing else is safe: an empty in-sync replica that becomes the leader makes the others truncate what was\n"
    "restored.\n"
)


def adoption_page(plan: AdoptionPlan) -> Iterator[str]:
    """The page for people."""
    if not plan.has_metadata:
        yield "no metadata of the cluster: configs, replicas and topics without directories are not known\n"
    for name in plan.unknown:
        yield f"topic {escaped(name)}: no directory of it is left\n"
    for topic in plan.topics:
        topic_id = topic.topic_id or "not known"
        yield f"topic {escaped(topic.name)}: id {topic_id}, partitions: {topic.partitions}, "
        yield f"replicas: {topic.replication_factor}\n"
        if topic.missing:
            yield f"  missing: partition {_listed(topic.missing)}\n"
        for name, value in sorted(topic.configs.items()):
            yield f"  {escaped(name)}={'(hidden)' if is_secret_config(name) else escaped(value)}\n"
        for partition in plan.partitions:
            if partition.name[0] == topic.name:
                yield from (f"  {line}" for line in _partition_lines(partition))
    yield from left_lines(plan.left)
    groups = {row["group"] for row in plan.offsets}
    if groups:
        yield f"committed offsets: {len(plan.offsets):,} of {len(groups):,} groups\n"
    if plan.partitions:
        yield _REPLICAS
        yield "--output commands prints what to run\n"


def _partition_lines(partition: AdoptedPartition) -> Iterator[str]:
    name = f"{partition.name[0]}-{partition.name[1]}"
    for number, (copy, known) in enumerate(zip(partition.copies, partition.high_watermarks, strict=True)):
        what = "best" if number == partition.best else "copy"
        node = "" if copy.node_id is None else f" of broker {copy.node_id}"
        epoch = f", leader epoch {copy.epochs[-1][0]}" if copy.epochs else ""
        damage = ", damaged" if copy.is_damaged else ""
        high_watermark = "not known" if known is None else copy.high_watermark
        yield (
            f"{escaped(name)}: {what}{node}: {escaped(copy.directory)}: offsets {copy.log_start} to {copy.log_end}, "
            f"high watermark {high_watermark}{epoch}{damage}\n"
        )
    if len(partition.replicas) > 1:
        yield f"{escaped(name)}: had replicas on brokers {', '.join(map(str, partition.replicas))}\n"
    for directory in partition.other_ids:
        yield f"{escaped(name)}: of another topic of this name: {escaped(directory)}\n"
    if partition.elsewhere:
        yield (
            f"{escaped(name)}: {partition.elsewhere:,} records are only in other copies; kdump diff shows them, "
            "kdump repair --salvage --from takes what fits\n"
        )
    yield from note_lines(name, partition.notes)


def adoption_rows(plan: AdoptionPlan) -> Iterator[str]:
    """JSON lines."""
    for topic in plan.topics:
        yield json_row(
            {
                "type": "adoptedTopic",
                "topic": topic.name,
                "topicId": topic.topic_id,
                "partitions": topic.partitions,
                "missingPartitions": [[numbers.start, numbers.stop - 1] for numbers in topic.missing],
                "replicationFactor": topic.replication_factor,
                "configs": {name: value for name, value in topic.configs.items() if not is_secret_config(name)},
            }
        )
    for name in plan.unknown:
        yield json_row({"type": "missingTopic", "topic": name})
    for partition in plan.partitions:
        yield json_row(_partition_row(partition))
        for note in partition.notes:
            yield note_row(partition.name, partition.best_copy.directory, note)
    yield from map(left_row, plan.left)
    for row in plan.offsets:
        yield json_row({"type": "committedOffset", **row})


def _partition_row(partition: AdoptedPartition) -> dict[str, Any]:
    return {
        "type": "adoptedPartition",
        "topic": partition.name[0],
        "partition": partition.name[1],
        "best": partition.best,
        "recordsOnlyElsewhere": partition.elsewhere,
        "isWhole": partition.is_whole,
        "replicas": list(partition.replicas),
        "otherTopicIds": list(partition.other_ids),
        "copies": [
            {
                "directory": copy.directory,
                "topicId": copy.topic_id,
                "clusterId": copy.cluster_id,
                "nodeId": copy.node_id,
                "logStartOffset": copy.log_start,
                "logEndOffset": copy.log_end,
                "highWatermark": None if known is None else copy.high_watermark,
                "leaderEpoch": copy.epochs[-1][0] if copy.epochs else None,
                "isDamaged": copy.is_damaged,
            }
            for copy, known in zip(partition.copies, partition.high_watermarks, strict=True)
        ],
    }


def adoption_commands(plan: AdoptionPlan) -> Iterator[str]:
    """A script to read and to run step by step."""
    yield "#!/bin/sh\n"
    yield "# SERVER is a broker of the new cluster, LOGDIR the log directory of a broker, on its own machine.\n"
    yield "set -eu\n"
    for number, step in enumerate(filter(None, map(list, _script(plan))), 1):
        yield f"# {number}. {step[0]}"
        yield from step[1:]


def _script(plan: AdoptionPlan) -> Iterator[Iterator[str]]:
    """The steps of the script: a line that says what is done, then the commands. A step without lines is left out."""
    yield _creations(plan)
    yield _restores(plan)
    yield iter(["Start the brokers.\n"])
    yield _group_offsets(plan)
    yield _retentions(plan)


def _creations(plan: AdoptionPlan) -> Iterator[str]:
    yield "Make the topics, with one replica each, and without retention until all is there.\n"
    yield from map(_create, _restorable(plan))


def _restores(plan: AdoptionPlan) -> Iterator[str]:
    yield "Stop the brokers. On each broker run the lines of the partitions that it has a replica of:\n"
    yield f"#    kafka-topics.sh {_SERVER} --describe tells which; of others kdump says that they are not here.\n"
    for line in _REPLICAS.splitlines():
        yield f"#    {line}\n"
    for line in left_lines(plan.left):
        yield f"# {line}"
    yield from map(_restore, plan.partitions)


def _group_offsets(plan: AdoptionPlan) -> Iterator[str]:
    """Each group is named: a new cluster has none. A topic that is not there would fail the whole group."""
    restored = {one.name for one in plan.partitions}
    rows = [row for row in plan.offsets if (row["topic"], row["partition"]) in restored]
    if rows:
        yield "Give the groups their offsets, before their consumers start.\n"
    for name, own in groupby(rows, key=itemgetter("group")):
        lines = [f"{row['topic']},{row['partition']},{row['offset']}\n" for row in own]
        group = shlex.join(["--group", name] if not name.startswith("-") else [f"--group={name}"])
        yield f"cat > group-offsets.csv <<'END'\n{''.join(lines)}END\n"
        options = f"--reset-offsets {group} --from-file group-offsets.csv --execute"
        told = "> group-offsets.txt 2>&1 || echo Error: status $? >> group-offsets.txt"
        yield f"kafka-consumer-groups.sh {_SERVER} {options} {told}\n{_STOPS}\n"
    for name in sorted({row["group"] for row in plan.offsets} - {row["group"] for row in rows}):
        yield f"# Group {escaped(shlex.quote(name))} has offsets only in partitions that are not restored.\n"


def _retentions(plan: AdoptionPlan) -> Iterator[str]:
    yield "Give the topics their retention back, then more replicas (kafka-reassign-partitions.sh).\n"
    for topic in _restorable(plan):
        yield from _retention(topic)


def _restorable(plan: AdoptionPlan) -> list[AdoptedTopic]:
    """The topics of which at least one partition can be restored."""
    names = {one.name[0] for one in plan.partitions}
    return [topic for topic in plan.topics if topic.name in names]


def _create(topic: AdoptedTopic) -> str:
    if topic.missing:
        note = f"# partition {_listed(topic.missing)} of {escaped(topic.name)} is lost, and will be empty\n"
    else:
        note = ""
    configs = {name: value for name, value in topic.configs.items() if not is_secret_config(name)}
    configs |= dict.fromkeys(_RETENTION, "-1")
    words = [word for name, value in sorted(configs.items()) for word in ("--config", f"{name}={value}")]
    options = [
        "--create",
        "--if-not-exists",
        "--topic",
        topic.name,
        "--partitions",
        str(topic.partitions),
        "--replication-factor",
        "1",
    ]
    return f"{note}kafka-topics.sh {_SERVER} {shlex.join([*options, *words])}\n"


def _restore(partition: AdoptedPartition) -> str:
    topic, number = partition.name
    options = ["--topic", topic, "--partition", str(number), "--forget-producers"]
    policies = {_WORDS[policy] for policy in partition.transactions.values()}
    if policies:
        each = (f"{producer_id}={_WORDS[policy]}" for producer_id, policy in partition.transactions.items())
        options += ["--open-transactions", policies.pop() if len(policies) == 1 else ",".join(each)]
    words = shlex.join(options)
    source = shlex.quote(partition.best_copy.directory)
    # Status 1 also says that something is lost, as the plan does.
    tolerated = " || [ $? -eq 1 ]" if any(note.is_loss for note in partition.notes) else ""
    notes = [note for note in partition.notes if note.kind is NoteKind.OPEN_TRANSACTION]
    comments = "".join(f"# {line}" for line in note_lines(f"{topic}-{number}", notes))
    return f'{comments}kdump restore {source} -o "$LOGDIR" --metadata "$LOGDIR" {words}{tolerated}\n'


def _retention(topic: AdoptedTopic) -> Iterator[str]:
    added, unset = add_config((name, topic.configs[name]) for name in _RETENTION if name in topic.configs)
    dropped = [name for name in _RETENTION if name not in topic.configs]
    entity = shlex.join(["--alter", "--entity-type", "topics", "--entity-name", topic.name])
    if added:
        yield f"kafka-configs.sh {_SERVER} {entity} --add-config {shlex.quote(added)}\n"
    for name in unset:
        yield f"# {escaped(topic.name)}: --add-config cannot set its {name}\n"
    if dropped:
        yield f"kafka-configs.sh {_SERVER} {entity} --delete-config {','.join(dropped)}\n"


def _listed(missing: Iterable[range]) -> str:
    ends = ((numbers.start, numbers.stop - 1) for numbers in missing)
    return ", ".join(str(first) if first == last else f"{first}..{last}" for first, last in ends)
