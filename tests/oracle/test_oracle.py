"""kdump against the running Java tool: on the captures, on fresh segments, on crafted ones, and on damage of each."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from random import Random

import pytest

from tests.harness.captures import Captures
from tests.harness.flags import DEEP, DEFAULT, NUMBERS, PRINT, SANITY, SKIP_METADATA, VERIFY, FlagSet, max_bytes
from tests.oracle.crafted import crafted_segments
from tests.oracle.crafting import Fields, Header, batch_of, entries
from tests.oracle.mutations import edit_entry, mutate, mutations_for, swap_index_entries
from tests.oracle.sandbox import Run, Sandbox, index_runs
from tests.oracle.siblings import with_siblings

pytestmark = pytest.mark.oracle

LOG_FLAGS = (DEFAULT, DEEP, PRINT, SKIP_METADATA)
BASE_SIZE_LIMIT = 200_000
"""Bytes; mutants of larger files take time and show nothing new."""


def log_flags(random: Random, size: int) -> list[FlagSet]:
    """Two that show everything, and one of the others."""
    return [DEFAULT, PRINT, random.choice((DEEP, SKIP_METADATA, NUMBERS, max_bytes(random.randrange(size + 30))))]


def sibling_runs(files: Iterable[str], random: Random) -> list[Run]:
    """All ways to dump every index among ``files``."""
    return [
        run for name in files if not name.endswith(".log") for run in index_runs(name, random.choice((61, 300, 5000)))
    ]


def test_captures(captures: Captures, sandbox: Sandbox) -> None:
    for partition in captures.partitions():
        files = {path.name: path.read_bytes() for path in captures.segment_files(partition)}
        logs = [name for name in files if name.endswith((".log", ".checkpoint"))]
        runs: list[Run] = [([name], flags) for name in logs for flags in LOG_FLAGS]
        for name in sorted(set(files) - set(logs)):
            runs += index_runs(name, 1000)
        sandbox.compare(partition.replace("/", "-"), files, runs)
    sandbox.tally.check()


def test_crafted(sandbox: Sandbox) -> None:
    name = f"{0:020d}.log"
    for case, data in crafted_segments():
        sandbox.compare(case, {name: data}, [([name], flags) for flags in LOG_FLAGS])
    sandbox.tally.check()


NAMES = (
    "+5.log", "-5.log", "5.log", "1.2.log", "00.log", ".log", "x.log", " 5.log", "5 .log", "5_000.log", "0x5.log",
    "1e3.log", "\u0663.log", "\uff13\uff14.log", "\u00b2.log", "\U0001d7db.log",
    "9223372036854775807.log", "9223372036854775808.log", "-9223372036854775808.log", "-9223372036854775809.log",
    "5.log.deleted", "5", "5.", "5.LOG", "5.index", "+5.index", "1.2.index", "x.index", "5.timeindex", "1.2.timeindex",
    "x.timeindex", "5.txnindex", "x.txnindex", "1.2.txnindex", "5.snapshot", "x.snapshot", ".snapshot",
    "bootstrap.checkpoint", "foo.checkpoint", ".checkpoint", "00000000000000000005-0000000001.checkpoint",
    "00000000000000000005-0000000001-delete.checkpoint", "00000000000000000005-000000001.checkpoint",
    "-0000000000000000005-0000000001.checkpoint", "00000000000000000005_+000000001.checkpoint",
    "00000000000000000005-2147483648.checkpoint", "00000000000000000005-x000000001.checkpoint",
    "0000000000000000000x-0000000001.checkpoint", "replication-offset-checkpoint", "leader-epoch-checkpoint",
)  # fmt: skip


def test_names(sandbox: Sandbox, generated: list[Path]) -> None:
    log = next(path.read_bytes() for path in generated if path.name == f"{0:020d}.log")
    for number, name in enumerate(NAMES):
        files = {name: log, f"{name.partition('.')[0]}.log": log, f"{name.partition('.')[0]}.index": b""}
        if name.endswith(("index", ".snapshot")):
            files[name] = bytes(136)
        sandbox.compare(f"name-{number}", files, [([name], flags) for flags in (DEFAULT, DEEP, SANITY)])
    sandbox.tally.check()


def test_long_indexes(sandbox: Sandbox, seed: int, mutants: int) -> None:
    """More entries than the section at the end in which a broker looks first (1024)."""
    random = Random(seed + 3)
    name = f"{7:020d}.log"
    batches = [batch_of([Fields()], Header(base_offset=offset, max_timestamp=offset)) for offset in range(7, 3500)]
    files = with_siblings(name, b"".join(batches), random)
    index, time_index = name.replace(".log", ".index"), name.replace(".log", ".timeindex")
    files[time_index] = b"".join(random.sample(entry_list(files[time_index], 12), 30))
    for number in range(mutants // 40):
        damaged = dict(files)
        how = []
        for _ in range(number):
            name_of_mutation, damaged[index] = mutate(damaged[index], random, (edit_entry, swap_index_entries))
            how.append(name_of_mutation)
        sandbox.compare(f"long-{seed}-{number}", damaged, [([index], VERIFY), ([time_index], DEFAULT)])
    sandbox.tally.check()


def entry_list(data: bytes, size: int) -> list[bytes]:
    """The entries of an index."""
    return [data[start : start + size] for start in range(0, len(data), size)]


def test_generated(sandbox: Sandbox, generated: list[Path], seed: int) -> None:
    random = Random(seed)
    for path in generated:
        files = with_siblings(path.name, path.read_bytes(), random)
        runs: list[Run] = [([path.name], flags) for flags in (*LOG_FLAGS, max_bytes(random.randrange(2000)))]
        runs += sibling_runs(files, random)
        sandbox.compare(f"generated-{path.parent.name}", files, [*runs, (sorted(files), DEEP)])
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


def test_long_logs(sandbox: Sandbox, captures: Captures, generated: list[Path], seed: int, mutants: int) -> None:
    """Many times what kdump reads at once, so that entries of every kind lie across the borders of its chunks."""
    random = Random(seed + 4)
    pieces = [path.read_bytes() for path in [*generated, *captures.files(".log", BASE_SIZE_LIMIT)]]
    name = f"{0:020d}.log"
    for number in range(mutants // 40):
        large = batch_of([Fields(value=random.randbytes(random.randrange(3_000_000)))], codec=random.randrange(5))
        chosen = [*random.choices(pieces, k=300), large, *random.choices(pieces, k=300)]
        data = b"".join(piece[: list(entries(piece))[-1][1]] for piece in chosen if list(entries(piece)))
        how = "sound"
        if number % 2:
            how, data = mutate(data, random, mutations_for(name))
        sandbox.compare(f"long-log-{seed}-{number}-{how}", {name: data}, [([name], flags) for flags in LOG_FLAGS])
    sandbox.tally.check()


def test_damaged_indexes(sandbox: Sandbox, generated: list[Path], seed: int, mutants: int) -> None:
    random = Random(seed + 1)
    for number in range(mutants // 4):
        base = random.choice(generated)
        files = with_siblings(base.name, base.read_bytes(), random)
        victim = random.choice(sorted(name for name, data in files.items() if data))
        how, files[victim] = mutate(files[victim], random, mutations_for(victim))
        runs = [*sibling_runs(files, random), (sorted(files), DEFAULT)]
        sandbox.compare(f"index-{seed}-{number}-{victim}-{how}", files, runs)
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


def test_many_files(sandbox: Sandbox, generated: list[Path], seed: int, mutants: int) -> None:
    """The order of the reports depends on how many files they name."""
    random = Random(seed + 5)
    for number in range(mutants // 10):
        files: dict[str, bytes] = {}
        for path in random.sample(generated, random.choice((5, 12, 13, 14, 24, 25, 26, 48, 49, 50, 60))):
            pieces = [path.read_bytes()[start:end] for start, end in entries(path.read_bytes())]
            if random.random() < 0.5:
                random.shuffle(pieces)
            name = f"{max(0, int(path.stem) - random.choice((0, random.randrange(10**6)))):020d}.log"
            files |= with_siblings(name, b"".join(pieces), random)
            time_index = name.replace(".log", ".timeindex")
            files[time_index] = b"".join(random.sample(items := entry_list(files[time_index], 12), len(items)))
        names = random.sample(sorted(files), len(files))
        sandbox.compare(f"many-{seed}-{number}", files, [(names, DEEP), (names, VERIFY)])
    sandbox.tally.check()
