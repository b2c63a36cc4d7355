"""``kdump stats``: the figures of logs, and the number of ``verify``'s findings in them, in one pass over each log.

A log that is checked in this process is folded on the way. Logs that other processes read come as folds of splits
(``fold_split``).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from kdump.codes import Finding, KdumpError, Severity
from kdump.format.index import parse_offset_index, parse_time_index, used_entries
from kdump.log import files
from kdump.log.context import FileContext
from kdump.log.extents import Extent, LogCuts, split_starts
from kdump.log.named import is_stream
from kdump.log.names import Kind, sibling
from kdump.log.offsetindex import rising_entries
from kdump.log.partition import segments_after
from kdump.log.paths import Sibling, file_by_name
from kdump.log.siblings import read_beside
from kdump.log.source import Source
from kdump.reading.outcomes import OPEN
from kdump.reading.transactionreader import TransactionReader
from kdump.stats.fold import LogPart, PartFold, StatsFold
from kdump.stats.groupfigures import Damage, FiguresReport, report
from kdump.stats.grouping import By, Key
from kdump.stats.offsettimes import CurveStep
from kdump.stats.places import RangeStart
from kdump.stats.reading import StatsReading, segment_reading
from kdump.tasks.splits import SPLIT_BYTES, Split
from kdump.verify.gaps import NextSegment
from kdump.verify.partition import Item, PartitionCheck, base_offset_of
from kdump.verify.run import Judge
from kdump.verify.segment import CheckOptions, Rows, SeenSegment, SegmentReading
from kdump.verify.smalllogs import SmallLogs
from kdump.wire.compression import DEFAULT_LIMIT

if TYPE_CHECKING:
    from kdump.format.message07 import Message07


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


class StatsRun:
    """One run over any number of logs; a log that is given twice counts once.

    Args:
        options: what is counted.
    """

    def __init__(self, options: StatsOptions) -> None:
        self._options = options
        self._fold = options.fold()
        self._folded: set[str] = set()
        self._taken: str | None = None
        """The log whose splits are taken now."""
        self._found: dict[str | None, dict[Severity, int]] = {}
        self._transactions = TransactionReader()
        self._is_followed: dict[str, bool] = {}
        self._part_07: PartFold | None = None
        # Logs that are read together give no records.
        self._small = None if options.with_records else SmallLogs(options.checks)

    def judge(self) -> Judge:
        """Checks partitions in this process, and folds their logs on the way."""
        return PartitionCheck(self._options.checks, read=self.read, small=self._small)

    def take_split(self, log: str, first: int, fold: StatsFold) -> None:
        """Take the fold of a split of a log that was looked at elsewhere. The splits of a log come in order.

        Args:
            log: its absolute path. A log that was folded before is left out.
            first: the file position at which the split begins.
            fold: of the split.
        """
        if first == 0:
            self._taken = None if log in self._folded else log
            self._folded.add(log)
        if log == self._taken:
            self._fold.merge(fold)

    def see_07(self, path: str, entries: Sequence[tuple[Message07, int]]) -> None:
        """Add the next entries of a log of Kafka 0.7; see ``verify.log07.See07``."""
        from kdump.stats.log07 import see_entries  # not needed by today's logs

        whole = path if is_stream(path) else files.absolute(path)
        if not entries:
            part = replace(_part(FileContext.of(path), whole, 0), is_07=True)
            self._part_07 = None if whole in self._folded else self._fold.part(part)
            self._folded.add(whole)
        elif self._part_07 is not None:
            options = self._options
            see_entries(self._part_07, entries, with_records=options.with_records, limit=options.limit)

    def see_finding(self, finding: Finding) -> None:
        """Count a finding."""
        counts = self._found.setdefault(finding.path, dict.fromkeys(Severity, 0))
        counts[finding.severity] += 1

    @property
    def is_damaged(self) -> bool:
        """Whether there was an error."""
        return any(counts[Severity.ERROR] for counts in self._found.values())

    def report(self) -> FiguresReport:
        """The figures of all logs."""
        self._fold.settle(self._outcome)
        by = self._options.by
        damage: dict[Key, Damage] = {}
        total = Damage()
        for path, counts in self._found.items():
            own = Damage(counts[Severity.ERROR], counts[Severity.WARNING])
            total = _sum(total, own)
            if by.is_of_files and path is not None:
                log = _log_of(path)
                key = _part(FileContext.of(log), files.absolute(log), 0).key(by)
                damage[key] = _sum(damage.get(key, Damage()), own)
        return report(self._fold, damage, total)

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
        known = None if self._small is None else self._small.reading(source)
        part = _part(context or FileContext.of(path), whole, 0)
        return _FoldingReading(source, following, part, self._options, self._fold, known=known)

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


class _FoldingReading:
    """One pass over a log, in the parts that ``fold_split`` gets elsewhere.

    So sketches of keys give equal numbers on every engine: they are made of the same parts, merged in the same order.
    """

    def __init__(
        self,
        source: Source,
        following: NextSegment,
        part: LogPart,
        options: StatsOptions,
        fold: StatsFold,
        *,
        known: SeenSegment | None,
    ) -> None:
        self._known = known
        self._source = source
        self._following = following
        self._part = part
        self._options = options
        self._fold = fold
        self.ends_in_gap = False

    def items(self) -> Iterator[Finding | Rows]:
        """Findings and rows; see ``verify.segment.SeenSegment``."""
        place, options = self._part.place, self._options
        for position, extent in self._extents():
            # Without sketches it does not matter which parts are merged when.
            fold = options.fold() if options.with_records else self._fold
            part = fold.part(replace(self._part, place=place._replace(position=position)))
            if position == 0:
                _see_indexes(part, place.file, self._source.size)
            seen = self._known or segment_reading(
                self._source, self._following, extent, part, with_records=options.with_records, limit=options.limit
            )
            reading = StatsReading(seen, part)
            try:
                yield from reading.items()
            finally:
                if fold is not self._fold:
                    # As another process would get them: packing changes the order in which a sketch drops keys.
                    fold.keys.pack()
                    self._fold.merge(fold)
            if extent is None or extent.start < extent.end:
                self.ends_in_gap = reading.ends_in_gap

    def _extents(self) -> Iterator[tuple[int, Extent | None]]:
        """Where each part begins, and which range is read for it; None: all of the log."""
        place, size = self._part.place, self._source.size
        # Exact figures are the same without parts.
        starts = [0] if size is None or not self._options.with_records else split_starts(size, SPLIT_BYTES)
        if len(starts) < 2:
            yield 0, None
            return
        cuts = LogCuts(rising_entries(place.file, place.base_offset))
        # All of them are looked for before the first part is read.
        extents = [cuts.extent(self._source, first, last) for first, last in pairwise((*starts, size or 0))]
        ends = [extent.end for extent in extents if extent.start < extent.end]
        reached = 0
        for start, extent in zip(starts, extents, strict=True):
            if extent.start >= reached:
                extent.later = ends[bisect_right(ends, extent.end) :]
                yield start, extent
                reached = max(reached, extent.end)


def fold_split(split: Split, options: StatsOptions) -> StatsFold | None:
    """The fold of the rows that a split owns, without what cannot be read; None where its end is false."""
    fold = options.fold()
    try:
        with split.open() as source:
            extent = split.extent(source)
            for _ in split_reading(split, source, None, extent, options=options, fold=fold).items():
                pass
            if extent.is_missed:
                return None
    except KdumpError:
        # The judge of the partition reports it.
        pass
    return fold


def split_reading(
    split: Split,
    source: Source,
    following: NextSegment | None,
    extent: Extent,
    *,
    options: StatsOptions,
    fold: StatsFold,
) -> SeenSegment:
    """A look at what a split owns, ``extent`` of ``source``, which is folded into ``fold`` on the way."""
    log = split.log
    part = fold.part(_part(log.context, log.path, split.first))
    if split.first == 0:
        _see_indexes(part, log.path, log.size)
    seen = segment_reading(source, following, extent, part, with_records=options.with_records, limit=options.limit)
    return StatsReading(seen, part)


def _log_of(path: str) -> str:
    """The log of a segment's file; of other files the path itself."""
    file = None if is_stream(path) else file_by_name(path)
    return file.log if isinstance(file, Sibling) else path


def _part(context: FileContext, whole: str, position: int) -> LogPart:
    if is_stream(whole):
        # Two pipes may be of two partitions.
        place = RangeStart(whole, -1, whole, position)
    else:
        base_offset = base_offset_of(whole)
        place = RangeStart(files.directory_of(whole), -1 if base_offset is None else base_offset, whole, position)
    return LogPart(context.file, context.topic, context.partition, place)


def _see_indexes(part: PartFold, path: str, size: int | None) -> None:
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


def _sum(one: Damage, other: Damage) -> Damage:
    return Damage(one.errors + other.errors, one.warnings + other.warnings)
