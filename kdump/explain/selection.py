"""Which of many records are shown in full, which as a line, and which are counted only."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum, auto
from typing import Final, NamedTuple

FULL_RECORDS: Final = 2
"""Records shown in full where the position asked for is in none of them."""
LINE_RECORDS: Final = 20
"""Records shown in full or as a line there."""


class How(Enum):
    """How much of a record is shown."""

    FULL = auto()
    LINE = auto()
    COUNTED = auto()


class Shown(NamedTuple):
    """Records ``first`` to ``last`` (inclusive); more than one only when they are counted."""

    first: int
    last: int
    how: How


def select(count: int, target: int | None, *, is_stuck: bool) -> Iterator[Shown]:
    """What to show of ``count`` whole records, in their order and without a gap.

    Args:
        count: of the records.
        target: the one that is of interest: in full, with a line for each of its neighbours.
        is_stuck: a broken record follows the last one, which is then a line at least.
    """
    chosen = {count - 1: How.LINE}
    if target is not None:
        chosen |= {target - 1: How.LINE, target: How.FULL, target + 1: How.LINE}
    elif not is_stuck:
        chosen |= {index: How.FULL if index < FULL_RECORDS else How.LINE for index in range(LINE_RECORDS)}
    following = 0
    for index in sorted(chosen):
        if not 0 <= index < count:
            continue
        if following < index:
            yield Shown(following, index - 1, How.COUNTED)
        yield Shown(index, index, chosen[index])
        following = index + 1
