"""What people wait for, each against a peer in the same round: ``python -m tests.bench.shapes [ROUNDS]``.

Many small segments, old formats, a huge batch, batches of one record, tiny partitions, and the start of kdump.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from statistics import median
from typing import Final

from tests.bench.cases import CACHE, DEEP, JSONL, PRINT, SHALLOW
from tests.bench.measure import Usage, java_tool_command, run
from tests.harness import ROOT

_MIB: Final = 1 << 20
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


@dataclass(frozen=True, slots=True)
class Shape:
    """A command and its peer; ``goal`` is the most that it may take, in times of the peer's processor time.

    ``most``: MiB of memory that it may take; 0: no goal.
    """

    name: str
    own: Callable[[Path], Sequence[str]]
    peer: Callable[[Path], Sequence[str]]
    goal: float
    most: int = 0


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
    write_log_directory(folder / "partitions", 4 * segments, 1)
    write_log_directory(folder / "partition", 1, 1)
    _log(folder / "small" / _NAME, _batch, _RECORDS, 4 * _RECORDS * 100)


def _kdump(place: str, *words: str) -> Callable[[Path], Sequence[str]]:
    return lambda folder: [sys.executable, "-m", "kdump", *words, str(folder / place)]


def _scan(place: str) -> Callable[[Path], Sequence[str]]:
    return lambda folder: [sys.executable, "-c", _SCAN, str(folder / place)]


def _java(place: str, flags: Sequence[str]) -> Callable[[Path], Sequence[str]]:
    return lambda folder: java_tool_command(flags, str(folder / place / _NAME))


def _python(code: str) -> Callable[[Path], Sequence[str]]:
    return lambda folder: [sys.executable, "-c", code]


def _version(_: Path) -> Sequence[str]:
    return [sys.executable, "-m", "kdump", "--version"]


_DUMP: Final = "dump"
SHAPES: Final = (
    Shape("segments, deep / one log", _kdump("segments", _DUMP, *DEEP), _kdump("one-log", _DUMP, *DEEP), 1.3),
    Shape("segments, reader / one log", _scan("segments"), _scan("one-log"), 1.3),
    Shape("magic 1, shallow / Java", _kdump("magic-1", _DUMP), _java("magic-1", SHALLOW), 1 / 3),
    *(
        Shape(
            f"magic {magic}, {name} / Java",
            _kdump(f"magic-{magic}", _DUMP, *flags),
            _java(f"magic-{magic}", flags),
            1 / 3,
        )
        for magic in (0, 1)
        for name, flags in (("deep", DEEP), ("print", PRINT))
    ),
    *(
        Shape(f"huge batch, {name} / usual", own("huge-batch"), own("usual-batches"), 1.5)
        for name, own in (
            ("deep", lambda place: _kdump(place, _DUMP, *DEEP)),
            ("jsonl", lambda place: _kdump(place, _DUMP, *PRINT, *JSONL)),
            ("reader", _scan),
        )
    ),
    Shape(
        "single records, verify / deep",
        _kdump("single-records", "verify"),
        _kdump("single-records", _DUMP, *DEEP),
        2,
        200,
    ),
    Shape("partitions, verify / one", _kdump("partitions", "verify", "-j", "1"), _kdump("partition", "verify"), 6),
    Shape("partitions, stats / one", _kdump("partitions", "stats", "-j", "1"), _kdump("partition", "stats"), 6),
    Shape("--version / import click", _version, _python("import click"), 1.5),
    Shape("small dump / import click", _kdump("small", _DUMP, *DEEP), _python("import click"), 3),
    Shape("small verify / import numpy", _kdump("partition", "verify"), _python("import click, numpy"), 2),
)


def shape_lines(shapes: Sequence[Shape] = SHAPES, rounds: int = 3, segments: int = 256) -> Iterator[str]:
    """Medians of processor time, of the ratios of the pairs, and the largest memory.

    Raises:
        ToolchainMissingError: the Java tool cannot be run.
    """
    yield f"{'shape':32}{'kdump s':>9}{'peer s':>9}{'ratio':>7}{'goal':>6}{'MiB':>6}{'most':>6}"
    folder = CACHE / f"shapes-{segments}"
    if not folder.exists():
        unfinished = folder.with_suffix(".part")
        shutil.rmtree(unfinished, ignore_errors=True)
        # In another process: the memory of this one counts as that of the runs (see measure).
        subprocess.run([sys.executable, "-c", _MAKE, str(unfinished), str(segments)], cwd=ROOT, check=True)
        unfinished.rename(folder)
    output = CACHE / "output.txt"
    for shape in shapes:
        own, peer = shape.own(folder), shape.peer(folder)
        pairs: list[tuple[Usage, Usage]] = [(run(own, output), run(peer, output)) for _ in range(rounds)]
        seconds = [median(usage.cpu for usage in side) for side in zip(*pairs, strict=True)]
        ratio = median(mine.cpu / other.cpu for mine, other in pairs)
        memory = max(mine.resident for mine, _ in pairs) / _MIB
        figures = f"{seconds[0]:9.2f}{seconds[1]:9.2f}{ratio:7.2f}{shape.goal:6.2f}{memory:6.0f}{shape.most or '':>6}"
        yield f"{shape.name:32}{figures}"
    output.unlink(missing_ok=True)


if __name__ == "__main__":
    for line in shape_lines(rounds=int(sys.argv[1]) if len(sys.argv) > 1 else 3):
        print(line, flush=True)
