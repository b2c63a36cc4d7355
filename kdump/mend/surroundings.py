"""What the files around a damaged log say about it: which offsets it had, which epochs, which transactions.

None of them is under a checksum that the log shares, so each is believed only where it agrees with the good batches;
that is asked where it is used.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

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
from kdump.log.siblings import (
    read_checkpoint,
    read_leader_epochs,
    read_time_index,
    read_topic_id,
    read_txn_index,
    was_cleaned,
)
from kdump.mend.later import LaterTransactions


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
    reached: Sequence[int] = ()
    """Offsets up to which (exclusive) checkpoints and snapshots say the partition reached; for the last segment."""
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
    later: LaterTransactions = field(default_factory=LaterTransactions)
    """What was read of the segments behind, for all segments of the partition."""

    def epoch_of(self, offset: int) -> int | None:
        """The leader epoch that wrote an offset; None where the checkpoint does not reach so low."""
        epochs = [entry.epoch for entry in self.epochs if entry.start_offset <= offset]
        return epochs[-1] if epochs else None


class Neighbours:
    """The segments of one partition, listed once for all of them.

    Args:
        path: one of the logs.
        missing: others that are not there, to be listed with them.
    """

    def __init__(self, path: str, missing: Sequence[str] = ()) -> None:
        absent = set(missing)
        segments = segments_around(path, missing)
        self._bases = [None if name is None else name.base_offset for name in map(parse_file_name, segments)]
        self._numbers = {segment: number for number, segment in enumerate(segments)}
        self._present = [segment for segment in segments if segment not in absent]
        # How many of those present come before each.
        self._counts = list(accumulate((segment not in absent for segment in segments), initial=0))
        self.later = LaterTransactions()

    def __contains__(self, path: str) -> bool:
        return path in self._numbers

    def before(self, path: str) -> list[str]:
        """The logs there in front of one, in offset order."""
        return self._present[: self._counts[self._numbers[path]]]

    def following(self, path: str) -> list[str]:
        """The logs there behind one, in offset order."""
        return self._present[self._counts[self._numbers[path] + 1] :]

    def next_base(self, path: str) -> int | None:
        """Base offset of the segment behind one, of one whose log is gone too."""
        numbers = range(self._numbers[path] + 1, len(self._bases))
        return next((base for number in numbers if (base := self._bases[number]) is not None), None)


def look_around(
    path: str,
    producers: ProducerStates | None = None,
    end_before: int = 0,
    *,
    neighbours: Neighbours | None = None,
    is_partition: bool = False,
) -> Surroundings:
    """Read the siblings of the log ``path``; what is missing or malformed is left out.

    Args:
        path: the log; it may be one of the missing ones.
        producers: the state at its base offset.
        end_before: see Surroundings.
        neighbours: the segments of the partition.
        is_partition: see Surroundings.
    """
    name = parse_file_name(path)
    base_offset = name.base_offset if name else None
    directory = os.path.dirname(path) or "."
    is_segment = name is not None and not name.state
    if is_segment and (neighbours is None or path not in neighbours):
        neighbours = Neighbours(path)
    if not is_segment:
        neighbours = None
    next_base = neighbours.next_base(path) if neighbours else None
    return Surroundings(
        base_offset,
        was_cleaned(directory),
        end_before,
        neighbours.before(path) if neighbours else (),
        neighbours.following(path) if neighbours else (),
        next_base,
        sorted(_reached(directory, base_offset)) if next_base is None and base_offset is not None else (),
        rising_entries(path, base_offset),
        read_time_index(path, base_offset) if next_base is None else (),
        read_txn_index(path),
        read_leader_epochs(os.path.join(directory, LEADER_EPOCH_CHECKPOINT)),
        producers or ProducerStates(),
        read_checkpoint(directory, HIGH_WATERMARK_CHECKPOINT) if is_partition else None,
        read_topic_id(directory) if is_partition else None,
        is_partition,
        neighbours.later if neighbours else LaterTransactions(),
    )


def _reached(directory: str, base_offset: int) -> Iterable[int]:
    """Offsets above ``base_offset`` that the partition's end has reached by other files of the broker."""
    try:
        names = os.listdir(directory)
    except OSError:
        return
    for name in names:
        parsed = parse_file_name(name)
        if parsed and parsed.kind is Kind.SNAPSHOT and not parsed.state and (parsed.base_offset or 0) > base_offset:
            yield parsed.base_offset or 0
    for checkpoint in (RECOVERY_POINT_CHECKPOINT, HIGH_WATERMARK_CHECKPOINT):
        offset = read_checkpoint(directory, checkpoint)
        if offset is not None and offset > base_offset:
            yield offset
