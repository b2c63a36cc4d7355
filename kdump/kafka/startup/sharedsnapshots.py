"""Producer states whose snapshots share what they have in common.

For each segment that it recovers, a start takes up to two snapshots of all producers, and reads the newest one again
(docs/spec/startup.md#5-the-producer-state). Where few producers changed, a snapshot here keeps only those. The states
that it was taken of go on for its next reader, and its bytes are made when something asks for them. So the cost stays
in proportion to the changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple, Self

from kdump.format.batch import BatchHeader
from kdump.format.snapshot import ProducerEntry, snapshot_entries, snapshot_size
from kdump.kafka.producers import NO_DATA, CompletedTxn, ProducerState, ProducerStates, write_entries

_LEAST_SHARE: Final = 4
"""A snapshot is written whole where one of so many producers changed: as entries they would take as much memory."""


class _SnapshotChange(NamedTuple):
    """What changed from one snapshot to the next: the producers that were forgotten before, and the new entries."""

    forgotten: list[int]
    entries: dict[int, ProducerEntry]


class RecordedStates(ProducerStates):
    """Producer states that record who changed since their newest snapshot."""

    def __init__(self, end_offset: int = 0) -> None:
        super().__init__(end_offset)
        # The newest snapshot that was written whole, and the entries that each later one changed.
        self._whole = b""
        # A reader may leave out some of what was written whole here.
        self._is_whole_read = False
        self._changes: list[_SnapshotChange] = []
        # None: so many that the next snapshot is written whole. More changes do not make it fewer of all producers.
        self._changed: dict[int, None] | None = None
        self._forgotten: list[int] = []
        self._checked = 0
        self._has_odd_transaction = False

    @classmethod
    def read(cls, data: bytes, is_alive: Callable[[ProducerEntry], bool], end_offset: int) -> Self:
        """The states that a snapshot taken at ``end_offset`` holds, without those that are not alive.

        Raises:
            DamageError: the snapshot is damaged.
        """
        has_dead = False

        def alive() -> Iterator[ProducerEntry]:
            nonlocal has_dead
            for entry in snapshot_entries(data):
                if is_alive(entry):
                    yield entry
                else:
                    has_dead = True

        states = cls.from_snapshot(alive(), end_offset)
        if not has_dead:
            states._whole, states._is_whole_read, states._changed = data, True, {}
        return states

    def append(self, header: BatchHeader, batch: memoryview) -> CompletedTxn | None:
        """See ProducerStates."""
        completed = super().append(header, batch)
        if self._changed is not None:
            self._changed[header.producer_id] = None
            if len(self._changed) * _LEAST_SHARE >= len(self.by_id):
                self._changed = None
        return completed

    def see_last(self, producer_ids: Iterable[int]) -> None:
        """Move these producers to the end, in this order: the order of a snapshot depends on it."""
        for producer_id in producer_ids:
            self._states[producer_id] = self._states.pop(producer_id)
            if self._changed is not None:
                self._changed[producer_id] = self._changed.pop(producer_id)

    def restore_data(self, producer_id: int, before: ProducerState) -> None:
        """Restore the last data batch, which markers of other epochs within one segment leave unchanged."""
        state = self._states[producer_id]
        if state.epoch == before.epoch and state.last_offset < 0:
            self._states[producer_id] = state._replace(
                last_sequence=before.last_sequence, last_offset=before.last_offset, offset_delta=before.offset_delta
            )

    def take_snapshot(self) -> bytes | SharedSnapshot:
        """A snapshot of the states as they are now."""
        changed, self._changed = self._changed, {}
        forgotten, self._forgotten = self._forgotten, []
        if changed is None:
            self._whole, self._is_whole_read = self.snapshot(), False
            self._changes, self._checked = [], 0
            return self._whole
        self._changes.append(
            _SnapshotChange(forgotten, {producer_id: self.entry_of(producer_id) for producer_id in changed})
        )
        return SharedSnapshot(self, self._whole, self._changes, len(self.by_id))

    def are_at(self, changes: list[_SnapshotChange], number: int) -> bool:
        """Whether nothing changed since the snapshot that is told by the first ``number`` of ``changes``."""
        return self._changes is changes and len(changes) == number and self._changed == {}

    def become_as_read(self, is_alive: Callable[[ProducerEntry], bool]) -> bool:
        """Forget what a reader of the newest snapshot leaves out because it is not alive.

        False: even so the reader may get other states.
        """
        if self._has_odd_transaction or not self._is_whole_read:
            return False
        newest = {
            producer_id: entry
            for change in self._changes[self._checked :]
            for producer_id, entry in change.entries.items()
        }
        if any(entry.last_offset < 0 and entry[2:5] != NO_DATA for entry in newest.values()):
            return False
        self._checked = len(self._changes)
        for producer_id, entry in newest.items():
            if not is_alive(entry):
                del self._states[producer_id]
                self._forgotten.append(producer_id)
        return True

    def _open(self, first_offset: int, producer_id: int) -> None:
        # Whoever reads a snapshot does not see which of two transactions came later, and none that begins below 0.
        self._has_odd_transaction |= first_offset < 0 or first_offset in self.ongoing
        super()._open(first_offset, producer_id)


class SharedSnapshot:
    """The bytes of a snapshot, made when they are asked for.

    Args:
        states: that it was taken of.
        whole: the bytes of the last snapshot before it that was written whole.
        changes: what each snapshot after ``whole`` changed; this one comes last now.
        count: of its entries.
    """

    def __init__(self, states: RecordedStates, whole: bytes, changes: list[_SnapshotChange], count: int) -> None:
        self._states = states
        self._whole = whole
        self._changes = changes
        self._number = len(changes)
        self._count = count

    def __len__(self) -> int:
        return snapshot_size(self._count)

    def __getitem__(self, part: slice) -> bytes:
        entries = {entry.producer_id: entry for entry in snapshot_entries(self._whole)}
        for change in self._changes[: self._number]:
            for producer_id in change.forgotten:
                del entries[producer_id]
            entries.update(change.entries)
        return write_entries(entries)[part]

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, bytes | SharedSnapshot) and self[:] == other[:])

    __hash__ = None  # type: ignore[assignment]

    def reopened(self, is_alive: Callable[[ProducerEntry], bool]) -> RecordedStates | None:
        """The states that a reader gets who leaves out what is not alive: those that the snapshot was taken of.

        They forget what is left out. None where they changed since, or where the snapshot does not keep all of them;
        then its bytes must be read.
        """
        states = self._states
        return states if states.are_at(self._changes, self._number) and states.become_as_read(is_alive) else None
