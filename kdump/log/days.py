"""The days that logs are of, by the timestamps of a few of their entries."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from itertools import groupby
from typing import Final

from kdump.codes import KdumpError
from kdump.format.batch import HEADER_SIZE, parse_header
from kdump.format.legacy import parse_message
from kdump.log.gaps import Gap
from kdump.log.heads import read_head
from kdump.log.names import base_of
from kdump.log.opening import open_source
from kdump.log.resync import ResyncWalk
from kdump.log.siblings import rising_entries
from kdump.log.source import Source
from kdump.log.tail import TailBounds, newest_entry

_END: Final = 253_402_300_800_000
"""The end of the year 9999 (ms)."""


def days_of_logs(logs: Iterable[str]) -> tuple[date, date] | None:
    """The first and the last day (UTC) of some logs; None where no entry has a timestamp.

    Timestamps that are on no day of a calendar do not count.
    Only the first entry of each log is looked at, and the newest entry of the last log of each directory.

    Args:
        logs: paths; those of a directory follow one another in offset order. One that cannot be read is left out.
    """
    found = [
        timestamp
        for _, own in groupby(logs, key=os.path.dirname)
        for timestamp in _timestamps(list(own))
        if 0 <= timestamp < _END
    ]
    return (_day(min(found)), _day(max(found))) if found else None


def _timestamps(logs: list[str]) -> Iterator[int]:
    """Timestamps (ms) of the logs of one directory; -1 where an entry has none."""
    for log in logs:
        with suppress(KdumpError), open_source(log) as source:
            first = _first_entry(source)
            if first is None:
                continue
            yield _timestamp(source, first)
            if log == logs[-1]:
                index = rising_entries(log, base_of(log))
                newest = newest_entry(source, first, TailBounds(), index, is_settled=True, take_one=True)
                if newest is not None:
                    yield _timestamp(source, newest.start)


def _first_entry(source: Source) -> int | None:
    """The position of the first valid entry."""
    for item in ResyncWalk(source).items():
        if not isinstance(item, Gap):
            damaged = set(item.damaged)
            return next((item.position + at for n, at in enumerate(item.starts) if n not in damaged), None)
    return None


def _timestamp(source: Source, position: int) -> int:
    data = source.read(position, HEADER_SIZE)
    head = read_head(data, 0, len(data), position)
    assert head is not None, "an entry begins here"
    return parse_header(data).max_timestamp if head.magic >= 2 else parse_message(memoryview(data)).timestamp


def _day(milliseconds: int) -> date:
    return (datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=milliseconds)).date()
