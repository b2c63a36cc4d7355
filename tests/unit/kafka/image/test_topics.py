"""Changes of topics that wait until their batch is complete."""

from __future__ import annotations

import pytest

from kdump.kafka.image.faults import ReplayError
from kdump.kafka.image.topics import TopicsDelta, TopicsImage

pytestmark = pytest.mark.usefixtures("packing")
ONE, TWO = "A" * 21 + "w", "A" * 21 + "x"


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
    partition = {
        "topicId": ONE, "partitionId": 0, "replicas": [1], "directories": [], "isr": [1], "removingReplicas": [],
        "addingReplicas": [], "leader": 1, "leaderRecoveryState": 0, "leaderEpoch": 0, "partitionEpoch": 0,
        "eligibleLeaderReplicas": None, "lastKnownElr": None,
    }  # fmt: skip
    delta.partition(partition)
    assert not image.by_id[ONE].partitions
    assert not image.by_name["a"].partitions
    delta.apply()
    assert [*image.by_id[ONE].partitions] == [*image.by_name["a"].partitions] == [0]


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
