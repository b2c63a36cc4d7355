"""The cases of ``fixtures/cases/zookeeper.tar.zst``: data directories with the trees of real clients and servers."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from kdump.zookeeper.datafiles import DataSet, data_sets
from kdump.zookeeper.tree import ZNodeTree

Nodes = dict[str, dict[str, Any]]
"""Nodes by path."""


def data_set(directory: Path) -> DataSet:
    """The files of a data directory; none of an empty one."""
    found = data_sets([str(directory)])
    return found[0] if found else DataSet(str(directory), (), ())


def shown(tree: ZNodeTree) -> Nodes:
    """The nodes as the truth has them."""
    return by_path(
        {
            **node,
            "data": None if node["data"] is None else base64.b64encode(node["data"]).decode(),
            "acl": list(node["acl"]),
        }
        for node in tree.shown_nodes()
    )


def by_path(nodes: Iterable[dict[str, Any]]) -> Nodes:
    """Nodes by path, without what only the real restore tells."""
    return {
        node["path"]: {name: value for name, value in node.items() if name not in ("rawCversion", "rawEphemeralOwner")}
        for node in nodes
    }


def live_moments(root: Path) -> list[Path]:
    """The trees that a client read of running servers."""
    return sorted(root.glob("*/live/*.json"))


def live_directory(moment: Path) -> Path:
    """The data directory of the server."""
    name = f"data-snap-{moment.stem.removeprefix('comp-')}" if moment.stem.startswith("comp-") else "data"
    return moment.parents[1] / name


def as_client_may_see(found: Nodes, truth: Nodes) -> Nodes:
    """The nodes as the client of the truth was allowed to see them: hidden hashes, and data that it could not read."""
    result = {}
    for path, node in found.items():
        there = truth.get(path, {})
        hides = any(rule["id"].endswith(":x") for rule in there.get("acl", ()))
        acl = [{**rule, "id": f"{rule['id'].partition(':')[0]}:x"} if hides else rule for rule in node["acl"]]
        result[path] = {**node, "acl": acl}
        if there.get("error") == "NOAUTH":
            result[path] |= {"data": None, "error": "NOAUTH"}
    return result


def restored_directory(truth: Path) -> Path:
    """The data directory of a ``restored*.json``."""
    return truth.parent / f"data{truth.stem.removeprefix('restored')}"


def damaged_truth(root: Path, case: dict[str, Any]) -> Nodes:
    """The nodes that the real restore of a damaged directory gave, before it failed or ended."""
    full = next((root / "damaged").glob("*/restored-full.json"))
    nodes = by_path(json.loads(full.read_text())["nodes"])
    for path in case["missingFromOk"]:
        del nodes[path]
    return nodes | by_path(case["moreThanOk"] + case["differentFromOk"])
