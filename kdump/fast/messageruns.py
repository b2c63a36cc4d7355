"""How messages of magic 0 and 1 are put together into batches, as a producer's batch.size would do it."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from kdump.fast.recordtable import RecordGroups
from kdump.wire import compression

_RUN_BYTES: Final = 16 << 10
"""Messages of their own that are put into one batch or wrapper: a producer's batch.size."""
_RUN_OFFSETS: Final = 1 << 30


def message_runs(groups: RecordGroups) -> NDArray[np.int64]:
    """Runs of messages that become one batch or wrapper each: the first message of each run, and the end.

    A wrapper is a run of its own. Messages of a run have one timestamp type, and one timestamp if it is the broker's.
    """
    is_alone = groups.codec == compression.NONE
    offset = groups.table.offset[groups.bounds[:-1]]
    sizes = groups.table.key_size.astype(np.int64) + groups.table.value_size
    after = np.append(0, np.cumsum(sizes))[groups.bounds[1:]]
    is_cut = ~(is_alone[1:] & is_alone[:-1])
    for column in (groups.is_log_append_time, groups.magic, after // _RUN_BYTES, offset // _RUN_OFFSETS):
        is_cut |= column[1:] != column[:-1]
    is_cut |= groups.is_log_append_time[1:] & (groups.timestamp[1:] != groups.timestamp[:-1])
    is_cut |= np.diff(offset) <= 0
    return np.array([0, *(np.flatnonzero(is_cut) + 1), groups.count], np.int64)
