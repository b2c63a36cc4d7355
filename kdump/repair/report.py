"""Plans of repairs, and what was done, for people."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Final

from kdump.codes import Codes, Finding
from kdump.format.checkpoint import LEADER_EPOCH_CHECKPOINT
from kdump.kafka.failures import FailureKind
from kdump.log.lock import LockState
from kdump.repair.plan.plan import PartitionPlan, RepairLoss, RepairMode, SegmentPlan
from kdump.repair.salvage.pieces import (
    Dropped,
    LogPiece,
    Lost,
    PieceOrigin,
    RepairedLog,
    Restored,
    TouchedTransaction,
    TxnPolicy,
)
from kdump.system.blocks import escaped
from kdump.verify.report import finding_line

_FEW = 5
"""So many ranges are listed; of more only the number."""


def plan_lines(plan: PartitionPlan, *, is_done: bool, color: bool = False) -> Iterator[str]:
    """What a repair would do, or did: a line for each thing that happens, then what each mode costs.

    There may be a line for each batch of a log.

    Args:
        plan: the plan.
        is_done: it was carried out.
        color: colour the severities of findings.
    """
    return (f"{line}\n" for line in _Text(plan, is_done, color).lines())


def aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """The lines of a small table, its columns aligned."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        yield "    " + "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


class _Text:
    def __init__(self, plan: PartitionPlan, is_done: bool, color: bool) -> None:
        self._plan = plan
        self._is_done = is_done
        self._color = color
        self._target = escaped(plan.target)

    @cached_property
    def _overlapping(self) -> SegmentPlan | None:
        return self._plan.overlapping

    @cached_property
    def _failed(self) -> SegmentPlan | None:
        return self._plan.failed

    def lines(self) -> Iterator[str]:
        plan = self._plan
        above = plan.place.log_directory
        if plan.is_whole and above is not None and plan.has_changes and not self._is_done:
            yield (
                f"{self._target}: when another in-sync replica exists, do not repair: move this directory away and "
                "let it be fetched"
            )
        for segment in plan.segments:
            for text in self._segment(segment):
                yield f"{escaped(segment.path)}: {text}"
        for segment in plan.segments:
            if segment.recovered.keeps_txn_index and segment.rebuilt and not segment.is_after_cut:
                finding = Finding(Codes.TXN_INDEX_KEPT, _TXN_INDEX_KEPT, 0, path=segment.path)
                yield finding_line(finding, color=self._color).rstrip("\n")
        for snapshot in plan.unfit_snapshots:
            done = self._would("remove", "removed") if snapshot.data is None else self._would("rebuild", "rebuilt")
            yield f"{escaped(snapshot.finding.path or '')}: {done} the snapshot: {snapshot.finding.message}"
        for finding in plan.left:
            yield finding_line(finding, color=self._color).rstrip("\n")
            path = escaped(finding.path or "")
            yield f"{path}: stays, and no broker loads the partition with it: {_way_out(finding)}"
        if not (plan.has_changes or plan.is_damaged or plan.left):
            yield f"{self._target}: nothing to repair"
        if not self._is_done:
            if (plan.has_changes and plan.is_damaged) or any(segment.is_salvaged for segment in plan.segments):
                yield from self._both_ways()
            if plan.has_changes:
                yield from self._in_place()

    def _segment(self, segment: SegmentPlan) -> Iterator[str]:
        if self._plan.mode is RepairMode.SALVAGE:
            yield from self._salvaged(segment)
        elif self._plan.mode is RepairMode.LIKE_BROKER:
            yield from self._like_broker(segment)
        elif segment.is_cut or segment.fails:
            yield "the log is damaged: its index files are left as they are"
        if segment.rebuilt and not self._plan.changes_log(segment):
            yield f"{self._would('rebuild', 'rebuilt')} {_kinds(segment)}"

    def _like_broker(self, segment: SegmentPlan) -> Iterator[str]:
        recovery = segment.recovered.recovery
        if segment.is_after_cut:
            if self._failed is None:
                offsets = "no offsets"
                if segment.end_offset > segment.base_offset:
                    offsets = f"offsets {_range(segment.base_offset, segment.end_offset - 1)}"
                yield (
                    f"{self._would('remove', 'removed')} the segment, which lies after the cut: "
                    f"{segment.good_after.records:,} good records, {offsets}"
                )
        elif recovery.failure is not None:
            kind = recovery.failure.kind
            yield f"Kafka's recovery fails: {recovery.failure.message} ({kind.java_class}); {_consequence(kind)}"
        elif recovery.cut is not None:
            text = f"{recovery.bytes_cut:,} bytes at {recovery.end:,}: {recovery.cut.message}"
            lost = ""
            if segment.end_offset > recovery.next_offset:
                lost = f"; offsets {_range(recovery.next_offset, segment.end_offset - 1)} lost"
            if segment.good_after.batches:
                lost += f", {segment.good_after.records:,} good records among them"
            rebuilt = f"; {self._would('rebuild', 'rebuilt')} {_kinds(segment)}" if segment.rebuilt else ""
            yield f"{self._would('cut', 'cut')} {text}{lost}{rebuilt}"

    def _salvaged(self, segment: SegmentPlan) -> Iterator[str]:
        log = segment.salvaged
        if log is None:
            return
        yield from self._copies(log)
        if segment.repaired is None:
            return
        if segment.is_missing:
            yield f"the .log is missing: {self._would('be written', 'written')} anew"
        failure = segment.repaired.recovery.failure
        if failure is not None:
            yield f"what is left of it would not do either: {failure.message}; nothing is written"
        if log.base_offset != segment.base_offset:
            yield f"{self._would('write', 'written')} under its first offset, {log.base_offset:020d}.log"
            if segment is self._overlapping and not self._is_done:
                yield "another segment has, or may have, offsets from there on: refused until one of them is moved away"
        for piece in log.pieces:
            if piece.origin in _FROM_ELSEWHERE:
                yield f"{self._would('take', 'took')} {_from_elsewhere(piece)}"
        for extent in log.dropped:
            yield f"{self._would('drop', 'dropped')} {_dropped(extent)}"
        for lost in log.lost:
            is_at_end = segment is self._plan.segments[-1] and lost.first_offset >= log.end_offset
            yield _lost(lost, is_at_end=is_at_end)
        for restored in log.restored:
            yield f"{self._would('restore', 'restored')} {_restored(restored)}"
        for touched in log.transactions:
            yield _touched(touched)

    def _copies(self, log: RepairedLog) -> Iterator[str]:
        """What was not believed of other copies, and what was believed without proof."""
        for one in log.not_taken:
            offsets = _range(one.first_offset, one.last_offset)
            yield f"offsets {offsets} are not taken from the copy {escaped(one.path)}: {one.reason}"
        if log.end_from is not None:
            yield (
                "nothing shows where this log ended, so the end of the copy is used: "
                f"offset {self._plan.ends()[0]} of {escaped(os.path.dirname(log.end_from))}"
            )

    def _both_ways(self) -> Iterator[str]:
        plan = self._plan
        costs = map(_costs, (plan.broker_loss(), plan.salvage_loss()))
        rows = [("", "like-broker", "salvage"), *zip(_COSTS, *costs, strict=True)]
        yield f"{self._target}: what each mode costs"
        yield from aligned(rows)
        if plan.correctable:
            yield (
                f"    --salvage --correct also restores {plan.correctable:,} records of damaged batches: one flipped "
                "bit explains each wrong CRC"
            )
        if self._failed is not None:
            yield "    like-broker is not possible: Kafka's recovery fails; use --salvage"

    def _in_place(self) -> Iterator[str]:
        plan, place = self._plan, self._plan.place
        above = escaped(place.log_directory or "")
        if plan.is_metadata and not plan.is_correction:
            yield (
                f"{self._target}: the metadata of a cluster are repaired in place only where --correct restores all of "
                "them: else move the directory away and let this node fetch them from the other voters, or start from "
                "the newest good .checkpoint"
            )
        elif place.lock is LockState.HELD:
            yield f"{above}: a broker holds the lock; stop it before repairing in place"
        elif place.lock is LockState.UNKNOWN:
            yield f"{above}: it is unknown whether a broker runs on this file system; in place needs --force"

    def _would(self, verb: str, done: str) -> str:
        return done if self._is_done else f"would {verb}"


_TXN_INDEX_KEPT = (
    "a marker ends a transaction of which neither an earlier segment nor a snapshot tells where it began: the "
    ".txnindex stays as it is"
)


def _way_out(finding: Finding) -> str:
    way_out = "put the file of another replica in its place"
    if os.path.basename(finding.path or "") == LEADER_EPOCH_CHECKPOINT:
        way_out += ", or move it away; a broker then makes one of the epochs that it reads when it recovers segments"
    return way_out


def _offsets(loss: RepairLoss) -> str:
    if not loss.offsets:
        return "none"
    if len(loss.offsets) > _FEW:
        total = sum(last - first + 1 for first, last in loss.offsets)
        return f"{total:,} in {len(loss.offsets):,} ranges"
    return ", ".join(_range(first, last) for first, last in loss.offsets)


_COSTS: Final = ("good records lost", "offsets lost", "segments lost", "bytes cut", "log end offset")


def _costs(loss: RepairLoss | None) -> Sequence[str]:
    """What a mode costs, a cell for each of _COSTS."""
    if loss is None:
        return "-" * len(_COSTS)
    return (
        f"{loss.records:,}",
        _offsets(loss),
        f"{loss.segments:,}",
        f"{loss.bytes_cut:,}",
        str(loss.end_offset),
    )


def _consequence(kind: FailureKind) -> str:
    end = "a broker that recovers the log empties the segment" if kind.empties_segment else "the broker does not start"
    return f"{end}. --like-broker cannot repair it: use --salvage"


def _kinds(segment: SegmentPlan) -> str:
    return ", ".join(sorted(kind.value for kind in segment.rebuilt))


def _range(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}..{last}"


def _dropped(extent: Dropped) -> str:
    text = f"{extent.length:,} bytes at {extent.position:,}: {extent.reason}"
    if extent.batches:
        text += f"; {extent.records:,} records in {extent.batches:,} batches"
    if extent.first_offset is not None and extent.last_offset is not None:
        text += f", offsets {_range(extent.first_offset, extent.last_offset)}"
    return text


def _lost(lost: Lost, *, is_at_end: bool) -> str:
    covered = "covered by empty batches" if lost.is_held else "not covered"
    if is_at_end:
        covered += ": a broker may give them to new records"
    return f"{_offsets_of(lost)} lost; {covered}"


def _offsets_of(lost: Lost) -> str:
    plural = "" if lost.first_offset == lost.last_offset else "s"
    return f"offset{plural} {_range(lost.first_offset, lost.last_offset)}"


def _restored(restored: Restored) -> str:
    if restored.field.startswith("bit "):
        what = f"{restored.field} of the byte at {restored.position:,}: {restored.old:#04x} to {restored.new:#04x}"
    else:
        what = f"{restored.field} at {restored.position:,}: {restored.old} to {restored.new}"
    return f"{what}, {restored.reason}"


def _touched(touched: TouchedTransaction) -> str:
    text = (
        f"the transaction of producer {touched.producer_id} from offset {touched.first_offset} on touches the gap at "
        f"{touched.gap_offset}: {touched.outcome.value.replace('-', ' ')}"
    )
    if touched.done is not None:
        text += f", {_DONE[touched.done]}"
    if touched.coordinator is not None:
        text += f"; {touched.coordinator}"
    if touched.is_guessed:
        text += f"; readers take the marker at {touched.ends_at} for its end, which nothing proves: --txn decides"
    return text


def _from_elsewhere(piece: LogPiece) -> str:
    source = f"{_FROM_ELSEWHERE[piece.origin]} {escaped(piece.path or '')} at {piece.position:,}"
    return f"offsets {_range(piece.first_offset, piece.last_offset)} {source}"


_FROM_ELSEWHERE = {
    PieceOrigin.REPLICA: "from the copy",
    PieceOrigin.MOVED: "from where they were out of order,",
}
_DONE = {
    TxnPolicy.ABORT: "it is aborted",
    TxnPolicy.COMMIT: "it is committed",
    TxnPolicy.DROP: "its batches are dropped",
    TxnPolicy.LEAVE: "it is left as it is",
}
