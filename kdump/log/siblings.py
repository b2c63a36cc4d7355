"""The files beside a log, as far as they can be read. A sibling that is missing or malformed gives nothing."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache, partial
from itertools import pairwise
from operator import attrgetter
from typing import Final

from kdump.codes import DamageError, KdumpError
from kdump.format.checkpoint import (
    CLEANER_CHECKPOINT,
    PARTITION_METADATA,
    EpochEntry,
    parse_leader_epoch_checkpoint,
    parse_offset_checkpoint,
    parse_topic_id,
)
from kdump.format.index import (
    OFFSET_ENTRY_SIZE,
    TIME_ENTRY_SIZE,
    TXN_ENTRY_SIZE,
    AbortedTxn,
    OffsetEntry,
    TimeEntry,
    parse_offset_index,
    parse_time_index,
    parse_txn_index,
    rising_part,
)
from kdump.format.snapshot import ProducerEntry, parse_snapshot
from kdump.log.files import FileState, absolute, exists, file_state, listing
from kdump.log.named import STDIN
from kdump.log.names import (
    CLEANER_STATES,
    WITHOUT_LINES,
    Kind,
    is_beside_owner,
    owner_of_lines,
    parse_file_name,
    parse_partition_directory,
    sibling,
)
from kdump.log.opening import read_index, read_whole

_ENTRY_SIZES: Final = {Kind.INDEX: OFFSET_ENTRY_SIZE, Kind.TIME_INDEX: TIME_ENTRY_SIZE}


def read_beside(path: str) -> bytes:
    """All bytes of a file beside a log; see ``read_index``. Raises KdumpError as ``read_whole``."""
    name = parse_file_name(path)
    entry_size = None if name is None else _ENTRY_SIZES.get(name.kind)
    return read_whole(path) if entry_size is None else read_index(path, entry_size)


def rising_entries(log_path: str, base_offset: int | None) -> Sequence[OffsetEntry]:
    """The used entries of the .index beside a log up to the first whose position does not rise; none without a name."""
    if base_offset is None:
        return []
    try:
        entries = parse_offset_index(read_whole(sibling(log_path, Kind.INDEX)), base_offset)
    except KdumpError:
        return []
    return rising_part(entries, attrgetter("position"), base_offset)


def read_time_index(path: str, base_offset: int | None) -> Sequence[TimeEntry]:
    """The used entries of the .timeindex beside the log ``path``, as far as their timestamps rise."""
    data = _read_sibling(path, Kind.TIME_INDEX)
    if base_offset is None or data is None:
        return []
    return rising_part(parse_time_index(data, base_offset), attrgetter("timestamp"), base_offset)


def last_time_entry(path: str, base_offset: int | None) -> Sequence[TimeEntry]:
    """The last entry of the .timeindex beside the log ``path``, as a broker takes it; none of an empty one.

    Zeros after the used entries are entries too (TimeIndex.lastEntryFromIndexFile).
    """
    data = _read_sibling(path, Kind.TIME_INDEX) or b""
    whole = len(data) - len(data) % TIME_ENTRY_SIZE
    return parse_time_index(data[max(0, whole - TIME_ENTRY_SIZE) : whole], base_offset or 0)


def read_txn_index(path: str) -> Sequence[AbortedTxn] | None:
    """The .txnindex beside the log ``path``; None where there is none, or a malformed one."""
    data = _read_sibling(path, Kind.TXN_INDEX)
    try:
        return None if data is None or len(data) % TXN_ENTRY_SIZE else parse_txn_index(data)
    except DamageError:
        return None


def read_snapshot(path: str) -> list[ProducerEntry]:
    """The producers at the base offset of the log ``path``; none without a valid snapshot.

    In remote storage the snapshot beside a log is that of its end (RemoteLogManager.copyLogSegment).
    """
    name = parse_file_name(path)
    if name is not None and name.is_remote:
        return []
    data = _read_sibling(path, Kind.SNAPSHOT)
    try:
        return [] if data is None else parse_snapshot(data)
    except DamageError:
        return []


def read_leader_epochs(path: str) -> list[EpochEntry]:
    """The entries of the leader-epoch-checkpoint ``path``; none where they do not rise."""
    try:
        return parse_leader_epochs(read_whole(path))
    except KdumpError:
        return []


def parse_leader_epochs(data: bytes) -> list[EpochEntry]:
    """The entries of a leader-epoch-checkpoint; none where it is malformed or they do not rise."""
    try:
        entries = parse_leader_epoch_checkpoint(data)
    except DamageError:
        return []
    is_rising = all(
        before.epoch < after.epoch and before.start_offset <= after.start_offset for before, after in pairwise(entries)
    )
    return entries if is_rising else []


def read_topic_id(directory: str) -> str | None:
    """The topic id that partition.metadata has; None without a valid one."""
    try:
        return parse_topic_id(read_whole(os.path.join(directory, PARTITION_METADATA)))
    except KdumpError:
        return None


def read_checkpoint(directory: str, name: str) -> int | None:
    """The entry of a partition directory in the checkpoint ``name`` of the log directory above; None: it has none."""
    return read_checkpoints_of(directory, [name])[0]


def read_own_checkpoint(directory: str, name: str) -> int | None:
    """As ``read_checkpoint``; None for a directory that was put aside (``is_put_aside``)."""
    return None if is_put_aside(directory) else read_checkpoint(directory, name)


def is_put_aside(directory: str) -> bool:
    """A broker put a partition directory aside (-stray, -delete), and has made another one of the partition.

    The lines of checkpoints are those of the other one.
    """
    name = os.path.basename(absolute(directory))
    return name.endswith(WITHOUT_LINES) and is_beside_owner(name, partial(_is_beside, directory))


def owns_lines(directory: str) -> bool:
    """Lines of the checkpoints above may be those of this partition directory (``owner_of_lines``)."""
    return owner_of_lines(os.path.basename(absolute(directory)), partial(_is_beside, directory)) is not None


def _is_beside(directory: str, name: str) -> bool:
    return exists(os.path.join(os.path.dirname(absolute(directory)), name))


def read_checkpoints_of(directory: str, names: Iterable[str]) -> list[int | None]:
    """The entries of a partition directory in checkpoints of the log directory above; None: it has none.

    In a store one is read only where the log directory was listed: for one partition it would take requests and rarely
    give anything.
    """
    log_directory, partition = os.path.split(absolute(directory))
    wanted = parse_partition_directory(partition)
    return [None if wanted is None else checkpoint_offsets(log_directory, name).get(wanted) for name in names]


def checkpoint_offsets(log_directory: str, name: str) -> Mapping[tuple[str, int], int]:
    """The entries of the checkpoint ``name`` by partition; none without a valid one. See ``read_checkpoints_of``."""
    path = os.path.join(log_directory, name)
    state = file_state(path)
    return {} if state is None else _offsets(path, state)


@lru_cache(maxsize=8)
def _offsets(path: str, state: FileState) -> Mapping[tuple[str, int], int]:
    """The entries of a checkpoint of a log directory, by partition.

    They are kept, as thousands of partitions need them.

    ``state``: see ``files.file_state``.
    """
    try:
        entries = parse_offset_checkpoint(read_whole(path))
    except KdumpError:
        return {}
    # Where a partition is named twice, its first line counts.
    return {(topic, number): offset for topic, number, offset in reversed(entries)}


def was_cleaned(directory: str) -> bool:
    """The log directory above says that the partition was compacted: offsets may be missing anywhere."""
    return (read_checkpoint(directory, CLEANER_CHECKPOINT) or 0) > 0


def is_cleaned_now(directory: str) -> bool:
    """The log cleaner compacts the partition, or has done so: the log directory says it only when it is done."""
    if was_cleaned(directory):
        return True
    try:
        return any(entry.name.endswith(CLEANER_STATES) for entry in listing(directory))
    except KdumpError:
        return False


def _read_sibling(path: str, kind: Kind) -> bytes | None:
    if path == STDIN or parse_file_name(path) is None:
        return None
    try:
        return read_whole(sibling(path, kind))
    except KdumpError:
        return None
