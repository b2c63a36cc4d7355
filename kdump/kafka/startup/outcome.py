"""How a start ends, and the exceptions that end it early, by their Java names.

Source: docs/spec/startup.md rules 17, 18, 24, 26 and 28.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from kdump.kafka.failures import KafkaFailureError

ILLEGAL_ARGUMENT: Final = "java.lang.IllegalArgumentException"
INDEX_OUT_OF_BOUNDS: Final = "java.lang.IndexOutOfBoundsException"
NO_SUCH_ELEMENT: Final = "java.util.NoSuchElementException"
NO_SUCH_FILE: Final = "java.nio.file.NoSuchFileException"
OUT_OF_MEMORY: Final = "java.lang.OutOfMemoryError"
NULL_POINTER: Final = "java.lang.NullPointerException"
NUMBER_FORMAT: Final = "java.lang.NumberFormatException"
RUNTIME: Final = "java.lang.RuntimeException"
STRING_INDEX: Final = "java.lang.StringIndexOutOfBoundsException"
ILLEGAL_STATE: Final = "java.lang.IllegalStateException"
UNCHECKED_IO: Final = "java.io.UncheckedIOException"
CORRUPT_RECORD: Final = "org.apache.kafka.common.errors.CorruptRecordException"
INVALID_RECORD: Final = "org.apache.kafka.common.InvalidRecordException"
KAFKA: Final = "org.apache.kafka.common.KafkaException"
KAFKA_STORAGE: Final = "org.apache.kafka.common.errors.KafkaStorageException"


class StartOutcome(Enum):
    """What happens to the partition, and to its broker."""

    STARTS = "starts"
    DIR_OFFLINE = "dir_offline"
    """The log directory goes offline; the broker runs on with the others, if there are any."""
    BROKER_STOPS = "broker_stops"


class OpenTransaction(NamedTuple):
    """A transaction that no marker has ended."""

    producer_id: int
    first_offset: int


class RemovalReason(Enum):
    """Why a segment is removed from the log."""

    BEHIND_CUT = "behind-cut"
    """A segment before it was cut, so that it would follow a gap."""
    LOG_START = "log-start"
    """The log ends before its start offset."""


class RecoveredSegment(NamedTuple):
    """A recovered segment: how many bytes were cut, and its new end offset.

    ``is_emptied``: its index would have gone backwards, so nothing of the segment is kept.
    """

    base_offset: int
    bytes_cut: int
    end_offset: int
    is_emptied: bool = False


@dataclass(frozen=True, slots=True)
class StartFailure:
    """The exception that ends a start; ``java_class`` is None if the start never ends."""

    java_class: str | None
    message: str


@dataclass(frozen=True, slots=True)
class Served:
    """The log that a broker serves after its start.

    Attributes:
        log_start_offset: the first offset that can be read.
        recovery_point: the offset up to which the next unclean start assumes the log to be on disk.
        end_offset: the next offset to be given out.
        first_unstable_offset: readers with read_committed stop here; None: all transactions are decided.
        segments: (base offset, bytes) of each.
        visible_size: bytes of the last segment up to the end of its last batch; later bytes are not served.
        open_transactions: those without an end that the broker knows.
        is_forgotten: a clean start without snapshots read no batch, so it knows no producer.
    """

    log_start_offset: int
    recovery_point: int
    end_offset: int
    first_unstable_offset: int | None
    segments: tuple[tuple[int, int], ...]
    visible_size: int
    open_transactions: tuple[OpenTransaction, ...]
    is_forgotten: bool


@dataclass(frozen=True, slots=True)
class Start:
    """The result of a start; either ``served`` or ``failure`` is None.

    Attributes:
        outcome: what happens to the partition.
        served: what can be read after the start.
        failure: why nothing can be read.
        recovered: the recovered segments, in order.
        removed: base offsets of the removed segments.
        deleted_later: names of files that are deleted 60 s (file.delete.delay.ms) after the start.
    """

    outcome: StartOutcome
    served: Served | None
    failure: StartFailure | None
    recovered: tuple[RecoveredSegment, ...] = ()
    removed: Mapping[int, RemovalReason] = field(default_factory=dict)
    deleted_later: tuple[str, ...] = ()


class StartFailureError(Exception):
    """A start ends with this exception.

    Args:
        java_class: of the exception.
        message: one line for people.
        is_io: an input or output error is its cause: only the log directory goes offline.
    """

    def __init__(self, java_class: str, message: str, *, is_io: bool = False) -> None:
        super().__init__(message)
        self.java_class = java_class
        self.message = message
        self.is_io = is_io

    @classmethod
    def of(cls, failure: KafkaFailureError) -> StartFailureError:
        """The failure of a segment's recovery, if nothing catches it."""
        return cls(failure.kind.java_class, failure.message)
