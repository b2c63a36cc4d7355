"""The segments of one partition, checked together: the walk over their logs, what lies beside them, what they come to.

Every segment is looked at once, past damage (here, or elsewhere before, in stretches); its siblings are compared with
what was seen. Findings come as they are made, behind each segment its summary.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from kdump.checks.batchtable import BatchTable
from kdump.checks.holes import Behind
from kdump.checks.logdir import PartitionExtent
from kdump.checks.ordered import OrderedChecks
from kdump.checks.segment import CheckOptions, Look, SegmentLook, check_segment
from kdump.checks.siblings import EpochRange, LogSummary, check_partition_files, check_segment_files
from kdump.checks.summary import SegmentSummary
from kdump.codes import Codes, Finding, KdumpError, Severity
from kdump.kafka.producers import ProducerStates
from kdump.kafka.recover import recover
from kdump.log import files
from kdump.log.lock import is_held
from kdump.log.names import Kind, parse_file_name, parse_partition_directory
from kdump.log.offsetindex import rising_entries
from kdump.log.partition import segments_behind
from kdump.log.siblings import read_snapshot, was_cleaned
from kdump.log.source import STDIN, Source, open_source

_COORDINATOR_TOPICS: Final = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
_TORN_TAIL: Final = frozenset({Codes.TRUNCATED, Codes.HEADER_CUT})

Item: TypeAlias = Finding | SegmentSummary
Looker: TypeAlias = Callable[[Source, Behind], Look]


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
        self._look: Looker = look or (lambda source, behind: SegmentLook(source, behind, self._options))

    def segments(
        self, segments: list[str], folder: str | None
    ) -> Generator[Item | KdumpError, None, PartitionExtent | None]:
        """Check the segments of one partition.

        Args:
            segments: in offset order.
            folder: the directory, when they are all of its segments; its other files are checked too.

        Returns what they cover. A segment that cannot be read is an error among the items.
        """
        directory = files.directory_of(segments[0])
        topic, _ = parse_partition_directory(os.path.basename(directory)) or ("", 0)
        ordered = OrderedChecks(
            is_compacted=was_cleaned(directory) or None,
            producers=read_snapshot(segments[0]),
            is_coordinator=topic in _COORDINATOR_TOPICS,
        )
        seen = _Partition()
        for number, segment in enumerate(segments):
            behind = segments_following(segments, number)
            try:
                yield from self._segment(segment, behind, ordered, seen)
            except KdumpError as error:
                yield error.located(segment)
        is_whole = folder is not None or not _behind(segments[-1])
        for finding in ordered.finish():
            # What is open at the end of one segment of several may be closed in the next.
            is_open = finding.code is Codes.TRANSACTION_OPEN and not is_whole
            yield replace(finding, graded=Severity.INFO) if is_open else finding
        if folder is not None:
            yield from check_partition_files(folder, seen.summary())
        first_base, last_base = base_offset_of(segments[0]), base_offset_of(segments[-1])
        if first_base is None or last_base is None or not seen.is_end_known:
            return None
        return PartitionExtent(first_base, max(seen.end_offset or 0, last_base), last_base)

    def _segment(self, path: str, behind: Sequence[str], ordered: OrderedChecks, seen: _Partition) -> Iterator[Item]:
        counts = dict.fromkeys(Severity, 0)
        base_offset = base_offset_of(path)
        log_directory = os.path.dirname(files.directory_of(path))
        is_live = not behind and path != STDIN and is_held(log_directory)
        rows = BatchTable()
        holes: list[tuple[int, int]] = []
        recovery = None
        is_foreign = False
        with self._open(path) as source:
            look = self._look(source, behind_of(path, behind))
            for finding in check_segment(look, base_offset, source.path, ordered, on_rows=rows.add):
                if finding.path in (None, path) and finding.length is not None:
                    holes.append((finding.position, finding.position + finding.length))
                is_foreign |= finding.code is Codes.FOREIGN_FILE
                yield counted(_while_live(finding, is_live), path, counts)
            size = source.size
            if counts[Severity.ERROR] and size is not None and base_offset is not None and not is_foreign:
                producers = ProducerStates.from_snapshot(read_snapshot(path))
                recovery = recover(source, base_offset, producers, want_indexes=False)
        seen.add(rows, base_offset, is_compacted=ordered.is_compacted, is_foreign=is_foreign)
        # An empty log is clean, whatever lies beside it; with a file of another type nothing can be compared.
        if size and base_offset is not None and path.endswith(Kind.LOG.value) and not is_foreign:
            log = rows.log_view(base_offset, size, holes)
            for finding in check_segment_files(
                path,
                log,
                is_closed=bool(behind),
                aborted=ordered.aborted,
                begun_before=ordered.begun_before,
                idle_aborts=ordered.idle_aborts,
                is_compacted=ordered.is_compacted,
            ):
                yield counted(finding, path, counts)
        yield SegmentSummary(path, size, rows.count, rows.first_offset, rows.last_offset, counts, recovery)


class _Partition:
    """What the segments of a partition come to."""

    def __init__(self) -> None:
        self._epochs: list[EpochRange] = []
        self._is_compacted = False
        self._ends_foreign = False
        self.end_offset: int | None = None

    def add(self, rows: BatchTable, base_offset: int | None, *, is_compacted: bool, is_foreign: bool) -> None:
        """The next segment; one without batches reaches up to its base offset."""
        self._is_compacted = is_compacted
        self._ends_foreign = is_foreign
        self._epochs += rows.epochs()
        last = (base_offset or 0) - 1 if rows.last_offset is None else rows.last_offset
        self.end_offset = max(self.end_offset or 0, last + 1)

    def summary(self) -> LogSummary:
        """What the files of the directory are compared with."""
        return LogSummary(
            None if self._ends_foreign else self.end_offset, self._epochs, is_compacted=self._is_compacted
        )

    @property
    def is_end_known(self) -> bool:
        """The last segment is a log; of a file of another type nobody knows which offsets are in it."""
        return not self._ends_foreign


def segments_following(segments: Sequence[str], number: int) -> Sequence[str]:
    """The segments behind one of those that are checked together; behind the last one, what lies beside it."""
    return segments[number + 1 :] or _behind(segments[number])


def behind_of(path: str, following: Sequence[str]) -> Behind:
    """What a broker has to find its way behind damage in the log ``path``; ``following``: the segments behind it."""
    next_base = base_offset_of(following[0]) if following else None
    return Behind(rising_entries(path, base_offset_of(path)), next_base)


def counted(finding: Finding, path: str, counts: dict[Severity, int]) -> Finding:
    """The finding with its file's path, counted."""
    counts[finding.severity] += 1
    return finding if finding.path is not None else replace(finding, path=path)


def _while_live(finding: Finding, is_live: bool) -> Finding:
    """A torn tail of the segment that a running broker writes to is normal."""
    is_torn = finding.code in _TORN_TAIL and finding.continue_at is None
    return replace(finding, graded=Severity.INFO) if is_live and is_torn else finding


def base_offset_of(path: str) -> int | None:
    """The one in the file's name."""
    name = None if path == STDIN else parse_file_name(path)
    return None if name is None else name.base_offset


def _behind(path: str) -> list[str]:
    """The segments behind a single file, where it lies among others."""
    name = None if path == STDIN else parse_file_name(path)
    return segments_behind(path) if name is not None and not name.state else []
