"""The producers at a segment's base offset, from the segments and snapshots before it.

Source: docs/spec/recovery.md#rule-0-the-producer-state-at-the-base-offset,
docs/spec/startup.md#rule-20-from-a-snapshot: the newest valid .snapshot at or below the offset, replayed over the
segments in between; without one, from the start of the log. Only snapshots at the base of a segment are used, where
brokers take them.
"""

from __future__ import annotations

import os
from typing import Final, Self

from kdump.codes import Codes, KdumpError
from kdump.format.batch import BatchHeader
from kdump.format.snapshot import snapshot_entries
from kdump.kafka.producers import CompletedTxn, ProducerStates
from kdump.kafka.recover import SegmentRecovery
from kdump.kafka.segmentindexes import IndexBuilder
from kdump.log.names import Kind, parse_file_name, sibling
from kdump.log.opening import open_source, read_whole
from kdump.log.partition import segments_around
from kdump.log.source import Source
from kdump.log.walk import Walk
from kdump.verify.siblings import check_snapshot

_NOWHERE: Final = -1
"""The end offset of states before the first batch, where that is not at the start of the log."""


class ProducersAt(ProducerStates):
    """The producers at an offset; they note a marker without the beginning of its transaction.

    Where the first batch of a producer has a sequence other than 0, the transaction may have begun before.

    Args:
        end_offset: the offset.
        is_known: everything before it was read, or nothing is before it.
    """

    def __init__(self, end_offset: int = 0, *, is_known: bool = False) -> None:
        super().__init__(end_offset)
        self.is_known = is_known
        self._in_the_midst: set[int] = set()
        self.has_unbegun_marker = False

    def append(self, header: BatchHeader, batch: memoryview) -> CompletedTxn | None:
        """See ProducerStates."""
        producer_id = header.producer_id
        if header.is_transactional and producer_id not in self.by_id and header.base_sequence != 0:
            self._in_the_midst.add(producer_id)
        completed = super().append(header, batch)
        if header.is_control and header.record_count > 0:
            self.has_unbegun_marker |= completed is None or producer_id in self._in_the_midst
            self._in_the_midst.discard(producer_id)
        return completed

    def copy(self) -> Self:
        """An independent copy, which has seen no marker yet."""
        other = super().copy()
        other.is_known, other._in_the_midst = self.is_known, self._in_the_midst.copy()
        return other


class ProducersFromFiles:
    """The producers at segments of one partition, from the files before each of them.

    Segments are asked for in the order of their offsets. So what was read for one is not read again for the next.
    """

    def __init__(self) -> None:
        self._segments: list[str] = []
        self._numbers: dict[str, int] = {}
        # The states at the base offset of the segment with this number, and what was read for them.
        self._number = -1
        self._states = ProducersAt()
        self._is_good = self._has_start = False

    def at(self, path: str) -> ProducersAt:
        """At the base offset of ``path``. Raises KdumpError NAME."""
        base_offset = base_offset_of(path)
        name = os.path.basename(path)
        if self._numbers.get(name, -1) < self._number or self._number < 0:
            self._begin(path)
        number = self._numbers[name]
        for place in range(number, self._number, -1):
            states = producers_in_snapshot(self._segments[place])
            if states is not None:
                self._number, self._states = place, states
                self._is_good = self._has_start = True
                break
        else:
            if self._number < 0:
                self._number, self._is_good = 0, True
                self._has_start = base_offset_of(self._segments[0]) == 0
                self._states = ProducersAt(0 if self._has_start else _NOWHERE)
        if self._is_good:
            self._is_good = _replay(self._states, self._segments[self._number : number], base_offset)
        self._number = number
        states = self._states.copy()
        states.has_unbegun_marker = self._states.has_unbegun_marker
        if states.end_offset == _NOWHERE:
            states.end_offset = base_offset
        states.is_known = self._is_good and self._has_start
        return states

    def _begin(self, path: str) -> None:
        """List the segments around ``path``; one that is missing has none before it."""
        segments = segments_around(path)
        named = [segment for segment in segments if (name := parse_file_name(segment)) and name.base_offset is not None]
        self._segments = named if path in named else [path]
        self._numbers = {os.path.basename(segment): number for number, segment in enumerate(self._segments)}
        self._number = -1


def producers_in_snapshot(path: str) -> ProducersAt | None:
    """The producers in the snapshot at the base offset of the segment ``path``.

    None if there is none, or one that is damaged or cannot be true: a repair replaces it.
    """
    snapshot, offset = sibling(path, Kind.SNAPSHOT), base_offset_of(path)
    if not os.path.lexists(snapshot):
        return None
    try:
        data = read_whole(snapshot)
    except KdumpError:
        return None
    if any(check_snapshot(data, offset)):
        return None
    states = ProducersAt.from_snapshot(snapshot_entries(data), offset)
    states.is_known = True
    return states


def _replay(states: ProducersAt, segments: list[str], end: int) -> bool:
    """Add the batches of the segments; False if one of them is damaged, or does not reach the next."""
    bases = [*map(base_offset_of, segments), end]
    for number, segment in enumerate(segments):
        try:
            with open_source(segment) as source:
                next_offset = _replay_segment(states, source, bases[number])
        except KdumpError:
            return False
        if next_offset is None or next_offset > bases[number + 1]:
            return False
    return True


def _replay_segment(states: ProducersAt, source: Source, base_offset: int) -> int | None:
    """The offset after the segment's last batch, None when not all of it is good."""
    indexes = IndexBuilder(base_offset)
    recovery = SegmentRecovery(base_offset, states, indexes)
    walk = Walk(source)
    size = source.size or 0
    if recovery.open(size):
        for chunk in walk.chunks():
            if not recovery.take(chunk):
                break
    result = recovery.finish(walk.stop, walk.bad_length)
    return result.next_offset if result.failure is None and result.end == size else None


def base_offset_of(path: str) -> int:
    """Of a log's name; 0 for a KRaft checkpoint, whose offsets begin there. Raises KdumpError NAME."""
    name = parse_file_name(path)
    if name is not None and name.kind is Kind.CHECKPOINT:
        return 0
    if name is None or name.base_offset is None:
        raise KdumpError(Codes.NAME, Codes.NAME.value.title, path=path)
    return name.base_offset
