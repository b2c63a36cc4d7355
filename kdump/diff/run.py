"""``kdump diff``: partition after partition, here or on a worker, each as plain data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from kdump.codes import KdumpError
from kdump.diff.contents import ContentOptions, StoredRecord
from kdump.diff.copies import LoadedCopy, load
from kdump.diff.differences import Comparison, CopyDifference, DifferenceKind
from kdump.diff.losses import CopyTruncation, Recommendation, recommended, truncations
from kdump.diff.places import PartitionCopies, PartitionName, copies_of, partitions_of
from kdump.diff.shown import RecordDifference, shown_records
from kdump.tasks.plaindata import PlainData
from kdump.tasks.work import Runner, Work, Workplace, in_process


class DiffOptions(NamedTuple):
    """What is compared and shown."""

    contents: ContentOptions = ContentOptions()
    with_records: bool = False


class CopySummary(NamedTuple):
    """A copy, as it is shown; see ``LoadedCopy``."""

    path: str
    directory: str
    log_start: int
    log_end: int
    high_watermark: int
    epochs: tuple[tuple[int, int], ...]
    topic_id: str | None
    cluster_id: str | None
    node_id: int | None
    is_damaged: bool
    is_future: bool


@dataclass(frozen=True, slots=True)
class PartitionReport:
    """The comparison of one partition. ``common``: what all copies may hold; ``equal_to``: up to there it is equal."""

    name: PartitionName | None
    copies: tuple[CopySummary, ...]
    absent: tuple[str, ...]
    common: tuple[int, int] | None
    equal_to: int | None
    differences: tuple[CopyDifference, ...]
    truncations: tuple[CopyTruncation, ...]
    recommendation: Recommendation | None


class ReportedRecord(NamedTuple):
    """A record in which the copies of a partition differ; ``copies``: their PATHs."""

    name: PartitionName | None
    copies: tuple[str, ...]
    found: RecordDifference


DiffItem: TypeAlias = PartitionReport | ReportedRecord | KdumpError
_RESULT = PlainData(
    (
        CopySummary, CopyTruncation, CopyDifference, DifferenceKind, PartitionReport, Recommendation, RecordDifference,
        ReportedRecord, StoredRecord,
    )
)  # fmt: skip


class PartitionTask(NamedTuple):
    """The copies of one partition, to be compared."""

    partition: PartitionCopies
    options: DiffOptions

    def run(self) -> Iterator[DiffItem]:
        """The report, then the records that were asked for; errors of copies that cannot be read."""
        loaded: list[LoadedCopy] = []
        for place in self.partition.copies:
            try:
                loaded.append(load(place))
            except KdumpError as error:
                yield error.located(place.directory)
        comparison = Comparison(loaded, self.options.contents)
        try:
            yield from self._compared(comparison)
        except KdumpError as error:
            yield error

    def _compared(self, comparison: Comparison) -> Iterator[DiffItem]:
        differences = comparison.differences()
        found = tuple(truncations(comparison))
        copies = tuple(map(_summary, comparison.copies))
        yield PartitionReport(
            self.partition.name,
            copies,
            self.partition.absent,
            comparison.common,
            _equal_to(comparison, differences),
            tuple(differences),
            found,
            recommended(comparison, differences, found),
        )
        if self.options.with_records:
            paths = tuple(copy.path for copy in copies)
            for record in shown_records(comparison, differences):
                yield ReportedRecord(self.partition.name, paths, record)


def diff(
    paths: Sequence[str],
    options: DiffOptions,
    on_error: Callable[[KdumpError], None],
    run: Runner = in_process,
) -> Iterator[PartitionReport | ReportedRecord]:
    """Compare what the PATHs hold.

    Args:
        paths: segments, partition directories, log directories or URIs of these; two or more.
        options: see DiffOptions.
        on_error: takes what is wrong with a PATH or a copy; the others are still compared.
        run: where partitions are compared.
    """
    found = []
    for path in paths:
        try:
            found.append(copies_of(path, on_error))
        except KdumpError as error:
            on_error(error.located(path))
    tasks = [PartitionTask(partition, options) for partition in partitions_of(found) if partition.copies]
    work = Work(PartitionTask.run, _RESULT.pack, _RESULT.unpack, Workplace.of(paths), lost=_lost)
    for item in run([[task] for task in tasks], work):
        if isinstance(item, KdumpError):
            on_error(item)
        else:
            yield item


def _lost(task: PartitionTask, count: int, error: KdumpError) -> Iterable[DiffItem]:
    """The process that compared a partition was killed."""
    return [KdumpError(error.code, error.message, path=task.partition.copies[0].directory)]


def _summary(copy: LoadedCopy) -> CopySummary:
    place = copy.place
    return CopySummary(
        place.path,
        place.directory,
        copy.log_start,
        copy.log_end,
        copy.high_watermark,
        copy.epochs,
        place.topic_id,
        place.cluster_id,
        place.node_id,
        bool(copy.damage) or copy.failure is not None,
        place.is_future,
    )


def _equal_to(comparison: Comparison, differences: Iterable[CopyDifference]) -> int | None:
    """The last offset up to which all copies hold the same, from the first that all may hold on; None: nowhere."""
    if comparison.common is None:
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
