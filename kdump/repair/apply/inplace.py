"""The steps of a repair in place, which turn a directory into the repaired one. A broker can start after every step.

Source: docs/spec/startup.md. A broker recovers a segment without an .index as soon as it starts, also after a clean
shutdown (docs/spec/startup.md#rule-8-the-checks-of-a-segment). So the index of the last segment is removed before its
log changes, and comes back after that. The marker of a clean shutdown stays if it can, because it counts for all
partitions of the log directory.
"""

from __future__ import annotations

import os

from kdump.format.checkpoint import LOG_START_CHECKPOINT
from kdump.log.names import INDEX_KINDS, Kind, sibling
from kdump.log.opening import open_source
from kdump.log.partition import segments_after
from kdump.repair.apply import disk
from kdump.repair.apply.journal import pieces_of
from kdump.repair.apply.manifest import MARKER, SWAP
from kdump.repair.apply.preparation import Preparation
from kdump.repair.plan.beside import PartitionFiles
from kdump.repair.plan.plan import Completion, PartitionPlan
from kdump.repair.plan.repaireddirectory import LogFate, RepairedDirectory, RepairedSegment
from kdump.system.files import like_of


def prepare(directory: RepairedDirectory, preparation: Preparation, completion: Completion) -> None:
    """Prepare what is needed and note the steps. The first steps change no log.

    Args:
        directory: the repaired directory.
        preparation: takes the new files and the steps.
        completion: what is done beside the logs.
    """
    plan = directory.plan
    for segment in directory.segments:
        if segment.fate is LogFate.STAYS:
            _rebuild(segment, preparation)
    if not plan.changes_any_other:
        return
    _complete(plan, preparation, completion)
    if any(segment.fate is LogFate.REPLACED for segment in directory.segments):
        _swap(directory, preparation, keeps_marker=completion.keeps_marker)
    elif directory.changed:
        _cut_off(directory, preparation, is_clean=plan.place.was_stopped_cleanly and completion.keeps_marker)
    _change_others(directory, preparation, completion)


def _complete(plan: PartitionPlan, preparation: Preparation, completion: Completion) -> None:
    """Note what must be there before a log changes.

    A start empties a log that ends before its log start offset. A clean start reads no producers from a log without a
    producer snapshot at or before its end. What is made here fits the log before the repair, too.
    """
    for line in completion.lines:
        if line.name == LOG_START_CHECKPOINT:
            preparation.set_line(line)
    if completion.snapshot is not None:
        name, data = completion.snapshot
        preparation.write(name, data, like_of(plan.segments[-1].like))
        preparation.place(name)
        preparation.sync()


def _cut_off(directory: RepairedDirectory, preparation: Preparation, *, is_clean: bool) -> None:
    """One log ends earlier, and the segments after it are removed.

    Until the log is cut, a start that recovers makes the same cut and removes the segments that are left. A clean start
    recovers nothing: it checks only the last segment, and takes the producers from the snapshot at its end. So for a
    clean start the log is cut first, and the last segment is removed last.
    """
    cut = next(segment for segment in directory.changed if segment.fate is LogFate.CUT)
    removed = [segment for segment in directory.changed if segment.fate is LogFate.GOES]
    if not is_clean:
        _take_marker(directory.plan, preparation)
        removed.reverse()
    is_first = is_clean and bool(segments_after(cut.plan.path))
    if is_first:
        _cut(cut, preparation, is_last=False)
    for segment in removed:
        _remove_segment(segment, preparation)
    if not is_first:
        _cut(cut, preparation, is_last=True)


def _swap(directory: RepairedDirectory, preparation: Preparation, *, keeps_marker: bool) -> None:
    """New logs replace old ones; the logs between them stay.

    They come as when a broker replaces segments itself: complete with their index files under names that end in .swap.
    A start finishes from there what was begun (docs/spec/startup.md#2-before-the-segments rules 5 and 6). It then
    removes whatever else lies between the first and the last of them. So the segments there, and the snapshots that
    stay, get a second name of this kind, too.
    """
    numbers = [number for number, segment in enumerate(directory.segments) if segment.fate is LogFate.REPLACED]
    segments = directory.segments[numbers[0] : numbers[-1] + 1]
    files = [_swapped_in(segment, preparation) for segment in segments]
    snapshots = _kept_snapshots(directory.plan, segments[0].plan.base_offset, preparation)
    for names in (snapshots, *files):
        for name in names:
            preparation.swap_in(name)
        preparation.sync()
    if not keeps_marker:
        _take_marker(directory.plan, preparation)
    for segment, names in zip(segments, files, strict=True):
        log = next(name for name in names if name.endswith(Kind.LOG.value))
        # The log first: without it a broker would load each of the other files alone, and all of them fit.
        names.remove(log)
        if segment.fate is not LogFate.REPLACED:
            for name in (log, *names):
                preparation.remove(name + SWAP)
        else:
            for old in (*_existing_indexes(segment.plan.path), os.path.basename(segment.plan.path)):
                if old != log:
                    preparation.remove(old, log + SWAP)
            preparation.sync()
            for name in (log, *names):
                preparation.swap(name)
        for name in snapshots:
            preparation.remove(name + SWAP)
        snapshots = []
        preparation.sync()


def _swapped_in(segment: RepairedSegment, preparation: Preparation) -> list[str]:
    """Write the files of a segment that wait under .swap names; returns their names in the order in which they come.

    The .index of a log must not come without the log. The other two index files name offsets, and fit the old log too.
    """
    kinds = (Kind.TXN_INDEX, Kind.TIME_INDEX, Kind.LOG, Kind.INDEX)
    names = [sibling(segment.name, kind) for kind in kinds]
    if segment.fate is not LogFate.REPLACED:
        names = [name for name in names if preparation.will_have(name)]
        for existing in names:
            preparation.link(existing)
        return names
    plan = segment.plan
    status = like_of(plan.like)
    if not plan.is_missing:
        preparation.save(os.path.basename(plan.path), plan.recovered.sha256)
    with preparation.new_file(segment.name, status) as copy:
        recovered = segment.recover(copy.write)
        copy.finish(modified=plan.modified)
    preparation.made(segment.name, recovered.sha256)
    for index in _existing_indexes(plan.path):
        preparation.save(index)
    for name, content in segment.indexes.items():
        preparation.write(name, content.read(), status)
    return [name for name in names if preparation.has_new(name)]


def _kept_snapshots(plan: PartitionPlan, first: int, preparation: Preparation) -> list[str]:
    """The names of the snapshots from offset ``first`` on that stay."""
    _, valid_up_to = plan.ends()
    names = []
    for offset, path in PartitionFiles.of(plan.place.directory).snapshots:
        if first <= offset <= valid_up_to:
            preparation.link(os.path.basename(path))
            names.append(os.path.basename(path))
    return names


def _rebuild(segment: RepairedSegment, preparation: Preparation) -> None:
    """Replace each index in one step: the log is the same for the old and the new one."""
    if not segment.indexes:
        return
    status = like_of(segment.plan.path)
    for name, content in segment.indexes.items():
        preparation.write(name, content.read(), status)
        preparation.place(name)
    preparation.sync()


def _take_marker(plan: PartitionPlan, preparation: Preparation) -> None:
    """Remove the marker of a clean shutdown: the next start must check the log."""
    marker = plan.place.clean_shutdown
    if marker is not None and os.path.lexists(marker):
        preparation.save(MARKER)
        preparation.remove(MARKER)
        preparation.sync("..")


def _remove_segment(segment: RepairedSegment, preparation: Preparation) -> None:
    preparation.save(segment.name, segment.plan.recovered.sha256)
    preparation.remove(segment.name)
    for index in _existing_indexes(segment.plan.path):
        preparation.save(index)
        preparation.remove(index)
    preparation.sync()


def _cut(segment: RepairedSegment, preparation: Preparation, *, is_last: bool) -> None:
    """End a log where its good part ends.

    Without its .index the last segment is recovered by any start, to the same end. Any other one is cut after its new
    index files are there: they fit the longer log, too, and a clean start does not recover it. A log that cannot be cut
    where it is, such as one that a copy made of links shares, is replaced by a copy of its good part.
    """
    name, recovered = segment.name, segment.plan.recovered
    status = like_of(segment.plan.path)
    is_cut = disk.can_be_cut(segment.plan.path)
    if is_cut:
        preparation.save_tail(name, recovered.recovery.end, recovered.asked_digests)
    else:
        _copy_start(segment, preparation)
    # The .index comes last: with it a broker takes the other two as complete.
    indexes = dict(reversed(list(segment.indexes.items())))
    for index, content in indexes.items():
        preparation.write(index, content.read(), status)
        if is_last:
            preparation.remove_old(index)
        else:
            preparation.place(index)
    preparation.sync()
    if is_cut:
        preparation.cut(name)
    else:
        preparation.place(name)
    for index in indexes if is_last else ():
        preparation.place(index)
    preparation.sync()


def _copy_start(segment: RepairedSegment, preparation: Preparation) -> None:
    plan, recovered = segment.plan, segment.plan.recovered
    preparation.save(segment.name, recovered.sha256)
    with preparation.new_file(segment.name, like_of(plan.path)) as copy, open_source(plan.path) as source:
        for piece in pieces_of(source, 0, recovered.recovery.end):
            copy.write(piece)
        copy.finish(modified=plan.fingerprint.modified)
    preparation.made(segment.name, recovered.kept_sha256)


def _change_others(directory: RepairedDirectory, preparation: Preparation, completion: Completion) -> None:
    """Remove or rewrite snapshots, leader epochs and lines of checkpoints that do not fit the new logs."""
    plan = directory.plan
    made = completion.snapshot[0] if completion.snapshot is not None else None
    for name in directory.others.dropped:
        if name != made:
            preparation.save(name)
            preparation.remove(name)
    for name, data in directory.others.written.items():
        if name != made:
            path = os.path.join(plan.place.directory, name)
            preparation.write(name, data, like_of(path if os.path.lexists(path) else plan.segments[0].like))
            preparation.place(name)
    preparation.sync()
    for line in completion.lines:
        if line.name != LOG_START_CHECKPOINT:
            preparation.set_line(line)


def _existing_indexes(path: str) -> list[str]:
    """Names of the index files beside a log."""
    indexes = (sibling(path, kind) for kind in INDEX_KINDS)
    return [os.path.basename(index) for index in indexes if os.path.lexists(index)]
