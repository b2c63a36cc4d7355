"""The transactional id of a producer id, from the transaction coordinator's topic in the same log directory."""

from __future__ import annotations

import os
from functools import lru_cache

from kdump.codes import KdumpError
from kdump.log import files
from kdump.log.names import is_uri, parse_partition_directory
from kdump.payloads.topics import INTERNAL_TOPICS

_DECODER = "transaction-log"


def transactional_id(log_directory: str, producer_id: int) -> str | None:
    """The transactional id that has, or had last, a producer id; None if ``log_directory`` does not show it.

    Only partitions of __transaction_state in the log directory are read, once per process. In a store none is read.
    """
    return None if is_uri(log_directory) else _by_producer(files.absolute(log_directory)).get(producer_id)


@lru_cache(maxsize=4)
def _by_producer(log_directory: str) -> dict[int, str]:
    try:
        entries = files.listing(log_directory)
    except KdumpError:
        return {}
    topic = INTERNAL_TOPICS[_DECODER]
    folders = [(parse_partition_directory(entry.name), entry) for entry in entries if entry.is_directory]
    paths = sorted(entry.path for partition, entry in folders if partition is not None and partition[0] == topic)
    if not paths:
        return {}
    from kdump.verify.coordinators import coordinator_states
    from kdump.verify.partitionentries import PartitionEntries

    def ignore(error: KdumpError) -> None:
        """Ignore what cannot be read."""

    logs = PartitionEntries([os.fspath(path) for path in paths], on_error=ignore)
    found: dict[int, str] = {}
    for state in coordinator_states(logs, None, ignore):
        for row in state.rows:
            producer, name = row["producerId"], row["transactionalId"]
            if isinstance(producer, int) and isinstance(name, str):
                found[producer] = name
    return found
