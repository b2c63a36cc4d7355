"""Cuts of a log by content: nothing twice, nothing lost, and little is read for them, whatever the log holds."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import pytest

from kdump.log.extents import PROOF, Extent, LogCuts, split_starts
from kdump.log.gaps import Gap
from kdump.log.heads import LARGEST_ENTRY
from kdump.log.offsetindex import rising_entries
from kdump.log.opening import open_source
from kdump.log.resync import CheckedChunk, ResyncWalk
from kdump.log.source import FileSource, Source
from tests.harness.batches import message, v2_batch
from tests.harness.fast_reference import Row
from tests.harness.forgedlogs import FORGED, PART, forged_log, small_proof

STEP = 2 << 20
PARTS = 12
VALUE = bytes(1 << 15)


def clean_log() -> tuple[bytearray, list[int]]:
    """A log of PARTS parts, and where its batches begin. Every 50th entry is an old message."""
    log, starts = bytearray(), list[int]()
    while len(log) < STEP * PARTS:
        offset = len(starts)
        starts.append(len(log))
        log += v2_batch([Row(0, 0, None, VALUE)], base_offset=offset) if offset % 50 else message(1, offset, None, b"v")
    return log, starts


def index_of(entries: list[tuple[int, int]]) -> bytes:
    return b"".join(struct.pack(">ii", offset, position) for offset, position in entries)


def damaged(kind: str, directory: Path) -> Path:
    """A log with damage, and an .index where the kind has one."""
    log, starts = clean_log()
    index: list[tuple[int, int]] | None = None
    match kind:
        case "everywhere":
            for position in range(STEP // 2, len(log), STEP // 4):
                log[position] ^= 1
        case "garbage":
            log[STEP:] = b"\xa5" * (len(log) - STEP)
        case "zeros":
            log[STEP:] = bytes(len(log) - STEP)
        case "one entry":
            log[STEP:] = v2_batch([Row(0, 0, None, bytes(len(log) - STEP))], base_offset=1 << 20)
        case "false index":
            index = [(offset, position + 1) for offset, position in enumerate(starts)]
        case "dense false index":
            index = [(position, position) for position in range(STEP, 5 * STEP, 101)]
        case "sparse index":
            index = [(1, starts[1])]
        case "indexed":
            index = list(enumerate(starts))
        case "a hole, indexed":
            log[3 * STEP : 4 * STEP] = b"\xff" * STEP
            index = list(enumerate(starts))
    path = directory / f"{0:020d}.log"
    path.write_bytes(log)
    if index is not None:
        path.with_suffix(".index").write_bytes(index_of(index))
    return path


def entries(items: Iterable[CheckedChunk | Gap]) -> list[int]:
    """Where entries start. Gaps are left out: a part may end in one."""
    return [item.position + start for item in items if not isinstance(item, Gap) for start in item.starts]


KINDS = [
    "clean",
    "everywhere",
    "garbage",
    "zeros",
    "one entry",
    "false index",
    "dense false index",
    "sparse index",
    "indexed",
    "a hole, indexed",
]


@pytest.fixture
def bytes_read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many bytes each read of a file gave."""
    sizes: list[int] = []
    read, read_into = FileSource.read, FileSource.read_into

    def counted_read(self: FileSource, position: int, size: int) -> bytes:
        data = read(self, position, size)
        sizes.append(len(data))
        return data

    def counted_read_into(self: FileSource, view: memoryview, position: int) -> int:
        sizes.append(read_into(self, view, position))
        return sizes[-1]

    monkeypatch.setattr(FileSource, "read", counted_read)
    monkeypatch.setattr(FileSource, "read_into", counted_read_into)
    return sizes


@pytest.mark.parametrize("kind", KINDS)
def test_parts_are_the_log_and_cuts_cost_little(kind: str, tmp_path: Path, bytes_read: list[int]) -> None:
    path = damaged(kind, tmp_path)
    size = path.stat().st_size
    with open_source(str(path)) as source:
        expected = entries(ResyncWalk(source).items())
        found: list[int] = []
        bytes_read.clear()
        cost = 0
        # As many processes find them, each with a memory of its own.
        memories = [LogCuts(rising_entries(str(path), 0)) for _ in range(3)]
        for number, (first, last) in enumerate(pairwise((*split_starts(size, STEP), size))):
            bytes_read.clear()
            extent = memories[number % 3].extent(source, first, last)
            cost += sum(bytes_read)
            found += entries(extent.items(source))
    assert found == expected
    # Three follow lengths, and where nothing is proven two look at each part.
    assert cost < 4 * size


@pytest.mark.parametrize(
    ("size", "parts"), [(100, 1), (8 << 20, 8), (1 << 31, 2048), (8 << 30, 64), (3 << 40, 64), (1 << 62, 64)]
)
def test_a_log_larger_than_any_of_a_broker_has_few_parts(size: int, parts: int) -> None:
    starts = split_starts(size, 1 << 20)
    assert len(starts) == parts
    # The size of a part gives the same parts again.
    assert len(starts) == 1 or split_starts(size, starts[1]) == starts


def test_valid_parts_are_cut_near_their_starts(tmp_path: Path) -> None:
    for kind in ("clean", "indexed", "false index", "sparse index"):
        path = damaged(kind, tmp_path)
        with open_source(str(path)) as source:
            size = source.size or 0
            cuts = LogCuts(rising_entries(str(path), 0))
            starts = [cuts.start(source, first, first + STEP) for first in split_starts(size, STEP)]
        expected = [next(start for start in clean_log()[1] if start >= first) for first in split_starts(size, STEP)]
        assert starts == expected, kind
        path.with_suffix(".index").unlink(missing_ok=True)


def test_parts_after_a_hole_are_found_by_the_index(tmp_path: Path) -> None:
    """Where lengths lead nowhere. PROOF bytes after the hole are not proven."""
    path = damaged("a hole, indexed", tmp_path)
    with open_source(str(path)) as source:
        size = source.size or 0
        cuts = LogCuts(rising_entries(str(path), 0))
        starts = [cuts.start(source, first, first + STEP) for first in split_starts(size, STEP)]
        without = LogCuts(())
        lost = [without.start(source, first, first + STEP) for first in split_starts(size, STEP)]
    assert [start is None for start in starts] == [number == 3 for number in range(len(starts))]
    assert starts[4] is not None
    assert starts[4] >= 4 * STEP + PROOF
    assert [start is None for start in lost] == [number > 2 for number in range(len(lost))]


def test_an_entry_larger_than_any_lead_is_not_held_in_memory(tmp_path: Path) -> None:
    """A part in it is empty; the one in which it begins has it."""
    log = v2_batch([Row(0, 0, None, b"v")]) + v2_batch([Row(0, 0, None, bytes(3 * LARGEST_ENTRY))], base_offset=1)
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(log)
    step = len(log) // 4
    with open_source(str(path)) as source:
        largest = 0
        read_into = source.read_into

        def measured(view: memoryview, position: int) -> int:
            nonlocal largest
            largest = max(largest, len(view))
            return read_into(view, position)

        source.read_into = measured  # type: ignore[method-assign]
        cuts = LogCuts(())
        assert [cuts.start(source, first, first + step) for first in split_starts(len(log), step)] == [
            0,
            None,
            None,
            None,
        ]
        assert largest <= 2 * LARGEST_ENTRY + PROOF


@pytest.mark.parametrize("kind", FORGED)
def test_a_part_tells_that_its_end_is_false(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to there the parts are the log. A walk from where the last of them begins has the rest, gaps too."""
    small_proof(monkeypatch)
    path = tmp_path / f"{0:020d}.log"
    forged_log(kind, path)
    with open_source(str(path)) as source:
        extents = cut(path, source)
        expected = items(ResyncWalk(source).items())
        found: list[tuple[int, ...]] = []
        for extent in extents:
            found += items(extent.items(source))
            if extent.is_missed:
                break
        assert extent.is_missed
        assert found == expected[: len(found)]
        rest = Extent(extent.start, source.size or 0, shown=extent.end)
        assert found + items(rest.items(source)) == expected
        assert not rest.is_missed


@pytest.mark.parametrize("kind", FORGED)
def test_a_part_goes_on_to_the_next_end_that_is_true(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_proof(monkeypatch)
    path = tmp_path / f"{0:020d}.log"
    forged_log(kind, path)
    with open_source(str(path)) as source:
        extents = cut(path, source)
        expected = items(ResyncWalk(source).items())
        found: list[tuple[int, ...]] = []
        ends = [extent.end for extent in extents]
        reached: list[int] = [0]
        for number, extent in enumerate(extents):
            if extent.start == reached[-1]:
                extent.later = ends[number + 1 :]
                found += items(extent.items(source))
                assert not extent.is_missed
                reached.append(extent.end)
    assert found == expected
    assert reached[-1] == ends[-1]
    assert len(reached) <= len(ends)


def cut(path: Path, source: Source) -> list[Extent]:
    """The parts that are not empty."""
    size = source.size or 0
    cuts = LogCuts(rising_entries(str(path), 0))
    found = [cuts.extent(source, first, last) for first, last in pairwise((*split_starts(size, PART), size))]
    return [extent for extent in found if extent.start < extent.end]


def items(walk: Iterable[CheckedChunk | Gap]) -> list[tuple[int, ...]]:
    """Where entries start and whether they are damaged, and where gaps start and end."""
    found: list[tuple[int, ...]] = []
    for item in walk:
        if isinstance(item, Gap):
            found.append((item.position, item.length, item.overlaps))
        else:
            found += ((item.position + start, number in item.damaged) for number, start in enumerate(item.starts))
    return found
