"""Partitions in the metadata image.

Source: docs/spec/metadata.md#3-from-records-to-the-image (PartitionRegistration).
"""

from __future__ import annotations

import marshal
from array import array
from bisect import bisect_left
from collections.abc import Iterator, MutableMapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar, cast, overload

from kdump.kafka.image.faults import ReplayError

MIGRATING: Final = "A" * 22
"""The directory of a replica that has none yet (DirectoryId)."""
UNASSIGNED: Final = "A" * 21 + "Q"
LOST: Final = "A" * 21 + "g"
NO_LEADER: Final = -1
_NO_LEADER_CHANGE: Final = -2
_RECOVERY_UNCHANGED: Final = -1
RECOVERY_STATES: Final = ("RECOVERED", "RECOVERING")
FEW_PARTITIONS: Final = 4
"""Partitions of a topic that is held as bytes. With many, each change of one would be a change of all."""
_LONG: Final = 64
"""Items of a list that is held apart from the rest of its partition."""
_ItemT = TypeVar("_ItemT")


class LongList(Sequence[_ItemT]):
    """A list that never changes, held as bytes. Partitions that are alike but for their leaders share it.

    ``only``: the item that all of them are; None: they differ.
    """

    __slots__ = ("_data", "_length", "_sorted", "only")

    def __init__(self, items: Sequence[_ItemT]) -> None:
        self._data = marshal.dumps(cast(Any, tuple(items)))
        self._length = len(items)
        self._sorted: array[int] | None = None
        """The numbers in it, once somebody has asked for one: each new leader is looked for."""
        self.only = items[0] if items.count(items[0]) == len(items) else None

    def _items(self) -> tuple[_ItemT, ...]:
        items: tuple[_ItemT, ...] = marshal.loads(self._data)
        return items

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[_ItemT]:
        return iter(self._items())

    def __contains__(self, item: object) -> bool:
        if not isinstance(item, int):
            return item in self._items()
        if self._sorted is None:
            self._sorted = array("i", sorted(cast(tuple[int, ...], self._items())))
        place = bisect_left(self._sorted, item)
        return self._sorted[place : place + 1].tolist() == [item]

    @overload
    def __getitem__(self, place: int) -> _ItemT: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[_ItemT]: ...
    def __getitem__(self, place: int | slice) -> _ItemT | Sequence[_ItemT]:
        return self._items()[place]

    def index(self, item: _ItemT, start: int = 0, stop: int | None = None) -> int:
        """As of a tuple."""
        return self._items().index(item, start, len(self) if stop is None else stop)

    def __eq__(self, other: object) -> bool:
        if other is self or not isinstance(other, Sequence):
            return other is self
        return len(other) == len(self) and self._items() == tuple(other)

    __hash__ = None  # type: ignore[assignment]


class PartitionRegistration(NamedTuple):
    """A partition of the image. ``directories``: the id of the log directory of each replica."""

    replicas: Sequence[int]
    directories: Sequence[str]
    isr: Sequence[int]
    removing: Sequence[int]
    adding: Sequence[int]
    leader: int
    recovery: int
    leader_epoch: int
    partition_epoch: int
    elr: Sequence[int]
    last_known_elr: Sequence[int]

    def checked(self) -> PartitionRegistration:
        """Itself. Raises ReplayError where Kafka's constructor throws."""
        if len(self.directories) != len(self.replicas):
            raise ReplayError(f"it has {len(self.replicas)} replicas and {len(self.directories)} directories")
        if not 0 <= self.recovery < len(RECOVERY_STATES):
            raise ReplayError(f"{self.recovery} is no leader recovery state")
        return self

    @classmethod
    def of_record(cls, values: dict[str, Any]) -> PartitionRegistration:
        """The partition that a PartitionRecord makes."""
        replicas = values["replicas"]
        return cls(
            _list(replicas),
            _assigned(_list(values["directories"]), len(replicas)),
            _list(values["isr"]),
            _list(values["removingReplicas"]),
            _list(values["addingReplicas"]),
            values["leader"],
            values["leaderRecoveryState"],
            values["leaderEpoch"],
            values["partitionEpoch"],
            _list(values["eligibleLeaderReplicas"] or ()),
            _list(values["lastKnownElr"] or ()),
        ).checked()

    def merged(self, values: dict[str, Any]) -> PartitionRegistration:
        """The partition after a PartitionChangeRecord: what it leaves out stays, and is not read."""
        replicas, directories = _new(values["replicas"], self.replicas), _new(values["directories"], self.directories)
        leader, recovery = values["leader"], values["leaderRecoveryState"]
        is_elected = leader != _NO_LEADER_CHANGE
        partition = PartitionRegistration(
            replicas,
            directories,
            _new(values["isr"], self.isr),
            _new(values["removingReplicas"], self.removing),
            _new(values["addingReplicas"], self.adding),
            leader if is_elected else self.leader,
            self.recovery if recovery == _RECOVERY_UNCHANGED else recovery,
            self.leader_epoch + is_elected,
            self.partition_epoch + 1,
            _new(values["eligibleLeaderReplicas"], self.elr),
            _new(values["lastKnownElr"], self.last_known_elr),
        )
        if replicas is self.replicas and directories is self.directories:
            return partition if recovery == _RECOVERY_UNCHANGED else partition.checked()
        return partition._replace(directories=_assigned(directories, len(replicas))).checked()

    @property
    def has_elr(self) -> bool:
        """A ClearElrRecord changes it."""
        return bool(self.elr or self.last_known_elr)

    def without_elr(self) -> PartitionRegistration:
        """The partition after a ClearElrRecord, if it had eligible leader replicas."""
        return self._replace(elr=(), last_known_elr=(), partition_epoch=self.partition_epoch + 1)

    def values(self, topic_id: str, number: int) -> dict[str, Any]:
        """The members of a PartitionRecord that makes this partition."""
        return {
            "partitionId": number,
            "topicId": topic_id,
            "replicas": list(self.replicas),
            "isr": list(self.isr),
            "removingReplicas": list(self.removing),
            "addingReplicas": list(self.adding),
            "leader": self.leader,
            "leaderRecoveryState": self.recovery,
            "leaderEpoch": self.leader_epoch,
            "partitionEpoch": self.partition_epoch,
            "directories": list(self.directories),
            "eligibleLeaderReplicas": list(self.elr) or None,
            "lastKnownElr": list(self.last_known_elr) or None,
        }


def _list(items: Sequence[_ItemT]) -> Sequence[_ItemT]:
    """A list of a record as the image holds it."""
    return tuple(items) if len(items) <= _LONG else LongList(items)


def _new(changed: Sequence[_ItemT] | None, kept: Sequence[_ItemT]) -> Sequence[_ItemT]:
    """A list of a PartitionChangeRecord; null: it stays as it is."""
    return kept if changed is None else _list(changed)


def _assigned(directories: Sequence[str], replicas: int) -> Sequence[str]:
    """Directories that are all MIGRATING, or none at all, are one MIGRATING for each replica."""
    if isinstance(directories, LongList):
        is_migrating = directories.only == MIGRATING
    else:
        is_migrating = all(directory == MIGRATING for directory in directories)
    return _list((MIGRATING,) * replicas) if is_migrating else directories


_Held: TypeAlias = bytes | PartitionRegistration


def _held(partition: PartitionRegistration) -> _Held:
    plain: Any = tuple(partition)
    try:
        return marshal.dumps(plain)
    except ValueError:
        # It has a long list.
        return partition


class Partitions(MutableMapping[int, PartitionRegistration]):
    """Partitions of a topic by number. Each is held as bytes, which takes a third of the memory.

    One with a long list is not: each change of the partition would be as long.

    Args:
        held: what ``held`` of others was.
    """

    __slots__ = ("_with_elr", "held")

    def __init__(self, held: dict[int, _Held] | None = None) -> None:
        self.held: Final = {} if held is None else held
        self._with_elr: set[int] | None = None
        """See ``with_elr``. None: nobody has asked yet, or they are few."""

    def find(self, number: int) -> PartitionRegistration | None:
        """As ``get``, and quicker."""
        held = self.held.get(number)
        if isinstance(held, bytes):
            return PartitionRegistration(*marshal.loads(held))
        return held

    def __getitem__(self, number: int) -> PartitionRegistration:
        held = self.held[number]
        return PartitionRegistration(*marshal.loads(held)) if isinstance(held, bytes) else held

    def __setitem__(self, number: int, partition: PartitionRegistration) -> None:
        self.held[number] = _held(partition)
        if self._with_elr is not None:
            (self._with_elr.add if partition.has_elr else self._with_elr.discard)(number)

    def __delitem__(self, number: int) -> None:
        del self.held[number]
        if self._with_elr is not None:
            self._with_elr.discard(number)

    def __iter__(self) -> Iterator[int]:
        return iter(self.held)

    def __len__(self) -> int:
        return len(self.held)

    @property
    def are_short(self) -> bool:
        """All are held as bytes."""
        return all(isinstance(held, bytes) for held in self.held.values())

    def with_elr(self) -> set[int]:
        """Those that a ClearElrRecord changes. There may be many such records: none goes through all partitions."""
        if self._with_elr is not None:
            return self._with_elr
        found = {number for number, partition in self.items() if partition.has_elr}
        if len(self) > FEW_PARTITIONS:
            self._with_elr = found
        return found

    def apply(self, changes: Partitions) -> None:
        """Add partitions, or replace them."""
        self.held.update(changes.held)
        if self._with_elr is not None:
            self._with_elr.difference_update(changes.held)
            self._with_elr.update(changes.with_elr())

    def clear_elr(self) -> None:
        """Of all of them."""
        for number in tuple(self.with_elr()):
            self[number] = self[number].without_elr()
