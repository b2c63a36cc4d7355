"""What the logs of transaction coordinators that are at hand tell of transactions, and what they cannot tell.

The coordinator of a transactional id is the leader of one partition of ``__transaction_state``. Only that one knows it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property, lru_cache

from kdump.codes import Finding, KdumpError
from kdump.kafka.coordinatorstate import TRANSACTION_LOG, CoordinatorState, Undecoded
from kdump.kafka.transactionends import CoordinatedTransaction, CoordinatorAnswer, Ending, ending_of, not_at_hand
from kdump.log import files
from kdump.log.names import is_uri, parse_partition_directory
from kdump.payloads.topics import INTERNAL_TOPICS
from kdump.verify.partitionentries import Partition, PartitionEntries
from kdump.verify.reach import PartitionEvidence

_TOPIC = INTERNAL_TOPICS[TRANSACTION_LOG]


class TransactionCoordinators:
    """What partitions of ``__transaction_state`` tell. They are read when the first question comes.

    Args:
        directories: of the partitions. Of several copies of one, that with the newest value of an id counts.
    """

    def __init__(self, directories: Iterable[str] = ()) -> None:
        self._directories = directories
        self._numbers: list[int] = []
        self._damaged: set[str] = set()

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
        named = ", ".join(map(str, self._numbers))
        why = f"of {_TOPIC} only partition {named} is at hand, which does not know its producer"
        return CoordinatorAnswer(Ending.UNKNOWN, why)

    @cached_property
    def _by_producer(self) -> Mapping[int, tuple[CoordinatedTransaction, str | None]]:
        """The newest value of each id by its producer id, and why newer ones may be lost."""
        directories = list(self._directories)
        if not directories:
            return {}
        logs = PartitionEntries(directories, on_error=_ignore, on_damage=self._note_damage)
        newest: dict[str, tuple[CoordinatedTransaction, str | None]] = {}
        for partition in logs.partitions:
            self._numbers = sorted({*self._numbers, partition.logs[0].context.partition or 0})
            state, lost = self._read(logs, partition)
            for known in state.transactions():
                before = newest.get(known.transactional_id)
                if before is None or before[0].offset < known.offset:
                    newest[known.transactional_id] = known, lost
        # Whoever has a producer id now comes last.
        by_producer = {found[0].previous_producer_id: found for found in newest.values()}
        return by_producer | {found[0].producer_id: found for found in newest.values()}

    def _note_damage(self, path: str, finding: Finding) -> None:
        self._damaged.add(files.directory_of(path))

    def _read(self, logs: PartitionEntries, partition: Partition) -> tuple[CoordinatorState, str | None]:
        """The state of a partition, and why newer records may be lost."""
        state, end = CoordinatorState(TRANSACTION_LOG, None, Undecoded()), 0
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


def coordinators_in(*log_directories: str) -> TransactionCoordinators:
    """Those whose logs lie in some log directories; none are read in a store."""
    return TransactionCoordinators(one for place in log_directories if not is_uri(place) for one in _directories(place))


@lru_cache(maxsize=4)
def coordinators_beside(log_directory: str) -> TransactionCoordinators:
    """Those in one log directory. Its thousands of partitions ask, so that they are read once per process."""
    return coordinators_in(log_directory)


def _directories(log_directory: str) -> Iterable[str]:
    """The partitions of the coordinators' topic in a log directory."""
    try:
        entries = [entry for entry in files.listing(log_directory) if entry.is_directory]
    except KdumpError:
        return ()
    return sorted(entry.path for entry in entries if (parse_partition_directory(entry.name) or ("", 0))[0] == _TOPIC)
