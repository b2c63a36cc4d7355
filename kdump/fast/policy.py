"""From how many rows on columns are faster than single rows. All such numbers are here.

The numbers of a run or a log include the import of numpy (about 0.1 s). Those of a chunk are about the cost of its
numpy calls. Both paths give the same results, so a number decides only about time. This module imports nothing that is
slow, as every command imports it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Final

SHOWN: Final = 15_000
"""Batches or records that a run shows. Row by row they take longer than the import of numpy."""
SHOWN_IN_CHUNK: Final = 200
"""Rows of a chunk that a reader shows alone. For fewer, numpy calls take longer than the rows: about 0.5 ms.

12,000 logs of ten batches would take twice the time. The records of small logs that follow one another are made
together (``reading.joint``), however few each has; batches, and records that a filter selects, are not.
"""

CHECKED_BATCHES: Final = 3000
"""Batches that a run verifies. One by one they take longer than the import of what reads them as columns."""
CHECKED_RECORDS: Final = 20_000
"""Records that a run verifies."""
CHECKED_BYTES_IN_CHUNK: Final = 4096
"""Bytes of a chunk that is verified; chunks are this small between damaged places."""

RECOVERED_BATCHES: Final = 60_000
"""Batches that a model of a broker has read before it takes the next ones as columns."""
BATCHES_IN_CHUNK: Final = 64
"""Batches of a chunk of which only headers are read."""

TIMED_BATCHES: Final = 200
"""Batches whose largest record timestamps are wanted."""

_STREAM_CHUNKS: Final = 16
"""How many chunks a stream is taken to have when its first one is full."""


def expected(rows: int, chunk_size: int, log_size: int | None) -> int:
    """How many rows a log has, if its first chunk of ``chunk_size`` bytes has ``rows``.

    ``log_size``: bytes; None: a stream, whose size is unknown.
    """
    return rows * max(1, _STREAM_CHUNKS if log_size is None else log_size // chunk_size)


class ShownRows:
    """Whether a run shows rows as columns: where it has enough of them, or numpy is loaded. It is decided once.

    Args:
        size: bytes of all logs of the run, as far as they are known.
    """

    def __init__(self, size: int = 0) -> None:
        self._size = size
        self.is_decided = False

    def are_columns(self, rows: int, chunk_size: int, log_size: int | None, *, is_joint: bool = False) -> bool:
        """Of the next chunk.

        Args:
            rows: of the chunk.
            chunk_size: its bytes.
            log_size: see ``expected``.
            is_joint: the rows of the logs after it may be made with its own.
        """
        if rows < SHOWN_IN_CHUNK and not is_joint:
            return False
        size = None if log_size is None else max(log_size, self._size)
        self.is_decided = self.is_decided or "numpy" in sys.modules or expected(rows, chunk_size, size) >= SHOWN
        return self.is_decided


class CheckedRows:
    """Whether a run checks the records of logs as columns: from the log on with which it has enough of them."""

    def __init__(self) -> None:
        self._batches = self._records = 0

    def are_columns(self, batches: int, records: Callable[[], int], chunk_size: int, log_size: int | None) -> bool:
        """Of the next log.

        Args:
            batches: of its first chunk.
            records: counts those of the chunk. It is called until there are enough.
            chunk_size: bytes of the chunk.
            log_size: see ``expected``.
        """
        if self._batches < CHECKED_BATCHES and self._records < CHECKED_RECORDS:
            self._batches += expected(batches, chunk_size, log_size)
            self._records += expected(records(), chunk_size, log_size)
        return self._batches >= CHECKED_BATCHES or self._records >= CHECKED_RECORDS
