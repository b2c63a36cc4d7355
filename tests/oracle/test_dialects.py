"""``kdump dump --dialect`` against the running tool of each version: on captures, generated segments and damage."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from tests.harness.batches import message
from tests.harness.captures import Captures
from tests.harness.dialects import GROUPS, partitions, runs
from tests.harness.flags import by_dialect
from tests.oracle.crafting import Fields, Header, batch_of
from tests.oracle.javadump import JavaDump
from tests.oracle.mutations import mutate, mutations_for
from tests.oracle.sandbox import Run, Sandbox
from tests.oracle.siblings import with_siblings
from tests.oracle.toolchain import OLDER_RELEASES, ToolchainMissingError

pytestmark = pytest.mark.oracle

_LARGEST = 3 << 20
_NESTED = "0.8.2", "damaged/v0-inner-nested"
"""A message compressed inside a wrapper: that tool unpacks it, to kdump it is damage as to all later ones."""
_NEWEST_MAGIC = {"0.8.2": 0, "0.10.2": 1}


@pytest.fixture(params=list(GROUPS), scope="module")
def dialect(request: pytest.FixtureRequest) -> str:
    """Each of them."""
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def older(dialect: str) -> Iterator[JavaDump]:
    """The running tool of that version."""
    try:
        tool = JavaDump(OLDER_RELEASES[dialect])
    except ToolchainMissingError as error:
        pytest.skip(str(error))
    with tool:
        yield tool


@pytest.fixture
def box(older: JavaDump, tmp_path: Path) -> Sandbox:
    """A fresh directory for both tools."""
    directory = tmp_path / "generated-0"
    directory.mkdir()
    return Sandbox(directory, older)


def test_captures(captures: Captures, dialect: str, box: Sandbox) -> None:
    for partition in partitions(captures, dialect, largest=_LARGEST):
        if (dialect, partition) == _NESTED:
            continue
        files = {path.name: path.read_bytes() for path in captures.segment_files(partition)}
        box.compare(
            f"{dialect}-{partition.replace('/', '-')}",
            files,
            [(names, flags) for _, names, flags in runs(captures, dialect, partition)],
        )
    box.tally.check()


def test_generated(dialect: str, box: Sandbox, generated: list[Path], seed: int) -> None:
    random = Random(seed)
    sets = by_dialect(dialect)
    names = ("default", "deep", "print", "deepprint", "skipmeta")
    for path in generated:
        files = with_siblings(path.name, path.read_bytes(), random)
        cases: list[Run] = [([path.name], sets[name]) for name in names if name in sets]
        cases += [(sorted(files), sets["deepprint"])]
        box.compare(f"{dialect}-generated-{path.parent.name}", files, cases)
    box.tally.check()


def test_damaged(dialect: str, box: Sandbox, captures: Captures, seed: int, mutants: int) -> None:
    """Damage of logs of the newest magic that the version knew, and of their indexes."""
    random = Random(seed + 6)
    sets = by_dialect(dialect)
    group = GROUPS[dialect][-1]
    bases = [name for name in partitions(captures, dialect) if name.startswith(group) and "__" not in name]
    for number in range(mutants // 8):
        files = {path.name: path.read_bytes() for path in captures.segment_files(random.choice(bases))}
        victim = random.choice(sorted(name for name, data in files.items() if data))
        how, files[victim] = mutate(files[victim], random, mutations_for(victim))
        cases: list[Run] = [([victim], sets["default"])]
        if victim.endswith(".log"):
            cases += [([victim], sets["deepprint"])]
        box.compare(f"{dialect}-{seed}-{number}-{how}", files, cases)
    box.tally.check()


def _text(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def _bytes(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def _transaction(random: Random, topics: int) -> tuple[bytes, bytes]:
    """A transaction that is ongoing, with partitions of several topics."""
    value = struct.pack(">hqhibi", 0, 5, 0, 60_000, 1, topics)
    for number in range(topics):
        numbers = random.sample(range(500), random.randrange(1, 9))
        value += _text(f"topic-{number}") + struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)
    return struct.pack(">h", 0) + _text("t-1"), value + struct.pack(">qq", 7, 6)


def _group(random: Random, members: int) -> tuple[bytes, bytes]:
    """A group of consumers, with partitions and bytes of the user in their assignments."""
    value = struct.pack(">h", 1) + _text("consumer") + struct.pack(">i", 3) + _text("range") + _text("m")
    value += struct.pack(">i", members)
    for _ in range(members):
        partitions = struct.pack(">i", 1) + _text("t") + struct.pack(">iii", 2, 0, 1)
        assignment = struct.pack(">h", 0) + partitions + _bytes(random.randbytes(random.randrange(3)))
        value += _text(f"m-{random.randrange(10**9)}") + _text("c") + _text("h") + struct.pack(">ii", 1, 2)
        value += _bytes(b"\0\0" + bytes(8)) + _bytes(assignment)
    return struct.pack(">h", 2) + _text("g"), value


def test_hash_tables_in_values(dialect: str, box: Sandbox, seed: int) -> None:
    """Members of groups and partitions of transactions come in the order of a hash table of Scala."""
    random = Random(seed)
    name, sets = f"{0:020d}.log", by_dialect(dialect)
    for decoder, make in (("offsets", _group), ("transaction-log", _transaction)):
        records = [make(random, count) for count in (0, 1, 2, 5, 11, 12, 13, 14, 24, 25, 40, 90)]
        if _NEWEST_MAGIC.get(dialect, 2) < 2:
            data = b"".join(message(1, offset, *record) for offset, record in enumerate(records))
        else:
            data = b"".join(
                batch_of([Fields(key=key, value=value)], Header(base_offset=offset))
                for offset, (key, value) in enumerate(records)
            )
        if decoder in sets:
            box.compare(f"{dialect}-tables-{decoder}", {name: data}, [([name], sets[decoder])])
    box.tally.check()


@pytest.mark.parametrize("count", [11, 12, 13, 30])
def test_the_order_of_many_files(dialect: str, box: Sandbox, count: int, seed: int) -> None:
    """Reports come in the order of a hash table of Scala."""
    if _NEWEST_MAGIC.get(dialect, 2) < 2:
        pytest.skip("the tables are those of 1.1")
    random = Random(seed + count)
    names = [f"{random.randrange(10**9):020d}.log" for _ in range(count)]
    files = {
        name: b"".join(
            batch_of([Fields()], Header(base_offset=offset)) for offset in (int(name[:20]), int(name[:20]) + 5)
        )
        for name in names
    }
    box.compare(f"{dialect}-order-{count}", files, [(names, by_dialect(dialect)["deep"])])
    box.tally.check()
