"""Plans of repairs for people."""

from __future__ import annotations

from collections.abc import Iterator

from kdump.kafka.recover import Recovery
from kdump.mend.plan import Loss, PartitionPlan, SegmentPlan
from kdump.writers.blocks import escaped


def plan_text(plan: PartitionPlan, *, is_done: bool) -> str:
    """What a repair would do, or did: a line a segment to which something happens, then what each way costs."""
    return "".join(f"{line}\n" for line in _lines(plan, is_done))


def _lines(plan: PartitionPlan, is_done: bool) -> Iterator[str]:
    would = "" if is_done else "would "
    target = escaped(plan.target)
    if plan.is_whole and plan.place.log_directory is not None:
        yield (
            f"{target}: when another in-sync replica exists, do not repair: move this directory away and let it be "
            "fetched"
        )
    for segment in plan.segments:
        if text := _segment_text(segment, would):
            yield f"{escaped(segment.path)}: {text}"
    if not plan.has_changes:
        yield f"{target}: nothing to repair"
    loss = plan.broker_loss()
    if loss is not None and loss.bytes_cut:
        yield f"{target}: {_loss_text(loss)}"


def _segment_text(segment: SegmentPlan, would: str) -> str:
    recovery = segment.recovered.recovery
    if recovery.failure is not None and not segment.is_behind_cut:
        return _failure_text(recovery)
    parts = []
    if segment.is_behind_cut:
        parts.append(f"{would}leave it out: it lies behind the cut")
    elif recovery.cut is not None:
        parts.append(f"{would}cut {recovery.bytes_cut:,} bytes at {recovery.end:,}: {recovery.cut.message}")
        if segment.end_offset > recovery.next_offset:
            parts.append(f"offsets {recovery.next_offset}..{segment.end_offset - 1} lost")
    if segment.rebuilt:
        parts.append(f"{would}rebuild {', '.join(sorted(kind.value for kind in segment.rebuilt))}")
    return "; ".join(parts)


def _failure_text(recovery: Recovery) -> str:
    failure = recovery.failure
    assert failure is not None
    end = "empties the segment" if failure.kind.empties_segment else "does not start"
    return (
        f"Kafka's recovery fails, {failure.message} ({failure.kind.java_class}), and the broker {end}; nothing can be "
        "done its way: use --salvage"
    )


def _loss_text(loss: Loss) -> str:
    offsets = ", ".join(f"{first}..{last}" for first, last in loss.offsets)
    return f"like-broker loses {loss.records:,} records, offsets {offsets}, {loss.segments} segments"
