"""Rows of changes that wait until their transaction is complete."""

from __future__ import annotations

from typing import Any

import pytest

from kdump.format.message import schemas
from kdump.kafka.image.image import MetadataDelta, MetadataImage, Provenance
from kdump.kafka.image.metadatalog import MetadataBatch
from kdump.kafka.image.replay import StatePoint
from kdump.payloads.internal import DecodedMessage
from kdump.state.changes import ChangeWatcher
from tests.harness.partitionrecords import partition_change

TOPIC = "A" * 21 + "w"
REPLICAS = list(range(100))


def message(name: str, **values: Any) -> DecodedMessage:
    return DecodedMessage(schemas()[name], 0, values)


def image_with_a_large_partition() -> MetadataImage:
    image = MetadataImage()
    delta = MetadataDelta(image)
    partition = partition_change(TOPIC, replicas=REPLICAS, isr=REPLICAS, leader=1, leaderRecoveryState=0)
    empty: dict[str, Any] = {name: [] for name in ("directories", "removingReplicas", "addingReplicas")}
    delta.replay(2, {"name": "t", "topicId": TOPIC})
    delta.replay(3, partition | empty | {"leaderEpoch": 0, "partitionEpoch": 0})
    delta.apply(Provenance())
    return image


def changes(*names: str) -> list[dict[str, Any]]:
    """Rows of the marks of a transaction with these names, and between them of a change of the ISR."""
    rows: list[dict[str, Any]] = []
    watch = ChangeWatcher(StatePoint(offset=-1), rows.append)
    before = MetadataDelta(image_with_a_large_partition())
    batch = MetadataBatch(0, 0, 1, 5, False, [], 0, "")
    for offset, name in enumerate(names):
        told = message(name, **(partition_change(TOPIC, isr=[1]) if name == "PartitionChangeRecord" else {}))
        watch.record(batch, offset, told, before)
    watch.finish()
    return rows


BEGIN, CHANGE = "BeginTransactionRecord", "PartitionChangeRecord"


@pytest.mark.parametrize("names", [(CHANGE,), (CHANGE, CHANGE), (BEGIN, CHANGE, "EndTransactionRecord")])
def test_a_long_list_is_shown_as_it_was(names: tuple[str, ...]) -> None:
    rows = changes(*names)
    assert len(rows) == names.count(CHANGE)
    for row in rows:
        assert (row["change"], row["topic"], row["before"], row["after"]) == ("isr", "t", REPLICAS, [1])
        assert type(row["before"]) is list


@pytest.mark.parametrize("names", [(BEGIN, CHANGE), (BEGIN, CHANGE, CHANGE, "AbortTransactionRecord")])
def test_changes_of_a_transaction_that_is_not_complete_do_not_count(names: tuple[str, ...]) -> None:
    assert changes(*names) == []


DIRECTORIES = [f"{number:021}A" for number in range(100)]


def image_with_many_directories() -> MetadataImage:
    image = MetadataImage()
    registered = {"brokerId": 1, "brokerEpoch": 5, "endPoints": [], "features": []}
    delta = MetadataDelta(image)
    delta.replay(0, registered | {"logDirs": DIRECTORIES, "cordonedLogDirs": DIRECTORIES})
    delta.apply(Provenance())
    return image


def directory_changes(image: MetadataImage, *names: str, is_refused: bool = False) -> list[dict[str, Any]]:
    """Rows of the marks of a transaction with these names, and between them of another directory of a broker."""
    rows: list[dict[str, Any]] = []
    watch = ChangeWatcher(StatePoint(offset=-1), rows.append)
    batch = MetadataBatch(0, 0, 1, 5, False, [], 0, "")
    new = {"fenced": 0, "inControlledShutdown": 0, "logDirs": DIRECTORIES[:1], "cordonedLogDirs": DIRECTORIES[:1]}
    before = MetadataDelta(image)
    for offset, name in enumerate(names):
        values = {"brokerId": 1, "brokerEpoch": 5} | new if name == BROKER_CHANGE else {}
        watch.record(batch, offset, message(name, **values), before)
        if is_refused:
            watch.refused()
    watch.finish()
    return rows


BROKER_CHANGE = "BrokerRegistrationChangeRecord"


@pytest.mark.parametrize("names", [(BROKER_CHANGE,), (BEGIN, BROKER_CHANGE, "EndTransactionRecord")])
def test_the_directories_of_a_broker_are_shown_as_they_were(names: tuple[str, ...]) -> None:
    rows = directory_changes(image_with_many_directories(), *names)
    assert [row["change"] for row in rows] == ["broker-directories", "broker-cordoned-directories"]
    for row in rows:
        assert (row["broker"], row["before"], row["after"]) == (1, DIRECTORIES, DIRECTORIES[:1])
        assert type(row["before"]) is list


@pytest.mark.parametrize(
    ("names", "is_refused"),
    [((BEGIN, BROKER_CHANGE, BROKER_CHANGE, "AbortTransactionRecord"), False), ((BROKER_CHANGE,) * 2, True)],
)
def test_changes_of_a_broker_that_are_refused_or_aborted_do_not_count(names: tuple[str, ...], is_refused: bool) -> None:
    assert directory_changes(image_with_many_directories(), *names, is_refused=is_refused) == []
