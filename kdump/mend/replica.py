"""Holes filled with the batches of another copy of the partition.

Followers copy a leader's batches byte for byte, so a copy has the same CRCs at the same offsets as far as both wrote
the same history. A copy is believed about a hole when the batches nearest to it that both have are the same, and it
has at least one of them; and about a batch when it is good to its last record and its leader epoch fits.

Source: issue 7 point 6; KIP-101 for epochs and histories that part.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from kdump.checks.table import row_at
from kdump.codes import KdumpError
from kdump.log.names import parse_file_name
from kdump.log.partition import segment_files
from kdump.log.source import Source, open_source
from kdump.mend.chain import heaviest_chain
from kdump.mend.draft import DraftTable
from kdump.mend.entry import Entry
from kdump.mend.pieces import Origin
from kdump.mend.surroundings import Surroundings
from kdump.mend.survey import survey
from kdump.mend.table import Column, Table
from kdump.wire.compression import DEFAULT_LIMIT

_LAST: int = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Wanted:
    """Offsets to be filled, first and last; of a tail whose end is not known ``most`` bytes, else None."""

    first: int
    last: int
    most: int | None = None


class Replica:
    """Another copy of a partition.

    Args:
        path: its directory, or one of its logs.
        limit: most bytes that one batch may decompress to.
        opened: opens a log.

    Raises:
        KdumpError: the directory cannot be read, or holds no segment.
    """

    def __init__(self, path: str, limit: int = DEFAULT_LIMIT, opened: Callable[[str], Source] = open_source) -> None:
        self._limit = limit
        self._open = opened
        self._segments: list[tuple[int, str]] = []
        self._tables: dict[str, Table] = {}
        errors: list[KdumpError] = []
        logs = segment_files(path, errors.append) if os.path.isdir(path) else [path]
        for log in logs:
            name = parse_file_name(log)
            if name is not None and name.base_offset is not None:
                self._segments.append((name.base_offset, log))
        if errors:
            raise errors[0]

    def batches(self, wanted: Wanted, table: DraftTable, around: Surroundings) -> list[Entry]:
        """Batches that fill a hole, in offset order.

        Args:
            wanted: the hole.
            table: the batches around it.
            around: the files around the log.
        """
        found: list[Entry] = []
        for path, batches in self._near(wanted, table):
            if not _is_same_history(batches, table, wanted):
                continue
            inside = np.flatnonzero((batches.first >= wanted.first) & (batches.last <= wanted.last))
            inside = inside[_epochs_fit(batches.part(inside), table, wanted, around)]
            part = batches.part(inside)
            chosen = inside[heaviest_chain(part.first, part.last, part.records)]
            if wanted.most is not None:
                size = np.cumsum(batches.rows["size"][chosen])
                chosen = chosen[size <= wanted.most - sum(entry.row.size for entry in found)]
            found += [Entry(row_at(batches.rows, number), Origin.REPLICA, path) for number in chosen.tolist()]
        return found

    def _near(self, wanted: Wanted, table: DraftTable) -> Iterator[tuple[str, Table]]:
        """(path, good batches) of the segments that may hold the offsets."""
        ends = [base for base, _ in self._segments[1:]] + [_LAST]
        for (base, path), end in zip(self._segments, ends, strict=True):
            if base <= wanted.last and end > wanted.first:
                if path not in self._tables:
                    with self._open(path) as source:
                        found = survey(source, limit=self._limit)
                    good = found.table.part(found.is_good & (found.table.rows["magic"] <= 2))
                    self._tables[path] = good
                yield path, self._tables[path]


def _is_same_history(batches: Table, table: Table, wanted: Wanted) -> bool:
    """The batches nearest to the hole that both have, before and behind, are the same, and there is one."""
    _, theirs, ours = np.intersect1d(batches.first, table.first, return_indices=True)
    is_same = (batches.rows["crc"][theirs] == table.rows["crc"][ours]) & (batches.last[theirs] == table.last[ours])
    before = np.flatnonzero(batches.first[theirs] < wanted.first)[-1:]
    behind = np.flatnonzero(batches.first[theirs] > wanted.last)[:1]
    nearest = np.concatenate((before, behind))
    return bool(nearest.size) and bool(is_same[nearest].all())


def _epochs_fit(part: Table, table: DraftTable, wanted: Wanted, around: Surroundings) -> Column:
    """Numbers of the batches whose leader epochs fit the batches around the hole, and leader-epoch-checkpoint."""
    epoch = part.rows["leader_epoch"].astype(np.int64)
    place = int(np.searchsorted(table.first, wanted.first))
    low = int(table.leader_epoch[place - 1]) if place else -1
    behind = table.rows["leader_epoch"][place : place + 1]
    high = int(behind[0]) if behind.size and behind[0] >= 0 else _LAST
    is_new = part.rows["magic"] >= 2
    known = np.array([around.epoch_of(offset) for offset in part.first.tolist()], object)
    is_told = np.array([one is None or one == own for one, own in zip(known, epoch.tolist(), strict=True)], np.bool_)
    fits = ~is_new | ((low <= epoch) & (epoch <= high) & is_told)
    return np.flatnonzero(fits)


def fill(wanted: Sequence[Wanted], replicas: Sequence[Replica], table: DraftTable, around: Surroundings) -> list[Entry]:
    """Batches for the holes ``wanted``: of the first replica that has some, and in what it leaves of the next."""
    found: list[Entry] = []
    for hole in wanted:
        left = [hole]
        for replica in replicas:
            taken = [entry for part in left for entry in replica.batches(part, table, around)]
            found += taken
            left = [rest for part in left for rest in _rest(part, taken)]
    return found


def _rest(hole: Wanted, taken: Sequence[Entry]) -> Iterator[Wanted]:
    """What of ``hole`` the batches do not cover."""
    first = hole.first
    most = hole.most
    for entry in taken:
        if hole.first <= entry.first_offset <= hole.last:
            if entry.first_offset > first:
                yield Wanted(first, entry.first_offset - 1)
            first = entry.row.last_offset + 1
            most = None if most is None else most - entry.row.size
    if first <= hole.last:
        yield Wanted(first, hole.last, most)
