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
from typing import Final, NamedTuple

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

_LAST: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Wanted:
    """Offsets to be filled, first and last.

    At the end of a log (``is_tail``) the last one may lie inside a batch. ``most``: bytes that may be filled, None: any
    number.
    """

    first: int
    last: int
    most: int | None = None
    is_tail: bool = False


class Common(NamedTuple):
    """Numbers, in the replica, of the batches directly before and behind the hole; None where one of them differs."""

    before: int | None = None
    behind: int | None = None


@dataclass(slots=True)
class Filling:
    """Batches that fill a hole, in offset order; up to ``complete_to`` there never were others, None: not known."""

    entries: list[Entry]
    complete_to: int | None = None


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
        self._comparisons: dict[str, _Comparison] = {}
        errors: list[KdumpError] = []
        logs = segment_files(path, errors.append) if os.path.isdir(path) else [path]
        for log in logs:
            name = parse_file_name(log)
            if name is not None and name.base_offset is not None:
                self._segments.append((name.base_offset, log))
        if errors:
            raise errors[0]

    def batches(self, wanted: Wanted, table: DraftTable, around: Surroundings) -> Filling:
        """Batches that fill a hole.

        Args:
            wanted: the hole.
            table: the batches around it.
            around: the files around the log.
        """
        filling = Filling([])
        for path, batches in self._near(wanted, table):
            common = self._comparison(path, table).around(wanted)
            if common is None:
                continue
            upto = batches.first if wanted.is_tail else batches.last
            inside = np.flatnonzero((batches.first >= wanted.first) & (upto <= wanted.last))
            inside = inside[_epochs_fit(batches.part(inside), table, wanted, around)]
            part = batches.part(inside)
            chosen = inside[heaviest_chain(part.first, part.last, part.records)]
            if wanted.most is not None:
                chosen = chosen[np.cumsum(batches.rows["size"][chosen]) <= wanted.most]
            filling.entries += [Entry(row_at(batches.rows, number), Origin.REPLICA, path) for number in chosen.tolist()]
            if _is_complete(batches, common, chosen, is_tail=wanted.is_tail):
                filling.complete_to = int(batches.last[chosen[-1]]) if wanted.is_tail and chosen.size else wanted.last
        return filling

    def _comparison(self, path: str, table: DraftTable) -> _Comparison:
        known = self._comparisons.get(path)
        if known is None or known.table is not table:
            known = self._comparisons[path] = _Comparison(self._tables[path], table)
        return known

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


class _Comparison:
    """A segment of the replica beside the log: the batches that begin at the same offset, and which are the same.

    Shape (common batches,), in offset order: ``first`` offset, the number in the replica (``theirs``) and in the log
    (``ours``), ``is_same``.
    """

    def __init__(self, batches: Table, table: DraftTable) -> None:
        self.table = table
        self.first, self.theirs, self.ours = np.intersect1d(batches.first, table.first, return_indices=True)
        is_same = batches.rows["crc"][self.theirs] == table.rows["crc"][self.ours]
        self.is_same = is_same & (batches.last[self.theirs] == table.last[self.ours])

    def around(self, wanted: Wanted) -> Common | None:
        """The batches nearest to the hole that both have, if there is one and they are the same."""
        before = int(np.searchsorted(self.first, wanted.first)) - 1
        behind = int(np.searchsorted(self.first, wanted.last, side="right"))
        nearest = [place for place in (before, behind) if 0 <= place < self.first.size]
        if not nearest or not self.is_same[nearest].all():
            return None
        place = int(np.searchsorted(self.table.first, wanted.first))
        is_before = before >= 0 and self.ours[before] == place - 1
        is_behind = behind < self.first.size and self.ours[behind] == place
        return Common(int(self.theirs[before]) if is_before else None, int(self.theirs[behind]) if is_behind else None)


def _is_complete(batches: Table, common: Common, chosen: Column, *, is_tail: bool) -> bool:
    """The replica has nothing else between the batches around the hole; at the tail, behind the one before."""
    if common.before is None or (common.behind is None and not is_tail):
        return False
    behind = common.before + chosen.size + 1 if common.behind is None else common.behind
    between = np.arange(common.before, min(behind + 1, len(batches)))
    is_side_by_side = batches.end[between[:-1]] == batches.position[between[1:]]
    return bool(is_side_by_side.all()) and np.array_equal(np.arange(common.before + 1, behind), chosen)


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


def fill(hole: Wanted, replicas: Sequence[Replica], table: DraftTable, around: Surroundings) -> Filling:
    """Batches for a hole: of the first replica that has some, and in what it leaves of the next."""
    filling = Filling([])
    left = [hole]
    for replica in replicas:
        rest: list[Wanted] = []
        for part in left:
            found = replica.batches(part, table, around)
            filling.entries += found.entries
            if part is hole:
                filling.complete_to = found.complete_to
            rest += _rest(part, found.entries)
        left = rest
    return filling


def _rest(hole: Wanted, taken: Sequence[Entry]) -> Iterator[Wanted]:
    """What of ``hole`` the batches ``taken`` in it do not cover."""
    first, most = hole.first, hole.most
    for entry in taken:
        if entry.first_offset > first:
            yield Wanted(first, entry.first_offset - 1, most)
        first = entry.row.last_offset + 1
        most = None if most is None else most - entry.row.size
    if first <= hole.last:
        yield Wanted(first, hole.last, most, hole.is_tail)
