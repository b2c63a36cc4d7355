"""Hostile inputs take no more than linear time: counts of what is read and made. Times: ``tests/bench/slopes.py``."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from click.testing import CliRunner
from numpy.typing import NDArray

from kdump.cli.main import cli
from kdump.codes import Codes, Finding, KdumpError
from kdump.format import control
from kdump.kafka.producers import ProducerStates
from kdump.kafka.recover import SegmentRecovery
from kdump.kafka.segmentindexes import IndexBuilder
from kdump.kafka.startup import byoffset, epochs
from kdump.kafka.startup.byoffset import ByOffset
from kdump.kafka.startup.content import Content, ContentPiece, ContentSource
from kdump.kafka.startup.directory import Directory
from kdump.kafka.startup.loading import LoadSettings
from kdump.kafka.startup.names import offset_of
from kdump.log.gaps import Gap as Bytes
from kdump.log.opening import open_source
from kdump.log.resync import ResyncWalk
from kdump.log.source import FileSource, Source
from kdump.log.walk import Walk
from kdump.reading.transactionremains import LostOffsets, RemainingMarker, TransactionFollower
from kdump.repair.plan import recovery
from kdump.repair.plan.location import place_of
from kdump.repair.plan.plan import RepairMode, RepairSettings
from kdump.repair.plan.planner import Planner
from kdump.repair.plan.recovery import read_through, start_sha256
from kdump.repair.salvage import later
from kdump.repair.salvage.later import END_TXN, LaterTransactions
from kdump.repair.salvage.pieces import SalvageOptions
from kdump.repair.salvage.resolve import _FreeOffsets
from kdump.repair.salvage.transactions import TouchedTransactions
from kdump.verify import entries
from kdump.verify.headers import suspect_headers
from kdump.verify.segment import CheckOptions, SegmentReading
from kdump.verify.startcheck import check_start
from kdump.verify.table import BatchRow, row_dtype
from tests.harness.batches import CONTROL, TRANSACTIONAL, message, plain_rows, v2_batch
from tests.harness.cli_runs import kdump

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
    check_start(directory, LoadSettings(is_clean=False))
    expected = f"0\n{MANY}\n" + "".join(f"{n} {n}\n" for n in range(MANY))
    assert directory.read("leader-epoch-checkpoint") == expected.encode()
    assert written == [b"", expected.encode()]


@pytest.mark.parametrize("is_split", [False, True])
def test_offsets_are_not_listed_for_each_segment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_split: bool
) -> None:
    """Segments that are recovered one after the other, or split off one: each looks at a few offsets."""
    looks = 0

    class Counted(list[int]):
        def __iter__(self) -> Iterator[int]:
            nonlocal looks
            looks += len(self)
            return super().__iter__()

        def __getitem__(self, at: Any) -> Any:
            nonlocal looks
            found = super().__getitem__(at)
            looks += len(found) if isinstance(at, slice) else 1
            return found

    def made(self: ByOffset[object]) -> None:
        self.offsets, self._values = Counted(), {}

    def numbered(name: str) -> int:
        nonlocal looks
        looks += 1
        return offset_of(name)

    monkeypatch.setattr(ByOffset, "__init__", made)
    monkeypatch.setattr(byoffset, "offset_of", numbered)
    counts = []
    for count in (MANY, 4 * MANY):
        looks = 0
        entries = [v2_batch(plain_rows(1), base_offset=number << 31) for number in range(count)]
        logs = {LOG: b"".join(entries)} if is_split else {f"{n << 31:020}.log": one for n, one in enumerate(entries)}
        directory = Directory(str(tmp_path), {name: Content.of_bytes(data) for name, data in logs.items()})
        check = check_start(directory, LoadSettings(is_clean=False))
        assert {one.base_offset for one in check.start.recovered} == {number << 31 for number in range(count)}
        assert len(directory.snapshots.offsets) == count
        counts.append(looks)
    # Four times as many, and a search takes two steps more.
    assert counts[1] < 6 * counts[0]


def damaged_segments(folder: Path, count: int) -> list[str]:
    """Each with a gap in one transaction that has no end."""
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


@pytest.mark.parametrize("mode", [RepairMode.LIKE_BROKER, RepairMode.INDEXES])
def test_segments_before_are_read_once(tmp_path: Path, mode: RepairMode) -> None:
    """Recovery of each segment of the second half fails, so the producers after it come from the files before the next.

    It fails because a producer writes outside of the transaction that it opened.
    """
    counts = []
    for count in (MANY, 2 * MANY):
        folder = tmp_path / str(count) / "orders-0"
        folder.mkdir(parents=True)
        opened: list[str] = []

        def counted(path: str, opened: list[str] = opened) -> Source:
            opened.append(path)
            return open_source(path)

        paths = [str(folder / f"{2 * number:020}.log") for number in range(2 * count)]
        for number, path in enumerate(paths):
            batches = [
                v2_batch(plain_rows(1), base_offset=2 * number + at, attributes=attributes, producer_id=7)
                for at, attributes in enumerate((TRANSACTIONAL if number >= count else 0, 0))
            ]
            Path(path).write_bytes(b"".join(batches))
        planner = Planner(mode, RepairSettings(), counted)
        plan = planner.partition(str(folder), paths, place_of(str(folder)), is_whole=True)
        assert sum(segment.fails for segment in plan.segments) == count
        counts.append(len(opened))
    assert counts[1] < 2.5 * counts[0]


def test_following_segments_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "orders-0"
    folder.mkdir()
    paths = damaged_segments(folder, MANY)
    opened: list[str] = []

    def counted(path: str) -> Source:
        opened.append(path)
        return open_source(path)

    monkeypatch.setattr(later, "open_source", counted)
    planner = Planner(RepairMode.SALVAGE, RepairSettings(), salvaging=SalvageOptions())
    plan = planner.partition(str(folder), paths, place_of(str(folder)), is_whole=True)
    # The transaction goes on after each gap but the last one: its marker may lie there only.
    assert [len(segment.salvaged.transactions) for segment in plan.segments if segment.salvaged] == [0] * (MANY - 1) + [
        1
    ]
    assert sorted(opened) == paths[1:]


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


@pytest.mark.parametrize("seed", range(100))
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
    known = LaterTransactions([str(number) for number in range(len(segments))])
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
        found.see_later(known, len(segments) - first)
        for segment in segments[first:]:
            if expected.open:
                stepped(expected, segment)
        assert (found.open, found.touched, found.gaps) == (expected.open, expected.touched, expected.gaps)
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
    tail = ContentPiece(str(path), MIB, 7 * MIB)
    content = Content((ContentPiece(None, 0, 2 * MIB, b"made"), tail), 9 * MIB)
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


def test_a_plan_in_words_digests_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """No digest is shown, so tens of gigabytes of zeros cost nothing; JSON tells it."""
    folder = tmp_path / "orders-0"
    folder.mkdir()
    log = sparse(folder / LOG, [(0, v2_batch(plain_rows(1)))], 40 * MIB)
    digested = []

    def counted(source: Source, size: int, *rest: object) -> None:
        digested.append(size)

    monkeypatch.setattr(recovery, "_digest_rest", counted)
    for words in (["repair"], ["verify", "--engine", "local", "--startup", "--unclean"]):
        CliRunner().invoke(cli, [*words, str(folder)], standalone_mode=False)
        assert str(log.parent) in capfd.readouterr().out
    assert not digested
    monkeypatch.undo()
    told = json.loads(kdump("repair", "--output", "jsonl", str(folder), cwd=tmp_path).stdout)
    assert [one["sha256Before"] for one in told["logs"]] == [hashlib.sha256(log.read_bytes()).hexdigest()]


def test_digests_that_were_not_asked_for(tmp_path: Path) -> None:
    log = tmp_path / LOG
    log.write_bytes(v2_batch(plain_rows(1)) + b"\0" * 9)
    with open_source(str(log)) as source:
        read = read_through(
            source,
            SegmentRecovery(0, ProducerStates(), IndexBuilder(0, interval=4096, size=8192, keep=False)),
            digests=False,
        )
    assert read.recovery.end == log.stat().st_size - 9
    for one in (lambda: read.sha256, lambda: read.kept_sha256, read.kept):
        with pytest.raises(ValueError, match="not asked for"):
            one()


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


@pytest.mark.parametrize("columnar", [None, False, True])
def test_headers_between_gaps_are_checked_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columnar: bool | None
) -> None:
    checked: list[int] = []

    def counted(rows: NDArray[np.void]) -> NDArray[np.bool_]:
        checked.append(len(rows))
        return suspect_headers(rows)

    monkeypatch.setattr(entries, "suspect_headers", counted)
    with open_source(str(one_by_one(tmp_path / LOG, MANY))) as source:
        found = list(SegmentReading(source, options=CheckOptions(columnar=columnar)).items())
    assert checked == [MANY]
    assert [len(item) for item in found if not isinstance(item, Finding)] == [MANY]
    assert [item.length for item in found if isinstance(item, Finding)] == [5] * MANY


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
