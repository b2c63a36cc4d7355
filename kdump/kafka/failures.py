"""How a Kafka broker stops over a segment: the exceptions of its recovery, by kind.

Source: docs/spec/recovery.md#2-the-walk-over-the-entries (rules 1, 3, 5, 7, 8 and 9); what is not there was measured on
Kafka 4.3.1.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

_ERRORS: Final = "org.apache.kafka.common.errors."
_STORAGE: Final = "org.apache.kafka.storage.internals.log."


class FailureKind(Enum):
    """Why recovery of a segment ends in an exception instead of a truncation."""

    FILE_TOO_LARGE = "file-too-large", "org.apache.kafka.common.KafkaException"
    """A log of over 2^31 - 1 bytes is not opened."""
    OFFSET_OVERFLOW = "offset-overflow", _STORAGE + "LogSegmentOffsetOverflowException"
    """An offset below the segment's base offset, or 2^31 and more above it."""
    INVALID_OFFSET = "invalid-offset", _ERRORS + "InvalidOffsetException"
    """An index entry whose offset does not rise."""
    INDEX_FULL = "index-full", "java.lang.IllegalArgumentException"
    """More index entries than segment.index.bytes holds."""
    LEADER_EPOCH = "leader-epoch", "java.lang.IllegalArgumentException"
    """A new leader epoch that begins at a negative offset."""
    INVALID_TXN_STATE = "invalid-transaction-state", _ERRORS + "InvalidTxnStateException"
    """A batch outside of its producer's open transaction."""
    CODEC = "marker-codec", "java.lang.IllegalArgumentException"
    """A control batch with an unknown compression codec."""
    MARKER_PAYLOAD = "marker-payload", "org.apache.kafka.common.KafkaException"
    """A compressed control batch that cannot be decompressed."""
    MARKER_LENGTH = "marker-length", "java.lang.IllegalArgumentException"
    """The length of a control record is a varint that does not end."""
    MARKER_NULL = "marker-null", "java.lang.NullPointerException"
    """A control record without key or value."""
    MARKER_TYPE = "marker-type", "java.lang.IllegalArgumentException"
    """A control record of a producer that is neither ABORT nor COMMIT."""
    MARKER_VALUE_CUT = "marker-value-cut", "java.nio.BufferUnderflowException"
    """A transaction marker's value of fewer than 6 bytes."""
    TXN_NOT_STARTED = "transaction-not-started", "java.lang.IllegalArgumentException"
    """A marker for a transaction whose first offset another transaction took over."""
    TXN_INDEX_ORDER = "txnindex-order", "java.lang.IllegalArgumentException"
    """An aborted transaction that does not end after the one before it."""
    UNKNOWN_MAGIC = "unknown-magic", "kafka.common.UnknownMagicByteException"
    """The loader of another world: a whole entry with another magic than 0 and 1."""
    MESSAGE_CUT = "message-cut", "java.lang.IndexOutOfBoundsException"
    """The loader of another world: an entry of magic 1 without a place for its CRC."""

    def __init__(self, code: str, java_class: str) -> None:
        self.code = code
        self.java_class = java_class

    @property
    def empties_segment(self) -> bool:
        """A broker that meets it in the recovery of a whole log empties the segment.

        With any other kind, or when the segment is recovered because its .index is missing, the broker stops.
        Source: docs/spec/startup.md#rule-14-failures-during-recovery.
        """
        return self is FailureKind.INVALID_OFFSET


class KafkaFailureError(Exception):
    """Kafka's recovery would throw: the segment stays as it is. ``message`` is one line for people."""

    def __init__(self, kind: FailureKind, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
