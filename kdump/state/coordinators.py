"""Groups and transactions of the partitions that paths stand for."""

from __future__ import annotations

import heapq
import shlex
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final

from kdump.codes import OnError
from kdump.kafka.coordinators import DEFAULT_PARTITIONS
from kdump.kafka.coordinatorstate import OFFSETS
from kdump.kafka.image.names import TopicNames
from kdump.kafka.remotesegments import REMOTE_METADATA
from kdump.kafka.transactionends import CoordinatedTransaction, may_be_committed
from kdump.log.names import CLUSTER_METADATA
from kdump.rows.columns import Row
from kdump.stats.reach import PartitionReach, is_internal, reaches
from kdump.verify.coordinators import STATE_TOPICS, PartitionState, coordinator_states
from kdump.verify.partitionentries import Partition, PartitionEntries


def coordinator_rows(
    logs: PartitionEntries,
    at: int | None,
    names: TopicNames,
    coordinators: int | None,
    *,
    note: Callable[[str], None],
    on_error: OnError,
) -> Iterator[tuple[str, Collection[Row]]]:
    """(type, rows) of groups and their committed offsets, of transactional ids, and of open transactions.

    Args:
        logs: of the paths.
        at: ms since 1970; None: now.
        names: of topics.
        coordinators: how many partitions the transaction coordinators' topic has; None: as by default.
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
    groups = list(heapq.merge(*(_named(state, names) for state in states), key=lambda row: str(row["group"])))
    if groups:
        yield "group", groups
    commits = [state for state in states if state.decoder == OFFSETS]
    if commits:
        yield "committedOffset", [row | lag(row, found) for state in commits for row in state.rows]
    known = [row for state in states if state.decoder != OFFSETS for row in state.rows]
    if len(commits) < len(states):
        yield "transactionalId", known
    here = len(states) - len(commits)
    count = coordinators or DEFAULT_PARTITIONS
    now = int(time.time() * 1000) if at is None else at
    transactions = {one.producer_id: one for state in states for one in state.transactions}
    rows = list(open_transaction_rows(found.values(), known, transactions, now, is_whole=here >= count))
    if rows:
        yield "openTransaction", rows


def _named(state: PartitionState, names: TopicNames) -> Iterator[Row]:
    """The groups of a partition, with names of topics."""
    name_of = partial(names.of, place=state.partition.directory)
    return (with_topic_names(row, name_of) for row in state.groups)


def has_own_state(partition: Partition) -> bool:
    """The partition is of a topic whose state is shown in words of its own."""
    return partition.logs[0].context.topic in (*STATE_TOPICS, CLUSTER_METADATA, REMOTE_METADATA)


_ACTIVE: Final = frozenset({"Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence"})
"""States of a transactional id whose transaction has no marker yet in all partitions."""


def lag(row: Mapping[str, Any], reaches: Mapping[tuple[str, int], PartitionReach]) -> dict[str, Any]:
    """Start and end of the log of a committed offset, which are null where the partition is not here."""
    reach = reaches.get((row["topic"], row["partition"]))
    if reach is None:
        return {"logStartOffset": None, "logEndOffset": None, "lag": None, "isOutOfRange": None}
    return {
        "logStartOffset": reach.log_start,
        "logEndOffset": reach.log_end,
        "lag": reach.log_end - row["offset"],
        "isOutOfRange": not reach.log_start <= row["offset"] <= reach.log_end,
    }


def with_topic_names(row: Mapping[str, Any], name_of: Callable[[str], str | None]) -> dict[str, Any]:
    """A group whose members' partitions have names in place of topic ids, where ``name_of`` knows them."""
    members = []
    for member in row["members"]:
        shown = []
        for partition in member["assignment"]:
            topic, _, number = partition.rpartition("-")
            shown.append(f"{name_of(topic) or topic}-{number}")
        members.append({**member, "assignment": sorted(shown)})
    return {**row, "members": members}


def open_transaction_rows(
    reaches: Iterable[PartitionReach],
    coordinators: Iterable[Mapping[str, Any]],
    transactions: Mapping[int, CoordinatedTransaction],
    now: int,
    *,
    is_whole: bool,
) -> Iterator[dict[str, Any]]:
    """The transactions that are open in the logs.

    Args:
        reaches: the partitions.
        coordinators: the transactional ids that the coordinators know.
        transactions: the same by producer id. One that its coordinator may have committed must not be aborted.
        now: ms since 1970, for the duration.
        is_whole: all partitions of the coordinators' topic are here, so that what is not in them is known to nobody.
    """
    reaches = list(reaches)
    open_producers = {producer for reach in reaches for producer in reach.open}
    by_producer = {row["producerId"]: row for row in coordinators if row["producerId"] in open_producers}
    for reach in reaches:
        name = f"{reach.topic}-{reach.partition}"
        for found in sorted(reach.open.values(), key=lambda found: found.first_offset):
            known = by_producer.get(found.producer_id)
            is_known: bool | None = None
            if known is not None:
                is_known = known["state"] in _ACTIVE and name in known["partitions"]
            elif is_whole:
                is_known = False
            own = transactions.get(found.producer_id)
            is_committed = own is not None and may_be_committed(own, found.producer_id, found.producer_epoch, name)
            start = found.timestamp
            if start is None and known is not None and is_known:
                start = known["transactionStartTimestamp"]
            yield {
                "topic": reach.topic,
                "partition": reach.partition,
                "producerId": found.producer_id,
                "producerEpoch": found.producer_epoch,
                "firstOffset": found.first_offset,
                "startTimestamp": start,
                "durationMs": None if start is None else now - start,
                "transactionalId": None if known is None else known["transactionalId"],
                "isKnown": is_known,
                "abort": abort_command(reach, found.first_offset) if is_known is False and not is_committed else None,
            }


def abort_command(reach: PartitionReach, first_offset: int) -> str:
    """The command that ends a hanging transaction, for a shell in which SERVER is the address of a broker."""
    options = f"--topic {shlex.quote(reach.topic)} --partition {reach.partition} --start-offset {first_offset}"
    return f'kafka-transactions.sh --bootstrap-server "$SERVER" abort {options}'
