"""Changes of registrations of brokers, and what they cost."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kdump.kafka.image.cluster import ClusterDelta, ClusterImage
from kdump.kafka.image.faults import ReplayError

DIRECTORIES = ["AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg"]


def registration(broker: int, epoch: int, endpoints: int = 1) -> dict[str, Any]:
    return {
        "brokerId": broker,
        "brokerEpoch": epoch,
        "endPoints": [{"name": f"L{number}", "port": number} for number in range(endpoints)],
        "features": [],
        "fenced": True,
        "inControlledShutdown": False,
        "logDirs": [],
        "cordonedLogDirs": None,
    }


def change(broker: int, epoch: int, **members: Any) -> dict[str, Any]:
    unchanged = {"fenced": 0, "inControlledShutdown": 0, "logDirs": [], "cordonedLogDirs": None}
    return {"brokerId": broker, "brokerEpoch": epoch} | unchanged | members


@pytest.mark.parametrize("seed", range(8))
def test_changes_are_as_those_of_a_dict(seed: int) -> None:
    """In transactions of any length: registered, changed and unregistered brokers, and wrong epochs."""
    chance = random.Random(seed)
    image, expected = ClusterImage(), dict[int, dict[str, Any]]()
    for _ in range(30):
        delta = ClusterDelta(image)
        for _ in range(chance.randrange(6)):
            broker, epoch = chance.randrange(4), chance.randrange(2)
            own = expected.get(broker)
            match chance.randrange(5):
                case 0:
                    delta.register_broker(registration(broker, epoch))
                    expected[broker] = registration(broker, epoch)
                case 1:
                    delta.unregister_broker({"brokerId": broker})
                    expected.pop(broker, None)
                case _ if own is None or own["brokerEpoch"] != epoch:
                    with pytest.raises(ReplayError):
                        delta.unfence({"id": broker, "epoch": epoch})
                case 2:
                    delta.unfence({"id": broker, "epoch": epoch})
                    expected[broker] = own | {"fenced": False}
                case 3:
                    delta.fence({"id": broker, "epoch": epoch})
                    expected[broker] = own | {"fenced": True}
                case 4:
                    new = {"logDirs": DIRECTORIES, "cordonedLogDirs": chance.choice([[], DIRECTORIES])}
                    delta.change(change(broker, epoch, inControlledShutdown=1, **new))
                    expected[broker] = own | new | {"inControlledShutdown": True}
            assert [delta.broker(number) for number in range(4)] == [expected.get(number) for number in range(4)]
        delta.apply()
        assert {broker: image.brokers[broker] for broker in image.brokers} == expected
