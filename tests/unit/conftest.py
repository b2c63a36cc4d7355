"""Settings of the unit tests."""

from __future__ import annotations

from hypothesis import settings

# A loaded machine is no failure: no deadline for one example. The same examples each time, so that a run says what a
# change did; ``--hypothesis-profile=random`` makes new ones.
settings.register_profile("kdump", deadline=None, derandomize=True)
settings.register_profile("random", deadline=None)
settings.load_profile("kdump")
