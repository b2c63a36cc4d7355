"""What can be wrong with a metadata record.

Source: docs/spec/metadata.md#31-faults.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


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
    NEWER = "newer"
    """A newer Kafka wrote it than those that kdump knows: it counts for nothing."""


class Fault(NamedTuple):
    """A fault at an offset of the log, or at a record of a snapshot (``snapshot``: its file name)."""

    grade: Grade
    offset: int
    record: str
    """The type of the record, such as ``TopicRecord``; '' where it is about a batch."""
    message: str
    snapshot: str | None = None


class ReplayError(Exception):
    """A record cannot be applied to the image, or a controller refuses it."""
