"""verify.indexes and verify.siblings: sound files of all brokers are clean, every damaged one is found."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterable
from pathlib import Path

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from kdump.codes import Codes, Finding, KdumpError, Severity
from kdump.format.index import AbortedTxn, txn_entries
from kdump.format.snapshot import ProducerEntry
from kdump.inputs import resolve
from kdump.releases import KAFKA_4_3
from kdump.verify.indexedlog import IndexedLog
from kdump.verify.indexes import MOST_FINDINGS, check_offset_index, check_time_index
from kdump.verify.run import Verification
from kdump.verify.siblings import (
    EpochRange,
    LogSummary,
    SegmentFiles,
    check_leader_epochs,
    check_names,
    check_segment_files,
    check_snapshot,
    check_txn_index,
)
from kdump.verify.table import UNKNOWN_OFFSET
from tests.harness.captures import Captures
from tests.harness.log_columns import columns, read_columns

BASE = 100
SIZE = 1000
BATCHES = [(number * SIZE, BASE + 10 * number, BASE + 10 * number + 9, 50 + number) for number in range(20)]
"""20 batches of 1000 bytes and 10 offsets; the largest timestamps rise."""


def log(batches: list[tuple[int, int, int, int]] = BATCHES, gaps: Iterable[tuple[int, int]] = ()) -> IndexedLog:
    return IndexedLog(BASE, 20 * SIZE, columns(batches, 20 * SIZE), list(gaps))


def index(*entries: tuple[int, int]) -> bytes:
    """From (offset, position)."""
    return b"".join(struct.pack(">ii", offset - BASE, position) for offset, position in entries)


def time_index(*entries: tuple[int, int]) -> bytes:
    """From (timestamp, offset)."""
    return b"".join(struct.pack(">qi", timestamp, offset - BASE) for timestamp, offset in entries)


def codes(findings: Iterable[Finding]) -> list[Codes]:
    return [finding.code for finding in findings]


SOUND = [(BASE + 10 * number + 9, number * SIZE) for number in range(5, 20, 5)]
SOUND_TIMES = [(50 + number, BASE + 10 * number + 9) for number in range(5, 20, 5)]


@pytest.mark.parametrize("zeros", [0, 8, 80, 65536])
def test_sound_offset_index(zeros: int) -> None:
    assert not codes(check_offset_index(index(*SOUND) + bytes(zeros), log()))


def test_wrappers_whose_first_offset_is_not_known() -> None:
    wrappers = [(position, UNKNOWN_OFFSET, last, timestamp) for position, _, last, timestamp in BATCHES]
    for shift in (0, 4, 9):
        assert not codes(check_offset_index(index(*((offset - shift, at) for offset, at in SOUND)), log(wrappers)))
    assert codes(check_offset_index(index((SOUND[0][0] - 10, SOUND[0][1])), log(wrappers))) == [Codes.INDEX_ENTRY]


def test_batches_appended_at_once() -> None:
    entries = [(offset + 20, position) for offset, position in SOUND]
    findings = list(check_offset_index(index(*entries), log()))
    assert codes(findings) == [Codes.INDEX_LATER_BATCH]
    assert findings[0].severity is Severity.INFO


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ([(155, 5000)], [Codes.INDEX_ENTRY]),
        ([(160, 5000)], [Codes.INDEX_ENTRY]),
        ([(149, 5000)], [Codes.INDEX_ENTRY]),
        ([(159, 5001)], [Codes.INDEX_ENTRY]),
        ([(159, 20000)], [Codes.INDEX_ENTRY]),
        ([(159, -1000)], [Codes.INDEX_ORDER, Codes.INDEX_ENTRY]),
        ([(90, 5000)], [Codes.INDEX_ORDER, Codes.INDEX_ENTRY]),
        ([(209, 10000), (159, 5000)], [Codes.INDEX_ORDER]),
        ([(159, 5000), (159, 5000)], [Codes.INDEX_ORDER]),
        ([(100, 0), (159, 5000)], [Codes.INDEX_ENTRY]),
        ([(159, 5000), (100, 0), (209, 10000)], [Codes.INDEX_ORDER]),
        ([(159, 5000), (309, 21000), (319, 22000)], [Codes.INDEX_BEYOND_LOG]),
    ],
)
def test_wrong_offset_index(entries: list[tuple[int, int]], expected: list[Codes]) -> None:
    assert codes(check_offset_index(index(*entries), log())) == expected


def test_beyond_the_log_says_what_is_lost() -> None:
    (found,) = check_offset_index(index(*SOUND, (309, 21000), (319, 22000)), log())
    assert (found.position, found.length, found.first_offset, found.last_offset) == (24, 16, 300, 319)
    assert found.severity is Severity.ERROR


def test_gaps_are_not_the_fault_of_the_index() -> None:
    left = [batch for batch in BATCHES if batch[0] not in {5000, 10000}]
    damaged = log(left, [(5000, 6000), (10000, 11000)])
    assert not codes(check_offset_index(index(*SOUND), damaged))
    assert not codes(check_time_index(time_index(*SOUND_TIMES), damaged))
    assert codes(check_offset_index(index(*SOUND), log(left))) == [Codes.INDEX_ENTRY, Codes.INDEX_ENTRY]


def test_log_that_begins_with_a_hole() -> None:
    damaged = log(BATCHES[1:], [(0, SIZE)])
    assert not codes(check_offset_index(index(*SOUND), damaged))
    assert not codes(check_offset_index(b"", damaged))


def test_odd_size() -> None:
    (found,) = check_offset_index(index(*SOUND) + b"abc", log())
    assert (found.code, found.position, found.length) == (Codes.INDEX, 24, 3)
    (found,) = check_time_index(time_index(*SOUND_TIMES) + b"abcd", log())
    assert (found.code, found.position, found.length) == (Codes.INDEX, 36, 4)


@pytest.mark.parametrize("data", [b"", bytes(65536)])
def test_no_entries(data: bytes) -> None:
    assert not codes(check_offset_index(data, log()))
    assert not codes(check_offset_index(data, IndexedLog.empty(BASE)))


@pytest.mark.parametrize("batch_size", [1000, 100_000, 40 << 20])
def test_sparse_index(batch_size: int) -> None:
    count = (400 << 20) // batch_size
    batches = [(number * batch_size, BASE + number, BASE + number, 5) for number in range(count)]
    big = IndexedLog(BASE, count * batch_size, columns(batches, count * batch_size))
    every = max(1, 5000 // batch_size)
    entries = [(BASE + number, number * batch_size) for number in range(every, count, every)]
    assert not codes(check_offset_index(index(*entries), big))
    if batch_size < 16 << 20:
        assert codes(check_offset_index(index(*entries[: len(entries) // 2]), big)) == [Codes.INDEX_SPARSE]
        assert codes(check_offset_index(b"", big)) == [Codes.INDEX_SPARSE]


@pytest.mark.parametrize("zeros", [0, 12, 65532])
def test_sound_time_index(zeros: int) -> None:
    assert not codes(check_time_index(time_index(*SOUND_TIMES) + bytes(zeros), log()))


def test_time_entries_name_any_record_of_the_batch() -> None:
    assert not codes(check_time_index(time_index(*((when, offset - 4) for when, offset in SOUND_TIMES)), log()))


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ([(55, 159), (55, 159)], [Codes.INDEX_ORDER]),
        ([(60, 209), (55, 159)], [Codes.INDEX_ORDER]),
        ([(56, 159)], [Codes.TIME_INDEX_ENTRY]),
        ([(54, 159)], [Codes.TIME_INDEX_ENTRY]),
        ([(-1, 159)], [Codes.INDEX_ORDER, Codes.TIME_INDEX_ENTRY]),
        ([(55, 90)], [Codes.INDEX_ORDER, Codes.TIME_INDEX_ENTRY]),
        ([(55, 159), (90, 310)], [Codes.INDEX_BEYOND_LOG]),
        ([(55, 309), (60, 209)], [Codes.INDEX_ORDER, Codes.TIME_INDEX_ENTRY]),
    ],
)
def test_wrong_time_index(entries: list[tuple[int, int]], expected: list[Codes]) -> None:
    assert codes(check_time_index(time_index(*entries), log())) == expected


def test_a_larger_timestamp_before() -> None:
    batches = [(0, 100, 109, 99), *BATCHES[1:]]
    assert codes(check_time_index(time_index((55, 159)), log(batches))) == [Codes.TIME_INDEX_ENTRY]
    assert not codes(check_time_index(time_index((99, 109)), log(batches)))


def test_times_of_append_over_messages_without_timestamps() -> None:
    """LogAppendTime and magic 0, as brokers from 0.11 to 2.4 index it."""
    old = log([(position, first, last, -1) for position, first, last, _ in BATCHES])
    (found,) = check_time_index(time_index(*SOUND_TIMES), old, is_closed=True)
    assert (found.code, found.severity, found.position) == (Codes.TIME_INDEX_ENTRY, Severity.INFO, 0)
    (inside,) = check_time_index(time_index((55, 158)), old)
    assert inside.severity is Severity.WARNING


def test_closed_segments_end_with_the_largest_timestamp() -> None:
    assert codes(check_time_index(time_index(*SOUND_TIMES), log(), is_closed=True)) == [Codes.TIME_INDEX_SHORT]
    assert not codes(check_time_index(time_index(*SOUND_TIMES, (69, 299)), log(), is_closed=True))
    assert codes(check_time_index(b"", log(), is_closed=True)) == [Codes.TIME_INDEX_SHORT]


SETS = st.lists(
    st.lists(
        st.tuples(st.integers(61, 5000), st.integers(0, 3), st.integers(0, 9), st.integers(0, 1000)),
        min_size=1,
        max_size=4,
    ),
    max_size=30,
)
"""Batches appended at once: bytes, offsets missing before (compaction), last offset delta, largest timestamp."""


@given(SETS, st.sampled_from(["each", "set", "first"]), st.booleans())
def test_what_brokers_write_is_sound(sets: list[list[tuple[int, int, int, int]]], style: str, is_closed: bool) -> None:
    """``style``: brokers of 3.9 and later index batch by batch, those before by sets, up to 1.1 by first offsets."""
    rows: list[tuple[int, int, int, int]] = []
    entries: list[tuple[int, int]] = []
    times: list[tuple[int, int]] = []
    position, offset, since, latest = 0, BASE, 0, (-1, BASE)
    for batches in sets if style != "each" else [[batch] for appended in sets for batch in appended]:
        start = len(rows)
        for size, gap, delta, timestamp in batches:
            offset += gap
            rows.append((position, offset, offset + delta, timestamp))
            latest = max(latest, (timestamp, offset + delta), key=lambda pair: pair[0])
            position, offset = position + size, offset + delta + 1
        if since > 4096:
            entries.append((rows[start][1] if style == "first" else offset - 1, rows[start][0]))
            if not times or latest[0] > times[-1][0]:
                times.append(latest)
            since = 0
        since += position - rows[start][0]
    if is_closed and rows and (not times or latest[0] > times[-1][0]):
        times.append(latest)
    written = IndexedLog(BASE, position, columns(rows, position))
    assert set(codes(check_offset_index(index(*entries), written))) <= {Codes.INDEX_LATER_BATCH}
    assert not codes(check_time_index(time_index(*times), written, is_closed=is_closed))


@given(st.binary(max_size=400), st.booleans())
def test_any_index(data: bytes, is_empty: bool) -> None:
    some = IndexedLog.empty(BASE) if is_empty else log(gaps=[(3000, 4000)])
    for findings in (check_offset_index(data, some), check_time_index(data, some, is_closed=True)):
        found = codes(findings)
        assert all(found.count(code) <= MOST_FINDINGS for code in found)


def test_many_wrong_entries_end_in_one_finding() -> None:
    entries = [(BASE + 5, 1), *((BASE + 5, 2 + number) for number in range(99))]
    found = [one for one in check_offset_index(index(*entries), log()) if one.code is Codes.INDEX_ENTRY]
    assert len(found) == MOST_FINDINGS
    assert found[-1].message.endswith("; and 92 more entries")
    assert (found[-1].position, found[-1].length) == (56, 800 - 56)


def txn_index(*entries: AbortedTxn) -> bytes:
    return b"".join(struct.pack(">hqqqq", *entry) for entry in entries)


ABORTED = [AbortedTxn(0, 7, 110, 129, 130), AbortedTxn(0, 8, 90, 149, 150)]


def test_txn_index() -> None:
    assert not codes(check_txn_index(txn_index(*ABORTED), log(), ABORTED))
    assert not codes(check_txn_index(txn_index(*ABORTED), log()))
    assert not codes(check_txn_index(txn_index(*ABORTED), None))
    assert not codes(check_txn_index(b"", log(), []))


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ([ABORTED[0]], 1),
        ([ABORTED[1], ABORTED[0]], 1),
        ([ABORTED[0], ABORTED[1]._replace(first_offset=91)], 1),
        ([ABORTED[0], ABORTED[1]._replace(producer_id=9)], 2),
        ([ABORTED[0], ABORTED[1]._replace(last_offset=80)], 2),
        ([*ABORTED, AbortedTxn(0, 9, 280, 300, 301)], 1),
        ([ABORTED[0], ABORTED[1]._replace(last_stable_offset=200)], 1),
    ],
)
def test_wrong_txn_index(entries: list[AbortedTxn], expected: int) -> None:
    assert codes(check_txn_index(txn_index(*entries), log(), ABORTED)) == [Codes.TXN_INDEX_ENTRY] * expected


def test_txn_index_that_cannot_be_read() -> None:
    assert codes(check_txn_index(txn_index(*ABORTED)[:-10], log())) == [Codes.INDEX]
    for version in (256, 3, -1):
        wrong = txn_index(ABORTED[0], ABORTED[1]._replace(version=version))
        assert codes(check_txn_index(wrong, log())) == [Codes.TXN_INDEX_VERSION]
        # An older broker looks at the first byte only.
        assert len(list(txn_entries(wrong, KAFKA_4_3)) if version < 256 else [0, 0]) == 2


def test_txn_index_of_a_compacted_log() -> None:
    only_marker = [ABORTED[0]._replace(first_offset=120)]
    assert codes(check_txn_index(txn_index(*ABORTED), log(), only_marker)) == [Codes.TXN_INDEX_ENTRY] * 2
    assert not codes(check_txn_index(txn_index(*ABORTED), log(), only_marker, is_compacted=True))


def test_txn_index_entries_of_markers_without_records() -> None:
    """Brokers up to 2.4 write one where nothing was open; their log cleaner drops one of which no record is left."""
    idle = {(8, 250)}
    entry = AbortedTxn(0, 8, 250, 250, 251)
    entries = sorted([*ABORTED, entry], key=lambda one: one.last_offset)
    assert codes(check_txn_index(txn_index(*entries), log(), ABORTED)) == [Codes.TXN_INDEX_ENTRY]
    assert not codes(check_txn_index(txn_index(*entries), log(), ABORTED, idle_aborts=idle))
    longer = [one._replace(first_offset=240) if one == entry else one for one in entries]
    found = codes(check_txn_index(txn_index(*longer), log(), ABORTED, idle_aborts=idle))
    assert found == [Codes.TXN_INDEX_ENTRY]
    seen = sorted([*ABORTED, entry._replace(first_offset=240)], key=lambda one: one.last_offset)
    assert codes(check_txn_index(txn_index(*ABORTED), log(), seen)) == [Codes.TXN_INDEX_ENTRY]
    assert not codes(check_txn_index(txn_index(*ABORTED), log(), seen, idle_aborts=idle))


def test_txn_index_of_transactions_that_begin_before_what_is_there() -> None:
    name = (ABORTED[0].producer_id, ABORTED[0].last_offset)
    for seen in (ABORTED[1:], [ABORTED[0]._replace(first_offset=ABORTED[0].first_offset + 1), ABORTED[1]]):
        assert codes(check_txn_index(txn_index(*ABORTED), log(), seen)) == [Codes.TXN_INDEX_ENTRY]
        assert not codes(check_txn_index(txn_index(*ABORTED), log(), seen, begun_before={name}))
    later = ABORTED[0]._replace(first_offset=ABORTED[0].first_offset - 1)
    seen = [later, ABORTED[1]]
    assert codes(check_txn_index(txn_index(*ABORTED), log(), seen, begun_before={name})) == [Codes.TXN_INDEX_ENTRY]


PRODUCER = ProducerEntry(7, 1, 20, 150, 3, 1000, 0, -1)


def snapshot(*entries: ProducerEntry) -> bytes:
    states = b"".join(struct.pack(">qhiqiqiq", *entry) for entry in entries)
    body = struct.pack(">i", len(entries)) + states
    return struct.pack(">hI", 1, crc32c(body)) + body


def test_snapshot() -> None:
    data = snapshot(PRODUCER)
    assert not codes(check_snapshot(data, 151))
    assert codes(check_snapshot(data[:-1], 151)) == [Codes.SNAPSHOT_SCHEMA]
    assert codes(check_snapshot(data[:-1] + b"x", 151)) == [Codes.SNAPSHOT_CRC]


@pytest.mark.parametrize(
    "entries",
    [
        [PRODUCER._replace(last_offset=151)],
        [PRODUCER._replace(current_txn_first_offset=151)],
        [PRODUCER, PRODUCER],
    ],
)
def test_wrong_snapshot(entries: list[ProducerEntry]) -> None:
    assert codes(check_snapshot(snapshot(*entries), 151)) == [Codes.SNAPSHOT_ENTRY]


EPOCHS = [EpochRange(0, 100, 199), EpochRange(2, 200, 299)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0\n2\n0 100\n2 200\n", []),
        ("0\n2\n0 0\n2 150\n", [Codes.LEADER_EPOCH_RANGE]),
        ("0\n2\n0 0\n2 200", []),
        ("0\n3\n0 100\n2 200\n5 300\n", []),
        ("0\n3\n0 100\n2 200\n5 301\n", [Codes.LEADER_EPOCH_RANGE]),
        ("0\n1\n2 200\n", []),
        ("0\n1\n0 100\n", [Codes.LEADER_EPOCH_RANGE]),
        ("0\n0\n", [Codes.LEADER_EPOCH_RANGE] * 2),
        ("0\n2\n2 200\n0 100\n", [Codes.LEADER_EPOCH_ORDER]),
        ("0\n2\n0 100\n", [Codes.TEXT_FILE]),
    ],
)
def test_leader_epochs(text: str, expected: list[Codes]) -> None:
    assert codes(check_leader_epochs(text.encode(), LogSummary(300, EPOCHS))) == expected


NUMBER = "00000000000000000056"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (f"{NUMBER}.log", []),
        (f"{NUMBER}.snapshot", []),
        (f"{NUMBER}-AAAAAAAAAAAAAAAAAAAAAA.log", []),
        (f"{NUMBER}-0000000001.checkpoint", []),
        ("leader-epoch-checkpoint", []),
        ("readme.txt", []),
        (f"{NUMBER}.index", [Codes.LOG_MISSING]),
        (f"{NUMBER}.txnindex", [Codes.LOG_MISSING]),
        ("56.log", [Codes.NAME_PADDING]),
        ("56.snapshot", [Codes.NAME_PADDING]),
        ("copy.log", [Codes.UNNUMBERED_NAME]),
        ("old.snapshot", [Codes.UNNUMBERED_NAME]),
        ("notes.swap", [Codes.UNNUMBERED_NAME]),
        ("notes.deleted", [Codes.LEFTOVER]),
        (f"{NUMBER}.log.swap", [Codes.LEFTOVER]),
        (f"{NUMBER}.index.cleaned", [Codes.LEFTOVER]),
        (f"{NUMBER}.timeindex.deleted", [Codes.LEFTOVER]),
    ],
)
def test_names(name: str, expected: list[Codes]) -> None:
    findings = list(check_names([name]))
    assert codes(findings) == expected
    assert all(finding.path == name for finding in findings)


def test_an_index_with_its_log() -> None:
    assert not codes(check_names([f"{NUMBER}.log", f"{NUMBER}.index", f"{NUMBER}.timeindex", f"{NUMBER}.txnindex"]))


def found_in(directory: Path) -> list[Finding]:
    """What ``verify`` says of a directory; where it has no logs that is said, too, and left out here."""
    found: list[Finding] = []
    with contextlib.suppress(KdumpError):
        found.extend(item for item in Verification().items(resolve(str(directory))) if isinstance(item, Finding))
    return found


DAMAGED = {
    "idx-empty-log": {Codes.ALREADY_LOST},
    "idx-missing-index": {Codes.INDEX_MISSING},
    "idx-no-log": {Codes.LOG_MISSING, Codes.ALREADY_LOST},
    "idx-offset-negative": {Codes.INDEX_ORDER, Codes.INDEX_ENTRY},
    "idx-offset-wrong": {Codes.INDEX_ENTRY},
    "idx-position-beyond": {Codes.INDEX_ORDER, Codes.INDEX_ENTRY},
    "idx-position-end": {Codes.INDEX_ORDER, Codes.INDEX_ENTRY},
    "idx-position-negative": {Codes.INDEX_ORDER, Codes.INDEX_ENTRY},
    "idx-position-other": {Codes.INDEX_ORDER},
    "idx-unsorted": {Codes.INDEX_ORDER},
    "idx-zero-first": {Codes.INDEX_ENTRY},
    "idx-zero-tail": set(),
    "tidx-dup": {Codes.INDEX_ORDER},
    "tidx-index-corrupt": {Codes.INDEX_ORDER, Codes.INDEX_ENTRY},
    "tidx-offset-beyond": {Codes.INDEX_ORDER, Codes.TIME_INDEX_ENTRY},
    "tidx-offset-negative": {Codes.INDEX_ORDER, Codes.TIME_INDEX_ENTRY},
    "tidx-out-of-order": {Codes.INDEX_ORDER},
    "tidx-ts-negative": {Codes.INDEX_ORDER, Codes.TIME_INDEX_ENTRY},
    "tidx-zero-tail": set(),
    "snap-1byte": {Codes.SNAPSHOT_SCHEMA},
    "snap-5bytes": {Codes.SNAPSHOT_SCHEMA},
    "snap-count": {Codes.SNAPSHOT_SCHEMA},
    "snap-count-negative": {Codes.SNAPSHOT_SCHEMA},
    "snap-trailing-badcrc": {Codes.SNAPSHOT_CRC},
    "snap-trunc": {Codes.SNAPSHOT_SCHEMA},
    "snap-version": {Codes.SNAPSHOT_SCHEMA},
    "snap-version0": {Codes.SNAPSHOT_SCHEMA},
    "txn-trunc": {Codes.LOG_MISSING, Codes.INDEX, Codes.ALREADY_LOST},
    "txn-version": {Codes.LOG_MISSING, Codes.TXN_INDEX_VERSION},
    "txn-version0-all-bytes": {Codes.LOG_MISSING, Codes.TXN_INDEX_VERSION},
}
"""Every case of damaged siblings; the zeros after the entries are no damage."""


def test_damaged_captures(captures: Captures) -> None:
    """Those without a log are said to have none, too."""
    found = {name: set(codes(found_in(captures.root / "damaged" / name))) - {Codes.NO_SEGMENTS} for name in DAMAGED}
    assert found == DAMAGED


def test_a_log_that_grew(tmp_path: Path) -> None:
    path = tmp_path / f"{BASE:020d}.log"
    path.write_bytes(bytes(20 * SIZE))
    path.with_suffix(".index").write_bytes(index(*SOUND, (309, 20000)))
    path.with_suffix(".timeindex").write_bytes(time_index(*SOUND_TIMES, (70, 309)))
    for grown, expected in ((0, {Codes.INDEX_BEYOND_LOG}), (1000, set())):
        path.write_bytes(bytes(20 * SIZE + grown))
        findings = check_segment_files(SegmentFiles(str(path)), log(), is_closed=False)
        assert set(codes(findings)) == expected


def test_a_log_cut_between_batches(captures: Captures, tmp_path: Path) -> None:
    source = captures.root / "4.3.1" / "v2-none-0"
    for path in source.glob("0*"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    last = tmp_path / "00000000000000000120.log"
    cut = int(read_columns(last.read_bytes())[0].position[1])
    last.write_bytes(last.read_bytes()[:cut])
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    errors = {finding.code for finding in found_in(tmp_path) if finding.severity is Severity.ERROR}
    assert errors >= {Codes.SNAPSHOT_BEYOND_LOG}
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
