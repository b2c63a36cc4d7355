"""What came from where and what is gone, as plain values for JSON and the manifest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from enum import Enum
from typing import Any

from kdump.repair.plan.plan import PartitionPlan, RepairMode, SegmentPlan
from kdump.repair.salvage.pieces import LogPiece, PieceOrigin, RepairedLog
from kdump.rows.columns import camel_case
from kdump.wire.jsontext import json_blocks


def account(plan: PartitionPlan) -> list[dict[str, Any]]:
    """One member per log; the names are those of the JSON lines of other commands. ``json_blocks`` writes it."""
    is_salvage = plan.mode is RepairMode.SALVAGE
    # The metadata of a cluster are not salvaged.
    return [
        _salvaged(segment, segment.salvaged) if is_salvage and segment.salvaged is not None else _like_broker(segment)
        for segment in plan.segments
    ]


def json_account(plan: PartitionPlan) -> Iterator[bytes]:
    """The account as the content of the file beside repaired copies, in blocks."""
    return json_blocks({"way": plan.mode.value, "source": plan.target, "logs": account(plan)}, indent=1)


def losses(plan: PartitionPlan) -> dict[str, Any]:
    """What each mode costs; null if it cannot repair the log or was not planned."""
    modes = ((RepairMode.LIKE_BROKER, plan.broker_loss()), (RepairMode.SALVAGE, plan.salvage_loss()))
    return {mode.value: None if loss is None else named(asdict(loss)) for mode, loss in modes}


def _like_broker(segment: SegmentPlan) -> dict[str, Any]:
    recovery, good_after = segment.recovered.recovery, segment.good_after
    end = 0 if segment.is_after_cut else recovery.end
    first_lost = segment.base_offset if segment.is_after_cut else recovery.next_offset
    members = _head(segment, segment.base_offset, "" if segment.is_after_cut else segment.recovered.kept_sha256)
    if recovery.failure is not None and not segment.is_after_cut:
        kind = recovery.failure.kind
        members["sha256After"] = None
        members["failure"] = {
            "class": kind.java_class,
            "message": recovery.failure.message,
            "emptiesSegment": kind.empties_segment,
        }
        return members
    if end:
        kept = {"origin": PieceOrigin.KEPT.value, "path": segment.path, "position": 0, "length": end}
        members["pieces"] = [{**kept, "firstOffset": segment.base_offset, "lastOffset": recovery.next_offset - 1}]
    if end < segment.fingerprint.size:
        reason = "after the cut" if segment.is_after_cut or recovery.cut is None else recovery.cut.message
        extent = {"position": end, "length": segment.fingerprint.size - end, "reason": reason}
        members["dropped"] = [{**extent, "batches": good_after.batches, "records": good_after.records}]
    if first_lost < segment.end_offset:
        members["lost"] = [{"firstOffset": first_lost, "lastOffset": segment.end_offset - 1, "isHeld": False}]
    return members


def _salvaged(segment: SegmentPlan, log: RepairedLog) -> dict[str, Any]:
    repaired = segment.repaired or segment.recovered
    members = _head(segment, log.base_offset, repaired.sha256)
    members["pieces"] = list(map(_piece, log.pieces))
    members["endFrom"] = log.end_from
    for name in ("dropped", "lost", "restored", "transactions", "not_taken"):
        members[camel_case(name)] = [named(asdict(item)) for item in getattr(log, name)]
    return members


def _head(segment: SegmentPlan, base_offset: int, sha256_after: str) -> dict[str, Any]:
    return {
        "path": segment.path,
        "baseOffset": base_offset,
        "sha256Before": None if segment.is_missing else segment.recovered.sha256,
        "sha256After": sha256_after or None,
    }


def _piece(piece: LogPiece) -> dict[str, Any]:
    members = named(asdict(piece))
    members["data"] = piece.data.hex()
    members["patches"] = [[offset, data.hex()] for offset, data in piece.patches]
    return members


def named(members: dict[str, Any]) -> dict[str, Any]:
    """The members under the names that JSON has them under."""
    return {camel_case(name): value.value if isinstance(value, Enum) else value for name, value in members.items()}
