"""What the steps of a start share: the directory, the segments loaded so far, producers, epochs.

Source: docs/spec/startup.md#3-loading-the-segments (rules 7, 8 and 10 to 17; LogLoader).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kdump.kafka.segmentindexes import DEFAULT_INDEX_INTERVAL, DEFAULT_INDEX_SIZE
from kdump.kafka.startup.byoffset import ByOffset
from kdump.kafka.startup.clock import Clock
from kdump.kafka.startup.directory import Directory
from kdump.kafka.startup.epochs import LeaderEpochs
from kdump.kafka.startup.names import DELETED
from kdump.kafka.startup.outcome import RecoveredSegment, RemovalReason
from kdump.kafka.startup.producers import ProducerManager
from kdump.kafka.startup.segment import StartSegment
from kdump.releases import NEWEST, Release


class LoadSettings(NamedTuple):
    """What a broker knows of a partition before it opens its directory.

    ``is_clean``: .kafka_cleanshutdown was there. The offsets are the partition's lines in the two checkpoints, 0
    without one. ``max_index_size``: segment.index.bytes; ``now``: the time, ms, see ``clock``. ``remote_by``: what
    says that the topic has remote storage (remote.storage.enable), None where nothing does. ``release``: the broker's.
    ``index_interval``: index.interval.bytes.
    """

    is_clean: bool
    recovery_point: int = 0
    log_start_offset: int = 0
    max_index_size: int = DEFAULT_INDEX_SIZE
    now: int | None = None
    remote_by: str | None = None
    release: Release = NEWEST
    index_interval: int = DEFAULT_INDEX_INTERVAL


class Loading:
    """The state of one start.

    Raises:
        StartFailureError: leader-epoch-checkpoint or the name of a snapshot is refused.
    """

    def __init__(self, directory: Directory, settings: LoadSettings) -> None:
        self.directory = directory
        self.settings = settings
        self.segments: ByOffset[StartSegment] = ByOffset()
        self.deleted_later: list[str] = []
        self.recovered: list[RecoveredSegment] = []
        self.removed: dict[int, RemovalReason] = {}
        self.epochs = LeaderEpochs(directory)
        self._clock = Clock(directory, settings.now)
        self.producers = ProducerManager(directory, self._clock, directory.snapshots.known())

    @property
    def last_segment(self) -> StartSegment:
        """The segment with the highest base offset."""
        return self.segments[self.segments.offsets[-1]]

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
        producers = ProducerManager(self.directory, self._clock)
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
