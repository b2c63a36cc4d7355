"""log.walk: the same entries whatever the chunk size, and where a walk ends."""

from __future__ import annotations

import os
import struct
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.codes import Codes, KdumpError
from kdump.log import source as sources
from kdump.log.opening import open_source
from kdump.log.walk import DEFAULT_CHUNK_SIZE, Stop, Walk
from tests.harness.batches import message, plain_rows, v2_batch
from tests.harness.memory import MemorySource

SMALLEST_BUFFER = 1 << 16


def entries(walk: Walk) -> list[tuple[int, bytes]]:
    found = []
    for chunk in walk.chunks():
        assert chunk.starts
        for start, end in chunk.entries():
            found.append((chunk.position + start, bytes(chunk.data[start:end])))
    return found


def expected_entries(data: bytes, limit: int | None = None) -> tuple[list[tuple[int, bytes]], Stop]:
    """docs/spec/dump-output.md#41-batch-scan, steps 1 to 4, over the whole file at once."""
    end = len(data) if limit is None else min(limit, len(data))
    found: list[tuple[int, bytes]] = []
    position = 0
    while position < end - 17:
        (length,) = struct.unpack_from(">i", data, position + 8)
        if length < 14:
            return found, Stop.LENGTH_TOO_SMALL
        if position > end - 12 - length:
            break
        found.append((position, data[position : position + 12 + length]))
        position += 12 + length
    return found, Stop.END


def test_some_entries_of_a_chunk() -> None:
    (chunk,) = Walk(MemorySource(batch_of(1) + batch_of(2) + batch_of(3))).chunks()
    assert list(chunk.entries()) == [(0, 62), (62, 125), (125, 189)]
    assert list(chunk.entries(1)) == [(62, 125), (125, 189)]
    assert list(chunk.entries(1, 2)) == [(62, 125)]
    assert list(chunk.entries(0, 0)) == list(chunk.entries(3)) == []
    assert [chunk.bounds(1, last) for last in (1, 3, 9)] == [[62], [62, 125, 189], [62, 125, 189]]


def batch_of(size: int) -> bytes:
    return v2_batch(body=bytes(size))


ENTRY = (
    st.builds(batch_of, st.integers(0, 300))
    | st.builds(lambda size: message(1, 5, None, bytes(size)), st.integers(0, 300))
    | st.sampled_from([batch_of(SMALLEST_BUFFER - 61), batch_of(SMALLEST_BUFFER), batch_of(3 * SMALLEST_BUFFER)])
    | st.just(message(0, 0, None, None))
)
TAIL = (
    st.binary(max_size=80)
    | st.builds(lambda batch, size: batch[:size], ENTRY, st.integers(0, 400))
    | st.just(bytes(18))
)
LOG = st.builds(lambda parts, tail: b"".join(parts) + tail, st.lists(ENTRY, max_size=8), TAIL)


@given(LOG, st.integers(1, 1 << 18), st.booleans())
def test_chunk_size_makes_no_difference(data: bytes, chunk_size: int, sized: bool) -> None:
    walk = Walk(MemorySource(data, sized=sized), chunk_size=chunk_size)
    found, stop = expected_entries(data)
    assert entries(walk) == found
    assert walk.stop is stop
    assert walk.position == sum(len(entry) for _, entry in found)
    if stop is Stop.END:
        assert walk.end == len(data)
    else:
        assert walk.bad_length == struct.unpack_from(">i", data, walk.position + 8)[0]


@given(LOG, st.integers(0, 1 << 17), st.booleans())
def test_limit(data: bytes, limit: int, sized: bool) -> None:
    walk = Walk(MemorySource(data, sized=sized), limit=limit)
    found, stop = expected_entries(data, limit)
    assert entries(walk) == found
    assert walk.stop is stop
    assert walk.end <= limit


def test_start() -> None:
    data = batch_of(5) + batch_of(6) + batch_of(7)
    walk = Walk(MemorySource(data), start=66)
    assert [position for position, _ in entries(walk)] == [66, 133]
    assert walk.position == len(data)


def test_bounds_of_what_is_an_entry() -> None:
    """One byte less, and the rest is no entry, or its length is wrong."""
    assert len(entries(Walk(MemorySource(message(0, 0, None, None))))) == 1
    for length in (13, -(2**31)):
        walk = Walk(MemorySource(batch_of(0) + struct.pack(">qi", 1, length) + bytes(6)))
        assert len(entries(walk)) == 1
        assert (walk.stop, walk.position, walk.bad_length) == (Stop.LENGTH_TOO_SMALL, 61, length)
        walk = Walk(MemorySource(batch_of(0) + struct.pack(">qi", 1, length) + bytes(5)))
        assert len(entries(walk)) == 1
        assert (walk.stop, walk.position, walk.end) == (Stop.END, 61, 61 + 17)


def test_buffer_grows_for_one_entry_only() -> None:
    large = batch_of(10 * SMALLEST_BUFFER)
    data = batch_of(1) + large + batch_of(2)
    source = MemorySource(data, sized=False)
    assert [len(entry) for _, entry in entries(Walk(source, chunk_size=1))] == [62, len(large), 63]
    assert source.largest_read < len(data) * 2


def test_length_field_that_lies_asks_for_no_gigabytes() -> None:
    data = struct.pack(">qi", 0, 2**31 - 1) + bytes(1000)
    for sized in (True, False):
        source = MemorySource(data, sized=sized)
        walk = Walk(source, chunk_size=SMALLEST_BUFFER)
        assert entries(walk) == []
        assert (walk.position, walk.end) == (0, len(data))
        assert source.largest_read <= 2 * SMALLEST_BUFFER


def test_small_file_gets_a_small_buffer() -> None:
    source = MemorySource(v2_batch(plain_rows(3)))
    assert len(entries(Walk(source))) == 1
    assert source.largest_read == SMALLEST_BUFFER


def test_file_that_grows_ends_where_it_was_opened() -> None:
    source = MemorySource(batch_of(1))
    source.data += batch_of(2)
    walk = Walk(source)
    assert len(entries(walk)) == 1
    assert walk.end == 62


def test_short_v2_entry_comes_with_the_bytes_after_it() -> None:
    # A length field of 14 to 48 under magic 2: the header is read from what follows.
    short = v2_batch(batch_length=20)[:32]
    for before in (0, SMALLEST_BUFFER - 61 - 40, SMALLEST_BUFFER - 61 - 20):
        data = (batch_of(before) if before else b"") + short + batch_of(50)
        for chunk in Walk(MemorySource(data), chunk_size=1).chunks():
            for start, end in chunk.entries():
                assert end - start >= 61 or len(chunk.data) - start >= 61


def test_unreadable_source() -> None:
    class Broken(MemorySource):
        def read_into(self, view: memoryview, position: int) -> int:
            if position >= SMALLEST_BUFFER:
                raise KdumpError(Codes.UNREADABLE, "Input/output error", path=self.path, position=position)
            return super().read_into(view, position)

    walk = Walk(Broken(batch_of(100) * 1000), chunk_size=SMALLEST_BUFFER)
    found: list[int] = []
    with pytest.raises(KdumpError, match="Input/output error"):
        found.extend(chunk.end for chunk in walk.chunks())
    assert len(found) == 1


@pytest.mark.parametrize("is_sparse", [False, True])
def test_an_entry_that_a_sparse_file_does_not_store(
    is_sparse: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its length field may say 2 GiB, which would be read into memory though the file takes 4 KiB on the disk."""
    monkeypatch.setattr(sources, "LARGEST_HOLLOW", 1 << 20)
    monkeypatch.setattr("kdump.log.walk.LARGEST_HOLLOW", 1 << 20)
    first = v2_batch(plain_rows(1))
    size = 6 << 20
    claimed = bytearray(first)
    struct.pack_into(">i", claimed, 8, size - 12)
    path = tmp_path / "log"
    path.write_bytes(first + claimed)
    if is_sparse:
        os.truncate(path, len(first) + size)
    else:
        path.write_bytes(path.read_bytes().ljust(len(first) + size, b"x"))
    with open_source(str(path)) as source:
        over = Walk(source)
        found = [position for position, _ in entries(over)]
    assert found == ([0] if is_sparse else [0, len(first)])
    assert over.stop is Stop.END
    assert over.position == (len(first) if is_sparse else len(first) + size)
    assert over.end == len(first) + size


def test_a_stream_in_small_pieces_does_not_enlarge_the_buffer() -> None:
    """Each piece doubled it, up to the 2 GiB that a length field may say."""

    class Slow(MemorySource):
        def read_some(self, view: memoryview, position: int) -> int:
            return super().read_into(view[:1], position)

        def read_into(self, view: memoryview, position: int) -> int:
            raise AssertionError("a stream is read as it comes")

    claimed = bytearray(v2_batch(plain_rows(1)))
    struct.pack_into(">i", claimed, 8, (1 << 31) - 1)
    data = bytes(claimed) * 3
    tracemalloc.start()
    try:
        over = Walk(Slow(data, sized=False))
        assert entries(over) == []
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert over.position == 0
    assert over.end == len(data)
    assert peak < 4 * DEFAULT_CHUNK_SIZE
