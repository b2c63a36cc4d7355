"""The metadata image as a page for people."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from kdump.kafka.image.metadataversion import level_name
from kdump.rows.columns import Row
from kdump.state.metadatarows import StateSelection, image_rows
from kdump.state.metadatastate import MetadataState, name_of
from kdump.stats.rowtable import table_parts, titled
from kdump.system.blocks import escaped

_TITLES: Final = {
    "feature": "features",
    "broker": "brokers",
    "controller": "controllers",
    "topic": "topics",
    "partition": "partitions",
    "config": "configs",
    "quota": "quotas",
    "acl": "ACLs",
    "scram": "SCRAM credentials",
    "token": "delegation tokens",
}
"""Headings by the type of the rows, in the order of the page."""
_SEVERAL: Final = 2
_COLUMNS: Final = {
    "feature": titled("name=feature, level, version"),
    "broker": titled("id, epoch, state, rack, endpoints=listeners, directories"),
    "controller": titled("id, endpoints=listeners, incarnationId=incarnation"),
    "topic": titled("name=topic, topicId=topic id, partitions"),
    "partition": titled(
        "topic, partition, leader, leaderEpoch=leader epoch, replicas, isr=ISR, elr=ELR, "
        "partitionEpoch=partition epoch, state, directories"
    ),
    "config": titled("resourceType=of, resourceName=name, name=config, value"),
    "quota": titled("entity=of, key=quota, value"),
    "acl": titled(
        "resourceType=resource, resourceName=name, patternType=pattern, principal, host, operation, "
        "permissionType=permission"
    ),
    "scram": titled("user, mechanism, iterations"),
    "token": titled("tokenId=token, owner, renewers"),
}


def metadata_page(state: MetadataState, selected: StateSelection, *, width: int, color: bool) -> Iterator[str]:
    """The page, in parts: which state it is, then a table for each kind of thing."""
    found: dict[str, list[Row]] = {kind: [] for kind in _TITLES}
    for row in image_rows(state.image, selected):
        if row["type"] in found:
            found[row["type"]].append(_readable(row))
    yield "".join(f"{escaped(line)}\n" for line in _head(state))
    columns = dict(_COLUMNS)
    if all(len(broker.get("logDirs") or ()) < _SEVERAL for broker in state.image.cluster.brokers.values()):
        # The table of brokers has the only directory of each.
        columns["partition"] = {name: head for name, head in columns["partition"].items() if name != "directories"}
    for kind, title in _TITLES.items():
        if found[kind]:
            yield f"\n{title}\n"
            yield from table_parts(columns[kind], found[kind], width=width, color=color)


def _head(state: MetadataState) -> Iterable[str]:
    image, quorum, snapshot = state.image, state.replayed.quorum, state.replayed.snapshot
    provenance = image.provenance
    moment = time_text(provenance.timestamp)
    yield f"{name_of(state)} after offset {provenance.offset} (epoch {provenance.epoch}, {moment})"
    source = "the log alone" if snapshot is None else f"the snapshot {snapshot.name} and the log after it"
    yield f"from {source}: {state.copy.log.directory}"
    level = image.metadata_version
    if level is not None:
        name = level_name(level)
        named = "" if name is None else f" ({name})"
        yield f"metadata.version {level}{named}, kraft.version {quorum.kraft_version}"
    if quorum.voters:
        yield f"voters {', '.join(str(voter['voterId']) for voter in quorum.voters)}"
    if image.next_producer_id >= 0:
        yield f"next producer id {image.next_producer_id}"
    if state.certain_end is None:
        yield "nothing here is certain: only a majority of the voters tells what is committed"
    else:
        yield f"certain is what is below offset {state.certain_end}: a majority of the voters has it"


def time_text(milliseconds: int) -> str:
    """A time for people; '' for none."""
    if milliseconds < 0:
        return "no time"
    try:
        return f"{datetime.fromtimestamp(milliseconds / 1000, UTC):%Y-%m-%d %H:%M:%S}.{milliseconds % 1000:03d}"
    except (OverflowError, ValueError, OSError):
        return str(milliseconds)


def quota_owner(entity: Mapping[str, str | None]) -> str:
    """Whose quota it is, for people; ``entity``: names by kind, None for the default."""
    return ", ".join(f"{kind} {'(default)' if name is None else name}" for kind, name in entity.items())


def quota_text(value: float) -> str:
    """The exact value of a quota."""
    return f"{int(value):,}" if value.is_integer() else str(value)


def _readable(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row with members that only the page has."""
    shown = dict(row)
    match row["type"]:
        case "broker" | "controller":
            shown["endpoints"] = [f"{one['name']}://{one['host']}:{one['port']}" for one in row["listeners"]]
            if row["type"] == "broker":
                shown["id"], shown["epoch"] = str(row["id"]), str(row["epoch"])
                is_leaving = row["inControlledShutdown"]
                shown["state"] = "fenced" if row["fenced"] else "in controlled shutdown" if is_leaving else "active"
        case "partition":
            states = []
            if row["leader"] < 0:
                states.append("no leader")
            if row["leaderRecoveryState"] != "RECOVERED":
                states.append("recovering")
            if len(row["isr"]) < len(row["replicas"]):
                states.append("under-replicated")
            if row["addingReplicas"] or row["removingReplicas"]:
                states.append("reassigned")
            shown["state"] = states
            shown["directories"] = list(dict.fromkeys(row["directories"]))
        case "quota":
            shown["entity"] = quota_owner(row["entity"])
            shown["value"] = quota_text(row["value"])
        case "config":
            shown["resourceName"] = row["resourceName"] or "(default)"
    return shown


def change_line(row: Row) -> str:
    """A change in one line: time, offset, leader epoch of the controllers, of what, what, from what to what."""
    head = f"{time_text(row['timestamp'])}  offset {row['offset']}  epoch {row['epoch']}"
    parts = [head, *_subject(row), row["change"]]
    text = quota_text if row["change"] == "quota" else _value
    if row["before"] is not None:
        parts.append(f"{text(row['before'])} ->")
    if row["after"] is not None:
        parts.append(text(row["after"]))
    elif row["before"] is not None:
        parts.append("nothing")
    return escaped("  ".join([parts[0], " ".join(parts[1:])])) + "\n"


def _subject(row: Row) -> list[str]:
    if row["partition"] is not None:
        return [f"{row['topic'] or row['topicId']}-{row['partition']}"]
    if row["resourceName"] is not None:
        if row["change"] == "quota":
            return [f"{quota_owner(row['resourceName'])} {row['name']}"]
        kind = "" if row["resourceType"] is None else f"{row['resourceType']} "
        resource = row["resourceName"] or "(default)"
        return [f"{kind}{resource} {row['name'] or ''}".strip()]
    if row["topic"] is not None:
        return [f"{row['topic']} ({row['topicId']})" if row["topicId"] else row["topic"]]
    if row["broker"] is not None:
        return [str(row["broker"])]
    return [] if row["name"] is None else [row["name"]]


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_value(item)}" for name, item in value.items())
    if isinstance(value, list):
        return "[" + ", ".join(map(str, value)) + "]"
    return value if isinstance(value, str) else json.dumps(value)
