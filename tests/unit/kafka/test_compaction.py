"""The model of the log cleaner against rules applied record by record; the real one is in tests/oracle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.fast import blocks
from kdump.format import record as format_record
from kdump.inputs import resolve
from kdump.kafka.compaction import DELETE_RETENTION_MS, PRODUCER_EXPIRATION_MS, NewestOffsets
from kdump.stats.whatif.answer import Cell
from kdump.stats.whatif.run import WhatIfRun
from kdump.verify.partitionentries import PartitionEntries
from tests.harness.batches import (
    ABORT,
    COMMIT,
    CONTROL,
    DELETE_HORIZON,
    GZIP,
    NOW,
    TRANSACTIONAL,
    marker,
    message,
    v2_batch,
    wrapper,
)
from tests.harness.captures import Captures, partition_names
from tests.harness.examples import examples
from tests.harness.fast_reference import Row


def compacted(directory: Path, *segments: bytes, now: int = NOW) -> dict[str, Any]:
    """The row about a partition of these segments; their base offsets are those of their first entries."""
    folder = directory / "t-0"
    folder.mkdir(exist_ok=True)
    for segment in segments:
        (folder / f"{int.from_bytes(segment[:8], 'big'):020}.log").write_bytes(segment)
    return row_about(folder, now)


def row_about(path: Path, now: int = NOW) -> dict[str, Cell]:
    (row,) = answer_about(path, now).rows
    return row


def answer_about(path: Path, now: int = NOW) -> Any:
    return WhatIfRun(PartitionEntries([resolve(str(path))], on_error=pytest.fail), pytest.fail).compaction(now)


def batch(offset: int, *pairs: tuple[bytes | None, bytes | None], **header: Any) -> bytes:
    rows = [Row(0, delta, key, value) for delta, (key, value) in enumerate(pairs)]
    return v2_batch(rows, base_offset=offset, **header)


def data(offset: int, producer: int, *pairs: tuple[bytes | None, bytes | None], **header: int) -> bytes:
    return batch(offset, *pairs, attributes=TRANSACTIONAL, producer_id=producer, producer_epoch=0, **header)


# --- Batches that are read in pieces ---

MANY = [(b"key-%d" % (number % 7), None if number % 5 == 4 else b"value") for number in range(30)]


@pytest.mark.parametrize("codec", [0, GZIP])
@pytest.mark.parametrize("age", [0, 2 * DELETE_RETENTION_MS])
@pytest.mark.parametrize("magic", [1, 2])
def test_an_entry_that_is_read_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, magic: int, age: int, codec: int
) -> None:
    large = batch(0, *MANY, (None, b"no key"), codec=codec, base_timestamp=NOW - age)
    if magic == 1:
        large = wrapper(1, 30, [message(1, at, *pair) for at, pair in enumerate([*MANY, (None, b"no key")])])
    segments = large + batch(31, (b"key-3", b"new")), batch(32, (b"a", b"active"))
    whole = compacted(tmp_path, *segments)
    monkeypatch.setattr(format_record, "PIECE_RECORDS", 4)
    monkeypatch.setattr(blocks, "_LARGEST_BODY", 100)
    in_pieces = compacted(tmp_path, *segments)
    in_bytes = ("bytes", "bytesAsV2")
    assert {key: in_pieces[key] for key in whole if key not in in_bytes} == {
        key: whole[key] for key in whole if key not in in_bytes
    }
    assert whole["keys"] == 7
    assert whole["withoutKey"] == 1
    for name in in_bytes:
        if magic == 2 and codec == 0:
            assert in_pieces[name] == whole[name]
        assert whole[name] <= in_pieces[name] + 100 <= whole[name] + 900


KEYS = st.sampled_from([b"", b"a", b"b", b"key-9", b"k" * 20, b"k" * 600]) | st.binary(max_size=2)
PAIRS = st.lists(st.tuples(KEYS, st.none() | st.binary(max_size=30)), min_size=1, max_size=6)


@examples(40)
@given(st.lists(PAIRS, min_size=2, max_size=8), st.data())
def test_newest_of_each_key(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[tuple[bytes, bytes | None]]], draw: Any
) -> None:
    offsets, encoded, records = 0, [], []
    for pairs in batches:
        encoded.append(batch(offsets, *pairs, codec=draw.draw(st.sampled_from((0, GZIP)))))
        records += [(offsets + delta, key) for delta, (key, _) in enumerate(pairs)]
        offsets += len(pairs)
    cut = draw.draw(st.integers(1, len(batches) - 1))
    row = compacted(tmp_path_factory.mktemp("log"), b"".join(encoded[:cut]), b"".join(encoded[cut:]))
    active = int.from_bytes(encoded[cut][:8], "big")
    newest = {key: offset for offset, key in records if offset < active}
    assert row["records"] == len(newest) + sum(offset >= active for offset, _ in records)
    assert row["keys"] == len(newest)
    assert (row["recordsNow"], row["bytesNow"]) == (len(records), sum(map(len, encoded)))
    assert (row["cleanedSegments"], row["segments"]) == (1, 2)


def test_a_log_alone_is_taken_for_closed(tmp_path: Path) -> None:
    row = compacted(tmp_path, batch(0, (b"a", b"1"), (b"a", b"2")) + batch(2, (b"b", b"1")))
    assert (row["records"], row["batches"], row["cleanedSegments"]) == (2, 2, 1)
    assert row["bytes"] == row["bytesNow"] - 9


def test_records_without_key_go_and_are_told(tmp_path: Path) -> None:
    log = batch(0, (None, b"1"), (b"a", b"2")) + batch(2, (None, b"3"))
    row = compacted(tmp_path, log)
    # The last batch stays for its offset.
    assert (row["records"], row["withoutKey"], row["emptyBatches"], row["batches"]) == (1, 2, 1, 2)
    assert any("without key" in words for words in answer_about(tmp_path / "t-0").words)


@pytest.mark.parametrize("is_due", [False, True])
def test_tombstones_wait_for_their_horizon(tmp_path: Path, is_due: bool) -> None:
    horizon = NOW - 1 if is_due else NOW + 1
    kept = v2_batch([Row(0, 0, b"a", None), Row(0, 1, b"b", b"1")], attributes=DELETE_HORIZON, base_timestamp=horizon)
    row = compacted(tmp_path, kept + batch(2, (b"c", b"1")))
    assert (row["records"], row["tombstones"]) == ((2, 0) if is_due else (3, 1))


def test_tombstones_without_horizon_get_one(tmp_path: Path) -> None:
    row = compacted(tmp_path, batch(0, (b"a", None)) + batch(1, (b"c", b"1")))
    assert (row["records"], row["tombstones"]) == (2, 1)
    # The horizon is a day ahead of the record, whose time is now far behind its batch's.
    assert row["bytesAsV2"] > row["bytesNow"] == row["bytes"]
    assert DELETE_RETENTION_MS == 86_400_000


def test_aborted_records_are_not_the_newest(tmp_path: Path) -> None:
    log = (
        batch(0, (b"a", b"1"))
        + data(1, 7, (b"a", b"2"))
        + marker(2, 7, ABORT)
        + data(3, 7, (b"b", b"3"))
        + marker(4, 7, COMMIT)
        + batch(5, (b"c", b"4"))
    )
    row = compacted(tmp_path, log, now=NOW + 2 * PRODUCER_EXPIRATION_MS)
    assert (row["records"], row["controlRecords"], row["keys"]) == (5, 2, 3)


def test_nothing_is_cleaned_from_an_open_transaction_on(tmp_path: Path) -> None:
    first = batch(0, (b"a", b"1"), (b"a", b"2"))
    second = batch(2, (b"a", b"3"), (b"a", b"4")) + data(4, 7, (b"b", b"1"))
    third = batch(5, (b"a", b"5"))
    row = compacted(tmp_path, first, second, third)
    assert (row["records"], row["cleanedSegments"]) == (1 + 3 + 1, 1)
    assert any("a transaction is open" in words for words in answer_about(tmp_path / "t-0").words)


@pytest.mark.parametrize("is_known", [True, False])
def test_the_last_batch_of_a_known_producer_stays_empty(tmp_path: Path, is_known: bool) -> None:
    log = batch(0, (b"a", b"1"), producer_id=7, producer_epoch=0, base_sequence=0) + batch(1, (b"a", b"2"))
    now = NOW if is_known else NOW + PRODUCER_EXPIRATION_MS
    row = compacted(tmp_path, log, now=now)
    assert (row["batches"], row["emptyBatches"]) == ((2, 1) if is_known else (1, 0))


def test_markers_go_with_the_last_batch_of_their_transaction(tmp_path: Path) -> None:
    """A marker whose transaction has no batch left waits for a horizon of its own, then goes."""
    late = NOW + 2 * PRODUCER_EXPIRATION_MS
    without = marker(0, 7, COMMIT) + batch(1, (b"a", b"1"))
    row = compacted(tmp_path, without, now=late)
    assert row["controlRecords"] == 1
    horizon = v2_batch(
        [Row(0, 0, b"\0\0\0\1", bytes(6))],
        attributes=TRANSACTIONAL | CONTROL | DELETE_HORIZON,
        base_timestamp=late - 1,
        max_timestamp=NOW,
        producer_id=7,
        producer_epoch=0,
    )
    row = compacted(tmp_path, horizon + batch(1, (b"a", b"1")), now=late)
    assert (row["controlRecords"], row["batches"]) == (0, 1)


@pytest.mark.parametrize("magic", [0, 1])
def test_messages_keep_their_format_or_become_batches(tmp_path: Path, magic: int) -> None:
    inner = [message(magic, delta, b"k", b"%d" % delta) for delta in range(3)]
    log = message(magic, 0, b"k", b"0") + message(magic, 1, b"z", b"1")
    log += wrapper(magic, 4, inner if magic else [message(0, 2 + n, b"k", b"%d" % n) for n in range(3)])
    row = compacted(tmp_path, log)
    assert (row["records"], row["batches"]) == (2, 2)
    assert row["bytes"] < row["bytesNow"]
    assert row["bytesAsV2"] != row["bytes"]


@pytest.mark.parametrize("name", [name for name in partition_names() if "compact" in name and "damaged" not in name])
def test_compacted_captures_do_not_grow(captures: Captures, name: str) -> None:
    row = row_about(captures.root / name, NOW + 365 * DELETE_RETENTION_MS)
    assert int(row["records"] or 0) <= int(row["recordsNow"] or 0)
    assert 0 < int(row["bytes"] or 0) <= int(row["bytesNow"] or 0)
    for log in (captures.root / name).glob("*.log"):
        row = row_about(log, NOW + 365 * DELETE_RETENTION_MS)
        assert int(row["records"] or 0) <= int(row["recordsNow"] or 0)
        assert 0 < int(row["bytes"] or 0) <= int(row["bytesNow"] or 0)


@given(st.lists(st.lists(st.integers(0, 30), max_size=30), max_size=8))
def test_newest_offsets(chunks: list[list[int]]) -> None:
    newest = NewestOffsets()
    expected = {}
    offset = 0
    for chunk in chunks:
        high = np.array([key // 2 for key in chunk], np.int64)
        low = np.array([key % 2 for key in chunk], np.int64)
        newest.add(high, low, np.arange(offset, offset + len(chunk)))
        for key in chunk:
            expected[key] = offset
            offset += 1
    assert newest.offsets().tolist() == sorted(expected.values())
    assert newest.distinct == len(expected)


def test_empty_log(tmp_path: Path) -> None:
    folder = tmp_path / "t-0"
    folder.mkdir()
    (folder / f"{0:020}.log").write_bytes(b"")
    row = row_about(folder)
    assert (row["records"], row["bytes"], row["bytesNow"]) == (0, 0, 0)
