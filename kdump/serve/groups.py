"""The coordinator of groups: who reads what, and how far. It keeps all of it in memory, and writes nothing.

It follows the classic protocol of Kafka's GroupCoordinatorService (GroupMetadataManager.classicGroupJoin and its
neighbours). The offsets that groups had committed come from ``__consumer_offsets``, where that is among the logs.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from threading import Condition, Lock
from typing import Any, Final, NamedTuple

from kdump.serve.wire import Error, Request

_MOST_GROUPS: Final = 1000
_MOST_MEMBERS: Final = 1000
_MOST_PROTOCOLS: Final = 100
"""Of a member."""
_MOST_BYTES: Final = 16 << 20
"""Of what members tell one another, in all groups."""
_MOST_OFFSETS: Final = 200_000
_LONGEST_METADATA: Final = 4096
_SESSION_TIMEOUTS: Final = range(6_000, 1_800_001)
_LONGEST_REBALANCE: Final = 300.0
_FIRST_DELAY: Final = 0.2
"""Seconds for which the first member of a group waits for others."""
_PATIENCE: Final = 0.5
_NULL_PROTOCOL: Final = 7
"""The first version of JoinGroup that may give no protocol."""
_SEVERAL_LEAVE: Final = 3
"""The first version of LeaveGroup with several members."""
_MEMBER_ID_REQUIRED: Final = 4
"""The first version of JoinGroup whose members join again with the id they are given (KIP-394)."""


class GroupState(StrEnum):
    """The states of a group, as they are listed."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class Committed(NamedTuple):
    """A committed offset. ``leader_epoch``: -1 where it is not known."""

    offset: int
    leader_epoch: int = -1
    metadata: str | None = ""


class KnownGroup(NamedTuple):
    """A group in the logs: its offsets by topic and partition."""

    state: str
    protocol_type: str
    offsets: Mapping[tuple[str, int], Committed]


@dataclass
class GroupMember:
    """A member of a group. ``deadline``: when it counts as gone; ``has_joined``: it takes part in the rebalance."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    session_timeout: float
    rebalance_timeout: float
    protocols: list[tuple[str, bytes]]
    deadline: float = 0.0
    has_joined: bool = False
    assignment: bytes = b""

    @classmethod
    def of(cls, request: Request, protocols: list[tuple[str, bytes]]) -> GroupMember:
        """Of a JoinGroup."""
        values = request.values
        session, rebalance = values["sessionTimeoutMs"] / 1000, values["rebalanceTimeoutMs"] / 1000
        return cls(
            values["memberId"],
            values["groupInstanceId"],
            request.client_id,
            request.host,
            session,
            min(rebalance if rebalance > 0 else session, _LONGEST_REBALANCE),
            protocols,
            time.monotonic() + session,
        )

    @property
    def size(self) -> int:
        """Bytes that it takes."""
        return len(self.assignment) + sum(len(data) for _, data in self.protocols)

    def metadata(self, protocol: str | None) -> bytes:
        """What it tells the leader for a protocol."""
        return next((data for name, data in self.protocols if name == protocol), b"")


@dataclass
class ClientGroup:
    """A group. ``due``: when a rebalance ends without those who have not joined."""

    name: str
    state: GroupState = GroupState.EMPTY
    generation: int = 0
    protocol_type: str = ""
    protocol: str | None = None
    leader: str = ""
    members: dict[str, GroupMember] = field(default_factory=dict)
    not_before: float = 0.0
    due: float = 0.0

    def common_protocols(self) -> list[str]:
        """What all members can do, in the order of the first one."""
        members = list(self.members.values())
        known = [{name for name, _ in member.protocols} for member in members]
        return [name for name, _ in members[0].protocols if all(name in names for names in known)] if members else []


class GroupCoordinator:
    """All groups. Its methods may be called by several threads.

    Args:
        load: gives the groups in the logs; called once, when one is asked for.
    """

    def __init__(self, load: Callable[[], Mapping[str, KnownGroup]]) -> None:
        self._load = load
        self._known: Mapping[str, KnownGroup] | None = None
        self._loading = Lock()
        self._changed = Condition()
        self._groups: dict[str, ClientGroup] = {}
        self._pending: dict[str, float] = {}
        self._offsets: dict[str, dict[tuple[str, int], Committed]] = {}
        self._offset_count = 0

    def known(self) -> Mapping[str, KnownGroup]:
        """The groups in the logs."""
        with self._loading:
            if self._known is None:
                self._known = self._load()
            return self._known

    def join(self, request: Request) -> dict[str, Any]:
        """JoinGroup: wait until all members have joined."""
        values = request.values
        with self._changed:
            refused, group, member = self._enter(request)
            if group is None or member is None:
                protocol = None if request.version >= _NULL_PROTOCOL else ""
                own = member.member_id if member is not None else values["memberId"]
                return {"errorCode": refused, "memberId": own, "protocolName": protocol}
            generation = group.generation
            # It may wait for minutes.
            values.clear()
            self._prepare(group)
            member.has_joined = True
            self._changed.notify_all()
            while not self._has_completed(group) and group.generation == generation and self._is_in(group, member):
                self._changed.wait(_PATIENCE)
            if not self._is_in(group, member):
                return {"errorCode": Error.UNKNOWN_MEMBER_ID, "memberId": member.member_id, "protocolName": ""}
            member.deadline = time.monotonic() + member.session_timeout
            is_leader = group.leader == member.member_id
            return {
                "generationId": group.generation,
                "protocolType": group.protocol_type,
                "protocolName": group.protocol,
                "leader": group.leader,
                "memberId": member.member_id,
                "members": [
                    {
                        "memberId": one.member_id,
                        "groupInstanceId": one.instance_id,
                        "metadata": one.metadata(group.protocol),
                    }
                    for one in (group.members.values() if is_leader else ())
                ],
            }

    def sync(self, request: Request) -> dict[str, Any]:
        """SyncGroup: the leader tells who reads what, the others wait for it."""
        values = request.values
        with self._changed:
            error, group, member = self._member(values)
            if group is None or member is None:
                return {"errorCode": error}
            if group.state is GroupState.COMPLETING and group.leader == member.member_id:
                self._assign(group, values["assignments"])
            values.clear()
            until = time.monotonic() + _LONGEST_REBALANCE
            generation = group.generation
            while group.state is GroupState.COMPLETING and group.generation == generation and time.monotonic() < until:
                self._expire(group)
                self._changed.wait(_PATIENCE)
            if group.generation != generation or group.state is not GroupState.STABLE:
                return {"errorCode": Error.REBALANCE_IN_PROGRESS}
            return {
                "protocolType": group.protocol_type,
                "protocolName": group.protocol,
                "assignment": member.assignment,
            }

    def heartbeat(self, request: Request) -> Error:
        """Heartbeat: a member is there."""
        with self._changed:
            error, group, _ = self._member(request.values)
            is_changing = group is not None and group.state is GroupState.PREPARING
            return Error.REBALANCE_IN_PROGRESS if is_changing else error

    def leave(self, request: Request) -> dict[str, Any]:
        """LeaveGroup."""
        values = request.values
        leaving = values["members"] or [{"memberId": values["memberId"], "groupInstanceId": None}]
        found = []
        with self._changed:
            group = self._groups.get(values["groupId"])
            for one in leaving:
                error = Error.UNKNOWN_MEMBER_ID
                member = None if group is None else self._of_instance(group, one) or group.members.get(one["memberId"])
                if group is not None and member is not None:
                    self._remove(group, member)
                    error = Error.NONE
                found.append({**one, "errorCode": error})
        is_single = request.version < _SEVERAL_LEAVE
        return {"errorCode": found[0]["errorCode"] if is_single else Error.NONE, "members": found}

    def commit(self, request: Request, names: Sequence[str | None]) -> dict[str, Any]:
        """OffsetCommit. ``names``: the topics that the parts of the request are about, None for one that is unknown."""
        values = request.values
        with self._changed:
            error = self._may_commit(values)
            topics = []
            for topic, name in zip(values["topics"], names, strict=True):
                partitions = []
                for one in topic["partitions"]:
                    found = error
                    if found is Error.NONE:
                        found = Error.UNKNOWN_TOPIC_ID if name is None else self._store(values["groupId"], name, one)
                    partitions.append({"partitionIndex": one["partitionIndex"], "errorCode": found})
                topics.append({"name": topic["name"], "topicId": topic["topicId"], "partitions": partitions})
        return {"topics": topics}

    def offsets(self, name: str) -> dict[tuple[str, int], Committed]:
        """The offsets of a group: those in the logs, and over them what was committed since."""
        known = self.known().get(name)
        with self._changed:
            return {**({} if known is None else known.offsets), **self._offsets.get(name, {})}

    def listed(self) -> Iterator[tuple[str, str, str]]:
        """(name, protocol type, state) of all groups."""
        known = self.known()
        with self._changed:
            own = dict(self._groups)
        for name in sorted({*known, *own}):
            if name in own:
                yield name, own[name].protocol_type, own[name].state
            else:
                yield name, known[name].protocol_type, known[name].state

    def described(self, name: str) -> dict[str, Any] | None:
        """A group as DescribeGroups shows it; None: there is none."""
        known = self.known().get(name)
        with self._changed:
            group = self._groups.get(name)
            if group is None and known is None and name not in self._offsets:
                return None
            if group is None:
                state = GroupState.EMPTY if known is None else known.state
                kind = "consumer" if known is None else known.protocol_type
                return {"groupId": name, "groupState": state, "protocolType": kind, "members": []}
            self._expire(group)
            is_stable = group.state is GroupState.STABLE
            members = [
                {
                    "memberId": one.member_id,
                    "groupInstanceId": one.instance_id,
                    "clientId": one.client_id,
                    "clientHost": f"/{one.host}",
                    "memberMetadata": one.metadata(group.protocol) if is_stable else b"",
                    "memberAssignment": one.assignment if is_stable else b"",
                }
                for one in group.members.values()
            ]
            return {
                "groupId": name,
                "groupState": group.state,
                "protocolType": group.protocol_type,
                "protocolData": group.protocol or "" if is_stable else "",
                "members": members,
            }

    def _enter(self, request: Request) -> tuple[Error, ClientGroup | None, GroupMember | None]:
        """Take a member into its group; the error if it is not taken, with the member only where it has an id now."""
        values = request.values
        name, member_id, instance = values["groupId"], values["memberId"], values["groupInstanceId"]
        protocols = [(one["name"], one["metadata"]) for one in values["protocols"][:_MOST_PROTOCOLS]]
        if not name:
            return Error.INVALID_GROUP_ID, None, None
        if values["sessionTimeoutMs"] not in _SESSION_TIMEOUTS:
            return Error.INVALID_SESSION_TIMEOUT, None, None
        group = self._groups.get(name)
        if group is None and (member_id and member_id not in self._pending):
            return Error.UNKNOWN_MEMBER_ID, None, None
        if group is None:
            if len(self._groups) >= _MOST_GROUPS and not self._drop_empty():
                return Error.GROUP_MAX_SIZE_REACHED, None, None
            group = self._groups[name] = ClientGroup(name)
        self._expire(group)
        others = [one for one in group.members.values() if one.member_id != member_id and one.instance_id != instance]
        names = [{known for known, _ in one.protocols} for one in others]
        fits = [known for known, _ in protocols if all(known in several for several in names)]
        if not fits or not values["protocolType"] or (others and group.protocol_type != values["protocolType"]):
            return Error.INCONSISTENT_GROUP_PROTOCOL, None, None
        size = sum(len(data) for _, data in protocols)
        if self._member_count() >= _MOST_MEMBERS or self._size() + size > _MOST_BYTES:
            return Error.GROUP_MAX_SIZE_REACHED, None, None
        made = GroupMember.of(request, protocols)
        error = self._identify(group, made, request)
        if error is not Error.NONE:
            return error, None, made if error is Error.MEMBER_ID_REQUIRED else None
        if not group.members:
            group.not_before = time.monotonic() + _FIRST_DELAY
        group.protocol_type = values["protocolType"]
        group.members[made.member_id] = made
        return Error.NONE, group, made

    def _identify(self, group: ClientGroup, made: GroupMember, request: Request) -> Error:
        """Give a new member its id; check the id of one that has one."""
        values = request.values
        instance, known = made.instance_id, group.members.get(made.member_id)
        if not made.member_id:
            made.member_id = f"{instance or request.client_id}-{secrets.token_hex(16)}"
            replaced = self._of_instance(group, values)
            if replaced is not None:
                del group.members[replaced.member_id]
            elif instance is None and request.version >= _MEMBER_ID_REQUIRED:
                while len(self._pending) >= _MOST_MEMBERS:
                    del self._pending[next(iter(self._pending))]
                self._pending[made.member_id] = made.deadline
                return Error.MEMBER_ID_REQUIRED
        elif known is None and self._pending.pop(made.member_id, None) is None:
            return Error.UNKNOWN_MEMBER_ID
        elif known is not None and instance is not None and known.instance_id != instance:
            return Error.FENCED_INSTANCE_ID
        return Error.NONE

    def _member(self, values: Mapping[str, Any]) -> tuple[Error, ClientGroup | None, GroupMember | None]:
        """The member that a request is from, whose session goes on; the error where it is none."""
        group = self._groups.get(values["groupId"])
        if group is not None:
            self._expire(group)
        member = None if group is None else group.members.get(values["memberId"])
        if group is None or member is None:
            return Error.UNKNOWN_MEMBER_ID, None, None
        if values.get("groupInstanceId") is not None and member.instance_id != values["groupInstanceId"]:
            return Error.FENCED_INSTANCE_ID, None, None
        member.deadline = time.monotonic() + member.session_timeout
        generation = values.get("generationId", values.get("generationIdOrMemberEpoch"))
        if generation != group.generation:
            return Error.ILLEGAL_GENERATION, None, None
        return Error.NONE, group, member

    def _prepare(self, group: ClientGroup) -> None:
        """Begin a rebalance, if none has begun."""
        if group.state is not GroupState.PREPARING:
            group.state = GroupState.PREPARING
            for member in group.members.values():
                member.has_joined = False
            group.due = time.monotonic() + max(
                (member.rebalance_timeout for member in group.members.values()), default=_FIRST_DELAY
            )

    def _has_completed(self, group: ClientGroup) -> bool:
        """End the rebalance, if all have joined or the time is over."""
        now = time.monotonic()
        self._expire(group)
        if group.state is not GroupState.PREPARING:
            return group.state is not GroupState.EMPTY
        missing = [member for member in group.members.values() if not member.has_joined]
        if now < group.not_before or (missing and now < group.due):
            return False
        for member in missing:
            del group.members[member.member_id]
        common = group.common_protocols()
        if not common:
            return False
        group.generation += 1
        group.protocol = common[0]
        if group.leader not in group.members:
            group.leader = next(iter(group.members))
        for member in group.members.values():
            member.deadline = now + member.session_timeout
        group.state = GroupState.COMPLETING
        self._changed.notify_all()
        return True

    def _assign(self, group: ClientGroup, assignments: list[dict[str, Any]]) -> None:
        for one in assignments:
            member = group.members.get(one["memberId"])
            if member is not None and self._size() + len(one["assignment"]) <= _MOST_BYTES:
                member.assignment = one["assignment"]
        group.state = GroupState.STABLE
        self._changed.notify_all()

    def _remove(self, group: ClientGroup, member: GroupMember) -> None:
        del group.members[member.member_id]
        if not group.members:
            group.state, group.leader, group.protocol = GroupState.EMPTY, "", None
            group.generation += 1
        elif group.state in (GroupState.STABLE, GroupState.COMPLETING):
            self._prepare(group)
        self._changed.notify_all()

    def _expire(self, group: ClientGroup) -> None:
        """Remove members that did not say that they are there."""
        now = time.monotonic()
        for member in list(group.members.values()):
            is_waiting = group.state is GroupState.PREPARING and member.has_joined
            if not is_waiting and member.deadline < now:
                self._remove(group, member)

    def _is_in(self, group: ClientGroup, member: GroupMember) -> bool:
        return group.members.get(member.member_id) is member

    @staticmethod
    def _of_instance(group: ClientGroup, values: Mapping[str, Any]) -> GroupMember | None:
        instance = values["groupInstanceId"]
        if instance is None:
            return None
        return next((one for one in group.members.values() if one.instance_id == instance), None)

    def _drop_empty(self) -> bool:
        """Forget a group without members."""
        for name, group in self._groups.items():
            self._expire(group)
            if not group.members:
                del self._groups[name]
                return True
        return False

    def _member_count(self) -> int:
        return sum(len(group.members) for group in self._groups.values())

    def _size(self) -> int:
        return sum(member.size for group in self._groups.values() for member in group.members.values())

    def _may_commit(self, values: Mapping[str, Any]) -> Error:
        """A member commits, or somebody outside of a group without members."""
        group = self._groups.get(values["groupId"])
        if values["generationIdOrMemberEpoch"] < 0 and (group is None or not group.members):
            return Error.NONE
        return self._member(values)[0]

    def _store(self, group: str, topic: str, one: Mapping[str, Any]) -> Error:
        own = self._offsets.setdefault(group, {})
        place = topic, one["partitionIndex"]
        metadata = one["committedMetadata"] or ""
        if len(metadata) > _LONGEST_METADATA:
            return Error.OFFSET_METADATA_TOO_LARGE
        if place not in own:
            if self._offset_count >= _MOST_OFFSETS:
                return Error.COORDINATOR_NOT_AVAILABLE
            self._offset_count += 1
        own[place] = Committed(one["committedOffset"], one["committedLeaderEpoch"], metadata)
        return Error.NONE
