"""The state of coordinators at a point in time, read from the partitions of their topics."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from kdump.codes import KdumpError, OnError
from kdump.kafka.coordinatorstate import OFFSETS, TRANSACTION_LOG, CoordinatorState
from kdump.kafka.transactionends import CoordinatedTransaction, EndingOf
from kdump.payloads.topics import INTERNAL_TOPICS
from kdump.rows.columns import Row
from kdump.verify.partitionentries import Partition, PartitionEntries

STATE_TOPICS: Final = {INTERNAL_TOPICS[name]: name for name in (OFFSETS, TRANSACTION_LOG)}


@dataclass(frozen=True, slots=True)
class PartitionState:
    """The state of one partition.

    ``decoder``: OFFSETS or TRANSACTION_LOG. ``notes``: what a reader should know. ``groups``: those of OFFSETS.
    ``transactions``: those of TRANSACTION_LOG.
    """

    partition: Partition
    decoder: str
    rows: list[Row]
    notes: list[str]
    groups: list[Row]
    transactions: tuple[CoordinatedTransaction, ...]


def coordinator_states(
    logs: PartitionEntries,
    at: int | None,
    on_error: OnError,
    ending: Callable[[str], EndingOf] | None = None,
) -> Iterator[PartitionState]:
    """The state of each partition of a coordinator's topic at a time (ms since 1970); other topics are left out.

    ``ending``: by its directory, what ends the transactions that are open in a partition; None: they stay open.
    """
    for partition in logs.partitions:
        decoder = STATE_TOPICS.get(partition.logs[0].context.topic or "")
        if decoder is None:
            continue
        state = CoordinatorState(decoder, at)
        for log in partition.logs:
            try:
                for entries in logs.of(log):
                    state.update(entries)
            except KdumpError as error:
                on_error(error.located(log.context.file))
        if ending is not None:
            state.end_transactions(ending(partition.directory))
        rows, groups = list(state.rows()), list(state.groups())
        transactions = tuple(state.transactions()) if decoder == TRANSACTION_LOG else ()
        yield PartitionState(partition, decoder, rows, list(_notes(state)), groups, transactions)


def _notes(state: CoordinatorState) -> Iterator[str]:
    if state.first_undecoded is not None:
        offset, error = state.first_undecoded
        more = f" (and {state.undecoded - 1:,} more)" if state.undecoded > 1 else ""
        yield f"offset {offset}: {error.code.value.code} {error.message}{more}"
    if state.open_transactions:
        yield f"{state.open_transactions:,} transactions were open, what they committed does not count"
    if state.later:
        yield f"{state.later:,} later records were passed over; compaction may have taken what they replaced"
