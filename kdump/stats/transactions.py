"""What became of transactional batches, and how many transactions there are.

A producer's marker ends what it wrote since the marker before. A run of batches is told by its first marker and by what
no marker in it ends; runs are put together in order at last (see ``order``).

Source: KIP-98; shared/spec/formats.md section 6.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kdump.format.batch import CONTROL, TRANSACTIONAL
from kdump.format.control import ABORT, COMMIT
from kdump.scan.outcomes import ABORTED, COMMITTED, OPEN
from kdump.stats.grouping import Assigned
from kdump.stats.places import Place

_OUTCOME_OF: Final = {COMMIT: COMMITTED, ABORT: ABORTED}

OutcomeBehind: TypeAlias = Callable[[str, int, int], str]
"""What became of the batch at an offset, by file and producer: a marker may lie behind all that was looked at."""


class Outcome(NamedTuple):
    """What batches of a group have come to.

    ``transactions``: markers of the group, or, where the outcome is ``open``, transactions that began in it.
    """

    group: int
    outcome: str
    size: int = 0
    records: int = 0
    transactions: int = 0


@dataclass(slots=True)
class _Pending:
    """Batches that no marker has ended: the first one's offset and group, (bytes, records) by group."""

    first_offset: int
    first_group: int
    sums: dict[int, tuple[int, int]] = field(default_factory=dict)

    def add(self, group: int, size: int, records: int) -> None:
        """Another batch, or more."""
        before = self.sums.get(group, (0, 0))
        self.sums[group] = before[0] + size, before[1] + records

    def with_groups(self, ids: NDArray[np.int64]) -> _Pending:
        """With other group ids."""
        mapped = _Pending(self.first_offset, int(ids[self.first_group]))
        for group, sums in self.sums.items():
            mapped.add(int(ids[group]), *sums)
        return mapped

    def followed_by(self, other: _Pending | None) -> _Pending:
        """These batches and those of a later run."""
        joined = _Pending(self.first_offset, self.first_group, dict(self.sums))
        for group, sums in other.sums.items() if other is not None else ():
            joined.add(group, *sums)
        return joined

    def come_to(self, outcome: str) -> Iterator[Outcome]:
        """That it ended so."""
        for group, (size, records) in self.sums.items():
            yield Outcome(group, outcome, size, records)


@dataclass(slots=True)
class _Producer:
    """Of one producer in a run: the outcome of the first marker, and what follows the last one."""

    first_outcome: str | None = None
    pending: _Pending | None = None


class Run:
    """The transactions of a stretch of a segment."""

    def __init__(self) -> None:
        self.producers: dict[int, _Producer] = {}

    def see(self, rows: NDArray[np.void], assigned: Assigned) -> Iterator[Outcome]:
        """The next sound rows of the batch table; what batches in this run come to."""
        chosen = np.flatnonzero((rows["attributes"] & TRANSACTIONAL != 0) & (rows["magic"] >= 2))
        if not chosen.size:
            return
        # Producer by producer, each one's batches in order.
        chosen = chosen[np.argsort(rows["producer_id"][chosen], kind="stable")]
        rows, group = rows[chosen], assigned.of_rows(rows.size)[chosen]
        producer_id, marker_type = rows["producer_id"], rows["marker_type"]
        is_control = rows["attributes"] & CONTROL != 0
        is_marker = is_control & np.isin(marker_type, list(_OUTCOME_OF))
        ends = np.flatnonzero(np.diff(producer_id, append=~producer_id[-1:])) + 1
        end_of_row = np.repeat(ends, np.diff(ends, prepend=0))
        # The next marker of the same producer.
        marker = np.where(is_marker, np.arange(rows.size), rows.size)
        marker = np.minimum.accumulate(marker[::-1])[::-1]
        has_marker = marker < end_of_row
        size, records = rows["size"], np.maximum(rows["record_count"], 0)
        for kind, outcome in _OUTCOME_OF.items():
            is_ended = has_marker.copy()
            is_ended[has_marker] = marker_type[marker[has_marker]] == kind
            for of_group in np.unique(group[is_ended]).tolist():
                own = is_ended & (group == of_group)
                data = own & ~is_control
                markers = int(np.count_nonzero(own & is_control))
                yield Outcome(of_group, outcome, int(size[data].sum()), int(records[data].sum()), markers)
        begins = np.append(0, ends[:-1])
        first_marker = np.where(has_marker[begins], marker[begins], -1)
        for begin, end, first in zip(begins.tolist(), ends.tolist(), first_marker.tolist(), strict=True):
            producer = self.producers.setdefault(int(producer_id[begin]), _Producer())
            if first >= 0:
                outcome = _OUTCOME_OF[int(marker_type[first])]
                if producer.first_outcome is None:
                    producer.first_outcome = outcome
                if producer.pending is not None:
                    yield from producer.pending.come_to(outcome)
                    producer.pending = None
            left = np.flatnonzero(~has_marker[begin:end] & ~is_control[begin:end]) + begin
            for row in left[:1].tolist():
                if producer.pending is None:
                    producer.pending = _Pending(int(rows["base_offset"][row]), int(group[row]))
            for of_group in np.unique(group[left]).tolist():
                own = left[group[left] == of_group]
                assert producer.pending is not None
                producer.pending.add(of_group, int(size[own].sum()), int(records[own].sum()))


@dataclass(slots=True)
class TransactionRuns:
    """All runs, by where they begin."""

    found: dict[Place, Run] = field(default_factory=dict)

    def at(self, place: Place) -> Run:
        """The run that begins there."""
        return self.found.setdefault(place, Run())

    def merge(self, other: TransactionRuns, ids: NDArray[np.int64]) -> None:
        """Take in other runs, the ids of whose groups here are ``ids``."""
        for place, run in other.found.items():
            mapped = self.found[place] = Run()
            for producer_id, producer in run.producers.items():
                pending = None if producer.pending is None else producer.pending.with_groups(ids)
                mapped.producers[producer_id] = _Producer(producer.first_outcome, pending)

    def outcomes(self, behind: OutcomeBehind) -> Iterator[Outcome]:
        """What the pending batches of the runs come to when these are put together in order."""
        last: Place | None = None
        open_now: dict[int, _Pending] = {}
        for place in sorted(self.found):
            if last is not None and place.directory != last.directory:
                yield from _at_the_end(last, open_now, behind)
                open_now = {}
            last = place
            for producer_id, producer in self.found[place].producers.items():
                before = open_now.pop(producer_id, None)
                if before is not None and producer.first_outcome is not None:
                    yield from before.come_to(producer.first_outcome)
                    before = None
                pending = producer.pending if before is None else before.followed_by(producer.pending)
                if pending is not None:
                    open_now[producer_id] = pending
        if last is not None:
            yield from _at_the_end(last, open_now, behind)


def _at_the_end(last: Place, left: dict[int, _Pending], behind: OutcomeBehind) -> Iterator[Outcome]:
    for producer_id, pending in left.items():
        outcome = behind(last.file, producer_id, pending.first_offset)
        yield from pending.come_to(outcome)
        if outcome == OPEN:
            yield Outcome(pending.first_group, OPEN, transactions=1)
