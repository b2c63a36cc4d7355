"""Takes what is missing of a log from another copy of the partition.

Followers copy a leader's batches byte for byte. So a copy has the same CRCs at the same offsets as long as both logs
have the same history. The copy is believed about missing offsets where the nearest batches that both logs have are
equal, on each side that has one. Of its batches those are taken that are good to their last record and whose leader
epoch fits. Where the two logs share no batch, the leader epochs decide alone. One leader writes in an epoch, so two
records at one offset are the same if both have the epoch that leader-epoch-checkpoint gives for that offset.

Source: docs/spec/repair.md#6-batches-of-other-copies; KIP-101 for epochs and histories that part.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kdump.codes import Codes, KdumpError
from kdump.diff.table import aligned, are_same
from kdump.format.checkpoint import LOG_START_CHECKPOINT
from kdump.inputs import PathDirectory
from kdump.log.names import Kind, parse_file_name
from kdump.log.opening import open_source
from kdump.log.siblings import read_own_checkpoint, read_topic_id
from kdump.repair.salvage.choice import heaviest_chain
from kdump.repair.salvage.entry import Entry
from kdump.repair.salvage.inventory import take_inventory
from kdump.repair.salvage.pieces import NotTaken, PieceOrigin
from kdump.repair.salvage.siblingcontext import SiblingContext
from kdump.repair.salvage.table import BatchArrays, Column
from kdump.verify.table import cleaned, row_at, row_dtype

_LAST: Final = 2**63 - 1
_ANOTHER_TOPIC: Final = "its partition.metadata names another topic id"
_NOTHING_IN_COMMON: Final = (
    "it has no batch in common with this log, and leader-epoch-checkpoint does not tell the epochs of these offsets"
)


_OTHER_EPOCHS: Final = "their leader epochs are not those that this log has there: the histories of the two logs differ"


@dataclass(frozen=True, slots=True)
class WantedOffsets:
    """Offsets to be filled, first and last.

    At the end of a log (``is_tail``) the last one may lie inside a batch. ``most``: bytes that may be filled, None: any
    number.
    """

    first: int
    last: int
    most: int | None = None
    is_tail: bool = False


@dataclass(slots=True)
class Filling:
    """What replicas have of the offsets wanted.

    ``entries`` in offset order. ``unused``: ranges (first, last) of offsets that the log never had, or that the log
    cleaner took: the replica has nothing between the batches around them. ``not_taken``: what was not believed.
    """

    entries: list[Entry] = field(default_factory=list)
    unused: list[tuple[int, int]] = field(default_factory=list)
    not_taken: list[NotTaken] = field(default_factory=list)


class OwnBatches:
    """The good batches of the damaged log near what is missing: of the segment, and of the nearest ones beside it.

    Args:
        table: the batches in offset order.
        around: the files around the log.
    """

    def __init__(self, table: BatchArrays, around: SiblingContext) -> None:
        self.table = table
        self.around = around
        self._epoch: Column = np.maximum.accumulate(table.rows["leader_epoch"].astype(np.int64))

    def epochs_at(self, first: int) -> tuple[int, int]:
        """The lowest and the highest leader epoch that batches at missing offsets from ``first`` on may have."""
        place = int(np.searchsorted(self.table.first, first))
        low = int(self._epoch[place - 1]) if place else -1
        after = self.table.rows["leader_epoch"][place : place + 1]
        return low, int(after[0]) if after.size and after[0] >= 0 else _LAST


class Replica:
    """Another copy of a partition.

    Args:
        path: its directory, or one of its logs.

    Raises:
        KdumpError: the directory cannot be read, or holds no segment.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._directory = path if os.path.isdir(path) else os.path.dirname(path)
        self._segments: list[tuple[int, str]] = []
        self._read: dict[int, _ReplicaSegment] = {}
        self._history: _History | None = None
        errors: list[KdumpError] = []
        logs = (log.path for log in PathDirectory(path).logs(errors.append)) if os.path.isdir(path) else [path]
        for log in logs:
            name = parse_file_name(log)
            if name is not None and name.base_offset is not None and name.kind is Kind.LOG:
                self._segments.append((name.base_offset, log))
        if errors:
            raise errors[0]
        if not self._segments:
            raise KdumpError(Codes.NOT_A_SEGMENT_FILE, "neither a log nor a directory with one", path=path)

    def base_from(self, offset: int) -> int | None:
        """The lowest base offset of its segments that is not below an offset."""
        number = bisect_left(self._segments, offset, key=itemgetter(0))
        return self._segments[number][0] if number < len(self._segments) else None

    @property
    def log_start(self) -> int:
        """The log start offset: what log-start-offset-checkpoint says, but not before the first segment begins."""
        first, _ = self._segments[0]
        return max(first, read_own_checkpoint(self._directory, LOG_START_CHECKPOINT) or first)

    def start_of_batch(self, offset: int) -> int:
        """The first offset of the batch that holds ``offset``, or ``offset`` where there is none."""
        history = self._between(offset, offset)
        holding = np.flatnonzero((history.table.first <= offset) & (offset <= history.table.last))
        return int(history.table.first[holding[0]]) if holding.size else offset

    def batches(self, wanted: WantedOffsets, own: OwnBatches) -> Filling:
        """Batches at the offsets that are wanted.

        Args:
            wanted: the offsets.
            own: the batches around them.
        """
        near = [wanted.first, wanted.last] if wanted.last < _LAST else [wanted.first]
        if len(own.table):
            near += _nearest(own.table, wanted)
        history = self._between(min(near), _LAST if wanted.is_tail else max(near))
        table = history.table
        upto = table.first if wanted.is_tail else table.last
        inside = np.flatnonzero((table.first >= wanted.first) & (upto <= wanted.last))
        difference, is_proof = _in_common(table, own.table, wanted)
        topic = read_topic_id(self._directory)
        is_other_topic = topic is not None and own.around.topic_id not in (None, topic)
        reason = _ANOTHER_TOPIC if is_other_topic else difference
        if reason is not None:
            return Filling(not_taken=self._not_taken(table.part(inside), reason))
        is_strict = not is_proof and len(own.table) > 0
        fits = _epochs_fit(table.part(inside), own, wanted, is_strict=is_strict)
        unfit = _NOTHING_IN_COMMON if is_strict else _OTHER_EPOCHS
        filling = Filling(not_taken=self._not_taken(table.part(inside[~fits]), unfit))
        inside = inside[fits]
        part = table.part(inside)
        chosen = inside[heaviest_chain(part.first, part.last, part.records)]
        if wanted.most is not None:
            chosen = chosen[np.cumsum(table.rows["size"][chosen]) <= wanted.most]
        filling.entries += [
            Entry(row_at(table.rows, number), PieceOrigin.REPLICA, history.path_of(number))
            for number in chosen.tolist()
        ]
        if not (is_proof or chosen.size):
            return filling
        # Where the nearest common batches are the same, so are the replica's own ones directly beside what is wanted.
        beside = [np.searchsorted(table.last, wanted.first) - 1, np.searchsorted(table.first, wanted.last, "right")]
        believed = np.union1d(chosen, [number for number in beside if 0 <= number < len(table)]).astype(np.int64)
        filling.unused += history.unused(believed, wanted)
        return filling

    def _not_taken(self, part: BatchArrays, reason: str) -> list[NotTaken]:
        if not len(part):
            return []
        return [NotTaken(self.path, int(part.first.min()), int(part.last.max()), reason)]

    def _between(self, first: int, last: int) -> _History:
        """The good batches of the segments that may hold offsets from ``first`` to ``last``."""
        ends = [base for base, _ in self._segments[1:]] + [_LAST]
        numbers = [
            number
            for number, ((base, _), end) in enumerate(zip(self._segments, ends, strict=True))
            if base <= last and end > first
        ]
        if self._history is None or self._history.numbers != numbers:
            self._history = _History(numbers, [self._segment(number) for number in numbers])
        return self._history

    def _segment(self, number: int) -> _ReplicaSegment:
        if number not in self._read:
            base, path = self._segments[number]
            with open_source(path) as source:
                found = take_inventory(source)
                size = source.size or 0
            good = found.table.part(found.is_good & (found.table.rows["magic"] <= 2))
            self._read[number] = _ReplicaSegment(path, base, size, good)
        return self._read[number]


@dataclass(frozen=True, slots=True)
class _ReplicaSegment:
    """One of a replica's; ``good`` are its good batches."""

    path: str
    base: int
    size: int
    good: BatchArrays

    @property
    def was_cleaned(self) -> bool:
        """Whether the log cleaner compacted the segment."""
        begins_late = len(self.good) and int(self.good.position[0]) == 0 and int(self.good.first[0]) > self.base
        return bool(begins_late) or not self.good.is_gapless()


class _History:
    """Segments of a replica that lie one after the other, as one table; ``numbers``: which."""

    def __init__(self, numbers: list[int], segments: list[_ReplicaSegment]) -> None:
        self.numbers = numbers
        self._segments = [segment for segment in segments if segment.size]
        rows = [np.empty(0, row_dtype()), *(segment.good.rows for segment in self._segments)]
        self.table = BatchArrays(np.concatenate(rows))
        counts = [len(segment.good) for segment in self._segments]
        self._segment_of = np.repeat(np.arange(len(counts)), counts)
        self._goes_on = self._adjacent()
        self._starts_log = bool(numbers and numbers[0] == 0)

    def path_of(self, number: int) -> str:
        """The log that holds a batch."""
        return self._segments[int(self._segment_of[number])].path

    def _adjacent(self) -> NDArray[np.bool_]:
        """Of each batch but the last: nothing was ever between it and the next one."""
        table, segment = self.table, self._segment_of
        goes_on = (segment[1:] == segment[:-1]) & (table.end[:-1] == table.position[1:])
        for number in np.flatnonzero(segment[1:] != segment[:-1]).tolist():
            before, after = (self._segments[int(one)] for one in segment[number : number + 2])
            is_whole = int(table.end[number]) == before.size and int(table.position[number + 1]) == 0
            # Between two segments of a log that was not compacted a whole one may be missing.
            is_next = int(table.first[number + 1]) == int(table.last[number]) + 1
            goes_on[number] = is_whole and (is_next or before.was_cleaned or after.was_cleaned)
        return np.asarray(goes_on)

    def unused(self, numbers: Column, wanted: WantedOffsets) -> Iterator[tuple[int, int]]:
        """Offsets near ``wanted`` that no batch ever had, or that the log cleaner took.

        ``numbers``: the batches that are believed, rising.
        """
        table = self.table
        at = numbers[:-1][np.diff(numbers) == 1]
        at = at[self._goes_on[at] & (table.first[at + 1] > table.last[at] + 1)]
        yield from zip((table.last[at] + 1).tolist(), (table.first[at + 1] - 1).tolist(), strict=True)
        if self._starts_log and numbers.size and numbers[0] == 0 and table.position[0] == 0:
            first = max(wanted.first, self._segments[0].base)
            if first < table.first[0]:
                yield first, int(table.first[0]) - 1


def _in_common(theirs: BatchArrays, ours: BatchArrays, wanted: WantedOffsets) -> tuple[str | None, bool]:
    """Of the batches that end at the same offset in both logs, nearest to what is wanted: how one of them differs.

    None: all are equal. And whether at least one is equal, which proves the same history. Batches that differ only
    because of the log cleaner are left out.
    """
    their, our = aligned(theirs.last, ours.last)
    last, their_rows, our_rows = theirs.last[their], theirs.rows[their], ours.rows[our]
    is_same = are_same(their_rows, our_rows)
    has_epoch = their_rows["leader_epoch"] == our_rows["leader_epoch"]
    is_cleaned = (cleaned(their_rows, wrappers=True) | cleaned(our_rows, wrappers=True)) & has_epoch
    known = np.flatnonzero(is_same | ~is_cleaned)
    before = int(np.searchsorted(last[known], wanted.first)) - 1
    after = int(np.searchsorted(last[known], wanted.last, side="right"))
    nearest = known[[place for place in (before, after) if 0 <= place < known.size]]
    different = nearest[~is_same[nearest]]
    difference = None
    if different.size:
        place = int(different[0])
        epochs = int(their_rows["leader_epoch"][place]), int(our_rows["leader_epoch"][place])
        what = f"leader epoch {epochs[0]} there, {epochs[1]} here" if epochs[0] != epochs[1] else "another batch"
        difference = f"it and this log are different at offset {int(last[place])} ({what})"
    return difference, bool(is_same[nearest].any())


def _nearest(table: BatchArrays, wanted: WantedOffsets) -> Iterator[int]:
    """The first offsets of the log's batches on both sides of what is wanted."""
    place = int(np.searchsorted(table.first, wanted.first))
    yield from table.first[max(place - 1, 0) : place].tolist()
    after = int(np.searchsorted(table.first, wanted.last, side="right"))
    yield from table.first[after : after + 1].tolist()


def _epochs_fit(part: BatchArrays, own: OwnBatches, wanted: WantedOffsets, *, is_strict: bool) -> NDArray[np.bool_]:
    """Which batches have leader epochs that fit the batches around the gap, and leader-epoch-checkpoint.

    ``is_strict``: nothing else proves the same history, so the checkpoint has to tell their epochs.
    """
    epoch = part.rows["leader_epoch"].astype(np.int64)
    low, high = own.epochs_at(wanted.first)
    is_new = part.rows["magic"] >= 2
    known = [own.around.epoch_of(offset) for offset in part.first.tolist()]
    told = np.array([-1 if one is None else one for one in known], np.int64)
    has_told = np.array([one is not None for one in known], np.bool_)
    if is_strict:
        return np.asarray(is_new & has_told & (told == epoch))
    return np.asarray(~is_new | ((low <= epoch) & (epoch <= high) & (~has_told | (told == epoch))))


def fill(wanted: WantedOffsets, replicas: Sequence[Replica], own: OwnBatches) -> Filling:
    """Batches for offsets, of the first replica that has some. What it lacks comes from the next one."""
    filling = Filling()
    left = [wanted]
    for replica in replicas:
        rest: list[WantedOffsets] = []
        for part in left:
            found = replica.batches(part, own)
            filling.entries += found.entries
            filling.unused += found.unused
            filling.not_taken += found.not_taken
            rest += _rest(part, found.entries)
        left = rest
    return filling


def _rest(wanted: WantedOffsets, taken: Sequence[Entry]) -> Iterator[WantedOffsets]:
    """What of ``wanted`` the batches ``taken`` in it do not cover."""
    first, most = wanted.first, wanted.most
    for entry in taken:
        if entry.first_offset > first:
            yield WantedOffsets(first, entry.first_offset - 1, most)
        first = entry.row.last_offset + 1
        most = None if most is None else most - entry.row.size
    if first <= wanted.last:
        yield WantedOffsets(first, wanted.last, most, wanted.is_tail)
