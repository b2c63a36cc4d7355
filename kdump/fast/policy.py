"""From how many rows on columns are faster than single rows. All such numbers are here.

The numbers of a log include the import of numpy (about 0.1 s). Those of a chunk are about the cost of its numpy calls.
Both paths give the same results, so a number decides only about time. This module imports nothing, as every command
imports it.
"""

from __future__ import annotations

from typing import Final

SHOWN_BATCHES: Final = 60_000
"""Batches of a log that a reader shows by their headers."""
SHOWN_RECORDS: Final = 15_000
"""Records of a log that a reader shows."""
SHOWN_IN_CHUNK: Final = 500
"""Rows of a chunk that a reader shows."""

CHECKED_BATCHES: Final = 3000
"""Batches of a segment that is verified."""
CHECKED_RECORDS: Final = 20_000
"""Records of a segment that is verified."""
CHECKED_BYTES_IN_CHUNK: Final = 4096
"""Bytes of a chunk that is verified; chunks are this small between damaged places."""

CHECKED_LOGS: Final = 32
"""Logs that are verified one after the other. Small ones are read together."""

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
