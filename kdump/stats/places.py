"""The place of rows in a partition. Figures that depend on order are sorted by it, in whatever order logs come."""

from __future__ import annotations

from typing import NamedTuple


class LogPlace(NamedTuple):
    """The place of a log in its partition.

    ``directory``: of the partition; a stream is a directory of its own. ``base_offset``: of the segment's name, -1
    without one. ``file``: its path.
    """

    directory: str
    base_offset: int
    file: str
