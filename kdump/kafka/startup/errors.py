"""The exceptions that end a broker's start early, by their Java names.

Source: docs/spec/startup.md#rule-28-what-an-exception-stops.
"""

from __future__ import annotations

from typing import Final

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
