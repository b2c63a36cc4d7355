"""``--time 12:21..12:22``: on which day that is."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta

import click

from kdump.cli.console import Console
from kdump.inputs import Input, log_paths
from kdump.log.days import days_of_logs
from kdump.reading.selection import Range
from kdump.reading.timerange import ClockRange


def on_day_of_logs(times: Range | None, inputs: Sequence[Input], console: Console) -> Range:
    """Times without a day on the day of the logs, which is told. UsageError where they are not of one day."""
    if not isinstance(times, ClockRange):
        return times or Range()
    if not inputs:
        # What was named is not there, which was said.
        return times
    days = days_of_logs(log_paths(inputs))
    if days is None:
        raise click.UsageError(f"--time has no day, and no log tells it; today it is --time {_shown(times, _today())}")
    first, last = days
    if first != last:
        message = f"--time has no day, and the logs go from {first} to {last} (UTC)"
        raise click.UsageError(f"{message}; on the last day it is --time {_shown(times, last)}")
    console.note(f"--time {_shown(times, last)} (UTC), by the day of the log")
    return times.on(last)


def _today() -> date:
    return datetime.now(UTC).date()


def _shown(times: ClockRange, day: date) -> str:
    """The range as a user writes it."""
    wanted = times.on(day)
    return "..".join("" if bound is None else _moment(bound) for bound in (wanted.first, wanted.end))


def _moment(milliseconds: int) -> str:
    moment = datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=milliseconds)
    return moment.replace(tzinfo=None).isoformat(timespec="milliseconds" if milliseconds % 1000 else "seconds")
