"""The model of a broker start, rule by rule, in memory (docs/spec/startup.md)."""

from __future__ import annotations

import hashlib
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.codes import Codes, KdumpError
from kdump.format.snapshot import parse_snapshot
from kdump.kafka.startup.directory import Directory, FileAction, LoadSettings
from kdump.kafka.startup.names import file_name, offset_of
from kdump.kafka.startup.outcome import Start, StartFailureError, StartOutcome
from kdump.kafka.startup.segment import StartSegment
from kdump.kafka.startup.start import start
from kdump.log import content as contents
from kdump.log.content import Content, ContentPiece, ContentSource, sha256
from kdump.log.opening import open_source
from kdump.log.source import Source
from kdump.verify.startcheck import LossReason, check_start
from tests.harness.batches import NOW, TRANSACTIONAL, plain_rows, producer_snapshot, v2_batch

UNCLEAN, CLEAN = LoadSettings(False, max_index_size=1000, now=NOW), LoadSettings(True, max_index_size=1000, now=NOW)
SIZE = 3
DAY = 86_400_000


def batch(offset: int, **header: int) -> bytes:
    return v2_batch(plain_rows(SIZE), base_offset=offset, base_timestamp=NOW + offset % 1000, **header)


def segment(base: int, *batches: bytes, **others: bytes) -> dict[str, bytes]:
    """A log of two batches, or of these, with an empty .index; ``others`` by the suffixes of their names."""
    files = {".log": b"".join(batches) or batch(base) + batch(base + SIZE), ".index": b""}
    files |= {f".{suffix}": data for suffix, data in others.items()}
    return {file_name(base, suffix): data for suffix, data in files.items()}


def directory(*segments: dict[str, bytes], **others: bytes) -> Directory:
    files = {name: data for one in segments for name, data in one.items()} | others
    return Directory("t-0", {name: Content.of_bytes(data) for name, data in files.items()})


def left(found: Directory) -> dict[str, int]:
    return {name: found[name].size for name in found.names()}


def outcome(result: Start) -> tuple[str, str | None]:
    return result.outcome.value, None if result.failure is None else result.failure.java_class


# What a file holds.


@given(st.data())
def test_contents(data: st.DataObject) -> None:
    """Cut, grown, overwritten and joined in any order they hold what bytes would."""
    found, expected = Content.of_bytes(b""), b""
    for _ in range(data.draw(st.integers(1, 6))):
        step = data.draw(st.sampled_from(["add", "resize", "overwrite", "part"]))
        more = data.draw(st.binary(max_size=20))
        number = data.draw(st.integers(0, 60))
        if step == "add":
            found, expected = found + Content.of_bytes(more), expected + more
        elif step == "resize":
            found, expected = found.resized(number), expected[:number] + bytes(max(0, number - len(expected)))
        elif step == "overwrite":
            found, expected = found.overwritten(more), more + expected[len(more) :]
        else:
            end = min(len(expected), number + len(more))
            start_at = min(number, end)
            found, expected = found.part(start_at, end), expected[start_at:end]
    assert found.size == len(expected)
    with ContentSource("x", found) as source:
        assert source.read(0, 100) == expected
        position = data.draw(st.integers(0, 70))
        assert source.read(position, 7) == expected[position : position + 7]
    assert sha256(found) == hashlib.sha256(expected).hexdigest()
    assert found.resized(len(expected) // 2).starts_as(found)


def test_contents_of_files(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(range(100)))
    read: list[int] = []
    made = Content.of_file(str(path), 100).part(10, 20) + Content.zeros(3 << 20) + Content.of_bytes(b"x")
    with ContentSource("x", made, read.append) as source:
        assert source.read(5, 10) == bytes([15, 16, 17, 18, 19, 0, 0, 0, 0, 0])
        assert source.read((3 << 20) + 9, 9) == b"\0x"
    assert read == [5]
    assert sha256(made) == hashlib.sha256(bytes(range(10, 20)) + bytes(3 << 20) + b"x").hexdigest()
    # A file that became shorter since.
    longer = Content((ContentPiece(str(path), 90, 20),), 20)
    with ContentSource("x", longer) as source, pytest.raises(KdumpError, match="has become shorter"):
        source.read(0, 20)


def test_a_log_that_became_shorter_is_no_failure_of_the_start(tmp_path: Path) -> None:
    """It was compacted or deleted while it was read; the broker that did so would not fail."""
    path = tmp_path / "log"
    path.write_bytes(v2_batch(plain_rows(5)) * 3)
    found = Directory("t-0", {f"{0:020}.log": Content.of_file(str(path), path.stat().st_size)})
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(KdumpError) as caught:
        start(found, UNCLEAN)
    assert caught.value.code is Codes.CHANGED_WHILE_READ


def test_what_became_of_files() -> None:
    files = {name: Content.of_bytes(b"12345") for name in ("kept", "cut", "new", "gone", "old.swap", "old", "moved")}
    found = Directory("t-0", files)
    found.resize("cut", 2)
    found["new"] = Content.of_bytes(b"54321")
    found.remove("gone")
    found.remove("old")
    found.rename("old.swap", "old")
    found.rename("moved", "moved.deleted")
    found["made.tmp"] = Content.zeros(1)
    found.rename("made.tmp", "made")
    assert {change.name: change.action for change in found.changes()} == {
        "kept": FileAction.KEPT,
        "cut": FileAction.CUT,
        "new": FileAction.REBUILT,
        "gone": FileAction.DELETED,
        "old": FileAction.RENAMED,
        "moved.deleted": FileAction.RENAMED,
        "made": FileAction.CREATED,
    }


@pytest.mark.parametrize(
    ("name", "offset"), [("00012.log", 12), ("-5.index", -5), ("+7.x.y", 7), ("9223372036854775807.log", 2**63 - 1)]
)
def test_names(name: str, offset: int) -> None:
    assert offset_of(name) == offset


@pytest.mark.parametrize(
    ("name", "java_class"),
    [
        ("copy.index", "java.lang.NumberFormatException"),
        (".log", "java.lang.NumberFormatException"),
        ("9223372036854775808.log", "java.lang.NumberFormatException"),
        ("12", "java.lang.StringIndexOutOfBoundsException"),
    ],
)
def test_names_without_offset(name: str, java_class: str) -> None:
    with pytest.raises(StartFailureError) as error:
        offset_of(name)
    assert error.value.java_class == java_class


# Rule 1, and rule 27 (partition.metadata).

ILLEGAL = ("broker_stops", "java.lang.IllegalArgumentException")
NUMBER = ("broker_stops", "java.lang.NumberFormatException")
OFFLINE = ("dir_offline", "org.apache.kafka.common.errors.KafkaStorageException")
STARTS = ("starts", None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"", STARTS),
        (b"0\n1\n0 0", STARTS),
        (b"1", OFFLINE),
        (b"0\n1\n0 0 0\n", OFFLINE),
        (b"0\n1\nx 0\n", NUMBER),
        (b"0\n1\n0 99999999999999999999\n", NUMBER),
        (b"0\n1\n-1 0\n", ILLEGAL),
        (b"0\n1\n0 -1\n", ILLEGAL),
    ],
)
def test_leader_epochs_that_are_refused(text: bytes, expected: tuple[str, str | None]) -> None:
    found = directory(segment(0), **{"leader-epoch-checkpoint": text})
    assert outcome(start(found, CLEAN)) == expected


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ("0 0\n1 4\n", "0 0\n1 4\n"),
        ("0 0\n1 4\n1 5\n", "0 0\n1 4\n"),
        ("0 0\n5 4\n3 5\n", "0 0\n3 5\n"),
        ("2 3\n1 1\n0 0\n", "0 0\n"),
        ("0 0\n1 6\n2 9\n", "0 0\n"),
        ("0 0\n1 1\n2 2\n", "1 1\n2 2\n"),
    ],
)
def test_leader_epochs_that_stay(entries: str, expected: str) -> None:
    text = f"0\n{entries.count(chr(10))}\n{entries}"
    found = directory(segment(0), **{"leader-epoch-checkpoint": text.encode()})
    assert start(found, CLEAN._replace(log_start_offset=1)).outcome is StartOutcome.STARTS
    # The epoch at the log start begins there.
    wanted = expected.replace("0 0", "0 1")
    assert found.read("leader-epoch-checkpoint").decode() == f"0\n{wanted.count(chr(10))}\n{wanted}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ", STARTS),
        (b"version: 1\r\nanything:  AAAAAAAAAAAAAAAAAAAAAQ==\nmore", STARTS),
        (b"version: 0\n", ("broker_stops", "java.lang.NullPointerException")),
        (b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA", OFFLINE),
        (b"version: -1\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ", OFFLINE),
        (b"version:0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ", OFFLINE),
        (bytes(44), OFFLINE),
        (b"version: 0\ntopic_id: x", ILLEGAL),
    ],
)
def test_partition_metadata(text: bytes, expected: tuple[str, str | None]) -> None:
    found = directory(segment(0), **{"partition.metadata": text})
    assert outcome(start(found, CLEAN)) == expected
    # It is read last: what a start does it has done.
    assert left(found)[file_name(0, ".index")] == 1000


# Rules 3 to 8.


def test_a_swap_takes_the_place_of_everything_in_its_range() -> None:
    quarantine = {f"{6:020}.quarantine": b"x", f"{12:020}.log.orig": b"y"}
    swap = {f"{0:020}.log.swap": batch(0) + batch(6) + batch(9)}
    found = directory(segment(0), segment(6), segment(12), swap, **quarantine)
    check = check_start(found, UNCLEAN)
    assert left(found).keys() & quarantine.keys() == {f"{12:020}.log.orig"}
    assert check.start.served is not None
    assert [base for base, _ in check.start.served.segments] == [0, 12]
    # It covers the offsets that compaction took out, too.
    assert check.lost == ()
    # An index is made for it, full of zeros, and only since it is recovered it is a right one.
    assert left(found)[file_name(0, ".index")] == 0
    again = directory(segment(0), segment(6), segment(12), swap)
    start(again, CLEAN)
    assert left(again)[file_name(0, ".index")] == 1000


def test_a_log_of_two_gigabytes() -> None:
    found = Directory(
        "t-0", {file_name(0, ".log"): Content.zeros(2**31), file_name(0, ".index"): Content.of_bytes(b"")}
    )
    assert outcome(start(found, CLEAN)) == ("broker_stops", "org.apache.kafka.common.KafkaException")


# Rule 9.


def index(*entries: tuple[int, int]) -> bytes:
    return b"".join(struct.pack(">ii", *entry) for entry in entries)


@pytest.mark.parametrize(
    ("entries", "end"),
    [
        ((), 18),
        (((2, len(batch(0))),), 18),
        (((17, 5 * len(batch(0))),), 18),
        # Behind the end, or beyond the last offset: nothing is found.
        (((8, 100_000),), 0),
        (((40, 0),), 0),
        # Zeros at the end count as entries: from the start on.
        (((8, 100), (0, 0), (0, 0)), 18),
        (((5, -7),), 18),
    ],
)
def test_where_a_segment_ends_by_its_index(entries: tuple[tuple[int, int], ...], end: int) -> None:
    log = b"".join(map(batch, range(0, 18, 3)))
    found = directory({file_name(0, ".log"): log, file_name(0, ".index"): index(*entries)})
    check = check_start(found, CLEAN)
    assert check.start.served is not None
    assert check.start.served.end_offset == end
    hidden = [(0, 17, 18, LossReason.HIDDEN)] if end == 0 else []
    assert [loss[:4] for loss in check.lost] == hidden


@given(st.lists(st.integers(0, 30_000), min_size=1, max_size=3000, unique=True), st.integers(0, 30_000))
def test_search_in_an_index(offsets: list[int], wanted: int) -> None:
    """Of rising entries the greatest not above the offset, though the last ones are looked at first."""
    from kdump.kafka.startup.indexfiles import OffsetIndexFile

    offsets.sort()
    data = index(*((offset, 2 * offset) for offset in offsets))
    file = OffsetIndexFile(Directory("t-0", {"x": Content.of_bytes(data)}), "x", 0, 1 << 20)
    below = [offset for offset in offsets if offset <= wanted]
    assert file.position_of(wanted) == (2 * below[-1] if below else 0)
    assert file.last_offset() == offsets[-1]


@pytest.mark.slow
def test_a_clean_start_reads_the_end_only(tmp_path: Path) -> None:
    log = b"".join(batch(offset) for offset in range(0, 60_000, 3))
    last = len(log) - len(batch(0))
    path = tmp_path / "t-0"
    path.mkdir()
    (path / file_name(0, ".log")).write_bytes(log)
    (path / file_name(0, ".index")).write_bytes(index((59_999, last)))
    (path / file_name(60_000, ".snapshot")).write_bytes(producer_snapshot())
    found = Directory.on_disk(str(path))
    result = start(found, CLEAN)
    assert result.served is not None
    assert result.served.end_offset == 60_000
    assert found.bytes_read < 2_000
    assert len(log) > 1_000_000


# Rules 11 to 18.


def test_rubbish_takes_the_later_segments_with_it() -> None:
    log = batch(0) + batch(3) + bytes(40)
    found = directory(segment(0, log), segment(6), segment(12))
    check = check_start(found, UNCLEAN)
    assert check.start.served is not None
    assert check.start.served.end_offset == 6
    assert [loss[:4] for loss in check.lost] == [(6, 17, 12, LossReason.BEHIND_CUT)]
    assert check.end_before == 18
    assert set(check.start.deleted_later) == {
        f"{file_name(base, suffix)}.deleted" for base in (6, 12) for suffix in (".log", ".index", ".timeindex")
    }
    # Damage before the recovery point is not looked at.
    found = directory(segment(0, log), segment(6, snapshot=producer_snapshot()), segment(12))
    assert check_start(found, UNCLEAN._replace(recovery_point=6)).is_harmless
    found = directory(segment(0, log), segment(6, snapshot=producer_snapshot()), segment(12))
    assert check_start(found, UNCLEAN._replace(recovery_point=2**63 - 1)).is_harmless
    # But where the producers are read from it the broker stops.
    expected = ("broker_stops", "org.apache.kafka.common.errors.CorruptRecordException")
    found = directory(segment(0, log), segment(6), segment(12))
    assert outcome(start(found, UNCLEAN._replace(recovery_point=6))) == expected
    # A segment without its .index is cut alone.
    files = segment(0, log)
    del files[file_name(0, ".index")]
    check = check_start(directory(files, segment(6), segment(12)), UNCLEAN)
    assert check.is_harmless
    assert check.start.served is not None
    assert check.start.served.end_offset == 18


def test_a_damaged_batch_counts_as_lost() -> None:
    found = directory(segment(0, batch(0), batch(3, crc=1), batch(6)))
    check = check_start(found, UNCLEAN)
    assert [loss[:4] for loss in check.lost] == [(3, 8, 6, LossReason.CUT)]


def test_offsets_that_go_backwards_empty_the_segment() -> None:
    large = [v2_batch(plain_rows(SIZE, 2000), base_offset=offset) for offset in (0, 6, 3)]
    found = directory(segment(0, *large), segment(9))
    check = check_start(found, UNCLEAN)
    assert [one.is_emptied for one in check.start.recovered] == [True]
    assert {loss.reason for loss in check.lost} == {LossReason.EMPTIED, LossReason.BEHIND_CUT}
    assert left(found)[file_name(0, ".log")] == 0
    assert left(found)[file_name(0, ".index")] == 1000
    # Recovered because the .index is missing nobody catches it.
    files = segment(0, *large)
    del files[file_name(0, ".index")]
    expected = ("broker_stops", "org.apache.kafka.common.errors.InvalidOffsetException")
    assert outcome(start(directory(files), CLEAN)) == expected


@pytest.mark.parametrize("settings", [UNCLEAN, CLEAN])
def test_a_log_start_beyond_the_end(settings: LoadSettings) -> None:
    found = directory(segment(0), segment(6), **{"leader-epoch-checkpoint": b"0\n1\n0 0\n"})
    check = check_start(found, settings._replace(log_start_offset=50))
    assert [loss[:4] for loss in check.lost] == [(0, 11, 12, LossReason.LOG_START)]
    assert check.start.served is not None
    assert check.start.served.segments == ((50, 0),)
    assert found.read("leader-epoch-checkpoint") == b"0\n0\n"


@pytest.mark.parametrize("is_loaded", [True, False])
def test_a_segment_that_is_split(is_loaded: bool) -> None:
    far = 2**31 + 10
    files = segment(0, batch(0), batch(3), batch(far), batch(far + 3))
    if not is_loaded:
        del files[file_name(0, ".index")]
    check = check_start(directory(files), UNCLEAN)
    assert check.start.served is not None
    assert [base for base, _ in check.start.served.segments] == [0, far]
    assert check.start.served.end_offset == far + 6
    assert check.lost == ()
    assert bool(check.start.deleted_later) is is_loaded


def test_parts_whose_offsets_fall() -> None:
    """The segment of the smallest offset stays, wherever its part is in the log."""
    far = 2**31 + 90
    check = check_start(directory(segment(84, batch(98), batch(84), batch(112), batch(far))), UNCLEAN)
    assert check.start.served is not None
    assert [base for base, _ in check.start.served.segments] == [84, 98, far]
    # Segment 98 is replaced by a part, and the cut in that is no cut of the former log.
    files = directory(segment(84, batch(98), batch(84), batch(far)), segment(98, *map(batch, range(98, 128, 3))))
    check = check_start(files, UNCLEAN)
    assert check.start.served is not None
    assert [(loss.first_offset, loss.last_offset, loss.reason) for loss in check.lost] == [
        (101, 127, LossReason.REPLACED)
    ]


def test_a_log_is_read_once_for_all_its_parts(tmp_path: Path) -> None:
    """Each batch becomes a segment; every part had the chunk after it read again."""
    log = b"".join(batch(number * 2**32) for number in range(200))
    path = tmp_path / "t-0"
    path.mkdir()
    (path / file_name(0, ".log")).write_bytes(log)
    found = Directory.on_disk(str(path))
    result = start(found, UNCLEAN)
    assert result.served is not None
    assert len(result.served.segments) == 200
    assert found.bytes_read < 6 * len(log)


# Rules 19 to 21, 25.


def transaction(offset: int, producer_id: int) -> bytes:
    header = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": 0}
    return batch(offset, attributes=TRANSACTIONAL, **header)


def test_snapshots_of_a_clean_start_without_any() -> None:
    found = directory(segment(0), segment(6, transaction(6, 7)), segment(9))
    check = check_start(found, CLEAN)
    made = [name for name in left(found) if name.endswith(".snapshot")]
    assert made == [file_name(offset, ".snapshot") for offset in (6, 9, 15)]
    assert [tuple(one) for one in check.forgotten] == [(7, 6)]
    unclean = check_start(directory(segment(0), segment(6, transaction(6, 7)), segment(9)), UNCLEAN)
    assert unclean.forgotten == ()
    assert unclean.start.served is not None
    assert [tuple(one) for one in unclean.start.served.open_transactions] == [(7, 6)]
    assert unclean.start.served.first_unstable_offset == 6


def test_producers_that_expired() -> None:
    known = producer_snapshot(
        (1, 0, 4, 5, 0, NOW - DAY, -1, -1), (2, 0, 4, 5, 0, NOW - DAY + 1, -1, -1), (3, 0, 4, 5, 0, 0, -1, 2)
    )
    found = directory(segment(0), {file_name(6, ".snapshot"): known}, segment(6))
    start(found, CLEAN)
    written = parse_snapshot(found.read(file_name(12, ".snapshot")))
    assert [entry.producer_id for entry in written] == [2, 3]


def test_the_order_of_producers_in_a_snapshot() -> None:
    """Those of one bucket that a replay meets first come newest first (measured)."""
    log = b"".join(batch(6 + 3 * n, producer_id=16 * n, producer_epoch=0, base_sequence=0) for n in range(4))
    found = directory(segment(0), segment(6, log, snapshot=producer_snapshot()), segment(18))
    start(found, CLEAN)
    entries = parse_snapshot(found.read(file_name(18, ".snapshot")))
    assert [entry.producer_id for entry in entries] == [48, 32, 16, 0]


# Rules 22, 28.


def test_an_index_over_the_limit() -> None:
    files = segment(0, index=index(*((n, n) for n in range(200))))
    found = directory(files)
    assert outcome(start(found, CLEAN)) == ILLEGAL
    assert left(found)[file_name(0, ".index")] == 1000
    # The next start goes through; one that recovers the segment does at once.
    assert outcome(start(Directory("t-0", {name: found[name] for name in found.names()}), UNCLEAN)) == STARTS
    assert outcome(start(directory(files), UNCLEAN)) == STARTS


def test_a_block_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the files only the logs are read block by block: the exception is not one of input and output."""
    path = tmp_path / "t-0"
    path.mkdir()
    for name, data in segment(0).items():
        (path / name).write_bytes(data)

    class Broken(Source):
        def read_into(self, view: memoryview, position: int) -> int:
            raise KdumpError(Codes.UNREADABLE, "Input/output error", path=self.path, position=position)

        def close(self) -> None:
            pass

    def opened(name: str) -> Source:
        source = open_source(name)
        if name.endswith(".log"):
            with source:
                return Broken(name, source.size)
        return source

    monkeypatch.setattr(contents, "open_source", opened)
    monkeypatch.setattr(ContentSource.__init__, "__defaults__", (lambda count: None, opened))
    result = start(Directory.on_disk(str(path)), CLEAN)
    assert outcome(result) == ("broker_stops", "org.apache.kafka.common.KafkaException")


@pytest.mark.parametrize(("last_offsets", "kept"), [((4, 5, 6), 1), ((4, 4, 6), 2), ((5,), 0), ((4,), 1)])
def test_an_aborted_transaction_that_ends_at_the_cut_goes(last_offsets: tuple[int, ...], kept: int) -> None:
    """TransactionIndex.truncateTo keeps the entries whose last offset is below the offset."""
    index = b"".join(struct.pack(">hqqqq", 0, 1, 0, last, last) for last in last_offsets)
    found = directory(segment(0, batch(0), batch(3), batch(6), txnindex=index))
    StartSegment(found, 0, CLEAN).truncate_to(5)
    assert found[file_name(0, ".txnindex")].size == kept * 34
