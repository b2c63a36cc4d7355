"""How many examples a property test tries: its own number, in proportion to the profile (see ``tests/conftest.py``)."""

from __future__ import annotations

from hypothesis import settings

_USUAL = 100


def examples(count: int) -> settings:
    """``count`` examples in the usual profile, a tenth of it in one with a tenth of its examples."""
    return settings(max_examples=max(1, count * settings.default.max_examples // _USUAL))
