"""What a dump asks of another world whose PATHs hold no logs."""

from __future__ import annotations

from typing import Protocol

from kdump.codes import OnError
from kdump.reading.printing import Emit
from kdump.reading.selection import RowBudget
from kdump.rows.columns import Table
from kdump.rows.printers import LinesOf


class WorldPathDump(Protocol):
    """A dump of PATHs of another world."""

    def show(self, path: str, on_error: OnError) -> None:
        """Show what a PATH means. ``on_error`` takes what is wrong with a file; the others follow."""


class WorldDump(Protocol):
    """What a dump shows of another world: the module ``dump`` of its package. ``TABLES``: of its rows."""

    TABLES: tuple[Table, ...]

    def begin_dump(
        self,
        lines: LinesOf | None,
        emit: Emit,
        *,
        budget: RowBudget,
        resync: bool,
        show_secrets: bool,
        limit: int,
    ) -> WorldPathDump:
        """Begin a dump.

        Args:
            lines: makes the writer of a file's rows; None: text.
            emit: takes whole lines for stdout.
            budget: how many rows are shown.
            resync: what comes after damage is shown too.
            show_secrets: passwords, salts and keys are shown.
            limit: most bytes to which a file may decompress.
        """
