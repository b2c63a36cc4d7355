"""A partition directory as a repair in place would leave it, in memory: what ``inplace`` comes to, step by step."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from kdump.codes import Codes, DamageError, KdumpError
from kdump.format.checkpoint import LOG_START_CHECKPOINT, RECOVERY_POINT_CHECKPOINT
from kdump.format.snapshot import parse_snapshot
from kdump.kafka.producers import ProducerStates
from kdump.kafka.startup.content import Content, ContentPiece
from kdump.kafka.startup.directory import Directory
from kdump.kafka.startup.loading import LoadSettings as StartSettings
from kdump.kafka.startup.names import SNAPSHOT, file_name
from kdump.kafka.startup.start import producers_at_end
from kdump.log.names import INDEX_KINDS, Kind, sibling
from kdump.log.opening import read_whole
from kdump.log.partition import segments_after
from kdump.repair.brokerrecovery import Recovered
from kdump.repair.checkpointlines import lines_above
from kdump.repair.indexes import has_txn_index
from kdump.repair.inplace import is_plain_cut, rebuilt_indexes
from kdump.repair.manifest import LineChange
from kdump.repair.others import changed_in_place
from kdump.repair.partitionfiles import PartitionFiles
from kdump.repair.pieces import LogPiece, RepairedLog
from kdump.repair.plan import Completion, PartitionPlan, RepairMode, RepairSettings, SegmentPlan


class PredictedDirectory(NamedTuple):
    """A repaired partition: its files, what a broker knows of it then, and what is done beside the logs."""

    directory: Directory
    known: StartSettings
    completion: Completion


def predicted_start(
    plan: PartitionPlan, contents: Mapping[str, Content], known: StartSettings, *, keeps_marker: bool
) -> PredictedDirectory:
    """What the next start meets.

    Args:
        plan: of a partition, or of one segment in it.
        contents: the files as the plan leaves them.
        known: what the broker knows of the partition now.
        keeps_marker: whether the marker of a clean shutdown stays, if there is one.

    Raises:
        KdumpError: a file cannot be read.
    """
    files = dict(contents)
    directory = plan.place.directory
    completion = Completion(keeps_marker, lines=cut_lines(plan))
    known = _with_lines(known, completion.lines)._replace(is_clean=known.is_clean and keeps_marker)
    if known.is_clean and plan.changes_any_other:
        snapshot = _snapshot_at_end(plan, files, known)
        if snapshot is not None:
            completion = replace(completion, snapshot=snapshot)
            files[snapshot[0]] = Content.of_bytes(snapshot[1])
    return PredictedDirectory(Directory(directory, files), known, completion)


def cut_lines(plan: PartitionPlan) -> tuple[LineChange, ...]:
    """The lines in the checkpoints of the log directory that are above the end of the log once it is repaired."""
    is_end_known = plan.changes_any_log and not segments_after(plan.segments[-1].path)
    if plan.place.log_directory is None or not is_end_known:
        return ()
    return lines_above(plan.place.directory, plan.ends()[0])


def _with_lines(known: StartSettings, lines: Iterable[LineChange]) -> StartSettings:
    for line in lines:
        if line.name == RECOVERY_POINT_CHECKPOINT:
            known = known._replace(recovery_point=min(known.recovery_point, line.after))
        elif line.name == LOG_START_CHECKPOINT:
            known = known._replace(log_start_offset=min(known.log_start_offset, line.after))
    return known


def _snapshot_at_end(
    plan: PartitionPlan, contents: Mapping[str, Content], known: StartSettings
) -> tuple[str, bytes] | None:
    """Name and content of the snapshot that a clean start needs; None where those that stay serve.

    A producer of which the log holds nothing any more is taken from the newest snapshot that the repair drops. Where
    the log cannot be read for producers, because of segments that are not repaired, that snapshot stays itself.
    """
    directory = Directory(plan.place.directory, contents)
    states = producers_at_end(directory, known)
    dropped = _newest_dropped(plan, None if states is None else states.end_offset)
    if states is None:
        return dropped and (file_name(dropped[0], SNAPSHOT), read_whole(dropped[1]))
    name = file_name(states.end_offset, SNAPSHOT)
    if name in contents and directory.get(name) == contents[name]:
        return None
    entries = states.entries()
    known_ids = {entry.producer_id for entry in entries}
    entries += [
        entry._replace(current_txn_first_offset=-1)
        for entry in (parse_snapshot(read_whole(dropped[1])) if dropped else ())
        if entry.producer_id not in known_ids
    ]
    return name, ProducerStates.from_snapshot(entries, states.end_offset).snapshot()


def _newest_dropped(plan: PartitionPlan, end_offset: int | None) -> tuple[int, str] | None:
    """(offset, path) of the newest good snapshot of those that the repair drops, up to ``end_offset``."""
    _, valid_up_to = plan.ends()
    for offset, path in reversed(PartitionFiles.of(plan.place.directory).snapshots):
        if offset > valid_up_to and (end_offset is None or offset <= end_offset):
            try:
                parse_snapshot(read_whole(path))
            except DamageError:
                continue
            return offset, path
    return None


def predicted_contents(plan: PartitionPlan, settings: RepairSettings) -> dict[str, Content]:
    """The files as they lie there once the plan is carried out, without what completes it.

    Raises:
        KdumpError: a file cannot be read.
    """
    contents = dict(Directory.on_disk(plan.place.directory).before)
    for segment in plan.segments:
        if plan.changes_log(segment):
            _change(segment, plan, contents)
        else:
            for kind, data in rebuilt_indexes(segment, settings).items() if segment.rebuilt else ():
                contents[sibling(os.path.basename(segment.path), kind)] = Content.of_bytes(data)
    if plan.changes_any_other:
        others = changed_in_place(plan)
        for name in others.dropped:
            contents.pop(name, None)
        contents.update((name, Content.of_bytes(data)) for name, data in others.written.items())
    return contents


def _change(segment: SegmentPlan, plan: PartitionPlan, contents: dict[str, Content]) -> None:
    name = os.path.basename(segment.path)
    if plan.way is RepairMode.LIKE_BROKER and segment.is_after_cut:
        for gone in (name, *(sibling(name, kind) for kind in INDEX_KINDS)):
            contents.pop(gone, None)
        return
    if plan.way is RepairMode.LIKE_BROKER or is_plain_cut(plan):
        if name not in contents:
            raise KdumpError(
                Codes.CHANGED_WHILE_READ, "is gone while it was read; nothing is written", path=segment.path
            )
        contents[name] = contents[name].resized(segment.recovered.recovery.end)
        _put_indexes(name, segment, segment.recovered, contents)
        return
    log, mended = segment.salvaged, segment.mended
    assert log is not None
    assert mended is not None
    txn_index = contents.get(sibling(name, Kind.TXN_INDEX))
    for gone in (name, *(sibling(name, kind) for kind in INDEX_KINDS)):
        contents.pop(gone, None)
    new_name = segment.repaired_name
    contents[new_name] = _content(log)
    if txn_index is not None:
        contents[sibling(new_name, Kind.TXN_INDEX)] = txn_index
    _put_indexes(new_name, segment, mended, contents)


def _put_indexes(name: str, segment: SegmentPlan, recovered: Recovered, contents: dict[str, Content]) -> None:
    for kind, data in recovered.index_files(has_txn_index=has_txn_index(segment.path)).items():
        contents[sibling(name, kind)] = Content.of_bytes(data)


def _content(log: RepairedLog) -> Content:
    pieces = [part for piece in log.pieces for part in _parts(piece)]
    return Content(tuple(pieces), log.size)


def _parts(piece: LogPiece) -> list[ContentPiece]:
    """A piece as stretches of the file and the bytes patched between them."""
    if piece.path is None:
        return [ContentPiece(None, 0, piece.length, piece.data)]
    whole = ContentPiece(piece.path, piece.position, piece.length)
    parts = []
    at = 0
    for start, data in sorted(piece.patches):
        parts += [whole.part(at, start), ContentPiece(None, 0, len(data), data)]
        at = start + len(data)
    parts.append(whole.part(at, piece.length))
    return [part for part in parts if part.length]
