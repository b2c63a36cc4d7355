"""What tests of the image share."""

from __future__ import annotations

import pytest

from kdump.kafka.image import packedmap


@pytest.fixture(params=["dicts", "packed"])
def packing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The maps of an image as those of a small cluster, and as those of a huge one."""
    if request.param == "packed":
        monkeypatch.setattr(packedmap, "FEW", 0)
