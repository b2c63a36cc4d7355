"""Record starts of many batches, found by adding up record lengths in step.

Step k reads the k-th record length of every batch that still has one, as numpy vectors. Batches are lanes, sorted by
descending record count, so that the active ones come first. When few lanes are left (one huge batch), a numpy step
would cost more than a loop, and each lane is walked alone.
"""

from __future__ import annotations

import struct
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kdump.fast.lanes import descending, lanes_left
from kdump.fast.varints import INT32_BYTES, MALFORMED, read_varint, read_varints, zigzag

MIN_RECORD_SIZE: Final = 7
"""Length, attributes, timestamp, offset, key, value and header count: a byte each."""
FEW_LANES: Final = 20
"""Below this many lanes a numpy step (1.7 us) is slower than a Python loop over the lanes (0.09 us each)."""


def _hop_table() -> NDArray[np.int64]:
    """Bytes from a record's start to the next one, by its first two bytes read as a little-endian uint16.

    0: the length has more than two bytes or is negative.
    """
    pair = np.arange(1 << 16, dtype=np.int64)
    first, second = pair & 0xFF, pair >> 8
    is_short = first < 0x80
    raw = np.where(is_short, first, first & 0x7F | second << 7)
    hop: NDArray[np.int64] = np.where(is_short, 1, 2) + (raw >> 1)
    hop[(raw & 1 == 1) | (~is_short & (second >= 0x80))] = 0
    return hop


_HOPS: Final = _hop_table()
_PAIR: Final = struct.Struct("<H").unpack_from


@cache
def _hop_list() -> list[int]:
    hops: list[int] = _HOPS.tolist()
    return hops


def walk_records(
    arena: NDArray[np.uint8],
    body_start: NDArray[np.int64],
    body_end: NDArray[np.int64],
    count: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Find where each record starts.

    ``body_start``, ``body_end``, ``count``: shape (batches,); records of batch b lie in
    ``arena[body_start[b]:body_end[b]]``. Returns the starts of all records of the fitting batches, batch by batch,
    and ``fits`` of shape (batches,): the batch's record lengths fill its body exactly. A batch of count 0 always
    fits (Kafka does not look at its body). Work is bounded by the bytes of the bodies.
    """
    fits = (body_start >= 0) & (body_end <= arena.size) & (count >= 0)
    fits &= count <= (body_end - body_start) // MIN_RECORD_SIZE
    fits |= count == 0
    lanes = np.flatnonzero(fits & (count > 0))
    if not lanes.size:
        return np.empty(0, np.int64), fits
    lane_count = count[lanes]
    first_row = np.cumsum(lane_count) - lane_count
    starts = np.empty(int(lane_count.sum()), np.int64)
    order = descending(lane_count)
    lanes_fit = np.empty(lanes.size, np.bool_)
    lanes_fit[order] = _walk_lanes(
        arena,
        starts,
        position=body_start[lanes[order]],
        end=body_end[lanes[order]],
        count=lane_count[order],
        row=first_row[order],
    )
    if not lanes_fit.all():
        starts = starts[np.repeat(lanes_fit, lane_count)]
        fits[lanes[~lanes_fit]] = False
    return starts, fits


def _walk_lanes(
    arena: NDArray[np.uint8],
    starts: NDArray[np.int64],
    *,
    position: NDArray[np.int64],
    end: NDArray[np.int64],
    count: NDArray[np.int64],
    row: NDArray[np.int64],
) -> NDArray[np.bool_]:
    """Walk lanes sorted by descending ``count`` (> 0), writing ``starts`` from each lane's first ``row`` on.

    ``position`` is used up. Returns which lanes end exactly at ``end``. A lane that has left its body hops on in its
    neighbours' bytes; positions only grow, so it cannot come back to its end.
    """
    steps = int(count[FEW_LANES - 1]) if count.size >= FEW_LANES else 0
    _walk_in_step(arena, starts, position, row, lanes_left(count, np.arange(steps)))
    fits: NDArray[np.bool_] = position == end
    for lane in range(int(lanes_left(count, np.array(steps)))):
        found = _walk_alone(arena[position[lane] : end[lane]].tobytes(), int(count[lane]) - steps)
        fits[lane] = found is not None
        if found is not None:
            first = int(row[lane]) + steps
            starts[first : first + len(found)] = found
            starts[first : first + len(found)] += position[lane]
    return fits


def _walk_in_step(
    arena: NDArray[np.uint8],
    starts: NDArray[np.int64],
    position: NDArray[np.int64],
    row: NDArray[np.int64],
    lanes: NDArray[np.intp],
) -> None:
    """Move each ``position`` over the records of its lane; step k those of the first ``lanes[k]``, one or more.

    What all steps need only once is done after them, because each call costs more than its few values.
    """
    ends = np.cumsum(lanes)
    found = np.empty(int(lanes.sum()), np.int64)
    pairs: NDArray[np.uint16] = np.ndarray((arena.size - 1,), "<u2", arena, 0, (1,))
    first = 0
    for active, last in zip(lanes.tolist(), ends.tolist(), strict=True):
        at = position[:active]
        found[first:last] = at
        first = last
        try:
            pair = pairs[at]
        except IndexError:  # a lane that has left its body
            if at.min() >= MALFORMED:
                break  # all have left
            pair = pairs[np.minimum(at, pairs.size - 1)]
        hop = _HOPS.take(pair)
        if np.count_nonzero(hop) != active:
            _hop_long(arena, at, hop)
        at += hop
    lane = np.arange(found.size) - np.repeat(ends - lanes, lanes)
    starts[row.take(lane) + np.repeat(np.arange(lanes.size), lanes)] = found


def walk_some(arena: NDArray[np.uint8], start: int, count: int, size: int) -> tuple[list[int], int] | None:
    """The starts of up to ``count`` records from ``start`` on that begin within ``size`` bytes, one or more.

    Returns them, relative to ``start``, and where the last one ends, which may be after the arena; None for a length
    that is negative, malformed or cut.
    """
    starts, end = _hop_alone(arena[start : start + size + INT32_BYTES].tobytes(), count)
    while starts and starts[-1] >= size:
        end = starts.pop()
    if len(starts) < count and end < size:
        return None
    return starts, start + end


def _hop_long(arena: NDArray[np.uint8], at: NDArray[np.int64], hop: NDArray[np.int64]) -> None:
    """Fill in the hops that the table does not know. A negative or malformed length hops over every end."""
    rows = np.flatnonzero(hop == 0)
    raw, following = read_varints(arena, at[rows])
    size = zigzag(raw)
    following += size
    following[size < 0] = MALFORMED
    # A lane that has left its body is not moved again: positions stay far below the int64 limit.
    hop[rows] = np.where(at[rows] < MALFORMED, np.minimum(following, MALFORMED) - at[rows], 0)


def _walk_alone(body: bytes, count: int) -> list[int] | None:
    """Record starts in a body of ``count`` records, relative to it; None unless the lengths fill it exactly."""
    starts, end = _hop_alone(body, count)
    return starts if len(starts) == count and end == len(body) else None


def _hop_alone(body: bytes, count: int) -> tuple[list[int], int]:
    """The starts of up to ``count`` records, and where the last one ends.

    They end early in front of a length that is negative, malformed or cut; only the last one may leave the body.
    """
    starts: list[int] = []
    position = 0
    hops = _hop_list()
    try:
        for _ in range(count):
            starts.append(position)
            hop = hops[_PAIR(body, position)[0]]
            if not hop:
                raw, following = read_varint(body, position)
                if raw & 1:
                    break
                hop = following + (raw >> 1) - position
            position += hop
        else:
            return starts, position
    except (IndexError, ValueError, struct.error):
        pass
    end = starts.pop()
    return starts, end
