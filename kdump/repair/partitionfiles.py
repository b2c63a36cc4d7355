"""The files of a partition directory that belong to no single segment, and what a shorter log makes of them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Self

from kdump.codes import DamageError
from kdump.format.checkpoint import LEADER_EPOCH_CHECKPOINT, EpochEntry, parse_leader_epoch_checkpoint
from kdump.log.names import SIBLING_TEXT_FILES, Kind, parse_file_name

_SAVED: Final = SIBLING_TEXT_FILES - {LEADER_EPOCH_CHECKPOINT}


@dataclass(frozen=True, slots=True)
class PartitionFiles:
    """Paths, in the order of their names.

    ``snapshots`` by offset, ``epochs`` the leader-epoch-checkpoint, ``others`` text files and KRaft checkpoints.
    """

    snapshots: tuple[tuple[int, str], ...]
    epochs: str | None
    others: tuple[str, ...]

    @classmethod
    def of(cls, directory: str) -> Self:
        """Of a partition directory; leftovers with a state suffix are left out."""
        snapshots: list[tuple[int, str]] = []
        others: list[str] = []
        names = sorted(entry.name for entry in os.scandir(directory) if entry.is_file())
        for name in names:
            path = os.path.join(directory, name)
            parsed = parse_file_name(name)
            if parsed is not None and not parsed.state:
                if parsed.kind is Kind.SNAPSHOT and parsed.base_offset is not None:
                    snapshots.append((parsed.base_offset, path))
                elif parsed.kind is Kind.CHECKPOINT:
                    others.append(path)
            elif name in _SAVED:
                others.append(path)
        epochs = os.path.join(directory, LEADER_EPOCH_CHECKPOINT) if LEADER_EPOCH_CHECKPOINT in names else None
        return cls(tuple(snapshots), epochs, tuple(others))

    @property
    def paths(self) -> list[str]:
        """Of all of them."""
        return [*(path for _, path in self.snapshots), *self.others, *([] if self.epochs is None else [self.epochs])]

    def dropped_snapshots(self, *, end_offset: int, valid_up_to: int) -> list[str]:
        """Those that lie above the end of the log, or were made with batches that it does not have."""
        return [path for offset, path in self.snapshots if offset > min(end_offset, valid_up_to)]


def epochs_for(data: bytes | None, end_offset: int, found: Iterable[tuple[int, int]] = ()) -> bytes | None:
    """A leader-epoch-checkpoint that fits a log.

    Epochs that begin at ``end_offset`` or behind go (docs/spec/startup.md#rule-23-leader-epochs); those of batches
    come, or begin earlier.

    Args:
        data: the file; None: there is none.
        end_offset: of the log.
        found: (epoch, base offset) of batches that came back from a replica, or lie beside such.

    Returns:
        None where nothing is to be changed, also because a broker would refuse the file.
    """
    try:
        entries = parse_leader_epoch_checkpoint(data) if data is not None else []
    except DamageError:
        return None
    kept = [entry for entry in entries if entry.start_offset < end_offset]
    starts = dict(kept)
    for epoch, base_offset in found:
        starts[epoch] = min(base_offset, starts.get(epoch, base_offset))
    filled = [EpochEntry(*entry) for entry in sorted(starts.items())]
    if all(before.start_offset <= behind.start_offset for before, behind in pairwise(filled)):
        kept = filled
    return _checkpoint(kept) if kept != entries else None


def _checkpoint(entries: list[EpochEntry]) -> bytes:
    lines = ["0", str(len(entries)), *(f"{entry.epoch} {entry.start_offset}" for entry in entries)]
    return "".join(f"{line}\n" for line in lines).encode()
