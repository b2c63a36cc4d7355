"""Makes a log of every good batch of a damaged one, also of those after gaps. Kafka's recovery cuts nothing of it.

Source: docs/spec/repair.md#2-which-batches-salvage-keeps (sections 2 to 6);
docs/spec/recovery.md#2-the-walk-over-the-entries for what recovery asks of a log.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from operator import attrgetter
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kdump.format.batch import MAX_INT32
from kdump.log.names import MAX_OFFSET, parse_file_name
from kdump.log.source import Source
from kdump.repair.salvage.choice import fitting, heaviest_chain, in_range
from kdump.repair.salvage.draft import Draft
from kdump.repair.salvage.entry import Entry, identity
from kdump.repair.salvage.estimatedend import indexed_end, known_end
from kdump.repair.salvage.gapreader import GapReader
from kdump.repair.salvage.inventory import take_inventory
from kdump.repair.salvage.pieces import (
    Lost,
    NotTaken,
    PieceOrigin,
    RepairedLog,
    SalvageOptions,
)
from kdump.repair.salvage.placeholders import held
from kdump.repair.salvage.replica import OwnBatches, Replica, WantedOffsets, fill
from kdump.repair.salvage.resolve import OffsetGap, ResolvedTransactions, decide
from kdump.repair.salvage.restore import ENOUGH_PAIRS, Room, RoomIndex, fit, misplaced, wrong_leader_epochs
from kdump.repair.salvage.siblingcontext import NearestLog, SiblingContext
from kdump.repair.salvage.table import BatchArrays, Column
from kdump.repair.salvage.transactions import contradictions
from kdump.repair.salvage.wrappers import look_into_wrappers
from kdump.verify.table import first_offset, row_at, row_dtype

_NEWEST_MAGIC: Final = 2


_OUT_OF_RANGE: Final = "the segment cannot hold its offsets"
_CONFLICT: Final = "other batches, with more records, have its offsets"
_COPY: Final = "the same batch is there twice"
_CONTRADICTION: Final = "a plain batch and a transaction of its producer contradict each other"
_OPEN_TRANSACTION: Final = "its transaction has lost its end"


def salvage(
    source: Source, around: SiblingContext, options: SalvageOptions, replicas: Sequence[Replica] = ()
) -> RepairedLog:
    """Make a log of the good batches of a damaged one.

    Args:
        source: the log, a regular file; empty for one that is not there.
        around: the files around it.
        options: see SalvageOptions.
        replicas: those of the options, opened.

    Raises:
        ValueError: the source is a stream.
    """
    if source.size is None:
        raise ValueError("salvage reads files, not streams")
    return _Salvage(source, around, options, replicas).result()


class _Salvage:
    """The salvage of one log; ``result`` calls the steps in order."""

    def __init__(
        self, source: Source, around: SiblingContext, options: SalvageOptions, replicas: Sequence[Replica]
    ) -> None:
        self._source = source
        self._around = around
        self._options = options
        self._replicas = replicas
        self._not_taken: set[NotTaken] = set()
        self._end_from: str | None = None
        self._correctable = 0
        self._inventory = take_inventory(source, deep=options.deep)
        if not options.deep:
            look_into_wrappers(source, self._inventory, around)
        # Batches whose header is restored before anything is chosen. The inventory has the new values.
        self._restored: dict[int, Entry] = {}
        # Why a good batch is not in the result, by its number.
        self._reasons: dict[int, str] = {}
        self._draft = Draft(self._inventory, source.path, source.size or 0)
        self._base_offset = around.base_offset or 0

    def result(self) -> RepairedLog:
        """Run all steps."""
        self._restore()
        self._fill(self._choose())
        self._drop_contradictions()
        if self._replicas:
            self._ask_replicas()
            self._drop_contradictions()
        self._restore_epochs()
        end = self._known_end()
        endings = self._end_transactions(end)
        losses = self._draft.losses(self._base_offset, end)
        dropped = tuple(self._draft.dropped(self._reasons))
        if self._options.hold_offsets:
            losses = tuple(replace(loss, is_held=self._knows_empty_batches(loss)) for loss in losses)
            self._hold(loss for loss in losses if loss.is_held)
        restored = (one for entry in self._draft.entries for one in entry.restored)
        rolls = tuple(self._rolls()) if self._around.is_partition else ()
        return RepairedLog(
            self._base_offset,
            tuple(self._draft.pieces(rolls)),
            dropped,
            losses,
            tuple(sorted(restored, key=attrgetter("position"))),
            tuple(endings.transactions),
            tuple(sorted(self._not_taken)),
            self._end_from,
            rolls,
            self._correctable,
            endings.judged,
        )

    def _restore(self) -> None:
        """Restore header fields for which a right CRC, or the neighbours, leave one value."""
        is_good = self._inventory.is_good
        for number in np.flatnonzero(is_good & (self._inventory.table.rows["magic"] > _NEWEST_MAGIC)).tolist():
            self._set_back(number, self._entry(number).with_magic(_NEWEST_MAGIC, "the CRC is right for magic 2 only"))
        numbers = np.flatnonzero(is_good)
        good = self._inventory.table.part(numbers)
        for place, (offset, why) in misplaced(good, self._around).items():
            entry = self._entry(int(numbers[place]))
            if entry.can_move:
                self._set_back(int(numbers[place]), entry.moved(offset, why))

    def _set_back(self, number: int, entry: Entry) -> None:
        self._restored[number] = entry
        self._inventory.set_row(number, entry.row)

    def _entry(self, number: int) -> Entry:
        known = self._restored.get(number)
        return known or Entry(row_at(self._inventory.table.rows, number), PieceOrigin.KEPT, self._source.path)

    def _choose(self) -> Column:
        """Keep the chain of good batches with the most records; it also decides the base offset of the result."""
        good = np.flatnonzero(self._inventory.is_good)
        fits = in_range(self._inventory.table.part(good), self._around)
        self._reasons.update(dict.fromkeys(good[~fits].tolist(), _OUT_OF_RANGE))
        good = good[fits]
        table = self._inventory.table.part(good)
        kept = good[heaviest_chain(table.first, table.last, table.records)]
        self._reasons.update(dict.fromkeys(np.setdiff1d(good, kept, assume_unique=True).tolist(), _CONFLICT))
        self._keep(kept)
        base = self._around.base_offset
        if kept.size:
            first, last = int(self._inventory.table.first[kept[0]]), int(self._inventory.table.last[kept[-1]])
            if base is None or first < base or last - base > MAX_INT32:
                self._base_offset = first
        return kept

    def _keep(self, numbers: Column, *, is_moved: bool = False) -> None:
        """Take batches into the draft."""
        is_restored = np.isin(numbers, list(self._restored))
        self._draft.keep(numbers[~is_restored], is_moved=is_moved)
        self._draft.add(self._restored[number] for number in numbers[is_restored].tolist())

    def _fill(self, kept: Column) -> None:
        """Take in what can be restored in the gaps of the chain, and batches that are out of order."""
        used = np.zeros(len(self._inventory.table), np.bool_)
        used[kept] = True
        self._pass_over_copies(used)
        rooms = list(self._rooms(kept))
        # Good batches that clearly belong in a gap take their offsets first.
        moved = self._move(used, strictly=True)
        self._fill_rooms((replace(room, taken=_between(*moved, room)) for room in rooms), used)
        self._move(used, strictly=False)

    def _fill_rooms(self, rooms: Iterable[Room], used: NDArray[np.bool_]) -> None:
        """Take in what can be restored in the gaps of the chain."""
        reader = GapReader(self._source, self._inventory, correct=self._options.correct)
        chain = self._draft.table
        seen: set[tuple[int, ...]] = set()
        for room in rooms:
            entries = fit([one for one in reader.entries(room, used) if self._is_new(one, chain, seen)], room)
            self._draft.add(entries)
            used[self._inventory.numbers_at([entry.row.position for entry in entries])] = True
        self._correctable = sum(reader.correctable.values())

    def _ask_replicas(self) -> None:
        """Fill what is lost from other copies of the partition."""
        if self._around.next_base is not None:
            self._ask_about_missing_segments(self._around.next_base)
        elif self._around.is_partition and not self._is_end_told:
            self._ask([WantedOffsets(*self._unknown_tail, is_tail=True)])
            newest = self._draft.table.owner[-1:].tolist()
            last = self._draft.entries[-1 - newest[0]] if newest and newest[0] < 0 else None
            self._end_from = last.path if last is not None and last.origin is PieceOrigin.REPLICA else None
        elif not self._around.is_partition and (most := self._draft.bytes_after()):
            # It is unknown how much came after the last batch.
            self._ask([WantedOffsets(*self._unknown_tail, most, is_tail=True)])
        end: int | None = -1
        while end != (end := self._known_end()):
            # What was found may prove the indexes right, and they tell where the log ended.
            tail = None if self._around.next_base is not None else self._unknown_tail[0]
            losses = self._draft.losses(self._base_offset, end, with_gaps=True)
            gaps = [(loss.first_offset, loss.last_offset) for loss in losses]
            self._ask([WantedOffsets(first, last, is_tail=first == tail) for first, last in gaps])

    @property
    def _is_end_told(self) -> bool:
        """Whether snapshots and checkpoints show where the log ended."""
        end, high_watermark = self._unknown_tail[0], self._around.high_watermark
        return bool(self._around.reached(end)) or (high_watermark is not None and high_watermark >= end)

    def _ask_about_missing_segments(self, next_base: int) -> None:
        """Ask for segments that are missing after this one, also of a compacted log.

        Offsets without batches are no loss there. So a segment counts as missing where a replica has one that begins
        after all batches of this log.
        """
        end = self._unknown_tail[0]
        starts = [base for replica in self._replicas if (base := replica.base_from(end)) is not None]
        start = min(starts, default=next_base) if len(self._draft.table) else end
        if start < next_base:
            self._ask([WantedOffsets(start, next_base - 1)])

    def _ask(self, gaps: Sequence[WantedOffsets]) -> None:
        own = OwnBatches(self._with_neighbours(), self._around)
        for gap in gaps:
            filling = fill(gap, self._replicas, own)
            self._draft.add(filling.entries)
            self._not_taken.update(filling.not_taken)
            for first, last in filling.unused:
                self._draft.explain(first, last)

    def _with_neighbours(self) -> BatchArrays:
        """The batches of the draft, and those of the nearest segments on both sides that have some."""
        before, after = self._neighbours
        rows = np.concatenate((before, self._draft.table.rows, after))
        return BatchArrays(rows[np.argsort(BatchArrays(rows).first, kind="stable")])

    @cached_property
    def _neighbours(self) -> tuple[NDArray[np.void], NDArray[np.void]]:
        return _rows(self._around.log_before), _rows(self._around.log_after)

    def _rolls(self) -> Iterator[int]:
        """Where further segments begin, of what replicas gave after the last batch of the log.

        A segment begins where the log ends, if nothing of it is missing, and where a segment of the replica begins.
        """
        table = self._draft.table
        ours = np.flatnonzero(table.is_ours)
        start = int(ours[-1]) + 1 if ours.size else 0
        entries = [self._draft.entries[-1 - owner] for owner in table.owner[start:].tolist()]
        if not any(entry.origin is PieceOrigin.REPLICA for entry in entries):
            return
        base, size = self._base_offset, int((table.end - table.position)[:start].sum())
        end = int(table.last[start - 1]) + 1 if start else base
        is_whole = bool(start) and not self._draft.bytes_after() and not self._is_indexed_after
        for entry in entries:
            first, last = entry.first_offset, entry.row.last_offset
            name = parse_file_name(entry.path or "")
            roll = name.base_offset if name is not None else None
            if roll is None or not max(base + 1, end) <= roll <= first:
                is_full = size + entry.row.size > MAX_INT32 or last - base > MAX_INT32
                roll = first if is_whole or is_full else None
            if roll is not None:
                yield roll
                base, size = roll, 0
            is_whole = False
            end, size = last + 1, size + entry.row.size

    @property
    def _is_indexed_after(self) -> bool:
        """Whether the .index has batches after the last one of the log."""
        table = self._draft.table
        ours = table.part(table.is_ours)
        end = indexed_end(self._around, self._base_offset, ours) if len(ours) else None
        return end is not None and end > int(ours.last.max()) + 1

    @property
    def _unknown_tail(self) -> OffsetGap:
        """Offsets after the last batch, as many as there may be."""
        table = self._draft.table
        first = int(table.last[-1]) + 1 if len(table) else self._base_offset
        return first, min(self._base_offset + MAX_INT32, MAX_OFFSET)

    def _move(self, used: NDArray[np.bool_], *, strictly: bool) -> tuple[Column, Column]:
        """Put good batches that are out of order where they belong (see ``choice.fitting``).

        Gives the first and the last offset of each, rising, both of shape (moved batches,).
        """
        table = self._inventory.table
        end = self._around.next_base or self._base_offset + MAX_INT32 + 1
        left = np.flatnonzero(self._inventory.is_good & ~used)
        left = left[(table.first[left] >= self._base_offset) & (table.last[left] < end)]
        if not left.size:
            return left, left
        found = left[fitting(table.part(left), self._draft.table, strictly=strictly)]
        self._keep(found, is_moved=True)
        used[found] = True
        # Moved batches overlap no other one, so the last offsets rise with the first ones.
        return np.sort(table.first[found]), np.sort(table.last[found])

    def _pass_over_copies(self, used: NDArray[np.bool_]) -> None:
        """Mark good batches as ``used`` that equal another one, which is a used one where there is one."""
        good = np.flatnonzero(self._inventory.is_good)
        if used[good].all():
            return
        copies = good[self._inventory.table.part(good).copies(used[good])]
        self._reasons.update(dict.fromkeys(copies.tolist(), _COPY))
        self._draft.pass_over(copies)
        used[copies] = True

    def _is_new(self, entry: Entry, chain: BatchArrays, seen: set[tuple[int, ...]]) -> bool:
        """Neither the chain nor ``seen`` has an equal batch; ``seen`` has it afterwards."""
        name = identity(entry.row)
        place = int(np.searchsorted(chain.first, entry.first_offset))
        is_new = name not in seen and not (place < len(chain) and identity(row_at(chain.rows, place)) == name)
        seen.add(name)
        return is_new

    def _rooms(self, kept: Column) -> Iterator[Room]:
        """The gaps of the chain."""
        table = self._inventory.table
        chain = table.part(kept)
        starts = np.concatenate(([0], chain.end))
        stops = np.append(chain.position, self._source.size or 0)
        gaps = np.flatnonzero(starts < stops).tolist()
        if not gaps:
            return
        is_without_gaps = chain.is_gapless(ENOUGH_PAIRS)
        index = RoomIndex(self._around.index, chain)
        for gap in gaps:
            before = row_at(chain.rows, gap - 1) if gap else None
            after = row_at(chain.rows, gap) if gap < kept.size else None
            yield Room(
                int(starts[gap]),
                int(stops[gap]),
                self._base_offset if before is None else before.last_offset + 1,
                self._around.next_base if after is None else first_offset(after),
                before,
                after,
                is_without_gaps,
                index,
                self._base_offset + MAX_INT32 + 1,
            )

    def _known_end(self) -> int | None:
        return known_end(
            self._source,
            self._inventory,
            self._draft.table,
            self._around,
            self._base_offset,
            bytes_after=self._draft.bytes_after(),
        )

    def _drop_contradictions(self) -> None:
        """Drop batches on which recovery would fail."""
        table = self._draft.table
        wrong = contradictions(table.rows, self._around.producers)
        if wrong:
            self._drop(table.owner[wrong].tolist(), _CONTRADICTION)

    def _restore_epochs(self) -> None:
        """Set leader epochs back that cannot be right."""
        table = self._draft.table
        changed = {}
        for number, (epoch, why) in wrong_leader_epochs(table.rows, self._around).items():
            owner = int(table.owner[number])
            entry = self._draft.entries[-1 - owner] if owner < 0 else self._entry(owner)
            changed[owner] = entry.with_epoch(epoch, why)
        self._draft.replace(changed)

    def _drop(self, owners: Sequence[int], reason: str) -> None:
        entries = [self._draft.entries[-1 - owner] for owner in owners if owner < 0]
        positions = [entry.row.position for entry in entries if entry.path == self._source.path]
        numbers = [owner for owner in owners if owner >= 0]
        self._reasons.update(dict.fromkeys([*numbers, *self._inventory.numbers_at(positions)], reason))
        self._draft.drop(owners)

    def _end_transactions(self, end: int | None) -> ResolvedTransactions:
        """Decide about the transactions that touch a gap, and do it."""
        table = self._draft.table
        gaps = [(loss.first_offset, loss.last_offset) for loss in self._draft.losses(self._base_offset, end)]
        is_unknown = end is None and self._end_from is None and self._around.next_base is None
        if is_unknown and self._draft.bytes_after():
            # Something was there, but it is unknown how much.
            first, last = self._unknown_tail
            if first <= last:
                gaps.append((first, last))
        rows = self._inventory.table.rows
        damaged = rows[~rows["is_valid"]]
        endings = decide(table, damaged, gaps, self._around, self._options)
        self._drop(endings.dropped, _OPEN_TRANSACTION)
        self._draft.add(endings.markers)
        return endings

    def _knows_empty_batches(self, loss: Lost) -> bool:
        """Whether the log has the format of empty batches, v2, at lost offsets: never a newer one than before them.

        The batches before them in the segment tell; without any, the last batch of the segment before, the next batch,
        a damaged one, or the first batch of the segment after.

        Source: docs/spec/repair.md#3-lost-offsets-are-not-given-out-again.
        """
        table = self._draft.table
        place = int(np.searchsorted(table.first, loss.first_offset))
        if place:
            return bool(table.rows["magic"][:place].max() >= _NEWEST_MAGIC)
        for nearest in self._nearest_rows():
            if nearest.size:
                return bool(nearest["magic"][0] >= _NEWEST_MAGIC)
        return True

    def _nearest_rows(self) -> Iterator[NDArray[np.void]]:
        """The batches that tell the format at the beginning of the log, the best first; other segments if need be."""
        yield _rows(self._around.log_before)[-1:]
        yield self._draft.table.rows
        yield self._inventory.table.rows
        yield _rows(self._around.log_after)

    def _hold(self, losses: Iterable[Lost]) -> None:
        """Put empty batches over what is lost."""
        table = self._draft.table
        self._draft.add([entry for loss in losses for entry in held(loss, table, self._around)])


def _between(first: Column, last: Column, room: Room) -> Sequence[OffsetGap]:
    """Those of the offsets, ``first`` to ``last`` (rising), that lie in the room."""
    within = slice(bisect_left(first, room.first), bisect_left(first, room.limit))
    return list(zip(first[within].tolist(), last[within].tolist(), strict=True))


def _rows(log: NearestLog | None) -> NDArray[np.void]:
    return np.empty(0, row_dtype()) if log is None else log.rows
