"""Counts for people: ``python -m tests.golden`` compares every golden and prints how many are identical."""

from __future__ import annotations

import os
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.golden.goldens import differing
from tests.harness.captures import unpack
from tests.harness.inprocess import DEFAULT_WAY


def main() -> int:
    """Print a line for each flag set, then what differs; 1 when something does."""
    runs: Counter[str] = Counter()
    identical: Counter[str] = Counter()
    aborted = 0
    files: set[tuple[str, str]] = set()
    different: list[str] = []
    with tempfile.TemporaryDirectory() as directory:
        captures = unpack(Path(directory))
        for partition in captures.partitions():
            os.chdir(captures.root / partition)
            for golden in captures.goldens(partition):
                found = differing(golden, DEFAULT_WAY)
                runs[golden.flags.name] += 1
                identical[golden.flags.name] += not found
                aborted += golden.outcome().status
                files.update((partition, name) for name in golden.files)
                different += [f"{partition}: {line}" for line in found]
    for name, count in runs.items():
        print(f"{name:14}{identical[name]:6} of {count:5} identical")
    print(f"{len(files)} files, {runs.total()} runs ({aborted} aborted by the Java tool),", end=" ")
    print(f"{identical.total()} identical")
    print("\n".join(different))
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
