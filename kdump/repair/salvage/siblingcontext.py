"""What the files around a damaged log show about it: which offsets it had, which epochs, which transactions.

No checksum covers both the log and these files. So whoever uses one of them believes it only where it agrees with the
good batches.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

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
from kdump.log.opening import open_source
from kdump.log.partition import segments_around
from kdump.log.resync import CheckedChunk, ResyncWalk
from kdump.log.siblings import (
    read_leader_epochs,
    read_own_checkpoint,
    read_time_index,
    read_topic_id,
    read_txn_index,
    rising_entries,
    was_cleaned,
)
from kdump.repair.salvage.later import LaterSegments
from kdump.repair.salvage.pieces import JudgedBefore
from kdump.verify.reach import PartitionEvidence
from kdump.verify.table import read_rows


@dataclass(frozen=True)
class NearestLog:
    """The nearest log on one side of another that has valid batches.

    ``first_rows``: the first of its batches (``verify.table.row_dtype``), at least one.
    """

    path: str
    first_rows: NDArray[np.void]

    @cached_property
    def rows(self) -> NDArray[np.void]:
        """All of its valid batches."""
        # None where the log has gone since.
        return np.concatenate([self.first_rows[:0], *valid_rows((self.path,))])


FirstRows = dict[str, NDArray[np.void] | None]
"""The first valid batches of logs, by path; None: it has none."""


@dataclass(frozen=True)
class SiblingContext:
    """What the files around one log tell."""

    base_offset: int | None = None
    """That of the file name; None without one."""
    was_cleaned: bool = False
    """Whether the log cleaner has cleaned the partition, by its log directory."""
    end_before: int = 0
    """The offset after the last good batch of the segment before; 0 where that is not known."""
    before: Sequence[str] = ()
    """The logs of the segments before, in offset order."""
    following: Sequence[str] = ()
    """The logs of the segments after, in offset order."""
    first_rows: FirstRows = field(default_factory=dict)
    """What was read of the segments before and after, for all of the partition."""
    next_base: int | None = None
    """Base offset of the next segment, of one whose log is gone too."""
    evidence: PartitionEvidence | None = None
    """Up to which offset the partition reached by its snapshots and checkpoints; for the last segment."""
    flushed: int = 0
    """An offset below which the broker has made everything durable, the .txnindex too; 0 where that is not known."""
    snapshots: Sequence[str] = ()
    """The producer snapshots at higher offsets than the base offset, rising."""
    later: LaterSegments = field(default_factory=LaterSegments)
    """What was read of the transactions in segments and snapshots after this one, for all of the partition."""
    index: Sequence[OffsetEntry] = ()
    time_index: Sequence[TimeEntry] = ()
    """Of the last segment only."""
    aborted: Sequence[AbortedTxn] | None = None
    """The .txnindex; None without one."""
    epochs: Sequence[EpochEntry] = ()
    """The leader-epoch-checkpoint, rising."""
    producers: ProducerStates = field(default_factory=ProducerStates)
    """The producers at the base offset, from the segments before; empty if they are not known."""
    high_watermark: int | None = None
    """Of the log directory's checkpoint."""
    topic_id: str | None = None
    """Of partition.metadata."""
    is_partition: bool = False
    """Whether the log belongs to a whole partition, so that a replica may show where it ended and segments began."""
    judged: Mapping[tuple[int, int], JudgedBefore] = field(default_factory=dict)
    """Transactions that gaps of earlier segments touched, by producer id and first offset."""

    @cached_property
    def log_before(self) -> NearestLog | None:
        """The last of the segments before that has valid batches."""
        return self._nearest(reversed(self.before))

    @cached_property
    def log_after(self) -> NearestLog | None:
        """The first of the segments after that has valid batches."""
        return self._nearest(self.following)

    def _nearest(self, paths: Iterable[str]) -> NearestLog | None:
        for path in paths:
            if path not in self.first_rows:
                self.first_rows[path] = next(filter(len, valid_rows((path,))), None)
            rows = self.first_rows[path]
            if rows is not None:
                return NearestLog(path, rows)
        return None

    def epoch_of(self, offset: int) -> int | None:
        """The leader epoch that wrote an offset; None if the checkpoint does not reach so low."""
        number = bisect_right(self.epochs, offset, key=lambda entry: entry.start_offset)
        return self.epochs[number - 1].epoch if number else None

    def reached(self, end: int) -> list[int]:
        """Offsets above ``end`` up to which (exclusive) snapshots and checkpoints say that the partition reached."""
        if self.evidence is None:
            return []
        return [witness.end_offset for witness in self.evidence.believed(self.evidence.ends(end), end)]


class Neighbours:
    """What is known of one partition, read once for all of its segments.

    Args:
        path: one of the logs.
        missing: others that are not there, to be listed with them.
    """

    def __init__(self, path: str, missing: Sequence[str] = ()) -> None:
        self._directory = os.path.dirname(path) or "."
        name = parse_file_name(path)
        self._absent = frozenset(missing)
        self._segments = segments_around(path, missing) if name is not None and not name.state else []
        self._numbers = {segment: number for number, segment in enumerate(self._segments)}
        self.later = LaterSegments()
        self.first_rows: FirstRows = {}

    def __contains__(self, path: str) -> bool:
        return path in self._numbers

    def before(self, path: str) -> list[str]:
        """The logs there before one, in offset order."""
        return self._there(slice(self._numbers[path])) if path in self else []

    def following(self, path: str) -> list[str]:
        """The logs there after one, in offset order."""
        return self._there(slice(self._numbers[path] + 1, None)) if path in self else []

    def _there(self, numbers: slice) -> list[str]:
        return [segment for segment in self._segments[numbers] if segment not in self._absent]

    def next_base(self, path: str) -> int | None:
        """Base offset of the segment after one that has one, of one whose log is gone too."""
        after = self._segments[self._numbers[path] + 1 :] if path in self else []
        names = map(parse_file_name, after)
        return next((name.base_offset for name in names if name is not None and name.base_offset is not None), None)

    def snapshots(self, base_offset: int) -> Sequence[tuple[int, str]]:
        """(offset, path) of the producer snapshots above ``base_offset``, rising."""
        return self._snapshots[bisect_right(self._snapshots, base_offset, key=itemgetter(0)) :]

    @cached_property
    def _snapshots(self) -> list[tuple[int, str]]:
        try:
            names = os.listdir(self._directory)
        except OSError:
            return []
        found = ((name, parse_file_name(name)) for name in names)
        snapshots = (
            (parsed.base_offset or 0, os.path.join(self._directory, name))
            for name, parsed in found
            if parsed and parsed.kind is Kind.SNAPSHOT and not parsed.state
        )
        return list(dict(sorted(snapshots)).items())

    @cached_property
    def was_cleaned(self) -> bool:
        """See SiblingContext."""
        return was_cleaned(self._directory)

    @cached_property
    def epochs(self) -> Sequence[EpochEntry]:
        """The leader-epoch-checkpoint."""
        return read_leader_epochs(os.path.join(self._directory, LEADER_EPOCH_CHECKPOINT))

    @cached_property
    def recovery_point(self) -> int:
        """Of the log directory's checkpoint, 0 without one."""
        return read_own_checkpoint(self._directory, RECOVERY_POINT_CHECKPOINT) or 0

    @cached_property
    def high_watermark(self) -> int | None:
        """Of the log directory's checkpoint."""
        return read_own_checkpoint(self._directory, HIGH_WATERMARK_CHECKPOINT)

    @cached_property
    def topic_id(self) -> str | None:
        """Of partition.metadata."""
        return read_topic_id(self._directory)


def sibling_context(
    path: str,
    producers: ProducerStates | None = None,
    end_before: int = 0,
    judged: Mapping[tuple[int, int], JudgedBefore] | None = None,
    *,
    neighbours: Neighbours | None = None,
    is_partition: bool = False,
) -> SiblingContext:
    """Read the siblings of the log ``path``; what is missing or malformed is left out.

    Args:
        path: the log; it may be one that is missing.
        producers: the state at its base offset.
        end_before: see SiblingContext.
        judged: see SiblingContext; None: there are none.
        neighbours: of its partition; they are read where they are not given.
        is_partition: see SiblingContext.
    """
    name = parse_file_name(path)
    base_offset = name.base_offset if name else None
    around = neighbours or Neighbours(path)
    next_base = around.next_base(path)
    snapshots = [] if base_offset is None else around.snapshots(base_offset)
    # A segment is flushed when the next one is made; snapshots are taken then, and when a broker stops.
    flushed = next_base or max([around.recovery_point, *(offset for offset, _ in snapshots[-1:])])
    directory = os.path.dirname(path) or "."
    return SiblingContext(
        base_offset,
        around.was_cleaned,
        end_before,
        around.before(path),
        around.following(path),
        around.first_rows,
        next_base,
        PartitionEvidence.of_directory(directory) if next_base is None and base_offset is not None else None,
        flushed,
        [snapshot for _, snapshot in snapshots],
        around.later,
        rising_entries(path, base_offset),
        read_time_index(path, base_offset) if next_base is None else (),
        read_txn_index(path),
        around.epochs,
        producers or ProducerStates(),
        around.high_watermark if is_partition else None,
        around.topic_id if is_partition else None,
        is_partition,
        judged or {},
    )


def valid_rows(paths: Iterable[str]) -> Iterator[NDArray[np.void]]:
    """The valid batches of other segments (``verify.table.row_dtype``), by chunks, up to one that cannot be read."""
    for path in paths:
        try:
            yield from valid_rows_of(path)
        except KdumpError:
            return


def valid_rows_of(path: str) -> Iterator[NDArray[np.void]]:
    """The valid batches of one segment, by chunks. Raises KdumpError if it cannot be read."""
    with open_source(path) as source:
        for item in ResyncWalk(source).items():
            if isinstance(item, CheckedChunk):
                rows = read_rows(item, is_after_gap=False)
                yield rows[rows["is_valid"]]
