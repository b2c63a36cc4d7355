"""Which rows of a batch table the ordered checks must look at one by one, by columns: it only accepts.

Left out are rows that go on where the one before ended (offsets, leader epoch, magic) and whose producer goes on where
its batch before ended (epoch, sequence, transactional bit). A left-out row changes nothing but what is the newest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kdump.fast.sequences import add_sequences
from kdump.format.batch import CONTROL, MAX_INT32, TRANSACTIONAL
from kdump.verify.table import UNKNOWN_OFFSET, cleaned

_MAX_INT64 = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Prefiltered:
    """What is left of a table.

    ``steps``: (row number, its place in the order is in question, the row of the same producer before it) in file
    order; the last is None where the producer is in no question, and -1 where no such row was left out.
    ``last_of_producers``: the newest row of each producer, where it is one that was left out.
    ``latest``: the largest timestamp in ms.
    """

    steps: Iterator[tuple[int, bool, int | None]]
    last_of_producers: list[int]
    are_cleaned: bool
    latest: int


def prefilter(rows: NDArray[np.void], base_offset: int | None) -> Prefiltered:
    """Sift ``rows`` (shape (rows,), one or more, of ``table.row_dtype``); ``base_offset``: of the file name."""
    by_order = _out_of_order(rows, base_offset) | ~rows["is_valid"]
    by_producer, before, last = _by_producer(rows)
    numbers = np.flatnonzero(by_order | by_producer)
    steps = zip(
        numbers.tolist(),
        by_order[numbers].tolist(),
        (
            place if asked else None
            for place, asked in zip(before[numbers].tolist(), by_producer[numbers].tolist(), strict=True)
        ),
        strict=True,
    )
    latest = int(rows["max_timestamp"].max(where=rows["is_valid"], initial=-1))
    return Prefiltered(steps, last, bool(cleaned(rows).any()), latest)


def _out_of_order(rows: NDArray[np.void], base_offset: int | None) -> NDArray[np.bool_]:
    """Shape (rows,): the row does not just go on where the one before ended; the first one always."""
    first, last = rows["base_offset"], rows["last_offset"]
    first = np.where(first == UNKNOWN_OFFSET, last, first)
    doubt = rows["is_after_gap"].copy()
    doubt[0] = True
    doubt[1:] |= np.where(rows["base_offset"][1:] == UNKNOWN_OFFSET, last[1:] <= last[:-1], first[1:] != last[:-1] + 1)
    doubt[1:] |= rows["magic"][1:] < rows["magic"][:-1]
    doubt[1:] |= rows["leader_epoch"][1:] < rows["leader_epoch"][:-1]
    doubt |= last < first
    if base_offset is not None:
        doubt |= (first < base_offset) | (last > min(base_offset + MAX_INT32, _MAX_INT64))
    return doubt


def _by_producer(rows: NDArray[np.void]) -> tuple[NDArray[np.bool_], NDArray[np.int64], list[int]]:
    """Whether each row is in question, the row of its producer before it, each producer's last row.

    Of the rows before and the last rows only those that are in no question themselves; -1: none.
    """
    doubt = np.zeros(rows.size, np.bool_)
    before = np.full(rows.size, -1, np.int64)
    mine = np.flatnonzero(rows["is_valid"] & (rows["producer_id"] >= 0))
    if not mine.size:
        return doubt, before, []
    mine = mine[np.argsort(rows["producer_id"][mine], kind="stable")]
    own = rows[mine]
    kind = own["attributes"] & (CONTROL | TRANSACTIONAL)
    sequence = own["base_sequence"].astype(np.int64)
    following = add_sequences(sequence, own["last_offset"] - own["base_offset"] + 1)
    goes_on = np.zeros(mine.size, np.bool_)
    goes_on[1:] = own["producer_id"][1:] == own["producer_id"][:-1]
    is_last = np.append(~goes_on[1:], True)
    before[mine[1:][goes_on[1:]]] = mine[:-1][goes_on[1:]]
    goes_on[1:] &= (kind[1:] == kind[:-1]) & (own["producer_epoch"][1:] == own["producer_epoch"][:-1])
    goes_on[1:] &= (sequence[1:] == following[:-1]) & (sequence[:-1] >= 0)
    holes = np.cumsum(rows["is_after_gap"] | ~rows["is_valid"])[mine]
    goes_on[1:] &= holes[1:] == holes[:-1]
    goes_on &= kind & CONTROL == 0
    doubt[mine] = ~goes_on
    before[(before >= 0) & doubt[before]] = -1
    return doubt, before, mine[goes_on & is_last].tolist()
