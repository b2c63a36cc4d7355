"""The producer state of a partition and its snapshots, as a start brings them to an offset.

Source: docs/spec/startup.md#5-the-producer-state (rules 19 to 21; also 2 and 25; ProducerStateManager,
UnifiedLog.rebuildProducerState).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from kdump.codes import DamageError
from kdump.fast.policy import BATCHES_IN_CHUNK, RECOVERED_BATCHES
from kdump.format.batch import HEADER_SIZE
from kdump.format.snapshot import ProducerEntry, snapshot_entries
from kdump.kafka.failures import KafkaFailureError
from kdump.kafka.markers import InvalidRecordError
from kdump.kafka.producers import CompletedTxn, ProducerState, ProducerStates
from kdump.kafka.startup.batches import StoredBatch, batches_of, chunks
from kdump.kafka.startup.directory import Directory, LoadSettings
from kdump.kafka.startup.names import SNAPSHOT, covering, file_name
from kdump.kafka.startup.outcome import INDEX_OUT_OF_BOUNDS, INVALID_RECORD, StartFailureError
from kdump.kafka.startup.segment import StartSegment
from kdump.log.content import Content
from kdump.log.source import Source

_EXPIRATION_MS: Final = 86_400_000
"""producer.id.expiration.ms."""


class ProducerManager:
    """The producers at ``states.end_offset``, and the snapshots known by their offsets.

    Producers without an open transaction that are a day older than the present time are forgotten. Snapshots that were
    made later without the manager are not known.

    Raises:
        StartFailureError: the name of a snapshot without a number.
    """

    def __init__(self, directory: Directory, settings: LoadSettings) -> None:
        self.states = ProducerStates()
        self.is_forgotten = False
        """Whether it is a clean start without snapshots, at which nothing was read."""
        self._directory = directory
        self._settings = settings
        self._completed: dict[int, int] = {}
        self._snapshot_offset = 0
        self._snapshots = directory.snapshots

    @property
    def first_undecided_offset(self) -> int | None:
        """The least first offset of the open transactions, and of those that ended after the snapshot loaded."""
        return min((*self.states.ongoing, *self._completed), default=None)

    def rebuild(self, segments: Mapping[int, StartSegment], start: int, end: int, *, is_clean: bool) -> None:
        """Bring the state to ``end``: from the newest snapshot, over the segments after it.

        Raises:
            StartFailureError: a segment cannot be applied.
        """
        if is_clean and not self._snapshots:
            self.is_forgotten = end > start
            for offset in (*sorted(segments)[-2:], end):
                self.states.end_offset = offset
                self.take_snapshot()
            return
        is_there = not self.states.by_id and not self._completed and self.states.end_offset >= end
        self._truncate_and_reload(start, end)
        if self.states.end_offset < end and not is_there:
            bases = sorted(segments)
            wanted = covering(bases, self.states.end_offset, end)
            for base in wanted:
                offset = self.states.end_offset = max(base, self.states.end_offset, start)
                if base in bases[-2:]:
                    self.take_snapshot()
                holds_end = base == wanted[-1] and end not in segments
                self._replay(segments[base], offset, end if holds_end else None)
        self.states.end_offset = end
        self.take_snapshot()

    def take_snapshot(self) -> None:
        """Write a snapshot at the end offset, if that is after the last snapshot."""
        offset = self.states.end_offset
        if offset <= self._snapshot_offset:
            return
        name = file_name(offset, SNAPSHOT)
        data = self.states.snapshot()
        # The file is opened, but not truncated.
        old = self._directory[name] if name in self._directory else Content.of_bytes(b"")
        self._directory[name] = old.overwritten(data)
        self._snapshots[offset] = name
        self._snapshot_offset = offset

    def truncate_fully(self, offset: int) -> None:
        """Forget all producers and delete all known snapshots."""
        self._drop(sorted(self._snapshots))
        self._reset(offset)
        self._snapshot_offset = 0

    def remove_strays(self, segments: Mapping[int, StartSegment]) -> None:
        """Of the snapshots at no segment's base offset keep only the newest, and only after the last base offset."""
        self._snapshots = self._directory.snapshots
        strays = sorted(offset for offset in self._snapshots if offset not in segments)
        if strays and strays[-1] > max(segments):
            strays.pop()
        self._drop(strays)

    def rename_snapshot(self, offset: int, suffix: str) -> str | None:
        """Rename the snapshot at this offset; returns the new name, None if the snapshot is gone."""
        name = self._snapshots.pop(offset, None)
        if name is None or name not in self._directory:
            return None
        self._directory.rename(name, name + suffix)
        return name + suffix

    def _drop(self, offsets: Iterable[int]) -> None:
        """Delete the known snapshots at these offsets, which rise."""
        for offset in reversed(list(offsets)):
            self._directory.remove(self._snapshots.pop(offset))

    def _reset(self, offset: int) -> None:
        self.states = ProducerStates(offset)
        self._completed.clear()

    def _truncate_and_reload(self, start: int, end: int) -> None:
        self._drop(sorted(offset for offset in self._snapshots if not start < offset <= end))
        if end == self.states.end_offset:
            self._completed = {first: last for first, last in self._completed.items() if last >= start}
            self.states.end_offset = max(end, start)
            self._snapshot_offset = max(self._snapshots, default=start)
            return
        self._reset(start)
        self._snapshot_offset = start
        while self._snapshots:
            offset = max(self._snapshots)
            try:
                self.states = self._states_in(self._snapshots[offset], offset)
            except DamageError:
                self._drop([offset])
                continue
            self._snapshot_offset = offset
            return

    def _states_in(self, name: str, offset: int) -> ProducerStates:
        """The states in a snapshot. Raises DamageError when it is damaged."""
        entries = snapshot_entries(self._directory.read(name))
        return ProducerStates.from_snapshot(filter(self._is_alive, entries), offset)

    def _is_alive(self, entry: ProducerEntry) -> bool:
        if entry.current_txn_first_offset >= 0:
            return True
        now = self._directory.stopped_at if self._settings.now is None else self._settings.now
        return now - entry.timestamp < _EXPIRATION_MS

    def _replay(self, segment: StartSegment, offset: int, end: int | None) -> None:
        """Apply the batches of a segment from an offset on; ``end``: as far as that offset, None for all."""
        holding = None if end is None else segment.find(end)
        extent = segment.read_range(offset, segment.size if holding is None else holding[0])
        if extent is not None:
            with self._directory.open(segment.log_name) as source:
                self._apply(_telling_batches(source, *extent))

    def _apply(self, found: Iterable[StoredBatch]) -> None:
        """Apply the batches of one segment. The ends of its transactions count after all of them."""
        before: dict[int, ProducerState | None] = {}
        completed: list[CompletedTxn] = []
        for batch in found:
            if not batch.is_v2 or (header := batch.header).producer_id < 0:
                continue
            if header.producer_id not in before:
                before[header.producer_id] = self.states.by_id.get(header.producer_id)
            if header.is_control and batch.size < HEADER_SIZE:
                raise StartFailureError(INDEX_OUT_OF_BOUNDS, f"a marker of {batch.size} bytes at {batch.position}")
            try:
                ended = self.states.append(header, batch.data[: batch.size])
            except InvalidRecordError as error:
                raise StartFailureError(INVALID_RECORD, str(error)) from None
            except KafkaFailureError as error:
                raise StartFailureError.of(error) from None
            if ended is not None:
                completed.append(ended)
        for producer_id, state in before.items():
            if state is not None:
                self.states.restore_data(producer_id, state)
        # HashMap.computeIfAbsent gathers them and puts the newest at the head of its bucket.
        self.states.see_last(producer_id for producer_id in reversed(before) if before[producer_id] is None)
        for ended in completed:
            try:
                self.states.complete(ended)
            except KafkaFailureError as error:
                raise StartFailureError.of(error) from None
            self._completed[ended.first_offset] = ended.last_offset


def _telling_batches(source: Source, start: int, end: int) -> Iterator[StoredBatch]:
    """The batches of a range that change more than a producer's last batch, and the last batches."""
    seen = 0
    for chunk in chunks(source, start, end):
        numbers: Iterable[int] | None = None
        if seen >= RECOVERED_BATCHES and len(chunk.starts) >= BATCHES_IN_CHUNK:
            from kdump.kafka.recovercolumns import producer_entries

            numbers = producer_entries(chunk)
        yield from batches_of(chunk, numbers)
        seen += len(chunk.starts)
