"""Whatever the bytes, the labelled lines tile the entry, and the verdict is that of the readers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.codes import DamageError
from kdump.explain import explain, is_damage
from kdump.explain.layout import report
from kdump.explain.lines import Space, Tone
from kdump.format.batch import HEADER_SIZE, parse_header
from kdump.format.record import read_records
from tests.harness.batches import CODECS, GZIP, LZ4, NONE, SNAPPY, message, plain_rows, v2_batch, wrapper
from tests.harness.explained import MemorySource, assert_tiles, labelled, lines_of, statements
from tests.harness.fast_reference import ROWS, Row

BEFORE = v2_batch(plain_rows(1))
AFTER = v2_batch(plain_rows(1), base_offset=100)


@given(ROWS, st.sampled_from((NONE, *CODECS)), st.data())
def test_a_good_batch(rows: list[Row], codec: int, data: st.DataObject) -> None:
    batch = v2_batch(rows, codec=codec)
    start, end = len(BEFORE), len(BEFORE) + len(batch)
    target = data.draw(st.integers(start, end - 1))
    lines = lines_of(BEFORE + batch + AFTER, target)
    assert_tiles(lines, start, end)
    assert not any(map(is_damage, lines))
    (hit,) = [line for line in labelled(lines) if line.is_target]
    assert hit.position <= target < hit.end
    if codec != NONE and rows:
        payload = labelled(lines, Space.PAYLOAD)
        assert_tiles(lines, 0, payload[-1].end, Space.PAYLOAD)
        assert payload[-1].end == len(v2_batch(rows)) - HEADER_SIZE


@given(ROWS.filter(bool), st.data())
def test_a_damaged_batch_gets_the_readers_verdict(rows: list[Row], data: st.DataObject) -> None:
    """Behind the header any byte may change; the CRC is made right, so that nothing but the records is wrong."""
    body = bytearray(v2_batch(rows)[HEADER_SIZE:])
    for _ in range(data.draw(st.integers(1, 3))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    count = max(0, len(rows) + data.draw(st.sampled_from((0, 0, 0, 1, -1))))
    batch = v2_batch(rows, body=bytes(body), record_count=count)
    lines = lines_of(batch, data.draw(st.integers(0, len(batch) - 1)))
    assert_tiles(lines, 0, len(batch))
    try:
        list(read_records(parse_header(batch), memoryview(batch)))
        is_good = True
    except DamageError:
        is_good = False
    assert any(map(is_damage, lines)) == (not is_good)


@given(ROWS, st.sampled_from((NONE, *CODECS)), st.data())
def test_flipped_bytes_anywhere(rows: list[Row], codec: int, data: st.DataObject) -> None:
    """No damage stops the explanation, and nothing is labelled twice."""
    log = bytearray(BEFORE + v2_batch(rows, codec=codec) + AFTER)
    for _ in range(data.draw(st.integers(1, 4))):
        log[data.draw(st.integers(0, len(log) - 1))] ^= data.draw(st.integers(1, 255))
    log = log[: data.draw(st.integers(1, len(log)))]
    result = report(explain(MemorySource("0.log", bytes(log)), data.draw(st.integers(0, len(log) + 3))))
    assert result.isprintable() or set(filter(lambda sign: not sign.isprintable(), result)) == {"\n"}


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize(("key", "value"), [(None, None), (b"", b"value" * 30), (b"key", b"")])
def test_a_message(magic: int, key: bytes | None, value: bytes | None) -> None:
    entry = message(magic, 7, key, value)
    lines = lines_of(BEFORE + entry + AFTER, len(BEFORE) + 3)
    assert_tiles(lines, len(BEFORE), len(BEFORE) + len(entry))
    assert not any(map(is_damage, lines))


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4])
def test_a_wrapper(magic: int, codec: int) -> None:
    inner = [message(magic, number, b"key-%d" % number, b"value" * 9) for number in range(30)]
    entry = wrapper(magic, 29, inner, codec)
    lines = lines_of(entry + AFTER)
    assert_tiles(lines, 0, len(entry))
    assert_tiles(lines, 0, len(b"".join(inner)), Space.PAYLOAD)
    assert not any(map(is_damage, lines))


@given(st.sampled_from((0, 1)), st.sampled_from((NONE, GZIP, SNAPPY, LZ4)), st.data())
def test_damaged_messages(magic: int, codec: int, data: st.DataObject) -> None:
    inner = [message(magic, number, b"k", b"value") for number in range(3)]
    entry = bytearray(inner[0] if codec == NONE else wrapper(magic, 2, inner, codec))
    at = data.draw(st.integers(17, len(entry) - 1))
    entry[at] ^= data.draw(st.integers(1, 255))
    lines = lines_of(bytes(entry))
    assert_tiles(lines, 0, len(entry))
    assert any("CRC is wrong" in text for text in statements(lines, Tone.DAMAGE))


@pytest.mark.parametrize("codec", [NONE, *CODECS])
def test_a_cut_batch(codec: int) -> None:
    batch = v2_batch(plain_rows(3), codec=codec)
    for size in range(1, len(batch)):
        lines = lines_of(BEFORE + batch[:size], len(BEFORE))
        assert_tiles(lines, len(BEFORE), len(BEFORE) + size)
        assert any(map(is_damage, lines)), size


def test_many_blocks_are_counted() -> None:
    rows = plain_rows(40, 10_000)
    batch = v2_batch(rows, codec=SNAPPY)
    lines = lines_of(batch)
    assert_tiles(lines, 0, len(batch))
    names = [line.name for line in labelled(lines)]
    assert "blocks 2 to 11" in names
    assert names[-1] == "block[12].data"
