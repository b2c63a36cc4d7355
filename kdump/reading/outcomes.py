"""What became of a transaction."""

from __future__ import annotations

from typing import Final

COMMITTED, ABORTED, OPEN = "committed", "aborted", "open"
OUTCOMES: Final = (COMMITTED, ABORTED, OPEN)
STATES: Final = (None, *OUTCOMES)
"""The outcomes by the numbers that ``Transactions.column`` gives. None: the batch is not transactional."""
