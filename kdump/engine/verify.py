"""``kdump verify`` in this process: segments, partition directories, log directories, streams.

Every segment is walked once, past damage, with the checks of ``kdump.checks``; its siblings are compared with what the
walk saw. Findings come as they are made, behind each segment its summary.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import replace
from typing import Final

from kdump.checks.batchtable import BatchTable
from kdump.checks.holes import Behind
from kdump.checks.logdir import PartitionExtent, check_log_directory
from kdump.checks.ordered import OrderedChecks
from kdump.checks.segment import CheckOptions, check_segment
from kdump.checks.siblings import (
    EpochRange,
    LogSummary,
    check_names,
    check_partition_files,
    check_segment_files,
    check_snapshot,
    check_txn_index,
)
from kdump.checks.summary import SegmentSummary
from kdump.codes import Codes, Finding, KdumpError, Severity
from kdump.kafka.producers import ProducerStates
from kdump.kafka.recover import recover
from kdump.log.lock import is_held
from kdump.log.names import Kind, parse_file_name, parse_partition_directory, sibling
from kdump.log.partition import segment_files, segments_behind
from kdump.log.siblings import read_offset_index, read_snapshot
from kdump.log.source import STDIN, Source, open_source, read_whole, reads_once

_COORDINATOR_TOPICS: Final = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
_TORN_TAIL: Final = frozenset({Codes.TRUNCATED, Codes.HEADER_CUT})


Item = Finding | SegmentSummary


class Verification:
    """One run over any number of paths.

    Args:
        options: how deep.
        opened: opens a log; to be replaced where reading is to be watched.
        on_error: takes what is wrong with one partition of several; None: the first one is raised behind the others.
    """

    def __init__(
        self,
        options: CheckOptions | None = None,
        *,
        opened: Callable[[str], Source] = open_source,
        on_error: Callable[[KdumpError], None] | None = None,
    ) -> None:
        self._options = options or CheckOptions()
        self._open = opened
        self._on_error = on_error
        self._failed: list[KdumpError] = []

    def path(self, path: str) -> Iterator[Item]:
        """Check what one PATH stands for.

        Raises:
            KdumpError: MISSING, UNREADABLE, NO_SEGMENTS or NOT_A_SEGMENT_FILE.
        """
        self._failed.clear()
        if os.path.isdir(path):
            yield from self._directory(path)
            return
        is_stream = path == STDIN or reads_once(path)
        name = None if is_stream else parse_file_name(path)
        if name is None and not is_stream:
            code = Codes.NOT_A_SEGMENT_FILE if os.path.lexists(path) else Codes.MISSING
            raise KdumpError(code, code.value.title, path=path)
        if name is not None and name.kind not in (Kind.LOG, Kind.CHECKPOINT):
            # A sibling is checked with its log; opened here, so that its own absence is not taken for the log's.
            open_source(path).close()
            log = sibling(path, Kind.LOG)
            if name.kind is Kind.SNAPSHOT or not os.path.exists(log):
                yield from self._alone(path, name.kind)
                return
            path = log
        if name is not None and name.kind is Kind.LOG:
            for finding in check_names([os.path.basename(path)]):
                yield replace(finding, path=path)
        yield from self._segments([path], None)

    def _directory(self, directory: str) -> Iterator[Item]:
        errors: list[KdumpError] = []
        partitions: dict[str, list[str]] = {}
        for segment in segment_files(directory, errors.append):
            partitions.setdefault(os.path.dirname(segment), []).append(segment)
        if not partitions and any(segment_files(directory, lambda error: None, all_files=True)):
            # Its logs are gone, and what belongs to them is not.
            errors = [error for error in errors if error.code is not Codes.NO_SEGMENTS]
            yield from check_partition_files(directory, LogSummary(None))
        extents: dict[tuple[str, int], PartitionExtent | None] = {}
        for folder, segments in partitions.items():
            extent = yield from self._segments(segments, folder)
            name = parse_partition_directory(os.path.basename(folder))
            if name is not None and folder != directory:
                extents[name] = extent
        if extents:
            yield from check_log_directory(directory, extents)
        for error in errors:
            self._fail(error)
        if self._failed:
            raise self._failed[0]

    def _fail(self, error: KdumpError) -> None:
        """Tell, or keep for the end: the others are still looked at."""
        if self._on_error is None:
            self._failed.append(error)
        else:
            self._on_error(error)

    def _segments(self, segments: list[str], folder: str | None) -> Generator[Item, None, PartitionExtent | None]:
        """Segments of one partition in order; ``folder``: all of its directory. Returns what they cover."""
        directory = os.path.dirname(os.path.abspath(segments[0]))
        topic, _ = parse_partition_directory(os.path.basename(directory)) or ("", 0)
        ordered = OrderedChecks(producers=read_snapshot(segments[0]), is_coordinator=topic in _COORDINATOR_TOPICS)
        seen = _Partition()
        for number, segment in enumerate(segments):
            behind = segments[number + 1 :] or _behind(segment)
            try:
                yield from self._segment(segment, behind, ordered, seen)
            except KdumpError as error:
                if folder is None:
                    raise
                self._fail(error.located(segment))
        is_whole = folder is not None or not _behind(segments[-1])
        for finding in ordered.finish():
            # What is open at the end of one segment of several may be closed in the next.
            is_open = finding.code is Codes.TRANSACTION_OPEN and not is_whole
            yield replace(finding, graded=Severity.INFO) if is_open else finding
        if folder is not None:
            yield from check_partition_files(folder, seen.summary())
        first_base, last_base = _base_offset(segments[0]), _base_offset(segments[-1])
        if first_base is None or last_base is None:
            return None
        return PartitionExtent(first_base, max(seen.end_offset or 0, last_base), last_base)

    def _segment(self, path: str, behind: list[str], ordered: OrderedChecks, seen: _Partition) -> Iterator[Item]:
        counts = dict.fromkeys(Severity, 0)
        base_offset = _base_offset(path)
        log_directory = os.path.dirname(os.path.dirname(os.path.abspath(path)))
        is_live = not behind and path != STDIN and is_held(log_directory)
        rows = BatchTable()
        holes: list[tuple[int, int]] = []
        found_behind = Behind(read_offset_index(path, base_offset), _base_offset(behind[0]) if behind else None)
        recovery = None
        with self._open(path) as source:
            for finding in check_segment(
                source, base_offset, ordered, behind=found_behind, options=self._options, on_rows=rows.add
            ):
                if finding.path in (None, path) and finding.length is not None:
                    holes.append((finding.position, finding.position + finding.length))
                yield _counted(_while_live(finding, is_live), path, counts)
            size = source.size
            if counts[Severity.ERROR] and size is not None and base_offset is not None:
                producers = ProducerStates.from_snapshot(read_snapshot(path))
                recovery = recover(source, base_offset, producers, want_indexes=False)
        seen.add(rows, is_compacted=ordered.is_compacted)
        # An empty log is clean, whatever lies beside it.
        if size and base_offset is not None and path.endswith(Kind.LOG.value):
            log = rows.log_view(base_offset, size, holes)
            for finding in check_segment_files(
                path, log, is_closed=bool(behind), aborted=ordered.aborted, is_compacted=ordered.is_compacted
            ):
                yield _counted(finding, path, counts)
        yield SegmentSummary(path, size, rows.count, rows.first_offset, rows.last_offset, counts, recovery)

    def _alone(self, path: str, kind: Kind) -> Iterator[Item]:
        """A sibling file without its log."""
        data = read_whole(path)
        counts = dict.fromkeys(Severity, 0)
        found: Iterable[Finding] = ()
        if kind is Kind.SNAPSHOT:
            found = check_snapshot(data, _base_offset(path) or 0)
        elif kind is Kind.TXN_INDEX:
            found = check_txn_index(data, None)
        for finding in found:
            yield _counted(finding, path, counts)
        yield SegmentSummary(path, len(data), None, None, None, counts, None)


class _Partition:
    """What the segments of a partition come to."""

    def __init__(self) -> None:
        self._epochs: list[EpochRange] = []
        self._is_compacted = False
        self.end_offset: int | None = None

    def add(self, rows: BatchTable, *, is_compacted: bool) -> None:
        """The next segment."""
        self._is_compacted = is_compacted
        self._epochs += rows.epochs()
        if rows.last_offset is not None:
            self.end_offset = max(self.end_offset or 0, rows.last_offset + 1)

    def summary(self) -> LogSummary:
        """What the files of the directory are compared with."""
        return LogSummary(self.end_offset, self._epochs, is_compacted=self._is_compacted)


def _counted(finding: Finding, path: str, counts: dict[Severity, int]) -> Finding:
    counts[finding.severity] += 1
    return finding if finding.path is not None else replace(finding, path=path)


def _while_live(finding: Finding, is_live: bool) -> Finding:
    """A torn tail of the segment that a running broker writes to is normal."""
    is_torn = finding.code in _TORN_TAIL and finding.continue_at is None
    return replace(finding, graded=Severity.INFO) if is_live and is_torn else finding


def _base_offset(path: str) -> int | None:
    name = None if path == STDIN else parse_file_name(path)
    return None if name is None else name.base_offset


def _behind(path: str) -> list[str]:
    """The segments behind a single file, where it lies among others."""
    name = None if path == STDIN else parse_file_name(path)
    return segments_behind(path) if name is not None and not name.state else []


def verify(path: str, *, deep: bool = True) -> Iterator[Finding]:
    """What is wrong with a segment file, a partition directory or a log directory.

    Args:
        path: the file or directory; ``-`` is standard input.
        deep: decode every record; False: framing and checksums only.

    Raises:
        KdumpError: the path cannot be looked at.
    """
    for item in Verification(CheckOptions(deep=deep)).path(os.fspath(path)):
        if isinstance(item, Finding):
            yield item
