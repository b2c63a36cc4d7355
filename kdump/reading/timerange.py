"""Ranges of times as people write them: ``T1..T2``."""

from __future__ import annotations

import re
import time
from datetime import UTC, date, datetime, timedelta
from typing import Final

from kdump.reading.selection import Range

_UNITS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_RELATIVE: Final = re.compile(r"-(\d{1,19})([smhdw])")
_TIME_OF_DAY: Final = re.compile(r"\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?Z?")
_MILLISECONDS: Final = re.compile(r"-?\d{1,1024}")


class ClockRange(Range):
    """A range of times of a day that is not known yet: ms after midnight (UTC)."""

    __slots__ = ()

    def on(self, day: date) -> Range:
        """The range on this day. It ends on the next day where its end is before its beginning."""
        midnight = _since_1970(datetime(day.year, day.month, day.day, tzinfo=UTC))
        is_over_night = self.first is not None and self.end is not None and self.end < self.first
        return Range(
            None if self.first is None else midnight + self.first,
            None if self.end is None else midnight + self.end + is_over_night * _UNITS["d"],
        )


def time_range(text: str, *, takes_clock: bool = False) -> Range:
    """The range of ``T1..T2``, of which either may be left out.

    Args:
        text: of bounds as ``moment`` takes them.
        takes_clock: ``12:21`` is taken too: on the day of the other bound, else the result is a ClockRange.

    Raises:
        ValueError: it is something else.
    """
    first, dots, end = text.partition("..")
    if not dots:
        raise ValueError(f"'{text}' is not T1..T2 (either may be left out)")
    if takes_clock and (_TIME_OF_DAY.fullmatch(first) or _TIME_OF_DAY.fullmatch(end)):
        return _clock_range(first, end)
    return Range(moment(first), moment(end))


def _clock_range(first: str, end: str) -> Range:
    """Bounds of which one or both are times of day. Raises ValueError."""
    clocks = ClockRange(_after_midnight(first), _after_midnight(end))
    if clocks.first is None and first:
        begin = moment(first) or 0
        found = clocks.on(_day(begin))
        return Range(begin, found.end)
    if clocks.end is None and end:
        stop = moment(end) or 0
        return Range(clocks.on(_day(stop)).first, stop)
    return clocks


def _day(milliseconds: int) -> date:
    try:
        return (datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=milliseconds)).date()
    except OverflowError:
        raise ValueError(f"{milliseconds} is on no day of a calendar") from None


def _after_midnight(text: str) -> int | None:
    """A time of day in ms after midnight; None for anything else."""
    if not _TIME_OF_DAY.fullmatch(text):
        return None
    clock = text.removesuffix("Z")
    if clock.startswith("24"):
        # Python takes it for the next day from 3.14 on.
        raise ValueError(f"'{text}' is no time of a day")
    try:
        moment = datetime.fromisoformat(f"1970-01-01T{'0' * (clock[1] == ':')}{clock}")
    except ValueError:
        raise ValueError(f"'{text}' is no time of a day") from None
    return _since_1970(moment.replace(tzinfo=UTC))


def moment(text: str) -> int | None:
    """A time in ms since 1970: that number, ISO 8601 (UTC unless it says otherwise), ``-1h`` (ago; s m h d w), ``now``.

    None for an empty text. Raises ValueError for anything else.
    """
    if not text:
        return None
    if _MILLISECONDS.fullmatch(text):
        return int(text)
    if text == "now":
        return int(time.time() * 1000)
    if _TIME_OF_DAY.fullmatch(text):
        day = datetime.now(UTC).date().isoformat()
        raise ValueError(f"'{text}' has no day: {day}T{text} is today's (UTC)")
    relative = _RELATIVE.fullmatch(text)
    if relative is not None:
        return int(time.time() * 1000) - int(relative[1]) * _UNITS[relative[2]]
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"'{text}' is no time (ms since 1970, ISO 8601, -1h or now)") from None
    if found.tzinfo is None:
        found = found.replace(tzinfo=UTC)
    return _since_1970(found)


def _since_1970(moment: datetime) -> int:
    """Milliseconds. Not through a float, which would lose some of far dates."""
    return (moment - datetime.fromtimestamp(0, UTC)) // _MILLISECOND


_MILLISECOND: Final = datetime.resolution * 1000
