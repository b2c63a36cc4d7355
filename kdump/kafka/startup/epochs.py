"""The leader epochs of a partition: leader-epoch-checkpoint as a broker reads and rewrites it.

Source: docs/spec/startup.md rules 1, 11, 16 and 23 (LeaderEpochFileCache, CheckpointFile).
"""

from __future__ import annotations

from typing import Final

from kdump.format.checkpoint import LEADER_EPOCH_CHECKPOINT
from kdump.kafka.startup.content import Content
from kdump.kafka.startup.directory import Directory
from kdump.kafka.startup.errors import ILLEGAL_ARGUMENT, NUMBER_FORMAT, StartFailureError
from kdump.kafka.startup.textfiles import checkpoint_words, quoted
from kdump.payloads.java import parse_int, parse_long

_VERSION: Final = 0
_TEMPORARY: Final = LEADER_EPOCH_CHECKPOINT + ".tmp"


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
        for epoch, start_offset in _parse(directory.read(LEADER_EPOCH_CHECKPOINT)):
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


def _parse(data: bytes) -> list[tuple[int, int]]:
    """The entries in file order."""
    entries = []
    for words in checkpoint_words(LEADER_EPOCH_CHECKPOINT, data, ("epoch", "offset")):
        epoch, offset = parse_int(words[0]), parse_long(words[1])
        if epoch is None or offset is None:
            line = quoted(" ".join(words))
            raise StartFailureError(NUMBER_FORMAT, f"{LEADER_EPOCH_CHECKPOINT}: the line {line} holds no two numbers")
        entries.append((epoch, offset))
    return entries
