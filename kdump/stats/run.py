"""``kdump stats``: the figures of logs, and the number of ``verify``'s findings in them, in one pass over each log.

A log that is checked in this process is folded on the way. Logs that other processes read come as folds.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

import numpy as np

from kdump.codes import Codes, Finding, KdumpError, Severity
from kdump.format.index import parse_offset_index, parse_time_index, used_entries
from kdump.inputs import Sibling, file_by_name
from kdump.limits import GROUPS, hint
from kdump.log import files
from kdump.log.context import FileContext
from kdump.log.named import is_stream
from kdump.log.names import Kind, sibling
from kdump.log.partition import segments_after
from kdump.log.siblings import read_beside
from kdump.log.source import Source
from kdump.log.walk import DEFAULT_CHUNK_SIZE
from kdump.reading.outcomes import OPEN
from kdump.reading.transactionreader import TransactionReader
from kdump.stats.fold import StatsFold
from kdump.stats.groupfigures import FiguresReport, report
from kdump.stats.grouping import By, Key
from kdump.stats.offsettimes import CurveStep
from kdump.stats.order import LogPlace
from kdump.stats.partfold import LogPart, PartFold
from kdump.tasks.logs import LogFile
from kdump.verify.gaps import NextSegment
from kdump.verify.partition import Item, PartitionCheck, base_offset_of
from kdump.verify.run import Judge
from kdump.verify.segment import CheckOptions, Rows, SeenSegment, SegmentReading
from kdump.wire.compression import DEFAULT_LIMIT
from kdump.worlds import World

_RECORDS_CHUNK: Final = 4 << 20
"""Bytes that are read together where records are decoded."""
_GAPS: Final = frozenset({Codes.OFFSET_GAP, Codes.SEGMENT_GAP, Codes.SEGMENT_MISSING})


@dataclass(frozen=True, slots=True)
class StatsOptions:
    """What is counted and how deep.

    ``with_records``: decode every record; else headers only. ``limit``: most bytes to which one batch may decompress.
    """

    by: By = By.SEGMENT
    with_records: bool = True
    limit: int = DEFAULT_LIMIT
    with_curves: bool = False
    """Follow timestamps along the offsets."""
    header: str = ""
    """By the values of this header, see ``By.HEADER``."""

    @property
    def checks(self) -> CheckOptions:
        """The options of the checks in this pass."""
        return CheckOptions(deep=self.with_records, limit=self.limit)

    def fold(self) -> StatsFold:
        """An empty fold."""
        return StatsFold(self.by, with_records=self.with_records, with_curves=self.with_curves, header=self.header)


class WorldFigures(Protocol):
    """How a log of another world is counted: the module ``count`` of its package."""

    def see_entries(self, part: PartFold, entries: Sequence[Any], *, with_records: bool, limit: int) -> None:
        """Add entries of a log to ``part``.

        Args:
            part: takes them.
            entries: in file order, as the checks of the world give them to ``verify.run.SeeEntries``.
            with_records: decode them too.
            limit: most bytes to which one entry may decompress.
        """


class StatsRun:
    """One run over any number of logs; a log that is given twice counts once.

    Args:
        options: what is counted.
    """

    def __init__(self, options: StatsOptions) -> None:
        self._options = options
        self._fold = options.fold()
        self._folded: set[str] = set()
        self._found: defaultdict[str | None, Counter[Severity]] = defaultdict(Counter)
        self._gaps: set[Severity] = set()
        """How the missing offsets were graded: as information where the log cleaner explains them."""
        self._transactions = TransactionReader()
        self._is_followed: dict[str, bool] = {}
        self._world_part: PartFold | None = None

    def judge(self) -> Judge:
        """Checks partitions in this process, and folds their logs on the way."""
        return PartitionCheck(self._options.checks, read=self.read)

    def take_fold(self, log: str, fold: StatsFold) -> None:
        """Take the fold of a log that was looked at elsewhere; ``log``: its absolute path.

        A log that was folded before is left out.
        """
        if log not in self._folded:
            self._folded.add(log)
            self._fold.merge(fold)

    def see_entries(self, world: World, path: str, entries: Sequence[Any]) -> None:
        """Add the next entries of a log of another world; see ``verify.run.SeeEntries``."""
        whole = path if is_stream(path) else files.absolute(path)
        if not entries:
            part = replace(_part(FileContext.of(path), whole), has_positions=True)
            self._world_part = None if whole in self._folded else PartFold(self._fold, part)
            self._folded.add(whole)
        elif self._world_part is not None:
            options = self._options
            figures: WorldFigures = world.answer("count")
            figures.see_entries(self._world_part, entries, with_records=options.with_records, limit=options.limit)
            self._world_part.finish()

    def see_finding(self, finding: Finding) -> None:
        """Count a finding."""
        if finding.code in _GAPS:
            self._gaps.add(finding.severity)
        self._found[finding.path][finding.severity] += 1

    @property
    def is_damaged(self) -> bool:
        """Whether there was an error."""
        return any(counts[Severity.ERROR] for counts in self._found.values())

    def left_out(self) -> Iterator[Finding]:
        """What kdump does not keep, once all logs were read."""
        groups = self._fold.groups
        if groups.has_others and not self._options.by.is_of_contents:
            message = f"the figures of further groups are in the group {groups.others}; {hint(GROUPS)}"
            yield Finding(Codes.LEFT_OUT, message, 0)

    def report(self) -> FiguresReport:
        """The figures of all logs."""
        self._fold.settle(self._outcome)
        by = self._options.by
        damage: defaultdict[Key, Counter[Severity]] = defaultdict(Counter)
        total = Counter[Severity]()
        for path, counts in self._found.items():
            total.update(counts)
            if by.is_of_files and path is not None:
                log = _log_of(path)
                damage[_part(FileContext.of(log), files.absolute(log)).key(by)].update(counts)
        return replace(report(self._fold, damage, total), gaps_are_normal=self._gaps == {Severity.INFO})

    def curves(self) -> dict[str, list[CurveStep]]:
        """Timestamps along the offsets, by the directory of the partition."""
        times = self._fold.offset_times
        return {} if times is None else times.curves()

    def read(self, source: Source, following: NextSegment, context: FileContext | None = None) -> SeenSegment:
        """See ``verify.partition.SegmentReader``: fold a log that was not folded before.

        ``context``: of its path as it was given; None: as in ``source``.
        """
        path = source.path
        whole = path if is_stream(path) else files.absolute(path)
        if whole in self._folded:
            return SegmentReading(source, following, self._options.checks)
        self._folded.add(whole)
        # Elsewhere each log has a fold of its own. Which contents and numbers are over the limit depends on it.
        is_apart = self._options.with_records and not self._options.by.is_of_files
        fold = self._options.fold() if is_apart else self._fold
        part = PartFold(fold, _part(context or FileContext.of(path), whole))
        return StatsReading(source, following, part, self._options, self._fold if is_apart else None)

    def _outcome(self, file: str, producer_id: int, offset: int) -> str:
        """The outcome of a transaction that ends in no log of this run: a later segment may hold its marker."""
        if file not in self._is_followed:
            # Found out once per file: there may be as many transactions as producers.
            self._is_followed[file] = not is_stream(file) and bool(segments_after(file))
        if not self._is_followed[file]:
            return OPEN
        try:
            return self._transactions.of(file).outcome(producer_id, offset)
        except KdumpError:
            # A later segment cannot be read; the checks of its partition report that.
            return OPEN


class FindingDeduplicator:
    """Drops findings about a log that an earlier PATH has already reported: the same log may be below several PATHs."""

    def __init__(self) -> None:
        self._met: dict[int, int] = {}
        """The number of the PATH that reported an item, by the hash of the item."""
        self._paths = 0

    def of(self, items: Iterable[Item]) -> Iterator[Item]:
        """The new items of the next PATH."""
        self._paths += 1
        for item in items:
            path = item.path if item.path is None or is_stream(item.path) else files.absolute(item.path)
            words = (item.code, item.position, item.message) if isinstance(item, Finding) else ()
            if self._met.setdefault(hash((path, *words)), self._paths) == self._paths:
                yield item


class StatsReading:
    """One pass over a log for checks and figures; see ``verify.segment.SeenSegment``.

    Args:
        source: the log.
        following: as for SegmentReading.
        part: takes the rows.
        options: what is counted.
        into: takes the fold of the part at the end; None: nobody.
    """

    def __init__(
        self,
        source: Source,
        following: NextSegment | None,
        part: PartFold,
        options: StatsOptions,
        into: StatsFold | None = None,
    ) -> None:
        _see_indexes(part, source.size)
        suspects, chunk_size = None, DEFAULT_CHUNK_SIZE
        if options.with_records:
            from kdump.stats.records import RecordReader  # headers of batches need no decoders of records

            suspects, chunk_size = RecordReader(options.limit, part.see_records).suspects, _RECORDS_CHUNK
        checks = replace(options.checks, columnar=True)
        self._reading = SegmentReading(source, following, checks, suspects=suspects, chunk_size=chunk_size)
        self._part = part
        self._into = into

    @property
    def ends_in_gap(self) -> bool:
        """Whether damage follows the last row; see SeenSegment."""
        return self._reading.ends_in_gap

    def items(self) -> Iterator[Finding | Rows]:
        """Findings and rows; see SeenSegment."""
        try:
            for item in self._reading.items():
                if isinstance(item, np.ndarray):
                    self._part.see_batches(item)
                yield item
            self._part.see_end(in_gap=self.ends_in_gap)
        finally:
            self._part.finish()
            if self._into is not None:
                self._into.merge(self._part.fold)


def fold_log(log: LogFile, options: StatsOptions) -> StatsFold:
    """The fold of a log, without what cannot be read: the judge of the partition reports it."""
    fold = options.fold()
    with suppress(KdumpError), log.open_planned() as source:
        for _ in StatsReading(source, None, part_of(log, fold), options).items():
            pass
    return fold


def part_of(log: LogFile, fold: StatsFold) -> PartFold:
    """Takes the rows of a log into a fold."""
    return PartFold(fold, _part(log.context, log.path))


def _log_of(path: str) -> str:
    """The log of a segment's file; of other files the path itself."""
    file = None if is_stream(path) else file_by_name(path)
    return file.log if isinstance(file, Sibling) else path


def _part(context: FileContext, whole: str) -> LogPart:
    if is_stream(whole):
        # Two pipes may be of two partitions.
        place = LogPlace(whole, -1, whole)
    else:
        base_offset = base_offset_of(whole)
        place = LogPlace(files.directory_of(whole), -1 if base_offset is None else base_offset, whole)
    return LogPart(context.file, context.topic, context.partition, place)


def _see_indexes(part: PartFold, size: int | None) -> None:
    path = part.path
    base_offset = None if is_stream(path) else base_offset_of(path)
    if base_offset is None or not path.endswith(Kind.LOG.value):
        return
    part.see_indexes(size or 0, _index_entries(path, base_offset), _time_index_entries(path, base_offset))


def _index_entries(log: str, base_offset: int) -> int | None:
    try:
        entries = parse_offset_index(read_beside(sibling(log, Kind.INDEX)), base_offset)
    except KdumpError:
        return None
    return sum(1 for _ in used_entries(entries, base_offset))


def _time_index_entries(log: str, base_offset: int) -> int | None:
    try:
        entries = parse_time_index(read_beside(sibling(log, Kind.TIME_INDEX)), base_offset)
    except KdumpError:
        return None
    return sum(1 for _ in used_entries(entries, base_offset))
