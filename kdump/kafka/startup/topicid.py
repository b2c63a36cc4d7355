"""Reads partition.metadata, the last file of a start.

Source: docs/spec/startup.md#rule-27-the-topic-id-and-unknown-files (PartitionMetadataFile, Uuid.fromString). An empty
file, as a crash may leave it, stops the broker.
"""

from __future__ import annotations

import base64
import re
from typing import Final

from kdump.format.checkpoint import PARTITION_METADATA
from kdump.kafka.startup.directory import Directory
from kdump.kafka.startup.errors import ILLEGAL_ARGUMENT, KAFKA_STORAGE, NULL_POINTER, StartFailureError
from kdump.payloads.java import parse_int

_SEPARATOR: Final = re.compile(r":[ \t\n\x0b\f\r]+")
_UUID: Final = re.compile(r"([0-9A-Za-z_-]{22})(?:==)?")
"""16 bytes in base64, with all padding or none."""


def check_topic_id(directory: Directory) -> None:
    """Read the topic id, if there is one.

    Raises:
        StartFailureError: it cannot be read.
    """
    if PARTITION_METADATA in directory:
        read_topic_id(directory.read(PARTITION_METADATA))


def read_topic_id(data: bytes) -> str:
    """The topic id in partition.metadata, in 22 characters.

    Raises:
        StartFailureError: it cannot be read.
    """
    try:
        lines = [line.decode() for line in data.splitlines()]
    except UnicodeDecodeError:
        raise _refused("it is not UTF-8") from None
    version = parse_int(_value(lines, 0))
    if version is None or version < 0:
        raise _refused("its version is no number, or below 0")
    text = _value(lines, 1)
    uuid = _UUID.fullmatch(text)
    if uuid is None:
        raise StartFailureError(ILLEGAL_ARGUMENT, f"{PARTITION_METADATA}: {text!r} is no topic id")
    if not any(base64.urlsafe_b64decode(f"{uuid[1]}==")):
        raise _refused("its topic id is zero")
    return uuid[1]


def _value(lines: list[str], number: int) -> str:
    """The text after the colon of a line."""
    if number >= len(lines):
        raise StartFailureError(NULL_POINTER, f"{PARTITION_METADATA} has {len(lines)} lines, and 2 are needed")
    words = _SEPARATOR.split(lines[number])
    while words and not words[-1]:
        words.pop()
    if len(words) != 2:
        raise _refused(f"the line {lines[number]!r} is no 'name: value'")
    return words[1]


def _refused(message: str) -> StartFailureError:
    return StartFailureError(KAFKA_STORAGE, f"{PARTITION_METADATA} is refused: {message}", is_io=True)
