"""Ranges, numbers, splits, transactions and damage: what of a segment becomes which segments."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.codes import Codes
from kdump.convert.conversion import LossKind
from kdump.format.batch import parse_header
from kdump.format.index import parse_txn_index
from kdump.kafka.producers import ProducerStates
from kdump.kafka.recover import RecoveryOutcome, recover
from kdump.log.opening import open_source
from kdump.reading.selection import Range
from tests.harness.batches import (
    CONTROL,
    GZIP,
    LOG_APPEND_TIME,
    NONE,
    NOW,
    TRANSACTIONAL,
    ZSTD,
    entries,
    message,
    plain_rows,
    v2_batch,
    wrapper,
)
from tests.harness.captures import FIXTURES, Captures
from tests.harness.conversions import Seen, convert, converted, records
from tests.harness.examples import examples
from tests.harness.fast_reference import Row

NAME = f"{0:020}.log"
TRANSACTIONS = FIXTURES / "segments" / "v2-txn-0"


def segment(folder: Path, *parts: bytes, name: str = NAME) -> Path:
    path = folder / "in" / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"".join(parts))
    return path


def recovered(log: Path) -> None:
    """The index files are those that a broker's recovery builds."""
    with open_source(str(log)) as source:
        recovery = recover(source, int(log.stem), ProducerStates())
    assert recovery.outcome is RecoveryOutcome.UNCHANGED
    assert recovery.indexes is not None
    assert log.with_suffix(".index").read_bytes() == recovery.indexes.index
    assert log.with_suffix(".timeindex").read_bytes() == recovery.indexes.time_index
    txn_index = log.with_suffix(".txnindex")
    assert (txn_index.read_bytes() if txn_index.exists() else None) == recovery.indexes.txn_index


def batch_of(first: int, count: int = 10, **header: int) -> bytes:
    return v2_batch(plain_rows(count), base_offset=first, **header)


def sizes(magic: int, count: int, value: bytes, key: bytes | None, folder: Path) -> int:
    rows = [Row(0, number, key, value) for number in range(count)]
    return len(converted(segment(folder, v2_batch(rows)), folder / NAME, to_magic=magic))


def test_sizes_that_users_know(tmp_path: Path) -> None:
    assert [sizes(magic, 10, b"6bytes", None, tmp_path) for magic in (2, 1, 0)] == [191, 400, 320]
    assert [sizes(magic, 1, b"value", b"key", tmp_path) for magic in (0, 1, 2)] == [34, 42, 76]


@pytest.mark.parametrize("magic", [0, 1])
def test_sizes_on_the_way_up(tmp_path: Path, magic: int) -> None:
    old = [message(magic, number, None, b"6bytes") for number in range(10)]
    assert len(converted(segment(tmp_path, *old), tmp_path / NAME, to_magic=2)) == 191


@pytest.mark.parametrize("to_magic", [None, 0, 1, 2])
@pytest.mark.parametrize("name", ["v2-none-0", "v1-multi-0", "v1-lat-0", "v0-snappy-0", "v2-txn-0", "v2-compact-0"])
def test_indexes_of_captures(captures: Captures, tmp_path: Path, name: str, to_magic: int | None) -> None:
    found = [path for partition in captures.partitions() for path in captures.segment_files(partition)
             if partition.split("/")[-1] == name and path.suffix == ".log" and path.stat().st_size]  # fmt: skip
    if not found:
        pytest.skip(f"no capture {name}")
    log = min(found)
    target = tmp_path / log.name
    result = convert(log, target, to_magic=to_magic, codec=NONE)
    assert result.error is None, result.error
    recovered(target)


@st.composite
def mixed_logs(draw: st.DrawFn) -> list[bytes]:
    """Entries of all kinds with rising offsets."""
    offset, found = draw(st.integers(0, 50)), []
    for _ in range(draw(st.integers(1, 6))):
        kind = draw(st.sampled_from(["batch", "empty", "message", "wrapper"]))
        gaps = draw(st.lists(st.integers(1, 3), min_size=1, max_size=5))
        places = [sum(gaps[:number]) for number in range(len(gaps))]
        times = draw(st.lists(st.integers(0, 20), min_size=len(gaps), max_size=len(gaps)))
        magic = draw(st.sampled_from([0, 1]))
        if kind == "batch":
            rows = [Row(time, place, None, b"%d" % (offset + place)) for time, place in zip(times, places, strict=True)]
            found.append(v2_batch(rows, base_offset=offset, codec=draw(st.sampled_from([NONE, GZIP, ZSTD]))))
        elif kind == "empty":
            found.append(v2_batch(base_offset=offset, last_offset_delta=places[-1]))
        elif kind == "message":
            found.append(message(magic, offset + places[-1], None, b"m", timestamp=NOW + times[0]))
        else:
            base = offset if magic == 0 else 0
            inner = [message(magic, base + place, None, b"w", timestamp=NOW + time)
                     for time, place in zip(times, places, strict=True)]  # fmt: skip
            found.append(wrapper(magic, offset + places[-1], inner, timestamp=NOW + max(times)))
        offset += places[-1] + draw(st.integers(1, 4))
    return found


BOUND = st.none() | st.integers(0, 90)
TIME = st.none() | st.integers(NOW, NOW + 20)


@given(mixed_logs(), st.builds(Range, BOUND, BOUND), st.builds(Range, TIME, TIME), st.sampled_from([None, 2]))
@examples(150)
def test_ranges(tmp_path: Path, log: list[bytes], offsets: Range, times: Range, to_magic: int | None) -> None:
    source = segment(tmp_path, *log)
    got = converted(source, tmp_path / NAME, offsets=offsets, times=times, to_magic=to_magic)
    expected = [
        record
        for entry in log
        for record in records(entry)
        if record.offset in offsets and (times.is_open or (entry[16] > 0 and record.timestamp in times))
    ]
    assert records(got) == expected
    recovered(tmp_path / NAME)
    for header in (parse_header(entry) for entry in entries(got) if entry[16] == 2):
        assert header.base_offset in offsets
        assert header.last_offset in offsets


@given(mixed_logs(), st.integers(0, 2**40), st.sampled_from([None, 0, 1, 2]), st.sampled_from([None, NONE, GZIP]))
@examples(100)
def test_renumber(tmp_path: Path, log: list[bytes], first: int, to_magic: int | None, codec: int | None) -> None:
    source, target = segment(tmp_path, *log), tmp_path / f"{first:020}.log"
    result = convert(source, target, renumber=first, to_magic=to_magic, codec=codec)
    if result.error is not None:
        assert result.error.code is Codes.NO_CODEC
        return
    before, after = records(b"".join(log)), records(target.read_bytes())
    assert [record.offset for record in after] == list(range(first, first + len(before)))
    assert [record.value for record in after] == [record.value for record in before]
    recovered(target)


@given(mixed_logs(), st.integers(1, 400), st.sampled_from([None, 2]))
@examples(60)
def test_split(tmp_path: Path, log: list[bytes], most: int, to_magic: int | None) -> None:
    source, folder = segment(tmp_path, *log), tmp_path / "out"
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    result = convert(source, folder, split_bytes=most, to_magic=to_magic)
    logs = sorted(folder.glob("*.log"))
    assert [segment.path for segment in result.segments] == list(map(str, logs))
    parts = [path.read_bytes() for path in logs]
    assert b"".join(parts) == converted(source, tmp_path / NAME, to_magic=to_magic or 2) or to_magic is None
    assert records(b"".join(parts)) == records(b"".join(log))
    for path, part in zip(logs, parts, strict=True):
        assert len(part) <= most or len(entries(part)) == 1
        recovered(path)
    for part, following in pairwise(parts):
        assert len(part) + len(entries(following)[0]) > most


def test_names(tmp_path: Path) -> None:
    source = segment(tmp_path, batch_of(5), batch_of(15), batch_of(25), name=f"{5:020}.log")
    folder = tmp_path / "out"
    folder.mkdir()
    result = convert(source, folder, split_bytes=1)
    assert [(Path(part.path).name, part.base_offset) for part in result.segments] == [
        (f"{offset:020}.log", offset) for offset in (5, 15, 25)
    ]
    # A file that is not named by an offset goes on from the source's.
    result = convert(source, folder / "mine", offsets=Range(20, None))
    assert result.segments[0].base_offset == 5
    assert {path.name for path in folder.iterdir()} >= {"mine", "mine.index", "mine.timeindex"}


def test_base_offset_above_the_records(tmp_path: Path) -> None:
    result = convert(segment(tmp_path, batch_of(5)), tmp_path / f"{99:020}.log", to_magic=2)
    assert result.error is not None
    assert result.error.code is Codes.OFFSET_RANGE
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_a_cut_batch_keeps_what_it_is(tmp_path: Path) -> None:
    header = {"producer_id": 7, "producer_epoch": 2, "base_sequence": 2**31 - 3, "partition_leader_epoch": 9}
    source = segment(tmp_path, batch_of(100, **header), name=f"{100:020}.log")
    (batch,) = entries(converted(source, tmp_path / NAME, offsets=Range(104, 107)))
    got = parse_header(batch)
    assert (got.base_offset, got.last_offset, got.record_count) == (104, 106, 3)
    assert got.base_sequence == 1  # after the largest one comes 0
    assert (got.producer_id, got.producer_epoch, got.partition_leader_epoch) == (7, 2, 9)
    assert got.max_timestamp == NOW + 6


@pytest.mark.parametrize("to_magic", [None, 0, 1, 2])
def test_an_empty_log(tmp_path: Path, to_magic: int | None) -> None:
    assert converted(segment(tmp_path), tmp_path / NAME, to_magic=to_magic) == b""
    assert (tmp_path / NAME).with_suffix(".index").read_bytes() == b""


def test_empty_batches(tmp_path: Path) -> None:
    """They stay in their own format, where they may hold a producer's last sequence, and vanish from older ones."""
    log = (batch_of(0), v2_batch(base_offset=10, last_offset_delta=9, attributes=ZSTD, body=b""), batch_of(20))
    source = segment(tmp_path, *log)
    assert converted(source, tmp_path / NAME, to_magic=2) == b"".join(log)
    assert converted(source, tmp_path / NAME, codec=GZIP).find(log[1]) > 0


@pytest.mark.parametrize("codec", [None, GZIP])
def test_an_empty_batch_of_zstd_needs_no_zstd(tmp_path: Path, codec: int | None) -> None:
    source = segment(tmp_path, v2_batch([], codec=NONE, attributes=ZSTD, last_offset_delta=4), batch_of(5))
    result = convert(source, tmp_path / NAME, to_magic=1, codec=codec)
    # Without another codec as Kafka does it.
    assert (result.error is not None) == (codec is None)
    assert not result.losses


@pytest.mark.parametrize("failing", [1, 2])
def test_nothing_is_left_of_a_log_that_cannot_be_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    calls = iter(range(1, 9))

    def fsync(descriptor: int) -> None:
        if next(calls) == failing:
            raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", fsync)
    result = convert(segment(tmp_path, batch_of(0)), tmp_path / NAME, codec=GZIP)
    assert result.error is not None
    assert result.error.code is Codes.UNWRITABLE
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_an_empty_batch_of_a_transaction_stays_empty(tmp_path: Path) -> None:
    """It has no record to show, and readers of committed records wait for the end of its transaction as for any."""
    producer = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    empty = v2_batch(base_offset=10, last_offset_delta=9, attributes=ZSTD | TRANSACTIONAL, body=b"", **producer)
    source = segment(tmp_path, batch_of(0), empty)
    settings = {"codec": ZSTD, "level": 5, "offsets": Range(0, 99)}
    refused = convert(source, tmp_path / NAME, **settings)
    assert refused.error is not None
    assert refused.error.code is Codes.SLICE_OPEN
    first, last = entries(converted(source, tmp_path / NAME, keep_open=True, **settings))
    assert parse_header(first).codec == ZSTD
    assert last == empty


def test_log_append_time_up(tmp_path: Path) -> None:
    times = (NOW, NOW, NOW + 1)
    old = [
        message(1, number, None, b"a", timestamp=time, attributes=LOG_APPEND_TIME) for number, time in enumerate(times)
    ]
    got = converted(segment(tmp_path, *old), tmp_path / NAME, to_magic=2)
    assert [record[:3] for record in records(got)] == [(number, time, True) for number, time in enumerate(times)]
    assert len(entries(got)) == 2


def test_level_recompresses(tmp_path: Path) -> None:
    rows = [Row(number, number, None, b"%d" % (number * 7919)) for number in range(500)]
    source = segment(tmp_path, v2_batch(rows, codec=ZSTD))
    assert converted(source, tmp_path / NAME, codec=ZSTD) == source.read_bytes()
    small = converted(source, tmp_path / NAME, codec=ZSTD, level=19)
    assert len(small) < len(source.read_bytes())
    assert records(small) == records(source.read_bytes())


@pytest.mark.parametrize("codec", [NONE, GZIP])
def test_wrappers_of_messages(tmp_path: Path, codec: int) -> None:
    """Messages that stand alone go into wrappers when a codec is asked for, and come out again with none."""
    old = [message(1, number, b"key", b"%d" % number * 500) for number in range(40)]
    source = segment(tmp_path, *old)
    packed = converted(source, tmp_path / NAME, codec=GZIP)
    assert len(entries(packed)) > 1
    assert {entry[17] for entry in entries(packed)} == {GZIP}
    assert converted(segment(tmp_path, packed), tmp_path / NAME, codec=NONE) == b"".join(old)


def transactional_log() -> Path:
    return min(TRANSACTIONS.glob("*.log"))


def outcomes() -> tuple[list[Seen], list[Seen]]:
    """All records of the capture, and those that are not in its index of aborted transactions."""
    log = transactional_log().read_bytes()
    # A transaction is in the index of the segment that it ends in.
    aborted = [txn for path in TRANSACTIONS.glob("*.txnindex") for txn in parse_txn_index(path.read_bytes())]
    everything, committed = [], []
    for entry in entries(log):
        header = parse_header(entry)
        seen = records(entry)
        everything += seen
        if not any(
            txn.producer_id == header.producer_id and txn.first_offset <= header.base_offset <= txn.last_offset
            for txn in aborted
        ):
            committed += seen
    return everything, committed


@pytest.mark.parametrize("to_magic", [1, 2])
def test_read_committed(tmp_path: Path, to_magic: int) -> None:
    everything, committed = outcomes()
    assert len(committed) < len(everything)
    result = convert(transactional_log(), tmp_path / NAME, read_committed=True, to_magic=to_magic)
    log = (tmp_path / NAME).read_bytes()
    got = records(log)
    assert [record.offset for record in got] == [
        record.offset for record in committed if record.offset <= got[-1].offset
    ]
    assert result.left_out > 0
    assert LossKind.ABORTED not in result.losses
    assert not any(entry[16] == 2 and entry[22] & (TRANSACTIONAL | CONTROL) for entry in entries(log))


def test_losses_of_transactions(tmp_path: Path) -> None:
    everything, committed = outcomes()
    result = convert(transactional_log(), tmp_path / NAME, to_magic=1)
    headers = [parse_header(entry) for entry in entries(transactional_log().read_bytes())]
    data = [header for header in headers if header.is_transactional and not header.is_control]
    assert result.losses[LossKind.ABORTED] == len(everything) - len(committed)
    assert result.losses[LossKind.TRANSACTIONS] == len(data)
    assert result.losses[LossKind.CONTROL_RECORDS] == sum(header.is_control for header in headers)
    assert result.losses[LossKind.PRODUCERS] == sum(
        header.producer_id >= 0 and not header.is_control for header in headers
    )


def test_recompression_loses_nothing(tmp_path: Path) -> None:
    result = convert(transactional_log(), tmp_path / NAME, codec=ZSTD, to_magic=2)
    assert not result.losses
    before = transactional_log().with_suffix(".txnindex").read_bytes()
    assert (tmp_path / NAME).with_suffix(".txnindex").read_bytes() == before
    old, new = (entries(path.read_bytes()) for path in (transactional_log(), tmp_path / NAME))
    assert [parse_header(entry).codec for entry in new] == [
        0 if parse_header(entry).is_control else ZSTD for entry in old
    ]
    assert [entry for entry in new if parse_header(entry).is_control] == [
        entry for entry in old if parse_header(entry).is_control
    ]


DAMAGE = {
    "crc": v2_batch(plain_rows(3), base_offset=10, crc=1),
    "codec": v2_batch(plain_rows(3), base_offset=10, attributes=5),
    "payload": v2_batch(plain_rows(3), base_offset=10, codec=GZIP, body=b"no gzip"),
    "record": v2_batch(base_offset=10, body=b"\x7f\0\0", record_count=1),
    "count": v2_batch(plain_rows(3), base_offset=10, record_count=4, last_offset_delta=3),
    "message": message(1, 10, b"k", b"v", crc=1),
    "inner crc": wrapper(1, 11, [message(1, 0, None, b"a", crc=1), message(1, 1, None, b"b")]),
    "wrapper": message(1, 10, None, b"no gzip", attributes=GZIP),
    "garbage": b"garbage, and a lot of it " * 9,
    "length": b"\0" * 60,
}


@pytest.mark.parametrize("to_magic", [None, 1, 2])
@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_damage(tmp_path: Path, damage: bytes, to_magic: int | None) -> None:
    source = segment(tmp_path, batch_of(0), damage, batch_of(20))
    result = convert(source, tmp_path / NAME, to_magic=to_magic)
    assert result.error is not None
    assert result.error.path == str(source)
    assert result.findings[0].position == result.error.position == len(batch_of(0))
    assert not result.staged
    assert [path.name for path in tmp_path.iterdir()] == ["in"]
    result = convert(source, tmp_path / NAME, to_magic=to_magic, skip_damaged=True)
    assert result.error is None
    assert [finding.position for finding in result.findings] == [len(batch_of(0))]
    sound = [replace_headers(record) for record in records(batch_of(0) + batch_of(20))]
    assert records((tmp_path / NAME).read_bytes()) == sound


def replace_headers(record: Seen) -> Seen:
    return record._replace(headers=())


@pytest.mark.parametrize("to_magic", [None, 1, 2])
def test_a_higher_magic_is_read_as_2(tmp_path: Path, to_magic: int | None) -> None:
    """As brokers and a dump read it; no CRC covers the magic. With a wrong CRC the batch is damage."""
    rows = plain_rows(3)
    source = segment(tmp_path, batch_of(0), v2_batch(rows, base_offset=10, magic=5), batch_of(20))
    result = convert(source, tmp_path / NAME, to_magic=to_magic, codec=GZIP)
    assert (result.error, result.findings) == (None, [])
    sound = batch_of(0) + v2_batch(rows, base_offset=10) + batch_of(20)
    expected = records(sound)
    if to_magic == 1:
        expected = [replace_headers(record) for record in expected]
    assert records((tmp_path / NAME).read_bytes()) == expected
    source = segment(tmp_path, batch_of(0), v2_batch(rows, base_offset=10, magic=5, crc=1), batch_of(20))
    result = convert(source, tmp_path / NAME, to_magic=to_magic)
    assert result.findings[0].code is Codes.BATCH_CRC


def test_an_offset_that_does_not_fit_the_name(tmp_path: Path) -> None:
    """One changed base offset costs one batch, and what follows is not taken for out of order."""
    for offset in (-1, 1 << 62):
        source = segment(tmp_path, batch_of(offset), batch_of(10), batch_of(20))
        result = convert(source, tmp_path / NAME, codec=GZIP)
        assert result.error is not None
        assert result.error.code is Codes.OFFSET_RANGE
        result = convert(source, tmp_path / NAME, codec=GZIP, skip_damaged=True)
        assert [finding.code for finding in result.findings] == [Codes.OFFSET_RANGE]
        assert records((tmp_path / NAME).read_bytes()) == records(batch_of(10) + batch_of(20))
        (tmp_path / NAME).unlink()


@pytest.mark.parametrize(("tail", "code"), [(batch_of(10)[:-1], Codes.TRUNCATED), (bytes(5000), Codes.ZERO_TAIL)])
def test_the_end_of_a_file(tmp_path: Path, tail: bytes, code: Codes) -> None:
    source = segment(tmp_path, batch_of(0), tail)
    result = convert(source, tmp_path / NAME, to_magic=2)
    assert result.error is not None
    assert result.error.code is code
    assert converted(source, tmp_path / NAME, to_magic=2, skip_damaged=True) == batch_of(0)


def test_padded_numbers(tmp_path: Path) -> None:
    """What no writer makes and every reader takes goes another way to the same result."""
    rows = plain_rows(3)
    body = b"".join(encode_padded(row) for row in rows)
    log = v2_batch(rows, body=body) + batch_of(3)
    source = segment(tmp_path, log)
    assert records(converted(source, tmp_path / NAME, to_magic=1)) == records(log)
    assert records(converted(source, tmp_path / NAME, to_magic=2, codec=GZIP)) == records(log)


def encode_padded(row: Row) -> bytes:
    from tests.harness.fast_reference import encode

    return encode(replace(row), padding=2)


def test_offsets_that_go_back(tmp_path: Path) -> None:
    """Of batches that contradict each other the first stays; a hole is no contradiction."""
    good, end = batch_of(10), batch_of(40)
    source = segment(tmp_path, good, good, batch_of(0), batch_of(5), message(1, 12, None, b"v"), end)
    result = convert(source, tmp_path / NAME, to_magic=1)
    assert result.error is not None
    assert [path.name for path in tmp_path.iterdir()] == ["in"]
    (found,) = result.findings
    assert result.error.code is found.code is Codes.OFFSETS_OVERLAP
    assert (found.position, found.length) == (len(good), len(good) + len(batch_of(0) + batch_of(5)))
    result = convert(source, tmp_path / NAME, to_magic=2, skip_damaged=True)
    assert result.error is None
    assert (tmp_path / NAME).read_bytes() == good + end
    assert [(finding.code, finding.message) for finding in result.findings] == [
        (Codes.OFFSETS_OVERLAP, "offsets 10..19 follow 10..19, with 2 more entries up to 19"),
        (Codes.OFFSETS_OVERLAP, "offsets 12..12 follow 10..19"),
    ]
    result = convert(segment(tmp_path, good, batch_of(0)), tmp_path / NAME, to_magic=2)
    assert [finding.code for finding in result.findings] == [Codes.OFFSETS_BACKWARDS]
    result = convert(segment(tmp_path, batch_of(-3), batch_of(8)), tmp_path / NAME, to_magic=2, skip_damaged=True)
    assert [finding.message for finding in result.findings] == ["offsets -3..6 do not fit the file name's 0"]
    assert (tmp_path / NAME).read_bytes() == batch_of(8)


def test_the_last_offset_there_is(tmp_path: Path) -> None:
    first = (1 << 63) - 10
    source = segment(tmp_path, batch_of(first), batch_of(first), name=f"{first:020}.log")
    result = convert(source, tmp_path / source.name, to_magic=2, skip_damaged=True)
    assert [finding.code for finding in result.findings] == [Codes.OFFSETS_OVERLAP]
    assert (tmp_path / source.name).read_bytes() == batch_of(first)
