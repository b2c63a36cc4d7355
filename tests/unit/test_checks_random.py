"""Random valid partitions are clean; random damage is told alike by tuples and by columns."""

from __future__ import annotations

import random
import struct
from dataclasses import dataclass, field

from batches import CODECS, CONTROL, DELETE_HORIZON, LOG_APPEND_TIME, NOW, TRANSACTIONAL, message, v2_batch, wrapper
from checked import MemorySource, both_ways
from fast_reference import Row
from hypothesis import given, settings
from hypothesis import strategies as st

from kdump.codes import Codes, Severity
from kdump.format.batch import parse_header
from kdump.format.legacy import parse_message
from kdump.log.gaps import Gap
from kdump.log.resync import ResyncWalk
from kdump.verify.markers import NO_MARKER, read_marker
from kdump.verify.table import NO_PRODUCER, UNKNOWN_OFFSET, BatchRow, read_rows, row_at

QUIET = {Codes.TRANSACTION_OPEN, Codes.MARKER_WITHOUT_TRANSACTION, Codes.OFFSET_GAP, Codes.SEGMENT_GAP}
"""What a valid partition may be told, as info."""


@dataclass
class Producer:
    number: int
    is_transactional: bool
    epoch: int = 0
    sequence: int = 0
    is_open: bool = False


@dataclass
class Partition:
    """Writes what brokers, and the log cleaner where ``is_compacted``, leave on disk."""

    choose: random.Random
    is_compacted: bool
    segments: list[bytes] = field(default_factory=list)
    bases: list[int | None] = field(default_factory=list)

    def write(self, batch_count: int) -> None:
        choose = self.choose
        self.end = self.base = choose.choice((0, 17, 2**40))
        self.leader_epoch = 0
        producers = [Producer(number, choose.random() < 0.6) for number in range(choose.randint(0, 4))]
        for producer in producers:
            # A log may begin anywhere in the life of a producer.
            producer.sequence = choose.choice((0, 5, 2**31 - 3))
        parts: list[bytes] = []
        for _ in range(batch_count):
            if parts and choose.random() < 0.1:
                self._roll(parts)
            self.leader_epoch += choose.random() < 0.1
            producer = choose.choice(producers) if producers and choose.random() < 0.8 else None
            if producer and producer.is_transactional and producer.is_open and choose.random() < 0.4:
                batch = self._marker(producer)
            else:
                batch = self._data(producer)
            # The cleaner takes whole batches too, but never the newest segment's.
            if not (self.is_compacted and choose.random() < 0.3):
                parts.append(batch)
        if self.is_compacted:
            parts.append(self._cleaned(None))
        self._roll(parts)

    def _roll(self, parts: list[bytes]) -> None:
        self.segments.append(b"".join(parts))
        self.bases.append(self.base)
        self.base = self.end
        parts.clear()

    def _data(self, producer: Producer | None) -> bytes:
        if self.is_compacted and self.choose.random() < 0.5:
            return self._cleaned(producer)
        count = self.choose.randint(1, 6)
        return self._batch(count, list(range(count)), producer)

    def _cleaned(self, producer: Producer | None) -> bytes:
        count = self.choose.randint(2, 6)
        kept = sorted(self.choose.sample(range(count), self.choose.randint(0, count - 1)))
        return self._batch(count, kept, producer, attributes=DELETE_HORIZON if kept else 0)

    def _batch(self, count: int, kept: list[int], producer: Producer | None, attributes: int = 0) -> bytes:
        choose = self.choose
        rows = [
            Row(choose.randint(-50, 50), number, choose.choice((None, b"k")), choose.choice((None, b"v" * 40)),
                choose.choice(([], [("é".encode(), b"\xff")])))
            for number in kept
        ]  # fmt: skip
        fields = {"last_offset_delta": count - 1, "partition_leader_epoch": self.leader_epoch}
        if rows:
            fields["max_timestamp"] = NOW + max(row.timestamp_delta for row in rows)
            if choose.random() < 0.2:
                attributes |= LOG_APPEND_TIME
                fields["max_timestamp"] = NOW + 1000
        if producer is not None:
            if choose.random() < 0.05 and not producer.is_open:
                producer.epoch, producer.sequence = producer.epoch + 1, 0
            fields |= {
                "producer_id": producer.number,
                "producer_epoch": producer.epoch,
                "base_sequence": producer.sequence,
            }
            producer.sequence = (producer.sequence + count) % 2**31
            if producer.is_transactional:
                producer.is_open = True
                attributes |= TRANSACTIONAL
        codec = choose.choice((0, 0, *CODECS)) if rows else 0
        batch = v2_batch(rows, base_offset=self.end, codec=codec, attributes=attributes, **fields)
        self.end += count
        return batch

    def _marker(self, producer: Producer) -> bytes:
        kind = self.choose.randint(0, 1)
        row = Row(0, 0, struct.pack(">hh", 0, kind), struct.pack(">hi", 0, 3))
        producer.is_open = False
        if self.choose.random() < 0.3:
            producer.epoch, producer.sequence = producer.epoch + 1, 0
        self.end += 1
        return v2_batch(
            [row],
            base_offset=self.end - 1,
            attributes=CONTROL | TRANSACTIONAL,
            producer_id=producer.number,
            producer_epoch=producer.epoch,
            partition_leader_epoch=self.leader_epoch,
        )


def partition(seed: int, *, is_compacted: bool, batch_count: int = 20) -> Partition:
    made = Partition(random.Random(seed), is_compacted)
    made.write(batch_count)
    return made


@settings(max_examples=1000)
@given(st.integers(0, 2**32), st.booleans())
def test_valid_partitions_are_clean(seed: int, is_compacted: bool) -> None:
    made = partition(seed, is_compacted=is_compacted)
    found = both_ways(*made.segments, base_offsets=made.bases)
    assert all(one.severity is Severity.INFO and one.code in QUIET for one in found), [str(one) for one in found]
    if not is_compacted:
        assert {one.code for one in found} <= {Codes.TRANSACTION_OPEN}


@settings(max_examples=300)
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


@settings(max_examples=100)
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
