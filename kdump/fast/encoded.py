"""Encoded entries of a log, ready to be written, with what the index files need."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from kdump.format.batch import LEADER_EPOCH_OFFSET, MAGIC
from kdump.wire.checksum import Buffer


@dataclass(frozen=True, slots=True)
class EncodedEntries:
    """Entries of one format side by side; every array but the first has the shape (entries,)."""

    magic: int
    data: Buffer
    bounds: NDArray[np.int64]
    """Shape (entries + 1,): entry i is ``data[bounds[i]:bounds[i + 1]]``."""
    first_offset: NDArray[np.int64]
    last_offset: NDArray[np.int64]
    max_timestamp: NDArray[np.int64]
    """Milliseconds, -1 for none."""

    @property
    def count(self) -> int:
        """How many entries."""
        return self.last_offset.size

    def between(self, first: int, last: int) -> Self:
        """Entries ``first`` to ``last`` (exclusive)."""
        part = slice(first, last)
        start, end = int(self.bounds[first]), int(self.bounds[last])
        return replace(
            self,
            data=memoryview(self.data)[start:end],
            bounds=self.bounds[first : last + 1] - start,
            first_offset=self.first_offset[part],
            last_offset=self.last_offset[part],
            max_timestamp=self.max_timestamp[part],
        )

    def with_epochs_up_to(self, highest: int) -> Self:
        """The entries with leader epochs from 0 to ``highest``, which no CRC covers; older formats have none."""
        if self.magic < MAGIC or not self.count:
            return self
        data = np.frombuffer(self.data, np.uint8).copy()
        places = self.bounds[:-1, None] + np.arange(LEADER_EPOCH_OFFSET, LEADER_EPOCH_OFFSET + 4)
        epochs = data[places].view(">i4")
        data[places] = np.clip(epochs, 0, highest).astype(">i4").view(np.uint8)
        return replace(self, data=data.data)

    @classmethod
    def join(
        cls,
        magic: int,
        pieces: list[bytes],
        first_offset: NDArray[np.int64],
        last_offset: NDArray[np.int64],
        max_timestamp: NDArray[np.int64],
    ) -> Self:
        """An entry a piece."""
        sizes = np.fromiter(map(len, pieces), np.int64, len(pieces))
        return cls(magic, b"".join(pieces), np.append(0, np.cumsum(sizes)), first_offset, last_offset, max_timestamp)
