"""Every good batch of a damaged log, also behind holes, as a log on which Kafka's recovery cuts nothing.

Source: issue 7, points 3 to 6; shared/spec/recovery.md for what recovery asks of a log.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kdump.checks.table import first_offset, read_columns, row_at
from kdump.codes import KdumpError
from kdump.format.batch import CONTROL, MAX_INT32
from kdump.log.resync import CheckedChunk, ResyncWalk
from kdump.log.source import Source, open_source
from kdump.mend.chain import heaviest_chain
from kdump.mend.draft import Draft, Table
from kdump.mend.entry import Entry
from kdump.mend.hold import FreeOffsets, aborted, held
from kdump.mend.holes import HoleReader
from kdump.mend.knownend import known_end
from kdump.mend.order import fitting
from kdump.mend.pieces import Lost, MendedLog, Origin, TouchedTransaction, TxnPolicy
from kdump.mend.range import in_range
from kdump.mend.restore import (
    NEIGHBOURS,
    ONE_BIT,
    Room,
    first_offsets,
    fit,
    is_gapless,
    jumping_last,
    misdated,
    misplaced,
)
from kdump.mend.surroundings import Surroundings
from kdump.mend.survey import survey
from kdump.mend.transactions import Touched, TouchedTransactions, contradictions, trusted
from kdump.wire.compression import DEFAULT_LIMIT

_NEWEST_MAGIC: Final = 2


@dataclass(frozen=True, slots=True)
class SalvageOptions:
    """How a log is salvaged.

    ``deep``: drop batches whose CRC holds and whose records do not decode, too. ``limit``: most bytes that one batch
    may decompress to. ``hold_offsets``: put empty batches over what is lost. ``correct``: flip single bits back.
    ``transactions``: what is done about those whose end is undecided.
    """

    deep: bool = True
    limit: int = DEFAULT_LIMIT
    hold_offsets: bool = True
    correct: bool = False
    transactions: TxnPolicy = TxnPolicy.LEAVE


def salvage(source: Source, around: Surroundings, options: SalvageOptions | None = None) -> MendedLog:
    """What can be made of a log.

    Args:
        source: the log, a regular file.
        around: what lies around it.
        options: see SalvageOptions.

    Raises:
        KdumpError: the log cannot be read at all.
        ValueError: the source is a stream.
    """
    if source.size is None:
        raise ValueError("salvage reads files, not streams")
    return _Salvage(source, around, options or SalvageOptions()).result()


class _Salvage:
    """One log on its way; the steps are called in order."""

    def __init__(self, source: Source, around: Surroundings, options: SalvageOptions) -> None:
        self._source = source
        self._around = around
        self._options = options
        self._size = source.size or 0
        self._survey = survey(source, deep=options.deep, limit=options.limit)
        # Batches whose header is set back before anything is chosen: their rows have the new values.
        self._restored: dict[int, Entry] = {}
        self._reasons: dict[int, str] = {}
        self._draft = Draft(self._survey, source.path, self._size, np.empty(0, np.int64), [])
        self._base_offset = 0
        self._is_gapless = True

    def result(self) -> MendedLog:
        """All steps."""
        self._restore()
        self._choose()
        self._fill()
        self._settle()
        table = self._draft.table()
        end = self._end(table)
        losses = self._draft.lost(table, self._base_offset, end)
        transactions = self._transactions(table, losses, end)
        table = self._draft.table()
        losses = self._draft.lost(table, self._base_offset, end)
        restored = tuple(
            sorted((one for entry in self._draft.entries for one in entry.restored), key=attrgetter("position"))
        )
        dropped = tuple(self._draft.dropped(table, self._reasons))
        if self._options.hold_offsets:
            self._hold(losses)
            table = self._draft.table()
            losses = [replace(loss, is_held=True) for loss in losses]
        return MendedLog(
            self._base_offset,
            tuple(self._draft.pieces(table)),
            dropped,
            tuple(losses),
            restored,
            tuple(transactions),
        )

    def _restore(self) -> None:
        """Header fields that their neighbours, or a right CRC, give one value."""
        rows, is_good = self._survey.rows, self._survey.is_good
        for number in np.flatnonzero(is_good & (rows["magic"] > _NEWEST_MAGIC)).tolist():
            self._change(number, self._entry(number).with_magic(_NEWEST_MAGIC, "the CRC is right for magic 2 only"))
        good = np.flatnonzero(is_good)
        places = {number: (offset, NEIGHBOURS) for number, offset in misplaced(rows[good], self._around).items()}
        last = jumping_last(rows[good], self._around)
        if last is not None:
            places[good.size - 1] = last, ONE_BIT
        for number, place in places.items():
            entry = self._entry(int(good[number]))
            if entry.can_move:
                self._change(int(good[number]), entry.moved(*place))

    def _change(self, number: int, entry: Entry) -> None:
        self._restored[number] = entry
        self._survey.rows[number] = tuple(entry.row)

    def _entry(self, number: int) -> Entry:
        known = self._restored.get(number)
        return known or Entry(row_at(self._survey.rows, number), Origin.KEPT, self._source.path)

    def _choose(self) -> None:
        """The chain of good batches that holds the most records."""
        rows = self._survey.rows
        good = np.flatnonzero(self._survey.is_good)
        fits = in_range(rows[good], self._around)
        for number in good[~fits].tolist():
            self._reasons[number] = "the segment cannot hold its offsets"
        good = good[fits]
        records = np.maximum(rows["record_count"][good].astype(np.int64), 0)
        kept = good[heaviest_chain(first_offsets(rows[good]), rows["last_offset"][good].astype(np.int64), records)]
        chosen = np.zeros(rows.size, np.bool_)
        chosen[kept] = True
        for number in good[~chosen[good]].tolist():
            self._reasons[number] = "other batches with more records have its offsets"
        restored = [number for number in self._restored if chosen[number]]
        self._draft.kept = kept[~np.isin(kept, restored)]
        self._draft.entries = [self._restored[number] for number in restored]
        self._kept = kept
        self._base_offset = self._name_for(rows[kept])
        self._is_gapless = is_gapless(rows[kept])

    def _name_for(self, kept: NDArray[np.void]) -> int:
        base = self._around.base_offset
        if not kept.size:
            return base or 0
        first = int(first_offsets(kept[:1])[0])
        if base is None or first < base or int(kept["last_offset"][-1]) - base > MAX_INT32:
            return first
        return base

    def _fill(self) -> None:
        """What can be had out of the holes of the chain, and what lies elsewhere than its offsets belong."""
        survey, rows = self._survey, self._survey.rows
        used = np.zeros(rows.size, np.bool_)
        used[self._kept] = True
        used |= self._copies(used)
        # What clearly belongs elsewhere is not looked for in the holes.
        self._move(used, strictly=True)
        reader = HoleReader(self._source, survey, correct=self._options.correct, limit=self._options.limit)
        for room in self._rooms([entry for entry in self._draft.entries if entry.origin is Origin.MOVED]):
            for entry in fit(list(reader.entries(room, used)), room):
                self._draft.entries.append(entry)
                used |= rows["position"] == entry.row.position
        self._move(used, strictly=False)

    def _move(self, used: NDArray[np.bool_], *, strictly: bool) -> None:
        """Put good batches that are out of order where they belong; see ``order.fitting``."""
        rows = self._survey.rows
        left = np.flatnonzero(self._survey.is_good & ~used & self._is_in_segment(rows))
        if left.size:
            found = left[fitting(rows[left], self._draft.table().rows, strictly=strictly)]
            self._draft.entries += [replace(self._entry(number), origin=Origin.MOVED) for number in found.tolist()]
            used[found] = True

    def _is_in_segment(self, rows: NDArray[np.void]) -> NDArray[np.bool_]:
        end = self._around.next_base or self._base_offset + MAX_INT32 + 1
        first, last = first_offsets(rows), rows["last_offset"]
        return np.asarray((first >= self._base_offset) & (last < end) & (last >= first))

    def _copies(self, taken: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Good batches that are there twice: the same as one that is ``taken``."""
        rows = self._survey.rows
        others = np.flatnonzero(self._survey.is_good & ~taken)
        copies = np.zeros(rows.size, np.bool_)
        if others.size:
            names = ["base_offset", "last_offset", "size", "crc"]
            originals = set(zip(*(rows[name][taken].tolist() for name in names), strict=True))
            keys = zip(*(rows[name][others].tolist() for name in names), strict=True)
            for number, key in zip(others.tolist(), keys, strict=True):
                if key in originals:
                    copies[number] = True
                    self._reasons[number] = "the same batch is there twice"
        return copies

    def _rooms(self, moved: Sequence[Entry]) -> Iterator[Room]:
        """The holes of the chain; ``moved`` are batches that take offsets there."""
        taken = sorted((entry.first_offset, entry.row.last_offset) for entry in moved)
        rows, kept = self._survey.rows, self._kept
        position = rows["position"][kept]
        starts = np.concatenate(([0], position + rows["size"][kept]))
        stops = np.append(position, self._size)
        end = self._end(self._draft.table())
        for hole in np.flatnonzero(starts < stops).tolist():
            before = row_at(rows, int(kept[hole - 1])) if hole else None
            behind = row_at(rows, int(kept[hole])) if hole < kept.size else None
            first = self._base_offset if before is None else before.last_offset + 1
            if before is None and behind is not None and self._around.base_offset is None:
                first = first_offset(behind)
            stop = first_offset(behind) if behind is not None else end
            reach = bisect_left(taken, (first,)), len(taken) if stop is None else bisect_left(taken, (stop,))
            yield Room(
                int(starts[hole]),
                int(stops[hole]),
                first,
                stop,
                before,
                behind,
                self._is_gapless,
                self._around.index,
                taken[slice(*reach)],
            )

    def _end(self, table: Table) -> int | None:
        return known_end(self._source, self._survey, table.rows, self._around, self._base_offset)

    def _settle(self) -> None:
        """No batch that recovery would fail on, and leader epochs that can be right."""
        table = self._draft.table()
        wrong = contradictions(table.rows, self._around.producers)
        if wrong:
            owners = table.owner[wrong].tolist()
            self._reasons.update(
                dict.fromkeys(owners, "a plain batch and a transaction of its producer contradict each other")
            )
            self._draft.drop(owners)
            table = self._draft.table()
        changed = {}
        for number, (epoch, why) in misdated(table.rows, self._around).items():
            owner = int(table.owner[number])
            entry = self._draft.entries[-1 - owner] if owner < 0 else self._entry(owner)
            changed[owner] = entry.with_epoch(epoch, why)
        if changed:
            self._draft.replace(changed)

    def _transactions(self, table: Table, losses: list[Lost], end: int | None) -> list[TouchedTransaction]:
        """Those that touch a hole; with what was done about them."""
        holes = [(loss.first_offset, loss.last_offset) for loss in losses]
        last = int(table.rows["last_offset"][-1]) if table.rows.size else self._base_offset - 1
        if end is None and self._is_cut(table):
            holes.append((last + 1, self._base_offset + MAX_INT32))
        if not holes:
            return []
        around = self._around
        evidence = around.aborted or ()
        followed = TouchedTransactions(around.producers, evidence if trusted(evidence, table.rows, holes) else ())
        followed.see(table.rows, holes)
        followed.see_following(_following_tables(around.following))
        return self._decide(followed.finish(), table, FreeOffsets(holes))

    def _is_cut(self, table: Table) -> bool:
        """Bytes are missing at the end."""
        rows = table.rows
        return not rows.size or int((rows["position"] + rows["size"]).max()) < self._size

    def _decide(self, all_touched: Sequence[Touched], table: Table, free: FreeOffsets) -> list[TouchedTransaction]:
        """Make markers and drop batches, as the evidence or the policy has it."""
        decided = []
        dropped: list[int] = []
        for touched in all_touched:
            transaction, policy = touched.transaction, self._options.transactions
            marker = touched.lost_marker
            if transaction.outcome.is_undecided:
                if policy is TxnPolicy.DROP:
                    dropped += _batches_of(transaction, table)
                elif policy is TxnPolicy.ABORT:
                    marker = transaction.hole_offset
                transaction = replace(transaction, done=policy)
            offset = None if marker is None else free.take(marker)
            if offset is not None:
                self._draft.entries.append(aborted(touched, offset, _epoch_before(table.rows, offset)))
            elif marker is not None:
                transaction = replace(transaction, done=TxnPolicy.LEAVE)
            decided.append(transaction)
        self._reasons.update(dict.fromkeys(dropped, "of a transaction whose end is lost"))
        self._draft.drop(dropped)
        return decided

    def _hold(self, losses: Sequence[Lost]) -> None:
        """Empty batches over the losses."""
        rows = self._draft.table().rows
        first, epoch = first_offsets(rows), rows["leader_epoch"]
        for loss in losses:
            behind = epoch[np.searchsorted(first, loss.first_offset) :]
            following = behind[behind >= 0][:1].tolist()
            self._draft.entries += held(
                loss, _epoch_before(rows, loss.first_offset), following[0] if following else None, self._around
            )


def _batches_of(transaction: TouchedTransaction, table: Table) -> list[int]:
    """Owners of the data batches of a transaction that lie before the hole."""
    rows = table.rows
    is_part = (rows["producer_id"] == transaction.producer_id) & (rows["attributes"] & CONTROL == 0)
    is_part &= (rows["base_offset"] >= transaction.first_offset) & (rows["base_offset"] < transaction.hole_offset)
    owners: list[int] = table.owner[is_part].tolist()
    return owners


def _epoch_before(rows: NDArray[np.void], offset: int) -> int:
    """Leader epoch of the newest batch before ``offset``, -1 without one."""
    epoch = rows["leader_epoch"][: np.searchsorted(first_offsets(rows), offset)]
    known = np.flatnonzero(epoch >= 0)
    return int(epoch[known[-1]]) if known.size else -1


def _following_tables(paths: Sequence[str]) -> Iterator[NDArray[np.void]]:
    """The sound batches of the segments behind, a chunk at a time; a segment that cannot be read says nothing."""
    for path in paths:
        try:
            with open_source(path) as source:
                for item in ResyncWalk(source).items():
                    if isinstance(item, CheckedChunk):
                        rows = read_columns(item, is_behind_hole=False)
                        yield rows[rows["is_valid"]]
        except KdumpError:
            return
