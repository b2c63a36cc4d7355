"""The questions that are folds: message formats, codecs."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.fast import blocks
from kdump.format import record as format_record
from kdump.log.opening import open_source
from kdump.stats.whatif.answer import Answer
from kdump.stats.whatif.codec import CodecQuestion, Sample
from kdump.stats.whatif.magic import MagicQuestion
from kdump.verify.validentries import EntryReader
from kdump.wire.compression import DEFAULT_LIMIT
from tests.harness.batches import (
    CODECS,
    CONTROL,
    GZIP,
    LOG_APPEND_TIME,
    LZ4,
    NONE,
    SNAPPY,
    ZSTD,
    message,
    plain_rows,
    v2_batch,
    wrapper,
)
from tests.harness.conversions import converted
from tests.harness.fast_reference import Row, encode

HEADER = 61
TEN_VALUES = [Row(0, number, None, b"value%d" % number) for number in range(10)]


def asked(question: Any, directory: Path, data: bytes) -> Answer:
    """The answer about one log; the whole log is read."""
    path = directory / f"{0:020}.log"
    path.write_bytes(data)
    with open_source(str(path)) as source:
        reader = EntryReader(source, DEFAULT_LIMIT)
        for entries in reader.entries():
            question.update(entries)
        assert not reader.findings
    answer: Answer = question.answer()
    return answer


def sizes(answer: Answer, key: str) -> dict[Any, Any]:
    return {row[key]: row["bytes"] for row in answer.rows}


# --- Entries that are read in pieces ---

PIECE = 4


@pytest.mark.parametrize("codec", [NONE, GZIP])
@pytest.mark.parametrize("magic", [1, 2])
@pytest.mark.parametrize("question", [MagicQuestion, CodecQuestion])
def test_an_entry_that_is_read_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, question: Any, magic: int, codec: int
) -> None:
    if magic == 2:
        log = v2_batch(plain_rows(50), codec=codec)
    else:
        log = wrapper(1, 49, [message(1, number, b"key", b"value%d" % number) for number in range(50)])
    whole = asked(question(), tmp_path, log)
    monkeypatch.setattr(format_record, "PIECE_RECORDS", PIECE)
    monkeypatch.setattr(blocks, "_LARGEST_BODY", 100)
    in_pieces = asked(question(), tmp_path, log)
    assert [row.get("records") for row in in_pieces.rows] == [row.get("records") for row in whole.rows]
    assert [row["bytesNow"] for row in in_pieces.rows] == [row["bytesNow"] for row in whole.rows]
    for one, other in zip(in_pieces.rows, whole.rows, strict=True):
        if codec == NONE and magic == 2 and question is not CodecQuestion:
            assert one == other
        assert one["bytes"] <= other["bytes"] + (50 // PIECE + 1) * 100


# --- Formats ---


@pytest.mark.parametrize(
    "log",
    [
        v2_batch(TEN_VALUES),
        b"".join(message(0, number, None, b"value%d" % number) for number in range(10)),
        b"".join(message(1, number, None, b"value%d" % number) for number in range(10)),
    ],
    ids=["magic-2", "magic-0", "magic-1"],
)
def test_ten_values(tmp_path: Path, log: bytes) -> None:
    answer = asked(MagicQuestion(), tmp_path, log)
    assert sizes(answer, "magic") == {0: 320, 1: 400, 2: 191}
    assert {row["records"] for row in answer.rows} == {10}
    assert {row["bytesNow"] for row in answer.rows} == {len(log)}


@pytest.mark.parametrize("seed", range(8))
def test_formats_are_as_large_as_convert_makes_them(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    parts, offset = [], 0
    for _ in range(12):
        rows = [
            Row(random.randrange(1000), delta, random.choice((None, b"k")), random.randbytes(random.randrange(90)))
            for delta in range(random.randrange(1, 9))
        ]
        codec = random.choice((NONE, NONE, GZIP, SNAPPY, LZ4))
        inner = [message(seed % 2, offset + row.offset_delta, row.key, row.value) for row in rows]
        if seed < 4:
            attributes = random.choice((0, LOG_APPEND_TIME))
            parts.append(v2_batch(rows, base_offset=offset, codec=codec, attributes=attributes))
        elif codec == NONE:
            parts += inner
        else:
            inner = [message(1, delta, row.key, row.value) for delta, row in enumerate(rows)] if seed % 2 else inner
            parts.append(wrapper(seed % 2, offset + len(rows) - 1, inner, codec))
        offset += len(rows)
    answer = asked(MagicQuestion(), tmp_path, b"".join(parts))
    source = tmp_path / f"{0:020}.log"
    for magic, size in sizes(answer, "magic").items():
        if seed >= 4 and magic > seed % 2 and magic < 2:
            # Kafka, and so convert, never makes messages newer; only their sizes are told.
            continue
        assert size == len(converted(source, tmp_path / "out.log", to_magic=magic)), magic


def test_older_formats_have_no_markers_and_no_zstd(tmp_path: Path) -> None:
    marker = v2_batch([Row(0, 0, bytes(4), bytes(6))], base_offset=3, attributes=CONTROL, producer_id=1)
    log = v2_batch(plain_rows(3), codec=ZSTD) + marker
    answer = asked(MagicQuestion(), tmp_path, log)
    assert [row["records"] for row in answer.rows] == [3, 3, 4]
    assert sizes(answer, "magic")[2] == len(log)
    gzipped = asked(MagicQuestion(), tmp_path, v2_batch(plain_rows(3), codec=GZIP))
    assert sizes(answer, "magic")[0] == sizes(gzipped, "magic")[0]
    assert "zstd" in answer.words[-1]
    assert not any("zstd" in words for words in gzipped.words)


# --- Codecs ---


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.slow
def test_codecs_of_a_log_that_the_sample_holds(tmp_path: Path, codec: int) -> None:
    rows = plain_rows(50, size=200)
    plain = HEADER + len(b"".join(map(encode, rows)))
    log = v2_batch(rows, codec=codec) + v2_batch(rows, codec=codec, base_offset=50)
    answer = asked(CodecQuestion(), tmp_path, log)
    found = {(row["codec"], row["level"]): row for row in answer.rows}
    assert found["none", None]["bytes"] == 2 * plain
    own = found[{GZIP: ("gzip", 6), SNAPPY: ("snappy", None), LZ4: ("lz4", 9), ZSTD: ("zstd", 3)}[codec]]
    # The frames of this test's writers are not quite Kafka's.
    assert own["bytes"] == pytest.approx(len(log), rel=0.05)
    assert own["isDefault"]
    assert {row["sampledBatches"] for row in answer.rows} == {2}
    assert {level for name, level in found if name == "gzip"} == set(range(1, 10))
    assert {level for name, level in found if name == "lz4"} == set(range(1, 18))
    assert {level for name, level in found if name == "zstd"} >= set(range(1, 23))
    assert all(row["compressMBps"] > 0 for row in answer.rows if row["codec"] != "none")
    smallest = min(answer.rows, key=lambda row: row["bytes"])
    assert answer.words[1].startswith(f"The smallest: {smallest['codec']} level {smallest['level']}, ")


def test_codecs_of_a_large_batch_look_at_its_first_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kdump.stats.whatif.codec.MOST_OF_A_BATCH", 4000)
    rows = [Row(0, 0, None, bytes(3000)), Row(0, 1, None, Random(1).randbytes(30000))]
    answer = asked(CodecQuestion(), tmp_path, v2_batch(rows))
    found = {(row["codec"], row["level"]): row for row in answer.rows}
    assert {row["sampledBytes"] for row in answer.rows} == {4000}
    assert found["none", None]["bytes"] == len(v2_batch(rows))
    # Three of the first four kilobytes are zeros.
    assert found["gzip", 6]["bytes"] < len(v2_batch(rows)) / 3


def test_codecs_of_markers_only(tmp_path: Path) -> None:
    marker = v2_batch([Row(0, 0, bytes(4), bytes(6))], attributes=CONTROL, producer_id=1)
    answer = asked(CodecQuestion(), tmp_path, marker)
    assert answer.rows == []
    assert answer.words == ["There is no record to compress."]


@pytest.mark.slow
def test_legacy_messages_are_batched_before(tmp_path: Path) -> None:
    log = b"".join(message(1, number, None, b"value%d" % number) for number in range(10))
    answer = asked(CodecQuestion(), tmp_path, log)
    assert answer.rows[0]["bytes"] == 191


@given(st.lists(st.integers(0, 400), max_size=60), st.integers(1, 2000), st.integers(0, 99))
def test_sample(lengths: list[int], limit: int, seed: int) -> None:
    pieces = [bytes([number % 256]) * length for number, length in enumerate(lengths)]

    def sample(cut: int) -> list[bytes]:
        found = Sample(limit, seed)
        for part in (pieces[:cut], pieces[cut:]):
            found.offer(len(part), part.__getitem__)
        return found.pieces()

    chosen = sample(0)
    assert all(sample(cut) == chosen for cut in range(0, len(pieces), 7))
    remaining = iter(pieces)
    assert all(piece in remaining for piece in chosen), "in their order"
    size = sum(map(len, chosen))
    assert size < limit + max(lengths, default=0)
    assert len(chosen) == len(pieces) if sum(lengths) < limit else size >= limit


def test_sample_is_not_the_beginning() -> None:
    pieces = [bytes(10)] * 1000
    chosen = Sample(100, 3)
    seen = []
    chosen.offer(1000, lambda number: seen.append(number) or pieces[number])
    assert max(seen) > 100


# --- Batch sizes ---
