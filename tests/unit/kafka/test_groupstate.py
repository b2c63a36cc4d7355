"""Groups out of the records of their coordinator."""

from __future__ import annotations

from typing import Any

import pytest

from kdump.kafka.groupstate import GroupRecord, group_rows

MEMBER = {"instanceId": None, "rackId": None, "clientId": "c", "clientHost": "/h"}


def record(record_type: int, value: dict[str, Any], member: str | None = None, group: str = "g") -> GroupRecord:
    key = {"groupId": group} | ({} if member is None else {"memberId": member})
    return GroupRecord(record_type, key, value)


def consumer(epoch: int, target: int, *members: tuple[int, int]) -> list[GroupRecord]:
    """A consumer group; of each member its epoch and its state."""
    found = [record(3, {"epoch": epoch}), record(6, {"assignmentEpoch": target, "assignmentTimestamp": 0})]
    for number, (member_epoch, state) in enumerate(members):
        name = f"m{number}"
        assigned = [{"topicId": "T", "partitions": [number]}]
        current = {"memberEpoch": member_epoch, "state": state, "assignedPartitions": assigned}
        found += [record(5, MEMBER, name), record(8, current, name)]
    return found


@pytest.mark.parametrize(
    ("records", "state"),
    [
        (consumer(1, 1), "Empty"),
        (consumer(3, 2, (2, 0)), "Assigning"),
        (consumer(3, 3, (3, 0), (2, 0)), "Reconciling"),
        (consumer(3, 3, (3, 0), (3, 1)), "Reconciling"),
        (consumer(3, 3, (3, 0), (3, 0)), "Stable"),
    ],
)
def test_states_of_consumer_groups(records: list[GroupRecord], state: str) -> None:
    (row,) = group_rows(records)
    assert (row["group"], row["groupType"], row["state"], row["epoch"]) == (
        "g",
        "consumer",
        state,
        records[0].value["epoch"],
    )
    assert [member["assignment"] for member in row["members"]] == [[f"T-{n}"] for n in range(len(row["members"]))]


def test_a_streams_group_without_its_topology() -> None:
    records = [record(17, {"epoch": 1, "validatedTopologyEpoch": 1}), record(19, MEMBER, "m")]
    assert next(group_rows(records))["state"] == "NotReady"
    records.append(record(23, {"epoch": 1, "subtopologies": []}))
    assert next(group_rows(records))["state"] == "Assigning"
    current = {"memberEpoch": 1, "state": 1}
    records += [record(20, {"assignmentEpoch": 1}), record(22, current, "m")]
    assert next(group_rows(records))["state"] == "Stable"


def test_share_groups_are_stable_with_members() -> None:
    assert next(group_rows([record(11, {"epoch": 1})]))["state"] == "Empty"
    assert next(group_rows([record(11, {"epoch": 1}), record(10, MEMBER, "m")]))["state"] == "Stable"


def test_classic_assignment_that_does_not_decode() -> None:
    member = {"memberId": "m", "groupInstanceId": None, "clientId": "c", "clientHost": "/h", "assignment": b"\0\1\0"}
    value = {"protocolType": "consumer", "generation": 4, "protocol": "range", "leader": "m", "members": [member]}
    (row,) = group_rows([GroupRecord(2, {"group": "g"}, value)])
    assert (row["groupType"], row["state"], row["epoch"]) == ("classic", "Stable", 4)
    assert row["members"][0]["assignment"] == []
