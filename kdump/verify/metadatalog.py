"""What is wrong with a metadata log and its snapshots, as findings.

Source: docs/spec/metadata.md#2-loading and docs/spec/metadata.md#31-faults.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

from kdump.codes import Codes, Finding
from kdump.kafka.image.compare import SnapshotDifference, snapshot_differences
from kdump.kafka.image.faults import Grade
from kdump.kafka.image.metadatalog import MetadataLog, cut_bytes
from kdump.kafka.image.replay import Replayed, StatePoint, replay
from kdump.limits import COMPARED, hint

_CODES: Final = {
    Grade.UNREADABLE: Codes.METADATA_UNREADABLE,
    Grade.IMAGE: Codes.METADATA_NOT_APPLIED,
    Grade.CONTROLLER: Codes.METADATA_REFUSED,
    Grade.ODD: Codes.METADATA_ODD,
    Grade.NEWER: Codes.NEWER_KAFKA,
}


def check_metadata_log(directory: str) -> Iterator[Finding]:
    """What a node meets that loads the metadata log, and snapshots that differ from it.

    Raises KdumpError where a file cannot be read.
    """
    log = MetadataLog.of(directory)
    yield from replay_findings(replay(log, StatePoint()))
    for difference in snapshot_differences(log):
        yield Finding(Codes.METADATA_DIFFERS, _difference_text(difference), 0, path=difference.snapshot.path)


def _difference_text(difference: SnapshotDifference) -> str:
    if not difference.is_compared:
        return f"not compared: too many records were compared already; {hint(COMPARED)}"
    parts = []
    for where, records in (("snapshot", difference.only_in_snapshot), ("log", difference.only_in_log)):
        # A record may hold secrets, its type does not.
        names = [record.partition(" ")[0] for record in records.first]
        more = f" and {records.total - len(names):,} more" if records.total > len(names) else ""
        if names:
            parts.append(f"only the {where} gives {', '.join(names)}{more}")
    return "; ".join(parts)


def replay_findings(replayed: Replayed) -> Iterator[Finding]:
    """What a replay met, in the order of the offsets."""
    log = replayed.log
    if replayed.lost_before is not None:
        message = f"the log starts at offset {replayed.lost_before}, and no snapshot has what was before it"
        yield Finding(Codes.METADATA_SNAPSHOT, message, 0, path=log.directory)
    for snapshot, why in replayed.refused:
        yield Finding(Codes.METADATA_SNAPSHOT, f"the snapshot cannot be loaded: {why}", 0, path=snapshot.path)
    if replayed.beyond_log is not None:
        message = "the snapshot ends after the log: a node that starts throws the log away"
        yield Finding(Codes.METADATA_SNAPSHOT, message, 0, path=replayed.beyond_log.path)
    for fault in replayed.faults:
        record = f"{fault.record}: " if fault.record else ""
        where = f"offset {fault.offset}" if fault.snapshot is None else f"record {fault.offset}"
        path = log.directory if fault.snapshot is None else os.path.join(log.directory, fault.snapshot)
        yield Finding(_CODES[fault.grade], f"{where}: {record}{fault.message}", 0, path=path)
    error = replayed.unreadable
    if error is None:
        return
    if error.is_cut:
        gone = cut_bytes(log, error)
        message = (
            f"{error}: a node that starts cuts the log here without an error, {gone:,} bytes and all that they hold"
        )
        yield Finding(Codes.METADATA_CUT, message, error.position, gone, error.offset, path=error.path)
    else:
        message = f"offset {error.offset}: {error}: a node stops here"
        yield Finding(Codes.METADATA_UNREADABLE, message, error.position, path=error.path)
