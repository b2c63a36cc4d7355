"""kdump against the running Java tool: on the captures, on fresh segments, on crafted ones, and on damage of each."""

from __future__ import annotations

import itertools
from pathlib import Path
from random import Random

import pytest

from tests.harness.captures import Captures
from tests.harness.flags import DEEP, DEFAULT, PRINT, SKIP_METADATA, FlagSet, max_bytes
from tests.oracle.crafted import crafted_segments
from tests.oracle.mutations import mutate, mutations_for
from tests.oracle.sandbox import Sandbox, index_runs
from tests.oracle.siblings import with_siblings

pytestmark = pytest.mark.oracle

LOG_FLAGS = (DEFAULT, DEEP, PRINT, SKIP_METADATA)
BASE_SIZE_LIMIT = 200_000
"""Bytes; mutants of larger files take time and show nothing new."""


def log_flags(random: Random, size: int) -> list[FlagSet]:
    """Two that show everything, and one of the others."""
    return [DEFAULT, PRINT, random.choice((DEEP, SKIP_METADATA, max_bytes(random.randrange(size + 30))))]


def test_captures(captures: Captures, sandbox: Sandbox) -> None:
    for partition in captures.partitions():
        files = {path.name: path.read_bytes() for path in captures.segment_files(partition)}
        logs = [name for name in files if name.endswith((".log", ".checkpoint"))]
        runs = [([name], flags) for name in logs for flags in LOG_FLAGS]
        others = sorted(set(files) - set(logs))
        sandbox.compare(partition.replace("/", "-"), files, [*runs, *itertools.chain(*(index_runs(name, 1000) for name in others))])
    sandbox.tally.check()


def test_crafted(sandbox: Sandbox) -> None:
    name = f"{0:020d}.log"
    for case, data in crafted_segments():
        sandbox.compare(case, {name: data}, [([name], flags) for flags in LOG_FLAGS])
    sandbox.tally.check()


def test_generated(sandbox: Sandbox, generated: list[Path], seed: int) -> None:
    random = Random(seed)
    for path in generated:
        files = with_siblings(path.name, path.read_bytes(), random)
        runs = [([path.name], flags) for flags in (*LOG_FLAGS, max_bytes(random.randrange(2000)))]
        indexes = [run for name in files if name != path.name for run in index_runs(name, random.choice((61, 300, 5000)))]
        sandbox.compare(f"generated-{path.parent.name}", files, [*runs, *indexes, (sorted(files), DEEP)])
    sandbox.tally.check()


def test_damaged_logs(sandbox: Sandbox, captures: Captures, generated: list[Path], seed: int, mutants: int) -> None:
    random = Random(seed)
    bases = [*generated, *captures.files(".log", BASE_SIZE_LIMIT), *captures.files(".checkpoint", BASE_SIZE_LIMIT)]
    for number in range(mutants):
        base = random.choice(bases)
        how, data = mutate(base.read_bytes(), random, mutations_for(base.name))
        runs = [([base.name], flags) for flags in log_flags(random, len(data))]
        sandbox.compare(f"log-{seed}-{number}-{how}", {base.name: data}, runs)
    sandbox.tally.check()


def test_damaged_indexes(sandbox: Sandbox, generated: list[Path], seed: int, mutants: int) -> None:
    random = Random(seed + 1)
    for number in range(mutants // 4):
        base = random.choice(generated)
        files = with_siblings(base.name, base.read_bytes(), random)
        victim = random.choice(sorted(name for name, data in files.items() if data))
        how, files[victim] = mutate(files[victim], random, mutations_for(victim))
        runs = [run for name in files if not name.endswith(".log") for run in index_runs(name, random.choice((61, 300)))]
        sandbox.compare(f"index-{seed}-{number}-{victim}-{how}", files, [*runs, (sorted(files), DEFAULT)])
    sandbox.tally.check()


def test_damaged_captured_siblings(sandbox: Sandbox, captures: Captures, seed: int, mutants: int) -> None:
    random = Random(seed + 2)
    partitions = [name for name in captures.partitions() if captures.size(name) < BASE_SIZE_LIMIT]
    for number in range(mutants // 4):
        partition = random.choice(partitions)
        files = {path.name: path.read_bytes() for path in captures.segment_files(partition)}
        choice = sorted(name for name, data in files.items() if data and not name.endswith(".log"))
        if not choice:
            continue
        victim = random.choice(choice)
        how, files[victim] = mutate(files[victim], random, mutations_for(victim))
        runs = [*index_runs(victim, random.choice((61, 1000))), (sorted(files), DEFAULT)]
        sandbox.compare(f"sibling-{seed}-{number}-{victim}-{how}", files, runs)
    sandbox.tally.check()
