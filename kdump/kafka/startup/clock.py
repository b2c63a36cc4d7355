"""The default clock of a start: the time at which a broker stopped, as if it were started right after.

So a copy gives the same answer on any day. Only expiry depends on the clock
(docs/spec/startup.md#rule-20-from-a-snapshot).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kdump.format.batch import MAGIC_OFFSET, parse_header
from kdump.format.index import OFFSET_ENTRY_SIZE
from kdump.format.legacy import parse_message
from kdump.kafka.startup.directory import Directory
from kdump.kafka.startup.names import INDEX, LOG
from kdump.log.resync import CheckedChunk, ResyncWalk

_LARGEST_INDEX: Final = 64 << 20


class Clock:
    """What a start uses as the present time.

    Args:
        directory: the files before the start.
        now: the given time, ms; None: see the module.
    """

    def __init__(self, directory: Directory, now: int | None) -> None:
        # The clock reads other parts than a broker, and they must still be there after the broker has cut them off.
        self._directory = Directory(directory.path, directory.before)
        self._now = now

    def now(self) -> int:
        """The time in ms. Raises KdumpError if a log cannot be opened."""
        if self._now is None:
            self._now = _newest_timestamp(self._directory)
        return self._now


def _newest_timestamp(directory: Directory) -> int:
    """The largest timestamp (ms) of the valid batches after the last index entry, in the last log that has such.

    If no log has one it is 0: nothing is older.
    """
    for name in reversed(directory.names()):
        if name.endswith(LOG) and directory[name].size:
            start = _last_indexed(directory, name.removesuffix(LOG) + INDEX)
            found = max(_timestamps(directory, name, start), default=None)
            if found is None and start:
                found = max(_timestamps(directory, name, 0), default=None)
            if found is not None:
                return found
    return 0


def _last_indexed(directory: Directory, name: str) -> int:
    """The position in the last entry of an .index, after which zeros may follow; 0 without one."""
    content = directory.get(name)
    if content is None or content.size > _LARGEST_INDEX:
        return 0
    entries = directory.read(name).rstrip(b"\0")
    whole = entries.ljust(-(-len(entries) // OFFSET_ENTRY_SIZE) * OFFSET_ENTRY_SIZE, b"\0")
    return int.from_bytes(whole[-OFFSET_ENTRY_SIZE // 2 :], "big")


def _timestamps(directory: Directory, name: str, start: int) -> Iterator[int]:
    with directory.open(name) as source:
        if start >= (source.size or 0):
            return
        for chunk in ResyncWalk(source, start=start).items():
            if isinstance(chunk, CheckedChunk):
                damaged = set(chunk.damaged)
                for number, (first, last) in enumerate(chunk.entries()):
                    if number not in damaged:
                        entry = chunk.data[first:last]
                        is_v2 = entry[MAGIC_OFFSET] >= 2
                        yield parse_header(entry).max_timestamp if is_v2 else parse_message(entry).timestamp
