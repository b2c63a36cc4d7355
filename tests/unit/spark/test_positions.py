"""Places in partitions that grow: each record once, whatever a broker does to the files in the meantime."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.codes import KdumpError
from kdump.inputs import inputs_of
from kdump.log.source import FileSource
from kdump.reading.selection import Range
from kdump.reading.transactionreader import TransactionReader
from kdump.rows.arrow import arrow_schema
from kdump.rows.tables import RECORD
from kdump.spark.byteranges import ByteRange, ChangedError, byte_ranges_between
from kdump.spark.partitions import PartitionLog, list_partitions
from kdump.spark.positions import UNLIMITED, Budget, DataLossError, StreamPosition, StreamTracker, shares
from kdump.spark.readrecords import ArrowOptions, read_log, read_logs
from kdump.tasks.logs import Wanted, log_files
from tests.harness.batches import message, v2_batch
from tests.harness.captures import Captures
from tests.harness.examples import examples
from tests.harness.fast_reference import Row
from tests.harness.growing import append, batch, batches

SCHEMA = pa.schema([arrow_schema(RECORD).field(name) for name in ("offset", "value")])
ID = "version: 0\ntopic_id: {}\n"


class Partition:
    """A directory, written as a broker does it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True)

    def path(self, base: int) -> Path:
        return self.directory / f"{base:020}.log"

    def append(self, base: int, data: bytes) -> None:
        append(self.directory, base, data)

    def cut(self, base: int, size: int) -> None:
        os.truncate(self.path(base), size)

    def delete(self, *bases: int) -> None:
        for base in bases:
            self.path(base).unlink()

    def replace(self, base: int, data: bytes) -> None:
        swap = self.path(base).with_suffix(".log.swap")
        swap.write_bytes(data)
        swap.rename(self.path(base))


def read_range(wanted: ByteRange, options: ArrowOptions) -> Iterator[pa.RecordBatch]:
    return read_log(wanted, options, TransactionReader())


class Reader:
    """A stream of one partition: what it was given, what it was told of as lost."""

    def __init__(self, partition: Partition, *, fails: bool = True) -> None:
        self.directory = str(partition.directory)
        self.place: StreamPosition | None = None
        self.offsets: list[int] = []
        self.losses: list[str] = []
        self.fails = fails

    def on_loss(self, what: str) -> None:
        if self.fails:
            raise DataLossError(what)
        self.losses.append(what)

    @property
    def tracker(self) -> StreamTracker:
        return StreamTracker(self.on_loss)

    def log(self) -> PartitionLog:
        return list_partitions([self.directory], Wanted(), raised)[self.directory]

    def end(self, budget: Budget = UNLIMITED) -> StreamPosition:
        log, tracker = self.log(), self.tracker
        start = tracker.earliest(log) if self.place is None else tracker.located(log, self.place)
        end = tracker.advanced(log, start, budget)
        assert StreamPosition.from_json(end.to_json()) == end
        return end

    def stretches(self, end: StreamPosition) -> list[ByteRange]:
        return list(byte_ranges_between(self.tracker, self.log(), self.place, end))

    def rows(self, end: StreamPosition) -> Iterator[int]:
        for stretch in self.stretches(end):
            options = ArrowOptions(RECORD, SCHEMA, Wanted(offsets=Range(stretch.first_offset, None)))
            for rows in read_range(stretch, options):
                yield from rows.column("offset").to_pylist()

    def take(self, budget: Budget = UNLIMITED) -> list[int]:
        """One micro-batch."""
        end = self.end(budget)
        rows = list(self.rows(end))
        self.place = end
        self.offsets += rows
        return rows


def raised(error: KdumpError) -> None:
    raise error


@pytest.fixture
def partition(tmp_path: Path) -> Partition:
    return Partition(tmp_path / "t-0")


def test_a_log_that_grows_in_torn_writes_and_rolls(partition: Partition) -> None:
    reader = Reader(partition)
    partition.append(0, b"")
    assert reader.take() == []
    data = batches(0, 10)
    for at in range(0, len(data), 7):
        partition.append(0, data[at : at + 7])
        taken = reader.take()
        whole = (at + 7) // len(batch(0))
        assert reader.offsets == list(range(2 * whole))
        assert taken == reader.offsets[len(reader.offsets) - len(taken) :]
    before = reader.place
    partition.append(10, b"")
    assert reader.take() == []
    assert before is not None
    assert reader.place is not None
    assert reader.place.position == before.position
    partition.append(10, batches(10, 14)[:-1])
    assert reader.take() == [10, 11]
    partition.append(10, batches(10, 14)[-1:])
    partition.append(14, batches(14, 16))
    assert reader.take() == [12, 13, 14, 15]


@examples(40)
@given(seed=st.integers(0, 2**32))
def test_every_record_once_however_it_is_written_and_taken(seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    choices = random.Random(seed)
    partition = Partition(tmp_path_factory.mktemp("p") / "t-0")
    reader = Reader(partition)
    base = offset = 0
    partition.append(0, b"")
    for _ in range(choices.randint(1, 25)):
        count = choices.randint(1, 4)
        data = batch(offset, count, size=choices.choice([0, 10, 500]))
        offset += count
        while data:
            size = choices.choice([1, 20, 61, 100, len(data)])
            partition.append(base, data[:size])
            data = data[size:]
            if choices.random() < 0.3:
                budget = choices.choice([UNLIMITED, Budget(choices.randint(1, 300)), Budget(None, 3), Budget(200, 5)])
                reader.take(budget)
        if choices.random() < 0.2:
            base = offset
            partition.append(base, b"")
    while reader.take(choices.choice([UNLIMITED, Budget(choices.randint(1, 300))])):
        pass
    reader.take()
    assert reader.offsets == list(range(offset))


def test_limits_take_whole_batches_and_go_on(partition: Partition) -> None:
    for base in (0, 10, 20):
        partition.append(base, batches(base, base + 10))
    size = len(batch(0))
    for budget, steps in [
        (Budget(2 * size), [4] * 7 + [2]),
        (Budget(1), [2] * 15),
        (Budget(5 * size), [10] * 3),
        (Budget(6 * size), [12] * 2 + [6]),
        (Budget(None, 10), [10] * 3),
        (Budget(None, 3), [2] * 15),
        (Budget(None, 12), [12, 12, 6]),
        (Budget(6 * size, 4), [4] * 7 + [2]),
        (UNLIMITED, [30]),
    ]:
        reader = Reader(partition)
        assert [len(reader.take(budget)) for _ in steps] == steps, budget
        assert reader.take() == []
        assert reader.offsets == list(range(30))


def test_limits_are_shared_by_what_is_new(tmp_path: Path) -> None:
    size = len(batch(0))
    logs: dict[str, tuple[PartitionLog, StreamPosition]] = {}
    tracker = StreamTracker(lambda what: None)
    for number, count in enumerate([0, 10, 30]):
        partition = Partition(tmp_path / f"t-{number}")
        partition.append(0, batches(0, 2 * count))
        log = Reader(partition).log()
        logs[str(number)] = log, tracker.earliest(log)

    def shared(limits: Budget) -> dict[str, Budget]:
        return shares({name: tracker.pending(log, place, limits) for name, (log, place) in logs.items()}, limits)

    assert shared(Budget(20 * size)) == {
        "0": Budget(0),
        "1": Budget(5 * size),
        "2": Budget(15 * size),
    }
    assert shared(Budget(None, 8)) == {
        "0": Budget(None, 0),
        "1": Budget(None, 2),
        "2": Budget(None, 6),
    }
    assert shared(Budget(100 * size, 1000)) == dict.fromkeys("012", UNLIMITED)


def test_retention(partition: Partition) -> None:
    reader, tolerant = Reader(partition), Reader(partition, fails=False)
    for base in (0, 10, 20):
        partition.append(base, batches(base, base + 10))
    size = partition.path(0).stat().st_size
    for each in (reader, tolerant):
        assert each.take(Budget(size)) == list(range(10))
    partition.delete(0)
    for each in (reader, tolerant):
        assert each.take(Budget(size)) == list(range(10, 20))
    partition.append(30, batches(30, 32))
    partition.delete(10, 20)
    with pytest.raises(DataLossError, match="offsets 20 to 29 were deleted"):
        reader.take()
    assert tolerant.take() == [30, 31]
    assert len(tolerant.losses) == 1 or len(set(tolerant.losses)) == 1


def test_a_segment_in_the_middle_that_is_deleted(partition: Partition) -> None:
    reader, tolerant = Reader(partition), Reader(partition, fails=False)
    partition.append(0, batches(0, 10))
    for each in (reader, tolerant):
        each.take()
    for base in (10, 20):
        partition.append(base, batches(base, base + 10))
    partition.delete(10)
    with pytest.raises(DataLossError, match="offsets 10 to 19 were deleted"):
        reader.take()
    assert tolerant.take() == list(range(20, 30))


def test_a_segment_that_was_seen_and_not_taken(partition: Partition) -> None:
    for base in (0, 10, 20):
        partition.append(base, batches(base, base + 10))
    reader = Reader(partition)
    reader.take(Budget(1))
    partition.delete(10)
    with pytest.raises(DataLossError, match="offsets 10 to 19 were deleted"):
        reader.take()


def test_a_file_that_is_deleted_or_cut_after_the_plan(partition: Partition) -> None:
    partition.append(0, batches(0, 10))
    partition.append(10, batches(10, 20))
    reader = Reader(partition)
    first, second = reader.stretches(reader.end())
    partition.cut(10, 30)
    with pytest.raises(ChangedError, match="start the query again"):
        second.open_planned()
    partition.append(0, b"x")
    with pytest.raises(ChangedError):
        first.open_planned()
    partition.delete(0)
    with pytest.raises(DataLossError, match=r"0\.log was deleted before it was read"):
        first.open_planned()


def test_compaction_under_the_reader(partition: Partition) -> None:
    for base in (0, 10, 20):
        partition.append(base, batches(base, base + 10))
    reader = Reader(partition)
    reader.take(Budget(2 * len(batch(0))))
    assert reader.offsets == [0, 1, 2, 3]
    partition.replace(0, batch(2) + batch(6))
    assert reader.take(Budget(1)) == [6, 7]
    # Merged into the segment before.
    partition.replace(0, batch(2) + batch(6) + batch(14))
    partition.delete(10)
    assert reader.take() == [14, 15, *range(20, 30)]


def test_a_segment_that_was_taken_and_merged(partition: Partition) -> None:
    for base in (0, 10, 20):
        partition.append(base, batches(base, base + 10))
    reader = Reader(partition)
    reader.take(Budget(6 * len(batch(0))))
    assert reader.offsets[-1] == 11
    partition.replace(0, batch(8) + batch(12))
    partition.delete(10)
    assert reader.take() == [12, 13, *range(20, 30)]


def test_a_log_that_was_cut_and_written_anew(partition: Partition) -> None:
    """Records of the later epoch are new, whether or not the log is as long as before."""
    for more in (0, 2, 6, 40):
        reader, tolerant = Reader(partition), Reader(partition, fails=False)
        partition.path(0).write_bytes(batches(0, 20))
        for each in (reader, tolerant):
            assert each.take() == list(range(20))
        partition.cut(0, 6 * len(batch(0)))
        partition.append(0, batches(12, 12 + more, epoch=1))
        with pytest.raises(DataLossError, match="the log was cut to offset 12, it was read up to offset 20"):
            reader.take()
        assert tolerant.take() == list(range(12, 12 + more))
        partition.append(0, batches(12 + more, 14 + more, epoch=1))
        assert tolerant.take() == [12 + more, 13 + more]


def test_a_rolled_log_that_was_cut_and_written_anew(partition: Partition) -> None:
    """A mismatch in a rolled segment is no compaction where the epoch of what lies there is later."""
    partition.append(0, batches(0, 20))
    partition.append(20, batches(20, 30))
    reader = Reader(partition, fails=False)
    reader.take(Budget(8 * len(batch(0))))
    partition.cut(0, 6 * len(batch(0)))
    partition.delete(20)
    partition.append(0, batches(12, 40, epoch=3))
    partition.append(40, batches(40, 42, epoch=3))
    assert reader.take() == list(range(12, 42))
    assert "cut to offset 12" in reader.losses[0]


def test_a_topic_that_was_made_anew(partition: Partition) -> None:
    metadata = partition.directory / "partition.metadata"
    metadata.write_text(ID.format("AAAAAAAAAAAAAAAAAAAAAQ"))
    partition.append(0, batches(0, 10))
    reader, tolerant = Reader(partition), Reader(partition, fails=False)
    for each in (reader, tolerant):
        each.take()
    metadata.write_text(ID.format("AAAAAAAAAAAAAAAAAAAAAg"))
    partition.replace(0, batches(0, 40, count=4))
    with pytest.raises(DataLossError, match="made anew"):
        reader.take()
    assert tolerant.take() == list(range(40))


def test_replayed_work_after_retention_compaction_and_a_cut(partition: Partition) -> None:
    """Planned and not committed: the same range, by its offsets, of what there is now."""
    for base in (0, 10, 20):
        partition.append(base, batches(base, base + 10))
    reader = Reader(partition)
    end = reader.end(Budget(8 * len(batch(0))))
    assert list(reader.rows(end)) == list(range(16))
    partition.append(20, batches(30, 32))
    assert list(reader.rows(end)) == list(range(16))
    partition.replace(0, batch(4))
    partition.replace(10, batch(14) + batch(18))
    assert list(reader.rows(end)) == [4, 5, 14, 15]
    reader.place = end
    assert reader.take() == [18, 19, *range(20, 32)]


def test_a_torn_tail_of_a_rolled_segment(partition: Partition) -> None:
    partition.append(0, batches(0, 10) + batch(10)[:-3])
    reader = Reader(partition)
    assert reader.take() == list(range(10))
    partition.append(12, batches(12, 14))
    assert reader.take() == [12, 13]
    assert reader.take() == []


def test_damage_does_not_stall(partition: Partition) -> None:
    data = bytearray(batches(0, 10))
    size = len(batch(0))
    data[2 * size + 8 : 2 * size + 12] = (1 << 20).to_bytes(4, "big")
    partition.append(0, bytes(data))
    reader = Reader(partition)
    assert reader.take() == [0, 1, 2, 3, 6, 7, 8, 9]
    flipped = bytearray(batches(10, 14))
    flipped[70] ^= 1
    partition.append(0, bytes(flipped))
    assert reader.take() == [10, 11, 12, 13]
    assert reader.take() == []


def test_batches_in_the_payload_of_a_batch_that_is_being_written(partition: Partition) -> None:
    """They are payload; only where nothing is written for long, or the segment rolled, can they be what is left."""
    inner = batches(100, 120)
    outer = v2_batch([Row(0, 0, b"k", inner + b"x" * 50)], base_offset=2)
    at = outer.index(inner) + len(inner)
    partition.append(0, batch(0) + outer[:at])
    reader = Reader(partition)
    assert reader.take() == [0, 1]
    partition.append(0, outer[at:])
    assert reader.take() == [2]
    partition.append(0, v2_batch([Row(0, 0, b"k", inner + b"x" * 50)], base_offset=3)[:at])
    assert reader.take() == []
    old = time.time() - 60
    os.utime(partition.path(0), (old, old))
    assert reader.take() == list(range(100, 120))


def test_a_preallocated_segment(partition: Partition) -> None:
    """The zeros after the newest batch are not read."""
    partition.append(0, batches(0, 4) + bytes(1 << 20))
    reader = Reader(partition)
    assert reader.take() == [0, 1, 2, 3]
    with partition.path(0).open("r+b") as file:
        file.seek(len(batches(0, 4)))
        file.write(batches(4, 6))
    assert reader.take() == [4, 5]


def test_legacy_messages(partition: Partition) -> None:
    data = b"".join(message(1, offset, b"k", b"v%d" % offset) for offset in range(6))
    reader = Reader(partition)
    partition.append(0, data[:-1])
    assert reader.take() == [0, 1, 2, 3, 4]
    partition.append(0, data[-1:])
    assert reader.take() == [5]
    partition.cut(0, len(data) // 2)
    with pytest.raises(DataLossError, match="cut to offset 3"):
        reader.take()


def test_where_a_stream_begins(partition: Partition) -> None:
    for base in (4, 10, 20):
        partition.append(base, batches(base, base + (6 if base == 4 else 10)))
    reader = Reader(partition)
    log, tracker = reader.log(), reader.tracker
    assert tracker.earliest(log).next == 4
    assert tracker.latest(log).next == 30
    for offset, place in [(0, 4), (4, 4), (5, 4), (6, 6), (10, 10), (13, 12), (30, 30), (99, 30)]:
        assert tracker.at_offset(log, offset).next == place


def test_the_index_leads_to_the_end(partition: Partition, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a large log only what is near its end, or near an offset, is read."""
    log, index = bytearray(), bytearray()
    for offset in range(0, 40_000, 400):
        if offset % 800 == 0 and offset:
            index += (offset + 399).to_bytes(4, "big") + len(log).to_bytes(4, "big")
        log += batch(offset, 400, size=300)
    assert len(log) > 8 << 20
    partition.append(0, bytes(log))
    partition.path(0).with_suffix(".index").write_bytes(index)
    read = 0
    plain = FileSource.read_into

    def counted(self: FileSource, view: memoryview, position: int) -> int:
        nonlocal read
        count = plain(self, view, position)
        read += count
        return count

    monkeypatch.setattr(FileSource, "read_into", counted)
    reader = Reader(partition)
    for place, offset in [
        (reader.tracker.latest(reader.log()), 40_000),
        (reader.tracker.at_offset(reader.log(), 20_000), 20_000),
        (reader.tracker.at_offset(reader.log(), 20_399), 20_000),
    ]:
        assert place.next == offset
        assert place.position == len(log) * offset // 40_000 or abs(place.position - len(log) * offset / 40_000) < 1e5
        assert read < 3 << 20
        read = 0


def test_which_partitions_are_listed(tmp_path: Path) -> None:
    for name in ("t-0", "a.b-1", "t-1.abc-delete", "t-2.abc-future", "notes", "t-3"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{0:020}.log").touch()
    (tmp_path / "recovery-point-offset-checkpoint").touch()
    (tmp_path / "t-3" / f"{0:020}.log").unlink()
    for extra in (f"{5:020}.log", f"{7:020}.log.deleted", f"{8:020}.log.swap", f"{5:020}.index"):
        (tmp_path / "t-0" / extra).touch()

    def listed(*paths: Path | str, wanted: Wanted | None = None) -> dict[str, tuple[int, ...]]:
        found = list_partitions(list(map(str, paths)), wanted or Wanted(), raised)
        return {os.path.relpath(name, tmp_path): log.bases for name, log in found.items()}

    every = {"t-0": (0, 5), "a.b-1": (0,), "t-3": ()}
    assert listed(tmp_path) == every
    assert listed(tmp_path / "*") == {**every, "notes": (0,)}
    assert listed(tmp_path / "t-0", tmp_path / "t-0" / "*") == {"t-0": (0, 5)}
    assert listed(tmp_path / "t-0" / f"{5:020}.log") == {"t-0": (5,)}
    assert listed(tmp_path / "t-1.abc-delete") == {"t-1.abc-delete": (0,)}
    assert listed(tmp_path, wanted=Wanted(topics=frozenset({"a.b"}))) == {"a.b-1": (0,)}
    assert listed(tmp_path / "none-*") == {}
    for wrong in ("none", "recovery-point-offset-checkpoint"):
        with pytest.raises(KdumpError, match=wrong):
            listed(tmp_path / wrong)


@pytest.mark.slow
def test_captures_that_grow_give_the_rows_of_a_batch_read(captures: Captures, tmp_path: Path) -> None:
    """Damage included: in torn writes, taken with and without limits, then rolled."""
    schema = pa.schema([arrow_schema(RECORD).field(name) for name in ("position", "offset", "isValid", "value")])
    options = ArrowOptions(RECORD, schema)

    def rows(parts: Iterable[pa.RecordBatch]) -> list[str]:
        return sorted(repr(row) for part in parts for row in part.to_pylist())

    def of(ranges: Iterable[ByteRange]) -> list[str]:
        return [row for each in ranges for row in rows(read_range(each, options))]

    choices = random.Random(7)
    logs = [path for path in captures.files(".log", 12_000) if path.stat().st_size]
    for number, path in enumerate(logs):
        partition = Partition(tmp_path / f"t-{number}")
        reader = Reader(partition, fails=False)
        base = int(path.name[:20])
        data, at, got = path.read_bytes(), 0, []
        while at <= len(data):
            size = choices.randint(1, len(data) // 2 + 1)
            partition.append(base, data[at : at + size])
            at += size
            end = reader.end(choices.choice([UNLIMITED, Budget(choices.randint(1, len(data))), Budget(None, 7)]))
            got += of(reader.stretches(end))
            reader.place = end
        partition.append(base + (1 << 30), b"")
        end = reader.end()
        got += of(reader.stretches(end))
        assert sorted(got) == rows(
            read_logs(log_files(inputs_of([str(partition.path(base))], raised, with_patterns=True), raised), options)
        ), path


def test_a_wrong_crc_before_a_batch_that_is_being_written(partition: Partition) -> None:
    """Whether its length is right too, the batch after it says when it is whole."""
    outer = v2_batch([Row(0, 0, b"k", batches(100, 120))], base_offset=2, crc=1)
    partition.append(0, batch(0) + outer + batch(3)[:-5])
    reader = Reader(partition)
    assert reader.take() == [0, 1]
    partition.append(0, batch(3)[-5:])
    assert reader.take() == [2, 3, 4]
