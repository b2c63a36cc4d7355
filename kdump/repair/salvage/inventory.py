"""The inventory of a log: every whole entry that can be found, whether it is good, and what lies between them.

An entry is good when its framing and CRC hold, nothing in it is an error, and Kafka's recovery goes on after it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kdump.codes import Codes, Finding, Severity
from kdump.format.batch import CODEC_MASK, parse_header
from kdump.kafka.failures import KafkaFailureError
from kdump.kafka.markers import InvalidRecordError, read_marker
from kdump.log.gaps import Gap
from kdump.log.resync import CheckedChunk, ResyncWalk
from kdump.log.source import Source
from kdump.repair.salvage.table import BatchArrays
from kdump.verify.entries import EntryChecks
from kdump.verify.headers import check_headers
from kdump.verify.table import BatchRow, control_batches, entry_of, read_rows, row_at, row_dtype

_NEVER_WRONG: Final = frozenset({Codes.MAGIC, Codes.PAYLOAD_TOO_LARGE})
"""With these an entry is still good: a right CRC gives the field, or the contents are too large to be checked."""


@dataclass(slots=True)
class Inventory:
    """The entries of a log in file order; they may overlap where two right CRCs contradict each other."""

    table: BatchArrays
    is_good: NDArray[np.bool_]
    faults: dict[int, str]
    """Number of an entry with a right CRC that is not good: what is wrong with it."""
    gaps: list[Gap]
    """In file order, without those that are overlaps."""

    def gaps_in(self, start: int, stop: int) -> list[Gap]:
        """Those with bytes from ``start`` to ``stop``."""
        first = bisect_right(self.gaps, start, key=lambda gap: gap.end)
        return self.gaps[first : bisect_left(self.gaps, stop, key=lambda gap: gap.position)]

    def numbers_at(self, positions: Sequence[int]) -> list[int]:
        """Numbers of the entries that begin at those of ``positions`` where one does."""
        table = self.table
        numbers = np.searchsorted(table.position, positions)
        within = np.minimum(numbers, max(0, len(table) - 1))
        found: list[int] = numbers[table.position[within] == positions].tolist() if len(table) else []
        return found

    def set_row(self, number: int, row: BatchRow) -> None:
        """Change fields that no CRC covers."""
        self.table.rows[number] = tuple(row)
        self.table = BatchArrays(self.table.rows)


def take_inventory(source: Source, *, deep: bool = True) -> Inventory:
    """Read a whole log.

    Args:
        source: the log.
        deep: decode every record; else an entry is good by its header and CRC (a marker by its record, too).

    Raises:
        KdumpError: a stream cannot be read.
    """
    checks = EntryChecks(deep=deep)
    parts: list[NDArray[np.void]] = []
    gaps: list[Gap] = []
    faults: dict[int, str] = {}
    is_after_gap = False
    count = 0
    for item in ResyncWalk(source).items():
        if isinstance(item, Gap):
            is_after_gap = True
            if not item.overlaps:
                gaps.append(item)
            continue
        rows = read_rows(item, is_after_gap)
        is_after_gap = not rows["is_valid"][-1]
        for position, reason in _faults(item, rows, checks):
            number = int(np.searchsorted(rows["position"], position))
            faults.setdefault(count + number, reason)
        parts.append(rows)
        count += rows.size
    rows = np.concatenate(parts) if parts else np.empty(0, row_dtype())
    for finding in check_headers(rows):
        if _is_fault(finding):
            faults.setdefault(int(np.searchsorted(rows["position"], finding.position)), finding.message)
    is_good = rows["is_valid"].copy()
    is_good[list(faults)] = False
    return Inventory(BatchArrays(rows), is_good, faults, gaps)


def _faults(chunk: CheckedChunk, rows: NDArray[np.void], checks: EntryChecks) -> Iterator[tuple[int, str]]:
    """(position, what is wrong) of entries that are not good; the header checks follow for all chunks at once."""
    for finding in checks.check(chunk, rows, in_columns=True):
        if _is_fault(finding):
            yield finding.position, finding.message
    for number in control_batches(rows):
        if rows["producer_id"][number] >= 0 and rows["attributes"][number] & CODEC_MASK:
            reason = _refusal(entry_of(chunk, row_at(rows, number)))
            if reason is not None:
                yield int(rows["position"][number]), reason


def _refusal(batch: memoryview) -> str | None:
    """Why recovery does not go on after a compressed marker, which the quick checks do not open."""
    try:
        read_marker(parse_header(batch), batch)
    except (InvalidRecordError, KafkaFailureError) as error:
        return str(error)
    return None


def _is_fault(finding: Finding) -> bool:
    return finding.severity is Severity.ERROR and finding.code not in _NEVER_WRONG


def examine(entry: memoryview, position: int) -> tuple[BatchRow, str | None]:
    """Check one whole entry with a right CRC to its last record: its row, and what is wrong with it (None: nothing)."""
    chunk = CheckedChunk(entry, position, [0], len(entry), [])
    rows = read_rows(chunk, is_after_gap=False)
    checks = EntryChecks()
    # The checks fill in what only the records of an entry tell.
    found = list(checks.check(chunk, rows, in_columns=False))
    errors = (one.message for one in (*check_headers(rows), *found) if one.severity is Severity.ERROR)
    return row_at(rows, 0), next(errors, None)
