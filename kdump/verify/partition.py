"""Checks the segments of one partition together: their logs, the files beside them, and the partition as a whole.

Every log is read once, past damage: here, or before by other processes. Its siblings are compared with what
was read. Findings come as they are made; the summary of a segment follows its findings.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Final, TypeAlias

from kdump.codes import FOUND_CODES, Codes, Finding, KdumpError, Severity
from kdump.inputs import PathDirectory, log_paths
from kdump.kafka.transactionends import CoordinatorAnswer, EndingOf
from kdump.limits import FINDINGS, hint, most
from kdump.log import files
from kdump.log.lock import is_held
from kdump.log.named import STDIN
from kdump.log.names import CLUSTER_METADATA, SWAP_STATE, Kind, parse_file_name, parse_partition_directory
from kdump.log.opening import open_source
from kdump.log.partition import has_gone, segments_after
from kdump.log.siblings import is_cleaned_now, read_snapshot, was_cleaned
from kdump.log.source import Source
from kdump.verify.batchtable import BatchTable, read_table
from kdump.verify.gaps import NextSegment
from kdump.verify.indexedlog import IndexedLog, NamedPlaces
from kdump.verify.indexes import named_places
from kdump.verify.logdir import PartitionExtent
from kdump.verify.ordered import OrderedChecks
from kdump.verify.partitionsummary import PartitionSummary
from kdump.verify.reach import PartitionEvidence
from kdump.verify.segment import CheckOptions, Rows, SeenSegment, SegmentReading, check_segment
from kdump.verify.settling import (
    PAUSE_SECONDS,
    Watch,
    graded,
    is_being_written,
    serious_of,
    settled,
    settled_findings,
)
from kdump.verify.siblings import (
    PartitionListing,
    SegmentFiles,
    check_partition_files,
    check_segment_files,
)
from kdump.verify.startfinding import with_start
from kdump.verify.summary import SegmentSummary
from kdump.verify.swapped import exchanged_logs, swapped_finding

if TYPE_CHECKING:
    from kdump.kafka.recover import Recovery

_COORDINATOR_TOPICS: Final = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
_TORN_TAIL: Final = frozenset({Codes.TRUNCATED, Codes.HEADER_CUT})

_QUICK: Final = CheckOptions(deep=False)
_MOST_SWAPS: Final = 50
_SWAP_SECONDS: Final = 0.02
"""A broker renames the files of a segment within milliseconds. It may be slow, or have died halfway."""

Item: TypeAlias = Finding | SegmentSummary
Judgement: TypeAlias = Item | KdumpError | PartitionExtent
"""A result about the segments of a partition. Last comes the extent they cover, if names and contents show it."""
SegmentReader: TypeAlias = Callable[[Source, NextSegment], SeenSegment]


class PartitionCheck:
    """Checks partitions, one after the other.

    Args:
        options: how deep.
        read: returns what a log holds; None: the log is read in this process.
    """

    def __init__(self, options: CheckOptions | None = None, *, read: SegmentReader | None = None) -> None:
        self._options = options or CheckOptions()
        self._read: SegmentReader = read or self._read_here

    def segments(self, segments: Sequence[str], folder: str | None) -> Iterator[Judgement]:
        """Check the segments of one partition.

        A segment that cannot be read is an error among the items. One that must not be read, because it may be an
        attack, is a finding.

        Args:
            segments: in offset order.
            folder: the directory, if they are all of its segments. Then its other files are checked too.
        """
        found = self._checked(segments, folder)
        return found if folder is None else with_start(folder, found)

    def _checked(self, segments: Sequence[str], folder: str | None) -> Iterator[Judgement]:
        directory = files.directory_of(segments[0])
        watch = Watch(directory, segments[-1])
        topic, _ = parse_partition_directory(os.path.basename(directory)) or ("", 0)
        # Read before the logs, which may grow.
        beside = None if folder is None else PartitionListing(folder)
        evidence = None if beside is None else PartitionEvidence.of_files(beside)
        ordered = OrderedChecks(
            is_compacted=was_cleaned(directory) or None,
            producers=read_snapshot(segments[0]) if beside is None or beside.has_snapshot(segments[0]) else (),
            is_coordinator=topic in _COORDINATOR_TOPICS,
            ending=_ending_beside(directory),
            lists_gaps=self._options.lists_gaps,
        )
        seen = PartitionSummary()
        exchanged = exchanged_logs(segments)
        seen.are_exchanged = bool(exchanged)
        for number, segment in enumerate(segments):
            if segment in exchanged:
                ordered.skip_segment()
                seen.skip()
                yield from _swapped_items(segment, exchanged[segment])
                continue
            try:
                yield from self._segment(segment, segments_following(segments, number), ordered, seen, evidence)
            except KdumpError as error:
                seen.skip()
                if folder is not None and has_gone(segment, error):
                    ordered.skip_segment()
                elif error.code in FOUND_CODES:
                    yield Finding(error.code, error.message, 0, path=segment)
                else:
                    yield error.located(segment)
        if ordered.misses_offsets and _is_cleaned_now(directory, watch):
            ordered.note_cleaned()
        is_whole = folder is not None or not _later_segments(segments[-1])
        for finding in ordered.finish():
            # A transaction that is open at the end of one segment may end in the next.
            is_open = finding.code is Codes.TRANSACTION_OPEN and not is_whole
            yield replace(finding, graded=Severity.INFO) if is_open else finding
        if beside is not None and evidence is not None:
            if seen.is_known:
                yield from _already_lost(beside.directory, segments[-1], evidence, seen, watch)
            yield from _check_files(beside, segments[-1], seen, watch)
        if folder is not None and topic == CLUSTER_METADATA:
            yield from _metadata_findings(folder)
        first_base, last_base = base_offset_of(segments[0]), base_offset_of(segments[-1])
        if first_base is not None and last_base is not None and seen.is_end_known and not exchanged:
            yield PartitionExtent(first_base, max(seen.end_offset or 0, last_base), last_base, seen.reached)

    def _read_here(self, source: Source, following: NextSegment) -> SeenSegment:
        return SegmentReading(source, following, self._options)

    def _segment(
        self,
        path: str,
        following: Sequence[str],
        ordered: OrderedChecks,
        seen: PartitionSummary,
        evidence: PartitionEvidence | None,
    ) -> Iterator[Item]:
        counts = dict.fromkeys(Severity, 0)
        base_offset = base_offset_of(path)
        gaps: list[tuple[int, int]] = []
        recovery = None
        is_foreign = False
        tail: list[Finding] = []
        with ExitStack() as opened:
            log = _OpenLog(
                opened,
                lambda: _open_with_files(path),
                lambda source: self._read(source, next_segment_of(path, following)),
                is_newest=not following and path != STDIN,
            )
            for finding in check_segment(log, base_offset, log.source.path, ordered):
                if finding.path in (None, path) and finding.length is not None:
                    start = gaps.pop()[0] if gaps and gaps[-1][1] == finding.position else finding.position
                    gaps.append((start, finding.position + finding.length))
                is_foreign |= finding.code is Codes.FOREIGN_FILE
                one = counted(finding, path, counts)
                if not following and log.source.size is not None and _is_after(one, log.rows.sound_size, path):
                    # What is lost there is known when all of the log is.
                    tail.append(one)
                else:
                    yield one
            source, size, rows = log.source, log.source.size, log.rows
            if counts[Severity.ERROR] and size is not None and base_offset is not None and not is_foreign:
                recovery = _recovered(source, path, base_offset)
            seen.add(path, rows, base_offset, is_foreign=is_foreign)
            if tail and base_offset is not None:
                seen.tail_end = rows.tail_end(source, base_offset)
            # Nothing can be compared with a file of another type.
            if size and base_offset is not None and log.beside is not None and not is_foreign:
                next_base = base_offset_of(following[0]) if following else None
                seen.last_log = rows.log_view(base_offset, size, gaps, next_base)
                if tail:
                    evidence = evidence or PartitionEvidence.of_directory(files.directory_of(path))
                    yield from seen.tail_findings(tail, evidence)
                    tail = []
                for finding in _check_beside(log, seen.last_log, ordered, is_closed=bool(following)):
                    seen.is_indexed_later |= finding.code is Codes.INDEX_BEYOND_LOG
                    yield counted(finding, path, counts)
            yield from tail
        first, last = rows.first_offset, rows.last_offset
        yield SegmentSummary(path, size, rows.count, first, last, counts, recovery, rows.times)


def _open_with_files(path: str) -> tuple[Source, SegmentFiles | None]:
    """A log and the files beside it, all of one version, even while a broker cleans or deletes segments.

    Kafka renames the log first, both where it deletes a segment and where it puts a cleaned one in its place.
    """
    has_siblings = path != STDIN and path.endswith(Kind.LOG.value) and base_offset_of(path) is not None
    for is_last in (*(False,) * _MOST_SWAPS, True):
        try:
            source = open_source(path)
        except KdumpError as error:
            if is_last or error.code is not Codes.MISSING or not _comes_back(path):
                raise
        else:
            # An empty log is clean whatever its index files hold: they may be preallocated, some megabytes each.
            beside = SegmentFiles(path) if has_siblings and source.size else None
            if is_last or beside is None or not (source.is_replaced or beside.are_being_swapped):
                return source, beside
            source.close()
        time.sleep(_SWAP_SECONDS)
    raise AssertionError("the last round returns or raises")


def _recovered(source: Source, path: str, base_offset: int) -> Recovery:
    """What a broker's recovery makes of a log."""
    # Most logs need none of these modules.
    from kdump.kafka.producers import ProducerStates
    from kdump.kafka.recover import recover

    recovery = recover(source, base_offset, ProducerStates.from_snapshot(read_snapshot(path)))
    # A summary goes from worker to driver. Nobody asks there for the index files.
    return replace(recovery, indexes=None)


def _comes_back(path: str) -> bool:
    """Whether the log cleaner puts a log in the place of one that was missing a moment ago, or has just done so."""
    # The cleaned log has one of the two names at any time. It changes from the first to the second.
    return files.exists(path + SWAP_STATE) or os.path.isfile(path)


class _OpenLog:
    """A log, the files beside it (None: it can have none), and what is read of it: see ``SeenSegment``.

    What comes before the first error, warning or damaged batch stands as it is read. What follows is kept until all is
    read: if the log has changed meanwhile, it is read again from there on (see ``verify.settling``).

    Args:
        opened: closes the log.
        open_files: opens the log, and gives it with the files beside it.
        read: reads it.
        is_newest: no segment follows, so a broker may append to it.

    ``rows``: those of the log as it was read last.
    """

    def __init__(
        self,
        opened: ExitStack,
        open_files: Callable[[], tuple[Source, SegmentFiles | None]],
        read: Callable[[Source], SeenSegment],
        *,
        is_newest: bool,
    ) -> None:
        self._opened, self._open_files, self._read = opened, open_files, read
        self._is_newest = is_newest
        self._open()

    def _open(self) -> None:
        self._opened.close()
        self.source, self.beside = self._open_files()
        self._opened.callback(self.source.close)
        self._seen = self._read(self.source)
        self.rows = BatchTable(self._named)

    def _named(self) -> NamedPlaces:
        return named_places(b"", b"", 0) if self.beside is None else self.beside.named()

    @property
    def ends_in_gap(self) -> bool:
        """See SeenSegment."""
        return self._seen.ends_in_gap

    def items(self) -> Iterator[Finding | Rows]:
        """See SeenSegment."""
        held: list[Finding | Rows] = []
        position = 0
        is_settled = True
        for item in self._items():
            held.append(item)
            # A stream cannot be read again.
            is_settled &= self.source.size is None or not _tells_of_damage(item)
            if is_settled and not isinstance(item, Finding) and item.size:
                yield from held
                held, position = [], int(item["position"][-1] + item["size"][-1])
        first = [held]
        found, undecided = settled(
            lambda: first.pop() if first else self._again(position),
            lambda items: serious_of(item for item in items if isinstance(item, Finding)),
            lambda _: self.source.has_changed,
        )
        for item in found:
            yield graded(item, undecided) if isinstance(item, Finding) else item

    def _again(self, position: int) -> list[Finding | Rows]:
        """The items from a position on, of the log as it is now."""
        self._open()
        return list(self._items(position))

    def _items(self, position: int = 0) -> Iterator[Finding | Rows]:
        """Findings as they are reported, and rows; both from a position on."""
        items = self._noted(position)
        if self.source.size is None:
            return items
        return _within_limit(_while_live(self.source.path, items) if self._is_newest else items)

    def _noted(self, position: int) -> Iterator[Finding | Rows]:
        for item in self._seen.items():
            if not isinstance(item, Finding):
                self.rows.add(item)
                yield item[item["position"].searchsorted(position) :]
            elif item.position >= position:
                yield item


def _tells_of_damage(item: Finding | Rows) -> bool:
    return item.severity is not Severity.INFO if isinstance(item, Finding) else not item["is_valid"].all()


def _check_beside(opened: _OpenLog, log: IndexedLog, ordered: OrderedChecks, *, is_closed: bool) -> Iterator[Finding]:
    """Check the files beside a log until it is clear what is wrong with them."""
    source = opened.source
    rounds = count()

    def check() -> Iterator[Finding]:
        beside, current = opened.beside, log
        if next(rounds):
            beside = SegmentFiles(source.path)
            if source.is_replaced:
                # The segment that was read is gone, and these files belong to another one.
                return
            rows = read_table(source, beside.named)
            current = rows.log_view(log.base_offset, log.size, log.gaps, log.next_base)
        assert beside is not None
        yield from check_segment_files(
            beside,
            current,
            is_closed=is_closed,
            aborted=ordered.aborted,
            begun_before=ordered.begun_before,
            idle_aborts=ordered.idle_aborts,
            is_compacted=ordered.is_compacted,
        )

    return iter(settled_findings(check, lambda: source.has_changed or is_being_written(source.path)))


def _metadata_findings(directory: str) -> Iterator[Judgement]:
    from kdump.verify.metadatalog import check_metadata_log  # only this topic needs it

    try:
        yield from check_metadata_log(directory)
    except KdumpError as error:
        yield error.located(directory)


def _already_lost(
    folder: str, newest: str, evidence: PartitionEvidence, seen: PartitionSummary, watch: Watch
) -> Iterator[Finding]:
    """Find what the log once had. A running broker writes the first leader epoch shortly after it removed a segment."""
    rounds = count()

    def check() -> Iterator[Finding]:
        current = evidence
        if next(rounds):
            current = PartitionEvidence.of_directory(folder)
            seen.reach(end_offset_of(list(log_paths([PathDirectory(folder)]))))
        if not _later_segments(newest):
            yield from seen.already_lost(current)

    def is_changing() -> bool:
        return watch.has_changed or is_held(os.path.dirname(files.directory_of(newest)))

    return iter(settled_findings(check, is_changing))


def _check_files(beside: PartitionListing, newest: str, seen: PartitionSummary, watch: Watch) -> Iterator[Finding]:
    """Check the files of a partition that belong to no segment; while they change, against the log as it is now."""
    folder = beside.directory
    rounds = count()

    def check() -> Iterator[Finding]:
        current = beside
        if next(rounds):
            current = PartitionListing(folder)
            seen.reach(end_offset_of(list(log_paths([PathDirectory(folder)]))))
        return check_partition_files(current, seen.summary())

    def is_changing() -> bool:
        # The segments may have been listed long ago.
        return watch.has_changed or bool(segments_after(newest)) or is_being_written(newest)

    return iter(settled_findings(check, is_changing))


def _is_cleaned_now(directory: str, watch: Watch) -> bool:
    """Whether the log cleaner of a running broker works on a partition. It leaves a trace shortly after it is done."""
    if not (watch.has_changed or is_held(os.path.dirname(directory))):
        return False
    if not is_cleaned_now(directory):
        time.sleep(PAUSE_SECONDS)
    return is_cleaned_now(directory)


def _swapped_items(path: str, other: str) -> Iterator[Item]:
    """The summary of one of two logs that were exchanged; with the finding at the first of them."""
    counts = dict.fromkeys(Severity, 0)
    counts[Severity.ERROR] = 1
    if (base_offset_of(path) or 0) < (base_offset_of(other) or 0):
        yield swapped_finding(path, other)
    yield SegmentSummary(path, files.size(path), None, None, None, counts, None)


def segments_following(segments: Sequence[str], number: int) -> Sequence[str]:
    """The segment after number ``number``, if there is one: of those that are checked together, or in its directory."""
    return segments[number + 1 : number + 2] or _later_segments(segments[number])[:1]


def next_segment_of(path: str, following: Sequence[str]) -> NextSegment:
    """How a broker finds its way past damage in the log ``path``; ``following``: the one after it."""
    next_base = base_offset_of(following[0]) if following else None
    return NextSegment(next_base, path)


def counted(finding: Finding, path: str, counts: dict[Severity, int]) -> Finding:
    """Count a finding; returns it with its file's path."""
    counts[finding.severity] += 1
    return finding if finding.path is not None else replace(finding, path=path)


def _while_live(path: str, items: Iterable[Finding | Rows]) -> Iterator[Finding | Rows]:
    """The items of a newest log. A torn tail is information: normal in the log that a running broker appends to."""
    for item in items:
        if isinstance(item, Finding) and _is_torn(item) and is_held(os.path.dirname(files.directory_of(path))):
            yield replace(item, graded=Severity.INFO)
        else:
            yield item


def _within_limit(items: Iterable[Finding | Rows]) -> Iterator[Finding | Rows]:
    """The items of a log, as many findings as kdump keeps, and one that counts the others."""
    left, others = most(FINDINGS), Counter[Severity]()
    for item in items:
        if isinstance(item, Finding):
            left -= 1
            if left < 0:
                others[item.severity] += 1
                continue
        yield item
    if others:
        told = ", ".join(
            f"{others[severity]:,} of severity {severity.value}" for severity in Severity if others[severity]
        )
        graded = Severity.ERROR if others[Severity.ERROR] else None
        yield Finding(Codes.LEFT_OUT, f"further findings are left out: {told}; {hint(FINDINGS)}", 0, graded=graded)


def _is_after(finding: Finding, position: int, path: str) -> bool:
    """Whether it is damage at ``position`` or later in a log, and no append of a running broker."""
    is_damage = finding.length is not None and finding.severity is not Severity.INFO
    return is_damage and finding.path == path and finding.position >= position


def _is_torn(finding: Finding) -> bool:
    return finding.code in _TORN_TAIL and finding.continue_at is None


def end_offset_of(segments: Sequence[str]) -> int | None:
    """The end offset of the segments of a partition, from the last one that has batches.

    None if their names have no offsets, and without segments: a broker may have deleted them meanwhile.
    """
    if not segments:
        return None
    first_base, last_base = base_offset_of(segments[0]), base_offset_of(segments[-1])
    if first_base is None or last_base is None:
        return None
    for path in reversed(segments):
        end = _sound_end(path)
        if end is not None:
            return max(last_base, end)
    return last_base


def _sound_end(path: str) -> int | None:
    """After the last sound batch of a log; None without one."""
    table = BatchTable()
    with suppress(KdumpError), open_source(path) as source:
        for item in SegmentReading(source, options=_QUICK).items():
            if not isinstance(item, Finding):
                table.add(item)
    return table.end_offset


def base_offset_of(path: str) -> int | None:
    """The base offset in the name of a file; None without one."""
    name = None if path == STDIN else parse_file_name(path)
    return None if name is None else name.base_offset


def _later_segments(path: str) -> list[str]:
    """The segments after a single file in its directory."""
    name = None if path == STDIN else parse_file_name(path)
    return segments_after(path) if name is not None and not name.state else []


def _ending_beside(directory: str) -> EndingOf:
    """``ending_beside``, whose modules take their time: few partitions ask."""
    known: list[EndingOf] = []

    def ending(producer_id: int, epoch: int) -> CoordinatorAnswer:
        if not known:
            from kdump.verify.transactioncoordinator import ending_beside

            known.append(ending_beside(directory))
        return known[0](producer_id, epoch)

    return ending
