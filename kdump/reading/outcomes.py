"""What became of a transaction."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Final

from kdump.format.batch import CONTROL, TRANSACTIONAL, BatchHeader

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

COMMITTED, ABORTED, OPEN = "committed", "aborted", "open"
OUTCOMES: Final = (COMMITTED, ABORTED, OPEN)
STATES: Final = (None, *OUTCOMES)
"""The outcomes by the numbers that ``Outcomes.column`` gives. None: the batch is in no transaction, or in a stream."""


class Outcomes(ABC):
    """The outcomes of the transactions of a log."""

    @abstractmethod
    def outcome(self, producer_id: int, offset: int) -> str | None:
        """The outcome of a producer's transactional batch at an offset; None: it cannot be known."""

    def state(self, header: BatchHeader) -> str | None:
        """The outcome of a batch's transaction; None also for batches outside of any, and for markers."""
        if not header.is_transactional or header.is_control:
            return None
        return self.outcome(header.producer_id, header.base_offset)

    def column(self, headers: NDArray[np.void]) -> NDArray[np.int8]:
        """``state`` of every batch as an index of STATES; shape (batches,)."""
        import numpy as np

        states = np.zeros(headers.size, np.int8)
        is_data = headers["attributes"] & (TRANSACTIONAL | CONTROL) == TRANSACTIONAL
        for row in np.flatnonzero(is_data).tolist():
            outcome = self.outcome(int(headers["producer_id"][row]), int(headers["base_offset"][row]))
            states[row] = STATES.index(outcome)
        return states


class LateOutcomes(Outcomes):
    """The outcomes of a log that is read for them when the first batch of a transaction is met.

    Most logs have no transactions, and need not be read twice.

    Args:
        read: reads the log; None from it: the log is a stream, whose outcomes cannot be known.
    """

    def __init__(self, read: Callable[[], Outcomes | None]) -> None:
        self._read = read

    @cached_property
    def _outcomes(self) -> Outcomes | None:
        return self._read()

    def outcome(self, producer_id: int, offset: int) -> str | None:
        """See Outcomes. KdumpError where the log cannot be read."""
        return None if self._outcomes is None else self._outcomes.outcome(producer_id, offset)
