"""What shows only where batches and records follow on one another: missing offsets, and timestamps that go back.

A run is what was seen without a break of one stretch of a segment. What lies between two runs is found when all of them
are there and sorted, so that it does not matter in which order they came.

Source: shared/spec/formats.md section 3 for what compaction leaves of a batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kdump.checks.table import UNKNOWN_OFFSET
from kdump.stats.grouping import Assigned
from kdump.stats.places import Place


class Between(NamedTuple):
    """What is found between two runs: it belongs to a group."""

    group: int
    missing_offsets: int = 0
    step_back: int = 0
    """Milliseconds, 0 where the timestamp does not go back."""


@dataclass(slots=True)
class Run:
    """The ends of a stretch; None as long as it has nothing there."""

    first_offset: int | None = None
    first_offset_group: int = 0
    last_offset: int | None = None
    """Of the last batch."""
    is_uncertain: bool = False
    """Compaction need not have taken what is missing before the first batch: damage lies there, or nobody knows where
    the batch begins."""
    ends_in_hole: bool = False
    first_timestamp: int | None = None
    first_timestamp_group: int = 0
    last_timestamp: int | None = None


@dataclass(slots=True)
class Runs:
    """All runs, by where they begin."""

    found: dict[Place, Run] = field(default_factory=dict)

    def at(self, place: Place) -> Run:
        """The run that begins there."""
        return self.found.setdefault(place, Run())

    def merge(self, other: Runs, ids: NDArray[np.int64]) -> None:
        """Take in other runs, the ids of whose groups here are ``ids``."""
        for place, run in other.found.items():
            mapped = self.found[place] = replace(run)
            if run.first_offset is not None:
                mapped.first_offset_group = int(ids[run.first_offset_group])
            if run.first_timestamp is not None:
                mapped.first_timestamp_group = int(ids[run.first_timestamp_group])

    def between(self) -> Iterator[Between]:
        """What lies between the runs of each partition."""
        directory = file = None
        last_offset: int | None = None
        last_timestamp: int | None = None
        is_behind_hole = False
        for place in sorted(self.found):
            run = self.found[place]
            if place.directory != directory:
                directory, file, last_offset, last_timestamp, is_behind_hole = place.directory, None, None, None, False
            if file != place.file:
                file = place.file
                if last_offset is None and place.base_offset >= 0:
                    # A segment's name says where it began.
                    last_offset = place.base_offset - 1
            if run.first_offset is not None and run.last_offset is not None:
                missing = 0 if last_offset is None else run.first_offset - last_offset - 1
                if missing > 0 and not run.is_uncertain and not is_behind_hole:
                    yield Between(run.first_offset_group, missing_offsets=missing)
                last_offset = run.last_offset
                is_behind_hole = False
            is_behind_hole |= run.ends_in_hole
            if run.first_timestamp is not None:
                if last_timestamp is not None and run.first_timestamp < last_timestamp:
                    yield Between(run.first_timestamp_group, step_back=last_timestamp - run.first_timestamp)
                last_timestamp = run.last_timestamp


def missing_offsets(run: Run, rows: NDArray[np.void], assigned: Assigned) -> NDArray[np.int64]:
    """Offsets that sound batches of a run leave out, before and in them; shape (rows,).

    Args:
        run: what it has so far; the rows follow on it.
        rows: of the batch table, in file order, all sound.
        assigned: their groups.
    """
    last = rows["last_offset"]
    count = rows["record_count"].astype(np.int64)
    # Without its records the first offset of a compressed legacy entry is not known.
    is_known = rows["base_offset"] != UNKNOWN_OFFSET
    before = np.empty_like(last)
    before[1:] = last[:-1]
    before[0] = last[0] if run.last_offset is None else run.last_offset
    base = np.where(is_known, rows["base_offset"], before + 1)
    missing = np.where(rows["is_behind_hole"], 0, np.maximum(base - before - 1, 0))
    if run.first_offset is None:
        run.first_offset, run.first_offset_group = int(base[0]), _first(assigned)
        run.is_uncertain = bool(rows["is_behind_hole"][0]) or not is_known[0]
        missing[0] = 0
    run.last_offset = int(last[-1])
    missing += np.where(is_known, np.maximum(last - base + 1 - np.maximum(count, 0), 0), 0)
    return missing


def steps_back(run: Run, timestamp: NDArray[np.int64], assigned: Assigned) -> NDArray[np.int64]:
    """By how many ms each timestamp is below the one before it, 0 where it is not; shape (rows,).

    Args:
        run: what it has so far; the rows follow on it.
        timestamp: of records in file order, none of them missing; one or more.
        assigned: their groups.
    """
    before = np.empty_like(timestamp)
    before[1:] = timestamp[:-1]
    before[0] = timestamp[0] if run.last_timestamp is None else run.last_timestamp
    if run.first_timestamp is None:
        run.first_timestamp, run.first_timestamp_group = int(timestamp[0]), _first(assigned)
    run.last_timestamp = int(timestamp[-1])
    back: NDArray[np.int64] = np.maximum(before - timestamp, 0)
    return back


def _first(assigned: Assigned) -> int:
    """The group of the first row."""
    return int(assigned.ids[0] if assigned.index is None else assigned.ids[assigned.index[0]])
