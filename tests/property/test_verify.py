"""Random valid partitions are clean; random damage is told alike by tuples and by columns."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from kdump.codes import Codes, Severity
from kdump.format.batch import parse_header
from kdump.format.legacy import parse_message
from kdump.log.gaps import Gap
from kdump.log.resync import ResyncWalk
from kdump.verify.table import NO_MARKER, NO_PRODUCER, UNKNOWN_OFFSET, BatchRow, read_marker, read_rows, row_at
from tests.harness.batches import message, wrapper
from tests.harness.checked import both_ways
from tests.harness.examples import examples
from tests.harness.memory import MemorySource
from tests.harness.random_partitions import partition

QUIET = {Codes.TRANSACTION_OPEN, Codes.MARKER_WITHOUT_TRANSACTION, Codes.OFFSET_GAP, Codes.SEGMENT_GAP}
"""What a valid partition may be told, as info."""


@examples(500)
@given(st.integers(0, 2**32), st.booleans())
def test_valid_partitions_are_clean(seed: int, is_compacted: bool) -> None:
    made = partition(seed, is_compacted=is_compacted)
    found = both_ways(*made.segments, base_offsets=made.bases)
    assert all(one.severity is Severity.INFO and one.code in QUIET for one in found), [str(one) for one in found]
    if not is_compacted:
        assert {one.code for one in found} <= {Codes.TRANSACTION_OPEN}


@examples(300)
@given(st.integers(0, 2**32), st.data())
def test_damage_is_told_alike_both_ways(seed: int, draw: st.DataObject) -> None:
    made = partition(seed, is_compacted=seed % 3 == 0, batch_count=12)
    choose = random.Random(seed + 1)
    segments = []
    for segment in made.segments:
        data = bytearray(segment)
        for _ in range(draw.draw(st.integers(0, 3))):
            if data:
                # Headers are damaged most often: under a right CRC where it covers them.
                at = choose.randrange(min(len(data), 61)) if choose.random() < 0.5 else choose.randrange(len(data))
                data[at] ^= 1 << choose.randrange(8)
        segments.append(bytes(data))
    both_ways(*segments, base_offsets=made.bases, deep=draw.draw(st.booleans()))


@examples(100)
@given(st.integers(0, 2**32))
def test_rows_say_what_the_headers_say(seed: int) -> None:
    made = partition(seed, is_compacted=True, batch_count=8)
    legacy = message(0, 0, b"", b"") + message(1, 1, b"k", b"") + wrapper(1, 3, [message(1, 0, b"", b"")])
    data = bytearray(legacy + b"".join(made.segments))
    choose = random.Random(seed)
    data[choose.randrange(len(data))] ^= 0x41
    is_after_gap = False
    for item in ResyncWalk(MemorySource(bytes(data))).items():
        if isinstance(item, Gap):
            is_after_gap = True
            continue
        rows = read_rows(item, is_after_gap)
        assert BatchRow._fields == rows.dtype.names
        for number, (start, end) in enumerate(item.entries()):
            row = row_at(rows, number)
            is_valid = number not in item.damaged
            assert row == plain_row(item.data[start:end], item.position + start, is_valid, is_after_gap)
            is_after_gap = not is_valid


def plain_row(entry: memoryview, position: int, is_valid: bool, is_after_gap: bool) -> BatchRow:
    """The row of one entry by the scalar decoders."""
    if entry[16] < 2:
        legacy = parse_message(entry)
        own = legacy.timestamp if legacy.magic else -1
        first = UNKNOWN_OFFSET if legacy.codec else legacy.offset
        return BatchRow(
            position, len(entry), first, legacy.offset, -1, legacy.magic, legacy.crc, legacy.attributes & 0xFF, 1,
            NO_PRODUCER, -1, -1, own, own, *NO_MARKER, is_valid, is_after_gap,
        )  # fmt: skip
    header = parse_header(entry)
    marker = read_marker(header, entry) if is_valid and header.is_control and not header.codec else NO_MARKER
    return BatchRow(
        position, len(entry), header.base_offset, header.last_offset, header.partition_leader_epoch, header.magic,
        header.crc, header.attributes, header.record_count, header.producer_id, header.producer_epoch,
        header.base_sequence, header.base_timestamp, header.max_timestamp, *marker, is_valid, is_after_gap,
    )  # fmt: skip
