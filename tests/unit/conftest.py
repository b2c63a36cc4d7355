"""Settings of the unit tests."""

from __future__ import annotations

from hypothesis import settings

# A loaded machine is no failure: no deadline for one example.
settings.register_profile("kdump", deadline=None)
settings.load_profile("kdump")
