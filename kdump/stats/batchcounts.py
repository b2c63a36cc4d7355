"""The figures of batches that no other batch changes, in a fold."""

from __future__ import annotations

from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from kdump.format.batch import CODEC_MASK, CONTROL, DELETE_HORIZON, LOG_APPEND_TIME
from kdump.stats.grouping import Assigned
from kdump.stats.sizes import Sizes
from kdump.stats.tally import LEAST, MOST, Columns, Tally, group_counts
from kdump.stats.timeline import Timeline

NO_TIMESTAMP_TYPE: Final = 0
CREATE_TIME_TYPE: Final = 1
LOG_APPEND_TIME_TYPE: Final = 2


class BatchFigures(Protocol):
    """The figures that batches are added to; ``stats.fold.StatsFold`` has them."""

    with_records: bool
    sums: Columns
    least: Columns
    most: Columns
    sizes: dict[str, Sizes]
    codecs: Tally
    magics: Tally
    timestamp_types: Tally
    timeline: Timeline


def count_batches(fold: BatchFigures, rows: NDArray[np.void], assigned: Assigned, *, is_untimed: bool = False) -> None:
    """Add batches to the figures that no other batch changes; ``is_untimed``: none has a timestamp."""
    size, count = rows["size"], np.maximum(rows["record_count"], 0).astype(np.int64)
    is_control = (rows["attributes"] & CONTROL != 0) & (rows["magic"] >= 2)
    is_valid = rows["is_valid"]
    fold.sums.add(
        assigned.ids,
        bytes=assigned.sums(size),
        batches=assigned.counts(np.ones(rows.size, np.bool_)),
        control_batches=assigned.counts(is_control),
        damaged_batches=assigned.counts(~is_valid),
        damaged_bytes=assigned.sums(np.where(is_valid, 0, size)),
    )
    fold.sizes["batch"].add(assigned, size)
    codec, magic = (rows["attributes"] & CODEC_MASK).astype(np.int64), rows["magic"].astype(np.int64)
    nothing = np.zeros_like(size)
    one = np.ones_like(size)
    # If records are added, they are counted there.
    counted = nothing if fold.with_records else count
    group_counts(fold.codecs, assigned, codec, one, counted, size, nothing, nothing)
    group_counts(fold.magics, assigned, magic, one, counted, size)
    fold.timeline.add_bytes(assigned, rows["max_timestamp"], size)
    if not fold.with_records:
        is_log_append_time = (rows["attributes"] & LOG_APPEND_TIME != 0) & (rows["magic"] > 0)
        types = timestamp_types(rows["magic"], is_log_append_time, is_untimed=is_untimed)
        group_counts(fold.timestamp_types, assigned, types, count)
        _count_headers(fold, rows, assigned, count, is_control)


def _count_headers(
    fold: BatchFigures,
    rows: NDArray[np.void],
    assigned: Assigned,
    count: NDArray[np.int64],
    is_control: NDArray[np.bool_],
) -> None:
    """Add what the headers of batches show of their records."""
    fold.sums.add(
        assigned.ids,
        records=assigned.sums(count),
        control_records=assigned.sums(np.where(is_control, count, 0)),
    )
    is_known = rows["base_offset"] > LEAST
    first = np.where(is_known, rows["base_offset"], rows["last_offset"])
    latest = rows["max_timestamp"]
    # The cleaner stores the delete horizon in the place of the first timestamp (KIP-534).
    is_stored = (rows["attributes"] & (DELETE_HORIZON | LOG_APPEND_TIME) == 0) | (rows["magic"] < 2)
    is_first = is_stored & (rows["base_timestamp"] >= 0) & (rows["base_timestamp"] < latest)
    earliest = np.where(is_first, rows["base_timestamp"], latest)
    fold.least.add(
        assigned.ids,
        offset=assigned.minima(first, MOST),
        timestamp=assigned.minima(np.where(earliest < 0, MOST, earliest), MOST),
    )
    fold.most.add(
        assigned.ids,
        offset=assigned.maxima(rows["last_offset"], LEAST),
        timestamp=assigned.maxima(np.where(latest < 0, LEAST, latest), LEAST),
    )
    fold.timeline.add_records(assigned, latest, count)


def timestamp_types(
    magic: NDArray[np.int64], is_log_append_time: NDArray[np.bool_], *, is_untimed: bool
) -> NDArray[np.int64]:
    """The timestamp type of each row; ``is_untimed``: none has a timestamp."""
    return np.where(
        (magic == 0) | is_untimed,
        NO_TIMESTAMP_TYPE,
        np.where(is_log_append_time, LOG_APPEND_TIME_TYPE, CREATE_TIME_TYPE),
    )
