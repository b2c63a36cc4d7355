"""The segments of one partition, checked together: the walk over their logs, what lies beside them, what they come to.

Every segment is looked at once, past damage (here, or elsewhere before, in stretches); its siblings are compared with
what was seen. Findings come as they are made, behind each segment its summary.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import Final, NamedTuple, TypeAlias

from kdump.codes import HOSTILE_CODES, Codes, Finding, KdumpError, Severity
from kdump.kafka.producers import ProducerStates
from kdump.kafka.recover import recover
from kdump.log import files
from kdump.log.lock import is_held
from kdump.log.named import STDIN
from kdump.log.names import INDEX_KINDS, SWAP_STATE, Kind, parse_file_name, parse_partition_directory
from kdump.log.offsetindex import rising_entries
from kdump.log.opening import open_source
from kdump.log.partition import has_gone, segment_files, segments_after
from kdump.log.siblings import is_cleaned_now, read_snapshot, was_cleaned
from kdump.log.source import Source
from kdump.verify.batchtable import BatchTable
from kdump.verify.gaps import NextSegment
from kdump.verify.indexes import IndexedLog
from kdump.verify.logdir import PartitionExtent
from kdump.verify.ordered import OrderedChecks
from kdump.verify.reach import AlreadyLost, LastSegment, PartitionEvidence, SegmentReach
from kdump.verify.segment import CheckOptions, Rows, SeenSegment, SegmentReading, check_segment
from kdump.verify.settling import (
    PAUSE_SECONDS,
    Key,
    Watch,
    graded,
    is_being_written,
    serious_of,
    settled,
    settled_findings,
)
from kdump.verify.siblings import (
    EpochRange,
    LogSummary,
    SegmentFiles,
    check_partition_files,
    check_segment_files,
)
from kdump.verify.summary import SegmentSummary
from kdump.verify.swapped import exchanged_logs, swapped_finding
from kdump.verify.transactionalids import transactional_id

_COORDINATOR_TOPICS: Final = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
_TORN_TAIL: Final = frozenset({Codes.TRUNCATED, Codes.HEADER_CUT})

_QUICK: Final = CheckOptions(deep=False)
_MOST_SWAPS: Final = 50
_SWAP_SECONDS: Final = 0.02
"""A broker renames the files of a segment within milliseconds; it may be slow, or have died amid that."""

Item: TypeAlias = Finding | SegmentSummary
Judgement: TypeAlias = Item | KdumpError | PartitionExtent
"""What is said of the segments of a partition. Last comes what they cover, where their names and contents tell."""
Looker: TypeAlias = Callable[[Source, NextSegment], SeenSegment]


class PartitionCheck:
    """Checks partitions, one after the other.

    Args:
        options: how deep.
        opened: opens a log; to be replaced where reading is to be watched.
        look: looks at a log; None: here and now.
    """

    def __init__(
        self,
        options: CheckOptions | None = None,
        *,
        opened: Callable[[str], Source] = open_source,
        look: Looker | None = None,
    ) -> None:
        self._options = options or CheckOptions()
        self._open = opened
        self._look: Looker = look or (lambda source, behind: SegmentReading(source, behind, self._options))

    def segments(self, segments: Sequence[str], folder: str | None) -> Iterator[Judgement]:
        """Check the segments of one partition.

        A segment that cannot be read is an error among the items. One that must not be read, because it may be there
        to do harm, is a finding.

        Args:
            segments: in offset order.
            folder: the directory, when they are all of its segments; its other files are checked too.
        """
        directory = files.directory_of(segments[0])
        watch = Watch(directory, segments[-1])
        topic, _ = parse_partition_directory(os.path.basename(directory)) or ("", 0)
        ordered = OrderedChecks(
            is_compacted=was_cleaned(directory) or None,
            producers=read_snapshot(segments[0]),
            is_coordinator=topic in _COORDINATOR_TOPICS,
            transactional_id=partial(transactional_id, os.path.dirname(directory)),
        )
        # Read before the logs, which may grow.
        evidence = None if folder is None else PartitionEvidence.of_directory(folder)
        seen = _PartitionSummary()
        exchanged = exchanged_logs(segments)
        seen.are_exchanged = bool(exchanged)
        for number, segment in enumerate(segments):
            if segment in exchanged:
                ordered.skip_segment()
                seen.skip()
                yield from _swapped_items(segment, exchanged[segment])
                continue
            try:
                yield from self._segment(segment, segments_following(segments, number), ordered, seen)
            except KdumpError as error:
                seen.skip()
                if folder is not None and has_gone(segment, error):
                    ordered.skip_segment()
                elif error.code in HOSTILE_CODES:
                    yield Finding(error.code, error.message, 0, path=segment)
                else:
                    yield error.located(segment)
        if ordered.misses_offsets and _is_cleaned_now(directory, watch):
            ordered.note_cleaned()
        is_whole = folder is not None or not _behind(segments[-1])
        for finding in ordered.finish():
            # What is open at the end of one segment of several may be closed in the next.
            is_open = finding.code is Codes.TRANSACTION_OPEN and not is_whole
            yield replace(finding, graded=Severity.INFO) if is_open else finding
        if folder is not None and evidence is not None:
            if seen.is_known:
                yield from _already_lost(folder, segments[-1], evidence, seen, watch)
            yield from _check_files(folder, segments[-1], seen, watch)
        first_base, last_base = base_offset_of(segments[0]), base_offset_of(segments[-1])
        if first_base is not None and last_base is not None and seen.is_end_known and not exchanged:
            yield PartitionExtent(first_base, max(seen.end_offset or 0, last_base), last_base, seen.reached)

    def _segment(
        self, path: str, behind: Sequence[str], ordered: OrderedChecks, seen: _PartitionSummary
    ) -> Iterator[Item]:
        counts = dict.fromkeys(Severity, 0)
        base_offset = base_offset_of(path)
        rows = BatchTable()
        holes: list[tuple[int, int]] = []
        recovery = None
        is_foreign = False
        with ExitStack() as opened:
            reading, undecided = self._settled(path, behind, opened)
            source, size = reading.source, reading.source.size
            for finding in check_segment(reading.look, base_offset, source.path, ordered, on_rows=rows.add):
                if finding.path in (None, path) and finding.length is not None:
                    holes.append((finding.position, finding.position + finding.length))
                is_foreign |= finding.code is Codes.FOREIGN_FILE
                yield counted(graded(finding, undecided), path, counts)
            if counts[Severity.ERROR] and size is not None and base_offset is not None and not is_foreign:
                producers = ProducerStates.from_snapshot(read_snapshot(path))
                recovery = recover(source, base_offset, producers, want_indexes=False)
            seen.add(path, rows, base_offset, is_foreign=is_foreign)
            # With a file of another type nothing can be compared.
            if size and base_offset is not None and reading.beside is not None and not is_foreign:
                next_base = base_offset_of(behind[0]) if behind else None
                log = seen.last_log = rows.log_view(base_offset, size, holes, next_base)
                for finding in _check_beside(reading, log, ordered, is_closed=bool(behind)):
                    seen.is_indexed_later |= finding.code is Codes.INDEX_BEYOND_LOG
                    yield counted(finding, path, counts)
        yield SegmentSummary(path, size, rows.count, rows.first_offset, rows.last_offset, counts, recovery)

    def _settled(self, path: str, behind: Sequence[str], opened: ExitStack) -> tuple[_Reading, Set[Key]]:
        """A log as it was looked at, and what of that cannot be decided."""

        def look() -> _Reading:
            opened.close()
            source, beside = self._open_with_files(path)
            opened.callback(source.close)
            seen = self._look(source, next_segment_of(path, behind))
            if source.size is None:
                # Of a stream findings are told as they come: there is no second look.
                return _Reading(source, beside, seen, ())
            items = tuple(seen.items())
            is_live = not behind and path != STDIN and is_held(os.path.dirname(files.directory_of(path)))
            if is_live:
                items = tuple(_while_live(item) if isinstance(item, Finding) else item for item in items)
            return _Reading(source, beside, _Seen(items, seen.ends_in_gap), items)

        return settled(look, _Reading.serious, lambda reading: reading.source.has_changed)

    def _open_with_files(self, path: str) -> tuple[Source, SegmentFiles | None]:
        """A log and the files beside it, all of one version: the log cleaner and retention may be at them.

        Kafka renames the log first, both where it deletes a segment and where it puts a cleaned one in its place.
        """
        has_siblings = path != STDIN and path.endswith(Kind.LOG.value) and base_offset_of(path) is not None
        for is_last in (*(False,) * _MOST_SWAPS, True):
            try:
                source = self._open(path)
            except KdumpError as error:
                if is_last or error.code is not Codes.MISSING or not files.exists(path + SWAP_STATE):
                    raise
            else:
                # An empty log is clean, whatever lies beside it: preallocated files of some megabytes.
                beside = SegmentFiles(path) if has_siblings and source.size else None
                if is_last or beside is None or not (source.is_replaced or beside.are_being_swapped):
                    return source, beside
                source.close()
            time.sleep(_SWAP_SECONDS)
        raise AssertionError("the last round returns or raises")


@dataclass(frozen=True, slots=True)
class _Seen:
    """A look that is over; see ``verify.segment.Look``."""

    found: tuple[Finding | Rows, ...]
    ends_in_gap: bool

    def items(self) -> Iterator[Finding | Rows]:
        """See Look."""
        return iter(self.found)


class _Reading(NamedTuple):
    """A log that is open, the files beside it (None: it can have none), the look at it and what that saw by now."""

    source: Source
    beside: SegmentFiles | None
    look: SeenSegment
    items: tuple[Finding | Rows, ...]

    def serious(self) -> Set[Key]:
        """Of the findings by now."""
        return serious_of(item for item in self.items if isinstance(item, Finding))


def _check_beside(reading: _Reading, log: IndexedLog, ordered: OrderedChecks, *, is_closed: bool) -> Iterator[Finding]:
    """The files beside a log, until it is clear what is wrong with them."""
    path = reading.source.path
    beside = reading.beside

    def look() -> Iterator[Finding]:
        nonlocal beside
        if beside is None:
            beside = SegmentFiles(path)
            if reading.source.is_replaced:
                # The segment that was looked at is gone, and these belong to another one.
                return
        known, beside = beside, None
        yield from check_segment_files(
            known,
            log,
            is_closed=is_closed,
            aborted=ordered.aborted,
            begun_before=ordered.begun_before,
            idle_aborts=ordered.idle_aborts,
            is_compacted=ordered.is_compacted,
        )

    return iter(settled_findings(look, lambda: reading.source.has_changed or is_being_written(path)))


def _already_lost(
    folder: str, newest: str, evidence: PartitionEvidence, seen: _PartitionSummary, watch: Watch
) -> Iterator[Finding]:
    """What the log had once; a running broker writes the first leader epoch a little after it removed a segment."""
    rounds = count()

    def look() -> Iterator[Finding]:
        current = evidence
        if next(rounds):
            current = PartitionEvidence.of_directory(folder)
            seen.reach(end_offset_of(list(segment_files(folder, lambda error: None))))
        if not _behind(newest):
            yield from seen.already_lost(current)

    def is_changing() -> bool:
        return watch.has_changed or is_held(os.path.dirname(files.directory_of(newest)))

    return iter(settled_findings(look, is_changing))


def _check_files(folder: str, newest: str, seen: _PartitionSummary, watch: Watch) -> Iterator[Finding]:
    """The files of a partition that belong to no segment, against the log as it was seen, and if need be as it is."""
    rounds = count()

    def summarize() -> LogSummary:
        if next(rounds):
            seen.reach(end_offset_of(list(segment_files(folder, lambda error: None))))
        return seen.summary()

    def is_changing() -> bool:
        # The segments may have been listed long before.
        return watch.has_changed or bool(segments_after(newest)) or is_being_written(newest)

    return iter(settled_findings(lambda: check_partition_files(folder, summarize), is_changing))


def _is_cleaned_now(directory: str, watch: Watch) -> bool:
    """The log cleaner of a running broker is at work on a partition; it tells a little after it is done."""
    if not (watch.has_changed or is_held(os.path.dirname(directory))):
        return False
    if not is_cleaned_now(directory):
        time.sleep(PAUSE_SECONDS)
    return is_cleaned_now(directory)


class _PartitionSummary:
    """What the segments of a partition come to."""

    def __init__(self) -> None:
        self._epochs: list[EpochRange] = []
        self._segments: list[tuple[str, SegmentReach]] = []
        self.is_known = True
        """Every segment could be read, as a log of the offsets in its name."""
        self.is_end_known = True
        """The last segment is a log; of a file of another type nobody knows which offsets are in it."""
        self.are_exchanged = False
        """Two logs have each other's names: nothing beside them fits."""
        self.end_offset: int | None = None
        self.reached: int | None = None
        """The end offset that the log once had, as far as that was asked for."""
        self.last_log: IndexedLog | None = None
        """The batches of the segment added last; None for an empty one."""
        self.is_indexed_later = False
        """An index of it names offsets after its end."""
        self._was_cleaned: Callable[[], bool] = lambda: False
        """The log cleaner has been in the last segment that is not empty."""

    def skip(self) -> None:
        """The next segment is not added."""
        self.is_known = False

    def add(self, path: str, rows: BatchTable, base_offset: int | None, *, is_foreign: bool) -> None:
        """The next segment; one without batches reaches up to its base offset."""
        self.is_end_known = not is_foreign
        self.is_known &= not is_foreign
        self._epochs += rows.epochs()
        last = (base_offset or 0) - 1 if rows.last_offset is None else rows.last_offset
        self.end_offset = end = max(self.end_offset or 0, last + 1)
        if base_offset is not None:
            self._segments.append((path, SegmentReach(base_offset, rows.count == 0, lambda: end)))
        self.last_log = None
        if rows.count:
            self._was_cleaned = partial(rows.was_cleaned, base_offset or 0)
        self.is_indexed_later = False

    def already_lost(self, evidence: PartitionEvidence) -> Iterator[Finding]:
        """What the logs had once; found out once all segments are added."""
        last = self.last_log
        kinds = INDEX_KINDS if self.is_indexed_later else (Kind.TXN_INDEX,)
        last_segment = LastSegment(self._was_cleaned, lambda: () if last is None else evidence.index_ends(last, kinds))
        segments = [segment for _, segment in self._segments]
        segments[-1:] = [segment._replace(end_offset=lambda: self.end_offset or 0) for segment in segments[-1:]]
        found = evidence.already_lost(segments, last_segment)
        self.reached = max([self.end_offset or 0, *(lost.last_offset + 1 for lost in found)])
        for lost in found:
            later = [path for path, segment in self._segments if segment.base_offset > lost.last_offset]
            path = later[0] if later else self._segments[-1][0]
            yield already_lost_finding(lost, path)

    def reach(self, end_offset: int | None) -> None:
        """The log has got at least so far since."""
        if end_offset is not None:
            self.end_offset = max(self.end_offset or 0, end_offset)

    def summary(self) -> LogSummary:
        """What the files of the directory are compared with."""
        if self.are_exchanged:
            return LogSummary(None)
        if not self.is_end_known:
            return LogSummary(None, self._epochs)
        return LogSummary(self.end_offset, self._epochs, self.reached)


def already_lost_finding(lost: AlreadyLost, path: str) -> Finding:
    """What is lost, at the segment that follows it, or after which it was."""
    return Finding(
        Codes.ALREADY_LOST,
        f"already lost: {lost}",
        0,
        first_offset=lost.first_offset,
        last_offset=lost.last_offset,
        path=path,
    )


def _swapped_items(path: str, other: str) -> Iterator[Item]:
    """Of two logs that were exchanged: the finding at the first of them, and the summary of each."""
    counts = dict.fromkeys(Severity, 0)
    counts[Severity.ERROR] = 1
    if (base_offset_of(path) or 0) < (base_offset_of(other) or 0):
        yield swapped_finding(path, other)
    yield SegmentSummary(path, files.size(path), None, None, None, counts, None)


def segments_following(segments: Sequence[str], number: int) -> Sequence[str]:
    """The segments behind one of those that are checked together; behind the last one, what lies beside it."""
    return segments[number + 1 :] or _behind(segments[number])


def next_segment_of(path: str, following: Sequence[str]) -> NextSegment:
    """What a broker has to find its way behind damage in the log ``path``; ``following``: the segments behind it."""
    next_base = base_offset_of(following[0]) if following else None
    return NextSegment(rising_entries(path, base_offset_of(path)), next_base)


def counted(finding: Finding, path: str, counts: dict[Severity, int]) -> Finding:
    """The finding with its file's path, counted."""
    counts[finding.severity] += 1
    return finding if finding.path is not None else replace(finding, path=path)


def _while_live(finding: Finding) -> Finding:
    """A torn tail of the segment that a running broker writes to is normal."""
    is_torn = finding.code in _TORN_TAIL and finding.continue_at is None
    return replace(finding, graded=Severity.INFO) if is_torn else finding


def end_offset_of(segments: Sequence[str]) -> int | None:
    """Behind the last record of the segments of a partition, by a look at the last one that has batches.

    None where their names have no offsets, and where there are none: a broker may have deleted them meanwhile.
    """
    if not segments:
        return None
    first_base, last_base = base_offset_of(segments[0]), base_offset_of(segments[-1])
    if first_base is None or last_base is None:
        return None
    for path in reversed(segments):
        last = _last_offset(path)
        if last is not None:
            return max(last_base, last + 1)
    return last_base


def _last_offset(path: str) -> int | None:
    table = BatchTable()
    with suppress(KdumpError), open_source(path) as source:
        for item in SegmentReading(source, options=_QUICK).items():
            if not isinstance(item, Finding):
                table.add(item)
    return table.last_offset


def base_offset_of(path: str) -> int | None:
    """The one in the file's name."""
    name = None if path == STDIN else parse_file_name(path)
    return None if name is None else name.base_offset


def _behind(path: str) -> list[str]:
    """The segments behind a single file, where it lies among others."""
    name = None if path == STDIN else parse_file_name(path)
    return segments_after(path) if name is not None and not name.state else []
