"""The books of a controller: transactions end or are taken back, and cost what they change."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from kdump.kafka.image.books import ControllerBooks
from kdump.kafka.image.faults import ReplayError
from kdump.kafka.image.loader import ABORT, BEGIN, END

ACL = {
    "id": "a", "resourceType": 2, "resourceName": "t", "patternType": 3, "principal": "User:u", "host": "*",
    "operation": 3, "permissionType": 3,
}  # fmt: skip
TOPIC, REMOVED_TOPIC, BROKER, REMOVED_BROKER, IDS, GRANT, REVOKE, SCRAM, REMOVED_SCRAM = 2, 9, 0, 1, 15, 18, 19, 11, 22
CHANGES: list[tuple[int, dict[str, Any]]] = [
    (TOPIC, {"name": "t", "topicId": "1"}),
    (BROKER, {"brokerId": 1, "brokerEpoch": 5}),
    (GRANT, ACL),
    (SCRAM, {"mechanism": 1, "name": "u"}),
    (IDS, {"nextProducerId": 1000}),
]
UNDONE: list[tuple[int, dict[str, Any]]] = [
    (REMOVED_TOPIC, {"topicId": "1"}),
    (REMOVED_BROKER, {"brokerId": 1, "brokerEpoch": 5}),
    (REVOKE, {"id": "a"}),
    (REMOVED_SCRAM, {"mechanism": 1, "name": "u"}),
]


def replay(books: ControllerBooks, *records: tuple[int, dict[str, Any]]) -> None:
    for record_type, values in records:
        books.replay(record_type, values, 0, in_snapshot=False)


@pytest.mark.parametrize("record", UNDONE)
def test_what_an_aborted_transaction_made_is_not_there(record: tuple[int, dict[str, Any]]) -> None:
    books = ControllerBooks()
    replay(books, (BEGIN, {}), *CHANGES, (ABORT, {}))
    with pytest.raises(ReplayError):
        replay(books, record)
    replay(books, *CHANGES, record)


@pytest.mark.parametrize("record", UNDONE)
def test_what_an_aborted_transaction_removed_is_there(record: tuple[int, dict[str, Any]]) -> None:
    books = ControllerBooks()
    replay(books, *CHANGES, (BEGIN, {}), record, (ABORT, {}), record)


@pytest.mark.parametrize("record", UNDONE)
def test_what_a_transaction_made_stays(record: tuple[int, dict[str, Any]]) -> None:
    books = ControllerBooks()
    replay(books, (BEGIN, {}), *CHANGES, (END, {}), (BEGIN, {}), (ABORT, {}), record)


def test_the_next_producer_id_of_an_aborted_transaction_does_not_count() -> None:
    books = ControllerBooks()
    replay(books, (IDS, {"nextProducerId": 1000}), (BEGIN, {}), (IDS, {"nextProducerId": 3000}), (ABORT, {}))
    replay(books, (IDS, {"nextProducerId": 2000}))


def test_a_transaction_does_not_cost_what_the_controller_knows() -> None:
    books = ControllerBooks()
    replay(books, *((TOPIC, {"name": f"t{number}", "topicId": str(number)}) for number in range(1000)))
    calls = 0

    def count(frame: Any, event: str, arg: Any) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        replay(books, *[(BEGIN, {}), (END, {})] * 50, *[(BEGIN, {}), (ABORT, {})] * 50)
    finally:
        sys.setprofile(None)
    assert calls < 1000
