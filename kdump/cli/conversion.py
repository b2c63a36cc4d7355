"""What becomes of logs that ``kdump convert`` and ``kdump restore`` write anew."""

from __future__ import annotations

from collections.abc import Sequence

import click

from kdump.cli.console import Console
from kdump.cli.logday import on_day_of_logs
from kdump.cli.options.convert import KEEP, ConversionArguments
from kdump.convert.conversion import Conversion
from kdump.format.batch import CODEC_NAMES
from kdump.inputs import Input
from kdump.reading.selection import Range
from kdump.wire.compression import LEVELS


def conversion_of(given: ConversionArguments, sources: Sequence[Input], console: Console) -> Conversion:
    """What is asked for. UsageError for times without a day, where the logs of ``sources`` do not tell it."""
    return Conversion(
        to_magic=given.to_magic,
        codec=None if given.codec == KEEP else CODEC_NAMES.index(given.codec),
        level=given.level,
        offsets=given.offsets or Range(),
        times=on_day_of_logs(given.times, sources, console),
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
