"""What the coordinator of a transaction that is open in a partition would write there: the one place of these rules.

A coordinator keeps the newest value of each transactional id, and acts on that alone after its start.

- PrepareCommit and PrepareAbort: the outcome is decided. The coordinator writes the markers that may be missing, again
  too, into the partitions that the value names.
- Ongoing: it aborts the transaction after its timeout. PrepareEpochFence leads to nothing else.
- CompleteCommit and CompleteAbort: all markers were written. The value names no partitions any more, so only the epoch
  tells that it is about this transaction. Before KIP-890 all transactions of a producer have one epoch: then it may be
  about the one before, and nobody can know.
- Empty and Dead: no transaction.

A broker refuses a marker with a lower epoch than the batches have. Of a client with KIP-890 (transaction version 2) the
epoch of PrepareCommit and of PrepareAbort is one above that of the batches. Where that was the last epoch, the Complete
value has the next producer id.

Source: docs/spec/repair.md#41-the-log-of-the-coordinator; TransactionMetadata (prepareAbortOrCommit, prepareComplete),
TransactionStateManager (loadTransactionMetadata) and TransactionCoordinator (abortTimedOutTransactions) of Kafka 4.3.1;
KIP-98, KIP-890.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

_LAST_EPOCH: Final = 2**15 - 2
"""Of a batch. The one above is for its marker."""


class Ending(Enum):
    """What a coordinator does about a transaction."""

    COMMIT = "commit"
    ABORT = "abort"
    TIMEOUT = "timeout"
    """It is not decided yet, and aborted after its timeout."""
    UNKNOWN = "unknown"
    """Nobody can know whether it was committed."""


class CoordinatedTransaction(NamedTuple):
    """The newest value of a transactional id.

    Attributes:
        transactional_id: its name.
        state: org.apache.kafka.coordinator.transaction.TransactionState.
        producer_id: the one that it has.
        previous_producer_id: the one that it had before this value was written; -1: not known.
        producer_epoch: of the next marker; in other states than Prepare ones of the next batch.
        raises_epochs: the client was one with KIP-890.
        partitions: ``topic-partition`` of each in the transaction.
        offset: of the record in the coordinator's log.
    """

    transactional_id: str
    state: object
    producer_id: int
    previous_producer_id: int
    producer_epoch: int
    raises_epochs: bool
    partitions: frozenset[object]
    offset: int


class CoordinatorAnswer(NamedTuple):
    """What becomes of a transaction. ``transactional_id``: None where no coordinator at hand knows the producer."""

    ending: Ending
    why: str
    transactional_id: str | None = None
    is_complete: bool = False
    """All markers were written, and the one of this partition is lost."""

    def __str__(self) -> str:
        if self.is_complete:
            what = "committed" if self.ending is Ending.COMMIT else "aborted"
            return f"it was {what} ({self.why}), and the marker is lost"
        return _TEXTS[self.ending].format(self.why)

    @property
    def whose(self) -> str:
        """Whose transaction it is, in words after "the transaction"."""
        return "" if self.transactional_id is None else f" of transactional id '{self.transactional_id}'"


EndingOf: TypeAlias = Callable[[int, int], CoordinatorAnswer]
"""Returns what becomes of a transaction that is open in a partition, by producer id and epoch."""


def not_at_hand(producer_id: int, epoch: int) -> CoordinatorAnswer:
    """The answer where nobody can be asked."""
    return CoordinatorAnswer(Ending.UNKNOWN, "no partition of __transaction_state is at hand")


_TEXTS: Final = {
    Ending.COMMIT: "its coordinator commits it ({})",
    Ending.ABORT: "its coordinator aborts it ({})",
    Ending.TIMEOUT: "its coordinator aborts it after its timeout ({})",
    Ending.UNKNOWN: "nobody can know whether it was committed: {}",
}
_PREPARED: Final = {
    "PrepareCommit": Ending.COMMIT,
    "PrepareAbort": Ending.ABORT,
    "Ongoing": Ending.TIMEOUT,
    "PrepareEpochFence": Ending.TIMEOUT,
}
_COMPLETE: Final = {"CompleteCommit": Ending.COMMIT, "CompleteAbort": Ending.ABORT}


def ending_of(
    known: CoordinatedTransaction, producer_id: int, epoch: int, partition: str, lost: str | None
) -> CoordinatorAnswer:
    """What the coordinator would write for a transaction that is open in a partition.

    Args:
        known: what the log of the coordinator tells of the transactional id with this producer id.
        producer_id: of the transaction.
        epoch: of its newest batch.
        partition: ``topic-partition``.
        lost: why records of that log may be lost that come after ``known``; None: none are known to be.
    """
    prepared = _PREPARED.get(str(known.state))
    complete = _COMPLETE.get(str(known.state))
    newest = known.producer_epoch - (complete is not None and known.raises_epochs)
    if known.producer_id != producer_id:
        is_next = known.producer_epoch == 0 and known.raises_epochs
        ending = complete if is_next and epoch == _LAST_EPOCH else None
    elif complete is not None:
        ending = complete if epoch == newest else None
    else:
        ending = prepared if partition in known.partitions and epoch <= newest else None
    # Without KIP-890 the value may be about the transaction before.
    is_certain = known.raises_epochs and ending is not Ending.TIMEOUT
    if ending is not None and (is_certain or (lost is None and complete is None)):
        return CoordinatorAnswer(ending, str(known.state), known.transactional_id, complete is not None)
    if ending is not None:
        why = lost or "that may be about the transaction before, which had the same epoch"
    elif known.producer_id == producer_id and (epoch > newest or (epoch == newest and prepared is None)):
        why = "the log of its coordinator ends before it began"
    else:
        why = "that tells nothing of this transaction"
    why = f"its coordinator knows {known.state} with epoch {known.producer_epoch}, and {why}"
    return CoordinatorAnswer(Ending.UNKNOWN, why, known.transactional_id)


def may_be_committed(known: CoordinatedTransaction, producer_id: int, epoch: int, partition: str) -> bool:
    """Whether a transaction that is open in a partition may be one that its coordinator has committed."""
    is_of_epoch = known.producer_id == producer_id and known.producer_epoch == epoch and not known.raises_epochs
    if known.state == "CompleteCommit" and is_of_epoch:
        return True
    return ending_of(known, producer_id, epoch, partition, None).ending is Ending.COMMIT
