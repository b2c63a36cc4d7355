"""How rows are made of a log: one of today, or of another world."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

from kdump.log.gaps import Gap
from kdump.log.source import Source
from kdump.log.walk import Chunk
from kdump.reading.view import LogView
from kdump.rows.columns import Table
from kdump.worlds import World


class WorldRows(Protocol):
    """What a world says of its logs: the module ``rows`` of its package."""

    def table(self, today: Table) -> Table:
        """The table that takes the place of a table of ``rows.tables``."""

    def view(self, base_offset: int) -> Callable[..., LogView[Any, Any]]:
        """Makes the view of a log; it takes what ``LogView`` takes."""

    def items_past_damage(self, source: Source, base_offset: int, start: int) -> Iterator[Chunk | Gap]:
        """The entries of a log from a position on, and the gaps between them."""


def rows_of(world: World) -> WorldRows:
    """What a world says of its logs."""
    rows: WorldRows = world.answer("rows")
    return rows


def table_of(world: World | None, today: Table) -> Table:
    """The table of the rows of a log; ``today``: that of a log of today, whose ``world`` is None."""
    return today if world is None else rows_of(world).table(today)


def view_of(world: World | None, base_offset: int | None) -> Callable[..., LogView[Any, Any]]:
    """Makes the view of a log; ``base_offset``: by its name."""
    return LogView[Any, Any] if world is None else rows_of(world).view(base_offset or 0)


def items_past_damage(
    world: World | None, source: Source, base_offset: int | None, start: int
) -> Iterator[Chunk | Gap]:
    """The entries of a log from a position on, and the gaps between them; see ``view_of``."""
    if world is not None:
        return rows_of(world).items_past_damage(source, base_offset or 0, start)
    from kdump.log.resync import ResyncWalk  # needs numpy

    return ResyncWalk(source, start=start).items()
