"""The quorum of controllers, as control records tell it.

Source: docs/spec/metadata.md#rule-3-what-is-committed.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

from kdump.codes import DamageError, KdumpError
from kdump.format import control
from kdump.format.checkpoint import LEADER_EPOCH_CHECKPOINT, QUORUM_STATE, parse_quorum_state
from kdump.kafka.image.metadatalog import MetadataLog, UnreadableBatchError
from kdump.log.opening import read_whole
from kdump.log.siblings import read_leader_epochs


@dataclass(slots=True)
class Quorum:
    """``leader``: of the last election, None where it is not known. ``voters``: their ids, sorted."""

    leader: int | None = None
    kraft_version: int = 0
    voters: list[dict[str, Any]] = field(default_factory=list)

    def see(self, kind: int, values: dict[str, Any]) -> None:
        """The next control record."""
        if kind == control.LEADER_CHANGE:
            self.leader = values["leaderId"]
            if not self.kraft_version:
                self.voters = _voters(values["voters"])
        elif kind == control.KRAFT_VERSION:
            self.kraft_version = values["kRaftVersion"]
        elif kind == control.KRAFT_VOTERS:
            self.voters = _voters(values["voters"])


def leader_of(log: MetadataLog, epoch: int) -> int | None:
    """Who leads in an epoch, by the record with which it begins, else by quorum-state. None where neither tells it."""
    elected = _elected(log, epoch)
    if elected is not None:
        return elected
    try:
        leader_id, leader_epoch = parse_quorum_state(read_whole(os.path.join(log.directory, QUORUM_STATE)))
    except KdumpError:
        return None
    return leader_id if leader_epoch == epoch and leader_id >= 0 else None


def _elected(log: MetadataLog, epoch: int) -> int | None:
    entries = read_leader_epochs(os.path.join(log.directory, LEADER_EPOCH_CHECKPOINT))
    start = next((entry.start_offset for entry in entries if entry.epoch == epoch), None)
    if start is None or start < log.start_offset:
        return None
    try:
        batch = next((batch for batch in log.batches(start) if batch.last_offset >= start), None)
        if batch is None or not batch.is_control or batch.epoch != epoch:
            return None
        for key, value in batch.records:
            schema = control.schema_of(control.parse_type(key))
            if schema is not None and schema.name == "LeaderChangeMessage":
                leader: Any = control.parse_kraft(schema, value)["leaderId"]
                return int(leader)
    except (UnreadableBatchError, DamageError):
        pass
    return None


def _voters(voters: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(voters, key=lambda voter: voter["voterId"])
