"""How transactions end in the segments after a damaged one: each segment is read once, however many before it ask.

A partition may have many damaged segments, each with transactions whose end lies far after it. What a segment says of
a producer is kept in a few numbers, and where the answer for an epoch comes next is known without a look at the
segments between, so the cost stays in proportion to the number of batches.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kdump.checks.table import BatchRow, row_at
from kdump.codes import KdumpError
from kdump.format import control
from kdump.format.batch import CONTROL, TRANSACTIONAL
from kdump.mend.soundrows import sound_rows_of

END_TXN: Final = (control.ABORT, control.COMMIT)
_ENDS_ALL: Final = 1 << 32
"""Above every epoch."""


class End(NamedTuple):
    """How a transaction goes on after the segment that it is open in.

    ``order`` rises with the place of what ends it, None: nothing does. ``marker``: that ends it, None where a batch
    of a later epoch does. ``timestamp``: of its last batch before that (ms), None without one.
    """

    order: int | None
    marker: BatchRow | None
    timestamp: int | None


@dataclass(slots=True)
class _InSegment:
    """What a segment says of a producer, up to the first end marker.

    ``rises``: (epoch, order, timestamp of the batch before) of the batches whose epoch is above all before.
    """

    segment: int
    rises: list[tuple[int, int, int | None]] = field(default_factory=list)
    timestamp: int | None = None
    marker: BatchRow | None = None
    marker_order: int = 0

    @property
    def strength(self) -> int:
        """Transactions of lower epochs end here."""
        if self.marker is not None:
            return _ENDS_ALL
        return self.rises[-1][0]


class _OfProducer:
    """A producer in all segments that mention it, in their order."""

    def __init__(self) -> None:
        self._segments: list[_InSegment] = []
        # The next segment in which transactions of higher epochs end than here; known as soon as it was read.
        self._stronger: list[int | None] = []
        self._open: list[int] = []

    def add(self, one: _InSegment) -> None:
        while self._open and self._segments[self._open[-1]].strength < one.strength:
            self._stronger[self._open.pop()] = len(self._segments)
        self._open.append(len(self._segments))
        self._segments.append(one)
        self._stronger.append(None)

    def end(self, segment: int, epoch: int) -> End:
        first = bisect_left(self._segments, segment, key=lambda one: one.segment)
        if first == len(self._segments):
            return End(None, None, None)
        number: int | None = first
        while number is not None and self._segments[number].strength <= epoch:
            number = self._stronger[number]
        if number is None:
            return End(None, None, self._segments[-1].timestamp)
        one = self._segments[number]
        before = self._segments[number - 1].timestamp if number > first else None
        rise = bisect_left(one.rises, epoch + 1, key=lambda rise: rise[0])
        if rise < len(one.rises):
            _, order, timestamp = one.rises[rise]
            return End(order, None, before if timestamp is None else timestamp)
        return End(one.marker_order, one.marker, before if one.timestamp is None else one.timestamp)


class LaterTransactions:
    """Answers about the segments of one partition; those who ask come in the order of the segments."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._newest = ""
        self._unreadable = -1
        self._producers: dict[int, _OfProducer] = {}
        self._order = 0

    def start(self, paths: Sequence[str]) -> int:
        """The number of the first of ``paths``, the segments after one."""
        start = self._numbers.get(paths[0], len(self._numbers)) if paths else 0
        known = len(self._numbers) - start
        if known > len(paths) or (known and paths[known - 1] != self._newest):
            # The directory has other segments now.
            self._numbers.clear()
            self._producers.clear()
            self._unreadable = -1
            return 0
        return start

    def end(self, producer_id: int, epoch: int, start: int) -> End:
        """How the transaction that is open before segment ``start`` ends, as far as was read."""
        known = self._producers.get(producer_id)
        return End(None, None, None) if known is None else known.end(start, epoch)

    def read_next(self, paths: Sequence[str], start: int) -> Iterable[int] | None:
        """Read one more of ``paths``, the first of which is number ``start``: the producers in it.

        None at the end, or after one that cannot be read.
        """
        number = len(self._numbers)
        if number - start >= len(paths) or self._unreadable >= start:
            return None
        path = paths[number - start]
        self._numbers[path] = number
        self._newest = path
        found: dict[int, _InSegment] = {}
        try:
            for rows in sound_rows_of(path):
                self._see(rows, number, found)
        except KdumpError:
            self._unreadable = number
        for producer_id, one in found.items():
            self._producers.setdefault(producer_id, _OfProducer()).add(one)
        return found

    def _see(self, rows: NDArray[np.void], number: int, found: dict[int, _InSegment]) -> None:
        for index in transactional(rows):
            row = row_at(rows, index)
            self._order += 1
            one = found.get(row.producer_id)
            if (one is not None and one.marker is not None) or (row.is_control and row.marker_type not in END_TXN):
                continue
            if one is None:
                one = found[row.producer_id] = _InSegment(number)
            if row.is_control:
                one.marker, one.marker_order = row, self._order
                continue
            if not one.rises or row.producer_epoch > one.rises[-1][0]:
                one.rises.append((row.producer_epoch, self._order, one.timestamp))
            one.timestamp = row.max_timestamp


def transactional(rows: NDArray[np.void]) -> list[int]:
    """Numbers of the batches of transactions and their markers."""
    wanted = (rows["producer_id"] >= 0) & (rows["magic"] >= 2) & (rows["attributes"] & (TRANSACTIONAL | CONTROL) != 0)
    numbers: list[int] = np.flatnonzero(wanted).tolist()
    return numbers
