"""Partitions in the metadata image.

Source: docs/spec/metadata.md#3-from-records-to-the-image (PartitionRegistration).
"""

from __future__ import annotations

from collections.abc import Sequence
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
        replicas = values["replicas"]
        return cls(
            tuple(replicas),
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


def _new(changed: Sequence[_ItemT] | None, kept: tuple[_ItemT, ...]) -> tuple[_ItemT, ...]:
    """A list of a PartitionChangeRecord; null: it stays as it is."""
    return kept if changed is None else tuple(changed)


def _assigned(directories: tuple[str, ...], replicas: int) -> tuple[str, ...]:
    """Directories that are all MIGRATING, or none at all, are one MIGRATING for each replica."""
    return (MIGRATING,) * replicas if directories.count(MIGRATING) == len(directories) else directories


class Partitions(dict[int, PartitionRegistration]):
    """Partitions of a topic by number. None is ever removed.

    ``with_elr``: those that a ClearElrRecord changes. There may be many such records: none goes through all partitions.
    """

    def __init__(self) -> None:
        super().__init__()
        self.with_elr: set[int] = set()

    def __setitem__(self, number: int, partition: PartitionRegistration) -> None:
        super().__setitem__(number, partition)
        (self.with_elr.add if partition.has_elr else self.with_elr.discard)(number)

    def apply(self, changes: Partitions) -> None:
        """Add partitions, or replace them."""
        self.update(changes)
        self.with_elr.difference_update(changes)
        self.with_elr.update(changes.with_elr)

    def clear_elr(self) -> None:
        """Of all of them."""
        for number in tuple(self.with_elr):
            self[number] = self[number].without_elr()
