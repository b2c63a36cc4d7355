"""Groups and their members out of the records of ``__consumer_offsets``.

Source: docs/spec/decoders.md#3-coordinator-decoders for the records; Kafka's ClassicGroup, ConsumerGroup, ShareGroup
and StreamsGroup for the states.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from kdump.codes import Codes
from kdump.format.message import MessageError, read_message, schemas
from kdump.wire.cursor import Cursor

_CLASSIC: Final = 2


class _Kind(NamedTuple):
    """A type of group by the numbers of its records; ``stable``: the state of a member that has what it should have."""

    name: str
    group: int
    member: int
    target: int
    target_member: int
    current: int
    stable: int = 0


_KINDS: Final = (
    _Kind("consumer", 3, 5, 6, 7, 8),
    _Kind("share", 11, 10, 12, 13, 14),
    _Kind("streams", 17, 19, 20, 21, 22, stable=1),
)
_TOPOLOGY: Final = 23
"""Of a streams group."""
GROUP_RECORD_TYPES: Final = frozenset({_CLASSIC, _TOPOLOGY, *(number for kind in _KINDS for number in kind[1:6])})
"""Of groups, their members and assignments."""
_BY_TYPE: Final = {number: kind for kind in _KINDS for number in kind[1:6]} | {_TOPOLOGY: _KINDS[-1]}


class GroupRecord(NamedTuple):
    """The newest value of a key: its type, its key and value by members."""

    record_type: int
    key: dict[str, Any]
    value: dict[str, Any]


@dataclass(slots=True)
class _Group:
    kind: str
    stable: int = 0
    epoch: int = 0
    target_epoch: int = 0
    topology_epoch: int | None = None
    """Of a streams group; ``validated_epoch`` must be the same."""
    validated_epoch: int | None = None
    protocol: str | None = None
    leader: str | None = None
    members: dict[str, dict[str, Any]] = field(default_factory=dict)
    current: dict[str, tuple[int, int]] = field(default_factory=dict)

    def state(self) -> str:
        """As the coordinator computes it."""
        if not self.members:
            return "Empty"
        if self.kind in ("classic", "share"):
            return "Stable"
        if self.topology_epoch != self.validated_epoch:
            return "NotReady"
        if self.epoch > self.target_epoch:
            return "Assigning"
        wanted = (self.target_epoch, self.stable)
        is_stable = all(self.current.get(member) == wanted for member in self.members)
        return "Stable" if is_stable else "Reconciling"


def _group_name(key: dict[str, Any]) -> str:
    """The group that a key of one of GROUP_RECORD_TYPES names."""
    name: str = key["group"] if "group" in key else key["groupId"]
    return name


def group_rows(records: Iterable[GroupRecord]) -> Iterator[dict[str, Any]]:
    """A row of each group, sorted by name."""
    groups: dict[str, _Group] = {}
    for record in sorted(records, key=lambda record: record.record_type):
        if record.record_type == _CLASSIC:
            groups[_group_name(record.key)] = _classic(record.value)
        else:
            kind = _BY_TYPE[record.record_type]
            group = groups.setdefault(_group_name(record.key), _Group(kind.name, kind.stable))
            _add(group, kind, record)
    for name, group in sorted(groups.items()):
        yield {
            "group": name,
            "groupType": group.kind,
            "state": group.state(),
            "epoch": group.epoch,
            "protocol": group.protocol,
            "leader": group.leader,
            "members": [member for _, member in sorted(group.members.items())],
        }


def _classic(value: dict[str, Any]) -> _Group:
    group = _Group("classic", epoch=value["generation"], protocol=value["protocol"], leader=value["leader"])
    for member in value["members"]:
        assignment = _classic_assignment(member["assignment"]) if value["protocolType"] == "consumer" else []
        group.members[member["memberId"]] = _member(member, assignment)
    return group


def _classic_assignment(data: bytes) -> list[str]:
    """``topic-partition`` of each assigned partition; none where the bytes do not decode."""
    schema = schemas()["ConsumerProtocolAssignment"]
    try:
        cursor = Cursor(data, 2, code=Codes.DECODER)
        version = min(int.from_bytes(data[:2], "big", signed=True), schema.versions.high)
        topics: Any = read_message(schema, version, cursor)["assignedPartitions"]
    except MessageError:
        return []
    return [f"{topic['topic']}-{number}" for topic in topics for number in topic["partitions"]]


def _member(value: dict[str, Any], assignment: list[str]) -> dict[str, Any]:
    return {
        "memberId": value.get("memberId"),
        "instanceId": value.get("groupInstanceId", value.get("instanceId")),
        "clientId": value["clientId"],
        "clientHost": value["clientHost"],
        "assignment": assignment,
    }


def _add(group: _Group, kind: _Kind, record: GroupRecord) -> None:
    group.kind = kind.name
    value, member = record.value, record.key.get("memberId")
    if record.record_type == kind.group:
        group.epoch = value["epoch"]
        group.validated_epoch = value.get("validatedTopologyEpoch")
    elif record.record_type == _TOPOLOGY:
        group.topology_epoch = value["epoch"]
    elif record.record_type == kind.target:
        group.target_epoch = value["assignmentEpoch"]
    elif record.record_type == kind.member and member is not None:
        known = group.members.get(member, {}).get("assignment", [])
        group.members[member] = _member(value | {"memberId": member}, known)
    elif record.record_type == kind.current and member is not None:
        group.current[member] = value["memberEpoch"], value["state"]
        if member in group.members:
            group.members[member]["assignment"] = [
                f"{topic['topicId']}-{number}"
                for topic in value.get("assignedPartitions", ())
                for number in topic["partitions"]
            ]
