"""Changes of topics that wait until their batch is complete."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kdump.kafka.image.faults import ReplayError
from kdump.kafka.image.partitions import PartitionRegistration, Partitions
from kdump.kafka.image.topics import TopicImage, TopicsDelta, TopicsImage
from tests.harness.partitionrecords import partition_change

IDS = ["A" * 20 + "A" + last for last in "wxyz"]
ONE, TWO = IDS[:2]


def _partition(topic_id: str, number: int, elr: list[int] | None = None) -> dict[str, Any]:
    return {
        "topicId": topic_id, "partitionId": number, "replicas": [1], "directories": [], "isr": [1],
        "removingReplicas": [], "addingReplicas": [], "leader": 1, "leaderRecoveryState": 0, "leaderEpoch": 0,
        "partitionEpoch": 0, "eligibleLeaderReplicas": elr, "lastKnownElr": None,
    }  # fmt: skip


def _change(topic_id: str, number: int, elr: list[int] | None = None) -> dict[str, Any]:
    return partition_change(topic_id, number, eligibleLeaderReplicas=elr)


def _elr(topics: Iterable[TopicImage]) -> dict[str, dict[int, tuple[tuple[int, ...], int]]]:
    """By name of the topic and number: the ELR and the partition epoch."""
    return {
        topic.name: {number: (one.elr, one.partition_epoch) for number, one in topic.partitions.items()}
        for topic in topics
    }


def test_a_name_that_a_new_topic_had_before_stays_known() -> None:
    """As in TopicsDelta, which removes only the last name of a topic that was created twice."""
    delta = TopicsDelta(TopicsImage())
    for name in ("a", "b"):
        delta.topic({"name": name, "topicId": ONE})
    assert delta.name_of(ONE) == "b"
    assert delta.remove({"topicId": ONE}) == "b"
    with pytest.raises(ReplayError, match="there is no topic b"):
        delta.clear_elr({"topicName": "b"})
    with pytest.raises(ReplayError, match="no topic has this id"):
        delta.clear_elr({"topicName": "a"})


def test_names_of_new_topics_are_known_between_changes() -> None:
    image = TopicsImage()
    delta = TopicsDelta(image)
    delta.topic({"name": "a", "topicId": ONE})
    delta.clear_elr({"topicName": "a"})
    delta.topic({"name": "b", "topicId": TWO})
    delta.clear_elr({"topicName": "b"})
    delta.remove({"topicId": ONE})
    with pytest.raises(ReplayError, match="there is no topic a"):
        delta.clear_elr({"topicName": "a"})
    delta.check()
    delta.apply()
    assert [(topic.name, dict(topic.partitions)) for topic in image.by_id.values()] == [("b", {})]
    assert list(image.by_name) == ["b"]


def test_clearing_all_changes_no_topic_before_the_batch_is_complete() -> None:
    image = TopicsImage()
    delta = TopicsDelta(image)
    delta.topic({"name": "a", "topicId": ONE})
    delta.apply()
    delta = TopicsDelta(image)
    delta.clear_elr({"topicName": ""})
    delta.partition(_partition(ONE, 0))
    assert not image.by_id[ONE].partitions
    assert not image.by_name["a"].partitions
    delta.apply()
    assert [*image.by_id[ONE].partitions] == [*image.by_name["a"].partitions] == [0]


@pytest.mark.parametrize("name", ["", "a"])
def test_clearing_that_is_not_applied_changes_no_partition(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An aborted transaction with a ClearElrRecord takes 100 bytes. Each had changed all partitions that have ELR."""
    image = TopicsImage()
    _step(image, {"name": "a", "topicId": ONE}, *(_partition(ONE, number, [2]) for number in range(100)))
    cleared: list[PartitionRegistration] = []
    without_elr = PartitionRegistration.without_elr

    def counted(partition: PartitionRegistration) -> PartitionRegistration:
        cleared.append(partition)
        return without_elr(partition)

    monkeypatch.setattr(PartitionRegistration, "without_elr", counted)
    delta = TopicsDelta(image)
    delta.clear_elr({"topicName": name})
    assert not cleared
    one = delta.partition_of(ONE, 7)
    assert one is not None
    assert not one.elr
    delta.partition_change(_change(ONE, 7))
    delta.check()
    assert len(cleared) == 2
    delta.apply()
    assert len(cleared) == 102
    assert {number: one.partition_epoch for number, one in image.by_id[ONE].partitions.items()} == {
        number: 1 + (number == 7) for number in range(100)
    }


def test_a_topic_with_a_new_name_is_known_by_the_old_one_as_it_was() -> None:
    """As in TopicsImage, which puts the topic under its new name and leaves the old one."""
    image = TopicsImage()
    for name in ("a", "b"):
        delta = TopicsDelta(image)
        delta.topic({"name": name, "topicId": ONE})
        delta.check()
        delta.apply()
    assert [topic.name for topic in image.by_id.values()] == ["b"]
    assert {name: topic.name for name, topic in image.by_name.items()} == {"a": "a", "b": "b"}


def _step(image: TopicsImage, *records: dict[str, Any]) -> None:
    """One batch: its records, told apart by their members."""
    delta = TopicsDelta(image)
    for values in records:
        if "topicName" in values:
            delta.clear_elr(values)
        elif "name" in values:
            delta.topic(values)
        elif values["leader"] == -2:
            delta.partition_change(values)
        else:
            delta.partition(values)
    delta.check()
    delta.apply()


_TOPIC = st.sampled_from(range(len(IDS)))
_RECORDS = st.one_of(
    st.builds(lambda n: {"topicName": "abcd"[n]}, _TOPIC),
    st.just({"topicName": ""}),
    st.builds(
        lambda make, n, number, elr: make(IDS[n], number, elr),
        st.sampled_from([_partition, _change]),
        _TOPIC,
        st.integers(0, 5),
        st.sampled_from([None, [], [2]]),
    ),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(_RECORDS, max_size=6), max_size=8))
def test_clearing_changes_each_partition_that_has_elr_and_no_other(batches: list[list[dict[str, Any]]]) -> None:
    """Against what each record does to a plain map. Source: TopicsDelta.replay(ClearElrRecord), TopicDelta.replay."""
    image = TopicsImage()
    wanted: dict[str, dict[int, tuple[tuple[int, ...], int]]] = {name: {} for name in "abcd"}
    _step(image, *({"name": name, "topicId": topic_id} for name, topic_id in zip("abcd", IDS, strict=True)))
    for batch in batches:
        applied = []
        for values in batch:
            if "topicName" in values:
                for partitions in [wanted[values["topicName"]]] if values["topicName"] else wanted.values():
                    partitions |= {number: ((), epoch + 1) for number, (elr, epoch) in partitions.items() if elr}
            else:
                partitions, number = wanted["abcd"[IDS.index(values["topicId"])]], values["partitionId"]
                elr = values["eligibleLeaderReplicas"]
                if values["leader"] != -2:
                    partitions[number] = (tuple(elr or ()), 0)
                elif number in partitions:
                    before, epoch = partitions[number]
                    partitions[number] = (before if elr is None else tuple(elr), epoch + 1)
                else:
                    continue
            applied.append(values)
        if len(applied) == 1 and applied[0].get("leader") == -2:
            assert image.is_changed(applied[0])
        else:
            _step(image, *applied)
    assert _elr(image.by_id.values()) == _elr(image.by_name.values()) == wanted


def test_clearing_again_goes_through_what_has_changed_since(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time of many ClearElrRecords is in proportion to their bytes: of all topics, of one, in one batch or many."""
    image = TopicsImage()
    many = range(50)
    _step(image, {"name": "a", "topicId": ONE}, *(_partition(ONE, number, [2]) for number in many))
    _step(image, {"name": "b", "topicId": TWO}, _partition(TWO, 0, [2]))
    read = []
    is_read = Partitions.__getitem__

    def counted(partitions: Partitions, number: int) -> Any:
        read.append(number)
        return is_read(partitions, number)

    monkeypatch.setattr(Partitions, "__getitem__", counted)
    clear_all, clear_one = {"topicName": ""}, {"topicName": "a"}
    _step(image, clear_all)
    assert len(read) < 4 * len(many)
    read.clear()
    for batch in [[clear_all, clear_one] * 20] * 20:
        _step(image, *batch)
    assert len(read) == 0
    _step(image, *[_change(ONE, 3, [2]), clear_all, _change(ONE, 4, [2]), clear_one] * 20)
    assert len(read) < 8 * 20
    assert _elr(image.by_id.values())["a"][3] == ((), 41)


def test_a_topic_that_lost_its_name_in_the_batch_that_made_it_keeps_its_elr() -> None:
    """Kafka clears the topics of the image, and of the new ones those that it knows by name."""
    image = TopicsImage()
    records = [{"name": "a", "topicId": ONE}, _partition(ONE, 0, [2]), {"name": "a", "topicId": TWO}]
    _step(image, *records, {"topicName": ""})
    assert image.by_id[ONE].partitions[0].elr == (2,)
    _step(image, {"topicName": ""})
    assert image.by_id[ONE].partitions[0].elr == ()


def test_a_snapshot_with_a_record_that_clears_all_names_all() -> None:
    image = TopicsImage()
    _step(image, {"name": "a", "topicId": ONE})
    for clears in (True, False):
        delta = TopicsDelta(image)
        if clears:
            delta.clear_elr({"topicName": ""})
        delta.finish_snapshot()
        delta.apply()
        assert list(image.by_name) == (["a"] if clears else [])
