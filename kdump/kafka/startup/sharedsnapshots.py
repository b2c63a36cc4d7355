"""Producer states whose snapshots share what they have in common.

For each segment that it recovers, a start takes up to two snapshots of all producers, and reads the newest one again
(docs/spec/startup.md#5-the-producer-state). Where few producers changed, a snapshot here keeps only those. The states
that it was taken of go on for its next reader, and its bytes are made when something asks for them. So the cost stays
in proportion to the changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple, Self

from kdump.format.batch import BatchHeader
from kdump.format.snapshot import ProducerEntry, snapshot_entries, snapshot_size
from kdump.kafka.producers import (
    NO_DATA,
    CompletedTxn,
    ProducerState,
    ProducerStates,
    long_hash_order,
    map_capacity,
    write_entries,
)
from kdump.kafka.startup.firstoffsets import ReadMap, SharedFirstOffset

_LEAST_SHARE: Final = 4
"""A snapshot is written whole where one of so many producers changed: as entries they would take as much memory."""
_UNKNOWN: Final = 1 << 63
"""Stands for the id of a producer that is not worked out yet."""


class _SnapshotChange(NamedTuple):
    """What changed from one snapshot to the next: the producers that were forgotten before, and the new entries.

    ``capacity`` is of the hash map that it was written from.
    """

    forgotten: list[int]
    entries: dict[int, ProducerEntry]
    capacity: int


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
        # Those of which a reader makes other entries than it read.
        self._rewritten: dict[int, None] = {}
        self._checked = 0
        # Of the hash map that the newest snapshot was written from.
        self._capacity = 0
        # Those that were read: the newest, and before it those that were larger than all after them.
        self._read = [ReadMap(0, 0)]
        # The first offsets at which several transactions began. A reader has another producer in ``ongoing``: it is
        # worked out when it is asked for, and known then. Those that are touched changed since a snapshot was read.
        self._shared: dict[int, SharedFirstOffset] = {}
        self._known: set[int] = set()
        self._touched: dict[int, None] = {}
        # The producers are numbered in their order from when such a producer is asked for.
        self._places: dict[int, int] = {}
        self._next_place = 0

    @classmethod
    def read(cls, data: bytes, is_alive: Callable[[ProducerEntry], bool], end_offset: int) -> Self:
        """The states that a snapshot taken at ``end_offset`` holds, without those that are not alive.

        A producer with an open transaction is alive.

        Raises:
            DamageError: the snapshot is damaged.
        """
        count = 0
        dead: dict[int, None] = {}
        rewritten: dict[int, None] = {}

        def alive() -> Iterator[ProducerEntry]:
            nonlocal count
            for entry in snapshot_entries(data):
                count += 1
                if not is_alive(entry):
                    dead[entry.producer_id] = None
                    continue
                if not _is_kept(entry):
                    rewritten[entry.producer_id] = None
                yield entry

        states = cls.from_snapshot(alive(), end_offset)
        # One may be there twice. Then the next snapshot is written whole, and has it once.
        is_once = len(states.by_id.keys() | dead) == count
        if is_once and (len(dead) + len(rewritten)) * _LEAST_SHARE <= count:
            states._whole, states._is_whole_read, states._changed = data, True, {}
            states._forgotten, states._rewritten = list(dead), rewritten
        return states

    @property
    def ongoing(self) -> Mapping[int, int]:
        """See ProducerStates."""
        for first_offset in self._shared:
            self._find_owner(first_offset)
        return super().ongoing

    def append(self, header: BatchHeader, batch: memoryview) -> CompletedTxn | None:
        """See ProducerStates."""
        completed = super().append(header, batch)
        if self._places and header.producer_id not in self._places:
            self._place(header.producer_id)
        if self._changed is not None:
            self._changed[header.producer_id] = None
            if len(self._changed) * _LEAST_SHARE >= len(self.by_id):
                self._changed = None
        return completed

    def complete(self, completed: CompletedTxn) -> None:
        """See ProducerStates."""
        first_offset, producer_id = completed.first_offset, completed.producer_id
        shared = self._shared.get(first_offset)
        if shared is not None and self._states[producer_id].txn_first_offset != first_offset:
            shared.remove(producer_id)
            self._touched[first_offset] = None
        super().complete(completed)

    def entries(self) -> Iterator[ProducerEntry]:
        """See ProducerStates."""
        self._put_in_order()
        return super().entries()

    def see_last(self, producer_ids: Iterable[int]) -> None:
        """Move these producers to the end, in this order: the order of a snapshot depends on it."""
        for producer_id in producer_ids:
            self._states[producer_id] = self._states.pop(producer_id)
            if self._places:
                self._place(producer_id)
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
        whole = self.snapshot() if self._changed is None else None
        changed, self._changed = self._changed or {}, {}
        forgotten, self._forgotten = self._forgotten, []
        rewritten, self._rewritten = self._rewritten, {}
        self._capacity = map_capacity(len(self.by_id))
        if whole is not None:
            self._whole, self._is_whole_read = whole, False
            self._changes, self._checked = [], 0
            return whole
        self._changes.append(
            _SnapshotChange(
                forgotten,
                {producer_id: self.entry_of(producer_id) for producer_id in rewritten | changed},
                self._capacity,
            )
        )
        return SharedSnapshot(self, self._whole, self._changes, len(self.by_id))

    def are_at(self, changes: list[_SnapshotChange], number: int) -> bool:
        """Whether nothing changed since the snapshot that is told by the first ``number`` of ``changes``."""
        return self._changes is changes and len(changes) == number and self._changed == {}

    def become_as_read(self, is_alive: Callable[[ProducerEntry], bool]) -> bool:
        """Become what a reader of the newest snapshot gets, who leaves out what is not alive.

        False: it may get other states, as it may leave out what was written whole.
        """
        if not self._is_whole_read:
            return False
        newest = {
            producer_id: entry
            for change in self._changes[self._checked :]
            for producer_id, entry in change.entries.items()
        }
        self._checked = len(self._changes)
        for producer_id, entry in newest.items():
            state = self._states[producer_id]
            if state.txn_first_offset is not None and state.txn_first_offset < 0:
                self._forget_first_offset(state.txn_first_offset)
                self._states[producer_id] = state = state._replace(txn_first_offset=None)
            if not is_alive(entry):
                del self._states[producer_id]
                self._places.pop(producer_id, None)
                self._forgotten.append(producer_id)
            elif not _is_kept(entry):
                sequence, offset, delta = NO_DATA if entry.last_offset < 0 else entry[2:5]
                self._states[producer_id] = state._replace(
                    last_sequence=sequence, last_offset=offset, offset_delta=delta
                )
                self._rewritten[producer_id] = None
        self._share_as_read()
        return True

    def _share_as_read(self) -> None:
        """Let who reads the newest snapshot decide whose the shared first offsets are."""
        if self._read[-1].capacity != self._capacity:
            self._known = set()
        while self._read and self._read[-1].capacity <= self._capacity:
            self._read.pop()
        self._read.append(ReadMap(self._capacity, self._next_place if self._places else len(self._states)))
        for first_offset in self._touched:
            if not self._shared.get(first_offset):
                self._forget_first_offset(first_offset)
            else:
                self._known.discard(first_offset)
                super()._open(first_offset, _UNKNOWN)
        self._touched = {}

    def _forget_first_offset(self, first_offset: int) -> None:
        self._ongoing.pop(first_offset, None)
        self._shared.pop(first_offset, None)

    def _open(self, first_offset: int, producer_id: int) -> None:
        other = self._ongoing.get(first_offset)
        if other is not None and first_offset not in self._shared:
            state = self._states.get(other)
            is_open = state is not None and state.txn_first_offset == first_offset
            self._shared[first_offset] = SharedFirstOffset([other] if is_open else [])
        shared = self._shared.get(first_offset)
        if shared is not None:
            shared.add(producer_id)
            self._known.add(first_offset)
            self._touched[first_offset] = None
        super()._open(first_offset, producer_id)

    def _first_open(self) -> tuple[int, int] | None:
        first = super()._first_open()
        while first is not None and self._find_owner(first[0]):
            first = super()._first_open()
        return first

    def _find_owner(self, first_offset: int) -> bool:
        """Find out who has a shared first offset in what was read; False: it is known."""
        shared = self._shared.get(first_offset)
        if shared is None or first_offset in self._known or first_offset not in self._ongoing:
            return False
        self._known.add(first_offset)
        if not self._places:
            self._put_in_order()
            self._read = self._read[-1:]
            self._next_place = 0
            for producer_id in self._states:
                self._place(producer_id)
        super()._open(first_offset, shared.last(self._read, self._places))
        return True

    def _put_in_order(self) -> None:
        """Put the producers in the order in which whoever read the snapshots put them into a map."""
        capacity = map_capacity(len(self._states))
        if not _larger_maps(self._changes, capacity):
            return
        known = _entries_after(self._whole, self._changes, capacity)
        for producer_id in self._forgotten:
            known.pop(producer_id, None)
        new = [producer_id for producer_id in self._states if producer_id not in known]
        self._states = {producer_id: self._states[producer_id] for producer_id in (*known, *new)}

    def _place(self, producer_id: int) -> None:
        self._places[producer_id] = self._next_place
        self._next_place += 1


def _is_kept(entry: ProducerEntry) -> bool:
    """Whether a reader of an entry would write the same."""
    return entry.current_txn_first_offset >= -1 and (entry.last_offset >= 0 or entry[2:5] == NO_DATA)


def _larger_maps(changes: list[_SnapshotChange], capacity: int) -> set[int]:
    """The numbers of the snapshots the order of which is still seen in a hash map of ``capacity``.

    Whoever read one put its producers into a new map in the order of the file. That is the order of the larger map it
    was written from, within a bucket of the smaller one.
    """
    found = set()
    for number in reversed(range(len(changes))):
        if changes[number].capacity > capacity:
            capacity = changes[number].capacity
            found.add(number)
    return found


def _entries_after(whole: bytes, changes: list[_SnapshotChange], capacity: int) -> dict[int, ProducerEntry]:
    """The entries after these changes, in the order in which they are put into a hash map of ``capacity``."""
    larger = _larger_maps(changes, capacity)
    entries = {entry.producer_id: entry for entry in snapshot_entries(whole)}
    for number, change in enumerate(changes):
        for producer_id in change.forgotten:
            del entries[producer_id]
        entries.update(change.entries)
        if number in larger:
            entries = {producer_id: entries[producer_id] for producer_id in long_hash_order(entries)}
    return entries


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
        entries = _entries_after(self._whole, self._changes[: self._number], map_capacity(self._count))
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
