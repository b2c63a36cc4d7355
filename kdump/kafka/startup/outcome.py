"""How a start ends.

Source: shared/spec/startup.md rules 17, 18, 24, 26, 28.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple


class Outcome(Enum):
    """What becomes of the partition, and of its broker."""

    STARTS = "starts"
    DIR_OFFLINE = "dir_offline"
    """The log directory goes offline; the broker runs on with the others, if there are any."""
    BROKER_STOPS = "broker_stops"


class OpenTransaction(NamedTuple):
    """A transaction that no marker has ended."""

    producer_id: int
    first_offset: int


@dataclass(frozen=True, slots=True)
class Failure:
    """The exception that ends a start; ``java_class`` is None where it never ends."""

    java_class: str | None
    message: str


@dataclass(frozen=True, slots=True)
class Served:
    """The log that a broker serves after its start.

    ``first_unstable_offset``: readers with read_committed get no further (None: all are decided). ``segments``: (base
    offset, bytes) of each. ``is_forgotten``: a clean start without snapshots read no batch, and
    knows no producer.
    """

    log_start_offset: int
    recovery_point: int
    end_offset: int
    first_unstable_offset: int | None
    segments: tuple[tuple[int, int], ...]
    open_transactions: tuple[OpenTransaction, ...]
    is_forgotten: bool


@dataclass(frozen=True, slots=True)
class Start:
    """The end of a start; either ``served`` or ``failure`` is None.

    Attributes:
        outcome: what becomes of the partition.
        served: what can be read afterwards.
        failure: why nothing can.
        recovered: base offsets of the segments that were recovered, in order.
        emptied: those that were emptied, since their index would have gone backwards.
        deleted_later: names of files that go 60 s (file.delete.delay.ms) after the start.
    """

    outcome: Outcome
    served: Served | None
    failure: Failure | None
    recovered: tuple[int, ...] = ()
    emptied: tuple[int, ...] = ()
    deleted_later: tuple[str, ...] = ()
