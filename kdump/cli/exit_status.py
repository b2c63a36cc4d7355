"""Exit statuses, and what a command met on the way to its own (docs/contract.md#12-exit-status)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kdump.cli.console import Console
    from kdump.codes import KdumpError

CLEAN: Final = 0
DAMAGE: Final = 1
USAGE: Final = 2
UNREADABLE: Final = 3
INTERRUPTED: Final = 130


class RunStatus:
    """What a command met: damage, or something that cannot be read.

    Args:
        console: shows errors.
    """

    def __init__(self, console: Console) -> None:
        self.damaged = False
        self.unreadable = False
        self._console = console

    def fail(self, error: KdumpError, *, is_damage: bool = False) -> None:
        """Show an error and remember it."""
        self.damaged |= is_damage
        self.unreadable |= not is_damage
        self._console.show_error(error)

    def add(self, *, damaged: bool = False, unreadable: bool = False) -> None:
        """Remember something that was met and shown elsewhere."""
        self.damaged |= damaged
        self.unreadable |= unreadable

    @property
    def code(self) -> int:
        """The exit status: 3 before 1 before 0."""
        return UNREADABLE if self.unreadable else DAMAGE if self.damaged else CLEAN
