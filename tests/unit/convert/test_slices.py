"""Parts of logs with transactions: they show a reader of committed records what the source does."""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.codes import Codes
from kdump.convert.conversion import Conversion
from kdump.convert.run import plan_conversion
from kdump.convert.segment import SegmentResult, convert_segment
from kdump.format import record as v2
from kdump.format.batch import BatchHeader, parse_header
from kdump.format.index import parse_txn_index
from kdump.inputs import resolve
from kdump.kafka.producers import ProducerStates
from kdump.kafka.recover import recover
from kdump.log.opening import open_source
from kdump.reading.selection import Range
from kdump.system.files import publish
from tests.harness.batches import CONTROL, NOW, TRANSACTIONAL, entries, v2_batch
from tests.harness.captures import FIXTURES
from tests.harness.cli_runs import CLEAN, DAMAGE
from tests.harness.cli_runs import kdump as run_kdump
from tests.harness.examples import examples
from tests.harness.fast_reference import Row

CAPTURE = FIXTURES / "segments" / "v2-txn-0"
ABORT, COMMIT = 0, 1


def kdump(*words: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return run_kdump(*words, cwd=Path.cwd(), stdin=stdin)


def data(offset: int, producer: int, count: int = 1, time: int = 0, **header: int) -> bytes:
    rows = [Row(number, number, b"%d" % producer, b"%d" % (offset + number)) for number in range(count)]
    return v2_batch(
        rows,
        base_offset=offset,
        base_timestamp=NOW + time,
        producer_id=producer,
        producer_epoch=0,
        base_sequence=offset,
        **{"attributes": TRANSACTIONAL, **header},
    )


def marker(offset: int, producer: int, kind: int, time: int = 0) -> bytes:
    row = Row(0, 0, b"\0\0" + kind.to_bytes(2, "big"), b"\0\0\0\0\0\0")
    header = {"producer_id": producer, "producer_epoch": 0, "base_timestamp": NOW + time}
    return v2_batch([row], base_offset=offset, attributes=CONTROL | TRANSACTIONAL, **header)


def partition(folder: Path, *segments: list[bytes]) -> Path:
    """A partition directory; segments are named by their first offsets."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    for batches in segments:
        (folder / f"{parse_header(batches[0]).base_offset:020}.log").write_bytes(b"".join(batches))
    return folder


def convert(source: Path, target: Path, **given: object) -> list[SegmentResult]:
    """All segments; put in place when none is refused."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    jobs = plan_conversion(resolve(str(source)), f"{target}/", Conversion(**given))  # type: ignore[arg-type]
    results = [convert_segment(job) for job in jobs]
    if all(result.error is None for result in results):
        for result in results:
            publish(result.staged)
    return results


def batches(folder: Path) -> Iterator[tuple[BatchHeader, bytes]]:
    for log in sorted(folder.glob("*.log")):
        yield from ((parse_header(entry), entry) for entry in entries(log.read_bytes()))


def committed_view(folder: Path) -> list[int]:
    """Offsets that a consumer with read_committed gets of a partition, by its .txnindex files.

    Source: UnifiedLog.read and CompletedFetch of Kafka.
    """
    is_open: dict[int, int] = {}
    for header, _ in batches(folder):
        if header.is_control:
            is_open.pop(header.producer_id, None)
        elif header.is_transactional:
            is_open.setdefault(header.producer_id, header.base_offset)
    last_stable = min(is_open.values(), default=2**63)
    coming = sorted(
        (txn.first_offset, txn.producer_id)
        for path in folder.glob("*.txnindex")
        for txn in parse_txn_index(path.read_bytes())
    )
    aborted: set[int] = set()
    found = []
    for header, batch in batches(folder):
        if header.last_offset >= last_stable:
            break
        while coming and coming[0][0] <= header.last_offset:
            aborted.add(coming.pop(0)[1])
        records = list(v2.read_records(header, memoryview(batch)))
        if header.is_control:
            if (records[0].key or b"")[3] == ABORT:
                aborted.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborted):
            found += [record.offset for record in records]
    return found


@dataclass
class Log:
    """A log that was made up, and what became of its records."""

    segments: list[list[bytes]] = field(default_factory=lambda: [[]])
    times: dict[int, int] = field(default_factory=dict)
    transactions: list[tuple[str, list[int]]] = field(default_factory=list)
    """(outcome, offsets) of the transactions, of what is in none ("committed", offsets)."""

    def visible(self, wanted: set[int]) -> list[int]:
        return sorted(
            offset for state, offsets in self.transactions if state == "committed" for offset in offsets
            if offset in wanted
        )  # fmt: skip

    def has_open(self, wanted: set[int]) -> bool:
        return any(state == "open" and wanted & set(offsets) for state, offsets in self.transactions)


@st.composite
def logs(draw: st.DrawFn) -> Log:
    log, running, offset = Log(), dict[int, list[int]](), draw(st.integers(0, 9))
    steps = draw(st.lists(st.sampled_from(["data", "data", "data", "end", "plain", "roll"]), min_size=3, max_size=25))
    for step in steps:
        producer, time = draw(st.integers(1, 3)), draw(st.integers(0, 20))
        if step == "roll":
            log.segments += [[]] if log.segments[-1] else []
            continue
        if step == "end":
            kind = draw(st.sampled_from([ABORT, COMMIT]))
            log.segments[-1].append(marker(offset, producer, kind, time))
            if producer in running:
                log.transactions.append(("aborted" if kind == ABORT else "committed", running.pop(producer)))
            offset += 1
            continue
        count = draw(st.integers(1, 4))
        own = list(range(offset, offset + count))
        log.times |= {one: NOW + time + number for number, one in enumerate(own)}
        if step == "data":
            log.segments[-1].append(data(offset, producer, count, time))
            running.setdefault(producer, []).extend(own)
        else:
            log.segments[-1].append(data(offset, 9, count, time, attributes=0))
            log.transactions.append(("committed", own))
        offset += count
    log.transactions += (("open", offsets) for offsets in running.values())
    log.segments = [segment for segment in log.segments if segment]
    return log


BOUND = st.none() | st.integers(0, 60)
TIME = st.none() | st.integers(NOW, NOW + 22)


@given(logs().filter(lambda log: log.segments), st.builds(Range, BOUND, BOUND), st.builds(Range, TIME, TIME), st.data())
@examples(300)
@pytest.mark.slow
def test_parts_show_what_the_source_does(
    tmp_path: Path, log: Log, offsets: Range, times: Range, chosen: st.DataObject
) -> None:
    """A directory, and one segment of it; by offsets, times and both."""
    if offsets.is_open and times.is_open:
        offsets = Range(0, None)
    source, target = partition(tmp_path / "in" / "t-0", *log.segments), tmp_path / "out"
    wanted = {offset for offset, time in log.times.items() if offset in offsets and time in times}
    alone = chosen.draw(st.sampled_from([None, *range(len(log.segments))]))
    path, part = source, Range()
    if alone is not None:
        path = sorted(source.glob("*.log"))[alone]
        bounds = [*(parse_header(segment[0]).base_offset for segment in log.segments), None]
        part = Range(bounds[alone], bounds[alone + 1])
        wanted = {offset for offset in wanted if offset in part}
    results = convert(path, target, offsets=offsets, times=times)
    errors = [result.error for result in results if result.error is not None]
    assert {error.code for error in errors} <= {Codes.SLICE_OPEN}
    assert bool(errors) == log.has_open(wanted)
    if not errors:
        assert committed_view(target) == log.visible(wanted)
    else:
        results = convert(path, target, offsets=offsets, times=times, keep_open=True)
        assert [result.error for result in results] == [None] * len(results)
        assert set(committed_view(target)) <= set(log.visible(wanted))
    stored = [
        record.offset
        for header, batch in batches(target)
        if not header.is_control
        for record in v2.read_records(header, memoryview(batch))
    ]
    assert stored == sorted(wanted)
    # The added markers are all that is there beside what lies in the ranges.
    beside = {
        header.base_offset
        for header, batch in batches(target)
        if header.is_control
        if header.base_offset not in offsets.intersection(part) or header.max_timestamp not in times
    }
    assert beside == {one.offset for result in results for one in result.markers}
    states = ProducerStates()
    for written in sorted(target.glob("*.log")):
        with open_source(str(written)) as opened:
            recovery = recover(opened, int(written.stem), states)
        assert recovery.indexes is not None
        txn_index = written.with_suffix(".txnindex")
        assert (txn_index.read_bytes() if txn_index.exists() else None) == recovery.indexes.txn_index


FIRST, SECOND = [data(0, 7, 4), data(4, 8)], [data(5, 7), marker(6, 8, COMMIT), marker(7, 7, ABORT), data(8, 8)]


def test_only_the_marker_of_a_later_segment_is_added(tmp_path: Path) -> None:
    source = partition(tmp_path / "t-0", FIRST, SECOND)
    log = source / f"{0:020}.log"
    run = kdump("convert", str(log), "-o", str(tmp_path / "part.log"), "--offset", "1:5")
    assert run.returncode == CLEAN
    written = [parse_header(entry) for entry in entries((tmp_path / "part.log").read_bytes())]
    assert [(one.base_offset, one.is_control) for one in written] == [(1, False), (4, False), (6, True), (7, True)]
    assert run.stderr.decode().splitlines() == [
        f"kdump: {log}: 2 transaction markers from outside of the part added, so that readers of committed records "
        "see the same: first COMMIT of producer 8 at offset 6"
    ]
    (txn,) = parse_txn_index((tmp_path / "part.txnindex").read_bytes())
    assert (txn.producer_id, txn.first_offset, txn.last_offset) == (7, 1, 7)
    rows = kdump("convert", str(log), "-o", str(tmp_path / "x.log"), "--offset", "1:5", "--output", "jsonl").stdout
    added = [row for row in map(json.loads, rows.splitlines()) if row["type"] == "marker"]
    assert [(row["offset"], row["producerId"], row["producerEpoch"], row["controlType"]) for row in added] == [
        (6, 8, 0, "COMMIT"),
        (7, 7, 0, "ABORT"),
    ]
    assert {(row["topic"], row["partition"]) for row in added} == {("t", 0)}


def test_in_a_directory_a_marker_stays_in_its_segment(tmp_path: Path) -> None:
    source, target = partition(tmp_path / "t-0", FIRST, SECOND), tmp_path / "out"
    assert kdump("convert", str(source), "-o", str(target), "--offset", ":4").returncode == CLEAN
    offsets = {path.name: [parse_header(entry).base_offset for entry in entries(path.read_bytes())]
               for path in target.glob("*.log")}  # fmt: skip
    assert offsets == {f"{0:020}.log": [0], f"{5:020}.log": [7]}
    # Of the offsets that are left out verify knows nothing else.
    found = [line for line in kdump("verify", str(target)).stdout.decode().splitlines() if " KD" in line]
    assert sorted(line.partition(" KD")[2][:3] for line in found) == ["406", "505"]


def test_a_part_with_an_open_transaction_is_refused(tmp_path: Path) -> None:
    source, target = partition(tmp_path / "t-0", FIRST, SECOND), tmp_path / "out"
    words = ("convert", str(source), "-o", str(target), "--offset", "3:9")
    run = kdump(*words)
    assert run.returncode == DAMAGE
    assert not target.exists()
    assert b"the transaction of producer 8 with records from offset 8 on has no end marker" in run.stderr
    run = kdump(*words, "--open-transactions", "keep")
    assert run.returncode == CLEAN
    assert b"without an end marker" in run.stderr
    assert committed_view(target) == [4]


def test_the_marker_is_lost_and_the_next_transaction_has_one(tmp_path: Path) -> None:
    """The transaction index says that the ABORT marker is not this transaction's."""
    source = partition(tmp_path / "t-0", [data(0, 7, 3), data(5, 7), marker(6, 7, ABORT)])
    log = source / f"{0:020}.log"
    for first, last, part, is_lost in (
        (5, 6, ":3", True),
        (5, 6, "5:6", False),
        (0, 6, ":3", False),
        (0, 4, ":3", True),
        (0, 4, "5:6", False),
    ):
        log.with_suffix(".txnindex").write_bytes(struct.pack(">hqqqq", 0, 7, first, last, last + 1))
        run = kdump("convert", str(log), "-o", str(tmp_path / "part.log"), "--overwrite", "--offset", part)
        assert run.returncode == (DAMAGE if is_lost else CLEAN), part
        assert (b"producer 7 with records from offset 0 on has no end marker" in run.stderr) == is_lost


def test_streams_and_json_lines(tmp_path: Path) -> None:
    """Their markers are looked for as far as they go."""
    stream = b"".join(FIRST + SECOND)
    target = tmp_path / "part.log"
    assert kdump("convert", "-", "-o", str(target), "--offset", ":4", stdin=stream).returncode == CLEAN
    assert [parse_header(entry).base_offset for entry in entries(target.read_bytes())] == [0, 7]
    assert kdump("convert", "-", "-o", str(target), "--offset", "8:", stdin=stream).returncode == DAMAGE
    lines = kdump("dump", "--output", "jsonl", "--records", "-", stdin=stream).stdout
    words = ("convert", "--from", "jsonl", "-", "-o", str(tmp_path / "of-lines.log"), "--offset", ":4")
    assert kdump(*words, stdin=lines).returncode == CLEAN
    got = entries((tmp_path / "of-lines.log").read_bytes())
    assert [parse_header(entry).base_offset for entry in got] == [0, 7]


def test_numbered_anew_or_older_the_loss_is_said(tmp_path: Path) -> None:
    """Transactions have no place there."""
    source = partition(tmp_path / "t-0", FIRST, SECOND)
    for number, words in enumerate((("--renumber", "0"), ("--to-magic", "1"))):
        run = kdump("convert", str(source), "-o", str(tmp_path / f"out-{number}"), "--offset", ":5", *words)
        assert run.returncode == CLEAN
        assert b"4 records of aborted transactions become visible" in run.stdout


IN_THE_EXPORT = "in the export (see txnState); --isolation read_committed leaves them out"
EXPORTED = {
    "jsonl": f"4 records of aborted transactions {IN_THE_EXPORT}",
    "csv": f"1 record of transactions without an end {IN_THE_EXPORT}",
}


@pytest.mark.parametrize(("form", "part"), [("jsonl", ":5"), ("csv", "8:")])
def test_exports_say_what_is_not_committed(tmp_path: Path, form: str, part: str) -> None:
    source = partition(tmp_path / "t-0", FIRST, SECOND)
    run = kdump("convert", str(source), "-o", "-", "--to", form, "--offset", part)
    assert run.returncode == CLEAN
    assert [line.partition(".log: ")[2] for line in run.stderr.decode().splitlines()] == [EXPORTED[form]]
    target = tmp_path / "out"
    run = kdump("convert", str(source), "-o", str(target), "--to", form, "--offset", part)
    assert EXPORTED[form] in run.stderr.decode()
    run = kdump("convert", str(source), "-o", "-", "--to", form, "--offset", part, "--isolation", "read_committed")
    assert "txnState)" not in run.stderr.decode()


def test_exports_of_streams_are_undecided(tmp_path: Path) -> None:
    run = kdump("convert", "-", "-o", "-", "--to", "jsonl", stdin=b"".join(FIRST))
    note = "5 records of transactions that cannot be followed in a stream in the export (see txnState)"
    assert run.stderr.decode() == f"kdump: -: {note}\n"


@pytest.mark.parametrize("count", [3, 20_000])
@pytest.mark.slow
def test_counts_by_rows_and_by_columns(tmp_path: Path, count: int) -> None:
    log = [data(2 * number, 7) + data(2 * number + 1, 8) for number in range(count)]
    source = partition(tmp_path / "t-0", [*log, marker(2 * count, 7, ABORT), marker(2 * count + 1, 8, COMMIT)])
    run = kdump("convert", str(source), "-o", str(tmp_path / "out"), "--to", "csv")
    assert f"{count:,} records of aborted transactions in the export" in run.stderr.decode()


@pytest.mark.parametrize("settings", [(), ("--offset", "20:60"), ("--isolation", "read_committed")])
def test_outcomes_in_exports_are_those_of_a_dump(tmp_path: Path, settings: tuple[str, ...]) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    log = str(min(CAPTURE.glob("*.log")))
    dumped = kdump("dump", "--output", "jsonl", "--records", log, *settings).stdout
    assert kdump("convert", log, "-o", "-", "--to", "jsonl", *settings).stdout == dumped
    assert kdump("convert", log, "-o", str(tmp_path / "x.parquet"), "--to", "parquet", *settings).returncode == CLEAN
    table = pq.read_table((tmp_path / "x.parquet").open("rb"))
    rows = [row for row in map(json.loads, dumped.splitlines()) if not row["isControl"]]
    assert table.column("offset").to_pylist() == [row["offset"] for row in rows]
    states = table.column("txnState").to_pylist()
    assert states == [row["txnState"] for row in rows]
    assert "committed" in states
    assert ("aborted" in states) == ("read_committed" not in settings)
