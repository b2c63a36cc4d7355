"""What people wait for, each against a peer in the same round: ``python -m tests.bench.shapes [ROUNDS]``.

Many small segments, old formats, a huge batch, batches of one record, tiny partitions, and the start of kdump.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Final

from tests.bench.cases import CACHE, DEEP, JSONL, PRINT, SHALLOW
from tests.bench.measure import java_tool_command
from tests.bench.pairs import Pair, kdump, pair_lines
from tests.harness import ROOT

_SEGMENT: Final = 256 << 10
_RECORDS: Final = 80
_HUGE: Final = 600_000
"""Records of the huge batch."""
_NAME: Final = f"{0:020d}.log"

_MAKE: Final = """
import sys
from pathlib import Path
from tests.bench.shapes import make
make(Path(sys.argv[1]), int(sys.argv[2]))
"""
_SCAN: Final = "import kdump, sys\nfor batch in kdump.scan(sys.argv[1]).to_reader(): pass"


def _batch(base_offset: int, records: int = _RECORDS) -> bytes:
    # What is imported counts as memory of the runs (see measure).
    from tests.harness.batches import v2_batch
    from tests.harness.fast_reference import Row

    rows = [Row(delta, delta, b"key-%06d" % delta, b"%d " % (base_offset + delta) * 20) for delta in range(records)]
    return v2_batch(rows, base_offset=base_offset)


def _message(magic: int, offset: int) -> bytes:
    from tests.harness.batches import message

    return message(magic, offset, b"key-%06d" % offset, b"v" * 100)


def _log(path: Path, entry: Callable[[int], bytes], step: int, size: int) -> int:
    """Write entries until the log has ``size`` bytes; ``step``: offsets of an entry. Returns the offset after them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    written = 0
    with path.open("wb") as file:
        for offset in count(0, step):
            if written >= size:
                return offset
            written += file.write(entry(offset))
    raise AssertionError("the loop returns")


def make(folder: Path, segments: int) -> None:
    """Write all that is read, of the size of so many segments."""
    from tests.bench.manyfiles import write_log_directory

    size = segments * _SEGMENT
    _log(folder / "one-log" / _NAME, _batch, _RECORDS, size)
    offset = 0
    for _ in range(segments):
        first, data = offset, b""
        while len(data) < _SEGMENT:
            data += _batch(offset)
            offset += _RECORDS
        path = folder / "segments" / f"{first:020d}.log"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
    for magic in (0, 1):
        path = folder / f"magic-{magic}" / _NAME
        _log(path, partial(_message, magic), 1, size)
    huge = min(_HUGE, size // 60)
    _log(folder / "huge-batch" / _NAME, lambda offset: _batch(offset, huge), huge, 1)
    _log(folder / "usual-batches" / _NAME, _batch, _RECORDS, (folder / "huge-batch" / _NAME).stat().st_size)
    _log(folder / "single-records" / _NAME, lambda offset: _batch(offset, 1), 1, size)
    middle = folder / "middle" / "topic-0" / _NAME
    _log(middle, _batch, _RECORDS, 4 * _SEGMENT)
    for number in range(1, segments // 4):
        path = folder / "middle" / f"topic-{number}" / _NAME
        path.parent.mkdir()
        os.link(middle, path)
    write_log_directory(folder / "partitions", 4 * segments, 1)
    write_log_directory(folder / "partition", 1, 1)
    _log(folder / "small" / _NAME, _batch, _RECORDS, 4 * _RECORDS * 100)


def _pairs(folder: Path) -> Iterator[Pair]:
    """What is measured of the files that ``make`` wrote."""

    def own(command: str, place: str, *words: str) -> list[str]:
        return kdump(command, *words, folder / place)

    def python(code: str, *words: str) -> list[str]:
        return [sys.executable, "-c", code, *words]

    def scan(place: str) -> list[str]:
        return python(_SCAN, str(folder / place))

    yield Pair("segments, deep / one log", own("dump", "segments", *DEEP), own("dump", "one-log", *DEEP), 1.3)
    yield Pair("segments, reader / one log", scan("segments"), scan("one-log"), 1.3)
    for magic, name, flags in (
        (1, "shallow", SHALLOW),
        *((magic, *one) for magic in (0, 1) for one in (("deep", DEEP), ("print", PRINT))),
    ):
        place = f"magic-{magic}"
        java = java_tool_command(flags, str(folder / place / _NAME))
        yield Pair(f"magic {magic}, {name} / Java", own("dump", place, *flags), java, 1 / 3)
    for name, flags in (("deep", DEEP), ("jsonl", (*PRINT, *JSONL))):
        commands = (own("dump", place, *flags) for place in ("huge-batch", "usual-batches"))
        yield Pair(f"huge batch, {name} / usual", *commands, 1.5)
    yield Pair("huge batch, reader / usual", scan("huge-batch"), scan("usual-batches"), 1.5)
    single = "single-records"
    yield Pair("single records, verify / deep", own("verify", single), own("dump", single, *DEEP), 2, 200)
    yield Pair("MiB partitions, verify / one log", own("verify", "middle", "-j", "1"), own("verify", "one-log"), 2)
    # With 1,024 partitions: 1.0 and 1.5 ms for each, where one alone takes 0.12 and 0.21 s, most of it the start.
    for command, goal in (("verify", 9), ("stats", 8)):
        yield Pair(
            f"partitions, {command} / one", own(command, "partitions", "-j", "1"), own(command, "partition"), goal
        )
    yield Pair("--version / import click", kdump("--version"), python("import click"), 1.5)
    yield Pair("small dump / import click", own("dump", "small", *DEEP), python("import click"), 3)
    yield Pair("small verify / import numpy", own("verify", "partition"), python("import click, numpy"), 2)


def shape_lines(rounds: int = 3, segments: int = 256) -> Iterator[str]:
    """The pairs over files of the size of so many segments.

    Raises:
        ToolchainMissingError: the Java tool cannot be run.
    """
    folder = CACHE / f"shapes-{segments}"
    if not folder.exists():
        unfinished = folder.with_suffix(".part")
        shutil.rmtree(unfinished, ignore_errors=True)
        # In another process: the memory of this one counts as that of the runs (see measure).
        subprocess.run([sys.executable, "-c", _MAKE, str(unfinished), str(segments)], cwd=ROOT, check=True)
        unfinished.rename(folder)
    yield from pair_lines("shape", _pairs(folder), rounds)


if __name__ == "__main__":
    for line in shape_lines(rounds=int(sys.argv[1]) if len(sys.argv) > 1 else 3):
        print(line, flush=True)
