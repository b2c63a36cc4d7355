"""Hostile inputs take no more than linear time: counts of what is read and made. Times: ``tests/bench/slopes.py``."""

from __future__ import annotations

import hashlib
import random
from pathlib import Path
from typing import Final

import numpy as np
import pytest
from batches import CONTROL, TRANSACTIONAL, message, plain_rows, v2_batch

from kdump.checks.startup import check_start
from kdump.checks.table import BatchRow, row_dtype
from kdump.codes import Codes
from kdump.format import control
from kdump.kafka.startup import epochs
from kdump.kafka.startup.content import Content, ContentSource, Piece
from kdump.kafka.startup.directory import Directory
from kdump.kafka.startup.loading import Settings
from kdump.log.gaps import Gap
from kdump.log.resync import ResyncWalk
from kdump.log.source import FileSource, Source, open_source
from kdump.log.walk import Walk
from kdump.mend import later, soundrows
from kdump.mend.endings import _FreeOffsets
from kdump.mend.later import END_TXN, End, LaterTransactions
from kdump.mend.place import place_of
from kdump.mend.plan import Settings as RepairSettings
from kdump.mend.plan import Way
from kdump.mend.planner import Planner
from kdump.mend.readthrough import start_sha256
from kdump.mend.salvageoptions import SalvageOptions

MANY: Final = 40
LOG: Final = f"{0:020}.log"


def test_epochs_are_written_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not once for each, though a broker does that: nobody looks at the file meanwhile."""
    data = b"".join(v2_batch(plain_rows(1), base_offset=n, partition_leader_epoch=n) for n in range(MANY))
    (tmp_path / LOG).write_bytes(data)
    written: list[bytes] = []

    class Counted(Content):
        @classmethod
        def of_bytes(cls, data: bytes) -> Content:
            written.append(data)
            return Content.of_bytes(data)

    monkeypatch.setattr(epochs, "Content", Counted)
    directory = Directory.on_disk(str(tmp_path))
    check_start(directory, Settings(is_clean=False))
    expected = f"0\n{MANY}\n" + "".join(f"{n} {n}\n" for n in range(MANY))
    assert directory.read("leader-epoch-checkpoint") == expected.encode()
    assert written == [b"", expected.encode()]


def damaged_segments(folder: Path, count: int) -> list[str]:
    """Each with a gap in a transaction that has no end."""
    paths = []
    for number in range(count):
        first, last = (
            v2_batch(plain_rows(1), base_offset=offset, attributes=TRANSACTIONAL, producer_id=7, producer_epoch=1)
            for offset in (3 * number, 3 * number + 2)
        )
        path = folder / f"{3 * number:020}.log"
        path.write_bytes(first + b"\x55" * 40 + last)
        paths.append(str(path))
    return paths


def test_following_segments_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "orders-0"
    folder.mkdir()
    paths = damaged_segments(folder, MANY)
    opened: list[str] = []

    def counted(path: str) -> Source:
        opened.append(path)
        return open_source(path)

    monkeypatch.setattr(soundrows, "open_source", counted)
    planner = Planner(Way.SALVAGE, RepairSettings(), salvaging=SalvageOptions())
    plan = planner.partition(str(folder), paths, place_of(str(folder)), is_whole=True)
    assert sum(len(segment.salvaged.transactions) for segment in plan.segments if segment.salvaged) == MANY
    assert sorted(opened) == paths[1:]


def row(producer_id: int, epoch: int, marker: int | None, offset: int) -> tuple[object, ...]:
    attributes = TRANSACTIONAL if marker is None else TRANSACTIONAL | CONTROL
    kind = -1 if marker is None else marker
    return tuple(
        BatchRow(0, 70, offset, offset, 0, 2, 0, attributes, 1, producer_id, epoch, 0, 0, offset, kind, 0, True, False)
    )


def stepped(tables: list[list[BatchRow]], producer_id: int, epoch: int) -> tuple[BatchRow | None, int | None]:
    """The batch that ends a transaction, and the timestamp of its last one before, a batch at a time."""
    timestamp = None
    for one in (one for table in tables for one in table if one.producer_id == producer_id):
        if one.is_control:
            if one.marker_type in END_TXN:
                return one, timestamp
        elif one.producer_epoch > epoch:
            return one, timestamp
        else:
            timestamp = one.max_timestamp
    return None, timestamp


@pytest.mark.parametrize("seed", range(20))
def test_ends_of_transactions(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is looked up is what stepping over all batches finds."""
    chance = random.Random(seed)
    kinds = [None, None, None, None, control.ABORT, control.COMMIT, 5]
    rows = [
        [
            row(chance.randrange(3), chance.randrange(6), chance.choice(kinds), 10 * n + i)
            for i in range(chance.randrange(4))
        ]
        for n in range(12)
    ]
    tables = [[BatchRow(*one) for one in table] for table in rows]  # type: ignore[arg-type]
    paths = [str(number) for number in range(len(rows))]
    reads: list[str] = []

    def sound_rows_of(path: str) -> list[np.ndarray[tuple[int], np.dtype[np.void]]]:
        reads.append(path)
        return [np.array(rows[int(path)], row_dtype())]

    monkeypatch.setattr(later, "sound_rows_of", sound_rows_of)
    found = LaterTransactions()
    for number in range(chance.randrange(3), len(rows) - 1):
        following = paths[number + 1 :]
        start = found.start(following)
        for producer_id in range(3):
            epoch = chance.randrange(-1, 6)
            end, timestamp = stepped(tables[number + 1 :], producer_id, epoch)
            answer = found.end(producer_id, epoch, start)
            while answer.order is None and found.read_next(following, start) is not None:
                answer = found.end(producer_id, epoch, start)
            assert answer.timestamp == timestamp
            assert (answer.order is None) == (end is None)
            assert answer.marker == (end if end is not None and end.is_control else None)
    assert len(reads) == len(set(reads))


def test_orders_rise(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = {"1": [row(1, 0, None, 1), row(2, 0, control.ABORT, 2)], "2": [row(1, 0, control.COMMIT, 3)]}
    monkeypatch.setattr(later, "sound_rows_of", lambda path: [np.array(tables[path], row_dtype())])
    found = LaterTransactions()
    start = found.start(["1", "2"])
    while found.read_next(["1", "2"], start) is not None:
        pass
    ends: list[End] = [found.end(producer, 0, start) for producer in (2, 1)]
    assert ends[0].order is not None
    assert ends[1].order is not None
    assert ends[0].order < ends[1].order
    assert ends[1].timestamp == 1


def test_other_segments_than_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory that is listed again and holds others is read again."""
    monkeypatch.setattr(
        later, "sound_rows_of", lambda path: [np.array([row(1, 0, control.ABORT, int(path))], row_dtype())]
    )
    found = LaterTransactions()
    assert list(found.read_next(["4", "5"], found.start(["4", "5"])) or ()) == [1]
    start = found.start(["4"])
    assert (found.end(1, 0, start).marker or BatchRow(*row(1, 0, 0, 0))).base_offset == 4
    found.read_next(["4", "5"], start)
    start = found.start(["4", "9"])
    assert found.end(1, 0, start).order is None


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
        if isinstance(item, Gap):
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
    gaps = [item for item in found if isinstance(item, Gap)]
    assert [gap.reason for gap in gaps] == [Codes.ZERO_FILL] * 3
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
    tail = Piece(str(path), MIB, 7 * MIB)
    content = Content((Piece(None, 0, 2 * MIB, b"made"), tail), 9 * MIB)
    with ContentSource("", content) as source:
        assert [source.data_from(at) for at in (0, 3, 4, 2 * MIB, 6 * MIB)] == [0, 3, 5 * MIB, 5 * MIB, 9 * MIB]


def test_bounds_of_entries(tmp_path: Path) -> None:
    path = tmp_path / LOG
    path.write_bytes(b"".join(v2_batch(plain_rows(1), base_offset=n) for n in range(3)))
    with open_source(str(path)) as source:
        chunk = next(Walk(source).chunks())
        bounds = [*chunk.starts, chunk.end]
        for first in range(4):
            assert chunk.bounds(first) == bounds[first:]
            for last in range(first, 5):
                assert chunk.bounds(first, last) == bounds[first : last + 1]


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
        assert free.take(offset) == expected
        taken |= set() if expected is None else {expected}
