"""What can be wrong with a metadata record.

Source: docs/spec/metadata.md#31-faults.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from enum import Enum
from typing import Any, NamedTuple

from kdump.system.packedlist import PackedList


class Grade(Enum):
    """How bad a fault is."""

    UNREADABLE = "unreadable"
    """The reader stops here: nothing that follows counts."""
    IMAGE = "image"
    """The record does not apply to the image; a broker goes on without it, a controller stops."""
    CONTROLLER = "controller"
    """The record applies to the image, but a controller that replays it stops."""
    ODD = "odd"
    """Kafka says nothing of it."""


class Fault(NamedTuple):
    """A fault at an offset of the log, or at a record of a snapshot (``snapshot``: its file name)."""

    grade: Grade
    offset: int
    record: str
    """The type of the record, such as ``TopicRecord``; '' where it is about a batch."""
    message: str
    snapshot: str | None = None


class Faults(Collection[Fault]):
    """Faults in the order in which they were found. A log may have one for each record."""

    def __init__(self) -> None:
        self._packed = PackedList[tuple[Any, ...]]()

    def append(self, fault: Fault) -> None:
        """Add a fault."""
        self._packed.append((fault.grade.value, *fault[1:]))

    def extend(self, faults: Iterable[Fault]) -> None:
        """Add faults."""
        for fault in faults:
            self.append(fault)

    def __len__(self) -> int:
        return len(self._packed)

    def __iter__(self) -> Iterator[Fault]:
        return (Fault(Grade(grade), *rest) for grade, *rest in self._packed)

    def __contains__(self, fault: object) -> bool:
        return any(own == fault for own in self)


class ReplayError(Exception):
    """A record cannot be applied to the image, or a controller refuses it."""
