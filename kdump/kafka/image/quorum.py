"""The quorum of controllers, as control records tell it.

Source: docs/spec/metadata.md#rule-3-what-is-committed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kdump.format import control


@dataclass(slots=True)
class Quorum:
    """``leader`` and ``epoch``: of the last election in the log, None without one. ``voters``: their ids, sorted."""

    leader: int | None = None
    epoch: int | None = None
    kraft_version: int = 0
    voters: list[dict[str, Any]] = field(default_factory=list)

    def see(self, kind: int, values: dict[str, Any], epoch: int) -> None:
        """The next control record; ``epoch``: of its batch."""
        if kind == control.LEADER_CHANGE:
            self.leader, self.epoch = values["leaderId"], epoch
            if not self.kraft_version:
                self.voters = _voters(values["voters"])
        elif kind == control.KRAFT_VERSION:
            self.kraft_version = values["kRaftVersion"]
        elif kind == control.KRAFT_VOTERS:
            self.voters = _voters(values["voters"])


def _voters(voters: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(voters, key=lambda voter: voter["voterId"])
