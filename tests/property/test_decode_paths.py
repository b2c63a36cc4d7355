"""The scalar and the columnar path print the same bytes, reach the same verdict and stop at the same place."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.dump.output import DumpOptions
from kdump.fast import blocks, legacymessages
from kdump.fast import records as fast_records
from kdump.log.files import strip_credentials
from kdump.reading.selection import Range, Selection
from kdump.reading.view import DecodePath, ViewOptions
from kdump.rows.tables import BATCH, RECORD, RECORD_METADATA
from tests.harness.batches import (
    CODECS,
    CONTROL,
    LOG_APPEND_TIME,
    MAX_INT64,
    NONE,
    message,
    plain_rows,
    v2_batch,
    wrapper,
)
from tests.harness.dumpoptions import text_dump
from tests.harness.examples import examples
from tests.harness.fast_reference import INT32, INT64, ROWS, Row
from tests.harness.inprocess import Door, Way, run_in_process
from tests.harness.row_runs import BOTH_PATHS, run_rows

OPTIONS = [
    text_dump(),
    text_dump(deep_iteration=True),
    text_dump(print_data_log=True),
    text_dump(print_data_log=True, skip_record_metadata=True),
    text_dump(deep_iteration=True, skip_record_metadata=True),
    text_dump(deep_iteration=True, max_bytes=300),
]

MARKER = Row(0, 0, b"\0\0\0\1", b"\0\0\0\0\0\5")
ENTRIES = st.one_of(
    st.builds(
        v2_batch,
        ROWS,
        codec=st.sampled_from((NONE, *CODECS)),
        attributes=st.sampled_from((0, LOG_APPEND_TIME, 0x10, 0x20, 0x40, 0x7F80)),
        base_offset=st.integers(0, 50) | INT64,
        base_timestamp=st.integers(0, 10**13) | INT64,
        base_sequence=st.just(-1) | INT32,
        producer_id=INT64,
    ),
    st.builds(v2_batch, st.just([MARKER]), attributes=st.just(CONTROL | 0x10), base_offset=st.integers(0, 50)),
    st.builds(v2_batch, st.just(plain_rows(3)), record_count=st.integers(-1, 5), codec=st.sampled_from((NONE, 1, 4))),
    st.builds(v2_batch, st.just(plain_rows(2)), body=st.binary(max_size=40), codec=st.integers(0, 7)),
    st.builds(message, st.integers(0, 1), st.integers(0, 50), st.none() | st.binary(max_size=9), st.binary(max_size=9)),
    st.builds(
        lambda codec: wrapper(1, 4, [message(1, 0, b"k", b"v"), message(1, 1, None, b"w")], codec), st.integers(1, 3)
    ),
)


def outcome(path: Path, options: DumpOptions, decode_path: DecodePath) -> tuple[bytes, bytes, int]:
    """The text without the line that names the file, what is on stderr, and the exit status."""
    found = run_in_process([strip_credentials(str(path))], options, Way(Door.PATH, decode_path))
    assert found.failure is None
    return found.stdout.partition(b"\n")[2], found.stderr, found.status


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: f"options{OPTIONS.index(options)}")
@given(st.lists(ENTRIES, max_size=12), st.binary(max_size=30), st.none() | st.randoms(use_true_random=False))
@examples(60)
def test_paths_agree(
    tmp_path: Path, options: DumpOptions, entries: list[bytes], tail: bytes, damage: Random | None
) -> None:
    data = bytearray(b"".join(entries) + tail)
    if damage and data:
        data[damage.randrange(len(data))] ^= 1 << damage.randrange(8)
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(data)
    assert outcome(path, options, DecodePath.SCALAR) == outcome(path, options, DecodePath.COLUMNAR)


@given(st.lists(ENTRIES, max_size=8), st.none() | st.randoms(use_true_random=False), st.booleans(), st.data())
@examples(160)
def test_rows_agree(
    tmp_path: Path, entries: list[bytes], damage: Random | None, resync: bool, draw: st.DataObject
) -> None:
    """Messages of magic 0 and 1 fill columns as batches do, with what is wrong with them."""
    data = bytearray(b"".join(entries))
    if damage and data:
        data[damage.randrange(len(data))] ^= 1 << damage.randrange(8)
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(data)
    table = draw.draw(st.sampled_from((RECORD, RECORD_METADATA, BATCH)))
    fields = draw.draw(st.none() | st.lists(st.sampled_from(table.names), min_size=1, max_size=6).map(tuple))
    options: Any = {
        "syntax": draw.draw(st.sampled_from(("jsonl", "csv"))),
        "fields": fields,
        "view": ViewOptions(resync=resync),
    }
    alone, many = (run_rows([path], table, path=decode_path, **options) for decode_path in BOTH_PATHS)
    assert alone == many


@given(
    st.lists(ENTRIES, max_size=6),
    st.none() | st.randoms(use_true_random=False),
    st.sampled_from(OPTIONS[1:4]),
    st.tuples(st.integers(1, 4), st.integers(1, 300)),
)
@examples(80)
def test_large_entries_come_in_parts(
    tmp_path: Path, entries: list[bytes], damage: Random | None, options: DumpOptions, most: tuple[int, int]
) -> None:
    """Batches in slices of so many rows or bytes, wrappers in parts of so many bytes, and none of more than 100."""
    rows, size = most
    data = bytearray(b"".join(entries))
    if damage and data:
        data[damage.randrange(len(data))] ^= 1 << damage.randrange(8)
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "_LARGEST_BODY", 10)
        patch.setattr(fast_records, "_SLICE_ROWS", rows)
        patch.setattr(fast_records, "_SLICE_BYTES", size)
        patch.setattr(legacymessages, "_ARENA_SIZE", size)
        patch.setattr(legacymessages, "_LARGEST_CONTENT", 100)
        assert outcome(path, options, DecodePath.SCALAR) == outcome(path, options, DecodePath.COLUMNAR)
        alone, many = (run_rows([path], path=decode_path) for decode_path in BOTH_PATHS)
        assert alone == many
        selection = Selection(offsets=Range(2, 30))
        alone, many = (run_rows([path], selection=selection, take=3, path=decode_path) for decode_path in BOTH_PATHS)
        assert alone == many


@pytest.mark.parametrize("lines", ["batches", "records"])
@pytest.mark.slow
def test_a_big_log_takes_the_columnar_path_by_itself(tmp_path: Path, lines: str) -> None:
    path = tmp_path / "00000000000000000000.log"
    per_batch = 1 if lines == "batches" else 500
    path.write_bytes(
        b"".join(v2_batch(plain_rows(per_batch, 1), base_offset=n * per_batch) for n in range(70_000 // per_batch))
    )
    options = text_dump(deep_iteration=lines == "records")
    expected = outcome(path, options, DecodePath.SCALAR)
    assert outcome(path, options, DecodePath.AUTO) == expected
    # The same through a pipe, whose size nobody knows.
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.close(reader)
        with open(writer, "wb") as out:
            out.write(path.read_bytes())
        os._exit(0)
    os.close(writer)
    assert outcome(Path(f"/dev/fd/{reader}"), options, DecodePath.AUTO)[0] == expected[0]
    os.close(reader)
    os.wait()


def test_offsets_at_the_end_of_their_range(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    path.write_bytes(v2_batch(plain_rows(3), base_offset=MAX_INT64 - 1, base_timestamp=MAX_INT64))
    options = text_dump(deep_iteration=True)
    text, *_ = scalar = outcome(path, options, DecodePath.SCALAR)
    assert scalar == outcome(path, options, DecodePath.COLUMNAR)
    assert b"offset: -9223372036854775808 CreateTime: -9223372036854775807 " in text
