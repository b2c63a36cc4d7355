"""What the files around a damaged log say about it: which offsets it had, which epochs, which transactions.

None of them is under a checksum that the log shares, so each is believed only where it agrees with the good batches;
that is asked where it is used.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kdump.checks.reach import Evidence
from kdump.checks.table import read_columns
from kdump.codes import KdumpError
from kdump.format.checkpoint import (
    HIGH_WATERMARK_CHECKPOINT,
    LEADER_EPOCH_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    EpochEntry,
)
from kdump.format.index import AbortedTxn, OffsetEntry, TimeEntry
from kdump.kafka.producers import ProducerStates
from kdump.log.names import Kind, parse_file_name
from kdump.log.offsetindex import rising_entries
from kdump.log.partition import segments_around
from kdump.log.resync import CheckedChunk, ResyncWalk
from kdump.log.siblings import (
    read_checkpoint,
    read_leader_epochs,
    read_time_index,
    read_topic_id,
    read_txn_index,
    was_cleaned,
)
from kdump.log.source import open_source


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The neighbourhood of one log."""

    base_offset: int | None = None
    """Of the file name; None where it has none."""
    was_cleaned: bool = False
    """The log cleaner has been at the partition, as its log directory says."""
    end_before: int = 0
    """Behind the last offset of good batches in the segment before; 0 where that is not known."""
    before: Sequence[str] = ()
    """The logs of the segments before, in offset order."""
    following: Sequence[str] = ()
    """The logs of the segments behind, in offset order."""
    next_base: int | None = None
    """Base offset of the next segment, of one whose log is gone too."""
    evidence: Evidence | None = None
    """Up to which offset the partition reached by its snapshots and checkpoints; for the last segment."""
    flushed: int = 0
    """An offset below which the broker has made everything durable, the .txnindex too; 0 where that is not known."""
    snapshots: Sequence[str] = ()
    """The producer snapshots at higher offsets than the base offset, rising."""
    index: Sequence[OffsetEntry] = ()
    time_index: Sequence[TimeEntry] = ()
    """Of the last segment only."""
    aborted: Sequence[AbortedTxn] | None = None
    """The .txnindex; None without one."""
    epochs: Sequence[EpochEntry] = ()
    """The leader-epoch-checkpoint, rising."""
    producers: ProducerStates = field(default_factory=ProducerStates)
    """At the base offset, from the segments before; empty where they are not known."""
    high_watermark: int | None = None
    """Of the log directory's checkpoint."""
    topic_id: str | None = None
    """Of partition.metadata."""
    is_partition: bool = False
    """It is one of the segments of a partition: a replica may tell where the log ended, and where segments began."""
    in_doubt: Set[tuple[int, int]] = frozenset()
    """(producer id, first offset) of transactions that were left, and may have ended in a gap of an earlier segment."""

    def epoch_of(self, offset: int) -> int | None:
        """The leader epoch that wrote an offset; None where the checkpoint does not reach so low."""
        epochs = [entry.epoch for entry in self.epochs if entry.start_offset <= offset]
        return epochs[-1] if epochs else None

    def reached(self, end: int) -> list[int]:
        """Offsets above ``end`` up to which (exclusive) snapshots and checkpoints say that the partition reached."""
        if self.evidence is None:
            return []
        return [witness.end_offset for witness in self.evidence.believed(self.evidence.ends(end), end)]


def look_around(
    path: str,
    producers: ProducerStates | None = None,
    end_before: int = 0,
    in_doubt: Set[tuple[int, int]] = frozenset(),
    *,
    missing: Sequence[str] = (),
    is_partition: bool = False,
) -> Surroundings:
    """Read the siblings of the log ``path``; what is missing or malformed is left out.

    Args:
        path: the log; it may be one of the ``missing``.
        producers: the state at its base offset.
        end_before: see Surroundings.
        in_doubt: see Surroundings.
        missing: logs of the same partition that are not there.
        is_partition: see Surroundings.
    """
    name = parse_file_name(path)
    base_offset = name.base_offset if name else None
    directory = os.path.dirname(path) or "."
    segments = segments_around(path, missing) if name is not None and not name.state else []
    number = segments.index(path) if path in segments else None
    before = [] if number is None else [segment for segment in segments[:number] if segment not in missing]
    behind = [] if number is None else segments[number + 1 :]
    following = [segment for segment in behind if segment not in missing]
    bases = [other.base_offset for segment in behind if (other := parse_file_name(segment))]
    next_base = next((base for base in bases if base is not None), None)
    snapshots = {} if base_offset is None else dict(sorted(_snapshots(directory, base_offset)))
    # A segment is flushed when the next one is made; snapshots are taken then, and when a broker stops.
    flushed = next_base or max([*snapshots, read_checkpoint(directory, RECOVERY_POINT_CHECKPOINT) or 0])
    return Surroundings(
        base_offset,
        was_cleaned(directory),
        end_before,
        before,
        following,
        next_base,
        Evidence.of_directory(directory) if next_base is None and base_offset is not None else None,
        flushed,
        list(snapshots.values()),
        rising_entries(path, base_offset),
        read_time_index(path, base_offset) if next_base is None else (),
        read_txn_index(path),
        read_leader_epochs(os.path.join(directory, LEADER_EPOCH_CHECKPOINT)),
        producers or ProducerStates(),
        read_checkpoint(directory, HIGH_WATERMARK_CHECKPOINT) if is_partition else None,
        read_topic_id(directory) if is_partition else None,
        is_partition,
        in_doubt,
    )


def sound_rows(paths: Iterable[str]) -> Iterator[NDArray[np.void]]:
    """The sound batches of other segments (``checks.table.row_dtype``), by chunks, up to one that cannot be read."""
    for path in paths:
        try:
            with open_source(path) as source:
                for item in ResyncWalk(source).items():
                    if isinstance(item, CheckedChunk):
                        rows = read_columns(item, is_behind_hole=False)
                        yield rows[rows["is_valid"]]
        except KdumpError:
            return


def _snapshots(directory: str, base_offset: int) -> Iterator[tuple[int, str]]:
    """(offset, path) of the producer snapshots above ``base_offset``."""
    try:
        names = os.listdir(directory)
    except OSError:
        return
    for name in names:
        parsed = parse_file_name(name)
        if parsed and parsed.kind is Kind.SNAPSHOT and not parsed.state and (parsed.base_offset or 0) > base_offset:
            yield parsed.base_offset or 0, os.path.join(directory, name)
