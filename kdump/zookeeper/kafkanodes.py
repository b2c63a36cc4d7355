"""What the nodes of Kafka say: brokers, topics, configs, ACLs, consumers and their offsets.

Source: docs/spec/zookeeper.md#2-kafkas-znodes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias
from urllib.parse import unquote

from kdump.payloads.secretconfigs import REDACTED
from kdump.wire.jsontext import read_shown_json
from kdump.zookeeper.secrets import is_secret
from kdump.zookeeper.tree import ZNode, ZNodeTree

KafkaRow: TypeAlias = dict[str, Any]

_TOPICS: Final = "/brokers/topics"
STATIC: Final = "static"
BLACK_LIST: Final = "black_list"
"""How a consumer chooses topics, by the names that it writes; what is neither is a white list."""
_OLD_LISTS: Final = {"*": "white_list", "!": BLACK_LIST}
_OLD_LIST: Final = re.compile(r"([*!])(\d{1,9})\1(.*)", re.DOTALL)
"""A list of Kafka 0.7: ``*<streams>*<pattern>`` or ``!<streams>!<pattern>``."""


def kafka_rows(tree: ZNodeTree, kind: str | None = None, *, show_secrets: bool) -> Iterator[KafkaRow]:
    """All things of each Kafka cluster in the tree; ``root`` is its chroot, or ''.

    Nodes whose data are not what Kafka writes are left out.

    Args:
        tree: of a server.
        kind: the type of the rows that are wanted; None: all.
        show_secrets: passwords, salts and keys are shown.
    """
    for root in sorted(path.removesuffix(_TOPICS) for path in tree.nodes if path.endswith(_TOPICS)):
        for row in _KafkaNodes(tree, root, show_secrets=show_secrets).rows(kind):
            if kind is None or row["type"] == kind:
                yield {"type": row.pop("type"), "root": root, **row}


class _KafkaNodes:
    """The nodes of one cluster."""

    def __init__(self, tree: ZNodeTree, root: str, *, show_secrets: bool) -> None:
        self._nodes = tree.nodes
        self._root = root
        self._show_secrets = show_secrets

    def rows(self, kind: str | None) -> Iterator[KafkaRow]:
        """Those of a type, and of others that are made with it; None: all."""
        for make, types in (
            (self._cluster, ("cluster",)),
            (self._brokers, ("broker",)),
            (self._controller, ("controller",)),
            (self._topics, ("topic", "partition")),
            (self._configs, ("config",)),
            (self._acls, ("acl",)),
            (self._groups, ("consumer", "owner", "offset")),
        ):
            if kind is None or kind in types:
                yield from make()

    def _node(self, path: str) -> ZNode | None:
        return self._nodes.get(self._root + path)

    def _children(self, path: str) -> list[str]:
        node = self._node(path)
        return [] if node is None else sorted(node.children or (), key=_by_number)

    def _text(self, path: str) -> str:
        node = self._node(path)
        return "" if node is None else (node.data or b"").decode("utf-8", "replace")

    def _json(self, path: str) -> dict[str, Any]:
        """The members of a node; none where its data are no JSON object."""
        try:
            found = read_shown_json(self._text(path))
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}

    def _cluster(self) -> Iterator[KafkaRow]:
        found = self._json("/cluster/id").get("id")
        if found is not None:
            yield {"type": "cluster", "clusterId": found}

    def _brokers(self) -> Iterator[KafkaRow]:
        for broker in self._children("/brokers/ids"):
            path = f"/brokers/ids/{broker}"
            found = self._json(path)
            # Kafka 0.7: creator:host:port.
            old = self._text(path).split(":") if not found else []
            host, port = old[1:] if len(old) == 3 else (found.get("host"), found.get("port"))
            yield {
                "type": "broker",
                "id": _number(broker),
                "host": host,
                "port": _number(port),
                "endpoints": found.get("endpoints"),
                "rack": found.get("rack"),
                "timestamp": _number(found.get("timestamp")),
            }

    def _controller(self) -> Iterator[KafkaRow]:
        text = self._text("/controller")
        if text:
            # The earliest releases of 0.8 wrote the id alone.
            broker = self._json("/controller").get("brokerid", text)
            yield {"type": "controller", "id": _number(broker), "epoch": _number(self._text("/controller_epoch"))}

    def _topics(self) -> Iterator[KafkaRow]:
        for topic in self._children(_TOPICS):
            found = self._json(f"{_TOPICS}/{topic}")
            partitions = found.get("partitions")
            if not isinstance(partitions, dict):
                yield from self._old_topic(topic)
                continue
            yield {"type": "topic", "name": topic, "topicId": found.get("topic_id"), "partitions": len(partitions)}
            for number, replicas in sorted(partitions.items(), key=lambda item: _by_number(item[0])):
                state = self._json(f"{_TOPICS}/{topic}/partitions/{number}/state")
                yield {
                    "type": "partition",
                    "topic": topic,
                    "partition": _number(number),
                    "leader": state.get("leader"),
                    "leaderEpoch": state.get("leader_epoch"),
                    "controllerEpoch": state.get("controller_epoch"),
                    "replicas": replicas,
                    "isr": state.get("isr"),
                    "addingReplicas": _members(found, "adding_replicas").get(number, []),
                    "removingReplicas": _members(found, "removing_replicas").get(number, []),
                }

    def _old_topic(self, topic: str) -> Iterator[KafkaRow]:
        """A topic of 0.7: each broker says how many partitions it has."""
        path = f"{_TOPICS}/{topic}"
        counts = {broker: _number(self._text(f"{path}/{broker}")) for broker in self._children(path)}
        total = sum(count for count in counts.values() if isinstance(count, int))
        yield {"type": "topic", "name": topic, "topicId": None, "partitions": total, "brokers": counts}

    def _configs(self) -> Iterator[KafkaRow]:
        for kind in ("topics", "brokers", "clients", "users", "ips"):
            for name in self._children(f"/config/{kind}"):
                path = f"/config/{kind}/{name}"
                yield from self._configs_of(kind.removesuffix("s"), unquote(name), path)
                for client in self._children(f"{path}/clients"):
                    yield from self._configs_of("user", unquote(name), f"{path}/clients/{client}", unquote(client))

    def _configs_of(self, kind: str, resource: str, path: str, client: str | None = None) -> Iterator[KafkaRow]:
        for name, value in sorted(_members(self._json(path), "config").items()):
            is_hidden = is_secret(name) and not self._show_secrets
            shown = REDACTED if is_hidden else value
            row = {"type": "config", "resourceType": kind, "resourceName": resource, "client": client}
            yield row | {"name": name, "value": shown}

    def _acls(self) -> Iterator[KafkaRow]:
        extended = [(pattern, f"/kafka-acl-extended/{pattern}") for pattern in self._children("/kafka-acl-extended")]
        for pattern, path in (("literal", "/kafka-acl"), *extended):
            for kind in self._children(path):
                for name in self._children(f"{path}/{kind}"):
                    acls = self._json(f"{path}/{kind}/{name}").get("acls")
                    for acl in acls if isinstance(acls, list) else ():
                        if isinstance(acl, dict):
                            members = {
                                one: acl.get(one) for one in ("principal", "permissionType", "operation", "host")
                            }
                            row = {"type": "acl", "resourceType": kind, "resourceName": name, "patternType": pattern}
                            yield row | members

    def _groups(self) -> Iterator[KafkaRow]:
        for group in self._children("/consumers"):
            path = f"/consumers/{group}"
            for consumer in self._children(f"{path}/ids"):
                subscription = self._text(f"{path}/ids/{consumer}")
                row = {"type": "consumer", "group": group, "id": consumer, "subscription": subscription}
                yield row | _subscription(subscription)
            yield from self._partitions_of(group, "owners", lambda node, text: {"type": "owner", "owner": text})
            yield from self._partitions_of(
                group,
                "offsets",
                lambda node, text: {"type": "offset", "offset": _number(text), "timestamp": node.mtime},
            )

    def _partitions_of(self, group: str, kind: str, members: Callable[[ZNode, str], KafkaRow]) -> Iterator[KafkaRow]:
        """The nodes ``topic/partition`` of a group; in Kafka 0.7 the partition is ``broker-partition``."""
        path = f"/consumers/{group}/{kind}"
        for topic in self._children(path):
            for partition in self._children(f"{path}/{topic}"):
                node = self._nodes[f"{self._root}{path}/{topic}/{partition}"]
                text = (node.data or b"").decode("utf-8", "replace")
                found = members(node, text)
                yield {
                    "type": found.pop("type"),
                    "group": group,
                    "topic": topic,
                    "partition": _number(partition),
                    **found,
                }


def _subscription(text: str) -> KafkaRow:
    """What a consumer says of itself; ``topics``: the streams of each topic, of a list those of its pattern."""
    old = _OLD_LIST.fullmatch(text)
    if old is not None:
        mark, streams, pattern = old.groups()
        topics: Any = {pattern: int(streams)}
        return {"topics": topics, "pattern": _OLD_LISTS[mark], "timestamp": None, "version": None}
    try:
        found = read_shown_json(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        return {"topics": None, "pattern": None, "timestamp": None, "version": None}
    if "subscription" not in found:
        # Kafka 0.7: the topics alone.
        return {"topics": found, "pattern": STATIC, "timestamp": None, "version": None}
    return {
        "topics": found["subscription"],
        "pattern": found.get("pattern"),
        "timestamp": _number(found.get("timestamp")),
        "version": found.get("version"),
    }


def _members(values: dict[str, Any], name: str) -> dict[str, Any]:
    """The object of that name; an empty one where there is none."""
    found = values.get(name)
    return found if isinstance(found, dict) else {}


def _number(value: Any) -> Any:
    """A decimal text as a number; everything else as it is."""
    is_decimal = isinstance(value, str) and len(value) < 20 and value.removeprefix("-").isascii()
    return int(value) if is_decimal and value.removeprefix("-").isdecimal() else value


def _by_number(name: str) -> tuple[bool, int, str]:
    """Numbers in their order, then other names."""
    number = _number(name)
    return (False, number, "") if isinstance(number, int) else (True, 0, name)
