"""Digests of records: what makes two records the same, however they are stored."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kdump.diff import contents
from kdump.diff.contents import DiffOptions, RecordDigests, read_digests, read_stored, same_records
from kdump.format import record as format_record
from tests.harness.batches import CODECS, CONTROL, NOW, TRANSACTIONAL, message, plain_rows, v2_batch, wrapper
from tests.harness.fast_reference import Row
from tests.harness.replicas import loaded

ROWS = plain_rows(4)


def digests(folder: Path, *entries: bytes, only_content: bool = False, limit: int = 1 << 20) -> RecordDigests:
    path = folder / f"{0:020}.log"
    path.write_bytes(b"".join(entries))
    copy = loaded(path)
    numbers = np.arange(copy.table.rows.size)
    parts = list(read_digests(copy.table, numbers, DiffOptions(limit, only_content)))
    return RecordDigests(*(np.concatenate(several) for several in zip(*parts, strict=True)))


@pytest.mark.parametrize("codec", CODECS)
def test_compression_and_grouping_play_no_part(tmp_path: Path, codec: int) -> None:
    plain = digests(tmp_path, v2_batch(ROWS))
    single = [v2_batch([replace(row, offset_delta=0)], base_offset=row.offset_delta) for row in ROWS]
    for other in (digests(tmp_path, v2_batch(ROWS, codec=codec)), digests(tmp_path, *single)):
        assert other.offset.tolist() == [0, 1, 2, 3]
        assert (other.digest == plain.digest).all()
        assert (other.key == plain.key).all()


@pytest.mark.parametrize(
    "changed",
    [
        Row(1, 0, b"key-0", b"A" * 10),
        Row(0, 0, b"key-1", b"A" * 10),
        Row(0, 0, None, b"A" * 10),
        Row(0, 0, b"key-0", b"B" * 10),
        Row(0, 0, b"key-0", None),
        Row(0, 0, b"key-0", b""),
        Row(0, 0, b"key-0A", b"A" * 9),
        Row(0, 0, b"key-0", b"A" * 10, [(b"h", b"")]),
        Row(0, 0, b"key-0", b"A" * 10, [(b"h", None)]),
        Row(0, 0, b"key-0", b"A" * 10, [(b"a", b"b"), (b"h", None)]),
        Row(0, 0, b"key-0", b"A" * 10, [(b"h", None), (b"a", b"b")]),
    ],
)
def test_each_part_of_a_record_counts(tmp_path: Path, changed: Row) -> None:
    plain = digests(tmp_path, v2_batch(ROWS[:1]))
    for only_content in (False, True):
        other = digests(tmp_path, v2_batch([changed], max_timestamp=NOW), only_content=only_content)
        assert (other.digest != plain.digest).any()


def test_no_two_of_many_headers_are_the_same(tmp_path: Path) -> None:
    sets = [[(b"h", b"")], [(b"h", None)], [(b"a", b"b"), (b"h", None)], [(b"h", None), (b"a", b"b")], []]
    found = {digests(tmp_path, v2_batch([Row(0, 0, b"k", b"v", headers)])).digest.tobytes() for headers in sets}
    assert len(found) == len(sets)


@pytest.mark.parametrize(
    "header",
    [
        {"producer_id": 1},
        {"producer_epoch": 1},
        {"base_sequence": 0},
        {"attributes": TRANSACTIONAL},
        {"attributes": CONTROL},
    ],
)
def test_producers_count_unless_only_the_content_does(tmp_path: Path, header: dict[str, int]) -> None:
    plain = {only: digests(tmp_path, v2_batch(ROWS), only_content=only) for only in (False, True)}
    other = {only: digests(tmp_path, v2_batch(ROWS, **header), only_content=only) for only in (False, True)}
    assert (plain[False].digest != other[False].digest).any()
    assert (plain[True].digest == other[True].digest).all()


def test_leader_epochs_do_not_count(tmp_path: Path) -> None:
    plain = digests(tmp_path, v2_batch(ROWS))
    assert (digests(tmp_path, v2_batch(ROWS, partition_leader_epoch=7)).digest == plain.digest).all()


def test_messages_of_magic_1(tmp_path: Path) -> None:
    """Wrapped or not they are the same, and they have the content of records."""
    single = [message(1, number, b"k", b"v", timestamp=NOW + number) for number in range(3)]
    inner = [message(1, number, b"k", b"v", timestamp=NOW + number) for number in range(3)]
    found = [digests(tmp_path, *single), digests(tmp_path, wrapper(1, 2, inner))]
    assert [one.offset.tolist() for one in found] == [[0, 1, 2]] * 2
    assert (found[0].digest == found[1].digest).all()
    rows = [Row(number, number, b"k", b"v") for number in range(3)]
    records = digests(tmp_path, v2_batch(rows), only_content=True)
    assert (digests(tmp_path, *single, only_content=True).digest == records.digest).all()


def test_batches_that_cannot_be_read(tmp_path: Path) -> None:
    """Each stands for one record, at its first offset."""
    good, broken = v2_batch(ROWS), v2_batch(ROWS, base_offset=4, crc=1)
    foreign = v2_batch(body=b"nonsense", base_offset=8, record_count=3, last_offset_delta=2)
    large = v2_batch([Row(0, 0, b"k", bytes(4096))], base_offset=11, codec=1)
    found = digests(tmp_path, good, broken, foreign, large, limit=100)
    assert found.offset.tolist() == [0, 1, 2, 3, 4, 8, 11]
    assert found.is_readable.tolist() == [True] * 4 + [False] * 3


def test_empty_batches_hold_nothing(tmp_path: Path) -> None:
    assert digests(tmp_path, v2_batch([], last_offset_delta=5)).offset.size == 0


def test_stored_records(tmp_path: Path) -> None:
    path = tmp_path / f"{0:020}.log"
    foreign = v2_batch(body=b"nonsense", base_offset=2, record_count=3)
    path.write_bytes(v2_batch(ROWS[:2], partition_leader_epoch=3) + foreign)
    copy = loaded(path)
    found = list(read_stored(copy.table, np.arange(2), 1 << 20))
    assert [(one.offset, one.key, one.value, one.leader_epoch) for one in found] == [
        (0, b"key-0", b"A" * 10, 3),
        (1, b"key-1", b"B" * 10, 3),
    ]


def test_what_the_older_format_cannot_hold_is_no_content(tmp_path: Path) -> None:
    headers = digests(tmp_path, v2_batch([Row(5, 0, b"k", b"v", [(b"h", b"")])]), only_content=True)
    plain = digests(tmp_path, v2_batch([Row(5, 0, b"k", b"v")]), only_content=True)
    older = {
        magic: digests(tmp_path, message(magic, 0, b"k", b"v", timestamp=timestamp), only_content=True)
        for magic, timestamp in ((0, -1), (1, NOW + 5))
    }
    late = digests(tmp_path, message(1, 0, b"k", b"v", timestamp=NOW), only_content=True)
    other = digests(tmp_path, message(0, 0, b"k", b"other"), only_content=True)
    options = DiffOptions(only_content=True)
    assert same_records(older[1], headers, options).all()
    assert same_records(headers, older[0], options).all()
    assert same_records(older[0], older[1], options).all()
    assert not same_records(plain, headers, options).any()
    assert not same_records(late, headers, options).any()
    assert not same_records(other, headers, options).any()


def test_the_records_come_in_the_order_of_the_rows(tmp_path: Path) -> None:
    """Batches that the columns refuse stay at their places between the others, and a damaged one is one record."""
    broken = bytearray(v2_batch(ROWS[:2], base_offset=8))
    broken[-1] ^= 1
    nonsense = v2_batch(body=b"nonsense", base_offset=7, record_count=3)
    found = digests(
        tmp_path, v2_batch(ROWS), message(1, 4, None, b"v"), v2_batch(ROWS[:2], base_offset=5), nonsense, bytes(broken)
    )
    assert found.offset.tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8]
    assert found.row.tolist() == [0, 0, 0, 0, 1, 2, 2, 3, 4]
    assert found.is_readable.tolist() == [True] * 7 + [False] * 2


@pytest.mark.parametrize("codec", [0, 4])
def test_large_batches_are_read_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, codec: int) -> None:
    """Damage at their end makes them one record all the same."""
    monkeypatch.setattr(format_record, "PIECE_RECORDS", 2)
    monkeypatch.setattr(contents, "_HELD_PIECES", 2)
    monkeypatch.setattr(contents, "_TOGETHER", 3)
    # The columns refuse a record with more bytes than it says.
    odd = v2_batch(plain_rows(20), codec=codec, record_count=21)
    for entry, count in ((v2_batch(plain_rows(20), codec=codec), 20), (odd, 1)):
        path = tmp_path / f"{0:020}.log"
        path.write_bytes(entry)
        copy = loaded(path)
        parts = list(read_digests(copy.table, np.arange(1), DiffOptions()))
        assert sum(part.offset.size for part in parts) == count
        assert [part.is_readable.all() for part in parts] == [count > 1] * len(parts)
        assert (len(parts) > 1) == (count > 1)
