"""Partitions in the metadata image.

Source: docs/spec/metadata.md#3-from-records-to-the-image (PartitionRegistration).
"""

from __future__ import annotations

import marshal
from collections.abc import Iterator, MutableMapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

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
_ItemT = TypeVar("_ItemT")


class PartitionRegistration(NamedTuple):
    """A partition of the image. ``directories``: the id of the log directory of each replica."""

    replicas: tuple[int, ...]
    directories: tuple[str, ...]
    isr: tuple[int, ...]
    removing: tuple[int, ...]
    adding: tuple[int, ...]
    leader: int
    recovery: int
    leader_epoch: int
    partition_epoch: int
    elr: tuple[int, ...]
    last_known_elr: tuple[int, ...]

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
        replicas = tuple(values["replicas"])
        return cls(
            replicas,
            _assigned(tuple(values["directories"]), len(replicas)),
            tuple(values["isr"]),
            tuple(values["removingReplicas"]),
            tuple(values["addingReplicas"]),
            values["leader"],
            values["leaderRecoveryState"],
            values["leaderEpoch"],
            values["partitionEpoch"],
            tuple(values["eligibleLeaderReplicas"] or ()),
            tuple(values["lastKnownElr"] or ()),
        ).checked()

    def merged(self, values: dict[str, Any]) -> PartitionRegistration:
        """The partition after a PartitionChangeRecord: what it leaves out stays."""
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
        if replicas is self.replicas and directories is self.directories and recovery == _RECOVERY_UNCHANGED:
            return partition
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


def _new(changed: Sequence[_ItemT] | None, kept: tuple[_ItemT, ...]) -> tuple[_ItemT, ...]:
    """A list of a PartitionChangeRecord; null: it stays as it is."""
    return kept if changed is None else tuple(changed)


def _assigned(directories: tuple[str, ...], replicas: int) -> tuple[str, ...]:
    """Directories that are all MIGRATING, or none at all, are one MIGRATING for each replica."""
    if all(directory == MIGRATING for directory in directories):
        return (MIGRATING,) * replicas
    return directories


class Partitions(MutableMapping[int, PartitionRegistration]):
    """Partitions of a topic by number. Each is held as bytes, which takes a third of the memory.

    Args:
        packed: the bytes.
    """

    __slots__ = ("_with_elr", "packed")

    def __init__(self, packed: dict[int, bytes] | None = None) -> None:
        self.packed: Final = {} if packed is None else packed
        self._with_elr: set[int] | None = None
        """See ``with_elr``. None: nobody has asked yet, or they are few."""

    def find(self, number: int) -> PartitionRegistration | None:
        """As ``get``, and quicker."""
        packed = self.packed.get(number)
        return None if packed is None else PartitionRegistration(*marshal.loads(packed))

    def __getitem__(self, number: int) -> PartitionRegistration:
        return PartitionRegistration(*marshal.loads(self.packed[number]))

    def __setitem__(self, number: int, partition: PartitionRegistration) -> None:
        self.packed[number] = marshal.dumps(tuple(partition))
        if self._with_elr is not None:
            (self._with_elr.add if partition.has_elr else self._with_elr.discard)(number)

    def __delitem__(self, number: int) -> None:
        del self.packed[number]
        if self._with_elr is not None:
            self._with_elr.discard(number)

    def __iter__(self) -> Iterator[int]:
        return iter(self.packed)

    def __len__(self) -> int:
        return len(self.packed)

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
        self.packed.update(changes.packed)
        if self._with_elr is not None:
            self._with_elr.difference_update(changes.packed)
            self._with_elr.update(changes.with_elr())

    def clear_elr(self) -> None:
        """Of all of them."""
        for number in tuple(self.with_elr()):
            self[number] = self[number].without_elr()
