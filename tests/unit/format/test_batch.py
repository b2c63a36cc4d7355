"""format.batch: one field table, two readers; and Java's arithmetic in what is derived from the fields."""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.format.batch import (
    HEADER_SIZE,
    BatchHeader,
    header_dtype,
    increment_sequence,
    parse_header,
    wrap_int32,
    wrap_int64,
)
from tests.harness.batches import CONTROL, DELETE_HORIZON, LOG_APPEND_TIME, TRANSACTIONAL, v2_batch
from tests.harness.fast_reference import INT32, INT64

# Positions and types out of the table in docs/spec/formats.md#3-record-batches-v2.
LAYOUT = {
    "base_offset": (0, ">q"),
    "batch_length": (8, ">i"),
    "partition_leader_epoch": (12, ">i"),
    "magic": (16, ">b"),
    "crc": (17, ">I"),
    "attributes": (21, ">H"),
    "last_offset_delta": (23, ">i"),
    "base_timestamp": (27, ">q"),
    "max_timestamp": (35, ">q"),
    "producer_id": (43, ">q"),
    "producer_epoch": (51, ">h"),
    "base_sequence": (53, ">i"),
    "record_count": (57, ">i"),
}


@given(st.binary(min_size=61, max_size=61), st.integers(0, 3))
def test_every_field(data: bytes, position: int) -> None:
    header = parse_header(bytes(position) + data, position)
    column = np.frombuffer(data, header_dtype())
    for name, (start, code) in LAYOUT.items():
        expected = struct.unpack_from(code, data, start)[0]
        assert getattr(header, name) == int(column[name][0]) == expected, name


def test_sizes() -> None:
    assert HEADER_SIZE == header_dtype().itemsize == 61
    assert set(header_dtype().names or ()) == set(BatchHeader._fields) == set(LAYOUT)


def test_header_needs_61_bytes() -> None:
    with pytest.raises(struct.error):
        parse_header(bytes(60))
    with pytest.raises(struct.error):
        parse_header(bytes(100), 40)


@given(st.integers(0, 0xFFFF))
def test_attributes(attributes: int) -> None:
    header = parse_header(v2_batch(attributes=attributes, base_timestamp=77))
    assert header.codec == attributes & 7
    assert header.is_log_append_time == bool(attributes & LOG_APPEND_TIME)
    assert header.is_transactional == bool(attributes & TRANSACTIONAL)
    assert header.is_control == bool(attributes & CONTROL)
    assert header.delete_horizon_ms == (77 if attributes & DELETE_HORIZON else None)


def test_size() -> None:
    batch = v2_batch(body=b"12345")
    assert parse_header(batch).size == len(batch) == 66


@dataclass
class Int:
    """Java's fixed-width integers, by reducing after every step."""

    bits: int

    def __call__(self, value: int) -> int:
        value &= (1 << self.bits) - 1
        return value - (1 << self.bits) if value >> self.bits - 1 else value


@given(st.integers(-(2**70), 2**70))
def test_wrapping(value: int) -> None:
    assert wrap_int32(value) == Int(32)(value)
    assert wrap_int64(value) == Int(64)(value)


@given(INT64, INT32)
def test_last_offset_wraps(base_offset: int, delta: int) -> None:
    header = parse_header(v2_batch(base_offset=base_offset, last_offset_delta=delta))
    assert header.last_offset == Int(64)(base_offset + delta)


@given(st.integers(0, 2**31 - 1), st.integers(0, 2**31 - 1))
def test_sequences_start_again_at_0(sequence: int, increment: int) -> None:
    assert increment_sequence(sequence, increment) == (sequence + increment) % 2**31


@given(INT32, INT32)
def test_sequences_of_damaged_headers(sequence: int, increment: int) -> None:
    # DefaultRecordBatch.incrementSequence, every operation on 32-bit integers.
    java = Int(32)
    most = 2**31 - 1
    wrapped = sequence > java(most - increment)
    expected = java(java(increment - java(most - sequence)) - 1) if wrapped else java(sequence + increment)
    assert increment_sequence(sequence, increment) == expected


@pytest.mark.parametrize(
    ("base", "delta", "last"), [(-1, 9, -1), (0, 9, 9), (2**31 - 1, 0, 2**31 - 1), (2**31 - 1, 1, 0)]
)
def test_last_sequence(base: int, delta: int, last: int) -> None:
    assert parse_header(v2_batch(base_sequence=base, last_offset_delta=delta)).last_sequence == last
