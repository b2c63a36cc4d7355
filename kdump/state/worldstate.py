"""What is asked of another world about its state at a moment, where its PATHs hold no logs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from kdump.codes import Finding
from kdump.stats.reach import PartitionReach

Reaches: TypeAlias = Mapping[tuple[str, int], PartitionReach]


class WorldState(Protocol):
    """What a place of another world held at a moment."""

    @property
    def time(self) -> int | None:
        """When it was so (ms since 1970); None: nothing tells."""

    def rows(self, *, show_secrets: bool, reaches: Reaches | None) -> Iterator[dict[str, Any]]:
        """Rows, each with its type. ``reaches``: the logs whose offsets it tells; None: they are not asked for."""

    def records(self, *, show_secrets: bool) -> Iterator[dict[str, Any]]:
        """Only what is stored."""

    def page(self, *, show_secrets: bool, reaches: Reaches | None, width: int, color: bool) -> Iterator[str]:
        """A page for people, in parts."""

    def findings(self) -> Iterator[Finding]:
        """What is wrong with it."""


class WorldPlace(Protocol):
    """Files of another world that belong together, such as those of a server."""

    @property
    def path(self) -> str:
        """Where they lie."""

    def at(self, time: int | None, number: int | None) -> WorldState:
        """The state at a time (ms), or after the change with a number; neither: the newest. Raises KdumpError."""

    def changes(
        self, span: tuple[int | None, int | None], wanted: tuple[str, str] | None, *, show_secrets: bool
    ) -> Iterator[tuple[dict[str, Any], str]]:
        """The changes in their order, as rows and as lines.

        Args:
            span: the first time (ms) and the time before which they end; None: open.
            wanted: the kind of a thing and its name; None: all things.
            show_secrets: also what is secret.

        Raises:
            KdumpError: a file cannot be read.
        """


class WorldStates(Protocol):
    """The states of another world: the module ``state`` of its package."""

    def servers(self, paths: Iterable[str], limit: int) -> Sequence[WorldPlace]:
        """The places that PATHs mean; ``limit``: as of WorldDump. Raises KdumpError."""
