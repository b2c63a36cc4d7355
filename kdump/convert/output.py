"""The segments that a conversion writes: logs with index files as a broker builds them.

Source: docs/spec/recovery.md#2-the-walk-over-the-entries (rules 4, 5, 9 and 10) by way of
:mod:`kdump.kafka.segmentindexes`. Files are only staged here; the caller moves them to their names.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from types import TracebackType
from typing import Final, Self

import numpy as np

from kdump.codes import Codes, DamageError
from kdump.fast.encoded import EncodedEntries
from kdump.format.batch import ATTRIBUTES_LOW_BYTE, MAGIC, MAX_INT32, TRANSACTIONAL, parse_header
from kdump.format.snapshot import ProducerEntry
from kdump.kafka.failures import KafkaFailureError
from kdump.kafka.markers import InvalidRecordError
from kdump.kafka.producers import ProducerStates
from kdump.kafka.segmentindexes import IndexBuilder, SegmentIndexes
from kdump.log.names import Kind
from kdump.system.blocks import BlockWriter
from kdump.system.files import NewFile, Staged, discard

LARGEST_SEGMENT: Final = MAX_INT32
"""Largest size in bytes: positions in a segment are int32."""


@dataclass(frozen=True, slots=True)
class WrittenSegment:
    """One file: its path and size in bytes; of a log also the offset in its name and the number of entries."""

    path: str
    base_offset: int | None
    size: int
    entries: int | None


class OutputSegments:
    """Writes entries to one segment, and to further ones when it is full.

    Args:
        path: of the first log; the others are put beside it and named by their first offsets. A path that ends in ``/``
            is the directory; then the first log is named so too.
        base_offset: of the first log; None: its first offset.
        split_bytes: most bytes of a log (a single entry may be larger); None: as many as Kafka's format allows.
        producers: returns those known at the start, if there are transactions.

    ``problem``, if not None: why the transaction index is not what a broker would build.
    """

    def __init__(
        self,
        path: str,
        base_offset: int | None,
        split_bytes: int | None,
        producers: Callable[[], Iterable[ProducerEntry]],
        like: os.stat_result | None = None,
    ) -> None:
        self._path = path
        self._like = like
        self._base_offset = base_offset
        self._limit = LARGEST_SEGMENT if split_bytes is None else min(split_bytes, LARGEST_SEGMENT)
        self._known_producers = producers
        self._last_offset: int | None = None
        self._segment: _OutputSegment | None = None
        self.segments: list[WrittenSegment] = []
        self.staged: list[Staged] = []
        self.problem: str | None = None

    @cached_property
    def _producers(self) -> ProducerStates:
        return ProducerStates.from_snapshot(self._known_producers())

    def write(self, entries: EncodedEntries) -> None:
        """Append entries.

        Raises:
            DamageError: OFFSETS_BACKWARDS or OFFSET_RANGE: no segment can hold them.
            OSError: they cannot be written.
        """
        before = np.append(
            entries.first_offset[0] - 1 if self._last_offset is None else self._last_offset, entries.last_offset
        )
        is_after = entries.first_offset > before[:-1]
        if not is_after.all():
            number = int(np.flatnonzero(~is_after)[0])
            message = f"offset {entries.first_offset[number]} comes after offset {before[number]}"
            raise DamageError(Codes.OFFSETS_BACKWARDS, message)
        self._last_offset = int(entries.last_offset[-1])
        first = 0
        while first < entries.count:
            if self._segment is None:
                self._segment = self._begin(int(entries.first_offset[first]))
            count = self._segment.room_for(entries, first, self._limit)
            if count:
                part = entries.between(first, first + count)
                self._segment.write(part)
                self._follow_transactions(part)
            else:
                self._end()
            first += count

    def finish(self) -> None:
        """Stage the last log; a log without entries is written too."""
        if self._segment is None and not self.segments:
            self._segment = self._begin(0)
        self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Remove what was not finished."""
        if error is not None:
            if self._segment is not None:
                self._segment.file.discard()
            discard(self.staged)

    def _begin(self, offset: int) -> _OutputSegment:
        directory, name = os.path.split(self._path)
        if self.segments or not name:
            return _OutputSegment(os.path.join(directory, f"{offset:020d}{Kind.LOG.value}"), offset, self._like)
        return _OutputSegment(self._path, offset if self._base_offset is None else self._base_offset, self._like)

    def _end(self) -> None:
        if self._segment is not None:
            written, staged = self._segment.finish()
            self.segments.append(written)
            self.staged += staged
        self._segment = None

    def _follow_transactions(self, entries: EncodedEntries) -> None:
        """Add the aborted transactions to the index, up to a batch at which a broker would stop."""
        assert self._segment is not None
        if entries.magic < MAGIC or self.problem is not None:
            return
        attributes = np.frombuffer(entries.data, np.uint8)[entries.bounds[:-1] + ATTRIBUTES_LOW_BYTE]
        for number in np.flatnonzero(attributes & TRANSACTIONAL).tolist():
            start, end = entries.bounds[number : number + 2].tolist()
            batch = memoryview(entries.data)[start:end]
            try:
                completed = self._producers.append(parse_header(batch), batch)
                if completed is not None:
                    if completed.is_aborted:
                        last_stable = self._producers.last_stable_offset(completed)
                        self._segment.indexes.add_aborted(completed, last_stable)
                    self._producers.complete(completed)
            except (KafkaFailureError, InvalidRecordError) as error:
                self.problem = str(error)
                return


class _OutputSegment:
    """A log that is being written, with its indexes."""

    def __init__(self, path: str, base_offset: int, like: os.stat_result | None) -> None:
        self.file = NewFile(path, like)
        self._like = like
        self.indexes = IndexBuilder(base_offset)
        self._base_offset = base_offset
        self._writer = BlockWriter(self.file.descriptor, at_once=False, escapes=False)
        self._size = 0
        self._entries = 0

    def room_for(self, entries: EncodedEntries, first: int, limit: int) -> int:
        """How many of the entries from ``first`` on fit into this log; at least one into an empty log.

        Raises DamageError OFFSET_RANGE if an empty log cannot take the first.
        """
        room = limit - self._size + int(entries.bounds[first])
        count = int(np.searchsorted(entries.bounds[first + 1 :], room, "right"))
        relative = entries.last_offset[first : first + max(count, 1)] - self._base_offset
        fitting = int(np.searchsorted(relative, MAX_INT32, "right"))
        if self._entries:
            return min(count, fitting)
        if relative[0] < 0 or fitting == 0:
            offset = entries.last_offset[first]
            message = f"offset {offset} does not fit a segment with base offset {self._base_offset}"
            raise DamageError(Codes.OFFSET_RANGE, message)
        return min(max(count, 1), fitting)

    def write(self, entries: EncodedEntries) -> None:
        """Append entries; their offsets rise."""
        starts: list[int] = entries.bounds[:-1].tolist()
        plan = self.indexes.plan_batches(self._size, starts, entries.last_offset, entries.max_timestamp)
        # Rising offsets within the range of the segment cannot fail.
        assert plan is not None
        self.indexes.add_batches(plan)
        self._writer.write(memoryview(entries.data))
        self._size += len(entries.data)
        self._entries += entries.count

    def finish(self) -> tuple[WrittenSegment, list[Staged]]:
        """The log and its index files, staged."""
        self._writer.flush()
        self.indexes.finish()
        log = self.file.finish()
        # The log gets its name last, so that there is never a log without its indexes.
        staged = [*_stage_indexes(self.file.path, self.indexes.contents(), self._like), log]
        return WrittenSegment(self.file.path, self._base_offset, self._size, self._entries), staged


def _stage_indexes(log: str, contents: SegmentIndexes, like: os.stat_result | None) -> list[Staged]:
    """Write the index files of a log."""
    stem = log.removesuffix(Kind.LOG.value)
    staged: list[Staged] = []
    for kind, content in (
        (Kind.INDEX, contents.index),
        (Kind.TIME_INDEX, contents.time_index),
        (Kind.TXN_INDEX, contents.txn_index),
    ):
        if content is not None:
            try:
                file = NewFile(stem + kind.value, like)
                staged.append(Staged(file.temporary, file.path))
                file.write(content)
                file.finish()
            except BaseException:
                discard(staged)
                raise
    return staged
