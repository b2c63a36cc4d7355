"""Ranges seek through sound indexes, read little then, and show the same with any index or none."""

from __future__ import annotations

import re
import shutil
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.reading.selection import Range, Selection
from kdump.rows.tables import BATCH
from tests.harness.batches import NOW, message, plain_rows, v2_batch, wrapper
from tests.harness.captures import Captures
from tests.harness.cli_runs import CLEAN, dump
from tests.harness.examples import examples
from tests.harness.row_runs import Row, batches, records, run_rows

BATCHES = 400
PER_BATCH = 5
STEP = 1000
"""Milliseconds between batches."""
COUNT = BATCHES * PER_BATCH
EVERY = 10
"""Batches an index entry."""
FALLS_BACK = "the log is scanned from its start"


def write_segment(folder: Path, base_offset: int = 0) -> Path:
    """A log of BATCHES batches, with an index entry for every tenth, as a broker makes them."""
    log, index, time_index = b"", b"", b""
    for number in range(BATCHES):
        first = number * PER_BATCH
        if number and number % EVERY == 0:
            latest = NOW + (number - 1) * STEP + PER_BATCH - 1
            index += struct.pack(">ii", first + PER_BATCH - 1, len(log))
            time_index += struct.pack(">qi", latest, first - 1)
        log += v2_batch(plain_rows(PER_BATCH), base_offset=base_offset + first, base_timestamp=NOW + number * STEP)
    for suffix, content in (("log", log), ("index", index), ("timeindex", time_index)):
        (folder / f"{base_offset:020}.{suffix}").write_bytes(content)
    return folder / f"{base_offset:020}.log"


@pytest.fixture(scope="module")
def segment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_segment(tmp_path_factory.mktemp("indexed"))


@pytest.fixture(scope="module")
def rows(segment: Path) -> list[Row]:
    return records(segment)


def copy(log: Path, folder: Path, *suffixes: str) -> Path:
    """The log with these of its siblings."""
    for suffix in ("log", *suffixes):
        shutil.copy(log.with_suffix(f".{suffix}"), folder)
    return folder / log.name


def offsets_and_bytes(log: Path, selection: Selection) -> tuple[list[int], int, list[str]]:
    """What is selected, how many bytes were read for it, and the notes but the one that says this."""
    run = run_rows([log], selection=selection, verbose=True)
    assert run.errors == []
    match = re.search(r": ([\d,]+) bytes, ", run.notes[-1])
    assert match is not None
    return [row["offset"] for row in run.rows], int(match[1].replace(",", "")), run.notes[:-1]


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        (Selection(offsets=Range(1000, 1010)), range(1000, 1010)),
        (Selection(offsets=Range(None, 7)), range(7)),
        (Selection(offsets=Range(COUNT - 3)), range(COUNT - 3, COUNT)),
        (Selection(offsets=Range(COUNT, None)), range(0)),
        (Selection(times=Range(NOW + 390 * STEP)), range(390 * PER_BATCH, COUNT)),
        (Selection(offsets=Range(None, 1960), times=Range(NOW + 390 * STEP)), range(1950, 1960)),
    ],
    ids=["middle", "first", "last", "after", "time", "time and offset"],
)
def test_little_is_read(segment: Path, selection: Selection, expected: range) -> None:
    found, size, notes = offsets_and_bytes(segment, selection)
    assert found == list(expected)
    assert notes == []
    # Some tens of batches of four hundred, the steps of the index included.
    assert size < segment.stat().st_size // 10


def test_without_index_all_is_read(segment: Path, tmp_path: Path) -> None:
    log = copy(segment, tmp_path)
    found, size, notes = offsets_and_bytes(log, Selection(offsets=Range(COUNT - 3)))
    assert (found, size, notes) == ([COUNT - 3, COUNT - 2, COUNT - 1], log.stat().st_size, [])


def test_command_line_says_what_was_read(segment: Path) -> None:
    words = ("--deep-iteration", "-v", "--offset", "1990:", segment.name)
    status, out, errors = dump(*words, cwd=segment.parent)
    assert (status, len(out)) == (CLEAN, 2 + 2 + 10)
    seeking = int(re.findall(r"([\d,]+) bytes", errors[0])[0].replace(",", ""))
    assert seeking < segment.stat().st_size // 10
    status, same, errors = dump("--no-index", *words, cwd=segment.parent)
    assert (status, same) == (CLEAN, out)
    assert f"{segment.stat().st_size:,} bytes" in errors[0]


@pytest.mark.parametrize(
    ("suffix", "damage"),
    [
        ("index", lambda data: data[::-1]),
        ("index", lambda data: data[:4] + b"\x7f" + data[5:]),
        ("index", lambda data: b"".join(struct.pack(">ii", o, p + 1) for o, p in struct.iter_unpack(">ii", data))),
        ("index", lambda data: b"".join(struct.pack(">ii", o + 1, p) for o, p in struct.iter_unpack(">ii", data))),
        ("timeindex", lambda data: data[::-1]),
        ("timeindex", lambda data: b"".join(struct.pack(">qi", t - 1, o) for t, o in struct.iter_unpack(">qi", data))),
    ],
    ids=["reversed", "position", "positions off", "offsets off", "time reversed", "times off"],
)
def test_corrupt_index(segment: Path, rows: list[Row], tmp_path: Path, suffix: str, damage: object) -> None:
    log = copy(segment, tmp_path, "index", "timeindex")
    path = log.with_suffix(f".{suffix}")
    assert callable(damage)
    path.write_bytes(damage(path.read_bytes()))
    selection = Selection(times=Range(NOW + 395 * STEP), offsets=Range(5))
    found, size, notes = offsets_and_bytes(log, selection)
    assert found == [row["offset"] for row in rows if row["timestamp"] >= NOW + 395 * STEP]
    assert size == log.stat().st_size
    assert [line for line in notes if path.name in line and FALLS_BACK in line] == notes
    assert len(notes) == 1


@given(st.data())
@examples(40)
def test_any_bytes_in_the_indexes(segment: Path, rows: list[Row], tmp_path: Path, data: st.DataObject) -> None:
    """A broker's indexes with some bytes changed, cut, or of another file: the same rows."""
    log = copy(segment, tmp_path, "index", "timeindex")
    for suffix in ("index", "timeindex"):
        path = log.with_suffix(f".{suffix}")
        content = bytearray(path.read_bytes())
        for _ in range(data.draw(st.integers(0, 3))):
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
        path.write_bytes(content[: data.draw(st.sampled_from([len(content), len(content) // 2, 0, 7]))])
    offset, moment = st.none() | st.integers(0, COUNT), st.none() | st.integers(NOW, NOW + BATCHES * STEP)
    first, end, since, until = data.draw(offset), data.draw(offset), data.draw(moment), data.draw(moment)
    found = run_rows([log], selection=Selection(Range(first, end), Range(since, until))).rows
    assert found == [
        {**row, "file": str(log)}
        for row in rows
        if (first is None or row["offset"] >= first)
        and (end is None or row["offset"] < end)
        and (since is None or row["timestamp"] >= since)
        and (until is None or row["timestamp"] < until)
    ]


@pytest.mark.parametrize(
    "partition", ["0.8.2.2/v0-gzip-0", "0.10.2.2/v1-multi-0", "2.8.2/v2-zstd-0", "3.9.1/v2-multi-0"]
)
def test_the_indexes_of_brokers_are_believed(captures: Captures, partition: str) -> None:
    sizes = []
    for log in sorted((captures.root / partition).glob("*.log")):
        whole = records(log)
        for row in whole[:: max(1, len(whole) // 12)]:
            found, size, notes = offsets_and_bytes(log, Selection(offsets=Range(row["offset"], row["offset"] + 1)))
            assert (found, notes) == ([row["offset"]], [])
            sizes.append(size / log.stat().st_size)
    assert min(sizes) < 0.9


def test_directory_in_offset_order(tmp_path: Path) -> None:
    folder = tmp_path / "t-0"
    folder.mkdir()
    for base in (4000, 0, 2000):
        write_segment(folder, base)
    status, out, errors = dump(
        "--output", "jsonl", "--records", "--fields", "offset", "--offset", "1998:4003", "t-0", cwd=tmp_path
    )
    assert (status, errors) == (CLEAN, [])
    assert out == [f'{{"offset":{offset}}}' for offset in range(1998, 4003)]
    status, out, _ = dump("--deep-iteration", "--offset", "1998:4003", "--tail", "4", "t-0", cwd=tmp_path)
    assert [line.split()[2] for line in out if line.startswith("|")] == ["3999", "4000", "4001", "4002"]


def test_batches_that_cannot_be_decoded_do_not_matter_when_shallow(tmp_path: Path) -> None:
    log = tmp_path / "0.log"
    log.write_bytes(b"".join(v2_batch(plain_rows(2), body=b"rubbish", codec=4, base_offset=n * 2) for n in range(5)))
    run = run_rows([log], BATCH, selection=Selection(offsets=Range(3, 6), control=False))
    assert [row["baseOffset"] for row in run.rows] == [2, 4]
    assert (run.errors, run.damaged) == ([], False)
    legacy = [message(1, 0, None, b"rubbish", attributes=1), wrapper(1, 9, [message(1, 3, b"k", b"v")], 2)]
    log.write_bytes(b"".join(legacy))
    run = run_rows([log], BATCH, selection=Selection(offsets=Range(0, 1)))
    assert [row["lastOffset"] for row in run.rows] == [0]
    assert run.errors == []


def test_records_that_are_not_asked_for_are_not_decoded(tmp_path: Path) -> None:
    log = tmp_path / "0.log"
    rubbish = v2_batch(plain_rows(2), body=b"rubbish", codec=2, base_offset=2, producer_id=9)
    log.write_bytes(v2_batch(plain_rows(2)) + rubbish + v2_batch(plain_rows(2), base_offset=4))
    for selection in (Selection(offsets=Range(4)), Selection(control=True), Selection(producer_ids=frozenset({-1}))):
        assert run_rows([log], selection=selection).errors == []
    assert run_rows([log], selection=Selection(offsets=Range(3))).errors
    assert len(batches(log)) == 3
