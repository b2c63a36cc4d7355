"""Partitions in the metadata image, those with long lists too."""

from __future__ import annotations

import itertools
import re
from typing import Any

import pytest

from kdump.kafka.image.faults import ReplayError
from kdump.kafka.image.partitions import MIGRATING, PartitionRegistration
from tests.harness.partitionrecords import PARTITION_LISTS, partition_change

TOPIC_ID = "A" * 21 + "w"
OTHER = "B" * 22


def record(**members: Any) -> dict[str, Any]:
    """A PartitionRecord."""
    head = {"topicId": TOPIC_ID, "partitionId": 0, "leader": 1, "leaderRecoveryState": 0}
    return dict.fromkeys(PARTITION_LISTS, ()) | head | {"leaderEpoch": 0, "partitionEpoch": 0} | members


DIRECTORIES = [[], [MIGRATING], [MIGRATING] * 3, [MIGRATING, OTHER], [OTHER, MIGRATING], [OTHER, OTHER, OTHER]]


@pytest.mark.parametrize("directories", DIRECTORIES)
def test_a_change_replaces_lists_as_a_record_of_the_result_has_them(directories: list[str]) -> None:
    """Kafka's constructor refuses both, or makes the same partition of both."""
    for replicas, recovery in itertools.product([[1], [1, 2]], [0, 1, 2]):
        members = {"replicas": replicas, "directories": directories, "leaderRecoveryState": recovery}
        before = PartitionRegistration.of_record(record(replicas=[1, 2], isr=[2], directories=[]))
        try:
            whole = PartitionRegistration.of_record(record(**members, isr=[2]))
        except ReplayError as error:
            with pytest.raises(ReplayError, match=re.escape(str(error))):
                before.merged(partition_change(TOPIC_ID, **members))
        else:
            changed = before.merged(partition_change(TOPIC_ID, **members))
            assert changed._replace(partition_epoch=0) == whole
