"""The changes of nodes of ZooKeeper, as rows and as lines."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from kdump.rows.scalarlines import plain
from kdump.system.blocks import escaped
from kdump.system.units import time_text
from kdump.zookeeper.changes import node_changes
from kdump.zookeeper.datafiles import DataSet
from kdump.zookeeper.secrets import data_without_secrets

_PLACES: Final = {
    "group": ("/consumers/{0}/",),
    "topic": ("/brokers/topics/{0}/", "/config/topics/{0}/", "/admin/delete_topics/{0}/"),
    "broker": ("/brokers/ids/{0}/", "/config/brokers/{0}/"),
    "partition": ("/brokers/topics/{0}/partitions/{1}/",),
}
"""Where the nodes of a thing lie; a partition has a topic and a number."""


def change_rows(
    files: DataSet, span: tuple[int | None, int | None], wanted: tuple[str, str] | None, *, show_secrets: bool
) -> Iterator[dict[str, Any]]:
    """The changes in the order of the log.

    Args:
        files: of one server.
        span: the first time (ms) and the time before which they end; None: open.
        wanted: ``group``, ``topic``, ``broker`` or ``partition``, and its name; None: all nodes.
        show_secrets: the data of Kafka's configs are shown whole.

    Raises:
        KdumpError: a file cannot be read.
    """
    first, end = span
    places = None if wanted is None else _places(*wanted)
    for change in node_changes(files):
        if (first is not None and change.time < first) or (end is not None and change.time >= end):
            continue
        if places is None or any(place in f"{change.path}/" for place in places):
            row = change._asdict()
            row["timestamp"] = row.pop("time")
            data = change.data if show_secrets else data_without_secrets(change.path, change.data)
            yield {"type": "change"} | row | {"data": plain(data)}


def change_text(row: dict[str, Any]) -> str:
    """A change in one line."""
    data = row["data"]
    shown = "" if data is None else f"  {data if isinstance(data, str) else json.dumps(data)}"
    session = f"session 0x{row['session'] % (1 << 64):x}"
    head = f"{time_text(row['timestamp'])}  zxid 0x{row['zxid']:x}  {session}"
    return escaped(f"{head}  {row['operation']} {row['path']}{shown}") + "\n"


def _places(kind: str, name: str) -> list[str]:
    topic, _, number = name.rpartition("-") if kind == "partition" else (name, "", "")
    return [place.format(topic, number) for place in _PLACES[kind]]
