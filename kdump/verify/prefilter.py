"""Which rows of a batch table the ordered checks must read one by one, found by columns. It only accepts.

Rows are left out that continue where the row before ended (offsets, leader epoch, magic) and whose producer continues
where its batch before ended (epoch, sequence, transactional bit). Such a row only becomes the newest one.
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

    ``steps``: (row number, whether its order is to be checked, the row of the same producer before it) in file order.
    The last is None if the producer needs no check, and -1 where no row of the producer was left out.
    ``last_of_producers``: the newest row of each producer, where it is one that was left out.
    ``latest``: the largest timestamp in ms.
    """

    steps: Iterator[tuple[int, bool, int | None]]
    last_of_producers: list[int]
    are_cleaned: bool
    latest: int


def prefilter(rows: NDArray[np.void], base_offset: int | None) -> Prefiltered:
    """Filter ``rows`` (shape (rows,), one or more, of ``table.row_dtype``); ``base_offset``: of the file name."""
    by_order = _out_of_order(rows, base_offset) | ~rows["is_valid"]
    is_asked, before, last = _by_producer(rows)
    numbers = (by_order | is_asked).nonzero()[0]
    steps = zip(
        numbers.tolist(),
        by_order[numbers].tolist(),
        (
            place if asked else None
            for place, asked in zip(before[numbers].tolist(), is_asked[numbers].tolist(), strict=True)
        ),
        strict=True,
    )
    latest = int(rows["max_timestamp"].max(where=rows["is_valid"], initial=-1))
    return Prefiltered(steps, last, bool(cleaned(rows).any()), latest)


def _out_of_order(rows: NDArray[np.void], base_offset: int | None) -> NDArray[np.bool_]:
    """Whether each row does not just continue where the row before ended; True for the first one; shape (rows,)."""
    first, last = rows["base_offset"], rows["last_offset"]
    suspect: NDArray[np.bool_] = rows["is_after_gap"].copy()
    suspect[0] = True
    follows = np.where(first[1:] == UNKNOWN_OFFSET, last[1:] > last[:-1], first[1:] == last[:-1] + 1)
    follows &= rows["magic"][1:] >= rows["magic"][:-1]
    follows &= rows["leader_epoch"][1:] >= rows["leader_epoch"][:-1]
    suspect[1:] |= ~follows
    first = np.where(first == UNKNOWN_OFFSET, last, first)
    suspect |= last < first
    if base_offset is not None:
        most = min(base_offset, _MAX_INT64 - MAX_INT32) + MAX_INT32
        suspect |= (first < base_offset) | (last > most)
    return suspect


def _by_producer(rows: NDArray[np.void]) -> tuple[NDArray[np.bool_], NDArray[np.int64], list[int]]:
    """Which rows are suspects, the row of the same producer before each, the last row of each producer.

    Rows before and last rows only count if they are no suspects themselves; -1: none.
    """
    suspect = np.zeros(rows.size, np.bool_)
    before = np.full(rows.size, -1, np.int64)
    mine = (rows["is_valid"] & (rows["producer_id"] >= 0)).nonzero()[0]
    if not mine.size:
        return suspect, before, []
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
    gaps = np.cumsum(rows["is_after_gap"] | ~rows["is_valid"])[mine]
    goes_on[1:] &= gaps[1:] == gaps[:-1]
    goes_on &= kind & CONTROL == 0
    suspect[mine] = ~goes_on
    before[(before >= 0) & suspect[before]] = -1
    return suspect, before, mine[goes_on & is_last].tolist()
