"""What becomes of logs that ``kdump convert`` and ``kdump restore`` write anew: options of both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import click

from kdump.cli.arguments import ConversionArguments
from kdump.cli.logday import on_day_of_logs
from kdump.cli.options import OptionGroup, option
from kdump.cli.params import ClockRange, OffsetRange, TimeRange
from kdump.convert.conversion import Conversion
from kdump.format.batch import CODEC_NAMES, MAGIC
from kdump.inputs import Input
from kdump.log.names import MAX_OFFSET
from kdump.reading.selection import Range
from kdump.wire.compression import LEVELS

_Function = TypeVar("_Function", bound=Callable[..., Any])
_KEEP: Final = "keep"

_OPTIONS: Final = (
    option(
        OptionGroup.WRITE,
        "--to-magic",
        type=click.IntRange(0, MAGIC),
        metavar="0|1|2",
        help="Message format of the result.",
    ),
    option(
        OptionGroup.WRITE,
        "--codec",
        type=click.Choice([_KEEP, *CODEC_NAMES]),
        default=_KEEP,
        show_default="keep, as it is",
        help="Compression of the result.",
    ),
    option(
        OptionGroup.WRITE, "--level", type=int, metavar="N", help="Level of --codec: gzip 1-9, lz4 1-17, zstd up to 22."
    ),
    option(
        OptionGroup.CHOICE,
        "--offset",
        "offsets",
        type=OffsetRange(),
        metavar="A:B",
        help="Offsets A up to B, B left out.",
    ),
    option(
        OptionGroup.CHOICE,
        "--time",
        "times",
        type=TimeRange(takes_clock=True),
        metavar="T1..T2",
        help="Timestamps from T1 up to T2: ms, ISO 8601 (UTC), 12:21 of the log's day, -1h (an hour ago; s m h d w).",
    ),
    option(
        OptionGroup.CHOICE,
        "--isolation",
        type=click.Choice(["read_uncommitted", "read_committed"]),
        default="read_uncommitted",
        help="read_committed: without aborted transactions, up to the first open one.",
    ),
    option(
        OptionGroup.WRITE,
        "--renumber",
        type=click.IntRange(0, MAX_OFFSET),
        metavar="FROM",
        help="Number the records from FROM on.",
    ),
    option(
        OptionGroup.WRITE,
        "--split-bytes",
        type=click.IntRange(1),
        metavar="N",
        help="Begin a new segment before N bytes are over.",
    ),
    option(
        OptionGroup.WRITE,
        "--overwrite",
        is_flag=True,
        help="Replace files that are there; without it they are refused.",
    ),
    option(OptionGroup.DAMAGE, "--strict", is_flag=True, help="Write nothing when anything would be lost."),
)


def conversion_options(function: _Function) -> _Function:
    """All of them; the function takes them by the names in ConversionArguments."""
    for each in reversed(_OPTIONS):
        function = each(function)
    return function


def conversion_of(given: ConversionArguments, sources: Sequence[Input], note: Callable[[str], None]) -> Conversion:
    """What is asked for. UsageError for times without a day, where the logs of ``sources`` do not tell it."""
    times = given.times
    if isinstance(times, ClockRange):
        times = on_day_of_logs(times, sources, note)
    return Conversion(
        to_magic=given.to_magic,
        codec=None if given.codec == _KEEP else CODEC_NAMES.index(given.codec),
        level=given.level,
        offsets=given.offsets or Range(),
        times=times or Range(),
        read_committed=given.isolation == "read_committed",
        keep_open=given.open_transactions not in (None, "refuse"),
        renumber=given.renumber,
        split_bytes=given.split_bytes,
        limit=given.max_decompressed_size,
    )


def check_level(given: ConversionArguments) -> None:
    """UsageError for a level that the codec does not have."""
    if given.level is None:
        return
    lowest, highest = LEVELS[CODEC_NAMES.index(given.codec)]
    if not lowest <= given.level <= highest:
        raise click.UsageError(f"--level {given.level}: {given.codec} has levels {lowest} to {highest}")
