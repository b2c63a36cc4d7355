"""The outcome of transactional batches, and how many transactions there are.

A producer's marker ends what the producer wrote since its previous marker. A run of batches keeps its first marker and
what no marker in it ends; at last the runs are joined in order (see ``order``).

Source: KIP-98; docs/spec/formats.md#6-indexes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kdump.format.batch import CONTROL, TRANSACTIONAL
from kdump.format.control import ABORT, COMMIT
from kdump.reading.outcomes import ABORTED, COMMITTED, OPEN
from kdump.stats.grouping import Assigned
from kdump.stats.places import RangeStart

OUTCOME_OF: Final = {COMMIT: COMMITTED, ABORT: ABORTED}
"""The outcome, by marker type."""

OutcomeAfter: TypeAlias = Callable[[str, int, int], str]
"""Returns the outcome of the batch at an offset, by file and producer: a marker may follow all that was read."""


class GroupOutcome(NamedTuple):
    """The outcome of batches of a group.

    ``transactions``: markers of the group; if the outcome is ``open``, transactions that began in it.
    """

    group: int
    outcome: str
    size: int = 0
    records: int = 0
    transactions: int = 0


@dataclass(slots=True)
class _Pending:
    """Batches before any marker: the first one's offset and group, (bytes, records) by group."""

    first_offset: int
    first_group: int
    sums: dict[int, tuple[int, int]] = field(default_factory=dict)

    def add(self, group: int, size: int, records: int) -> None:
        """Add batches."""
        before = self.sums.get(group, (0, 0))
        self.sums[group] = before[0] + size, before[1] + records

    def with_groups(self, ids: NDArray[np.int64]) -> _Pending:
        """These batches with other group ids."""
        mapped = _Pending(self.first_offset, int(ids[self.first_group]))
        for group, sums in self.sums.items():
            mapped.add(int(ids[group]), *sums)
        return mapped

    def followed_by(self, other: _Pending | None) -> _Pending:
        """These batches, then those of a later run."""
        joined = _Pending(self.first_offset, self.first_group, dict(self.sums))
        for group, sums in other.sums.items() if other is not None else ():
            joined.add(group, *sums)
        return joined

    def come_to(self, outcome: str) -> Iterator[GroupOutcome]:
        """These batches with their outcome, by group."""
        for group, (size, records) in self.sums.items():
            yield GroupOutcome(group, outcome, size, records)


@dataclass(slots=True)
class _ProducerRun:
    """One producer in a run: the outcome of its first marker, and what follows its last one."""

    first_outcome: str | None = None
    pending: _Pending | None = None


TRANSACTION_CLASSES: Final = (_Pending, _ProducerRun)
"""The classes inside of ``TransactionRun``."""


class TransactionRun:
    """The transactions of a range of a segment."""

    def __init__(self) -> None:
        self.producers: dict[int, _ProducerRun] = {}

    def see(self, rows: NDArray[np.void], assigned: Assigned) -> tuple[NDArray[np.int64], list[GroupOutcome]]:
        """Add the next valid rows of the batch table.

        Returns the marker type that ends the transaction of each row (rows,): markers end their own, and -1 means no
        transaction or no marker so far. Also returns the outcomes of earlier batches.
        """
        ended = np.full(rows.size, -1, np.int64)
        chosen = np.flatnonzero((rows["attributes"] & TRANSACTIONAL != 0) & (rows["magic"] >= 2))
        if not chosen.size:
            return ended, []
        # Sorted by producer, the batches of each in order.
        chosen = chosen[np.argsort(rows["producer_id"][chosen], kind="stable")]
        group = assigned.of_rows(rows.size)[chosen]
        rows = rows[chosen]
        producer_id, marker_type = rows["producer_id"], rows["marker_type"]
        is_control = rows["attributes"] & CONTROL != 0
        ends = np.flatnonzero(np.diff(producer_id, append=~producer_id[-1:])) + 1
        begins = np.append(0, ends[:-1])
        # The next marker of the same producer.
        is_marker = is_control & np.isin(marker_type, list(OUTCOME_OF))
        marker = np.where(is_marker, np.arange(rows.size), rows.size)
        marker = np.minimum.accumulate(marker[::-1])[::-1]
        has_marker = marker < np.repeat(ends, ends - begins)
        kind = np.where(has_marker, marker_type[np.minimum(marker, rows.size - 1)], -1)
        # A control batch whose marker cannot be read ends nothing and holds no data.
        ended[chosen] = np.where(is_control & ~is_marker, -1, kind)
        resolved = self._end(producer_id[begins], kind[begins])
        self._keep(rows, group, np.flatnonzero(~has_marker & ~is_control))
        return ended, resolved

    def _end(self, producer_id: NDArray[np.int64], first_kind: NDArray[np.int64]) -> list[GroupOutcome]:
        """End what is pending of producers whose first marker is one of ``first_kind``, -1 for none."""
        resolved: list[GroupOutcome] = []
        has_marker = first_kind >= 0
        for own_id, kind in zip(producer_id[has_marker].tolist(), first_kind[has_marker].tolist(), strict=True):
            producer = self.producers.setdefault(own_id, _ProducerRun())
            outcome = OUTCOME_OF[kind]
            if producer.first_outcome is None:
                producer.first_outcome = outcome
            if producer.pending is not None:
                resolved += producer.pending.come_to(outcome)
                producer.pending = None
        return resolved

    def _keep(self, rows: NDArray[np.void], group: NDArray[np.int64], left: NDArray[np.intp]) -> None:
        """Keep rows ``left`` (sorted by producer, in order) until their marker comes."""
        if not left.size:
            return
        producer_id, group = rows["producer_id"][left], group[left]
        order = np.lexsort((group, producer_id))
        is_first = np.ones(left.size, np.bool_)
        is_first[1:] = (np.diff(producer_id[order]) != 0) | (np.diff(group[order]) != 0)
        first = np.flatnonzero(is_first)
        sorted_rows = left[order]
        columns = (
            producer_id[order][first],
            group[order][first],
            np.add.reduceat(rows["size"][sorted_rows], first),
            np.add.reduceat(np.maximum(rows["record_count"][sorted_rows], 0).astype(np.int64), first),
        )
        begins = np.flatnonzero(np.diff(producer_id, prepend=~producer_id[:1]))
        beginning = dict(
            zip(
                producer_id[begins].tolist(),
                zip(rows["base_offset"][left[begins]].tolist(), group[begins].tolist(), strict=True),
                strict=True,
            )
        )
        for own_id, of_group, size, records in zip(*(column.tolist() for column in columns), strict=True):
            producer = self.producers.setdefault(own_id, _ProducerRun())
            if producer.pending is None:
                producer.pending = _Pending(*beginning[own_id])
            producer.pending.add(of_group, size, records)


@dataclass(slots=True)
class TransactionRuns:
    """All runs, by where they begin."""

    found: dict[RangeStart, TransactionRun] = field(default_factory=dict)

    def at(self, place: RangeStart) -> TransactionRun:
        """The run that begins at ``place``."""
        return self.found.setdefault(place, TransactionRun())

    def merge(self, other: TransactionRuns, ids: NDArray[np.int64]) -> None:
        """Merge other runs; ``ids``: the ids here of their groups."""
        for place, run in other.found.items():
            mapped = self.found[place] = TransactionRun()
            for producer_id, producer in run.producers.items():
                pending = None if producer.pending is None else producer.pending.with_groups(ids)
                mapped.producers[producer_id] = _ProducerRun(producer.first_outcome, pending)

    def outcomes(self, following: OutcomeAfter) -> Iterator[GroupOutcome]:
        """The outcomes of the pending batches when the runs are joined in order."""
        last: RangeStart | None = None
        open_now: dict[int, _Pending] = {}
        for place in sorted(self.found):
            if last is not None and place.directory != last.directory:
                yield from _at_the_end(last, open_now, following)
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
            yield from _at_the_end(last, open_now, following)


def _at_the_end(last: RangeStart, left: dict[int, _Pending], following: OutcomeAfter) -> Iterator[GroupOutcome]:
    for producer_id, pending in left.items():
        outcome = following(last.file, producer_id, pending.first_offset)
        yield from pending.come_to(outcome)
        if outcome == OPEN:
            yield GroupOutcome(pending.first_group, OPEN, transactions=1)
