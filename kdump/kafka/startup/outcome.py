"""How a start ends.

Source: docs/spec/startup.md rules 17, 18, 24, 26 and 28.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple


class StartOutcome(Enum):
    """What becomes of the partition, and of its broker."""

    STARTS = "starts"
    DIR_OFFLINE = "dir_offline"
    """The log directory goes offline; the broker runs on with the others, if there are any."""
    BROKER_STOPS = "broker_stops"


class OpenTransaction(NamedTuple):
    """A transaction that no marker has ended."""

    producer_id: int
    first_offset: int


class RemovalReason(Enum):
    """Why a segment is taken out of the log."""

    BEHIND_CUT = "behind-cut"
    """One before it was cut: what follows would leave a gap."""
    LOG_START = "log-start"
    """The log ends before its start offset."""


class RecoveredSegment(NamedTuple):
    """A segment that was recovered: what was cut from it, and the offset at which it ends since.

    ``is_emptied``: its index would have gone backwards, and nothing of the segment is kept.
    """

    base_offset: int
    bytes_cut: int
    end_offset: int
    is_emptied: bool = False


@dataclass(frozen=True, slots=True)
class StartFailure:
    """The exception that ends a start; ``java_class`` is None where it never ends."""

    java_class: str | None
    message: str


@dataclass(frozen=True, slots=True)
class Served:
    """The log that a broker serves after its start.

    Attributes:
        log_start_offset: the first offset that can be read.
        recovery_point: what the next unclean start takes for written out.
        end_offset: the next offset to be given out.
        first_unstable_offset: readers with read_committed get no further; None: all transactions are decided.
        segments: (base offset, bytes) of each.
        visible_size: bytes of the last one up to the end of the last batch; what lies after is not served.
        open_transactions: those without an end, as far as the broker knows them.
        is_forgotten: a clean start without snapshots read no batch, and knows no producer.
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
    """The end of a start; either ``served`` or ``failure`` is None.

    Attributes:
        outcome: what becomes of the partition.
        served: what can be read afterwards.
        failure: why nothing can.
        recovered: the segments that were recovered, in order.
        removed: base offsets of those that were taken out.
        deleted_later: names of files that go 60 s (file.delete.delay.ms) after the start.
    """

    outcome: StartOutcome
    served: Served | None
    failure: StartFailure | None
    recovered: tuple[RecoveredSegment, ...] = ()
    removed: Mapping[int, RemovalReason] = field(default_factory=dict)
    deleted_later: tuple[str, ...] = ()
