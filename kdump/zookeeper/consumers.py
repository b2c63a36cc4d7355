"""Who owns the partitions of a consumer group, and who should: consumers of Kafka up to 2.x that used ZooKeeper.

Source: docs/spec/zookeeper.md#23-who-owns-a-partition.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from kdump.codes import Codes, Finding
from kdump.system.units import counted
from kdump.zookeeper.kafkanodes import BLACK_LIST, STATIC, kafka_rows
from kdump.zookeeper.tree import ZNodeTree

_MOST_NAMED: Final = 3
_MOST_STREAMS: Final = 10_000
"""Of a consumer; one that says more is no consumer of Kafka, and nothing is said of its group."""


class _GroupOffsets(NamedTuple):
    """A group: its live consumers as rows by their ids, and owners by partition of each topic."""

    consumers: dict[str, dict[str, Any]]
    owners: dict[str, dict[int | str, str]]


def owner_findings(tree: ZNodeTree, path: str) -> Iterator[Finding]:
    """Owners that are no live consumers, and owners that the rule does not choose; ``path``: of the server."""
    groups: dict[tuple[str, str], _GroupOffsets] = defaultdict(lambda: _GroupOffsets({}, defaultdict(dict)))
    for row in kafka_rows(tree, "consumer", show_secrets=False):
        groups[row["root"], row["group"]].consumers[row["id"]] = row
    for row in kafka_rows(tree, "owner", show_secrets=False):
        groups[row["root"], row["group"]].owners[row["topic"]][row["partition"]] = row["owner"]
    if not groups:
        return
    partitions = _partitions(tree)
    for (root, name), group in groups.items():
        dead = dict(_dead(group))
        for owner, owned in dead.items():
            what = f"group {name}: {owner} owns {_some(owned)} and is no live consumer"
            yield Finding(Codes.ZOOKEEPER_OWNER, what, 0, path=path)
        for topic in group.owners:
            threads = _threads(group, topic)
            numbers = partitions[root].get(topic)
            if dead or not threads or not numbers:
                continue
            wanted = chosen_owners(threads, numbers)
            owners = group.owners[topic]
            others = [
                f"{topic}-{number} is owned by {owners.get(number, 'nobody')}, the rule gives it to {wanted[number]}"
                for number in numbers
                if owners.get(number) != wanted[number]
            ]
            if others:
                more = len(others) - _MOST_NAMED
                what = "; ".join(others[:_MOST_NAMED]) + (f"; {more} more" if more > 0 else "")
                yield Finding(Codes.ZOOKEEPER_ASSIGNMENT, f"group {name}: {what}", 0, path=path)


def chosen_owners(threads: Sequence[str], partitions: Sequence[int | str]) -> dict[int | str, str]:
    """The owner of each partition of a topic: of N partitions a thread gets the i-th share, the first ones one more.

    Args:
        threads: of the live consumers of the topic, sorted, at least one.
        partitions: of the topic, sorted.
    """
    share, extra = divmod(len(partitions), len(threads))
    owners: dict[int | str, str] = {}
    start = 0
    for number, thread in enumerate(threads):
        end = start + share + (number < extra)
        owners |= dict.fromkeys(partitions[start:end], thread)
        start = end
    return owners


def _dead(group: _GroupOffsets) -> Iterator[tuple[str, list[str]]]:
    """The owners that are no live consumers, with what they own."""
    found: dict[str, list[str]] = defaultdict(list)
    for topic, owners in group.owners.items():
        for number, owner in owners.items():
            if owner.rpartition("-")[0] not in group.consumers:
                found[owner].append(f"{topic}-{number}")
    yield from found.items()


def _threads(group: _GroupOffsets, topic: str) -> list[str]:
    """The threads of the live consumers that consume a topic, sorted; none where a pattern cannot be told."""
    threads = []
    for consumer, row in group.consumers.items():
        streams = row["topics"]
        if not isinstance(streams, dict):
            return []
        if row["pattern"] not in (STATIC, None):
            if len(streams) != 1:
                return []
            (pattern,) = streams
            fits = _fits(pattern, topic)
            if fits is None:
                return []
            streams = {topic: streams[pattern]} if fits != (row["pattern"] == BLACK_LIST) else {}
        count = streams.get(topic, 0)
        if not isinstance(count, int) or count > _MOST_STREAMS:
            return []
        threads += [f"{consumer}-{number}" for number in range(count)]
    return sorted(threads)


def _fits(pattern: str, topic: str) -> bool | None:
    """Whether a topic fits a list of a consumer; None where releases escape it in different ways."""
    if "\\" in pattern:
        return None
    try:
        return re.fullmatch(pattern.replace(" ", "").replace(",", "|").strip("\"'"), topic) is not None
    except re.error:
        return None


def _partitions(tree: ZNodeTree) -> dict[str, dict[str, list[int | str]]]:
    """The partitions of each topic, sorted as consumers sort them, by the root of the cluster."""
    found: dict[str, dict[str, list[int | str]]] = defaultdict(dict)
    for row in kafka_rows(tree, "topic", show_secrets=False):
        brokers = row.get("brokers")
        if brokers is not None:
            counts = ((broker, count) for broker, count in brokers.items() if isinstance(count, int))
            names: list[int | str] = [f"{broker}-{number}" for broker, count in counts for number in range(count)]
            found[row["root"]][row["name"]] = sorted(names, key=str)
        else:
            found[row["root"]][row["name"]] = []
    for row in kafka_rows(tree, "partition", show_secrets=False):
        if isinstance(row["partition"], int):
            found[row["root"]][row["topic"]].append(row["partition"])
    return found


def _some(names: list[str]) -> str:
    if len(names) == 1:
        return names[0]
    more = ", ..." if len(names) > _MOST_NAMED else ""
    return f"{counted(len(names), 'partition')} ({', '.join(names[:_MOST_NAMED])}{more})"
