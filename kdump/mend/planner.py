"""Working a plan out: every segment is read, nothing is changed."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence, Set

from kdump.checks.siblings import refused_text_files
from kdump.checks.sound import SoundData, sound_data, torn_end
from kdump.format.index import AbortedTxn, parse_txn_index
from kdump.kafka.recover import Outcome
from kdump.log.names import Kind
from kdump.log.partition import segments_behind
from kdump.log.source import Source, open_source
from kdump.mend.copies import CopyWriter
from kdump.mend.indexes import differing, has_indexes, has_txn_index
from kdump.mend.likebroker import Recovered, recover_log
from kdump.mend.mendedsource import MendedSource
from kdump.mend.pieces import MendedLog, TxnPolicy
from kdump.mend.place import Place, is_metadata
from kdump.mend.plan import PartitionPlan, SegmentPlan, Settings, Way
from kdump.mend.producersat import (
    ProducersAt,
    WatchedProducers,
    base_offset_of,
    producers_at,
    producers_in_snapshot,
)
from kdump.mend.salvageoptions import SalvageOptions
from kdump.mend.stamp import Stamp


class ProducerHistory:
    """The producers at the base of one segment after the other.

    A broker takes them from the snapshot there (shared/spec/recovery.md rule 0), which also knows what the log cleaner
    has removed since. Where it has none, or was made with what a repair changes, those behind the segment before are
    handed on; where nothing is handed on they are read from the files before.
    """

    def __init__(self, settings: Settings, opened: Callable[[str], Source]) -> None:
        self._opened = opened
        self._next: ProducersAt | None = None
        self._is_first = settings.first_segment
        self._is_changed = False

    def at(self, path: str, base_offset: int) -> ProducersAt:
        """At the base offset of the segment ``path``."""
        found, self._next = self._next, None
        if found is None and self._is_first:
            found = ProducersAt(WatchedProducers(base_offset), is_known=True)
        self._is_first = False
        if found is None:
            return producers_at(path, self._opened)
        states = None if self._is_changed else producers_in_snapshot(path)
        return found if states is None else ProducersAt(states, is_known=True)

    def hand_on(self, recovered: Recovered, *, is_known: bool, is_changed: bool) -> None:
        """What a segment left: a good one, or the good part of one.

        Args:
            recovered: what it is then for a broker.
            is_known: the producers at its base were.
            is_changed: the repair changes it; the snapshots behind it go.
        """
        self._is_changed |= is_changed
        outcome = recovered.recovery.outcome
        if outcome is not Outcome.FAILED:
            states = recovered.producers.copy()
            self._next = ProducersAt(states, is_known and outcome is Outcome.UNCHANGED)


class Planner:
    """Reads segments and says what a repair would do.

    Args:
        way: what is asked for; INDEXES has every index file rebuilt that is not as recovery would make it.
        settings: see Settings.
        opened: opens a log.
        salvaging: how logs are salvaged, None: that is not asked for.
        copies: writes what recovery keeps, while it is read; the plan then tells what was done.
    """

    def __init__(
        self,
        way: Way,
        settings: Settings,
        opened: Callable[[str], Source] = open_source,
        *,
        salvaging: SalvageOptions | None = None,
        copies: CopyWriter | None = None,
    ) -> None:
        self._way = way
        self._settings = settings
        self._open = opened
        self._salvaging = salvaging
        self._copies = copies

    def partition(self, target: str, segments: Sequence[str], place: Place, *, is_whole: bool) -> PartitionPlan:
        """The plan for segments of one partition.

        Args:
            target: the PATH that they come from.
            segments: paths of logs in offset order; at least one.
            place: where they lie. It is not looked up here: asking for a lock would give back the one that is held.
            is_whole: they are all that the partition directory holds.

        Raises:
            KdumpError: a log cannot be read, or changed meanwhile.
        """
        history = ProducerHistory(self._settings, self._open)
        plans: list[SegmentPlan] = []
        is_behind_cut = False
        end = 0
        in_doubt: set[tuple[int, int]] = set()
        for number, path in enumerate(segments):
            is_closed = number + 1 < len(segments) or bool(segments_behind(path))
            plan = self._segment(path, history, end, in_doubt, is_closed=is_closed, is_behind_cut=is_behind_cut)
            plans.append(plan)
            end = max(end, plan.salvaged.good_end if plan.salvaged is not None else 0)
            left = plan.salvaged.transactions if plan.salvaged is not None else ()
            in_doubt |= {(one.producer_id, one.first_offset) for one in left if one.done is TxnPolicy.LEAVE}
            is_behind_cut |= is_whole and self._way is not Way.INDEXES and (plan.is_cut or plan.fails)
        refused = tuple(refused_text_files(target)) if is_whole else ()
        return PartitionPlan(self._way, target, place, is_whole, tuple(plans), refused)

    def _segment(
        self,
        path: str,
        history: ProducerHistory,
        end_before: int,
        in_doubt: Set[tuple[int, int]],
        *,
        is_closed: bool,
        is_behind_cut: bool,
    ) -> SegmentPlan:
        base_offset = base_offset_of(path)
        stamp = Stamp.of(path)
        producers = history.at(path, base_offset)
        before = producers.copy()
        with self._open(path) as source:
            recovered = self._recover(source, base_offset, producers, is_wanted=not is_behind_cut)
            recovery = recovered.recovery
            is_good = recovery.outcome is Outcome.UNCHANGED
            behind = SoundData()
            if is_behind_cut or not is_good:
                behind = sound_data(source, 0 if is_behind_cut else recovery.end)
            last = recovery.next_offset - 1 if behind.last_offset is None else behind.last_offset
            ends = (recovery.next_offset, torn_end(source, recovery.end, recovery.next_offset), last + 1)
            salvaged = self._salvage(source, before, end_before, in_doubt)
            mended = self._mended(path, stamp, base_offset, salvaged, before)
            left = self._leaves(recovered, mended)
            history.hand_on(left, is_known=producers.is_known, is_changed=left is mended)
            rebuilt: frozenset[Kind] = frozenset()
            is_left = (is_behind_cut and self._way is Way.LIKE_BROKER) or (self._way is Way.INDEXES and not is_good)
            if has_indexes(path) and not is_left and recovery.outcome is not Outcome.FAILED:
                rebuilt = frozenset(self._unlike(source, recovered, is_closed=is_closed))
        stamp.check(path)
        kept = recovered.without_indexes() if is_good else recovered
        return SegmentPlan(
            path, base_offset, stamp, before, kept, behind, max(ends), salvaged, mended, rebuilt, is_behind_cut
        )

    def _leaves(self, recovered: Recovered, mended: Recovered | None) -> Recovered:
        """The log behind which the next segment lies.

        Once it is mended a broker knows no other one, and a second run does not either.
        """
        is_good = recovered.recovery.outcome is Outcome.UNCHANGED
        if mended is None or self._way is Way.INDEXES or (self._way is Way.LIKE_BROKER and is_good):
            return recovered
        return mended

    def _salvage(
        self, source: Source, producers: ProducersAt, end_before: int, in_doubt: Set[tuple[int, int]]
    ) -> MendedLog | None:
        if self._salvaging is None or is_metadata(source.path):
            return None
        from kdump.mend.salvage import salvage
        from kdump.mend.surroundings import look_around

        around = look_around(source.path, producers.states.copy(), end_before, in_doubt)
        return salvage(source, around, self._salvaging)

    def _mended(
        self, path: str, stamp: Stamp, base_offset: int, salvaged: MendedLog | None, producers: ProducersAt
    ) -> Recovered | None:
        """What recovery makes of a log that salvage changed."""
        if salvaged is None or salvaged.is_copy_of(path, stamp.size, base_offset):
            return None
        with MendedSource(path, salvaged, self._open) as source:
            interval = self._settings.index_interval
            return recover_log(source, salvaged.base_offset, producers.copy(), index_interval=interval)

    def _recover(self, source: Source, base_offset: int, producers: ProducersAt, *, is_wanted: bool) -> Recovered:
        interval = self._settings.index_interval
        if self._copies is None or not is_wanted:
            return recover_log(source, base_offset, producers, index_interval=interval)
        with self._copies.open(os.path.basename(source.path), source.path) as copy:
            recovered = recover_log(source, base_offset, producers, index_interval=interval, copy=copy)
            self._copies.finish(source.path, copy, recovered)
        return recovered

    def _unlike(self, source: Source, recovered: Recovered, *, is_closed: bool) -> set[Kind]:
        """The index files that are to be written."""
        path = source.path
        unlike = set(differing(path, recovered.index_files(has_txn_index=has_txn_index(path))))
        is_cut = recovered.recovery.outcome is Outcome.TRUNCATED
        if is_cut or self._way is Way.INDEXES or self._copies is not None or not unlike:
            return unlike
        from kdump.mend.fitness import unfit_indexes

        # A sound index of a running broker is not quite the one that recovery makes.
        aborted = None if recovered.keeps_txn_index else _aborted(recovered)
        return unlike & unfit_indexes(source, base_offset_of(path), is_closed=is_closed, aborted=aborted)


def _aborted(recovered: Recovered) -> list[AbortedTxn]:
    built = recovered.recovery.indexes
    return parse_txn_index(built.txn_index or b"") if built is not None else []
