"""A partition directory as a repair in place would leave it, in memory: what ``inplace`` comes to, step by step."""

from __future__ import annotations

import os

from kdump.kafka.startup.content import Content, Piece
from kdump.kafka.startup.directory import Directory
from kdump.log.names import Kind, sibling
from kdump.mend.indexes import INDEX_KINDS, has_txn_index
from kdump.mend.inplace import is_plain_cut, rebuilt_indexes
from kdump.mend.likebroker import Recovered
from kdump.mend.others import changed_others
from kdump.mend.pieces import MendedLog
from kdump.mend.pieces import Piece as MendedPiece
from kdump.mend.plan import PartitionPlan, SegmentPlan, Settings, Way


def planned_directory(plan: PartitionPlan, settings: Settings) -> Directory:
    """The files as they lie there once the plan is carried out.

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
    if changes_any_log(plan):
        others = changed_others(plan)
        for name in others.dropped:
            contents.pop(name, None)
        contents.update((name, Content.of_bytes(data)) for name, data in others.written.items())
    return Directory(plan.place.directory, contents)


def changes_any_log(plan: PartitionPlan) -> bool:
    """A log changes, or goes; then the marker of a clean shutdown goes too."""
    return any(plan.changes_log(segment) for segment in plan.segments)


def _change(segment: SegmentPlan, plan: PartitionPlan, contents: dict[str, Content]) -> None:
    name = os.path.basename(segment.path)
    if plan.way is Way.LIKE_BROKER and segment.is_behind_cut:
        for gone in (name, *(sibling(name, kind) for kind in INDEX_KINDS)):
            contents.pop(gone, None)
        return
    if plan.way is Way.LIKE_BROKER or is_plain_cut(plan):
        contents[name] = contents[name].resized(segment.recovered.recovery.end)
        _put_indexes(name, segment, segment.recovered, contents)
        return
    log, mended = segment.salvaged, segment.mended
    assert log is not None
    assert mended is not None
    txn_index = contents.get(sibling(name, Kind.TXN_INDEX))
    for gone in (name, *(sibling(name, kind) for kind in INDEX_KINDS)):
        contents.pop(gone, None)
    new_name = segment.mended_name
    contents[new_name] = _content(log)
    if txn_index is not None:
        contents[sibling(new_name, Kind.TXN_INDEX)] = txn_index
    _put_indexes(new_name, segment, mended, contents)


def _put_indexes(name: str, segment: SegmentPlan, recovered: Recovered, contents: dict[str, Content]) -> None:
    for kind, data in recovered.index_files(has_txn_index=has_txn_index(segment.path)).items():
        contents[sibling(name, kind)] = Content.of_bytes(data)


def _content(log: MendedLog) -> Content:
    pieces = [part for piece in log.pieces for part in _parts(piece)]
    return Content(tuple(pieces), log.size)


def _parts(piece: MendedPiece) -> list[Piece]:
    """A piece as stretches of the file and the bytes patched between them."""
    if piece.path is None:
        return [Piece(None, 0, piece.length, piece.data)]
    whole = Piece(piece.path, piece.position, piece.length)
    parts = []
    at = 0
    for start, data in sorted(piece.patches):
        parts += [whole.part(at, start), Piece(None, 0, len(data), data)]
        at = start + len(data)
    parts.append(whole.part(at, piece.length))
    return [part for part in parts if part.length]
