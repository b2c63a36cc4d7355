"""Where in a partition something was seen: what depends on order is put in order by it, whatever came first."""

from __future__ import annotations

from typing import NamedTuple


class RangeStart(NamedTuple):
    """The start of a stretch of a log; sorts as the partition's records do.

    ``directory``: of the partition; a stream is one of its own. ``base_offset``: of the segment's name, -1 where it has
    none. ``file``: its path. ``position``: in bytes.
    """

    directory: str
    base_offset: int
    file: str
    position: int
