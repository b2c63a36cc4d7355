"""The report of a restore: a page for people, and JSON lines."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Final

from kdump.diff.places import PartitionName
from kdump.repair.apply.manifest import undo_command
from kdump.restore.plan import LeftPartition, NoteKind, RestoreNote, RestorePlan
from kdump.restore.run import RestoredBy, RestoredPartition
from kdump.system.blocks import escaped

_MANY: Final = 10
"""Notes of one kind that a page shows of a partition."""


def plan_lines(plan: RestorePlan) -> Iterator[str]:
    """What a partition becomes, and what is not as it was."""
    target, count = plan.target, len(plan.segments)
    segments = "1 segment" if count == 1 else f"{count} segments"
    yield (
        f"{escaped(target.name)}: from {escaped(plan.source)}, {segments}, "
        f"offsets {plan.log_start} to {plan.log_end}, topic id {target.topic_id}\n"
    )
    yield from note_lines(target.name, plan.notes)


def left_lines(partitions: Iterable[LeftPartition]) -> Iterator[str]:
    """Partitions that are not restored, a line each; of those that only brokers need the first one of each topic."""
    shown: Counter[str] = Counter()
    for left in partitions:
        shown[left.name[0]] += left.note.kind is NoteKind.BROKER_STATE
        if left.note.kind is not NoteKind.BROKER_STATE or shown[left.name[0]] == 1:
            what = "cannot be restored" if left.note.is_loss else "left out"
            yield f"{escaped(_named(left.name))}: {what}: {escaped(left.directory)}: {escaped(left.note.message)}\n"
    for topic, count in shown.items():
        if count > 1:
            yield f"{escaped(topic)}: {count - 1:,} more left out\n"


def note_lines(name: str, notes: Iterable[RestoreNote]) -> Iterator[str]:
    """What is not as it was, a line each; of many of one kind the first ones."""
    shown: Counter[NoteKind] = Counter()
    for note in notes:
        shown[note.kind] += 1
        if shown[note.kind] <= _MANY:
            yield f"{escaped(name)}: {_KINDS.get(note.kind, note.kind.value)}{_at(note)}: {escaped(note.message)}\n"
    for kind, count in shown.items():
        if count > _MANY:
            yield f"{escaped(name)}: {_KINDS.get(kind, kind.value)}: {count - _MANY:,} more\n"


_KINDS: Final = {
    NoteKind.DAMAGE: "lost to damage",
    NoteKind.MISSING_OFFSETS: "missing",
    NoteKind.OVERLAP: "out of order",
    NoteKind.LARGE_BATCH: "larger than a producer may write",
    NoteKind.OPEN_TRANSACTION: "open transaction",
    NoteKind.PRODUCER_IDS: "producers",
    NoteKind.OLD_FORMAT: "old format",
    NoteKind.BROKER_STATE: "state of brokers",
    NoteKind.RETENTION: "retention",
}


def _at(note: RestoreNote) -> str:
    if note.first_offset is None:
        return ""
    if note.last_offset is None:
        return f" from offset {note.first_offset} on"
    if note.last_offset == note.first_offset:
        return f" at offset {note.first_offset}"
    return f" at offsets {note.first_offset} to {note.last_offset}"


def restored_lines(restored: RestoredPartition) -> Iterator[str]:
    """What was done to a partition."""
    name, new, directory = escaped(restored.plan.target.name), restored.new, escaped(restored.directory)
    done = _DONE[restored.by]
    if new is None:
        yield f"{name}: {done} {directory}\n"
    else:
        logs = "1 log" if len(new.logs) == 1 else f"{len(new.logs)} logs"
        what = f"{logs}, {new.size:,} bytes, offsets {new.log_start} to {new.log_end}"
        linked = f", {new.linked} of them share their blocks with the source" if new.linked else ""
        ended = f", {new.ended} transactions ended" if new.ended else ""
        for loss, count in sorted(new.losses.items(), key=lambda item: item[0].label):
            yield f"{name}: {count:,} {loss.unit} {loss.sentence}\n"
        for reason, count in new.unlinked.items():
            yield f"{name}: {count} {'log is a copy' if count == 1 else 'logs are copies'}: {reason}\n"
        yield f"{name}: {done} {directory}: {what}{linked}{ended}\n"
    yield f"{name}: to undo: {undo_command(restored.manifest)}\n"


_DONE: Final = {
    RestoredBy.THIS: "restored in",
    RestoredBy.BOTH: "finished what was begun before in",
    RestoredBy.EARLIER: "already restored in",
}


def note_rows(plan: RestorePlan) -> Iterator[str]:
    """What is not as it was, as JSON lines."""
    for note in plan.notes:
        yield note_row((plan.target.topic, plan.target.partition), plan.source, note)


def left_row(left: LeftPartition) -> str:
    """A partition that is not restored, as a JSON line."""
    return note_row(left.name, left.directory, left.note)


def note_row(name: PartitionName, source: str, note: RestoreNote) -> str:
    """One note, as a JSON line."""
    return json_row(
        {
            "type": "restoreNote",
            "topic": name[0],
            "partition": name[1],
            "source": source,
            "kind": note.kind.value,
            "isLoss": note.is_loss,
            "firstOffset": note.first_offset,
            "lastOffset": note.last_offset,
            "message": note.message,
        }
    )


def restored_row(restored: RestoredPartition) -> str:
    """What was done to a partition, as a JSON line; null where an earlier run made it and does not tell."""
    plan, new = restored.plan, restored.new
    return json_row(
        {
            "type": "restored",
            "topic": plan.target.topic,
            "partition": plan.target.partition,
            "topicId": plan.target.topic_id,
            "source": plan.source,
            "directory": restored.directory,
            "logs": None if new is None else len(new.logs),
            "size": None if new is None else new.size,
            "linked": None if new is None else new.linked,
            "logStartOffset": None if new is None else new.log_start,
            "logEndOffset": None if new is None else new.log_end,
            "transactionsEnded": None if new is None else new.ended,
            "losses": None if new is None else {loss.label: count for loss, count in new.losses.items()},
            "manifest": restored.manifest,
        }
    )


def _named(name: PartitionName) -> str:
    return f"{name[0]}-{name[1]}"


def json_row(row: dict[str, Any]) -> str:
    """A row as a JSON line."""
    return json.dumps(row, ensure_ascii=False) + "\n"
