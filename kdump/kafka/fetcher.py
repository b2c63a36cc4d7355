"""What a follower does with its copy of a partition when another copy leads: where it truncates, whether it ever ends.

Source: docs/spec/replicas.md#3-where-a-follower-truncates (AbstractFetcherThread, Partition, UnifiedLog and
LeaderEpochFileCache of Kafka 4.3.1). The model never compares contents, and neither does Kafka.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kdump.kafka.startup.textfiles import EpochCache

FETCH_BYTES: Final = 1 << 20
"""replica.fetch.max.bytes."""
_MOST_ROUNDS: Final = 100_000
"""A model that is wrong must end, too. Each round truncates, or takes a part of the leader's log."""


@dataclass(frozen=True, slots=True)
class FetchedBatches:
    """The batches of a log as a leader serves them, in file order; every array has shape (batches,).

    ``segment``: the number of the file that holds it. ``is_valid``: its CRC is right. ``bases``: base offsets of the
    files. ``breaks``: numbers of batches after which a reader does not get on within the file.
    """

    base_offset: NDArray[np.int64]
    last_offset: NDArray[np.int64]
    leader_epoch: NDArray[np.int64]
    size: NDArray[np.int64]
    segment: NDArray[np.int64]
    is_valid: NDArray[np.bool_]
    bases: Sequence[int]
    breaks: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class ReplicaLog:
    """A copy as a broker has loaded it."""

    log_start: int
    log_end: int
    high_watermark: int
    epochs: tuple[tuple[int, int], ...]
    first_base: int
    """Base offset of the first segment."""
    batches: FetchedBatches


class FollowerOutcome(NamedTuple):
    """What becomes of the follower's copy.

    ``truncation_offset``: the lowest offset that it truncates to, its log end offset if it keeps all, None if it drops
    everything. ``loops``: it goes on for ever. ``fails``: it gives the partition up until a restart.
    """

    truncation_offset: int | None
    loops: bool = False
    fails: bool = False


class _AppendFailedError(Exception):
    """The follower cannot append what it fetched. ``is_retried``: it fetches the same again, without an end."""

    def __init__(self, *, is_retried: bool) -> None:
        super().__init__()
        self.is_retried = is_retried


class _Leader:
    """The log of the new leader."""

    def __init__(self, log: ReplicaLog, epoch: int) -> None:
        self.log_start, self.log_end, self.high_watermark = log.log_start, log.log_end, log.high_watermark
        self.batches = log.batches
        self.epochs = EpochCache(log.epochs)
        self.epochs.assign(epoch, log.log_end)
        self._bytes = np.concatenate(([0], np.cumsum(log.batches.size)))
        self._bounds = np.searchsorted(log.batches.segment, np.arange(len(log.batches.bases) + 1)).tolist()
        self._highest: dict[int, NDArray[np.int64]] = {}
        self._breaks = set(log.batches.breaks)

    def read(self, offset: int) -> tuple[int, int]:
        """Numbers of the batches, first and last (exclusive), that a fetch brings: whole ones of one file.

        Raises:
            _AppendFailedError: the file cannot be read there.
        """
        segment = max(bisect_right(self.batches.bases, offset) - 1, 0)
        for number in range(segment, len(self.batches.bases)):
            begin, end = self._bounds[number], self._bounds[number + 1]
            first = begin + int(np.searchsorted(self._rising(number), offset))
            if first < end:
                if first > begin and first - 1 in self._breaks:
                    raise _AppendFailedError(is_retried=True)
                fits = int(np.searchsorted(self._bytes, self._bytes[first] + FETCH_BYTES, side="right")) - 1
                return first, max(first + 1, min(fits, end))
        return 0, 0

    def _rising(self, segment: int) -> NDArray[np.int64]:
        """The highest last offset of each batch of a segment and those before it."""
        if segment not in self._highest:
            part = slice(self._bounds[segment], self._bounds[segment + 1])
            self._highest[segment] = np.maximum.accumulate(self.batches.last_offset[part])
        return self._highest[segment]


class _Follower:
    """The log of the follower, as it changes."""

    def __init__(self, log: ReplicaLog) -> None:
        self.log_start, self.log_end, self.high_watermark = log.log_start, log.log_end, log.high_watermark
        self.epochs = EpochCache(log.epochs)
        self._first_base = log.first_base
        self._whole = log.log_end
        self._cuts: list[int] = []
        self._is_dropped = False

    @property
    def truncation_offset(self) -> int | None:
        """See FollowerOutcome."""
        return None if self._is_dropped else min(self._cuts, default=self._whole)

    def truncate(self, offset: int) -> None:
        """UnifiedLog.truncateTo."""
        self._cuts.append(min(offset, self.log_end))
        if offset >= self.log_end:
            self.epochs.cut_end(self.log_end)
        elif self._first_base > offset:
            self._start_again(offset)
        else:
            self.epochs.cut_end(offset)
            self.log_end = offset
            self.log_start = min(self.log_start, offset)
            self.high_watermark = min(self.high_watermark, offset)

    def drop_all(self, offset: int) -> None:
        """UnifiedLog.truncateFullyAndStartAt, because the leader has nothing before ``offset``."""
        self._is_dropped = True
        self._start_again(offset)

    def append(self, batches: FetchedBatches, first: int, last: int) -> int:
        """Append batches of the leader; gives the leader epoch of the last one.

        Raises:
            _AppendFailedError: they cannot be appended.
        """
        if not batches.is_valid[first:last].all():
            raise _AppendFailedError(is_retried=True)
        base, end = batches.base_offset[first:last], batches.last_offset[first:last]
        if int(base[0]) < self.log_end:
            if self.log_end != self.log_start or int(end[0]) < self.log_end:
                raise _AppendFailedError(is_retried=False)
            self._start_again(int(base[0]))
        if (end[1:] <= end[:-1]).any():
            raise _AppendFailedError(is_retried=False)
        epochs = batches.leader_epoch[first:last]
        for number in np.flatnonzero(np.diff(epochs, prepend=epochs[0] - 1)).tolist():
            if epochs[number] >= 0:
                self.epochs.assign(int(epochs[number]), int(base[number]))
        self.log_end = int(end[-1]) + 1
        return int(epochs[-1])

    def follow(self, leader: _Leader) -> None:
        """Take the log start offset and the high watermark from the leader's answer."""
        self.high_watermark = max(self.log_start, min(leader.high_watermark, self.log_end))
        if leader.log_start > self.log_start:
            if leader.log_start > self.high_watermark:
                raise _AppendFailedError(is_retried=False)
            self.log_start = leader.log_start
            self.epochs.cut_start(self.log_start)

    def _start_again(self, offset: int) -> None:
        self.epochs.entries.clear()
        self.log_start = self.log_end = self.high_watermark = self._first_base = offset


def follow(leader_log: ReplicaLog, follower_log: ReplicaLog) -> FollowerOutcome:
    """What becomes of a follower's copy when another copy becomes the leader in a new epoch."""
    known = (log.epochs[-1][0] for log in (leader_log, follower_log) if log.epochs)
    written = (int(log.batches.leader_epoch.max(initial=-1)) for log in (leader_log, follower_log))
    leader, follower = _Leader(leader_log, max(*known, *written, -1, -1) + 1), _Follower(follower_log)
    is_endless = fails = False
    try:
        is_endless = not _replicate(leader, follower)
    except _AppendFailedError as error:
        is_endless, fails = error.is_retried, not error.is_retried
    return FollowerOutcome(follower.truncation_offset, is_endless, fails)


def _replicate(leader: _Leader, follower: _Follower) -> bool:
    """Fetch until the leader has no more; False where that never comes."""
    offset, epoch = follower.log_end, follower.epochs.latest
    if epoch < 0:
        offset = follower.high_watermark
        follower.truncate(offset)
    seen: tuple[int, int, int, list[tuple[int, int]]] | None = None
    for number in range(1, _MOST_ROUNDS + 1):
        state = offset, epoch, follower.log_start, follower.epochs.entries
        if state == seen:
            return False
        if number.bit_count() == 1:
            # Of all states only the one at the newest power of two is kept: what goes on for ever comes back to one.
            seen = *state[:-1], list(follower.epochs.entries)
        diverging = None if epoch < 0 else leader.epochs.end_offset(epoch, leader.log_end)
        is_out_of_range = offset < leader.log_start or (epoch >= 0 and diverging is None)
        if diverging is not None and not is_out_of_range and (diverging[0] < epoch or diverging[1] < offset):
            offset = _truncation(follower, diverging)
            follower.truncate(offset)
            epoch = follower.epochs.latest
        elif is_out_of_range or offset > leader.log_end:
            offset, epoch = _after_out_of_range(leader, follower)
        else:
            first, last = leader.read(offset) if offset < leader.log_end else (0, 0)
            if first == last:
                follower.follow(leader)
                return True
            appended = follower.append(leader.batches, first, last)
            follower.follow(leader)
            offset, epoch = follower.log_end, appended if appended >= 0 else epoch
    return False


def _truncation(follower: _Follower, diverging: tuple[int, int]) -> int:
    """AbstractFetcherThread.getOffsetTruncationState."""
    epoch, end = diverging
    own = follower.epochs.end_offset(epoch, follower.log_end)
    if own is None:
        return min(end, follower.log_end)
    if own[0] != epoch:
        return min(own[1], follower.log_end)
    return min(own[1], end, follower.log_end)


def _after_out_of_range(leader: _Leader, follower: _Follower) -> tuple[int, int]:
    """AbstractFetcherThread.fetchOffsetAndTruncate: the offset and the epoch to go on with."""
    if leader.log_end < follower.log_end:
        follower.truncate(leader.log_end)
        return leader.log_end, follower.epochs.latest
    if leader.log_start > follower.log_end:
        follower.drop_all(leader.log_start)
        return leader.log_start, follower.epochs.latest
    return follower.log_end, follower.epochs.latest
