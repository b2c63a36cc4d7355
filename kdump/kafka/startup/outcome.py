"""How a start ends.

Source: docs/spec/startup.md rules 17, 18, 24, 26 and 28.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple


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
