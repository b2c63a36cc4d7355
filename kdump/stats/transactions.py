"""The outcome of transactional batches, and how many transactions there are.

A producer's marker ends what the producer wrote since its previous marker. The run of a log keeps its first marker and
what no marker in it ends; at last the runs are joined in order (see ``places``). There may be a transaction per batch,
so all of that is held in arrays.

Source: KIP-98; docs/spec/formats.md#6-indexes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kdump.format.batch import CONTROL, TRANSACTIONAL
from kdump.format.control import ABORT, COMMIT
from kdump.reading.outcomes import ABORTED, COMMITTED, OPEN, OUTCOMES
from kdump.stats.grouping import Assigned
from kdump.stats.order import LogPlace
from kdump.stats.tally import most_pending

_OUTCOME_OF: Final = {COMMIT: COMMITTED, ABORT: ABORTED}
"""The outcome, by marker type."""
_DATA: Final = -1
"""Instead of a marker type: a batch of data."""
_PRODUCER, _KIND, _GROUP, _OFFSET, _SIZE, _RECORDS = range(6)
_Events: TypeAlias = list[NDArray[Any]]
"""Batches of data and markers: by the columns above, with the marker type as ``_KIND``. Markers have no size."""

OutcomeAfter: TypeAlias = Callable[[str, int, int], str]
"""Returns the outcome of the batch at an offset, by file and producer: a marker may follow all that was read."""


class GroupOutcomes(NamedTuple):
    """The batches of transactions with one outcome, by group. Each group occurs once; shapes (groups,).

    ``transactions``: markers of the group; if the outcome is ``open``, transactions that began in it.
    """

    outcome: str
    groups: NDArray[np.int64]
    size: NDArray[np.int64]
    records: NDArray[np.int64]
    transactions: NDArray[np.int64]


class TransactionRun:
    """The transactions of a log."""

    def __init__(self) -> None:
        self._kept: _Events = [np.empty(0, np.int64)] * (_RECORDS + 1)
        """Of each producer, rising: its first marker, and the data after its last one, summed by group."""
        self._new: list[_Events] = []
        """What follows in the log."""
        self._new_rows = 0

    def see(self, rows: NDArray[np.void], assigned: Assigned) -> Iterator[GroupOutcomes]:
        """Add the next valid rows of the batch table; gives outcomes that are known now."""
        is_there = (rows["attributes"] & TRANSACTIONAL != 0) & (rows["magic"] >= 2)
        if not is_there.any():
            return
        is_control = rows["attributes"] & CONTROL != 0
        is_marker = is_control & np.isin(rows["marker_type"], list(_OUTCOME_OF))
        # A control batch whose marker cannot be read ends nothing and holds no data.
        is_there &= is_marker | ~is_control
        chosen = np.flatnonzero(is_there)
        nothing = np.zeros(assigned.ids.size, np.int64)
        for kind, outcome in _OUTCOME_OF.items():
            count = assigned.counts(is_there & is_marker & (rows["marker_type"] == kind))
            yield GroupOutcomes(outcome, assigned.ids, nothing, nothing, count)
        is_data = ~is_marker[chosen]
        events = [
            rows["producer_id"][chosen],
            np.where(is_data, _DATA, rows["marker_type"][chosen]),
            assigned.of_rows(rows.size)[chosen],
            rows["base_offset"][chosen],
            np.where(is_data, rows["size"][chosen], 0),
            np.where(is_data, np.maximum(rows["record_count"][chosen], 0), 0),
        ]
        yield from self.take(events)

    def take(self, events: _Events) -> Iterator[GroupOutcomes]:
        """Add what follows; gives outcomes that are known now."""
        self._new.append(events)
        self._new_rows += len(events[0])
        if self._new_rows > most_pending(len(self._kept[0])):
            yield from self.settle()

    def settle(self) -> Iterator[GroupOutcomes]:
        """The outcomes of all data that a marker in the run ends, and that were not given before."""
        if not self._new_rows:
            return
        events = [np.concatenate(column) for column in zip(self._kept, *self._new, strict=True)]
        self._new, self._new_rows = [], 0
        order = np.argsort(events[_PRODUCER], kind="stable")
        events = [column[order] for column in events]
        kind = events[_KIND]
        begins = _begins(events[_PRODUCER])
        ends = np.append(begins[1:], kind.size)
        # The next marker of the same producer.
        marker = np.where(kind == _DATA, kind.size, np.arange(kind.size))
        marker = np.minimum.accumulate(marker[::-1])[::-1]
        has_marker = marker < np.repeat(ends, ends - begins)
        is_ended = has_marker & (kind == _DATA)
        for number, outcome in _OUTCOME_OF.items():
            ended = np.flatnonzero(is_ended)
            yield from _outcomes(outcome, events, ended[kind[marker[ended]] == number])
        first_markers = marker[begins[has_marker[begins]]]
        self._kept = _summed(events, np.sort(np.append(first_markers, np.flatnonzero(~has_marker))))

    def events(self) -> Iterator[_Events]:
        """What another run takes in place of this one, if it follows there."""
        yield self._kept
        yield from self._new

    def with_groups(self, ids: NDArray[np.int64]) -> TransactionRun:
        """This run with other group ids."""
        mapped = TransactionRun()
        for events in self.events():
            mapped._new.append([*events[:_GROUP], ids[events[_GROUP]], *events[_GROUP + 1 :]])
            mapped._new_rows += len(events[0])
        return mapped

    def at_the_end(self, following: Callable[[int, int], str]) -> Iterator[GroupOutcomes]:
        """The outcomes of what no marker ends. ``following``: by producer and offset, see OutcomeAfter."""
        left = np.flatnonzero(self._kept[_KIND] == _DATA)
        producer = self._kept[_PRODUCER][left]
        begins = _begins(producer)
        first_offset = self._kept[_OFFSET][left[begins]]
        found = (
            OUTCOMES.index(following(int(each), int(offset)))
            for each, offset in zip(producer[begins], first_offset, strict=True)
        )
        outcome = np.repeat(np.fromiter(found, np.int8, begins.size), np.diff(begins, append=left.size))
        is_first = np.zeros(len(self._kept[_KIND]), np.int64)
        is_first[left[begins]] = 1
        for number, name in enumerate(OUTCOMES):
            yield from _outcomes(name, self._kept, left[outcome == number], is_first if name == OPEN else None)


def outcomes_of_runs(runs: Mapping[LogPlace, TransactionRun], following: OutcomeAfter) -> Iterator[GroupOutcomes]:
    """The outcomes that were not given before when the runs are joined in order."""
    for _, places in groupby(sorted(runs), key=attrgetter("directory")):
        joined = TransactionRun()
        for place in places:
            for events in runs[place].events():
                yield from joined.take(events)
        yield from joined.settle()
        yield from joined.at_the_end(partial(following, place.file))


def _begins(producer: NDArray[Any]) -> NDArray[np.intp]:
    """Where each producer begins among sorted ones."""
    return np.flatnonzero(np.diff(producer, prepend=~producer[:1]))


def _outcomes(
    outcome: str, events: _Events, rows: NDArray[np.intp], transactions: NDArray[np.int64] | None = None
) -> Iterator[GroupOutcomes]:
    """Some rows of the events, which have one outcome, by group; ``transactions``: of each event, None for none."""
    if not rows.size:
        return
    group = events[_GROUP][rows]
    order = np.argsort(group, kind="stable")
    first = np.flatnonzero(np.diff(group[order], prepend=-1))

    def sums(column: NDArray[Any]) -> NDArray[np.int64]:
        return np.add.reduceat(column[rows[order]], first, dtype=np.int64)

    groups = group[order[first]].astype(np.int64)
    count = np.zeros_like(groups) if transactions is None else sums(transactions)
    yield GroupOutcomes(outcome, groups, sums(events[_SIZE]), sums(events[_RECORDS]), count)


def _summed(events: _Events, rows: NDArray[np.intp]) -> _Events:
    """Some of the events, which are sorted by producer: the data of a producer in a group as one of them."""
    events = [column[rows] for column in events]
    keys = (events[_PRODUCER], events[_KIND], events[_GROUP])
    order = np.lexsort(keys[::-1])
    is_first = np.zeros(order.size, np.bool_)
    is_first[:1] = True
    for key in keys:
        is_first[1:] |= key[order[1:]] != key[order[:-1]]
    first = np.flatnonzero(is_first)
    # Each stays where its first batch is.
    begin = order[first]
    place = np.argsort(begin)
    summed = [column[begin[place]] for column in events]
    for number in (_SIZE, _RECORDS):
        summed[number] = np.add.reduceat(events[number][order], first, dtype=np.int64)[place]
    return summed
