"""format.index and format.snapshot: the files beside a segment."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.codes import Codes, DamageError
from kdump.format.batch import wrap_int64
from kdump.format.index import AbortedTxn, parse_offset_index, parse_time_index, parse_txn_index, rising_part
from kdump.format.snapshot import ProducerEntry, parse_snapshot
from kdump.releases import KAFKA_4_3
from tests.harness.batches import producer_snapshot as snapshot
from tests.harness.fast_reference import INT32, INT64

INT16 = st.integers(-(2**15), 2**15 - 1)
PRODUCERS = st.lists(st.builds(ProducerEntry, INT64, INT16, INT32, INT64, INT32, INT64, INT32, INT64), max_size=4)


def refused(data: bytes) -> DamageError:
    with pytest.raises(DamageError) as caught:
        parse_snapshot(data)
    return caught.value


@given(st.lists(st.tuples(INT32, INT32), max_size=5), INT64, st.binary(max_size=7))
def test_offset_index(entries: list[tuple[int, int]], base: int, rest: bytes) -> None:
    data = b"".join(struct.pack(">ii", *entry) for entry in entries) + rest
    right = [(wrap_int64(base + relative), position) for relative, position in entries]
    assert list(parse_offset_index(data, base)) == right


@given(st.lists(st.tuples(INT64, INT32), max_size=5), INT64, st.binary(max_size=11))
def test_time_index(entries: list[tuple[int, int]], base: int, rest: bytes) -> None:
    data = b"".join(struct.pack(">qi", *entry) for entry in entries) + rest
    right = [(timestamp, wrap_int64(base + relative)) for timestamp, relative in entries]
    assert list(parse_time_index(data, base)) == right


@given(st.lists(st.tuples(INT64, INT64, INT64, INT64), max_size=5), st.integers(0, 255), st.binary(max_size=33))
def test_txn_index(entries: list[tuple[int, int, int, int]], low: int, rest: bytes) -> None:
    data, right = (
        b"".join(struct.pack(">Hqqqq", 0, *entry) for entry in entries),
        [AbortedTxn(0, *entry) for entry in entries],
    )
    assert parse_txn_index(data + rest) == right
    # Up to 4.3 only the first byte of the version counts: 1 reads as 0.
    older = b"".join(struct.pack(">Hqqqq", low, *entry) for entry in entries)
    assert parse_txn_index(older + rest, KAFKA_4_3) == right


def test_a_partial_entry_at_the_end_is_left_out() -> None:
    entries = parse_offset_index(struct.pack(">iiiiii", 1, 10, 2, 20, 3, 30) + b"rest", 100)
    assert (len(entries), entries[0], entries[-1]) == (3, (101, 10), (103, 30))
    assert list(rising_part(entries[:2], lambda entry: entry.position, 100)) == [(101, 10), (102, 20)]
    assert len(rising_part(entries, lambda entry: min(entry.position, 20), 100)) == 2


def test_txn_index_of_another_version() -> None:
    good, bad = struct.pack(">hqqqq", 0, 1, 2, 3, 4), struct.pack(">hqqqq", 0x0100, 1, 2, 3, 4)
    with pytest.raises(DamageError) as caught:
        parse_txn_index(good + good + bad)
    assert caught.value.code is Codes.TXN_INDEX_VERSION
    assert caught.value.position == 68
    for version in (-1, 1):
        entry = struct.pack(">hqqqq", version, 1, 2, 3, 4)
        assert parse_txn_index(entry, KAFKA_4_3)[0].version == min(version, 0)
        with pytest.raises(DamageError, match="is the only one known"):
            parse_txn_index(entry)


@given(PRODUCERS)
def test_snapshot_round_trip(entries: list[ProducerEntry]) -> None:
    assert parse_snapshot(snapshot(*entries)) == entries


@pytest.mark.parametrize(
    ("last", "delta", "first"),
    [
        (9, 4, 5),
        (0, 0, 0),
        (0, 1, 2**31 - 1),
        (3, 10, 2**31 - 7),
        # Printed by the real tool.
        (2**31 - 1, -(2**31), -1),
        (7, -(2**31), -(2**31) + 7),
        (2**31 - 1, -1, -(2**31)),
    ],
)
def test_first_sequence(last: int, delta: int, first: int) -> None:
    assert ProducerEntry(1, 0, last, 20, delta, 0, -1, -1).first_sequence == first


@pytest.mark.parametrize("version", [0, 2, -1])
def test_snapshot_of_another_version(version: int) -> None:
    error = refused(snapshot(version=version))
    assert error.code is Codes.SNAPSHOT_SCHEMA
    assert error.message == (f"Snapshot failed schema validation: Snapshot contained an unknown file version {version}")


def test_cut_snapshot() -> None:
    whole = snapshot(ProducerEntry(1, 0, 9, 20, 4, 0, -1, -1), ProducerEntry(2, 0, 9, 20, 4, 0, -1, -1))
    for size in range(len(whole)):
        assert refused(whole[:size]).code is Codes.SNAPSHOT_SCHEMA, size
    assert refused(b"").message == "Snapshot failed schema validation: null"


def test_impossible_counts() -> None:
    assert refused(snapshot(count=1_000_000)).message == (
        "Snapshot failed schema validation: "
        "Tried to allocate a collection of size 1000000, but there are only 0 bytes remaining."
    )
    assert refused(snapshot(count=-1)).message == (
        "Snapshot failed schema validation: non-nullable field producerEntries was serialized as null"
    )


def test_snapshot_crc() -> None:
    entry = ProducerEntry(1, 0, 9, 20, 4, 0, -1, -1)
    error = refused(snapshot(entry, crc=5))
    assert error.code is Codes.SNAPSHOT_CRC
    assert error.message.startswith("Snapshot is corrupt (CRC is no longer valid). Stored crc: 5. Computed crc: ")
    assert refused(snapshot(entry) + b"\0").code is Codes.SNAPSHOT_CRC


@given(st.binary(max_size=120))
def test_rubbish_never_crashes(data: bytes) -> None:
    code = None
    try:
        parse_snapshot(data)
    except DamageError as error:
        code = error.code
    assert code in (None, Codes.SNAPSHOT_SCHEMA, Codes.SNAPSHOT_CRC)
