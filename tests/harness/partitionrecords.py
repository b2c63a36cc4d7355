"""Records of a partition in a metadata log, as values by name."""

from __future__ import annotations

from typing import Any, Final

PARTITION_LISTS: Final = (
    "replicas",
    "directories",
    "isr",
    "removingReplicas",
    "addingReplicas",
    "eligibleLeaderReplicas",
    "lastKnownElr",
)


def partition_change(topic_id: str, number: int = 0, **members: Any) -> dict[str, Any]:
    """A PartitionChangeRecord, which changes ``members``."""
    unchanged = {"topicId": topic_id, "partitionId": number, "leader": -2, "leaderRecoveryState": -1}
    return dict.fromkeys(PARTITION_LISTS) | unchanged | members
