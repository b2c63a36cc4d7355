"""Answers of remote storage to ``verify``: what is wrong with the segments of a bucket, and with the bucket."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import Final

from kdump.codes import Codes, Finding, Severity
from kdump.format.checkpoint import LEADER_EPOCH_CHECKPOINT
from kdump.kafka.remotesegments import TopicPartitionId
from kdump.log import files
from kdump.log.names import INDEX_KINDS, base_of, parse_file_name
from kdump.log.siblings import read_leader_epochs
from kdump.tiered.audit import Audit, LocalLog
from kdump.tiered.mount import store_of
from kdump.tiered.store import TierStore, local_extent
from kdump.verify.partition import Item
from kdump.verify.segment import CheckOptions

_AFTER_A_LOSS: Final = frozenset(
    {Codes.SEGMENT_MISSING, Codes.SEQUENCE_GAP, Codes.PRODUCER_EPOCH_BACKWARDS, Codes.MARKER_WITHOUT_TRANSACTION}
)
"""What is found after a segment that cannot be read, because of that."""


def checked(path: str, items: Iterator[Item], options: CheckOptions) -> Iterator[Item]:
    """See ``WorldStoreChecks``."""
    store = store_of(path)
    known = store.known
    lost = cache(lambda directory: _first_lost(store, directory))
    for item in items:
        if isinstance(item, Finding):
            finding = _of_segment(item, store)
            directory = os.path.dirname(item.path or "")
            if finding is not None and not (item.code in _AFTER_A_LOSS and base_of(item.path or "") > lost(directory)):
                yield finding
        else:
            yield item
    directory = path.removeprefix(store.root).strip("/").partition("/")[0]
    only = store.partitions.get(directory)
    if not directory or only is not None:
        yield from Audit(store.bucket, known, deep=options.deep).findings(_local_logs(store), only)


def _of_segment(finding: Finding, store: TierStore) -> Finding | None:
    """A finding with the id of its segment. None: the audit tells, or the local log does."""
    path = finding.path or ""
    if finding.code is Codes.INDEX_MISSING or (finding.code is Codes.TRANSACTION_OPEN and store.metadata is not None):
        return None
    segment_id = store.segment_of(path)
    name = parse_file_name(path)
    if segment_id is not None and name is not None and name.kind in INDEX_KINDS:
        # No broker makes an index in remote storage again.
        return replace(finding, segment_id=segment_id, graded=Severity.ERROR)
    return replace(finding, segment_id=segment_id)


def _first_lost(store: TierStore, directory: str) -> int:
    """The base offset of the first segment of a partition that cannot be read; a large number: all can."""
    name = directory.removeprefix(store.root).strip("/")
    pieces = store.unread(name) if name in store.partitions else ()
    return min((one.name.base_offset for one in pieces), default=2**63)


def _local_logs(store: TierStore) -> Mapping[TopicPartitionId, LocalLog]:
    """What a broker has of each partition."""
    found = {}
    for name, owner in () if store.metadata is None else store.partitions.items():
        directory = os.path.join(store.metadata or "", name)
        if files.is_directory(directory):
            epochs = read_leader_epochs(os.path.join(directory, LEADER_EPOCH_CHECKPOINT))
            found[owner] = LocalLog(store.start_offset(f"{store.root}/{name}"), *local_extent(directory), epochs)
    return found
