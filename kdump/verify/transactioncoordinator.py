"""What the logs of transaction coordinators that are at hand tell of transactions, and what they cannot tell.

The coordinator of a transactional id is the leader of one partition of ``__transaction_state``. Only that one knows it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache, lru_cache, partial

from kdump.codes import Finding, KdumpError
from kdump.inputs import PathDirectory
from kdump.kafka.coordinatorstate import TRANSACTION_LOG, CoordinatorState
from kdump.kafka.startup.logdirectory import DELETE, FUTURE, STRAY, parse_folder
from kdump.kafka.transactionends import (
    CoordinatedTransaction,
    CoordinatorAnswer,
    Ending,
    EndingOf,
    ending_of,
    not_at_hand,
)
from kdump.log import files
from kdump.log.files import FileState
from kdump.log.named import ListingEntry
from kdump.log.names import is_uri
from kdump.log.partition import topic_directories
from kdump.payloads.topics import INTERNAL_TOPICS
from kdump.verify.partitionentries import Partition, PartitionEntries
from kdump.verify.reach import PartitionEvidence

_TOPIC = INTERNAL_TOPICS[TRANSACTION_LOG]


class TransactionCoordinators:
    """What partitions of ``__transaction_state`` tell.

    Args:
        directories: of the partitions. Of several copies of one, that with the newest value of an id counts.
    """

    def __init__(self, directories: Sequence[str]) -> None:
        self._damaged: set[str] = set()
        self._numbers: set[int] = set()
        logs = PartitionEntries([*map(PathDirectory, directories)], on_error=_ignore, on_damage=self._note_damage)
        newest: dict[str, tuple[CoordinatedTransaction, str | None]] = {}
        for partition in logs.partitions:
            self._numbers.add(partition.logs[0].context.partition or 0)
            state, lost = self._read(logs, partition)
            for known in state.transactions():
                before = newest.get(known.transactional_id)
                if before is None or before[0].offset < known.offset:
                    newest[known.transactional_id] = known, lost
        # Each value, and why newer ones may be lost. Whoever has a producer id now comes last.
        self._by_producer = {found[0].previous_producer_id: found for found in newest.values()}
        self._by_producer |= {found[0].producer_id: found for found in newest.values()}

    def transactional_id(self, producer_id: int) -> str | None:
        """The transactional id that has, or had last, a producer id; None if that is not known."""
        found = self._by_producer.get(producer_id)
        return None if found is None else found[0].transactional_id

    def ending(self, producer_id: int, epoch: int, topic: str, partition: int) -> CoordinatorAnswer:
        """What the coordinator would write for a transaction that is open in a partition; see ``ending_of``."""
        found = self._by_producer.get(producer_id)
        if found is not None:
            known, lost = found
            return ending_of(known, producer_id, epoch, f"{topic}-{partition}", lost)
        if not self._numbers:
            return not_at_hand(producer_id, epoch)
        named = ", ".join(map(str, sorted(self._numbers)))
        why = f"of {_TOPIC} only partition {named} is at hand, which does not know its producer"
        return CoordinatorAnswer(Ending.UNKNOWN, why)

    def _note_damage(self, path: str, finding: Finding) -> None:
        self._damaged.add(files.directory_of(path))

    def _read(self, logs: PartitionEntries, partition: Partition) -> tuple[CoordinatorState, str | None]:
        """The state of a partition, and why newer records may be lost."""
        state, end = CoordinatorState(TRANSACTION_LOG, None), 0
        lost = None
        for log in partition.logs:
            try:
                for entries in logs.of(log):
                    state.update(entries)
                    end = max(end, int(entries.extents(slice(-1, None))[1][0]) + 1)
            except KdumpError:
                lost = f"{log.path} cannot be read"
        if any(files.directory_of(log.context.file) in self._damaged for log in partition.logs):
            lost = f"{partition.name} is damaged"
        evidence = PartitionEvidence.of_directory(partition.directory)
        for witness in evidence.believed(evidence.ends(end), end)[:1]:
            lost = f"{partition.name} ends at offset {end}, and reached {witness.end_offset} ({witness.file})"
        return state, lost


def _ignore(error: KdumpError) -> None:
    """Ignore what cannot be read: it is not at hand."""


def coordinators_of(directory: str, *others: str) -> TransactionCoordinators:
    """Those whose logs lie in the log directory of a partition, or in other log directories; none in a store.

    What a broker has put aside (-stray) is of another cluster than what it made anew beside it, and both count their
    producers from 0.
    """
    path = files.absolute(directory)
    log_directories = dict.fromkeys((files.directory_of(path), *map(files.absolute, others)))
    partitions = [
        partition
        for log_directory in log_directories
        if not is_uri(log_directory)
        for partition in topic_directories(log_directory, _TOPIC)
        if partition.endswith(STRAY) == path.endswith(STRAY) and not partition.endswith((DELETE, FUTURE))
    ]
    return _coordinators(tuple((one, tuple(map(_state, _listing(one)))) for one in partitions))


def ending_beside(directory: str, *others: str) -> EndingOf:
    """What the coordinators would do about transactions that are open in a partition; see ``coordinators_of``.

    They are asked for when the first question comes.
    """
    folder = parse_folder(os.path.basename(files.absolute(directory)))
    if folder is None:
        return not_at_hand
    coordinators = cache(partial(coordinators_of, directory, *others))
    return lambda producer_id, epoch: coordinators().ending(producer_id, epoch, *folder[0])


@lru_cache(maxsize=4)
def _coordinators(partitions: tuple[tuple[str, tuple[object, ...]], ...]) -> TransactionCoordinators:
    """Thousands of partitions ask. Partitions with other states of their files are read again."""
    return TransactionCoordinators([path for path, _ in partitions])


def _state(entry: ListingEntry) -> tuple[str, FileState | None]:
    return entry.name, files.file_state(entry.path)


def _listing(directory: str) -> list[ListingEntry]:
    try:
        return sorted(files.listing(directory), key=lambda entry: entry.path)
    except KdumpError:
        return []
