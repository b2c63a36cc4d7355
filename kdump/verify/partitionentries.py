"""The valid entries of the logs that paths stand for, partition by partition."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from kdump.codes import Finding, OnError
from kdump.fast.entries import Entries
from kdump.inputs import Input
from kdump.log.context import FileContext
from kdump.log.named import STDIN
from kdump.log.opening import open_source
from kdump.log.partition import segments_after
from kdump.tasks.logs import LogFile, log_files
from kdump.verify.validentries import EntryReader
from kdump.wire.compression import DEFAULT_LIMIT
from kdump.worlds import World


@dataclass(frozen=True, slots=True)
class Partition:
    """The logs of one directory, in offset order; ``active``: the one that a broker appends to, if it is known.

    ``world``: whose logs they are; None: of today.
    """

    directory: str
    logs: tuple[LogFile, ...]
    active: LogFile | None
    world: World | None = None

    @property
    def name(self) -> str:
        """The path of the directory, as it was given."""
        return os.path.dirname(self.logs[0].context.file) or "."

    @property
    def closed(self) -> tuple[LogFile, ...]:
        """All logs but the active one."""
        return self.logs if self.active is None else self.logs[:-1]


class PartitionEntries:
    """Reads the partitions of inputs.

    Args:
        inputs: what PATHs mean; of the streams only standard input.
        on_error: takes what cannot be found.
        on_damage: takes damage, with its path, once however often a log is read. Damaged entries are left out.
        with_worlds: partitions of other worlds too, whose entries cannot be read here.
        limit: most bytes to which one entry may decompress.
    """

    def __init__(
        self,
        inputs: Sequence[Input],
        *,
        on_error: OnError,
        on_damage: Callable[[str, Finding], None] = lambda path, finding: None,
        with_worlds: bool = False,
        limit: int = DEFAULT_LIMIT,
    ) -> None:
        self._on_damage = on_damage
        self._limit = limit
        self._told: set[str] = set()
        self.partitions = list(_partitions(_logs(inputs, on_error, with_worlds=with_worlds)))

    def of(self, log: LogFile) -> Iterator[Entries]:
        """The entries of a log. Raises KdumpError if it cannot be read."""
        with open_source(log.given) as source:
            reader = EntryReader(source, self._limit)
            yield from reader.entries()
        if log.path not in self._told:
            self._told.add(log.path)
            for finding in reader.findings:
                self._on_damage(log.context.file, finding)


def _logs(inputs: Sequence[Input], on_error: OnError, *, with_worlds: bool) -> list[LogFile]:
    found = log_files([one for one in inputs if one.path != STDIN], on_error, with_worlds=with_worlds)
    streams = [one for one in inputs if one.path == STDIN]
    return found + [LogFile(STDIN, FileContext.of(STDIN), None, 0, given=STDIN, world=one.world) for one in streams[:1]]


def _partitions(logs: Iterable[LogFile]) -> Iterator[Partition]:
    """The logs by their directories. A log that is given alone counts as closed: it has no active one."""
    found: dict[tuple[str, World | None], list[LogFile]] = {}
    for log in logs:
        found.setdefault((os.path.dirname(log.path), log.world), []).append(log)
    for (directory, world), own in found.items():
        # In whatever order they were named; what has no number comes last, as in a directory.
        own.sort(key=lambda log: (log.base_offset is None, log.base_offset or 0))
        is_whole = len(own) > 1 and not segments_after(own[-1].path)
        yield Partition(directory, tuple(own), own[-1] if is_whole else None, world)
