"""Outcomes of transactions: what markers end, however the log is cut, and the memory of very many of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from kdump.format.batch import CONTROL, TRANSACTIONAL
from kdump.format.control import ABORT, COMMIT
from kdump.reading.outcomes import ABORTED, COMMITTED, OPEN
from kdump.stats import tally
from kdump.stats.grouping import Groups
from kdump.stats.order import LogPlace
from kdump.stats.transactions import GroupOutcomes, TransactionRun, outcomes_of_runs
from kdump.verify.table import NO_MARKER, row_dtype

UNREADABLE = -2
"""A control batch without a marker that can be read."""
DATA = -1
GROUPS = 3


class Event(NamedTuple):
    """A batch of a producer: data, a marker of a type, or UNREADABLE."""

    producer: int
    kind: int
    group: int


EVENTS = st.lists(
    st.builds(
        Event, st.integers(0, 3), st.sampled_from([DATA, DATA, DATA, ABORT, COMMIT, UNREADABLE]), st.integers(0, 2)
    )
)
"""The batches of a chunk."""


def table(events: list[Event], first: int) -> NDArray[np.void]:
    """Rows of the batch table; the offset and the size of each are its number in the log."""
    rows = np.zeros(len(events), row_dtype())
    rows["magic"] = 2
    rows["base_offset"] = rows["size"] = np.arange(first, first + len(events))
    rows["record_count"] = 2
    for row, event in zip(rows, events, strict=True):
        row["producer_id"] = event.producer
        row["attributes"] = TRANSACTIONAL | (0 if event.kind == DATA else CONTROL)
        row["marker_type"] = event.kind if event.kind in (ABORT, COMMIT) else NO_MARKER[0]
    return rows


def counted(found: Iterable[GroupOutcomes]) -> Counter[tuple[str, int, str]]:
    """The sums by outcome, group and what they are of."""
    sums: Counter[tuple[str, int, str]] = Counter()
    for outcome, groups, *columns in found:
        assert len(set(groups.tolist())) == len(groups)
        for name, column in zip(("size", "records", "transactions"), columns, strict=True):
            sums.update({(outcome, group, name): int(n) for group, n in zip(groups.tolist(), column, strict=True)})
    return +sums


def following(file: str, producer: int, offset: int) -> str:
    """What becomes of an open transaction after the log depends on the offset where it begins."""
    return (COMMITTED, ABORTED, OPEN, OPEN)[offset % 4]


def expected(events: list[Event]) -> Counter[tuple[str, int, str]]:
    """One batch after the other."""
    sums: Counter[tuple[str, int, str]] = Counter()
    pending: dict[int, list[tuple[int, int]]] = {}

    def end(batches: list[tuple[int, int]], outcome: str) -> None:
        for number, group in batches:
            sums.update({(outcome, group, "size"): number, (outcome, group, "records"): 2})

    for number, (producer, kind, group) in enumerate(events, 1):
        if kind == DATA:
            pending.setdefault(producer, []).append((number, group))
        elif kind != UNREADABLE:
            outcome = {ABORT: ABORTED, COMMIT: COMMITTED}[kind]
            end(pending.pop(producer, []), outcome)
            sums[outcome, group, "transactions"] += 1
    for producer, batches in pending.items():
        outcome = following("", producer, batches[0][0])
        end(batches, outcome)
        sums[OPEN, batches[0][1], "transactions"] += outcome == OPEN
    return +sums


@given(st.lists(st.lists(EVENTS, max_size=4), max_size=4), st.sampled_from([1, 1 << 15]))
def test_outcomes_do_not_depend_on_chunks_and_logs(runs: list[list[list[Event]]], few: int) -> None:
    """The runs of a partition, each seen in some chunks and merged with other numbers of the groups."""
    found, numbered = [], 1
    whole = {}
    groups = Groups()
    ids = np.array([2, 0, 1])
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(tally, "_FEW_ROWS", few)
        for position, chunks in enumerate(runs):
            run = TransactionRun()
            for events in filter(None, chunks):
                groups.assign(np.arange(GROUPS))
                assigned = groups.assign(np.array([event.group for event in events]))
                found += [one._replace(groups=ids[one.groups]) for one in run.see(table(events, numbered), assigned)]
                numbered += len(events)
            whole[LogPlace("t-0", position, f"t-0/{position}.log")] = run.with_groups(ids)
        found += outcomes_of_runs(whole, following)
    events = [event for chunks in runs for chunk in chunks for event in chunk]
    assert counted(found) == expected([event._replace(group=int(ids[event.group])) for event in events])
