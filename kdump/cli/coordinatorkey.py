"""``--group`` and ``--transactional-id``: which files are read, and which partition holds the records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import click

from kdump.cli.options.dump import DumpArguments
from kdump.dump.targets import Target
from kdump.kafka.coordinators import DEFAULT_PARTITIONS, CoordinatorKey, group, transactional_id
from kdump.log.files import absolute, directory_of
from kdump.log.names import Kind, partition_of_file


def coordinated(given: DumpArguments) -> CoordinatorKey | None:
    """The group or transactional id that is asked for. UsageError for one that Kafka cannot store."""
    if given.group is not None:
        return _named(group(given.group))
    if given.transactional_id is not None:
        return _named(transactional_id(given.transactional_id))
    return None


def _named(wanted: CoordinatorKey) -> CoordinatorKey:
    from kdump.format.messagereader import LONGEST_STRING  # not needed without such a key

    if len(wanted.stored_name) > LONGEST_STRING:
        raise click.UsageError(f"a {wanted.kind} has {LONGEST_STRING} bytes at most")
    return wanted


_TELLING: Final = 3
"""So many partitions in a row, from 0 on, are taken for all partitions of their topic."""


class PartitionFinder:
    """Knows the partition of a group or transactional id, or learns it from where its records are.

    Args:
        wanted: the group or transactional id.
        partitions: how many the topic has; None: not known.
    """

    def __init__(self, wanted: CoordinatorKey, partitions: int | None) -> None:
        self._wanted = wanted
        self._partitions = partitions
        self._here: set[int] = set()
        self._found: set[int] = set()
        self._found_elsewhere: list[str] = []

    def wants(self, target: Target, named: Iterable[str]) -> bool:
        """Whether a file may hold its records. ``named``: files and partition directories that are read anyway."""
        places = {absolute(path).rstrip("/") for path in named}
        if absolute(target.path) in places or directory_of(target.path) in places:
            return True
        topic, partition = partition_of_file(target.path) or (None, -1)
        if topic != self._wanted.topic:
            return False
        return self._partitions is None or partition == self._wanted.partition(self._partitions)

    def see(self, target: Target, *, has_rows: bool) -> None:
        """Take a file that was read."""
        # The rows of an index belong to no group.
        has_records = has_rows and target.kind is Kind.LOG
        topic, partition = partition_of_file(target.path) or (None, -1)
        if topic == self._wanted.topic:
            self._here.add(partition)
            if has_records:
                self._found.add(partition)
        elif has_records:
            self._found_elsewhere.append(target.path)

    def notes(self) -> Iterator[str]:
        """Lines for standard error: which partition it is."""
        wanted, partitions = self._wanted, self._partitions
        least = max(self._here, default=0) + 1
        # All partitions from 0 on are here, which is hardly chance: the topic has no others.
        count_here = least if len(self._here) == least >= _TELLING else None
        what = f"{wanted.kind} '{wanted.name}'"
        if partitions is not None:
            yield f"{what} belongs to {wanted.topic}-{wanted.partition(partitions)} of {partitions} partitions"
        elif not self._found:
            likely = count_here or max(DEFAULT_PARTITIONS, least)
            home = f"{wanted.topic}-{wanted.partition(likely)}"
            as_here = ", as many as are here" if count_here else ""
            yield f"{what} belongs to {home} if the topic has {likely} partitions{as_here} (--partitions says how many)"
        for path in self._found_elsewhere:
            yield f"{what} is in {path}, whose directory is no partition of {wanted.topic}"
        if not self._found and not self._found_elsewhere:
            yield f"{what}: no records found"
        for partition in sorted(self._found):
            count = wanted.likely_partitions(partition, least, count_here)
            if partitions is None:
                fits = "not put it" if count is None else f"put it if the topic has {count} partitions"
                yield f"{what} is in {wanted.topic}-{partition}, where its hash would {fits}"
            elif partition != wanted.partition(partitions):
                yield f"{what} has records in {wanted.topic}-{partition}"
