"""Many small logs read together: a step by columns costs as much for one small log as for a hundred.

Each log alone, of ten batches with ten records, takes 1.5 to 1.8 times the processor time for its whole partition.

The logs are put one after the other, and the checks of a segment run once over all of them. It only accepts: a log in
which they find something, or that they cannot prove clean, is read by itself (``verify.segment``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kdump.codes import Finding, KdumpError
from kdump.fast import policy
from kdump.inputs import PartitionFolder
from kdump.log.gaps import Gap
from kdump.log.memory import MemorySource
from kdump.log.opening import open_source
from kdump.log.resync import ResyncWalk
from kdump.log.source import Source
from kdump.verify.local import LocalChecks
from kdump.verify.segment import CheckOptions, FinishedReading, Rows
from kdump.verify.table import joined, read_rows

_SMALL: Final = 1 << 20
"""Bytes of the largest log that is read with others."""
_TOGETHER: Final = 4 << 20
"""Bytes of logs that are read together."""
_MOST_LOGS: Final = 128
"""Logs that are open at a time."""


class SmallLogs:
    """The logs that a run is about to check, some of which are read before they are asked for.

    Args:
        options: how deep.
        opened: opens a log.
    """

    def __init__(self, options: CheckOptions, opened: Callable[[str], Source] = open_source) -> None:
        self._options = options
        self._open = opened
        self._coming: Sequence[str] = ()
        self._numbers: dict[str, int] = {}
        self._opened: dict[str, Source] = {}
        self._clean: dict[Source, FinishedReading] = {}
        self._buffer = bytearray()

    def expect(self, partitions: Sequence[PartitionFolder]) -> None:
        """Note the partitions that come next, in their order. It forgets those that were expected before."""
        self._forget()
        paths = [path for partition in partitions for path in partition.paths]
        # Reading them together takes modules that a check of a few small logs does not need.
        self._coming = paths if len(paths) >= policy.CHECKED_LOGS else ()
        self._numbers = {path: number for number, path in enumerate(self._coming)}

    def open(self, path: str) -> Source:
        """Open a log. If it was expected, it and those after it are read. Raises as ``open_source``."""
        if path not in self._opened and (number := self._numbers.get(path)) is not None:
            self._forget()
            self._read_together(number)
        return self._opened.pop(path, None) or self._open(path)

    def reading(self, source: Source) -> FinishedReading | None:
        """The rows of a log that ``open`` returned, if it is known to be clean."""
        return self._clean.pop(source, None)

    def _forget(self) -> None:
        for source in self._opened.values():
            source.close()
        self._opened, self._clean = {}, {}

    def _read_together(self, number: int) -> None:
        """Read the expected log of this number and some of those after it."""
        logs: list[Source] = []
        bounds = [0]
        if not self._buffer:
            self._buffer = bytearray(_TOGETHER)
        buffer = memoryview(self._buffer)
        for path in self._coming[number : number + _MOST_LOGS]:
            # It is opened once: whoever gets it opened again wants to see what it holds then.
            self._numbers.pop(path)
            try:
                source = self._open(path)
            except KdumpError:
                # Who asks for it is told.
                continue
            self._opened[path] = source
            size = source.size
            if size is None or size > _SMALL:
                continue
            start = bounds[-1]
            try:
                is_whole = source.read_into(buffer[start : start + size], 0) == size
            except KdumpError:
                continue
            if is_whole:
                logs.append(source)
                bounds.append(start + size)
            if bounds[-1] > _TOGETHER - _SMALL:
                break
        for source, rows in zip(logs, self._clean_rows(buffer[: bounds[-1]], np.array(bounds)), strict=True):
            if rows is not None:
                self._clean[source] = FinishedReading((rows,) if rows.size else ())

    def _clean_rows(self, data: memoryview, bounds: NDArray[np.int64]) -> Iterator[Rows | None]:
        """The rows of each log, None if it may not be clean.

        Args:
            data: of all logs.
            bounds: shape (logs + 1,), rising: where each begins, and where the last one ends.
        """
        source = MemorySource("", data)
        local = LocalChecks(source, deep=self._options.deep, limit=self._options.limit)
        parts: list[Rows] = []
        findings: list[Finding] = []
        for item in ResyncWalk(source, chunk_size=max(1, len(data))).items():
            # A gap need not be judged: no row covers it.
            if not isinstance(item, Gap):
                rows = read_rows(item, is_after_gap=False)
                findings += local.check(item, rows, in_columns=True)
                findings += local.check_headers(rows)
                parts.append(rows)
        rows = joined(parts)
        begin, end = rows["position"], rows["position"] + rows["size"]
        wrong = ~rows["is_valid"]
        # A row begins where the one before ends, or it is the first one of a log.
        wrong[1:] |= (begin[1:] != end[:-1]) & np.isin(begin[1:], bounds, invert=True)
        wrong_before = np.concatenate(([0], np.cumsum(wrong)))
        first, after = np.searchsorted(begin, bounds[:-1]), np.searchsorted(begin, bounds[1:])
        accepted = wrong_before[first] == wrong_before[after]
        filled = np.flatnonzero(bounds[:-1] < bounds[1:])
        accepted[filled] &= first[filled] < after[filled]
        filled = filled[accepted[filled]]
        accepted[filled] = (begin[first[filled]] == bounds[filled]) & (end[after[filled] - 1] == bounds[filled + 1])
        positions = np.array([finding.position for finding in findings], np.int64)
        accepted[np.searchsorted(bounds, positions, side="right") - 1] = False
        rows["position"] -= np.repeat(bounds[:-1], after - first)
        rows["is_after_gap"] = False
        for is_clean, number, stop in zip(accepted.tolist(), first.tolist(), after.tolist(), strict=True):
            yield rows[number:stop] if is_clean else None
