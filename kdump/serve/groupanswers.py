"""Answers about groups: their offsets, members and states, from memory and from the logs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from kdump.codes import OnError
from kdump.inputs import inputs_of
from kdump.kafka.coordinatorstate import OFFSETS
from kdump.payloads.topics import INTERNAL_TOPICS
from kdump.serve.groups import Committed, GroupCoordinator, GroupState, KnownGroup
from kdump.serve.view import View
from kdump.serve.wire import Error, Request

_SEVERAL_GROUPS: Final = 8
"""The first version of OffsetFetch with several groups."""
_NOT_FOUND: Final = 6
"""The first version of DescribeGroups with an error for a group that is not there (KIP-1043)."""
_CONSUMER: Final = "consumer"
_CLASSIC: Final = "classic"


class GroupAnswers:
    """Answers about the groups that read the topics of a view.

    Args:
        view: the topics.
        groups: the coordinator.
    """

    def __init__(self, view: View, groups: GroupCoordinator) -> None:
        self._view = view
        self._groups = groups

    def commit(self, request: Request) -> dict[str, Any]:
        """OffsetCommit."""
        return self._groups.commit(request, list(map(self._topic_of, request.values["topics"])))

    def offsets(self, request: Request) -> dict[str, Any]:
        """OffsetFetch."""
        values = request.values
        if request.version < _SEVERAL_GROUPS:
            return {"topics": list(self._offsets_of(values["groupId"], values["topics"]))}
        groups = [
            {"groupId": one["groupId"], "topics": list(self._offsets_of(one["groupId"], one["topics"]))}
            for one in values["groups"]
        ]
        return {"groups": groups}

    def described(self, request: Request) -> dict[str, Any]:
        """DescribeGroups."""
        groups = []
        for name in request.values["groups"]:
            found = self._groups.described(name)
            if found is None:
                found = {"groupId": name, "groupState": GroupState.DEAD}
                if request.version >= _NOT_FOUND:
                    found |= {"errorCode": Error.GROUP_ID_NOT_FOUND, "errorMessage": f"Group {name} not found."}
            groups.append(found)
        return {"groups": groups}

    def listed(self, request: Request) -> dict[str, Any]:
        """ListGroups."""
        states = {state.lower() for state in request.values["statesFilter"]}
        kinds = {kind.lower() for kind in request.values["typesFilter"]}
        groups = [
            {"groupId": name, "protocolType": protocol_type, "groupState": state, "groupType": _CLASSIC}
            for name, protocol_type, state in self._groups.listed()
            if (not states or state.lower() in states) and (not kinds or _CLASSIC in kinds)
        ]
        return {"groups": groups}

    def _topic_of(self, part: Mapping[str, Any]) -> str | None:
        """The topic that a part of a request is about, by name or by id."""
        topic = self._view.by_id.get(part["topicId"])
        name: str = part["name"]
        return name or (None if topic is None else topic.name)

    def _offsets_of(self, group: str, wanted: Iterable[Mapping[str, Any]] | None) -> Iterator[dict[str, Any]]:
        """By topic what a group committed; ``wanted`` None: all."""
        known = self._groups.offsets(group)
        if wanted is None:
            found: dict[str, list[int]] = {}
            for topic, number in sorted(known):
                # As on a broker, which forgets the offsets of a topic that is deleted: tools describe each topic here.
                if self._view.partition(topic, number) is not None:
                    found.setdefault(topic, []).append(number)
            wanted = [{"name": name, "topicId": "", "partitionIndexes": numbers} for name, numbers in found.items()]
        for part in wanted:
            topic_id = part.get("topicId")
            name = part["name"] if topic_id is None else self._topic_of(part)
            own = self._view.topics.get(name or "")
            if name is None:
                partitions = [
                    {"partitionIndex": number, "committedOffset": -1, "errorCode": Error.UNKNOWN_TOPIC_ID}
                    for number in part["partitionIndexes"]
                ]
            else:
                partitions = [
                    {"partitionIndex": number, **self._shown(name, number, known.get((name, number)))}
                    for number in part["partitionIndexes"]
                ]
            yield {
                "name": name or "",
                "topicId": topic_id or (_NO_ID if own is None else own.topic_id),
                "partitions": partitions,
            }

    def _shown(self, topic: str, number: int, committed: Committed | None) -> dict[str, Any]:
        if committed is None:
            return {"committedOffset": -1, "metadata": ""}
        partition = self._view.partition(topic, number)
        epoch = committed.leader_epoch
        # A client would wait for metadata of an epoch that is newer than all it is told.
        is_known = partition is not None and epoch <= partition.leader_epoch
        return {
            "committedOffset": committed.offset,
            "committedLeaderEpoch": epoch if is_known else -1,
            "metadata": committed.metadata,
        }


_NO_ID: Final = "A" * 22


def groups_in_logs(view: View, on_error: OnError) -> dict[str, KnownGroup]:
    """The groups in the partitions of ``__consumer_offsets`` that are served, at the time at which the view ends."""
    from kdump.verify.coordinators import coordinator_states
    from kdump.verify.partitionentries import PartitionEntries

    topic = view.topics.get(INTERNAL_TOPICS[OFFSETS])
    if topic is None:
        return {}
    directories = inputs_of([one.directory for one in topic.partitions.values()], on_error)
    logs = PartitionEntries(directories, on_error=on_error)
    at = None if view.until_time is None else view.until_time - 1
    offsets: dict[str, dict[tuple[str, int], Committed]] = {}
    states: dict[str, tuple[str, str]] = {}
    for state in coordinator_states(logs, at, on_error):
        for row in state.rows:
            values: dict[str, Any] = dict(row)
            place = values["topic"], values["partition"]
            committed = Committed(values["offset"], values["leaderEpoch"], values["metadata"])
            offsets.setdefault(values["group"], {})[place] = committed
        for row in state.groups:
            values = dict(row)
            if values["groupType"] == "share":
                # It commits no offsets here, and no consumer joins it.
                continue
            # Nobody is left of those who were members.
            states[values["group"]] = GroupState.EMPTY, values.get("protocolType") or _CONSUMER
    return {
        name: KnownGroup(*states.get(name, (GroupState.EMPTY, _CONSUMER)), offsets.get(name, {}))
        for name in {*offsets, *states}
    }
