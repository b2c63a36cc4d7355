"""The tree of ZooKeeper at a moment, as rows and as a page."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from kdump.codes import Finding
from kdump.state.coordinators import lag
from kdump.state.worldstate import Reaches
from kdump.stats.rowtable import table_parts, titled
from kdump.system.blocks import escaped
from kdump.system.units import time_text
from kdump.zookeeper.changes import change_rows, change_text
from kdump.zookeeper.datafiles import DataSet, data_sets
from kdump.zookeeper.kafkanodes import kafka_rows
from kdump.zookeeper.restore import RestoredTree, last_zxid_at, restore, tree_at
from kdump.zookeeper.tree import ZNodeTree
from kdump.zookeeper.verify import restored_findings

_TABLES: Final[dict[str, tuple[str, dict[str, str]]]] = {
    "cluster": ("cluster", titled("clusterId=id, root")),
    "broker": ("brokers", titled("id, host, port, endpoints, rack, root")),
    "controller": ("controller", titled("id, epoch, root")),
    "topic": ("topics", titled("name, partitions, topicId, root")),
    "partition": ("partitions", titled("topic, partition, leader, replicas, isr, leaderEpoch, root")),
    "config": ("configs", titled("resourceType, resourceName, name, value, client, root")),
    "acl": (
        "ACLs",
        titled("resourceType, resourceName, principal, operation, permissionType, host, patternType"),
    ),
    "consumer": ("consumers", titled("group, id, pattern, subscription, root")),
    "owner": ("owners of partitions", titled("group, topic, partition, owner, root")),
    "offset": (
        "offsets of groups",
        titled("group, topic, partition, offset, timestamp, lag, root"),
    ),
    "node": ("nodes", titled("path, data, version, modified, mzxid, ephemeralOwner=owner, numChildren=children")),
}
"""Headings and columns of what Kafka keeps, and of the nodes, by the type of the rows, in the order of the page."""
_MOST_CHARACTERS: Final = 200
"""Characters of the data of a node in a table."""


def servers(paths: Iterable[str], limit: int) -> list[Server]:
    """See WorldStates."""
    return [Server(files) for files in data_sets(paths, limit)]


class Server:
    """The files of one server; see WorldPlace."""

    def __init__(self, files: DataSet) -> None:
        self._files = files

    @property
    def path(self) -> str:
        """Where they lie."""
        return self._files.path

    def at(self, time: int | None, number: int | None) -> ServerTree:
        """See WorldPlace; the number is a zxid."""
        if number is not None:
            found = tree_at(self._files, number)
        else:
            found = restore(self._files) if time is None else tree_at(self._files, last_zxid_at(self._files, time))
        return ServerTree(found, self._files)

    def changes(
        self, span: tuple[int | None, int | None], wanted: tuple[str, str] | None, *, show_secrets: bool
    ) -> Iterator[tuple[dict[str, Any], str]]:
        """See WorldPlace."""
        for row in change_rows(self._files, span, wanted, show_secrets=show_secrets):
            yield row, change_text(row)


class ServerTree(NamedTuple):
    """The tree of a server at a moment; see WorldState."""

    found: RestoredTree
    files: DataSet

    def records(self, *, show_secrets: bool) -> Iterator[dict[str, Any]]:
        """The nodes as a client is shown them, by path; ``data`` in base64 or None."""
        for node in self.found.tree.shown_nodes(show_secrets=show_secrets):
            data = node["data"]
            yield {**node, "data": None if data is None else base64.b64encode(data).decode()}

    @property
    def time(self) -> int | None:
        """See WorldState."""
        return self.found.time

    def rows(self, *, show_secrets: bool, reaches: Reaches | None) -> Iterator[dict[str, Any]]:
        """What tree it is, its sessions, what Kafka keeps in it, and its nodes, each with a type."""
        found = self.found
        yield {
            "type": "zookeeper",
            "file": self.files.path,
            "zxid": found.last_zxid,
            "timestamp": found.time,
            "snapshot": None if found.snapshot is None else found.snapshot.file_name,
            "transactions": found.replayed,
            "failure": found.failure,
        }
        for session, timeout in sorted(found.tree.sessions.items()):
            yield {"type": "session", "session": session, "timeout": timeout}
        yield from _with_lag(kafka_rows(found.tree, show_secrets=show_secrets), reaches)
        for node in self.records(show_secrets=show_secrets):
            yield {"type": "node", **node}

    def page(self, *, show_secrets: bool, reaches: Reaches | None, width: int, color: bool) -> Iterator[str]:
        """What tree it is, what Kafka keeps in it, and a table of its nodes; in parts."""
        found = self.found
        moment = "" if found.time is None else f" ({time_text(found.time)})"
        start = "an empty tree" if found.snapshot is None else found.snapshot.file_name
        yield (
            f"{escaped(self.files.path)} after zxid 0x{found.last_zxid:x}{moment}\n"
            f"from {start} and {found.replayed:,} transactions; {len(found.tree.sessions):,} sessions\n"
        )
        for kind, (title, columns) in _TABLES.items():
            rows = _TableRows(found.tree, kind, reaches, show_secrets=show_secrets)
            first = next(iter(rows), None)
            if first is not None:
                there = {name: heading for name, heading in columns.items() if name in first}
                yield f"\n{title}\n"
                yield from table_parts(there, rows, width=width, color=color)

    def findings(self) -> Iterator[Finding]:
        """What is wrong with it."""
        return restored_findings(self.found, self.files, with_summary=False)


def _with_lag(rows: Iterable[dict[str, Any]], reaches: Reaches | None) -> Iterator[dict[str, Any]]:
    """Offsets with the ends of their logs, if these are asked for."""
    for row in rows:
        yield row if reaches is None or row["type"] != "offset" else row | lag(row, reaches)


class _TableRows:
    """The rows of a type as the table shows them, made anew each time: there may be a million nodes."""

    def __init__(self, tree: ZNodeTree, kind: str, reaches: Reaches | None, *, show_secrets: bool) -> None:
        self._tree = tree
        self._kind = kind
        self._reaches = reaches
        self._show_secrets = show_secrets

    def __iter__(self) -> Iterator[dict[str, Any]]:
        if self._kind == "node":
            yield from map(_node_cells, self._tree.shown_nodes(show_secrets=self._show_secrets))
            return
        rows = kafka_rows(self._tree, self._kind, show_secrets=self._show_secrets)
        for row in _with_lag(rows, self._reaches):
            if "port" in row:
                row["port"] = str(row["port"])
            yield row


def _node_cells(node: dict[str, Any]) -> dict[str, Any]:
    return {
        **node,
        "data": (node["data"] or b"").decode("utf-8", "replace")[:_MOST_CHARACTERS],
        "version": str(node["version"]),
        "modified": time_text(node["mtime"]) if node["mtime"] else "",
        "mzxid": f"0x{node['mzxid']:x}",
        "ephemeralOwner": f"0x{node['ephemeralOwner'] % (1 << 64):x}" if node["ephemeralOwner"] else "",
    }
