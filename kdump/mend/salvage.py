"""Every good batch of a damaged log, also behind holes, as a log on which Kafka's recovery cuts nothing.

Source: issue 7, points 3 to 6; shared/spec/recovery.md for what recovery asks of a log.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import replace
from enum import IntEnum
from operator import attrgetter
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kdump.checks.table import first_offset, row_at
from kdump.format.batch import MAX_INT32
from kdump.log.source import Source
from kdump.mend.chain import heaviest_chain
from kdump.mend.draft import Draft
from kdump.mend.endings import decide
from kdump.mend.entry import Entry, identity
from kdump.mend.hold import held
from kdump.mend.holes import HoleReader
from kdump.mend.knownend import known_end
from kdump.mend.misplaced import ENOUGH_PAIRS, misplaced
from kdump.mend.order import fitting
from kdump.mend.pieces import Lost, MendedLog, Origin, TouchedTransaction
from kdump.mend.range import in_range
from kdump.mend.replica import Replica, Wanted, fill
from kdump.mend.restore import Room, RoomIndex, fit, misdated
from kdump.mend.salvageoptions import SalvageOptions
from kdump.mend.surroundings import Surroundings
from kdump.mend.survey import survey
from kdump.mend.table import Column, Table
from kdump.mend.transactions import contradictions
from kdump.mend.txnevidence import Hole
from kdump.mend.wrappers import look_into_wrappers

_NEWEST_MAGIC: Final = 2


class _Reason(IntEnum):
    """Why a good batch is not in the result."""

    NONE = 0
    OUT_OF_RANGE = 1
    CONFLICT = 2
    COPY = 3
    CONTRADICTION = 4
    OPEN_TRANSACTION = 5


_REASON_TEXT: Final = {
    _Reason.OUT_OF_RANGE: "the segment cannot hold its offsets",
    _Reason.CONFLICT: "other batches, with more records, have its offsets",
    _Reason.COPY: "the same batch is there twice",
    _Reason.CONTRADICTION: "a plain batch and a transaction of its producer contradict each other",
    _Reason.OPEN_TRANSACTION: "its transaction has lost its end",
}


def salvage(source: Source, around: Surroundings, options: SalvageOptions | None = None) -> MendedLog:
    """What can be made of a log.

    Args:
        source: the log, a regular file.
        around: what lies around it.
        options: see SalvageOptions.

    Raises:
        KdumpError: a replica cannot be read.
        ValueError: the source is a stream.
    """
    if source.size is None:
        raise ValueError("salvage reads files, not streams")
    return _Salvage(source, around, options or SalvageOptions()).result()


class _Salvage:
    """One log on its way; ``result`` calls the steps in order."""

    def __init__(self, source: Source, around: Surroundings, options: SalvageOptions) -> None:
        self._source = source
        self._around = around
        self._options = options
        self._survey = survey(source, deep=options.deep, limit=options.limit)
        if not options.deep:
            look_into_wrappers(source, self._survey, around, options.limit)
        # Batches whose header is set back before anything is chosen: the survey has the new values.
        self._restored: dict[int, Entry] = {}
        self._reason = np.zeros(len(self._survey.table), np.uint8)
        self._draft = Draft(self._survey, source.path, source.size or 0)
        self._base_offset = around.base_offset or 0

    def result(self) -> MendedLog:
        """All steps."""
        self._restore()
        self._fill(self._choose())
        self._drop_contradictions()
        if self._options.replicas:
            self._ask_replicas()
            self._drop_contradictions()
        self._restore_epochs()
        end = self._known_end()
        transactions = self._end_transactions(end)
        losses = self._draft.losses(self._base_offset, end)
        dropped = tuple(self._draft.dropped(self._reason_of))
        if self._options.hold_offsets:
            self._hold(losses)
            losses = [replace(loss, is_held=True) for loss in losses]
        restored = (one for entry in self._draft.entries for one in entry.restored)
        return MendedLog(
            self._base_offset,
            tuple(self._draft.pieces()),
            dropped,
            tuple(losses),
            tuple(sorted(restored, key=attrgetter("position"))),
            tuple(transactions),
        )

    def _restore(self) -> None:
        """Set back header fields that a right CRC, or the neighbours, give one value."""
        is_good = self._survey.is_good
        for number in np.flatnonzero(is_good & (self._survey.table.rows["magic"] > _NEWEST_MAGIC)).tolist():
            self._set_back(number, self._entry(number).with_magic(_NEWEST_MAGIC, "the CRC is right for magic 2 only"))
        numbers = np.flatnonzero(is_good)
        good = self._survey.table.part(numbers)
        for place, (offset, why) in misplaced(good, self._around).items():
            entry = self._entry(int(numbers[place]))
            if entry.can_move:
                self._set_back(int(numbers[place]), entry.moved(offset, why))

    def _set_back(self, number: int, entry: Entry) -> None:
        self._restored[number] = entry
        self._survey.set_row(number, entry.row)

    def _entry(self, number: int) -> Entry:
        known = self._restored.get(number)
        return known or Entry(row_at(self._survey.table.rows, number), Origin.KEPT, self._source.path)

    def _choose(self) -> Column:
        """The chain of good batches that holds the most records; gives the name of the result, too."""
        good = np.flatnonzero(self._survey.is_good)
        fits = in_range(self._survey.table.part(good), self._around)
        self._reason[good[~fits]] = _Reason.OUT_OF_RANGE
        good = good[fits]
        table = self._survey.table.part(good)
        kept = good[heaviest_chain(table.first, table.last, table.records)]
        self._reason[np.setdiff1d(good, kept, assume_unique=True)] = _Reason.CONFLICT
        self._keep(kept)
        base = self._around.base_offset
        if kept.size:
            first, last = int(self._survey.table.first[kept[0]]), int(self._survey.table.last[kept[-1]])
            if base is None or first < base or last - base > MAX_INT32:
                self._base_offset = first
        return kept

    def _keep(self, numbers: Column, *, is_moved: bool = False) -> None:
        """Take batches into the draft."""
        is_restored = np.isin(numbers, list(self._restored))
        self._draft.keep(numbers[~is_restored], is_moved=is_moved)
        self._draft.add(self._restored[number] for number in numbers[is_restored].tolist())

    def _fill(self, kept: Column) -> None:
        """What can be had out of the holes of the chain, and what lies elsewhere than its offsets belong."""
        used = np.zeros(len(self._survey.table), np.bool_)
        used[kept] = True
        self._pass_over_copies(used)
        rooms = list(self._rooms(kept))
        # What clearly belongs elsewhere is not looked for in the holes.
        moved = self._move(used, strictly=True)
        reader = HoleReader(self._source, self._survey, correct=self._options.correct, limit=self._options.limit)
        chain = self._draft.table
        seen: set[tuple[int, ...]] = set()
        for room in rooms:
            part = replace(room, taken=_between(moved, room))
            entries = fit([one for one in reader.entries(part, used) if self._is_new(one, chain, seen)], part)
            self._draft.add(entries)
            used[self._survey.numbers_at([entry.row.position for entry in entries])] = True
        self._move(used, strictly=False)

    def _ask_replicas(self) -> None:
        """Fill what is lost from other copies of the partition."""
        replicas = [Replica(path, self._options.limit) for path in self._options.replicas]
        most = self._draft.bytes_behind()
        if most and self._around.next_base is None:
            # Nothing says for certain how much was behind the last batch.
            self._ask([Wanted(*self._unknown_tail, most, is_tail=True)], replicas)
        end: int | None = -1
        while end != (end := self._known_end()):
            # What was found may show that the indexes are right, and they say where the log ended.
            tail = None if self._around.next_base is not None else self._unknown_tail[0]
            losses = self._draft.losses(self._base_offset, end, with_gaps=True)
            holes = [(loss.first_offset, loss.last_offset) for loss in losses]
            self._ask([Wanted(first, last, is_tail=first == tail) for first, last in holes], replicas)

    def _ask(self, holes: Sequence[Wanted], replicas: Sequence[Replica]) -> None:
        table = self._draft.table
        for hole in holes:
            filling = fill(hole, replicas, table, self._around)
            self._draft.add(filling.entries)
            if filling.complete_to is not None:
                self._draft.explain(hole.first, filling.complete_to)

    @property
    def _unknown_tail(self) -> Hole:
        """Offsets behind the last batch, as many as there may be."""
        table = self._draft.table
        first = int(table.last[-1]) + 1 if len(table) else self._base_offset
        return first, self._base_offset + MAX_INT32

    def _move(self, used: NDArray[np.bool_], *, strictly: bool) -> list[Hole]:
        """Put good batches that are out of order where they belong (see ``order.fitting``); gives their offsets."""
        table = self._survey.table
        end = self._around.next_base or self._base_offset + MAX_INT32 + 1
        left = np.flatnonzero(self._survey.is_good & ~used)
        left = left[(table.first[left] >= self._base_offset) & (table.last[left] < end)]
        if not left.size:
            return []
        found = left[fitting(table.part(left), self._draft.table, strictly=strictly)]
        self._keep(found, is_moved=True)
        used[found] = True
        return sorted(zip(table.first[found].tolist(), table.last[found].tolist(), strict=True))

    def _pass_over_copies(self, used: NDArray[np.bool_]) -> None:
        """Good batches that are the same as another one, a ``used`` one if there is one: they become used, too."""
        good = np.flatnonzero(self._survey.is_good)
        if used[good].all():
            return
        copies = good[self._survey.table.part(good).copies(used[good])]
        self._reason[copies] = _Reason.COPY
        self._draft.pass_over(copies)
        used[copies] = True

    def _is_new(self, entry: Entry, chain: Table, seen: set[tuple[int, ...]]) -> bool:
        """Neither the chain nor what was ``seen`` has the same batch; it is seen now."""
        name = identity(entry.row)
        place = int(np.searchsorted(chain.first, entry.first_offset))
        is_new = name not in seen and not (place < len(chain) and identity(row_at(chain.rows, place)) == name)
        seen.add(name)
        return is_new

    def _rooms(self, kept: Column) -> Iterator[Room]:
        """The holes of the chain."""
        table = self._survey.table
        chain = table.part(kept)
        starts = np.concatenate(([0], chain.end))
        stops = np.append(chain.position, self._source.size or 0)
        holes = np.flatnonzero(starts < stops).tolist()
        if not holes:
            return
        is_without_gaps = chain.is_gapless(ENOUGH_PAIRS)
        index = RoomIndex(self._around.index, chain)
        for hole in holes:
            before = row_at(chain.rows, hole - 1) if hole else None
            behind = row_at(chain.rows, hole) if hole < kept.size else None
            yield Room(
                int(starts[hole]),
                int(stops[hole]),
                self._base_offset if before is None else before.last_offset + 1,
                self._around.next_base if behind is None else first_offset(behind),
                before,
                behind,
                is_without_gaps,
                index,
                self._base_offset + MAX_INT32 + 1,
            )

    def _known_end(self) -> int | None:
        return known_end(
            self._source,
            self._survey,
            self._draft.table,
            self._around,
            self._base_offset,
            bytes_behind=self._draft.bytes_behind(),
        )

    def _drop_contradictions(self) -> None:
        """Drop batches on which recovery would fail."""
        table = self._draft.table
        wrong = contradictions(table.rows, self._around.producers)
        if wrong:
            self._drop(table.owner[wrong].tolist(), _Reason.CONTRADICTION)

    def _restore_epochs(self) -> None:
        """Set leader epochs back that cannot be right."""
        table = self._draft.table
        changed = {}
        for number, (epoch, why) in misdated(table.rows, self._around).items():
            owner = int(table.owner[number])
            entry = self._draft.entries[-1 - owner] if owner < 0 else self._entry(owner)
            changed[owner] = entry.with_epoch(epoch, why)
        self._draft.replace(changed)

    def _drop(self, owners: Sequence[int], reason: _Reason) -> None:
        entries = [self._draft.entries[-1 - owner] for owner in owners if owner < 0]
        positions = [entry.row.position for entry in entries if entry.path == self._source.path]
        numbers = [owner for owner in owners if owner >= 0]
        self._reason[[*numbers, *self._survey.numbers_at(positions)]] = reason
        self._draft.drop(owners)

    def _reason_of(self, number: int) -> str | None:
        return _REASON_TEXT.get(_Reason(int(self._reason[number])))

    def _end_transactions(self, end: int | None) -> list[TouchedTransaction]:
        """Do what is to be done about transactions that touch a hole; gives all of them."""
        table = self._draft.table
        holes = [(loss.first_offset, loss.last_offset) for loss in self._draft.losses(self._base_offset, end)]
        if end is None and self._draft.bytes_behind() and self._around.next_base is None:
            # Something was there, nothing says how much.
            holes.append(self._unknown_tail)
        rows = self._survey.table.rows
        damaged = rows[~rows["is_valid"]]
        endings = decide(table, damaged, holes, self._around, self._options.transactions)
        self._drop(endings.dropped, _Reason.OPEN_TRANSACTION)
        self._draft.add(endings.markers)
        return endings.transactions

    def _hold(self, losses: Sequence[Lost]) -> None:
        """Put empty batches over what is lost."""
        table = self._draft.table
        self._draft.add([entry for loss in losses for entry in held(loss, table, self._around)])


def _between(offsets: Sequence[Hole], room: Room) -> Sequence[Hole]:
    """Those of ``offsets`` (rising) that lie in the room."""
    return offsets[bisect_left(offsets, (room.first,)) : bisect_left(offsets, (room.limit,))]
