"""Records of brokers that brokers of today do not write; what the others change is compared with Kafka's images."""

from __future__ import annotations

import pytest

from kdump.kafka.image.cluster import ClusterDelta, ClusterImage
from kdump.kafka.image.faults import ReplayError


def test_fenced_and_unfenced() -> None:
    image = ClusterImage()
    delta = ClusterDelta(image)
    known = {"brokerId": 1, "brokerEpoch": 5, "endPoints": [], "features": [], "logDirs": [], "fenced": True}
    delta.register_broker(known)
    delta.unfence({"id": 1, "epoch": 5})
    assert delta.broker(1) == known | {"fenced": False}
    delta.apply()
    delta = ClusterDelta(image)
    delta.fence({"id": 1, "epoch": 5})
    assert image.brokers[1]["fenced"] is False, "until the batch is complete"
    delta.apply()
    assert image.brokers == {1: known}
    for change in (delta.fence, delta.unfence):
        for broker, epoch in ((1, 6), (2, 5)):
            with pytest.raises(ReplayError):
                change({"id": broker, "epoch": epoch})
