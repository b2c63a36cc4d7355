"""How far a stream has read each partition, and where that is after a broker changed the files.

A place lies after a whole batch and remembers that batch (its position, its CRC). If the file still has the batch, the
bytes up to there are those that were read. If not, the next offset decides:

- Retention deleted segments past the place: what was not read is lost.
- The log was cut and written anew (a follower after an unclean leader election, KIP-320). That is so if it ends before
  that offset, or if the batch before it has a later leader epoch, or if the segment is the newest one. Reading goes on
  where the leader epochs part: what was written anew is new.
- The topic was deleted and made again (another id in partition.metadata): everything is new.
- Otherwise the segment was compacted. Offsets stay, so reading goes on at the next offset, and nothing is lost.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from kdump.log import files
from kdump.log.names import is_uri
from kdump.log.opening import open_source
from kdump.log.siblings import read_topic_id, rising_entries
from kdump.log.tail import TailBounds, TailEntry, entry_at, newest_entry
from kdump.spark.partitions import PartitionLog

SETTLED_SECONDS: Final = 10
"""A file that has not changed for so long is not being written."""
_WORTH_AN_INDEX: Final = 4 << 20
"""Up to this many bytes are read without an .index."""


class DataLossError(Exception):
    """Records that were to be read are gone, or records that were read are no longer there."""


@dataclass(frozen=True, slots=True)
class StreamPosition:
    """How far a partition was read.

    Attributes:
        segment: the base offset of a segment.
        position: in it; what starts there or later was not read.
        next: the offset after the last one that was read.
        last: where the last batch that was read starts in the segment; None where none was.
        crc: its CRC.
        epoch: its leader epoch.
        following: the base offset of the next segment, where there is one.
        first: lower offsets are not wanted (``startingOffsets`` inside a batch or after the end).
        topic_id: of partition.metadata.
    """

    segment: int
    position: int
    next: int
    last: int | None = None
    crc: int | None = None
    epoch: int | None = None
    following: int | None = None
    first: int | None = None
    topic_id: str | None = None

    def to_json(self) -> dict[str, int | str]:
        """The attributes that have a value, always in the same order."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> StreamPosition:
        """What ``to_json`` made. TypeError for anything else."""
        return cls(**value)


@dataclass(frozen=True, slots=True)
class Budget:
    """How much to read at most; None: any amount. One whole batch is always read."""

    size: int | None = None
    """Bytes."""
    offsets: int | None = None


UNLIMITED: Final = Budget()


class StreamTracker:
    """Finds places in partitions as they are now.

    Args:
        on_loss: takes one line that names partition and offsets. It raises, or reading goes on with what is there.
        sizes: of newest segments by path. They are read up to these sizes (``Trigger.AvailableNow``).

    Every method raises KdumpError where a file cannot be read (MISSING where it was deleted meanwhile).
    """

    def __init__(self, on_loss: Callable[[str], None], sizes: Mapping[str, int] | None = None) -> None:
        self._on_loss = on_loss
        self._sizes = sizes or {}

    def earliest(self, log: PartitionLog) -> StreamPosition:
        """The start of a log that has segments."""
        return StreamPosition(log.bases[0], 0, log.bases[0], topic_id=read_topic_id(log.directory))

    def latest(self, log: PartitionLog) -> StreamPosition:
        """The place after the newest whole batch."""
        return self.advanced(log, self.earliest(log), UNLIMITED)

    def at_offset(self, log: PartitionLog, offset: int) -> StreamPosition:
        """The place after the last batch with lower offsets."""
        number = max((number for number, base in enumerate(log.bases) if base <= offset), default=0)
        return self._after(log, number, TailBounds(offset=offset), replace(self.earliest(log), next=log.bases[number]))

    def size(self, log: PartitionLog, number: int) -> int:
        """Bytes of a segment."""
        path = log.path(number)
        size = status(path).size
        return min(size, self._sizes.get(path, size))

    def located(self, log: PartitionLog, place: StreamPosition) -> StreamPosition:
        """The place in a log with segments. It stays the same while the bytes before it do; see the module."""
        number = log.number_of(place.segment)
        if number is not None and self._is_intact(log, number, place):
            self._check_next(log, number, place)
            return place
        now = read_topic_id(log.directory)
        if None not in (place.topic_id, now) and place.topic_id != now:
            self._on_loss(f"{log.directory}: the topic was made anew, it was read up to offset {place.next}")
            return self.earliest(log)
        if log.bases[0] > place.next:
            self._report(log, place.next, log.bases[0])
            return self.earliest(log)
        if self._is_rewritten(log, number, place):
            cut = self._parting(log, place)
            what = f"the log was cut to offset {cut.next}, it was read up to offset {place.next}"
            self._on_loss(f"{log.directory}: {what}")
            return cut
        found = replace(self.at_offset(log, place.next), first=place.first)
        at = log.number_of(found.segment)
        if number is None and at is not None:
            # It was compacted into the segment before, or deleted.
            self._check_next(log, at, replace(found, following=place.next))
        return found

    def advanced(self, log: PartitionLog, place: StreamPosition, budget: Budget) -> StreamPosition:
        """The place after the last batch within the budget, from ``place`` on, which was ``located``.

        A segment with others after it is read completely, also damage and a torn tail at its end. Of the newest segment
        only whole batches are read.
        """
        start = log.number_of(place.segment)
        assert start is not None, "the place is located"
        left = budget.size
        whole: int | None = None
        for number in range(start, log.newest + 1):
            floor = place.position if number == start else 0
            size = self.size(log, number) - floor
            if number < log.newest and (
                (left is None or size <= left)
                and (budget.offsets is None or log.bases[number + 1] - place.next <= budget.offsets)
            ):
                left = None if left is None else left - size
                whole = number
                continue
            bounds = TailBounds(
                None if left is None else floor + left,
                None if budget.offsets is None else place.next + budget.offsets,
            )
            has_taken = whole is not None and any(self._rest(log, each, start, place) for each in range(start, number))
            entry = self._newest(log, number, floor, bounds, take_one=not has_taken)
            if entry is not None:
                return self._place(log, number, entry, place, is_cut=True)
            break
        return place if whole is None else self._at_end(log, whole, start, place)

    def pending(self, log: PartitionLog, place: StreamPosition, limits: Budget) -> Budget:
        """What lies after ``place``, which was ``located``, up to the limits. What has no limit is not counted."""
        start = log.number_of(place.segment)
        assert start is not None, "the place is located"
        size = None
        if limits.size is not None:
            size = 0
            for number in range(start, log.newest + 1):
                size += self._rest(log, number, start, place)
                if size >= limits.size:
                    break
        offsets = None if limits.offsets is None else max(0, self.latest(log).next - place.next)
        return Budget(size, offsets)

    def _rest(self, log: PartitionLog, number: int, start: int, place: StreamPosition) -> int:
        return self.size(log, number) - (place.position if number == start else 0)

    def _at_end(self, log: PartitionLog, number: int, start: int, place: StreamPosition) -> StreamPosition:
        """The end of the last segment up to ``number`` that has any bytes after ``place``."""
        for each in range(number, start - 1, -1):
            if not self._rest(log, each, start, place):
                continue
            entry = self._newest(log, each, place.position if each == start else 0, TailBounds())
            if entry is not None:
                return self._place(log, each, entry, place, is_cut=False)
            end = self.size(log, each)
            if each == start:
                return replace(place, position=end, following=_following(log, each))
            return StreamPosition(
                log.bases[each],
                end,
                max(place.next, log.bases[each]),
                following=_following(log, each),
                first=place.first,
                topic_id=place.topic_id,
            )
        return place

    def _place(
        self, log: PartitionLog, number: int, entry: TailEntry, before: StreamPosition, *, is_cut: bool
    ) -> StreamPosition:
        is_whole = not is_cut and number < log.newest
        following = entry.last_offset + 1
        return StreamPosition(
            log.bases[number],
            self.size(log, number) if is_whole else entry.end,
            following,
            entry.start,
            entry.crc,
            entry.epoch,
            _following(log, number),
            before.first if before.first is not None and before.first > following else None,
            before.topic_id,
        )

    def _newest(
        self, log: PartitionLog, number: int, floor: int, bounds: TailBounds, *, take_one: bool = False
    ) -> TailEntry | None:
        path = log.path(number)
        with open_source(path) as source:
            size = source.size or 0
            source.size = min(size, self._sizes.get(path, size))
            end = source.size if bounds.position is None else min(source.size, bounds.position)
            is_far = end - floor > _WORTH_AN_INDEX
            return newest_entry(
                source,
                floor,
                bounds,
                rising_entries(path, log.bases[number]) if is_far else [],
                is_settled=number < log.newest or status(path).is_settled,
                take_one=take_one,
            )

    def _after(self, log: PartitionLog, number: int, bounds: TailBounds, start: StreamPosition) -> StreamPosition:
        """The place after the newest entry within bounds in a segment, or at its start."""
        entry = self._newest(log, number, 0, bounds)
        if entry is None:
            return replace(start, segment=log.bases[number], position=0, following=_following(log, number))
        return self._place(log, number, entry, start, is_cut=True)

    def _is_intact(self, log: PartitionLog, number: int, place: StreamPosition) -> bool:
        if self.size(log, number) < place.position:
            return False
        if place.last is None:
            return True
        with open_source(log.path(number)) as source:
            entry = entry_at(source, place.last)
        # The CRC does not cover the epoch: the same records may have been written anew.
        now = None if entry is None else (entry.crc, entry.epoch, entry.last_offset + 1)
        return now == (place.crc, place.epoch, place.next)

    def _check_next(self, log: PartitionLog, number: int, place: StreamPosition) -> None:
        """Check that the segment after the one of ``place`` is there, or was compacted into this one."""
        if number == log.newest:
            return
        expected = place.next if place.following is None else place.following
        found = log.bases[number + 1]
        if found <= expected or (place.following is None and self.size(log, number) > place.position):
            return
        entry = self._newest(log, number, place.position, TailBounds())
        if entry is None or entry.last_offset < expected:
            self._report(log, expected, found)

    def _is_rewritten(self, log: PartitionLog, number: int | None, place: StreamPosition) -> bool:
        """Whether the log was cut before the place.

        A segment that is not the newest may have been compacted instead.
        """
        if number == log.newest or max(self.latest(log).next, log.bases[-1]) < place.next:
            return True
        before = self.at_offset(log, place.next)
        return None not in (before.epoch, place.epoch) and (before.epoch or 0) > (place.epoch or 0)

    def _parting(self, log: PartitionLog, place: StreamPosition) -> StreamPosition:
        """The place after the newest batch that the place's log and this one can share."""
        start = self.earliest(log)
        for number in range(log.newest, -1, -1):
            if log.bases[number] <= place.next:
                found = self._after(log, number, TailBounds(offset=place.next, epoch=place.epoch), start)
                if found.last is not None:
                    return found
        return start

    def _report(self, log: PartitionLog, first: int, end: int) -> None:
        self._on_loss(f"{log.directory}: offsets {first} to {end - 1} were deleted before they were read")


def shares(pending: Mapping[str, Budget], limits: Budget) -> dict[str, Budget]:
    """The limits, shared among partitions in proportion to what each has after its place (``pending``)."""
    sizes = _shared(limits.size, {name: each.size for name, each in pending.items()})
    offsets = _shared(limits.offsets, {name: each.offsets for name, each in pending.items()})
    return {name: Budget(sizes[name], offsets[name]) for name in pending}


def _shared(limit: int | None, pending: Mapping[str, int | None]) -> dict[str, int | None]:
    """None for all where all fits."""
    total = sum(each or 0 for each in pending.values())
    if limit is None or total <= limit:
        return dict.fromkeys(pending, None)
    return {name: limit * (each or 0) // total for name, each in pending.items()}


def _following(log: PartitionLog, number: int) -> int | None:
    return log.bases[number + 1] if number < log.newest else None


@dataclass(frozen=True, slots=True)
class Status:
    """What shows that a file has changed. ``is_settled``: it is not being written."""

    size: int
    number: int = 0
    modified: int = 0
    is_settled: bool = True


def status(path: str) -> Status:
    """The status of a segment. An object in a store is never written to. KdumpError: MISSING, UNREADABLE."""
    if is_uri(path):
        return Status(files.size(path))
    found = files.status(path)
    is_settled = time.time() - found.st_mtime > SETTLED_SECONDS
    return Status(found.st_size, found.st_ino, found.st_mtime_ns, is_settled)
