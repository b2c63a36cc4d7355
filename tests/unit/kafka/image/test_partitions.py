"""Partitions in the metadata image, those with long lists too."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from kdump.kafka.image import partitions
from kdump.kafka.image.faults import ReplayError
from kdump.kafka.image.image import MetadataDelta, MetadataImage, Provenance
from kdump.kafka.image.partitions import MIGRATING, LongList, PartitionRegistration, Partitions
from kdump.kafka.image.topics import TopicImage
from kdump.stats.state import changes
from tests.harness.partitionrecords import PARTITION_LISTS, partition_change

TOPIC_ID = "A" * 21 + "w"
OTHER = "B" * 22


def record(**members: Any) -> dict[str, Any]:
    """A PartitionRecord."""
    head = {"topicId": TOPIC_ID, "partitionId": 0, "leader": 1, "leaderRecoveryState": 0}
    return dict.fromkeys(PARTITION_LISTS, ()) | head | {"leaderEpoch": 0, "partitionEpoch": 0} | members


def change(**members: Any) -> dict[str, Any]:
    """A PartitionChangeRecord."""
    return partition_change(TOPIC_ID, **members)


DIRECTORIES = [[], [MIGRATING], [MIGRATING] * 3, [MIGRATING, OTHER], [OTHER, MIGRATING], [OTHER, OTHER, OTHER]]
CHANGES = [
    change(replicas=replicas, directories=directories, leaderRecoveryState=recovery)
    for replicas, directories, recovery in itertools.product([None, [1], [1, 2]], [None, *DIRECTORIES], [-1, 1, 2])
]


@pytest.mark.parametrize("directories", DIRECTORIES)
def test_long_lists_are_as_short_ones(monkeypatch: pytest.MonkeyPatch, directories: list[str]) -> None:
    """Also those that Kafka refuses."""
    told = []
    for long in (64, 0):
        monkeypatch.setattr(partitions, "_LONG", long)
        for first in CHANGES:
            try:
                one = PartitionRegistration.of_record(record(replicas=[1, 2], isr=[2], directories=directories))
                held = Partitions()
                held[0] = one
                partition = held[0].merged(first).merged(change(leader=2))
            except ReplayError as error:
                told.append(str(error))
            else:
                told.append(repr(partition.values(TOPIC_ID, 0)))
    assert told[: len(CHANGES)] == told[len(CHANGES) :]


def test_a_long_list_is_a_sequence_as_a_tuple_is() -> None:
    items = (5, -3, 5, 2**31 - 1)
    held = LongList(items)
    assert (tuple(held), len(held), held[1], held[1:], held.index(5, 1)) == (items, 4, -3, items[1:], 2)
    assert [number in held for number in (5, 4, -3, 2**31 - 1, 2**40, -4)] == [True, False, True, True, False, False]
    assert "5" not in held
    assert held == LongList(items)
    assert (items == held, held == items) == (True, True)
    assert held != LongList(items[1:])
    assert (held.only, LongList((7, 7)).only) == (None, 7)


@pytest.mark.parametrize("before", [0, 2000])
def test_a_change_of_the_leader_reads_no_long_list(monkeypatch: pytest.MonkeyPatch, before: int) -> None:
    """Nor does a refused change, or one of other lists, in a small cluster or in one of many topics."""
    image = MetadataImage()
    delta = MetadataDelta(image)
    for number in range(before):
        image.topics.put(TopicImage(f"t{number}", f"{number:021d}w"))
    delta.replay(2, {"name": "t", "topicId": TOPIC_ID})
    many = [*range(1000)]
    delta.replay(3, record(replicas=many, isr=many, directories=[MIGRATING] * 999 + [OTHER]))
    delta.apply(Provenance())
    delta.clear()

    def is_read(held: LongList[Any]) -> Any:
        pytest.fail("a long list is read")

    image.topics.by_id[TOPIC_ID].partitions[0].isr.__contains__(1)
    monkeypatch.setattr(LongList, "_items", is_read)
    for leader in range(50):
        assert image.topics.is_changed(change(leader=leader))
        delta.replay(5, change(leader=leader, leaderRecoveryState=1))
        shown = list(changes._partition_change(change(leader=leader + 1, isr=None), delta))
        assert [row["change"] for row in shown] == ["leader"]
        delta.replay(5, change(removingReplicas=[leader], eligibleLeaderReplicas=[]))
        assert not image.topics.is_changed(change(replicas=[1]))
        delta.apply(Provenance())
        delta.clear()
    assert image.topics.by_id[TOPIC_ID].partitions[0].leader_epoch == 100
