"""Groups and transactions with the logs of their partitions: lag, and transactions that are open or hanging."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from kdump.kafka.transactionends import CoordinatedTransaction, may_be_committed
from kdump.stats.reach import PartitionReach

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
