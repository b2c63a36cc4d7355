"""Where kdump's time goes: ``python -m tests.bench.split FILE [FLAG]`` runs one dump with a stopwatch at each stage.

Run as a process of its own by ``python -m tests.bench``. Prints one line for each stage: its name and its seconds.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from kdump.cli.main import cli
from kdump.fast import blocks
from kdump.log.source import FileSource
from kdump.reading import view
from kdump.system.blocks import BlockWriter
from kdump.wire import compression

STAGES: tuple[tuple[str, object, str], ...] = (
    ("read", FileSource, "read_into"),
    ("crc", blocks, "_crcs"),
    ("crc", view, "crc32c"),
    ("decompress", compression, "decompress"),
    ("decode", blocks, "decode_records"),
    ("write", BlockWriter, "write"),
)
"""Stages and the functions that do them; none of them calls another. The rest is walking and text."""

REST = "walk, text"


def timed(owner: object, name: str, seconds: dict[str, float], stage: str) -> None:
    """Put a stopwatch around ``owner.name``. AttributeError when kdump has it no longer."""
    function: Callable[..., Any] = getattr(owner, name)

    def measured(*arguments: Any, **keywords: Any) -> Any:
        begin = time.perf_counter()
        try:
            return function(*arguments, **keywords)
        finally:
            seconds[stage] += time.perf_counter() - begin

    setattr(owner, name, measured)


def main(path: str, *flags: str) -> None:
    """Dump ``path`` to standard output, the table to standard error."""
    seconds = {stage: 0.0 for stage, _, _ in STAGES}
    for stage, owner, name in STAGES:
        timed(owner, name, seconds, stage)
    begin = time.perf_counter()
    cli.main(["dump", *flags, path], prog_name="kdump", standalone_mode=False)
    total = time.perf_counter() - begin
    for stage, spent in {**seconds, REST: total - sum(seconds.values()), "total": total}.items():
        print(f"{stage}\t{spent:.3f}", file=sys.stderr)


if __name__ == "__main__":
    main(*sys.argv[1:])
