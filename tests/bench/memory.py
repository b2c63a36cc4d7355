"""``python -m tests.bench.memory [SHAPE/CODEC ...] [-c COMMAND ...]``: memory of every command over hostile batches."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from tests.bench.cases import CACHE
from tests.bench.measure import COMPILED, ROOT, Usage, run

_MIB: Final = 1 << 20
PAYLOAD: Final = 64 * _MIB
"""Decompressed bytes of an entry."""

COMMANDS: Final[dict[str, tuple[str, ...]]] = {
    "dump": ("dump", "LOG"),
    "deep": ("dump", "--deep-iteration", "LOG"),
    "print": ("dump", "--print-data-log", "LOG"),
    "jsonl": ("dump", "--print-data-log", "--output", "jsonl", "LOG"),
    "csv": ("dump", "--print-data-log", "--output", "csv", "LOG"),
    "table": ("dump", "--print-data-log", "--output", "table", "LOG"),
    "verify": ("verify", "--deep", "LOG"),
    "stats": ("stats", "LOG"),
    "plan": ("repair", "LOG"),
    "salvage": ("repair", "--salvage", "--deep", "-o", "OUT", "LOG"),
    "to-0": ("convert", "--to-magic", "0", "--codec", "gzip", "--skip-damaged", "-o", "OUT", "LOG"),
    "to-1": ("convert", "--to-magic", "1", "--codec", "none", "--skip-damaged", "-o", "OUT", "LOG"),
    "to-2": ("convert", "--to-magic", "2", "--codec", "zstd", "--skip-damaged", "-o", "OUT", "LOG"),
    "renumber": ("convert", "--renumber", "5", "--skip-damaged", "-o", "OUT", "LOG"),
    "to-jsonl": ("convert", "--to", "jsonl", "--skip-damaged", "-o", "OUT", "LOG"),
    "to-csv": ("convert", "--to", "csv", "--skip-damaged", "-o", "OUT", "LOG"),
    "to-parquet": ("convert", "--to", "parquet", "--skip-damaged", "-o", "OUT", "LOG"),
    "arrow": ("dump", "--records", "--output", "arrow", "LOG"),
    "parquet": ("dump", "--records", "--output", "parquet", "LOG"),
    "two-jobs": ("stats", "-j", "2", "LOG", "COPY"),
    "redact": ("dump", "--print-data-log", "--redact", "LOG"),
    "explain": ("explain", "LOG", "0"),
    "diff": ("diff", "--records", "--output", "jsonl", "LOG", "COPY"),
    "content": ("diff", "--content", "--output", "jsonl", "LOG", "COPY"),
    "at": ("state", "--at", "now", "--output", "jsonl", "LOG"),
    "groups": ("state", "--at", "now", "__consumer_offsets-0"),
    "metadata": ("state", "--at", "now", "__cluster_metadata-0"),
    "history": ("state", "--between-offsets", "0:", "__cluster_metadata-0"),
    "objects": ("-c", "for record in kdump.scan(path, on_damage='mark'): pass", "LOG"),
    "tables": ("-c", "for batch in kdump.scan(path, on_damage='mark').to_reader(): pass", "LOG"),
}
"""Words after ``kdump``, or a statement of the library after ``-c``."""
CASES: Final = (
    *(f"{shape}/zstd" for shape in ("zeros", "text", "quotes", "malformed", "key", "headers", "named-headers")),
    *(f"{shape}/zstd" for shape in ("malformed-headers", "million-headers", "million-records", "tiny", "rising")),
    *(f"{shape}/zstd" for shape in ("with-headers", "big-keys")),
    *(f"{shape}/{codec}" for shape in ("malformed", "rising") for codec in ("none", "gzip", "snappy", "lz4")),
    *(f"{shape}/gzip" for shape in ("messages", "million-messages", "nested")),
    "rising/zstd-sized",
    "headers/none",
    "messages/none",
    "messages/lz4",
)
_ADDRESS_SPACE_KIB: Final = 12 << 20
"""No run takes the machine down."""
_STATUSES: Final = frozenset((0, 1, 2, 3))


def made(case: str, size: int = PAYLOAD) -> Path:
    """The log of a case (``shape/codec``), made now if it is not there."""
    shape, codec = case.split("/")
    path = CACHE / "hostile" / f"{shape}-{codec}-{size >> 20}" / f"{0:020d}.log"
    if not path.exists():
        command = [sys.executable, "-m", "tests.bench.hostile", shape, codec, str(size), str(path)]
        subprocess.run(command, cwd=ROOT, env=COMPILED, check=True)
    return path


def measured(command: str, log: Path, folder: Path) -> Usage:
    """One run of a command of ``COMMANDS``; RuntimeError when it does not end as a command of kdump ends."""
    target = folder / ("part-0" if command == "salvage" else f"{0:020d}.log")
    subprocess.run(["rm", "-rf", str(folder)], check=True)
    folder.mkdir(parents=True)
    places = {"LOG": log, "OUT": target, "COPY": log.parent / "copy" / log.name}
    for name in {"__consumer_offsets-0", "__cluster_metadata-0"}.intersection(COMMANDS[command]):
        places[name] = folder / name
        places[name].mkdir()
        (places[name] / log.name).hardlink_to(log)
    words = [str(places.get(word, word)) for word in COMMANDS[command]]
    if words[0] == "-c":
        words[1] = f"import kdump, sys\npath = sys.argv[1]\n{words[1]}"
    else:
        words = ["-m", "kdump", *words]
    shell = f'ulimit -v {_ADDRESS_SPACE_KIB}; exec "$@" 2>{folder}/stderr'
    return run(
        ["timeout", "300", "sh", "-c", shell, "sh", sys.executable, *words],
        Path("/dev/null"),
        statuses=_STATUSES,
    )


def memory_lines(cases: Sequence[str] = CASES, commands: Sequence[str] = tuple(COMMANDS)) -> Iterator[str]:
    """MiB of the largest resident set of each command over each case; a run that fails is marked."""
    yield f"{'MiB':26}" + "".join(f"{command:>11}" for command in commands)
    for case in cases:
        log = made(case)
        line = f"{case:26}"
        for command in commands:
            try:
                usage = measured(command, log, CACHE / "hostile" / f"out-{command}")
                line += f"{usage.resident / _MIB:7.0f}/{usage.cpu:<3.0f}"
            except RuntimeError:
                line += f"{'failed':>11}"
        yield line


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("cases", nargs="*", default=CASES)
    parser.add_argument("-c", "--commands", nargs="+", choices=tuple(COMMANDS), default=tuple(COMMANDS))
    arguments = parser.parse_args()
    for line in memory_lines(arguments.cases, arguments.commands):
        print(line, flush=True)
