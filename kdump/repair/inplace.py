"""The steps of a repair in place, in an order in which every state is one that a broker starts on.

Source: docs/spec/startup.md. A segment without an .index is recovered as soon as a broker starts, also after a clean
shutdown (docs/spec/startup.md#rule-8-the-checks-of-a-segment), so the index of the last segment goes before its log
changes and comes back afterwards. The marker of a clean shutdown stays where it can: it stands for all partitions of
the log directory.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from kdump.format.checkpoint import LOG_START_CHECKPOINT
from kdump.log.names import INDEX_KINDS, Kind, sibling
from kdump.log.opening import open_source, read_whole
from kdump.log.partition import segments_after
from kdump.repair.brokerrecovery import recover_log
from kdump.repair.indexes import has_txn_index
from kdump.repair.journal import pieces_of
from kdump.repair.manifest import MARKER, SWAP
from kdump.repair.others import changed_in_place
from kdump.repair.partitionfiles import PartitionFiles
from kdump.repair.plan import Completion, PartitionPlan, RepairMode, RepairSettings, SegmentPlan
from kdump.repair.preparation import Preparation
from kdump.repair.repairedsource import RepairedSource


def prepare(plan: PartitionPlan, preparation: Preparation, settings: RepairSettings, completion: Completion) -> None:
    """Make what is needed and note the steps; the first are those that change no log.

    ``completion``: what is done beside the logs.
    """
    for segment in plan.segments:
        if segment.rebuilt and not plan.changes_log(segment):
            _rebuild(segment, preparation, settings)
    if not plan.changes_any_other:
        return
    _complete(plan, preparation, completion)
    if plan.changes_any_log and plan.way is RepairMode.LIKE_BROKER:
        _prepare_like_broker(plan, preparation, is_clean=plan.place.was_stopped_cleanly and completion.keeps_marker)
    elif plan.changes_any_log:
        _prepare_salvage(plan, preparation, settings, completion)
    _change_others(plan, preparation, completion)


def _complete(plan: PartitionPlan, preparation: Preparation, completion: Completion) -> None:
    """What has to be there before a log changes.

    A log that ends before its log start offset loses everything at a start, and one without a producer snapshot at or
    before its end is not read for producers when the start is clean. Both fit the log before, too.
    """
    for line in completion.lines:
        if line.name == LOG_START_CHECKPOINT:
            preparation.set_line(line)
    if completion.snapshot is not None:
        name, data = completion.snapshot
        preparation.write(name, data, os.stat(plan.segments[-1].like))
        preparation.place(name)
        preparation.sync()


def _prepare_like_broker(plan: PartitionPlan, preparation: Preparation, *, is_clean: bool) -> None:
    """The first log that recovery cuts ends there, the segments after it go.

    Until the log is cut, a start that recovers comes to the same cut, and removes the segments that are left. A clean
    start recovers nothing: it looks at the last segment only, and takes the producers from the snapshot at its end. So
    there the log is cut first, and the last segment goes last.
    """
    cut = next(segment for segment in plan.segments if segment.is_cut)
    removed = [segment for segment in plan.segments if segment.is_after_cut]
    if not is_clean:
        _take_marker(plan, preparation)
        removed.reverse()
    if is_clean and segments_after(cut.path):
        _cut(cut, preparation, is_last=False)
    for segment in removed:
        _remove_segment(segment, preparation)
    if not (is_clean and segments_after(cut.path)):
        _cut(cut, preparation)


def _prepare_salvage(
    plan: PartitionPlan, preparation: Preparation, settings: RepairSettings, completion: Completion
) -> None:
    """Logs with holes are written anew.

    They come in the way in which a broker replaces segments itself: complete with their index files under names that
    end in .swap, from where a start finishes what was begun (docs/spec/startup.md#2-before-the-segments rules 5 and 6).
    As that removes whatever else lies between the first and the last of them, the segments there get a second name of
    this kind, too.
    """
    changed = [number for number, segment in enumerate(plan.segments) if segment.is_salvaged]
    if not is_plain_cut(plan):
        segments = plan.segments[changed[0] : changed[-1] + 1]
        _swap(segments, plan, preparation, settings, keeps_marker=completion.keeps_marker)
        return
    if not completion.keeps_marker:
        _take_marker(plan, preparation)
    _cut(plan.segments[-1], preparation)


def is_plain_cut(plan: PartitionPlan) -> bool:
    """Salvage changes only the last segment, and all that happens to it is what a broker's recovery does too."""
    *others, last = plan.segments
    if any(segment.is_salvaged for segment in others) or not last.is_cut or segments_after(last.path):
        return False
    log = last.salvaged
    return log is not None and log.is_copy_of(last.path, last.recovered.recovery.end, last.base_offset)


def _swap(
    segments: Sequence[SegmentPlan],
    plan: PartitionPlan,
    preparation: Preparation,
    settings: RepairSettings,
    *,
    keeps_marker: bool,
) -> None:
    """Let new logs take the place of old ones, those between them stay."""
    _, valid_up_to = plan.ends()
    files = [_swapped_in(segment, preparation, settings) for segment in segments]
    snapshots = _kept_snapshots(plan, segments, preparation, valid_up_to)
    for names in (snapshots, *files):
        for name in names:
            preparation.swap_in(name)
        preparation.sync()
    if not keeps_marker:
        _take_marker(plan, preparation)
    for segment, names in zip(segments, files, strict=True):
        log = next(name for name in names if name.endswith(Kind.LOG.value))
        # The log first: of what is left without it a broker takes each for itself, and all of it fits.
        names.remove(log)
        if not segment.is_salvaged:
            for name in (log, *names):
                preparation.remove(name + SWAP)
        else:
            for old in (*_existing(segment.path), os.path.basename(segment.path)):
                if old != log:
                    preparation.remove(old, log + SWAP)
            preparation.sync()
            for name in (log, *names):
                preparation.swap(name)
        for name in snapshots:
            preparation.remove(name + SWAP)
        snapshots = []
        preparation.sync()


def _swapped_in(segment: SegmentPlan, preparation: Preparation, settings: RepairSettings) -> list[str]:
    """Make the files of a segment that wait under .swap names, in the order in which they come there.

    An index of a log must not come without it; the other two name offsets, and fit the old log as well.
    """
    name = os.path.basename(segment.path)
    kinds = (Kind.TXN_INDEX, Kind.TIME_INDEX, Kind.LOG, Kind.INDEX)
    if not segment.is_salvaged:
        names = [sibling(name, kind) for kind in kinds]
        names = [name for name in names if preparation.will_have(name)]
        for existing in names:
            preparation.link(existing)
        return names
    log = segment.salvaged
    assert log is not None
    status = os.stat(segment.like)
    if not segment.is_missing:
        preparation.save(name, segment.recovered.read.sha256)
    new_name = segment.repaired_name
    producers, interval = segment.producers.copy(), settings.index_interval
    with preparation.new_file(new_name, status) as copy, RepairedSource(segment.path, log) as source:
        recovered = recover_log(source, log.base_offset, producers, index_interval=interval, copy=copy)
        copy.finish(modified=segment.modified)
    preparation.made(new_name, recovered.read.sha256)
    contents = recovered.index_files(has_txn_index=has_txn_index(segment.path))
    for index in _existing(segment.path):
        preparation.save(index)
    for kind, data in contents.items():
        preparation.write(sibling(new_name, kind), data, status)
    if Kind.TXN_INDEX not in contents and has_txn_index(segment.path):
        preparation.write(sibling(new_name, Kind.TXN_INDEX), read_whole(sibling(segment.path, Kind.TXN_INDEX)), status)
    return [sibling(new_name, kind) for kind in kinds if preparation.has_new(sibling(new_name, kind))]


def _kept_snapshots(
    plan: PartitionPlan, segments: Sequence[SegmentPlan], preparation: Preparation, valid_up_to: int
) -> list[str]:
    """Snapshots that would go with what lies between the swapped segments, and are to stay."""
    names = []
    for offset, path in PartitionFiles.of(plan.place.directory).snapshots:
        if segments[0].base_offset <= offset <= valid_up_to:
            preparation.link(os.path.basename(path))
            names.append(os.path.basename(path))
    return names


def _rebuild(segment: SegmentPlan, preparation: Preparation, settings: RepairSettings) -> None:
    """Each new index takes the place of the old one at once: the log is the same for both."""
    status = os.stat(segment.path)
    for kind, data in rebuilt_indexes(segment, settings).items():
        name = _name(segment, kind)
        preparation.write(name, data, status)
        preparation.place(name)
    preparation.sync()


def rebuilt_indexes(segment: SegmentPlan, settings: RepairSettings) -> dict[Kind, bytes]:
    """The contents of the index files that are written anew beside a log that stays. Raises KdumpError."""
    producers, interval = segment.producers.copy(), settings.index_interval
    with open_source(segment.path) as source:
        recovered = recover_log(source, segment.base_offset, producers, index_interval=interval)
    contents = recovered.index_files(has_txn_index=has_txn_index(segment.path))
    return {kind: contents[kind] for kind in INDEX_KINDS if kind in segment.rebuilt}


def _take_marker(plan: PartitionPlan, preparation: Preparation) -> None:
    """The next start must look at what is there: a clean shutdown says that it need not."""
    marker = plan.place.clean_shutdown
    if marker is not None and os.path.lexists(marker):
        preparation.save(MARKER)
        preparation.remove(MARKER)
        preparation.sync("..")


def _remove_segment(segment: SegmentPlan, preparation: Preparation) -> None:
    name = os.path.basename(segment.path)
    preparation.save(name, segment.recovered.read.sha256)
    preparation.remove(name)
    for index in _existing(segment.path):
        preparation.save(index)
        preparation.remove(index)
    preparation.sync()


def _cut(segment: SegmentPlan, preparation: Preparation, *, is_last: bool = True) -> None:
    """Let a log end where its good part does.

    Without its .index the last segment is recovered by any start, to the same end. Any other one is cut after its new
    index files are there: they fit the longer log, too, and a clean start does not recover it.
    """
    name = os.path.basename(segment.path)
    status = os.stat(segment.path)
    # Another name for the same file, a copy made of links, must not lose its end.
    is_shared = status.st_nlink > 1
    if is_shared:
        _copy_start(segment, preparation)
    else:
        preparation.save_tail(name, segment.recovered.read)
    contents = segment.recovered.index_files(has_txn_index=has_txn_index(segment.path))
    # The .index at last: with it a broker takes the other two for whole.
    indexes = [kind for kind in reversed(INDEX_KINDS) if kind in contents]
    for kind in indexes:
        index = _name(segment, kind)
        preparation.write(index, contents[kind], status)
        if is_last:
            preparation.remove_old(index)
        else:
            preparation.place(index)
    preparation.sync()
    if is_shared:
        preparation.place(name)
    else:
        preparation.cut(name)
    for kind in indexes if is_last else ():
        preparation.place(_name(segment, kind))
    preparation.sync()


def _copy_start(segment: SegmentPlan, preparation: Preparation) -> None:
    name, read = os.path.basename(segment.path), segment.recovered.read
    preparation.save(name, read.sha256)
    with preparation.new_file(name, os.stat(segment.path)) as copy, open_source(segment.path) as source:
        for piece in pieces_of(source, 0, read.recovery.end):
            copy.write(piece)
        copy.finish(modified=segment.stamp.modified)
    preparation.made(name, read.kept_sha256)


def _change_others(plan: PartitionPlan, preparation: Preparation, completion: Completion) -> None:
    """Snapshots, leader epochs and lines of checkpoints that do not fit the new logs go, or are written anew."""
    others = changed_in_place(plan)
    made = completion.snapshot[0] if completion.snapshot is not None else None
    for name in others.dropped:
        if name != made:
            preparation.save(name)
            preparation.remove(name)
    for name, data in others.written.items():
        if name != made:
            path = os.path.join(plan.place.directory, name)
            preparation.write(name, data, os.stat(path if os.path.lexists(path) else plan.segments[0].like))
            preparation.place(name)
    preparation.sync()
    for line in completion.lines:
        if line.name != LOG_START_CHECKPOINT:
            preparation.set_line(line)


def _existing(path: str) -> Iterable[str]:
    """Names of the index files that are beside a log."""
    for kind in INDEX_KINDS:
        index = sibling(path, kind)
        if os.path.lexists(index):
            yield os.path.basename(index)


def _name(segment: SegmentPlan, kind: Kind) -> str:
    return os.path.basename(sibling(segment.path, kind))
