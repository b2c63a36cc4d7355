"""Hostile inputs take no more than linear time: counts of what is called and read. Times: ``tests/bench/bounds.py``."""

from __future__ import annotations

import cProfile
import hashlib
import pstats
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
import pytest

from kdump.codes import Codes, Finding, KdumpError
from kdump.format import control
from kdump.kafka.producers import ProducerStates
from kdump.kafka.startup.directory import Directory, LoadSettings
from kdump.kafka.startup.start import start
from kdump.log.content import Content, ContentPiece, ContentSource
from kdump.log.gaps import Gap as Bytes
from kdump.log.opening import open_source
from kdump.log.resync import ResyncWalk
from kdump.log.source import FileSource, Source
from kdump.reading.transactionremains import LostOffsets, RemainingMarker, TransactionFollower
from kdump.repair.plan.recovery import start_sha256
from kdump.repair.salvage import later
from kdump.repair.salvage.later import END_TXN, LaterSegments
from kdump.repair.salvage.resolve import _FreeOffsets
from kdump.repair.salvage.transactions import TouchedTransactions
from kdump.verify.segment import SegmentReading
from kdump.verify.table import BatchRow, row_dtype
from tests.bench import bounds
from tests.harness.batches import CONTROL, TRANSACTIONAL, message, plain_rows, v2_batch
from tests.harness.cli_runs import kdump

LOG: Final = f"{0:020}.log"


@pytest.mark.parametrize("command", bounds.COMMANDS)
@pytest.mark.slow
def test_calls_grow_as_the_input(tmp_path: Path, command: str) -> None:
    """Four times the input adds twice the calls that two times adds; with squared work it adds four times as many."""
    calls = []
    # The first run imports modules and fills caches.
    for factor in (1, 1, 2, 4):
        partition = tmp_path / str(len(calls)) / "orders-0"
        partition.mkdir(parents=True)
        bounds.hostile(partition, factor << 13)
        words = bounds.words_of(command, partition, tmp_path)
        profile = cProfile.Profile()
        profile.enable()
        kdump(*words, cwd=tmp_path)
        profile.disable()
        calls.append(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]
    _, one, two, four = calls
    assert four - two < 2.3 * (two - one)


def test_calls_of_a_start_grow_as_its_segments() -> None:
    """It makes a snapshot for each segment that it recovers, and looks for the newest one each time."""
    calls = []
    for count in (200, 200, 400, 800):
        logs = {f"{n:020}.log": Content.of_bytes(v2_batch(plain_rows(1), base_offset=n)) for n in range(count)}
        profile = cProfile.Profile()
        profile.enable()
        found = start(Directory("orders-0", logs), LoadSettings(is_clean=False))
        profile.disable()
        assert found.served is not None
        assert found.served.end_offset == count
        calls.append(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]
    _, one, two, four = calls
    assert four - two < 2.3 * (two - one)


def transactional_row(chance: random.Random, offset: int) -> tuple[object, ...]:
    marker = chance.choice([None, None, None, None, control.ABORT, control.COMMIT, 5])
    attributes = TRANSACTIONAL if marker is None else TRANSACTIONAL | CONTROL
    producer, epoch, kind = chance.randrange(3), chance.randrange(6), -1 if marker is None else marker
    return tuple(
        BatchRow(0, 70, offset, offset, 0, 2, 0, attributes, 1, producer, epoch, 0, 0, 0, kind, 0, True, False)
    )


def stepped(followed: TransactionFollower, items: list[LostOffsets | BatchRow]) -> None:
    """The same as TouchedTransactions.see_later, a batch at a time; a transaction that begins is not followed."""
    for one in items:
        if isinstance(one, LostOffsets):
            followed.gap(one)
        elif one.producer_id in followed.open and one.is_control and one.marker_type in END_TXN:
            is_abort = one.marker_type == control.ABORT
            followed.marker(one.producer_id, RemainingMarker(one.base_offset, one.producer_epoch, is_abort))
        elif one.producer_id in followed.open and not one.is_control:
            followed.batch(one.producer_id, one.producer_epoch, one.base_offset)


def known_of(followed: TransactionFollower) -> list[object]:
    """What it knows, with its ranges of gaps as lists."""
    remains = [*followed.open.values(), *followed.touched]
    return [followed.gaps, *(replace(one, gaps=list(one.gaps), with_room=list(one.with_room)) for one in remains)]


@pytest.mark.parametrize("seed", range(10))
def test_what_is_kept_of_later_segments(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """It tells of transactions what all batches do, whoever asked before."""
    chance = random.Random(seed)
    segments: list[list[LostOffsets | BatchRow]] = []
    for number in range(10):
        offsets = range(100 * number, 100 * number + chance.randrange(8))
        rows = [BatchRow(*transactional_row(chance, one)) for one in offsets]  # type: ignore[arg-type]
        segments.append(
            [LostOffsets(row.base_offset, row.base_offset, 1) if chance.random() < 0.2 else row for row in rows]
        )
    reads: list[str] = []

    def rows_and_gaps(path: str, base_offset: int, next_base: int | None) -> list[object]:
        reads.append(path)
        return [
            one if isinstance(one, LostOffsets) else np.array([tuple(one)], row_dtype()) for one in segments[int(path)]
        ]

    monkeypatch.setattr(later, "_rows_and_gaps", rows_and_gaps)
    known = LaterSegments()
    for first in sorted(chance.choices(range(1, len(segments) + 1), k=5)):
        found, expected = (TouchedTransactions(ProducerStates(), {}, 0, [(0, 0)]) for _ in range(2))
        for producer_id in range(chance.randrange(4)):
            epoch, has_gap = chance.randrange(3), chance.random() < 0.5
            for followed in (found, expected):
                followed.batch(producer_id, epoch, 100 * first - 9)
                if has_gap:
                    gap = LostOffsets(100 * first - 8 + producer_id, 100 * first - 8 + producer_id, 1)
                    followed.gap(gap)
        expected.open = {number: stretch for number, stretch in expected.open.items() if stretch.gaps}
        found.see_later(known.segments([str(number) for number in range(first, len(segments))]))
        for segment in segments[first:]:
            if expected.open:
                stepped(expected, segment)
        assert known_of(found) == known_of(expected)
    assert len(reads) == len(set(reads))


def sparse(path: Path, stretches: list[tuple[int, bytes]], size: int) -> Path:
    with path.open("wb") as file:
        for position, data in stretches:
            file.seek(position)
            file.write(data)
        file.truncate(size)
    return path


def items(source: Source) -> list[object]:
    """What a walk gives, by file positions; the entries of chunks one after the other."""
    found: list[object] = []
    for item in ResyncWalk(source).items():
        if isinstance(item, Bytes):
            found.append(item)
        else:
            found += [(item.position + start, number in item.damaged) for number, start in enumerate(item.starts)]
    return found


MIB: Final = 1 << 20


@pytest.mark.parametrize("shift", [0, 1, 17, 60, 61, 4000])
@pytest.mark.parametrize("make", [v2_batch, None])
def test_zeros_that_are_not_stored(tmp_path: Path, shift: int, make: object) -> None:
    """A walk finds what it finds where the zeros are stored; the entry after them begins with zeros, too."""

    def entry(offset: int) -> bytes:
        return message(1, offset, None, b"abc") if make is None else v2_batch(plain_rows(2), base_offset=offset)

    stretches = [(0, entry(0)), (3 * MIB + shift, entry(5) + entry(8)), (8 * MIB - shift, entry(20))]
    size = 13 * MIB + shift
    holes = sparse(tmp_path / "a.log", stretches, size)
    stored = tmp_path / "b.log"
    stored.write_bytes(holes.read_bytes())
    with open_source(str(holes)) as one, open_source(str(stored)) as other:
        found = items(one)
        assert found == items(other)
    gaps = [item for item in found if isinstance(item, Bytes)]
    assert [gap.reason for gap in gaps] == [Codes.ZERO_FILL, Codes.ZERO_FILL, Codes.ZERO_TAIL]
    assert gaps[-1].end == size


def test_zeros_that_are_not_stored_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size = 20 << 30
    path = sparse(
        tmp_path / LOG, [(0, v2_batch(plain_rows(1))), (size // 2, v2_batch(plain_rows(1), base_offset=5))], size
    )
    read = 0
    original = FileSource.read_into

    def counted(self: FileSource, view: memoryview, position: int) -> int:
        nonlocal read
        read += len(view)
        return original(self, view, position)

    monkeypatch.setattr(FileSource, "read_into", counted)
    with open_source(str(path)) as source:
        assert len(items(source)) == 4
    assert read < 100 * MIB


def test_data_of_pieces(tmp_path: Path) -> None:
    """Made zeros and those of files are passed over; what lies before a piece of a file is not looked at."""
    path = sparse(tmp_path / "a", [(0, b"a"), (4 * MIB, b"b")], 8 * MIB)
    tail = ContentPiece(str(path), MIB, 7 * MIB)
    content = Content((ContentPiece(None, 0, 2 * MIB, b"made"), tail), 9 * MIB)
    with ContentSource("", content) as source:
        assert [source.data_from(at) for at in (0, 3, 4, 2 * MIB, 6 * MIB)] == [0, 3, 5 * MIB, 5 * MIB, 9 * MIB]


def test_digest_of_zeros_that_are_not_stored(tmp_path: Path) -> None:
    path = sparse(tmp_path / LOG, [(5, b"a"), (4 * MIB + 9, b"b"), (7 * MIB, b"c")], 10 * MIB + 5)
    data = path.read_bytes()
    with open_source(str(path)) as source:
        for size in (1, MIB, 4 * MIB, 9 * MIB + 1, len(data)):
            assert start_sha256(source, size) == hashlib.sha256(data[:size]).hexdigest()


@pytest.mark.parametrize("seed", range(10))
def test_free_offsets(seed: int) -> None:
    """The next free offset of a gap is the one that counting up finds."""
    chance = random.Random(seed)
    gaps = [(3, 6), (7, 7), (10, 14)]
    free, taken = _FreeOffsets(gaps), set[int]()
    for _ in range(30):
        offset = chance.randrange(17)
        gap = next((range(offset, last + 1) for first, last in gaps if first <= offset <= last), range(0))
        expected = next((one for one in gap if one not in taken), None)
        assert free.take([offset]) == expected
        taken |= set() if expected is None else {expected}


def one_by_one(path: Path, count: int, **header: int) -> Path:
    """A log with damage after each batch."""
    batches = (v2_batch(plain_rows(1), base_offset=number, **header) for number in range(count))
    path.write_bytes(b"".join(batch + b"\0" * 5 for batch in batches))
    return path


def test_what_was_read_before_a_read_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = one_by_one(tmp_path / LOG, 3, max_timestamp=-7)

    def failing(self: ResyncWalk) -> Iterator[object]:
        yield from items(self)
        raise KdumpError(Codes.UNREADABLE, "a stream ends")

    items = ResyncWalk.items
    monkeypatch.setattr(ResyncWalk, "items", failing)
    found: list[object] = []
    with open_source(str(path)) as source:
        reading = SegmentReading(source)
        with pytest.raises(KdumpError, match="a stream ends"):
            found.extend(reading.items())
    assert [item.code for item in found if isinstance(item, Finding)].count(Codes.MAX_TIMESTAMP) == 6
    assert [len(item) for item in found if isinstance(item, np.ndarray)] == [3]
