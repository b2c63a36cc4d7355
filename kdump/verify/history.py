"""The newest batches of a partition, to recognize a batch that is there twice."""

from __future__ import annotations

from collections import deque
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from kdump.verify.table import BatchRow

MOST_ROWS = 1 << 17
"""How many batches back a duplicate is recognized; an older one counts as an overlap."""

_Key: TypeAlias = tuple[int, int, int, int, int]
_KEY_COLUMNS = ["base_offset", "last_offset", "size", "crc", "leader_epoch"]


class History:
    """Rows of valid batches, newest last. The lookup table is made at the first question."""

    def __init__(self) -> None:
        self._parts: deque[NDArray[np.void]] = deque()
        self._count = 0
        self._positions: dict[_Key, int] | None = None

    def add(self, rows: NDArray[np.void]) -> None:
        """Add the next rows in file order."""
        self._parts.append(rows)
        self._count += len(rows)
        while self._count > MOST_ROWS and len(self._parts) > 1:
            self._count -= len(self._parts.popleft())
        if self._positions is not None:
            if len(self._positions) > 2 * MOST_ROWS:
                self._positions = None
            else:
                self._fill(self._positions, rows)

    def find(self, row: BatchRow) -> int | None:
        """Position of an earlier batch with the same bytes as ``row``: same header fields, same right CRC.

        Among the rows added last, only batches before ``row`` count.
        """
        if self._positions is None:
            self._positions = {}
            for part in self._parts:
                self._fill(self._positions, part)
        position = self._positions.get((row.base_offset, row.last_offset, row.size, row.crc, row.leader_epoch))
        return None if position == row.position else position

    @staticmethod
    def _fill(positions: dict[_Key, int], rows: NDArray[np.void]) -> None:
        valid = rows[rows["is_valid"]]
        keys = zip(*(valid[name].tolist() for name in _KEY_COLUMNS), strict=True)
        pairs = zip(keys, valid["position"].tolist(), strict=True)
        for key, position in pairs:
            positions.setdefault(key, position)
