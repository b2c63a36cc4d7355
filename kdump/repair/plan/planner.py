"""Makes the plan of a repair: every segment is read, nothing is changed."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from kdump.codes import Codes, KdumpError
from kdump.format.checkpoint import LOG_START_CHECKPOINT
from kdump.format.index import AbortedTxn, parse_txn_index
from kdump.kafka.recover import RecoveryOutcome
from kdump.log.content import Content, ContentSource
from kdump.log.files import FileFingerprint, file_names
from kdump.log.names import INDEX_KINDS, Kind, parse_file_name
from kdump.log.opening import open_source
from kdump.log.partition import segments_after
from kdump.log.siblings import read_own_checkpoint
from kdump.log.source import Source
from kdump.repair.plan.beside import differing, has_indexes, has_txn_index, unfit_indexes, unfit_snapshots
from kdump.repair.plan.location import PartitionLocation, is_metadata
from kdump.repair.plan.plan import PartitionPlan, RepairMode, RepairSettings, SegmentPlan
from kdump.repair.plan.producersat import (
    ProducersAt,
    ProducersFromFiles,
    base_offset_of,
    producers_in_snapshot,
)
from kdump.repair.plan.recovery import Recovered, recover_log
from kdump.repair.salvage.pieces import JudgedBefore, RepairedLog, SalvageOptions
from kdump.verify.batchtable import ValidData, tail_end, valid_data
from kdump.verify.siblings import refused_text_files

if TYPE_CHECKING:
    from kdump.repair.salvage.replica import Replica
    from kdump.repair.salvage.siblingcontext import Neighbours


class ProducerHistory:
    """The producers at the base of one segment after the other.

    A broker takes them from the snapshot there (docs/spec/recovery.md#rule-0-the-producer-state-at-the-base-offset),
    which also knows what the log cleaner has removed since. Where there is none, or the repair changes what it was made
    with, the producers after the segment before are handed on. Else they are read from the files before.
    """

    def __init__(self, settings: RepairSettings) -> None:
        self._files = ProducersFromFiles()
        self._next: ProducersAt | None = None
        self._is_first = settings.first_segment
        self._is_changed = False

    def at(self, path: str, base_offset: int) -> ProducersAt:
        """At the base offset of the segment ``path``."""
        found, self._next = self._next, None
        if found is None and self._is_first:
            found = ProducersAt(base_offset, is_known=True)
        self._is_first = False
        if found is None:
            return self._files.at(path)
        states = None if self._is_changed else producers_in_snapshot(path)
        # The plan keeps those of the segment before.
        return found.copy() if states is None else states

    def hand_on(self, recovered: Recovered, *, is_known: bool, is_changed: bool) -> None:
        """The producers after a segment, or after its good part.

        Args:
            recovered: what a broker's recovery makes of the segment.
            is_known: the producers at its base were known.
            is_changed: the repair changes the segment; the snapshots after it go.
        """
        self._is_changed |= is_changed
        outcome = recovered.recovery.outcome
        if outcome is not RecoveryOutcome.FAILED:
            self._next = recovered.producers
            self._next.is_known = is_known and outcome is RecoveryOutcome.UNCHANGED


class Planner:
    """Reads segments and plans their repair.

    Args:
        mode: what is asked for. INDEXES rebuilds every index file that is not as recovery would make it.
        settings: what is assumed of the segments.
        salvaging: how logs are salvaged; None: they are not.
        all_indexes: copies are written, which get new index files in place of those that only differ.
    """

    def __init__(
        self,
        mode: RepairMode,
        settings: RepairSettings,
        *,
        salvaging: SalvageOptions | None = None,
        all_indexes: bool = False,
    ) -> None:
        self._mode = mode
        self._settings = settings
        self._salvaging = salvaging
        self._replicas: Sequence[Replica] = ()
        self._neighbours: Neighbours | None = None
        self._all_indexes = all_indexes

    def partition(
        self, target: str, segments: Sequence[str], place: PartitionLocation, *, is_whole: bool
    ) -> PartitionPlan:
        """The plan for segments of one partition.

        Args:
            target: the PATH that stands for them.
            segments: paths of logs in offset order. Only a whole partition that replicas have may have none.
            place: where they lie. It is given, because asking for the lock again would release the one that is held.
            is_whole: the partition directory holds no others.

        Raises:
            KdumpError: a log cannot be read, or changed meanwhile; FOREIGN_FILE: a file is no log; NO_SEGMENTS: there
                is no log, and replicas have nothing for one.
        """
        self._open_replicas()
        self._neighbours = None
        missing = missing_segments(target, segments, self._replicas) if is_whole and self._replicas else []
        missing += [path for path in segments if self._replicas and not os.path.lexists(path)]
        history = ProducerHistory(self._settings)
        plans: list[SegmentPlan] = []
        is_after_cut = False
        end = 0
        judged: dict[tuple[int, int], JudgedBefore] = {}
        paths = sorted({*segments, *missing}, key=base_offset_of) if missing else segments
        for number, path in enumerate(paths):
            is_closed = number + 1 < len(paths) or bool(segments_after(path))
            reading = self._segment(path, history, end, missing, judged, is_closed=is_closed, is_after_cut=is_after_cut)
            for plan in reading:
                if plan.is_missing and not self._is_to_be_made(plan, plans):
                    continue
                plans.append(plan)
                end = max(end, plan.salvaged.good_end if plan.salvaged is not None else 0)
                judged.update(plan.salvaged.judged if plan.salvaged is not None else {})
                is_after_cut |= is_whole and self._mode is not RepairMode.INDEXES and (plan.is_cut or plan.fails)
        if not plans:
            raise KdumpError(Codes.NO_SEGMENTS, "no segment files, and no copy has what is missing", path=target)
        refused = tuple(refused_text_files(target)) if is_whole else ()
        whole = PartitionPlan(self._mode, target, place, is_whole, tuple(plans), self._settings, refused)
        # Nothing else of a plan needs the producers after a segment, and a partition may have a million.
        kept = tuple(segment.without_producers_after() for segment in plans)
        return replace(whole, segments=kept, unfit_snapshots=unfit_snapshots(whole))

    def _open_replicas(self) -> None:
        """They stay open for all segments: each of their logs is read once."""
        if self._salvaging is not None and self._salvaging.replicas:
            from kdump.repair.salvage.replica import Replica

            self._replicas = list(map(Replica, self._salvaging.replicas))

    @staticmethod
    def _is_to_be_made(plan: SegmentPlan, before: Sequence[SegmentPlan]) -> bool:
        """Whether a missing log is written; the first logs only if a replica has something of them."""
        log = plan.salvaged
        return plan.is_salvaged and log is not None and (bool(before) or log.takes_from_replica)

    def _segment(
        self,
        path: str,
        history: ProducerHistory,
        end_before: int,
        missing: Sequence[str],
        judged: Mapping[tuple[int, int], JudgedBefore],
        *,
        is_closed: bool,
        is_after_cut: bool,
        rolled: RepairedLog | None = None,
    ) -> Iterator[SegmentPlan]:
        """The plan for a log, and for those that are missing after it (``RepairedLog.rolls``).

        ``missing``: known paths of logs that are not there; ``path`` may be one of them. ``judged``: see
        SiblingContext. ``rolled``: what a segment gets that has no file yet.
        """
        base_offset = base_offset_of(path)
        is_there = rolled is None and path not in missing
        fingerprint = FileFingerprint.of(path) if is_there else FileFingerprint.of_log(path)
        producers = history.at(path, base_offset)
        before = producers.copy()
        with self._opened(path, fingerprint) as source:
            recovered = self._recover(source, base_offset, producers)
            recovery = recovered.recovery
            if fingerprint.size and not recovery.end:
                _refuse_foreign(source)
            is_good = recovery.outcome is RecoveryOutcome.UNCHANGED
            good_after = ValidData()
            if is_after_cut or not is_good:
                good_after = valid_data(source, 0 if is_after_cut else recovery.end)
            last = recovery.next_offset - 1 if good_after.last_offset is None else good_after.last_offset
            tail = tail_end(source, recovery.end, recovery.next_offset, good_after.first_offset)
            ends = (recovery.next_offset, tail.torn, last + 1)
            whole = rolled or self._salvage(source, before, end_before, missing, judged)
            salvaged, *further = (None,) if whole is None else whole.segments()
            repaired = self._recover_salvaged(path, fingerprint, base_offset, salvaged, before)
            left = self._leaves(recovered, repaired)
            is_changed = left is repaired and salvaged is not None and not salvaged.is_as_it_was
            history.hand_on(left, is_known=producers.is_known, is_changed=is_changed)
            rebuilt: frozenset[Kind] = frozenset()
            is_left = (is_after_cut and self._mode is RepairMode.LIKE_BROKER) or (
                self._mode is RepairMode.INDEXES and not is_good
            )
            is_left |= not fingerprint.is_there
            if has_indexes(path) and not is_left and recovery.outcome is not RecoveryOutcome.FAILED:
                rebuilt = frozenset(self._unlike(source, recovered, is_closed=is_closed))
        fingerprint.check(path)
        kept = recovered.without_indexes() if is_good else recovered
        like, modified = self._like(path, fingerprint, salvaged)
        yield SegmentPlan(
            *(path, base_offset, fingerprint, like, modified, before, kept, good_after, max(ends)),
            *(salvaged, repaired, rebuilt, is_after_cut),
        )
        for log in filter(None, further):
            further_path = log_path(os.path.dirname(path), log.base_offset)
            yield from self._segment(
                *(further_path, history, end_before, missing, judged),
                is_closed=is_closed,
                is_after_cut=False,
                rolled=log,
            )

    @staticmethod
    def _opened(path: str, fingerprint: FileFingerprint) -> Source:
        """A log; a missing one has no bytes."""
        return open_source(path) if fingerprint.is_there else ContentSource(path, Content.of_bytes(b""))

    @staticmethod
    def _like(path: str, fingerprint: FileFingerprint, salvaged: RepairedLog | None) -> tuple[str, int]:
        """See SegmentPlan."""
        if fingerprint.is_there or salvaged is None:
            return path, fingerprint.modified
        directory = os.path.dirname(path) or "."
        files = [entry.path for entry in os.scandir(directory) if entry.is_file(follow_symlinks=False)]
        like = min(files, key=lambda file: (not file.endswith(Kind.LOG.value), file), default=directory)
        copies = {piece.path for piece in salvaged.pieces if piece.path is not None}
        return like, max((os.stat(copy).st_mtime_ns for copy in copies), default=os.stat(like).st_mtime_ns)

    def _leaves(self, recovered: Recovered, repaired: Recovered | None) -> Recovered:
        """The log before the next segment: the repaired one if the repair changes it."""
        is_good = recovered.recovery.outcome is RecoveryOutcome.UNCHANGED
        if repaired is None or self._mode is RepairMode.INDEXES or (self._mode is RepairMode.LIKE_BROKER and is_good):
            return recovered
        return repaired

    def _salvage(
        self,
        source: Source,
        producers: ProducersAt,
        end_before: int,
        missing: Sequence[str],
        judged: Mapping[tuple[int, int], JudgedBefore],
    ) -> RepairedLog | None:
        options = self._salvaging
        if options is None or (is_metadata(source.path) and not options.correct):
            return None
        if is_metadata(source.path):
            options = replace(options, hold_offsets=False)
        from kdump.repair.salvage.salvage import salvage
        from kdump.repair.salvage.siblingcontext import Neighbours, sibling_context

        if self._neighbours is None or source.path not in self._neighbours:
            self._neighbours = Neighbours(source.path, missing)
        is_partition = bool(self._replicas)
        around = sibling_context(
            source.path, producers, end_before, judged, neighbours=self._neighbours, is_partition=is_partition
        )
        return salvage(source, around, options, self._replicas)

    def _recover_salvaged(
        self,
        path: str,
        fingerprint: FileFingerprint,
        base_offset: int,
        salvaged: RepairedLog | None,
        producers: ProducersAt,
    ) -> Recovered | None:
        """What recovery makes of a log that salvage changed."""
        if salvaged is None or salvaged.is_copy_of(path, fingerprint.size, base_offset):
            return None
        with ContentSource(path, salvaged.content) as source:
            return self._recover(source, salvaged.base_offset, producers.copy())

    def _recover(self, source: Source, base_offset: int, producers: ProducersAt) -> Recovered:
        interval, digests = self._settings.index_interval, self._settings.digests
        return recover_log(source, base_offset, producers, index_interval=interval, digests=digests)

    def _unlike(self, source: Source, recovered: Recovered, *, is_closed: bool) -> set[Kind]:
        """The index files that are to be written."""
        path = source.path
        unlike = set(differing(path, recovered.index_files(has_txn_index=has_txn_index(path))))
        is_cut = recovered.recovery.outcome is RecoveryOutcome.TRUNCATED
        if is_cut or self._mode is RepairMode.INDEXES or self._all_indexes or not unlike:
            return unlike
        # A valid index of a running broker differs from the one that recovery makes.
        aborted = None if recovered.keeps_txn_index else _aborted(recovered)
        return unfit_indexes(source, base_offset_of(path), unlike, is_closed=is_closed, aborted=aborted)


def _refuse_foreign(source: Source) -> None:
    """Raises KdumpError FOREIGN_FILE for a file that is no log, so that nothing of it is cut."""
    from kdump.log.filetypes import identify

    foreign = identify(source)
    if foreign is not None:
        raise foreign.error(source.path)


def _aborted(recovered: Recovered) -> list[AbortedTxn]:
    built = recovered.recovery.indexes
    return list(parse_txn_index(built.txn_index or b"")) if built is not None else []


_LAST: Final = 2**63 - 1


def missing_segments(directory: str, segments: Sequence[str], replicas: Sequence[Replica]) -> list[str]:
    """Paths of the logs that are not there, in offset order.

    A log is missing where its index files are there, and where the partition starts: at the offset of
    log-start-offset-checkpoint, or of the earliest replica where the checkpoint does not name the partition. Other
    missing segments show as a gap after the segment before them (``RepairedLog.rolls``). A missing log is planned like
    any other: it has no bytes yet.

    Args:
        directory: of the partition; the paths begin with it.
        segments: paths of the logs that are there.
        replicas: other copies.
    """
    there = {name.base_offset for name in map(parse_file_name, segments) if name is not None}
    bases = _named(directory) - there
    bases.discard(None)
    first = min((base for base in (*bases, *there) if base is not None), default=_LAST)
    start = min((replica.log_start for replica in replicas), default=_LAST)
    own_start = read_own_checkpoint(directory, LOG_START_CHECKPOINT)
    start = start if own_start is None else max(start, own_start)
    if start < first:
        bases.add(min(replica.start_of_batch(start) for replica in replicas))
    known = sorted(base for base in (*bases, *there) if base is not None)
    # What ends below the log start was deleted.
    needed = [
        base for base, end in zip(known, [*known[1:], _LAST], strict=True) if own_start is None or end > own_start
    ]
    return [log_path(directory, base) for base in needed if base not in there]


def log_path(directory: str, base_offset: int) -> str:
    """The path of the log with a base offset."""
    return os.path.join(directory, f"{base_offset:020d}{Kind.LOG.value}")


def _named(directory: str) -> set[int | None]:
    """Base offsets that index files have in their names, as a broker writes them."""
    names = map(parse_file_name, file_names(directory or "."))
    return {
        name.base_offset
        for name in names
        if name is not None
        and name.kind in INDEX_KINDS
        and not name.state
        and name.base_offset is not None
        and name.stem == f"{name.base_offset:020d}"
    }
