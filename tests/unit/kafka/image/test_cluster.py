"""Changes of registrations of brokers, and what they cost."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kdump.kafka.image.cluster import ClusterDelta, ClusterImage
from kdump.kafka.image.faults import ReplayError
from kdump.kafka.image.packedmap import Members, PackedMap

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


@pytest.mark.parametrize("seed", range(40))
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


@pytest.mark.parametrize("is_complete", [True, False])
def test_a_change_does_not_touch_the_endpoints(is_complete: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The registration, which may be of the same transaction, was unpacked and packed for each change of a flag."""
    image = ClusterImage()
    delta = ClusterDelta(image)
    delta.register_broker(registration(1, 5, endpoints=100))
    registered = delta.broker(1)
    assert registered is not None
    if is_complete:
        delta.apply()
    calls = 0

    def counted(*_: object) -> Any:
        nonlocal calls
        calls += 1

    with monkeypatch.context() as patch:
        patch.setattr(Members, "_unpack", counted)
        patch.setattr(Members, "_pack", counted)
        for _ in range(100):
            if is_complete:
                delta = ClusterDelta(image)
            delta.fence({"id": 1, "epoch": 5})
            delta.unfence({"id": 1, "epoch": 5})
            delta.change(change(1, 5, inControlledShutdown=1))
            if is_complete:
                delta.apply()
    assert calls == 0
    if not is_complete:
        delta.apply()
    assert image.brokers[1] == registered | {"fenced": False, "inControlledShutdown": True}


@pytest.mark.parametrize("is_complete", [True, False])
def test_who_asks_for_a_short_member_reads_no_long_one(is_complete: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A history asks for each change of a broker: the endpoints were unpacked each time."""
    directories = [DIRECTORIES[number % 2] for number in range(100)]
    registered = registration(1, 5, endpoints=100) | {"logDirs": directories}
    image = ClusterImage()
    delta = ClusterDelta(image)
    delta.register_broker(registered)
    if is_complete:
        delta.apply()
        delta = ClusterDelta(image)
    read: list[int] = []
    unpack = PackedMap._unpack

    def counted(packed: PackedMap[Any, Any], key: Any, data: bytes) -> Any:
        read.append(len(data))
        return unpack(packed, key, data)

    with monkeypatch.context() as patch:
        patch.setattr(PackedMap, "_unpack", counted)
        assert delta.broker(1, ("fenced", "cordonedLogDirs")) == {"fenced": True, "cordonedLogDirs": None}
        assert sum(read) < 100
        assert delta.broker(1, ("logDirs",)) == {"logDirs": sorted(directories)}
    whole = delta.broker(1)
    assert whole is not None
    assert len(whole["endPoints"]) == len(whole["logDirs"]) == 100
    delta.change(change(1, 5, logDirs=DIRECTORIES))
    assert delta.broker(1) == whole | {"logDirs": DIRECTORIES}
    delta.register_broker(registration(1, 6))
    assert delta.broker(1) == registration(1, 6)
