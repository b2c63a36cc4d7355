"""Ways through kdump that must all give the same output."""

from __future__ import annotations

import pytest

from tests.harness.inprocess import Door


@pytest.fixture(params=list(Door), ids=lambda door: door.value)
def door(request: pytest.FixtureRequest) -> Door:
    """How files are named to kdump."""
    value: Door = request.param
    return value
