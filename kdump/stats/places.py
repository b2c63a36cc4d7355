"""The place of rows in a partition. Figures that depend on order are sorted by it, in whatever order parts come."""

from __future__ import annotations

from typing import NamedTuple


class RangeStart(NamedTuple):
    """The start of a range of a log; sorts as the partition's records do.

    ``directory``: of the partition; a stream is a directory of its own. ``base_offset``: of the segment's name, -1
    without one. ``file``: its path. ``position``: in bytes.
    """

    directory: str
    base_offset: int
    file: str
    position: int
