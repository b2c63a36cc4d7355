"""The steps of a repair in place, in an order in which every state is one that a broker starts on.

Source: shared/spec/startup.md. A segment without an .index is recovered as soon as a broker starts, also after a clean
shutdown, so an index goes before its log changes and comes back behind it. Segments behind a cut go first, from the
last one on: until then recovery of the log comes to the same cut and removes them too.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from kdump.format.checkpoint import CLEAN_SHUTDOWN
from kdump.log.names import Kind, sibling
from kdump.log.source import open_source, read_whole
from kdump.mend.indexes import INDEX_KINDS
from kdump.mend.likebroker import Recovered, recover_log
from kdump.mend.partitionfiles import PartitionFiles, epochs_up_to
from kdump.mend.plan import PartitionPlan, SegmentPlan
from kdump.mend.planning import Settings, has_txn_index
from kdump.mend.preparation import Preparation
from kdump.mend.producersat import ProducersAt

_MARKER = os.path.join("..", CLEAN_SHUTDOWN)


def prepare_like_broker(plan: PartitionPlan, preparation: Preparation, settings: Settings) -> None:
    """The broker's way: the first log that recovery cuts ends there, the segments behind go, indexes are rebuilt."""
    for segment in plan.segments:
        if segment.rebuilt and not segment.is_cut:
            _rebuild(segment, preparation, settings)
    cut = next((segment for segment in plan.segments if segment.is_cut), None)
    if cut is None:
        return
    removed = [segment for segment in plan.segments if segment.is_behind_cut]
    _take_marker(plan, preparation)
    for segment in reversed(removed):
        _remove_segment(segment, preparation)
    _cut(cut, preparation)
    if plan.is_whole:
        end = cut.recovered.recovery.next_offset
        _trim_others(plan.place.directory, preparation, end_offset=end, sound_up_to=end)


def _rebuild(segment: SegmentPlan, preparation: Preparation, settings: Settings) -> None:
    """Each new index takes the place of the old one at once: the log is the same for both."""
    recovered = _recovered(segment, settings)
    contents = recovered.index_files(has_txn_index=has_txn_index(segment.path))
    status = os.stat(segment.path)
    for kind in INDEX_KINDS:
        if kind in segment.rebuilt:
            name = _name(segment, kind)
            preparation.write(name, contents[kind], status)
            preparation.place(name)
    preparation.sync()


def _recovered(segment: SegmentPlan, settings: Settings) -> Recovered:
    producers = ProducersAt(segment.producers.states.copy(), segment.producers.is_known)
    with open_source(segment.path) as source:
        return recover_log(source, segment.base_offset, producers, index_interval=settings.index_interval)


def _take_marker(plan: PartitionPlan, preparation: Preparation) -> None:
    """The next start must look at what is there: a clean shutdown says that it need not."""
    if plan.place.clean_shutdown is not None:
        preparation.save(_MARKER)
        preparation.remove(_MARKER)
        preparation.sync("..")


def _remove_segment(segment: SegmentPlan, preparation: Preparation) -> None:
    name = os.path.basename(segment.path)
    preparation.save(name, segment.recovered.read.sha256)
    preparation.remove(name)
    for index in _existing(segment.path):
        preparation.save(index)
        preparation.remove(index)
    preparation.sync()


def _cut(segment: SegmentPlan, preparation: Preparation) -> None:
    name = os.path.basename(segment.path)
    status = os.stat(segment.path)
    preparation.save_tail(name, segment.recovered.read)
    contents = segment.recovered.index_files(has_txn_index=has_txn_index(segment.path))
    indexes = [_name(segment, kind) for kind in contents]
    for index, data in zip(indexes, contents.values(), strict=True):
        preparation.write(index, data, status)
        preparation.remove_old(index)
    preparation.sync()
    preparation.cut(name)
    for index in indexes:
        preparation.place(index)
    preparation.sync()


def _trim_others(directory: str, preparation: Preparation, *, end_offset: int, sound_up_to: int) -> None:
    """Snapshots that include what is gone, and leader epochs that begin behind the end."""
    files = PartitionFiles.of(directory)
    for path in files.dropped_snapshots(end_offset=end_offset, sound_up_to=sound_up_to):
        name = os.path.basename(path)
        preparation.save(name)
        preparation.remove(name)
    if files.epochs is not None:
        data = epochs_up_to(read_whole(files.epochs), end_offset)
        if data is not None:
            name = os.path.basename(files.epochs)
            preparation.write(name, data, os.stat(files.epochs))
            preparation.place(name)
    preparation.sync()


def _existing(path: str) -> Iterable[str]:
    """Names of the index files that are beside a log."""
    for kind in INDEX_KINDS:
        index = sibling(path, kind)
        if os.path.lexists(index):
            yield os.path.basename(index)


def _name(segment: SegmentPlan, kind: Kind) -> str:
    return os.path.basename(sibling(segment.path, kind))
