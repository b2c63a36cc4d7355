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
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Final

from kdump.format.checkpoint import (
    LEADER_EPOCH_CHECKPOINT,
    PARTITION_METADATA,
    EpochEntry,
    write_leader_epoch_checkpoint,
)
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


class EpochCache:
    """The leader epochs of a log: (epoch, first offset) of each, both rising. Each change says whether it changes any.

    Source: docs/spec/replicas.md#2-the-epoch-cache (LeaderEpochFileCache).
    """

    def __init__(self, entries: Iterable[tuple[int, int]] = ()) -> None:
        self.entries = list(entries)

    @property
    def latest(self) -> int:
        """The latest epoch, -1 without one."""
        return self.entries[-1][0] if self.entries else -1

    def assign(self, epoch: int, start_offset: int) -> bool:
        """An epoch begins."""
        if self.entries and epoch == self.entries[-1][0] and start_offset >= self.entries[-1][1]:
            return False
        while self.entries and (self.entries[-1][0] >= epoch or self.entries[-1][1] >= start_offset):
            self.entries.pop()
        self.entries.append((epoch, start_offset))
        return True

    def end_offset(self, epoch: int, log_end: int) -> tuple[int, int] | None:
        """(the largest epoch up to this one, where it ends); None: not known."""
        if not self.entries:
            return None
        if epoch == self.entries[-1][0]:
            return epoch, log_end
        number = bisect_right(self.entries, epoch, key=itemgetter(0))
        if number == len(self.entries):
            return None
        following = self.entries[number][1]
        return (epoch, following) if number == 0 else (self.entries[number - 1][0], following)

    def cut_end(self, offset: int) -> bool:
        """Forget those that begin at an offset or after."""
        before = len(self.entries)
        while self.entries and self.entries[-1][1] >= offset:
            self.entries.pop()
        return len(self.entries) < before

    def cut_start(self, offset: int) -> bool:
        """Of those that begin at an offset or before keep only the last, from there on."""
        number = bisect_right(self.entries, offset, key=itemgetter(1))
        if number:
            self.entries[:number] = [(self.entries[number - 1][0], offset)]
        return number > 0


class LeaderEpochs(EpochCache):
    """The leader epochs of a partition directory.

    A broker rewrites the file for each new epoch. Nothing else reads it during a start, so here it is formatted once,
    by ``flush``: the cost stays in proportion to the number of epochs.

    Raises:
        StartFailureError: the file is refused.
    """

    def __init__(self, directory: Directory) -> None:
        super().__init__()
        self._directory = directory
        self._is_changed = False
        if LEADER_EPOCH_CHECKPOINT not in directory:
            directory[LEADER_EPOCH_CHECKPOINT] = Content.of_bytes(b"")
        for epoch, start_offset in _epochs_in(directory.read(LEADER_EPOCH_CHECKPOINT)):
            self.assign(epoch, start_offset)
        self._is_changed = False

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Add a new epoch, which begins with a batch. Raises StartFailureError for a negative epoch or offset."""
        if epoch < 0 or start_offset < 0:
            raise StartFailureError(ILLEGAL_ARGUMENT, f"leader epoch {epoch} begins at offset {start_offset}")
        return self._changed(super().assign(epoch, start_offset))

    def clear(self) -> None:
        """Forget all epochs; the file is written even if none was known."""
        self.entries.clear()
        self._is_changed = True

    def cut_end(self, offset: int) -> bool:
        """See EpochCache; an end below 0 is none."""
        return offset >= 0 and self._changed(super().cut_end(offset))

    def cut_start(self, offset: int) -> bool:
        """See EpochCache."""
        return self._changed(super().cut_start(offset))

    def flush(self) -> None:
        """Write the file if the epochs changed."""
        if not self._is_changed:
            return
        data = write_leader_epoch_checkpoint([EpochEntry(*entry) for entry in self.entries])
        self._directory.remove(_TEMPORARY)
        self._directory[LEADER_EPOCH_CHECKPOINT] = Content.of_bytes(data)
        self._is_changed = False

    def _changed(self, is_changed: bool) -> bool:
        self._is_changed |= is_changed
        return is_changed


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
