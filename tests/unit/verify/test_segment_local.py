"""Local checks: each kind of damage in one segment, with the code and at the position that it has."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import pytest

from kdump.codes import Codes, KdumpError, Severity
from kdump.format.index import OFFSET_ENTRY
from kdump.verify.gaps import NextSegment
from kdump.verify.ordered import OrderedChecks
from kdump.verify.segment import CheckOptions
from kdump.wire import compression
from tests.harness.batches import (
    CODECS,
    CONTROL,
    DELETE_HORIZON,
    GZIP,
    LOG_APPEND_TIME,
    NOW,
    SNAPPY,
    TRANSACTIONAL,
    compress,
    message,
    plain_rows,
    v2_batch,
    wrapper,
)
from tests.harness.checked import MemorySource, both_ways, check, check_source, codes
from tests.harness.fast_reference import Row, encode

FIRST = v2_batch(plain_rows(3))
SECOND = v2_batch(plain_rows(2), base_offset=3)
LEGACY = [message(1, number, b"k", b"v") for number in range(3)]
LEGACY_LOG = b"".join(LEGACY)
THIRD = v2_batch(plain_rows(4), base_offset=5)


def flipped(data: bytes, position: int, mask: int = 0x10) -> bytes:
    return data[:position] + bytes([data[position] ^ mask]) + data[position + 1 :]


def with_length(batch: bytes, length: int) -> bytes:
    return batch[:8] + struct.pack(">i", length) + batch[12:]


def test_a_sound_segment_is_clean() -> None:
    assert both_ways(FIRST + SECOND + THIRD) == []
    assert check(b"") == []


def test_a_flipped_bit_is_named_and_the_next_batch_is_where_consumers_go_on() -> None:
    log = FIRST + flipped(SECOND, 70) + THIRD
    (found,) = both_ways(log)
    assert found.code is Codes.BATCH_CRC
    assert found.severity is Severity.ERROR
    assert (found.position, found.length) == (len(FIRST), len(SECOND))
    assert (found.first_offset, found.last_offset, found.continue_at) == (3, 4, 5)
    assert f"one flipped bit (4) at byte {len(FIRST) + 70} explains it" in found.message


def test_a_wrong_crc_at_the_end_leads_to_the_next_segment() -> None:
    (found,) = check(FIRST + flipped(SECOND, 70), following=NextSegment(next_base=5))
    assert (found.first_offset, found.last_offset, found.continue_at) == (3, 4, 5)


def test_wrong_crcs_side_by_side() -> None:
    found = both_ways(FIRST + flipped(SECOND, 70) + flipped(THIRD, 80) + v2_batch(plain_rows(1), base_offset=9))
    assert [(one.first_offset, one.last_offset, one.continue_at) for one in found] == [(3, 4, 5), (5, 8, 9)]


def test_after_broken_framing_only_the_index_leads_on(tmp_path: Path) -> None:
    log = FIRST + with_length(SECOND, 5) + THIRD + v2_batch(plain_rows(2), base_offset=9)
    start = len(FIRST) + len(SECOND)
    entries = [OFFSET_ENTRY.pack(2, 0), OFFSET_ENTRY.pack(8, start)]
    (tmp_path / "0.index").write_bytes(b"".join(entries))
    (tmp_path / "00.index").write_bytes(entries[0])
    for after, expected in (
        (NextSegment(log=str(tmp_path / "0.log")), 8),
        (NextSegment(40, str(tmp_path / "00.log")), 40),
        (NextSegment(), None),
    ):
        (found,) = both_ways(log, following=after)
        assert found.code is Codes.LENGTH_TOO_SMALL
        assert (found.position, found.length) == (len(FIRST), len(SECOND))
        assert (found.first_offset, found.last_offset, found.continue_at) == (3, 4, expected)


@pytest.mark.parametrize(
    ("tail", "code"),
    [
        (bytes(10), Codes.ZERO_TAIL),
        (bytes(100_000), Codes.ZERO_TAIL),
        (bytes(5000) + b"x" * 30, Codes.ZERO_FILL),
        (SECOND[:-1], Codes.TRUNCATED),
        (SECOND[:30], Codes.HEADER_CUT),
        (SECOND[:17], Codes.HEADER_CUT),
        (b"a line of text\n", Codes.TRAILING_BYTES),
        (b"many lines of text\n" * 50, Codes.TRAILING_BYTES),
        (b"\0\0\0", Codes.ZERO_TAIL),
    ],
)
def test_tails(tail: bytes, code: Codes) -> None:
    (found,) = both_ways(FIRST + tail)
    assert found.code is code
    assert (found.position, found.first_offset) == (len(FIRST), 3)
    assert found.severity is Severity.ERROR


def test_a_lost_page() -> None:
    middle = v2_batch(plain_rows(200, 50), base_offset=3)
    (found,) = check(FIRST + bytes(len(middle)) + v2_batch(plain_rows(2), base_offset=203))
    assert found.code is Codes.ZERO_FILL
    assert (found.position, found.first_offset, found.last_offset) == (len(FIRST), 3, 202)


def test_magic_that_no_crc_covers() -> None:
    (found,) = both_ways(FIRST + flipped(SECOND, 16, 0x08) + THIRD)
    assert found.code is Codes.MAGIC
    assert found.position == len(FIRST)


@pytest.mark.parametrize("codec", [0, GZIP])
@pytest.mark.parametrize(
    ("header", "rows", "code"),
    [
        ({"record_count": 4}, plain_rows(3), Codes.RECORD_COUNT),
        ({"record_count": 2}, plain_rows(3), Codes.RECORD_COUNT),
        ({"record_count": 0}, plain_rows(3), Codes.RECORD_COUNT),
        ({"record_count": -1}, plain_rows(3), Codes.RECORD_COUNT),
        ({"last_offset_delta": 2}, [Row(0, 1, None, b""), Row(1, 3, None, b"")], Codes.OFFSET_DELTA),
        ({"last_offset_delta": 2}, [Row(0, 1, None, b""), Row(0, 1, None, b"")], Codes.OFFSET_DELTA),
        ({"last_offset_delta": 2}, [Row(0, -1, None, b""), Row(0, 1, None, b"")], Codes.OFFSET_DELTA),
        ({"max_timestamp": NOW + 9}, plain_rows(3), Codes.MAX_TIMESTAMP),
        ({"max_timestamp": NOW}, plain_rows(3), Codes.MAX_TIMESTAMP),
        ({"base_timestamp": -6, "max_timestamp": -1}, plain_rows(1), Codes.MAX_TIMESTAMP),
        ({}, [Row(0, 0, b"k", b"v", [(b"\xff", b"")]), Row(0, 1, b"k", b"v", [(b"ok", None)])], Codes.HEADER_ENCODING),
        ({"attributes": 0x80}, plain_rows(3), Codes.UNUSED_ATTRIBUTES),
        ({"producer_epoch": 1}, plain_rows(3), Codes.PRODUCER_FIELDS),
        ({"producer_id": 1}, plain_rows(3), Codes.PRODUCER_FIELDS),
        ({"attributes": TRANSACTIONAL}, plain_rows(3), Codes.PRODUCER_FIELDS),
        ({"partition_leader_epoch": -2}, plain_rows(3), Codes.PRODUCER_FIELDS),
    ],
)
def test_contents_of_a_batch(codec: int, header: dict[str, int], rows: list[Row], code: Codes) -> None:
    found = both_ways(LEGACY_LOG + v2_batch(rows, base_offset=3, codec=codec, **header))
    assert {one.code for one in found} == {code}
    assert {one.position for one in found} == {len(LEGACY_LOG)}


@pytest.mark.parametrize(
    "header",
    [
        {},
        {"attributes": LOG_APPEND_TIME, "max_timestamp": NOW + 1_000_000},
        {"attributes": DELETE_HORIZON},
        {"last_offset_delta": 9},
        {"producer_id": 7, "producer_epoch": 0, "base_sequence": 3},
        {"base_sequence": 0},
    ],
)
@pytest.mark.parametrize("codec", [0, *CODECS])
def test_contents_that_are_right(codec: int, header: dict[str, int]) -> None:
    rows = [Row(0, 0, b"k", None, [("ключ".encode(), b"\xff"), (b"", None)]), Row(5, 1, None, b"v")]
    assert both_ways(v2_batch(rows, codec=codec, **header)) == []


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_codecs_that_do_not_exist(codec: int) -> None:
    for deep in (True, False):
        (found,) = both_ways(v2_batch(plain_rows(3), attributes=codec), deep=deep)
        assert found.code is Codes.CODEC


@pytest.mark.parametrize("codec", CODECS)
def test_payloads_that_cannot_be_decompressed(codec: int) -> None:
    body = compress(codec, b"".join(map(encode, plain_rows(30))))
    batch = v2_batch(plain_rows(30), body=body[:-9], codec=codec)
    (found,) = both_ways(batch)
    assert found.code is Codes.PAYLOAD
    assert both_ways(batch, deep=False) == []


def test_a_bomb_is_a_finding() -> None:
    batch = v2_batch([Row(0, 0, None, bytes(100_000))], codec=GZIP)
    for columnar in (False, True):
        (found,) = check(batch, options=CheckOptions(limit=50_000, columnar=columnar))
        assert found.code is Codes.PAYLOAD_TOO_LARGE


def control_batch(key: bytes | None, value: bytes | None, **header: int) -> bytes:
    fields = {"attributes": CONTROL | TRANSACTIONAL, "producer_id": 5, "producer_epoch": 0, **header}
    return v2_batch([Row(0, 0, key, value)], **fields)


ABORT_KEY = struct.pack(">hh", 0, 0)
END_TXN = struct.pack(">hi", 0, 0)


@pytest.mark.parametrize(
    ("key", "value", "code"),
    [
        (None, END_TXN, Codes.CONTROL_RECORD),
        (b"\0\0\0", END_TXN, Codes.CONTROL_RECORD),
        (struct.pack(">hh", -1, 0), END_TXN, Codes.CONTROL_RECORD),
        (ABORT_KEY, None, Codes.CONTROL_RECORD),
        (ABORT_KEY, END_TXN[:5], Codes.CONTROL_RECORD),
        (ABORT_KEY, struct.pack(">hi", -1, 0), Codes.CONTROL_RECORD),
        (struct.pack(">hh", 0, 2), END_TXN, Codes.CONTROL_TYPE),
        (struct.pack(">hh", 0, 9), END_TXN, Codes.CONTROL_TYPE),
    ],
)
@pytest.mark.parametrize("deep", [True, False])
def test_markers_on_which_recovery_stops(key: bytes | None, value: bytes | None, code: Codes, deep: bool) -> None:
    found = [one for one in both_ways(control_batch(key, value), deep=deep) if one.severity is Severity.ERROR]
    assert codes(found) == [code]
    assert found[0].position == 0


@pytest.mark.parametrize(
    "batch",
    [
        control_batch(ABORT_KEY, END_TXN),
        control_batch(struct.pack(">hhi", 9, 1, 7), END_TXN + b"more"),
        v2_batch(attributes=CONTROL | TRANSACTIONAL, producer_id=5, producer_epoch=0),
    ],
)
def test_markers_that_recovery_reads(batch: bytes) -> None:
    assert set(codes(both_ways(batch))) <= {Codes.MARKER_WITHOUT_TRANSACTION}


@pytest.mark.parametrize("deep", [True, False])
def test_no_broker_compresses_a_marker(deep: bool) -> None:
    """Only a deep check looks at what is in it."""
    (found,) = both_ways(control_batch(ABORT_KEY, END_TXN, codec=GZIP), deep=deep)
    assert (found.code, found.severity, found.position) == (Codes.CONTROL_RECORD, Severity.WARNING, 0)
    wrong = control_batch(struct.pack(">hh", 0, 2), END_TXN, codec=GZIP)
    assert codes(both_ways(wrong, deep=deep)) == [Codes.CONTROL_RECORD, *([Codes.CONTROL_TYPE] if deep else [])]


def test_kraft_records_of_an_unknown_type_are_a_warning_only() -> None:
    batch = v2_batch([Row(0, 0, struct.pack(">hh", 0, 9), b"")], attributes=CONTROL)
    (found,) = both_ways(batch)
    assert (found.code, found.severity) == (Codes.CONTROL_TYPE, Severity.WARNING)


@pytest.mark.parametrize("magic", [0, 1])
def test_legacy_entries_that_are_right(magic: int) -> None:
    entries = [message(magic, number, b"k", None) for number in range(3)]
    shift = 0 if magic else 3
    inner = [message(magic, number + shift, None, b"v") for number in range(4)]
    assert both_ways(b"".join(entries) + wrapper(magic, 6, inner)) == []


def test_legacy_checksums() -> None:
    (found,) = both_ways(LEGACY[0] + flipped(LEGACY[1], 30) + LEGACY[2])
    assert (found.code, found.position) == (Codes.BATCH_CRC, len(LEGACY[0]))
    assert (found.first_offset, found.last_offset, found.continue_at) == (1, 1, 2)
    inner = [message(1, 0, b"k", b"v"), message(1, 1, b"k", b"v", crc=77)]
    assert codes(both_ways(wrapper(1, 1, inner))) == [Codes.INNER_CRC]


@pytest.mark.parametrize(
    ("entry", "code"),
    [
        (wrapper(0, 5, [message(0, 3, b"", b""), message(0, 3, b"", b"")]), Codes.INNER_OFFSET),
        (wrapper(1, 1, [message(0, 0, b"", b""), message(0, 1, b"", b"")], timestamp=-1), Codes.INNER_MAGIC),
        (wrapper(1, 1, [message(1, 0, b"", b""), message(1, 1, b"", b"")], timestamp=NOW - 1), Codes.MAX_TIMESTAMP),
        (wrapper(1, 1, [message(1, 0, b"", b""), message(1, 1, b"", b"")[:-1]]), Codes.LEGACY_WRAPPER),
        (wrapper(1, 0, [wrapper(1, 0, [message(1, 0, b"", b"")])]), Codes.LEGACY_WRAPPER),
        (wrapper(0, 0, []), Codes.LEGACY_WRAPPER),
        (message(0, 0, b"", b"", attributes=4), Codes.CODEC),
        (message(1, 0, b"", b"", attributes=0x80), Codes.UNUSED_ATTRIBUTES),
        (message(0, 0, b"", b"", attributes=8), Codes.UNUSED_ATTRIBUTES),
        (message(1, 0, b"", b"", timestamp=-2), Codes.MAX_TIMESTAMP),
    ],
)
def test_contents_of_legacy_entries(entry: bytes, code: Codes) -> None:
    assert code in codes(both_ways(entry, base_offsets=[None]))


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("key", [b"", b"key"])
def test_wrappers_with_a_key(magic: int, key: bytes) -> None:
    value = compress(GZIP, message(magic, 0, b"k", b"v"), magic)
    entry = message(magic, 0, key, value, attributes=GZIP)
    (found,) = both_ways(entry)
    assert (found.code, found.severity) == (Codes.WRAPPER_KEY, Severity.WARNING)
    assert found.message == f"the wrapper has a key of {len(key)} bytes"


@pytest.mark.parametrize("codec", CODECS[:3])
def test_messages_in_a_wrapper_that_claim_a_time_of_append(codec: int) -> None:
    """A broker that writes them anew gives them the type and the timestamp of the wrapper, nobody else sets the bit."""
    claiming = message(1, 0, b"k", b"v", attributes=LOG_APPEND_TIME)
    later = message(1, 1, b"k", b"v", attributes=LOG_APPEND_TIME, timestamp=NOW + 1)
    untouched, plain = (message(1, number, b"k", b"v") for number in range(2))
    for attributes, inner, are_right in (
        (0, [claiming, plain], False),
        (LOG_APPEND_TIME, [claiming, plain], True),
        (LOG_APPEND_TIME, [claiming, later], False),
        (LOG_APPEND_TIME, [untouched, plain], True),
        (0, [untouched, plain], True),
    ):
        found = both_ways(wrapper(1, 1, inner, codec, attributes=attributes))
        assert [(one.code, one.severity) for one in found] == (
            [] if are_right else [(Codes.INNER_TIMESTAMP_TYPE, Severity.WARNING)]
        )


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("key_size", [-2, 3, 100_000])
def test_sizes_inside_a_legacy_message(magic: int, key_size: int) -> None:
    good = message(magic, 0, b"key", b"value")
    at = 18 if magic == 0 else 26
    covered = good[16:at] + struct.pack(">i", key_size) + good[at + 4 :] + b"?"
    entry = good[:8] + struct.pack(">iI", 4 + len(covered), zlib.crc32(covered)) + covered
    assert codes(both_ways(entry)) == [Codes.LEGACY_MESSAGE]


def test_quick_never_decompresses_and_reads_each_byte_once(monkeypatch: pytest.MonkeyPatch) -> None:
    batches = [
        v2_batch(plain_rows(20), base_offset=20 * number, codec=codec) for number, codec in enumerate((0, *CODECS) * 40)
    ]
    log = b"".join([wrapper(0, 19, [message(0, 19, b"", b"")], SNAPPY), *batches[1:]])
    monkeypatch.setattr(compression, "decompress", None)
    for columnar in (False, True):
        source = MemorySource(log)
        options = CheckOptions(deep=False, columnar=columnar)
        assert list(check_source(source, 0, OrderedChecks(), options=options)) == []
        assert source.bytes_read == len(log)


class FailingSource(MemorySource):
    """A block that cannot be read."""

    def __init__(self, data: bytes, first: int, last: int) -> None:
        super().__init__(data)
        self._bad = range(first, last)

    def read_into(self, view: memoryview, position: int) -> int:
        until = max(0, min(len(view), self._bad.start - position)) if position < self._bad.stop else len(view)
        count = super().read_into(view[:until], position)
        if until < len(view) and position + until in self._bad:
            raise KdumpError(Codes.UNREADABLE, "Input/output error", path=self.path, position=position + until)
        return count


def test_a_block_that_cannot_be_read_is_a_finding() -> None:
    batches = [v2_batch(plain_rows(20, 40), base_offset=20 * number) for number in range(40)]
    log = b"".join(batches)
    found = list(check_source(FailingSource(log, 8192, 12288), 0, OrderedChecks()))
    assert codes(found) == [Codes.UNREADABLE]
    hole = found[0]
    size = len(batches[0])
    assert (hole.position, hole.first_offset) == (8192 // size * size, 8192 // size * 20)
    assert hole.last_offset == -(-12288 // size) * 20 - 1


class PipeSource(MemorySource):
    """Bytes of which the end is not known."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.size = None


@pytest.mark.parametrize("columnar", [None, True, False])
def test_a_stream(columnar: bool | None) -> None:
    log = FIRST + flipped(SECOND, 70) + THIRD + bytes(50)
    found = list(check_source(PipeSource(log), None, OrderedChecks(), options=CheckOptions(columnar=columnar)))
    assert codes(found) == [Codes.BATCH_CRC, Codes.ZERO_FILL]


def test_large_segments_use_columns_and_give_every_row_once() -> None:
    log = b"".join(v2_batch(plain_rows(1), base_offset=number) for number in range(9000))
    rows: list[int] = []
    source = MemorySource(log)
    found = check_source(source, 0, OrderedChecks(), on_rows=lambda part: rows.extend(part["base_offset"].tolist()))
    assert list(found) == []
    assert rows == list(range(9000))
