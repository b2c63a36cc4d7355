"""The tree of ZooKeeper at a moment, as rows and as a page."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any, Final

from kdump.stats.rowtable import row_table
from kdump.system.blocks import escaped
from kdump.system.units import time_text
from kdump.zookeeper.datafiles import DataSet
from kdump.zookeeper.restore import RestoredTree

_COLUMNS: Final = {
    "path": "path",
    "data": "data",
    "version": "version",
    "modified": "modified",
    "mzxid": "mzxid",
    "ephemeralOwner": "owner",
    "numChildren": "children",
}
_MOST_CHARACTERS: Final = 200
"""Characters of the data of a node in a table."""


def node_records(found: RestoredTree, *, show_secrets: bool) -> Iterator[dict[str, Any]]:
    """The nodes as a client is shown them, by path; ``data`` in base64 or None."""
    for node in found.tree.shown_nodes(show_secrets=show_secrets):
        data = node["data"]
        yield {**node, "data": None if data is None else base64.b64encode(data).decode()}


def zookeeper_rows(found: RestoredTree, files: DataSet, *, show_secrets: bool) -> Iterator[dict[str, Any]]:
    """What tree it is, its sessions and its nodes, each with a type."""
    yield {
        "type": "zookeeper",
        "file": files.path,
        "zxid": found.last_zxid,
        "timestamp": found.time,
        "snapshot": None if found.snapshot is None else found.snapshot.file_name,
        "transactions": found.replayed,
        "failure": found.failure,
    }
    for session, timeout in sorted(found.tree.sessions.items()):
        yield {"type": "session", "session": session, "timeout": timeout}
    for node in node_records(found, show_secrets=show_secrets):
        yield {"type": "node", **node}


def zookeeper_page(found: RestoredTree, files: DataSet, *, show_secrets: bool, width: int, color: bool) -> str:
    """What tree it is, and a table of its nodes."""
    moment = "" if found.time is None else f" ({time_text(found.time)})"
    start = "an empty tree" if found.snapshot is None else found.snapshot.file_name
    head = (
        f"{escaped(files.path)} after zxid 0x{found.last_zxid:x}{moment}\n"
        f"from {start} and {found.replayed:,} transactions; {len(found.tree.sessions):,} sessions\n\n"
    )
    rows = [
        {
            **node,
            "data": (node["data"] or b"").decode("utf-8", "replace")[:_MOST_CHARACTERS],
            "version": str(node["version"]),
            "modified": time_text(node["mtime"]) if node["mtime"] else "",
            "mzxid": f"0x{node['mzxid']:x}",
            "ephemeralOwner": f"0x{node['ephemeralOwner'] % (1 << 64):x}" if node["ephemeralOwner"] else "",
        }
        for node in found.tree.shown_nodes(show_secrets=show_secrets)
    ]
    return head + row_table(_COLUMNS, rows, width=width, color=color)
