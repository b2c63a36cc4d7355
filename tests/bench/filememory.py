"""``python -m tests.bench.filememory [NAME ...] [--size BYTES] [-c COMMAND ...]``: memory of commands over large files.

``memory`` does so for logs of one entry.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from tests.bench.cases import CACHE
from tests.bench.hostilefiles import FILES, LOG
from tests.bench.measure import COMPILED, ROOT, Usage, run

_MIB: Final = 1 << 20
SIZE: Final = 64 * _MIB
"""Bytes of a file, or that come out of it."""
MOST: Final = 600 * _MIB
"""Bytes of memory that a run may take for them."""

COMMANDS: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "log": {
        "dump": ("dump", "PATH"),
        "verify": ("verify", "PATH"),
        "startup": ("verify", "--startup", "--unclean", "DIR"),
        "stats": ("stats", "--by", "producer", "PATH"),
        "plan": ("repair", "PATH"),
        "salvage": ("repair", "--salvage", "--correct", "-o", "OUT", "DIR"),
        "convert": ("convert", "--to-magic", "1", "--skip-damaged", "-o", "OUT", "PATH"),
        "diff": ("diff", "--records", "--output", "jsonl", "DIR", "COPY"),
    },
    "siblings": {
        "dump": ("dump", "--all-files", "PATH"),
        "jsonl": ("dump", "--all-files", "--output", "jsonl", "PATH"),
        "table": ("dump", "--all-files", "--output", "table", "PATH"),
        "csv": ("dump", "--all-files", "--output", "csv", "PATH"),
        "verify": ("verify", "PATH"),
        "startup": ("verify", "--startup", "--unclean", "PATH"),
        "plan": ("repair", "PATH"),
        "salvage": ("repair", "--salvage", "-o", "OUT", "PATH"),
        "diff": ("diff", "PATH", "COPY"),
        "explain": ("explain", "SIBLING", "0"),
    },
    "directory": {
        "dump": ("dump", "--all-files", "PATH"),
        "verify": ("verify", "PATH"),
        "manifest": ("verify", "--manifest", "OUT", "PATH"),
        "startup": ("verify", "--startup", "--unclean", "PATH"),
        "stats": ("stats", "--by", "partition", "PATH"),
        "plan": ("repair", "PATH"),
        "diff": ("diff", "PATH", "COPY"),
    },
    "topic": {
        "dump": ("dump", "--decode", "auto", "PATH"),
        "jsonl": ("dump", "--records", "--decode", "auto", "--output", "jsonl", "PATH"),
        "table": ("dump", "--records", "--decode", "auto", "--output", "table", "PATH"),
        "arrow": ("dump", "--records", "--decode", "auto", "--output", "arrow", "PATH"),
        "verify": ("verify", "PATH"),
        "state": ("state", "--at", "now", "PATH"),
        "records": ("state", "--at", "now", "--output", "records", "PATH"),
        "between": ("state", "--between-offsets", "0:", "PATH"),
    },
    "metadata": {
        "dump": ("dump", "--cluster-metadata-decoder", "PATH"),
        "verify": ("verify", "PATH"),
        "startup": ("verify", "--startup", "--unclean", "PATH"),
        "stats": ("stats", "PATH"),
        "state": ("state", "--at", "now", "PATH"),
        "jsonl-state": ("state", "--at", "now", "--output", "jsonl", "PATH"),
        "records": ("state", "--at", "now", "--output", "records", "PATH"),
        "commands": ("state", "--at", "now", "--output", "commands", "PATH"),
        "between": ("state", "--between-offsets", "0:", "PATH"),
    },
    "log07": {
        "dump": ("dump", "--print-data-log", "PATH"),
        "jsonl": ("dump", "--records", "--output", "jsonl", "PATH"),
        "verify": ("verify", "PATH"),
        "stats": ("stats", "PATH"),
        "plan": ("repair", "DIR"),
        "convert": ("convert", "--to-magic", "2", "-o", "OUT", "PATH"),
    },
    "zookeeper": {
        "dump": ("dump", "VERSION2"),
        "jsonl": ("dump", "--output", "jsonl", "VERSION2"),
        "table": ("dump", "--output", "table", "VERSION2"),
        "resync": ("dump", "--resync", "VERSION2"),
        "verify": ("verify", "PATH"),
        "state": ("state", "--at", "now", "PATH"),
        "jsonl-state": ("state", "--at", "now", "--output", "jsonl", "PATH"),
    },
    "manifest": {"diff": ("diff", "MANIFEST", "PATH")},
    "journal": {
        "plan": ("repair", "PATH"),
        "finish": ("repair", "--finish", "PATH"),
        "undo": ("repair", "--undo", "JOURNAL"),
        "verify": ("verify", "PATH"),
    },
    "jsonl": {"convert": ("convert", "--from", "jsonl", "-o", "OUT", "PATH")},
}
"""The words after ``kdump`` of each group."""

RUNS: Final = tuple((name, command) for name, (_, group, _) in FILES.items() for command in COMMANDS[group])
_LIMITS: Final = "ulimit -v 12582912; ulimit -t 600"
"""No run takes the machine down."""
_STATUSES: Final = frozenset((0, 1, 3))
"""A command line that kdump refuses measures nothing."""


def made(name: str, size: int = SIZE) -> Path:
    """The folder of one of FILES, made now if it is not there."""
    # A name that ends with a number would be that of a partition.
    folder = CACHE / "hostilefiles" / f"{size >> 20}-{name}"
    if not folder.exists():
        command = [sys.executable, "-m", "tests.bench.hostilefiles", name, str(size), str(folder)]
        subprocess.run(command, cwd=ROOT, env=COMPILED, check=True)
    return folder


def measured(name: str, command: str, folder: Path) -> Usage:
    """One run of a command over one of FILES; RuntimeError when it does not end as a command of kdump ends."""
    _, group, path = FILES[name]
    place = folder / path
    directory = place if place.is_dir() else place.parent
    output = CACHE / "hostilefiles" / f"output-{os.getpid()}"
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    words: list[str] = []
    for word in COMMANDS[group][command]:
        match word:
            case "PATH":
                words.append(str(place))
            case "DIR":
                words.append(str(directory))
            case "OUT":
                words.append(str(output / ("part-0" if command == "salvage" else LOG)))
            case "COPY":
                words.append(str(shutil.copytree(directory, output / "copy" / directory.name)))
            case "SIBLING":
                words.append(next(str(one) for one in sorted(directory.iterdir()) if one.name != LOG))
            case "VERSION2":
                words += map(str, sorted((folder / "version-2").iterdir()))
            case "MANIFEST":
                words.append(str(folder / "MANIFEST"))
            case "JOURNAL":
                words.append(str(next(place.glob(".kdump/*/manifest.json"))))
            case _:
                words.append(word)
    shell = f'{_LIMITS}; exec "$@" 2>{output}/stderr'
    program = ["sh", "-c", shell, "sh", sys.executable, "-m", "kdump", *words]
    return run(program, Path("/dev/null"), statuses=_STATUSES)


def lines(names: Sequence[str], size: int, commands: Sequence[str] = ()) -> Iterator[str]:
    """MiB of the largest resident set and seconds of each command; a run that fails is marked.

    ``commands``: those to run; () for all.
    """
    for name in names:
        folder = made(name, size)
        for command in COMMANDS[FILES[name][1]]:
            if commands and command not in commands:
                continue
            try:
                usage = measured(name, command, folder)
                yield f"{name:24}{command:12}{usage.resident / _MIB:7.0f} MiB{usage.cpu:8.1f} s"
            except RuntimeError:
                yield f"{name:24}{command:12}     failed"


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", default=tuple(FILES))
    parser.add_argument("--size", type=int, default=SIZE)
    parser.add_argument("-c", "--commands", nargs="+", default=())
    arguments = parser.parse_args()
    for line in lines(arguments.names, arguments.size, arguments.commands):
        print(line, flush=True)
