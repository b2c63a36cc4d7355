"""Answers about the cluster: versions, topics, partitions, settings, and where groups are coordinated.

What would write is refused, with an error that no client takes for a passing one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from kdump.codes import KdumpError
from kdump.format.message import Field
from kdump.log.names import is_topic_name
from kdump.payloads.topics import INTERNAL_TOPICS
from kdump.serve.view import Topic, View
from kdump.serve.wire import Error, Request, apis

NODE_ID: Final = 0
"""Of the one broker that there is."""
CLUSTER_ID: Final = "kdump-serve"
"""Where the log directories name no cluster."""
_ALL_OR_NONE: Final = 1
"""The first version of Metadata in which no topics means none."""
_SEVERAL_KEYS: Final = 4
"""The first version of FindCoordinator with several keys."""
_SHARE: Final = 2
_MOST_PARTITIONS: Final = 2000
"""max.request.partition.size.limit."""
_COMPACTED: Final = frozenset(INTERNAL_TOPICS[name] for name in ("offsets", "transaction-log"))
_TOPIC, _BROKER = 2, 4
_DEFAULT_CONFIG: Final = 5
"""Where a value comes from: Kafka's default."""
_TOPIC_DEFAULTS: Final = {
    "cleanup.policy": "delete",
    "compression.type": "producer",
    "delete.retention.ms": "86400000",
    "max.message.bytes": "1048588",
    "message.timestamp.type": "CreateTime",
    "min.insync.replicas": "1",
    "retention.bytes": "-1",
    "retention.ms": "604800000",
    "segment.bytes": "1073741824",
}
_NO_OTHERS: Final[dict[str, list[int]]] = {"eligibleLeaderReplicas": [], "lastKnownElr": []}
"""Clients take no null for them."""
_BROKER_DEFAULTS: Final = {"auto.create.topics.enable": "false", "delete.topic.enable": "false"}


class Address(NamedTuple):
    """Where a client reached the server, which is where it finds all leaders."""

    host: str
    port: int


class Cluster:
    """Answers about the topics of a view."""

    def __init__(self, view: View) -> None:
        self._view = view

    @property
    def cluster_id(self) -> str:
        """That of the log directories, if one names it."""
        return self._view.cluster_id or CLUSTER_ID

    def versions(self, error: Error = Error.NONE) -> dict[str, Any]:
        """ApiVersions."""
        ranges = [(api.key, api.request.versions) for api in apis().values()]
        return {
            "errorCode": error,
            "apiKeys": [{"apiKey": key, "minVersion": one.low, "maxVersion": one.high} for key, one in sorted(ranges)],
        }

    def metadata(self, request: Request, address: Address) -> dict[str, Any]:
        """Metadata."""
        wanted = request.values["topics"]
        if wanted is None or (not wanted and request.version < _ALL_OR_NONE):
            topics = [self._topic(topic) for topic in self._view.topics.values()]
        else:
            topics = [self._named(one["name"], one["topicId"]) for one in wanted]
        return {
            "brokers": [{"nodeId": NODE_ID, "host": address.host, "port": address.port}],
            "clusterId": self.cluster_id,
            "controllerId": NODE_ID,
            "topics": topics,
        }

    def describe_cluster(self, request: Request, address: Address) -> dict[str, Any]:
        """DescribeCluster."""
        return {
            "endpointType": request.values["endpointType"],
            "clusterId": self.cluster_id,
            "controllerId": NODE_ID,
            "brokers": [{"brokerId": NODE_ID, "host": address.host, "port": address.port}],
        }

    def topic_partitions(self, request: Request) -> dict[str, Any]:
        """DescribeTopicPartitions: some partitions, and where to go on (KIP-966)."""
        values = request.values
        cursor = values["cursor"]
        names = sorted({one["name"] for one in values["topics"]} or set(self._view.topics))
        left = max(1, min(values["responsePartitionLimit"], _MOST_PARTITIONS))
        topics: list[dict[str, Any]] = []
        for name in names:
            if cursor is not None and name < cursor["topicName"]:
                continue
            if left == 0:
                return {"topics": topics, "nextCursor": {"topicName": name, "partitionIndex": 0}}
            first = cursor["partitionIndex"] if cursor is not None and name == cursor["topicName"] else 0
            topic = self._view.topics.get(name)
            if topic is None:
                topics.append({"errorCode": _unknown(name), "name": name})
                continue
            numbers = [number for number in topic.numbers() if number >= first]
            described = self._topic(topic, numbers[:left])
            topics.append(described)
            if len(numbers) > left:
                return {"topics": topics, "nextCursor": {"topicName": name, "partitionIndex": numbers[left]}}
            left -= len(numbers)
        return {"topics": topics}

    def configs(self, request: Request) -> dict[str, Any]:
        """DescribeConfigs: Kafka's defaults, as the logs tell no settings."""
        results = []
        for one in request.values["resources"]:
            kind, name = one["resourceType"], one["resourceName"]
            known = {_TOPIC: _TOPIC_DEFAULTS, _BROKER: _BROKER_DEFAULTS}.get(kind, {})
            if kind == _TOPIC and name in _COMPACTED:
                known = {**known, "cleanup.policy": "compact"}
            wanted = one["configurationKeys"]
            is_unknown = kind == _TOPIC and name not in self._view.topics
            results.append(
                {
                    "errorCode": _unknown(name) if is_unknown else Error.NONE,
                    "errorMessage": None,
                    "resourceType": kind,
                    "resourceName": name,
                    "configs": [
                        {"name": key, "value": value, "readOnly": True, "configSource": _DEFAULT_CONFIG}
                        for key, value in known.items()
                        if not is_unknown and (not wanted or key in wanted)
                    ],
                }
            )
        return {"results": results}

    def log_dirs(self, request: Request) -> dict[str, Any]:
        """DescribeLogDirs: the sizes of the partitions."""
        wanted = request.values["topics"]
        chosen = None if wanted is None else {(one["topic"], number) for one in wanted for number in one["partitions"]}
        topics = []
        for topic in self._view.topics.values():
            partitions = [
                {"partitionIndex": number, "partitionSize": _size(topic, number), "offsetLag": 0}
                for number in sorted(topic.partitions)
                if chosen is None or (topic.name, number) in chosen
            ]
            if partitions:
                topics.append({"name": topic.name, "partitions": partitions})
        return {"results": [{"logDir": "/", "topics": topics}]}

    def coordinator(self, request: Request, address: Address) -> dict[str, Any]:
        """FindCoordinator: this broker, for all groups."""
        is_known = request.values["keyType"] < _SHARE
        found = {"errorCode": Error.INVALID_REQUEST, "nodeId": -1, "port": -1, "errorMessage": "no share groups"}
        if is_known:
            found = {"nodeId": NODE_ID, "host": address.host, "port": address.port, "errorMessage": None}
        if request.version < _SEVERAL_KEYS:
            return found
        return {"coordinators": [{"key": key, **found} for key in request.values["coordinatorKeys"]]}

    def _named(self, name: str | None, topic_id: str) -> dict[str, Any]:
        topic = self._view.topics.get(name) if name is not None else self._view.by_id.get(topic_id)
        if topic is not None:
            return self._topic(topic)
        if name is None:
            return {"errorCode": Error.UNKNOWN_TOPIC_ID, "name": None, "topicId": topic_id}
        return {"errorCode": _unknown(name), "name": name}

    def _topic(self, topic: Topic, numbers: Iterable[int] | None = None) -> dict[str, Any]:
        """A topic as Metadata and DescribeTopicPartitions show it."""
        return {
            "name": topic.name,
            "topicId": topic.topic_id,
            "isInternal": topic.is_internal,
            "partitions": [*_partitions(topic, topic.numbers() if numbers is None else numbers)],
        }


def _partitions(topic: Topic, numbers: Iterable[int]) -> Iterator[dict[str, Any]]:
    for number in numbers:
        partition = topic.partitions.get(number)
        if partition is None:
            yield {"errorCode": Error.LEADER_NOT_AVAILABLE, "partitionIndex": number, "leaderId": -1, **_NO_OTHERS}
        else:
            yield {
                "partitionIndex": number,
                "leaderId": NODE_ID,
                "leaderEpoch": partition.leader_epoch,
                "replicaNodes": [NODE_ID],
                "isrNodes": [NODE_ID],
                **_NO_OTHERS,
            }


def _unknown(name: str) -> Error:
    return Error.UNKNOWN_TOPIC_OR_PARTITION if is_topic_name(name) else Error.INVALID_TOPIC


def _size(topic: Topic, number: int) -> int:
    try:
        return topic.partitions[number].size
    except KdumpError:
        return 0


REASON: Final = "kdump serve is read-only: it writes nothing"
_ERRORS: Final = {
    "Produce": Error.TOPIC_AUTHORIZATION_FAILED,
    "InitProducerId": Error.CLUSTER_AUTHORIZATION_FAILED,
    "CreateTopics": Error.POLICY_VIOLATION,
    "DeleteTopics": Error.POLICY_VIOLATION,
    "DeleteRecords": Error.POLICY_VIOLATION,
    "AlterConfigs": Error.POLICY_VIOLATION,
    "IncrementalAlterConfigs": Error.POLICY_VIOLATION,
    "CreatePartitions": Error.POLICY_VIOLATION,
    "DeleteGroups": Error.CLUSTER_AUTHORIZATION_FAILED,
    "OffsetDelete": Error.CLUSTER_AUTHORIZATION_FAILED,
}
REFUSED: Final = frozenset(_ERRORS)
"""The requests that are refused."""
_SOURCES: Final = {
    "responses": ("topicData", "resources", "topics", "topicNames"),
    "partitionResponses": ("partitionData",),
    "results": ("topics", "groupsNames"),
    "topics": ("topics",),
    "partitions": ("partitions",),
}
"""By an array of a response, the arrays of the request that it answers one by one."""
_NAMES: Final = ("name", "groupId")
"""What an element is called that the request gives as a text."""


def refused(request: Request) -> dict[str, Any]:
    """The response that refuses a request, and all that is in it."""
    return _answer(request.api.response.fields, request.values, _ERRORS[request.api.name])


def _answer(fields: tuple[Field, ...], asked: Mapping[str, Any], error: Error) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field in fields:
        if field.name == "errorCode":
            found[field.name] = error
        elif field.name == "errorMessage":
            found[field.name] = REASON
        elif field.name in _SOURCES and field.fields:
            elements: list[Any] = next((asked[name] for name in _SOURCES[field.name] if asked.get(name)), [])
            found[field.name] = [_answer(field.fields, _named(element), error) for element in elements]
        elif field.name in asked and not field.fields:
            found[field.name] = asked[field.name]
    return found


def _named(element: Any) -> Mapping[str, Any]:
    return element if isinstance(element, dict) else dict.fromkeys(_NAMES, element)
