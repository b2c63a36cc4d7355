"""Exit statuses (docs/contract.md#12-exit-status)."""

from __future__ import annotations

from typing import Final

CLEAN: Final = 0
DAMAGE: Final = 1
USAGE: Final = 2
UNREADABLE: Final = 3
INTERRUPTED: Final = 130


def combined(*, damaged: bool, unreadable: bool) -> int:
    """Of several, 3 over 1 over 0."""
    return UNREADABLE if unreadable else DAMAGE if damaged else CLEAN
