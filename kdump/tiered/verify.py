"""Answers of remote storage to ``verify``: what is wrong with the segments of a bucket, and with the bucket."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace

from kdump.codes import Finding
from kdump.format.checkpoint import LEADER_EPOCH_CHECKPOINT
from kdump.kafka.remotesegments import TopicPartitionId
from kdump.log.siblings import read_leader_epochs
from kdump.tiered.audit import Audit, LocalLog
from kdump.tiered.mount import store_of
from kdump.tiered.store import TierStore, local_extent
from kdump.verify.partition import Item
from kdump.verify.segment import CheckOptions


def checked(path: str, items: Iterator[Item], options: CheckOptions) -> Iterator[Item]:
    """See ``WorldStoreChecks``. What a broker has in a log directory is checked by itself, and left out here."""
    store = store_of(path)
    known = store.known
    for item in items:
        segment_id = None if item.path is None else store.segment_of(item.path)
        if segment_id is None and store.log_directory is not None:
            continue
        yield replace(item, segment_id=segment_id) if isinstance(item, Finding) else item
    directory = path.removeprefix(store.root).strip("/").partition("/")[0]
    only = store.partitions.get(directory)
    if not directory or only is not None:
        yield from Audit(store.bucket, known, deep=options.deep).findings(_local_logs(store), only)


def _local_logs(store: TierStore) -> Mapping[TopicPartitionId, LocalLog]:
    """What a broker has of each partition."""
    found = {}
    if store.log_directory is not None:
        for name, owner in store.partitions.items():
            directory = os.path.join(store.log_directory, name)
            if os.path.isdir(directory):
                first, end = local_extent(directory)
                epochs = read_leader_epochs(os.path.join(directory, LEADER_EPOCH_CHECKPOINT))
                found[owner] = LocalLog(store.start_offset(f"{store.root}/{name}"), first, end, epochs)
    return found
