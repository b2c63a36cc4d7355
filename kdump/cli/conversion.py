"""What ``kdump convert`` and ``kdump restore`` share: what becomes of logs that they write anew, and their end."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Final

import click

from kdump.cli.console import Console
from kdump.cli.logday import on_day_of_logs
from kdump.cli.options.convert import KEEP, ConversionArguments
from kdump.convert.conversion import Conversion
from kdump.format.batch import CODEC_NAMES
from kdump.inputs import Input
from kdump.reading.selection import Range
from kdump.wire.compression import LEVELS

_ENDING: Final = (signal.SIGTERM, signal.SIGHUP)


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


@contextmanager
def unwound() -> Iterator[None]:
    """SIGTERM and SIGHUP unwind this context, as an interrupt does, and then end the process.

    An ignored signal (``nohup``) stays ignored. For the main thread only.
    """
    caught: list[int] = []

    def unwind(number: int, frame: FrameType | None) -> None:
        # A second signal must not stop the cleaning up.
        for each in taken:
            signal.signal(each, signal.SIG_IGN)
        caught.append(number)
        raise KeyboardInterrupt

    taken = [number for number in _ENDING if signal.getsignal(number) is signal.SIG_DFL]
    for number in taken:
        signal.signal(number, unwind)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)
        if caught:
            os.kill(os.getpid(), caught[0])
