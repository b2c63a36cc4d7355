"""``kdump diff``: partition after partition, here or on a worker, each as plain data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from kdump.codes import Codes, KdumpError, OnError
from kdump.diff.against import FileDifference, against, below, changed_files, listed_for, roots_of
from kdump.diff.comparison import Comparison, CopyDifference, DifferenceKind
from kdump.diff.contents import DiffOptions, StoredRecord
from kdump.diff.copies import CopySummary, LoadedCopy, load
from kdump.diff.election import Clusters, Election
from kdump.diff.losses import (
    CopyTruncation,
    ExpectedLeader,
    Recommendation,
    expected_leader,
    recommended,
    truncations,
)
from kdump.diff.manifest import CopyManifest, ListedPartition, is_manifest, read_manifest
from kdump.diff.places import PartitionCopies, PartitionName, PathCopies, copies_of, matched
from kdump.diff.shown import RecordDifference, shown_records
from kdump.inputs import Input, MetPartitions, PartitionChoice
from kdump.tasks.plaindata import PlainData
from kdump.tasks.work import Runner, Work, Workplace, in_process

_MOST_GROUPS: Final = 256
"""Tasks; one for each partition would cost more than most comparisons."""
_MOST_LISTED: Final = 64
"""What a manifest says of this many copies of a partition is compared with one copy, which is read for each."""


@dataclass(frozen=True, slots=True)
class PartitionReport:
    """The comparison of one partition. ``common``: what all copies may hold; ``equal_to``: up to there it is equal.

    ``expected``: None where the metadata of the cluster is not at hand.
    """

    name: PartitionName | None
    copies: tuple[CopySummary, ...]
    absent: tuple[str, ...]
    common: tuple[int, int] | None
    equal_to: int | None
    differences: tuple[CopyDifference, ...]
    truncations: tuple[CopyTruncation, ...]
    recommendation: Recommendation | None
    expected: ExpectedLeader | None = None


DiffItem: TypeAlias = PartitionReport | RecordDifference | KdumpError
_RESULT = PlainData(
    (
        CopySummary, CopyTruncation, CopyDifference, DifferenceKind, Election, ExpectedLeader, PartitionReport,
        Recommendation, RecordDifference, StoredRecord,
    )
)  # fmt: skip


class PartitionTask(NamedTuple):
    """The copies of one partition, to be compared.

    ``election``: what the cluster's metadata says of it. ``listed``: what a manifest says of it, of each copy that it
    was made of; ``manifest``: its path; ``roots``: PATHs, and which PATH of the manifest stands for each.
    """

    partition: PartitionCopies
    options: DiffOptions
    election: Election | None = None
    listed: tuple[ListedPartition, ...] = ()
    manifest: str = ""
    roots: tuple[tuple[str, str], ...] = ()

    def run(self) -> Iterator[DiffItem]:
        """The report, then the records that were asked for; errors of copies that cannot be read."""
        loaded: list[LoadedCopy] = []
        for place in self.partition.copies:
            try:
                loaded.append(load(place))
            except KdumpError as error:
                yield error.located(place.directory)
        if not loaded and not self.listed:
            return
        comparison = Comparison(loaded, self.options)
        try:
            yield from self._compared(comparison)
        except KdumpError as error:
            yield error

    def _compared(self, comparison: Comparison) -> Iterator[DiffItem]:
        differences = comparison.differences()
        found = tuple(truncations(comparison))
        copies = tuple(copy.summary for copy in comparison.copies)
        roots = dict(self.roots)
        numbers = {id(listed): number for number, listed in enumerate(self.listed, len(comparison.copies))}
        for number, copy in enumerate(comparison.copies):
            chosen = listed_for(copy.place, roots.get(copy.path), self.listed)
            if len(chosen) > _MOST_LISTED:
                message = f"has {len(chosen):,} lines of this partition, {_MOST_LISTED} are the most of one"
                raise KdumpError(Codes.MANIFEST, message, path=self.manifest)
            for listed in chosen:
                differences += against(listed, numbers[id(listed)], copy, number)
        copies += tuple(listed.copy for listed in self.listed)
        yield PartitionReport(
            self.partition.name,
            copies,
            self.partition.absent,
            comparison.common,
            _equal_to(comparison, differences),
            tuple(differences),
            found,
            recommended(comparison, differences, found),
            None if self.election is None else expected_leader(comparison, found, self.election),
        )
        if self.options.with_records:
            paths = tuple(copy.path for copy in copies)
            yield from shown_records(comparison, differences, self.partition.name, paths)


def diff(
    inputs: Sequence[Input],
    options: DiffOptions,
    on_error: OnError,
    run: Runner = in_process,
) -> Iterator[PartitionReport | RecordDifference | FileDifference]:
    """Compare what the PATHs hold.

    Args:
        inputs: segments, partition directories or log directories; two or more, of which one may be a manifest.
        options: see DiffOptions.
        on_error: takes what is wrong with a PATH or a copy; the others are still compared.
        run: where partitions are compared.
    """
    found: list[PathCopies] = []
    manifest: CopyManifest | None = None
    for one in inputs:
        try:
            if not is_manifest(one):
                found.append(copies_of(one, on_error))
            elif manifest is None:
                manifest = read_manifest(one.path)
            else:
                on_error(KdumpError(Codes.MANIFEST, "a second manifest: one is compared at a time", path=one.path))
        except KdumpError as error:
            on_error(error.located(one.path))
    there = tuple(one.path for one in found)
    roots = None if manifest is None else roots_of(manifest, there)
    tasks = [PartitionTask(one, options) for one in matched(found) if one.copies]
    if manifest is not None:
        tasks = _with_manifest(tasks, manifest, there, tuple((roots or {}).items()))
    clusters = Clusters(found)
    tasks = [
        task._replace(election=clusters.election(task.partition)) for task in _chosen(tasks, options.choice, on_error)
    ]
    work = Work(PartitionTask.run, _RESULT.pack, _RESULT.unpack, Workplace.of(one.path for one in inputs), lost=_lost)
    size = max(1, -(-len(tasks) // _MOST_GROUPS))
    groups = [tasks[first : first + size] for first in range(0, len(tasks), size)]
    # A single partition need not wait for another process.
    for item in (run if len(groups) > 1 else in_process)(groups, work):
        if isinstance(item, KdumpError):
            on_error(item)
        else:
            yield item
    if manifest is not None and options.choice.is_all:
        yield from _changed_files(manifest, roots, found, on_error)


def _changed_files(
    manifest: CopyManifest,
    roots: Mapping[str, str] | None,
    found: Sequence[PathCopies],
    on_error: OnError,
) -> Iterator[FileDifference]:
    if roots is None:
        message = f"made of {len(manifest.roots)} PATHs: give as many, or the partitions are compared and no files"
        on_error(KdumpError(Codes.MANIFEST, message, path=manifest.path))
        return
    for one in found:
        if _may_have_the_files(manifest, roots[one.path], one):
            try:
                yield from changed_files(manifest, roots[one.path], one.path, on_error)
            except KdumpError as error:
                on_error(error.located(one.path))


def _with_manifest(
    tasks: Sequence[PartitionTask], manifest: CopyManifest, paths: tuple[str, ...], roots: tuple[tuple[str, str], ...]
) -> list[PartitionTask]:
    """The tasks with what a manifest says of their partitions, and tasks for those that only the manifest has."""
    listed: dict[PartitionName | None, list[ListedPartition]] = {}
    for said in manifest.partitions:
        listed.setdefault(said.name, []).append(said)
    held = {task.partition.name: task for task in tasks}
    if len(listed) == len(held) == 1:
        # A copy may be called otherwise.
        held = dict(zip(listed, held.values(), strict=True))
    found = []
    for name in sorted(listed.keys() | held.keys(), key=lambda name: name or ("", -1)):
        task = held.get(name) or PartitionTask(PartitionCopies(name, (), paths), DiffOptions())
        if name not in listed:
            task = task._replace(partition=task.partition._replace(absent=(*task.partition.absent, manifest.path)))
        found.append(task._replace(listed=tuple(listed.get(name, ())), manifest=manifest.path, roots=roots))
    return found


def _chosen(tasks: list[PartitionTask], choice: PartitionChoice, on_error: OnError) -> list[PartitionTask]:
    """The tasks for the partitions that are wanted."""
    if choice.is_all:
        return tasks
    met = MetPartitions(choice)
    chosen = [task for task in tasks if met.takes(task.partition.name)]
    for error in met.unmatched():
        on_error(error)
    return chosen


def _may_have_the_files(manifest: CopyManifest, root: str, path: PathCopies) -> bool:
    """Whether a PATH may hold the files of a PATH of the manifest: those of another node's copy are others."""
    nodes = {one.copy.node for one in manifest.partitions if below(one.copy.directory, root) is not None} - {None}
    own = {copy.node for copy in path.copies} - {None}
    return not nodes or not own or bool(nodes & own)


def _lost(task: PartitionTask, count: int, error: KdumpError) -> Iterable[DiffItem]:
    """The process that compared a partition was killed."""
    places = [copy.directory for copy in task.partition.copies]
    return [KdumpError(error.code, error.message, path=next(iter(places), task.manifest))]


def _equal_to(comparison: Comparison, differences: Sequence[CopyDifference]) -> int | None:
    """The last offset up to which all copies hold the same, from the first that all may hold on; None: nowhere."""
    if comparison.common is None or any(one.kind is DifferenceKind.TOPIC_ID for one in differences):
        return None
    lower, upper = comparison.common
    kinds = DifferenceKind.SEGMENTS, DifferenceKind.REWRITTEN
    firsts = [
        one.first_offset
        for one in differences
        if one.first_offset is not None and one.kind not in kinds and (one.last_offset or one.first_offset) >= lower
    ]
    end = min([upper, *(first - 1 for first in firsts)])
    return end if end >= lower else None
