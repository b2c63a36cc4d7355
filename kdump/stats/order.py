"""What depends on the order of batches and records: missing offsets, and timestamps that go back.

A run is what one log holds. What lies between two runs is found once all runs are there and sorted, as the logs of a
partition may be named in any order.

Source: docs/spec/formats.md#3-record-batches-v2 for what compaction leaves of a batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kdump.stats.grouping import Assigned
from kdump.verify.table import UNKNOWN_OFFSET


class LogPlace(NamedTuple):
    """The place of a log in its partition.

    ``directory``: of the partition; a stream is a directory of its own. ``base_offset``: of the segment's name, -1
    without one. ``file``: its path.
    """

    directory: str
    base_offset: int
    file: str


class Between(NamedTuple):
    """What lies between two runs; it counts for a group."""

    group: int
    missing_offsets: int = 0
    step_back: int = 0
    """Milliseconds; 0 if the timestamp does not go back."""


@dataclass(slots=True)
class LogEnds:
    """The ends of a run; None as long as it has no batches."""

    first_offset: int | None = None
    first_offset_group: int = 0
    last_offset: int | None = None
    """Last offset of the last batch."""
    second_offset: int | None = None
    """Base offset of the batch after the first one."""
    last_known: int = 0
    """The base offset of the last batch, or its last offset if the base offset is not known."""
    last_gap: int = 0
    """Missing offsets before the last batch; the next batch decides whether they count."""
    last_gap_group: int = 0
    is_uncertain: bool = False
    """Whether damage, not compaction, may explain what is missing before the first batch, or it is not known where that
    batch begins."""
    ends_in_gap: bool = False
    first_timestamp: int | None = None
    first_timestamp_group: int = 0
    last_timestamp: int | None = None

    def with_groups(self, ids: NDArray[np.int64]) -> LogEnds:
        """These ends with other group ids."""
        mapped = replace(self)
        if self.first_offset is not None:
            mapped.first_offset_group = int(ids[self.first_offset_group])
            mapped.last_gap_group = int(ids[self.last_gap_group])
        if self.first_timestamp is not None:
            mapped.first_timestamp_group = int(ids[self.first_timestamp_group])
        return mapped


def between_runs(runs: Mapping[LogPlace, LogEnds]) -> Iterator[Between]:
    """What lies between the runs of each partition."""
    for _, places in groupby(sorted(runs), key=attrgetter("directory")):
        own = [(place, runs[place]) for place in places]
        yield from _gaps(own)
        yield from _steps(run for _, run in own)


def _gaps(runs: Iterable[tuple[LogPlace, LogEnds]]) -> Iterator[Between]:
    """Missing offsets between the runs of a partition, in order, and before the last batch of each run."""
    last_offset: int | None = None
    is_after_gap = False
    open_gap: tuple[int, Between] | None = None
    for place, run in runs:
        if last_offset is None and place.base_offset >= 0:
            # The segment's name tells where it began.
            last_offset = place.base_offset - 1
        if run.first_offset is not None and run.last_offset is not None:
            if open_gap is not None and open_gap[0] <= run.first_offset:
                yield open_gap[1]
            is_known = last_offset is not None and not run.is_uncertain and not is_after_gap
            missing = max(run.first_offset - (last_offset or 0) - 1, 0) if is_known else 0
            open_gap = run.first_offset, Between(run.first_offset_group, missing_offsets=missing)
            if run.second_offset is not None:
                if run.first_offset <= run.second_offset:
                    yield open_gap[1]
                open_gap = run.last_known, Between(run.last_gap_group, missing_offsets=run.last_gap)
            last_offset = run.last_offset
            is_after_gap = False
        is_after_gap |= run.ends_in_gap
    if open_gap is not None:
        yield open_gap[1]


def _steps(runs: Iterable[LogEnds]) -> Iterator[Between]:
    """Timestamps that go back from one run to the next."""
    last_timestamp: int | None = None
    for run in runs:
        if run.first_timestamp is not None:
            if last_timestamp is not None and run.first_timestamp < last_timestamp:
                yield Between(run.first_timestamp_group, step_back=last_timestamp - run.first_timestamp)
            last_timestamp = run.last_timestamp


def missing_offsets(
    run: LogEnds, rows: NDArray[np.void], assigned: Assigned
) -> tuple[NDArray[np.int64], Between | None]:
    """Offsets missing before and in each batch, shape (rows,); and those before the last batch of the rows before.

    Offsets missing before a batch do not count if the next batch goes back: then its base offset, which no CRC
    covers, is wrong. So those before the last row wait for the next rows.

    Args:
        run: what came before; the rows follow it.
        rows: of the batch table, in file order, all valid.
        assigned: their groups.
    """
    last = rows["last_offset"]
    count = rows["record_count"].astype(np.int64)
    # Unless its records were read, the first offset of a compressed legacy entry is not known.
    is_known = rows["base_offset"] != UNKNOWN_OFFSET
    before = np.empty_like(last)
    before[1:] = last[:-1]
    before[0] = last[0] if run.last_offset is None else run.last_offset
    base = np.where(is_known, rows["base_offset"], before + 1)
    gap = np.where(rows["is_after_gap"], 0, np.maximum(base - before - 1, 0))
    known = np.where(is_known, base, last)
    gap[:-1][known[1:] < known[:-1]] = 0
    earlier = None
    if run.first_offset is None:
        run.first_offset, run.first_offset_group = int(known[0]), _first(assigned)
        run.is_uncertain = bool(rows["is_after_gap"][0]) or not is_known[0]
        gap[0] = 0
        run.second_offset = int(known[1]) if rows.size > 1 else None
    else:
        if run.last_gap and run.last_known <= known[0]:
            earlier = Between(run.last_gap_group, missing_offsets=run.last_gap)
        if run.second_offset is None:
            run.second_offset = int(known[0])
    run.last_known, run.last_gap, run.last_gap_group = int(known[-1]), int(gap[-1]), _last(assigned)
    gap[-1] = 0
    run.last_offset = int(last[-1])
    inside = np.where(is_known, np.maximum(last - base + 1 - np.maximum(count, 0), 0), 0)
    return gap + inside, earlier


def steps_back(run: LogEnds, timestamp: NDArray[np.int64], assigned: Assigned) -> NDArray[np.int64]:
    """By how many ms each timestamp is below the one before it, else 0; shape (rows,).

    Args:
        run: what came before; the rows follow it.
        timestamp: of all records in file order, one or more; a negative one is none.
        assigned: their groups.
    """
    is_there = timestamp >= 0
    if not is_there.all():
        back = np.zeros_like(timestamp)
        if is_there.any():
            back[is_there] = steps_back(run, timestamp[is_there], assigned.rows(is_there))
        return back
    if run.first_timestamp is None:
        run.first_timestamp, run.first_timestamp_group = int(timestamp[0]), _first(assigned)
    before = timestamp[0] if run.last_timestamp is None else run.last_timestamp
    run.last_timestamp = int(timestamp[-1])
    steps: NDArray[np.int64] = np.maximum(-np.diff(timestamp, prepend=before), 0)
    return steps


def _last(assigned: Assigned) -> int:
    """The group of the last row."""
    return int(assigned.ids[0] if assigned.index is None else assigned.ids[assigned.index[-1]])


def _first(assigned: Assigned) -> int:
    """The group of the first row."""
    return int(assigned.ids[0] if assigned.index is None else assigned.ids[assigned.index[0]])
