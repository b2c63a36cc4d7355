"""Groups and transactions of the partitions that paths stand for."""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import NamedTuple

from kdump.codes import OnError
from kdump.kafka.coordinators import DEFAULT_PARTITIONS
from kdump.kafka.coordinatorstate import OFFSETS
from kdump.kafka.image.names import TopicNames
from kdump.kafka.remotesegments import REMOTE_METADATA
from kdump.log.names import CLUSTER_METADATA
from kdump.rows.schema import Row
from kdump.state.groups import lag, open_transaction_rows, with_topic_names
from kdump.stats.reach import is_internal, reaches
from kdump.verify.coordinators import STATE_TOPICS, PartitionState, coordinator_states
from kdump.verify.partitionentries import Partition, PartitionEntries


class KnownTopics(NamedTuple):
    """What the metadata tells: names of topics, and how many partitions the transaction coordinators' topic has."""

    names: TopicNames
    coordinators: int | None = None


def coordinator_rows(
    logs: PartitionEntries,
    at: int | None,
    topics: KnownTopics,
    note: Callable[[str], None],
    on_error: OnError,
) -> Iterator[tuple[str, Collection[Row]]]:
    """(type, rows) of groups and their committed offsets, of transactional ids, and of open transactions.

    Args:
        logs: of the paths.
        at: ms since 1970; None: now.
        topics: what the metadata tells of them.
        note: takes what a reader should know.
        on_error: takes what cannot be read.
    """
    states: list[PartitionState] = []
    for state in coordinator_states(logs, at, on_error):
        for text in state.notes:
            note(f"{state.partition.name}: {text}")
        states.append(state)
    plain = [partition for partition in logs.partitions if not is_internal(partition)]
    found = {(reach.topic, reach.partition): reach for reach in reaches(plain, at, on_error)} if states else {}
    # Those of each partition are sorted.
    groups = list(heapq.merge(*(_named(state, topics) for state in states), key=lambda row: str(row["group"])))
    if groups:
        yield "group", groups
    commits = [state for state in states if state.decoder == OFFSETS]
    if commits:
        yield "committedOffset", [row | lag(row, found) for state in commits for row in state.rows]
    known = [row for state in states if state.decoder != OFFSETS for row in state.rows]
    if len(commits) < len(states):
        yield "transactionalId", known
    here = len(states) - len(commits)
    count = topics.coordinators or DEFAULT_PARTITIONS
    now = int(time.time() * 1000) if at is None else at
    transactions = {one.producer_id: one for state in states for one in state.transactions}
    rows = list(open_transaction_rows(found.values(), known, transactions, now, is_whole=here >= count))
    if rows:
        yield "openTransaction", rows


def _named(state: PartitionState, topics: KnownTopics) -> Iterator[Row]:
    """The groups of a partition, with names of topics."""
    name_of = partial(topics.names.of, place=state.partition.directory)
    return (with_topic_names(row, name_of) for row in state.groups)


def has_own_state(partition: Partition) -> bool:
    """The partition is of a topic whose state is shown in words of its own."""
    return partition.logs[0].context.topic in (*STATE_TOPICS, CLUSTER_METADATA, REMOTE_METADATA)
