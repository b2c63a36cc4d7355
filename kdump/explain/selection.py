"""Which of many records are shown in full, which in one line, and which are only counted."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum, auto
from typing import Final, NamedTuple

FULL_RECORDS: Final = 2
"""Records shown in full if the requested position is in none of them."""
LINE_RECORDS: Final = 20
"""Records shown in full or in one line then."""


class How(Enum):
    """How much of a record is shown."""

    FULL = auto()
    LINE = auto()
    COUNTED = auto()


class Shown(NamedTuple):
    """Records ``first`` to ``last`` (inclusive); more than one only if they are only counted."""

    first: int
    last: int
    how: How


def select(count: int, target: int | None, *, is_stuck: bool) -> Iterator[Shown]:
    """What to show of ``count`` whole records, in order and without a gap.

    Args:
        count: of the records.
        target: the record of interest: in full, with a line for each of its neighbours.
        is_stuck: a broken record follows the last one, which then gets a line at least.
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
