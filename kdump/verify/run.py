"""``kdump verify`` in this process: segments, partition directories, log directories, streams.

What a PATH stands for, partition by partition (``partitioncheck``), and what only a whole log directory tells.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import replace
from itertools import groupby

from kdump.codes import HOSTILE_CODES, Codes, Finding, KdumpError, Severity
from kdump.log import files
from kdump.log.names import Kind, parse_file_name, parse_partition_directory, sibling
from kdump.log.partition import partition_folders, segment_files
from kdump.log.source import STDIN, open_source, read_whole, reads_once
from kdump.verify.logdir import Checkpoints, PartitionExtent, check_log_directory
from kdump.verify.partition import Item, PartitionCheck, already_lost_finding, base_offset_of, counted
from kdump.verify.reach import PartitionEvidence
from kdump.verify.segment import CheckOptions
from kdump.verify.siblings import (
    LogSummary,
    check_names,
    check_partition_files,
    check_snapshot,
    check_txn_index,
)
from kdump.verify.summary import SegmentSummary

Judge = Callable[[list[str], str | None], Generator[Item | KdumpError, None, PartitionExtent | None]]


class Verification:
    """One run over any number of paths.

    Args:
        judge: checks the segments of a partition: ``PartitionCheck.segments``, or what stands for it.
        on_error: takes what is wrong with one partition of several; None: the first one is raised behind the others.
    """

    def __init__(self, judge: Judge | None = None, *, on_error: Callable[[KdumpError], None] | None = None) -> None:
        self._judge = judge or PartitionCheck().segments
        self._on_error = on_error
        self._failed: list[KdumpError] = []

    def path(self, path: str) -> Iterator[Item]:
        """Check what one PATH stands for.

        Raises:
            KdumpError: MISSING, UNREADABLE, NO_SEGMENTS or NOT_A_SEGMENT_FILE.
        """
        self._failed.clear()
        if files.is_directory(path):
            yield from self._directory(path)
            return
        is_stream = path == STDIN or reads_once(path)
        name = None if is_stream else parse_file_name(path)
        if name is None and not is_stream:
            code = Codes.NOT_A_SEGMENT_FILE if files.exists(path) else Codes.MISSING
            raise KdumpError(code, code.value.title, path=path)
        if name is not None and name.kind not in (Kind.LOG, Kind.CHECKPOINT):
            # A sibling is checked with its log; opened here, so that its own absence is not taken for the log's.
            open_source(path).close()
            log = sibling(path, Kind.LOG)
            if name.kind is Kind.SNAPSHOT or not files.exists(log):
                yield from self._alone(path, name.kind)
                return
            path = log
        if name is not None and name.kind is Kind.LOG:
            for finding in check_names([os.path.basename(path)]):
                yield replace(finding, path=path)
        yield from self._partition([path], None)

    def _directory(self, directory: str) -> Iterator[Item]:
        errors: list[KdumpError] = []
        extents: dict[tuple[str, int], PartitionExtent | None] = {}
        with_logs = set()
        checkpoints = Checkpoints(directory)
        # A partition is listed when the one before is done: a broker may be at work.
        for folder, segments in groupby(segment_files(directory, errors.append), os.path.dirname):
            with_logs.add(folder)
            extent = yield from self._partition(list(segments), folder)
            name = parse_partition_directory(os.path.basename(folder))
            if name is not None and folder != directory:
                extents[name] = extent
        for folder in partition_folders(directory):
            if folder not in with_logs:
                yield from _without_logs(folder)
        if extents:
            yield from check_log_directory(checkpoints, extents)
        for error in errors:
            if error.code in HOSTILE_CODES:
                yield Finding(error.code, error.message, 0, path=error.path)
            else:
                self._fail(error)
        if self._failed:
            raise self._failed[0]

    def _partition(self, segments: list[str], folder: str | None) -> Generator[Item, None, PartitionExtent | None]:
        checked = self._judge(segments, folder)
        while True:
            try:
                item = next(checked)
            except StopIteration as end:
                extent: PartitionExtent | None = end.value
                return extent
            if not isinstance(item, KdumpError):
                yield item
            elif folder is None:
                raise item
            else:
                self._fail(item)

    def _fail(self, error: KdumpError) -> None:
        """Tell, or keep for the end: the others are still looked at."""
        if self._on_error is None:
            self._failed.append(error)
        else:
            self._on_error(error)

    def _alone(self, path: str, kind: Kind) -> Iterator[Item]:
        """A sibling file without its log."""
        data = read_whole(path)
        counts = dict.fromkeys(Severity, 0)
        found: Iterable[Finding] = ()
        if kind is Kind.SNAPSHOT:
            found = check_snapshot(data, base_offset_of(path) or 0)
        elif kind is Kind.TXN_INDEX:
            found = check_txn_index(data, None)
        for finding in found:
            yield counted(finding, path, counts)
        yield SegmentSummary(path, len(data), None, None, None, counts, None)


def findings(path: str, *, deep: bool = True) -> Iterator[Finding]:
    """What is wrong with a segment file, a partition directory or a log directory.

    Args:
        path: the file or directory, or a URI of one; ``-`` is standard input.
        deep: decode every record; False: framing and checksums only.

    Raises:
        KdumpError: the path cannot be looked at.
    """
    for item in Verification(PartitionCheck(CheckOptions(deep=deep)).segments).path(
        files.strip_credentials(os.fspath(path))
    ):
        if isinstance(item, Finding):
            yield item


def _without_logs(folder: str) -> Iterator[Finding]:
    """A partition directory whose logs are gone: what belongs to them need not be."""
    names = list(segment_files(folder, lambda error: None, all_files=True))
    if not names:
        return
    for lost in PartitionEvidence.of_directory(folder).already_lost([], None):
        yield already_lost_finding(lost, os.path.join(folder, lost.witnesses[0]))
    yield from check_partition_files(folder, lambda: LogSummary(None))
