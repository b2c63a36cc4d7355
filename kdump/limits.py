"""What kdump keeps in memory of one input at most. Real clusters come nowhere near; hostile files do.

Where a limit is reached, kdump says what it leaves out. ``kdump --most KIND=NUMBER`` raises a limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

FINDINGS: Final = "findings"
METADATA: Final = "metadata"
COMPARED: Final = "compared"
GROUPS: Final = "groups"
ELEMENTS: Final = "elements"
DEFAULTS: Final[Mapping[str, int]] = {
    FINDINGS: 100_000,
    METADATA: 5_000_000,
    COMPARED: 20_000_000,
    GROUPS: 100_000,
    ELEMENTS: 2_000_000,
}
"""By kind.

Findings about the bytes of one log. Records that add something to the image of a metadata log, and records of a batch
there. Records of that image that are compared with those of its snapshots. Groups of figures that are not those of
files or of contents. Sessions of a snapshot of another world, and the rules of its ACLs.
"""

_given: dict[str, int] = {}


def most(kind: str) -> int:
    """The limit of a kind."""
    return _given.get(kind, DEFAULTS[kind])


def given() -> dict[str, int]:
    """The limits that were set, for another process."""
    return dict(_given)


def set_limits(limits: Mapping[str, int]) -> None:
    """Set limits by kind for this process. Raises KeyError for a kind that is none."""
    if not limits.keys() <= DEFAULTS.keys():
        raise KeyError(*(limits.keys() - DEFAULTS.keys()))
    _given.update(limits)


def hint(kind: str) -> str:
    """What raises a limit, for a message."""
    return f"kdump --most {kind}=NUMBER raises the limit of {most(kind):,}"
