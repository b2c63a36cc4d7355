"""Text files as a broker reads and rewrites them: checkpoints, the leader epochs among them, and partition.metadata.

A checkpoint is a version, a count, and an entry a line. partition.metadata is the last file of a start. An empty one,
as a crash may leave it, stops the broker.

Source: docs/spec/startup.md#rule-1-the-leader-epoch-checkpoint (CheckpointFile), rules 11, 16 and 23 there
(LeaderEpochFileCache),
docs/spec/startup.md#rule-27-the-topic-id-and-unknown-files (PartitionMetadataFile, Uuid.fromString).
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Sequence
from typing import Final

from kdump.format.checkpoint import LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA
from kdump.kafka.startup.directory import Directory
from kdump.kafka.startup.outcome import ILLEGAL_ARGUMENT, KAFKA_STORAGE, NULL_POINTER, NUMBER_FORMAT, StartFailureError
from kdump.log.content import Content
from kdump.payloads.java import parse_int, parse_long

_VERSION: Final = 0
_TEMPORARY: Final = LEADER_EPOCH_CHECKPOINT + ".tmp"
_MOST_QUOTED: Final = 60
"""Characters of a line."""
_JAVA_WHITE_SPACE: Final = re.compile(r"[ \t\n\x0b\f\r]+")
_SEPARATOR: Final = re.compile(r":[ \t\n\x0b\f\r]+")
_UUID: Final = re.compile(r"([0-9A-Za-z_-]{22})(?:==)?")
"""16 bytes in base64, with all padding or none."""


def checkpoint_words(name: str, data: bytes, words_of_line: Sequence[str]) -> Iterator[list[str]]:
    """The words of each entry, in file order; what is wrong with a line is met when it is its turn.

    Args:
        name: of the file, for messages.
        data: what it holds.
        words_of_line: what each entry consists of, for messages too.

    Raises:
        StartFailureError: the file is refused.
    """
    lines = _lines(name, data)
    if lines and parse_int(lines[0]) != _VERSION:
        raise _refused(name, f"its version is {quoted(lines[0])}")
    if len(lines) < 2:
        return
    count = parse_int(lines[1])
    if count is None:
        raise _refused(name, f"its count of entries is {quoted(lines[1])}")
    if count < 0:
        # A list is made for so many.
        raise StartFailureError(ILLEGAL_ARGUMENT, f"{name} counts {count} entries")
    found = 0
    for line in lines[2:]:
        words = _split(_JAVA_WHITE_SPACE, line)
        if len(words) != len(words_of_line):
            raise _refused(
                name, f"the line {quoted(line)} is no {', '.join(words_of_line[:-1])} and {words_of_line[-1]}"
            )
        found += 1
        yield words
    if found != count:
        raise _refused(name, f"it has {found} entries and counts {count}")


def quoted(line: str) -> str:
    """A line for a message, shortened."""
    return repr(line) if len(line) <= _MOST_QUOTED else f"{line[:_MOST_QUOTED]!r}..."


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
    lines = _lines(PARTITION_METADATA, data)
    version = parse_int(_value(lines, 0))
    if version is None or version < 0:
        raise _refused(PARTITION_METADATA, "its version is no number, or below 0")
    text = _value(lines, 1)
    uuid = _UUID.fullmatch(text)
    if uuid is None:
        raise StartFailureError(ILLEGAL_ARGUMENT, f"{PARTITION_METADATA}: {text!r} is no topic id")
    if not any(base64.urlsafe_b64decode(f"{uuid[1]}==")):
        raise _refused(PARTITION_METADATA, "its topic id is zero")
    return uuid[1]


def _value(lines: list[str], number: int) -> str:
    """The text after the colon of a line."""
    if number >= len(lines):
        raise StartFailureError(NULL_POINTER, f"{PARTITION_METADATA} has {len(lines)} lines, and 2 are needed")
    words = _split(_SEPARATOR, lines[number])
    if len(words) != 2:
        raise _refused(PARTITION_METADATA, f"the line {lines[number]!r} is no 'name: value'")
    return words[1]


def _lines(name: str, data: bytes) -> list[str]:
    try:
        return [line.decode() for line in data.splitlines()]
    except UnicodeDecodeError:
        raise _refused(name, "it is not UTF-8") from None


def _split(separator: re.Pattern[str], line: str) -> list[str]:
    """As Java's Pattern.split: empty words at the end are left out."""
    words = separator.split(line)
    while words and not words[-1]:
        words.pop()
    return words


def _refused(name: str, message: str) -> StartFailureError:
    return StartFailureError(KAFKA_STORAGE, f"{name} is refused: {message}", is_io=True)


class LeaderEpochs:
    """The epochs with the offset at which each begins, rising.

    A broker rewrites the file for each new epoch. Nothing else reads it during a start, so here it is formatted once,
    by ``flush``: the cost stays in proportion to the number of epochs.

    Raises:
        StartFailureError: the file is refused.
    """

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._entries: list[tuple[int, int]] = []
        self._is_changed = False
        if LEADER_EPOCH_CHECKPOINT not in directory:
            directory[LEADER_EPOCH_CHECKPOINT] = Content.of_bytes(b"")
        for epoch, start_offset in _epochs_in(directory.read(LEADER_EPOCH_CHECKPOINT)):
            self._insert(epoch, start_offset)

    @property
    def entries(self) -> list[tuple[int, int]]:
        """(epoch, first offset) of each."""
        return list(self._entries)

    @property
    def latest(self) -> int:
        """The latest epoch, -1 without one."""
        return self._entries[-1][0] if self._entries else -1

    def assign(self, epoch: int, start_offset: int) -> None:
        """Add a new epoch, which begins with a batch."""
        self._is_changed |= self._insert(epoch, start_offset)

    def clear(self) -> None:
        """Forget all epochs; the file is written even if none was known."""
        self._entries.clear()
        self._is_changed = True

    def cut_end(self, end_offset: int) -> None:
        """Forget the epochs that begin at the end of the log or after it."""
        while end_offset >= 0 and self._entries and self._entries[-1][1] >= end_offset:
            self._entries.pop()
            self._is_changed = True

    def cut_start(self, start_offset: int) -> None:
        """Keep of the epochs that begin at the log start or before only the last one, from the log start on."""
        after = next((n for n, entry in enumerate(self._entries) if entry[1] > start_offset), len(self._entries))
        if after:
            self._entries[:after] = [(self._entries[after - 1][0], start_offset)]
            self._is_changed = True

    def flush(self) -> None:
        """Write the file if the epochs changed."""
        if self._is_changed:
            self._write()

    def _insert(self, epoch: int, start_offset: int) -> bool:
        if epoch < 0 or start_offset < 0:
            raise StartFailureError(ILLEGAL_ARGUMENT, f"leader epoch {epoch} begins at offset {start_offset}")
        if self._entries and epoch == self._entries[-1][0] and start_offset >= self._entries[-1][1]:
            return False
        while self._entries and (self._entries[-1][0] >= epoch or self._entries[-1][1] >= start_offset):
            self._entries.pop()
        self._entries.append((epoch, start_offset))
        return True

    def _write(self) -> None:
        lines = [str(_VERSION), str(len(self._entries)), *(f"{epoch} {offset}" for epoch, offset in self._entries)]
        self._directory.remove(_TEMPORARY)
        self._directory[LEADER_EPOCH_CHECKPOINT] = Content.of_bytes("".join(f"{line}\n" for line in lines).encode())
        self._is_changed = False


def _epochs_in(data: bytes) -> list[tuple[int, int]]:
    """The entries in file order."""
    entries = []
    for words in checkpoint_words(LEADER_EPOCH_CHECKPOINT, data, ("epoch", "offset")):
        epoch, offset = parse_int(words[0]), parse_long(words[1])
        if epoch is None or offset is None:
            line = quoted(" ".join(words))
            raise StartFailureError(NUMBER_FORMAT, f"{LEADER_EPOCH_CHECKPOINT}: the line {line} holds no two numbers")
        entries.append((epoch, offset))
    return entries
