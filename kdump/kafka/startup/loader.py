"""What the steps of a start share, and the steps of LogLoader.

What a cleaner or a split left is finished, segments are opened, and the log is recovered.

Source: docs/spec/startup.md, rules 3 to 18.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kdump.kafka.failures import KafkaFailureError
from kdump.kafka.startup.directory import Directory, LoadSettings
from kdump.kafka.startup.names import (
    CLEANED,
    DELETED,
    INDEX_SUFFIXES,
    KRAFT_DELETED,
    LOG,
    SWAP,
    covering,
    file_name,
    offset_of,
)
from kdump.kafka.startup.outcome import RecoveredSegment, RemovalReason, StartFailureError
from kdump.kafka.startup.producers import ProducerManager
from kdump.kafka.startup.segment import StartSegment
from kdump.kafka.startup.textfiles import LeaderEpochs

_LONG_MAX: Final = 2**63 - 1


class Loading:
    """The state of one start.

    Raises:
        StartFailureError: leader-epoch-checkpoint or the name of a snapshot is refused.
    """

    def __init__(self, directory: Directory, settings: LoadSettings) -> None:
        self.directory = directory
        self.settings = settings
        self.segments: dict[int, StartSegment] = {}
        """By base offset, in any order."""
        self.deleted_later: list[str] = []
        self.recovered: list[RecoveredSegment] = []
        self.removed: dict[int, RemovalReason] = {}
        self.epochs = LeaderEpochs(directory)
        self.producers = ProducerManager(directory, settings)

    @property
    def last_segment(self) -> StartSegment:
        """The segment with the highest base offset."""
        return self.segments[max(self.segments)]

    def open_segment(self, base_offset: int, suffix: str = "") -> StartSegment:
        """Open a segment; see StartSegment."""
        return StartSegment(self.directory, base_offset, self.settings, suffix)

    def recover_segment(self, segment: StartSegment) -> int:
        """Recover one segment after those loaded so far; returns the bytes cut.

        Raises:
            OffsetOverflowError: it would be split.
            KafkaFailureError: its recovery fails.
            StartFailureError: a segment before it cannot be applied.
        """
        producers = ProducerManager(self.directory, self.settings)
        producers.rebuild(self.segments, self.settings.log_start_offset, segment.base_offset, is_clean=False)
        result = segment.recover(producers.states, self.epochs)
        producers.take_snapshot()
        self.recovered.append(RecoveredSegment(segment.base_offset, result.bytes_cut, result.next_offset))
        return result.bytes_cut

    def remove_segments(self, bases: Iterable[int], reason: RemovalReason) -> None:
        """Remove segments; their files are renamed, and deleted later."""
        for base in bases:
            self.removed[base] = reason
            self.delete_later(self.segments.pop(base).rename("", DELETED))

    def remove_snapshot(self, base: int) -> None:
        """Remove a snapshot that was known at the start; its file is renamed, and deleted later."""
        name = self.producers.rename_snapshot(base, DELETED)
        if name is not None:
            self.deleted_later.append(name)

    def delete_later(self, names: Iterable[str]) -> None:
        """Rename those of the files that are there; they are deleted later."""
        self.deleted_later += [name for name in names if name in self.directory]


def finish_swaps(loading: Loading) -> None:
    """Remove .deleted and .cleaned files, and put .swap files in the place of what they replace.

    Source: docs/spec/startup.md#2-before-the-segments (rules 3 to 6; removeTempFilesAndCollectSwapFiles, load).

    Raises:
        StartFailureError: a name without an offset, or a .log.swap that cannot be read.
    """
    directory = loading.directory
    swaps = _without_temporary(loading)
    lowest, end = None, None
    for name in swaps:
        if name.endswith(LOG + SWAP):
            segment = loading.open_segment(offset_of(name), SWAP)
            next_offset = segment.next_offset()
            lowest = segment.base_offset if lowest is None else min(lowest, segment.base_offset)
            end = next_offset if end is None else max(end, next_offset)
    if lowest is not None and end is not None:
        for name in directory.names():
            if not name.endswith(SWAP) and lowest <= (_offset_or_none(name, lowest - 1)) < end:
                directory.remove(name)
    for name in directory.names():
        if name.endswith(SWAP):
            directory.rename(name, name.removesuffix(SWAP))


def _without_temporary(loading: Loading) -> list[str]:
    """Delete temporary files; returns the .swap files that stay."""
    directory = loading.directory
    cleaned: list[tuple[int, str]] = []
    swaps = []
    for name in directory.names():
        if name.endswith(DELETED):
            if not name.endswith(KRAFT_DELETED):
                directory.remove(name)
        elif name.endswith(CLEANED):
            cleaned.append((offset_of(name), name))
        elif name.endswith(SWAP):
            swaps.append(name)
    least_cleaned = min(cleaned)[0] if cleaned else None
    stay = []
    for name in swaps:
        if least_cleaned is not None and offset_of(name) >= least_cleaned:
            directory.remove(name)
        else:
            # Parsed in any case, because a name without an offset ends the start.
            offset_of(name)
            stay.append(name)
    for _, name in cleaned:
        directory.remove(name)
    return stay


def _offset_or_none(name: str, otherwise: int) -> int:
    try:
        return offset_of(name)
    except StartFailureError:
        return otherwise


def load_segments(loading: Loading) -> None:
    """Open every .log by name, recover those whose index files are not right, and delete index files without a .log.

    Source: docs/spec/startup.md#3-loading-the-segments (rules 7, 8 and 10; loadSegmentFiles).

    Raises:
        OffsetOverflowError: a segment would be split.
        StartFailureError: a name without an offset; a segment that cannot be opened or recovered.
    """
    directory = loading.directory
    loading.segments = {}
    for name in directory.names():
        if name not in directory:
            continue
        if name.endswith(INDEX_SUFFIXES):
            if file_name(offset_of(name), LOG) not in directory:
                directory.remove(name)
        elif name.endswith(LOG):
            segment = loading.open_segment(offset_of(name))
            if segment.needs_recovery():
                try:
                    loading.recover_segment(segment)
                except KafkaFailureError as error:
                    raise StartFailureError.of(error) from None
            loading.segments[segment.base_offset] = segment


def recover_log(loading: Loading) -> tuple[int, int]:
    """Recover what may not be on disk, and find the end; returns the recovery point and the end offset.

    Source: docs/spec/startup.md#4-recovery-of-the-log (rules 13 to 18; recoverLog).

    Raises:
        OffsetOverflowError: a segment would be split.
        StartFailureError: a segment cannot be recovered or read.
    """
    settings = loading.settings
    if not settings.is_clean:
        _recover_segments(loading)
    end: int | None = None
    if loading.segments:
        end = loading.last_segment.next_offset()
        if end < settings.log_start_offset:
            loading.remove_segments(sorted(loading.segments), RemovalReason.LOG_START)
            loading.epochs.clear()
            loading.producers.truncate_fully(settings.log_start_offset)
            end = None
    if not loading.segments:
        loading.segments[settings.log_start_offset] = loading.open_segment(settings.log_start_offset)
    if end is None:
        end = loading.last_segment.next_offset()
    elif settings.is_clean:
        return end, end
    return min(settings.recovery_point, end), end


def _recover_segments(loading: Loading) -> None:
    """Recover from the segment with the recovery point on, up to the first that is cut; remove later ones."""
    unflushed = _unflushed(loading)
    for number, base in enumerate(unflushed):
        segment = loading.segments[base]
        if _recover(loading, segment) > 0:
            segment.next_offset()
            later = unflushed[number + 1 :]
            loading.remove_segments(later, RemovalReason.BEHIND_CUT)
            for removed in later:
                loading.remove_snapshot(removed)
            return


def _unflushed(loading: Loading) -> list[int]:
    point = loading.settings.recovery_point
    if point == _LONG_MAX:
        return []
    return covering(loading.segments, point)


def _recover(loading: Loading, segment: StartSegment) -> int:
    """Recover a segment, and empty it if its index would go backwards; returns the bytes cut."""
    try:
        return loading.recover_segment(segment)
    except KafkaFailureError as error:
        if not error.kind.empties_segment:
            raise StartFailureError.of(error) from None
        cut = segment.truncate_to(segment.base_offset)
        loading.recovered.append(RecoveredSegment(segment.base_offset, cut, segment.base_offset, is_emptied=True))
        return cut
