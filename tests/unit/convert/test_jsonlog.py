"""JSON lines out and in again: the same log; and lines written by hand."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.codes import Codes
from kdump.convert import jsonlog
from kdump.convert.conversion import Conversion
from kdump.convert.export import ExportJob, export_segment
from kdump.format.batch import MAX_INT32, parse_header
from kdump.format.record import HEADER_COST
from kdump.system.files import publish
from tests.harness import ROOT
from tests.harness.batches import (
    CODECS,
    CONTROL,
    LOG_APPEND_TIME,
    NONE,
    NOW,
    TRANSACTIONAL,
    entries,
    message,
    v2_batch,
    wrapper,
)
from tests.harness.conversions import convert, converted, records
from tests.harness.examples import examples
from tests.harness.fast_reference import Row

CONTENT = st.none() | st.binary(max_size=20) | st.text(max_size=10).map(str.encode)
NAMES = st.text(max_size=5).map(str.encode)
HEADERS = st.lists(st.tuples(NAMES, CONTENT), max_size=3)


@st.composite
def batches(draw: st.DrawFn, offset: int) -> bytes:
    """A batch, message or wrapper that is written when ``offset`` is the next one."""
    magic = draw(st.sampled_from([0, 1, 2, 2]))
    deltas = draw(st.lists(st.integers(1, 3), min_size=1, max_size=4))
    places = [sum(deltas[:number]) for number in range(len(deltas))]
    codec = draw(st.sampled_from([NONE, *CODECS]))
    is_log_append_time = magic > 0 and draw(st.booleans())
    attributes = LOG_APPEND_TIME if is_log_append_time else 0
    if magic == 2:
        # Compaction leaves the base offset where it was.
        lead = draw(st.sampled_from([0, 0, 2]))
        rows = [
            Row(
                0 if is_log_append_time else draw(st.integers(-5, 300)),
                lead + place,
                draw(CONTENT),
                draw(CONTENT),
                draw(HEADERS),
            )
            for place in places
        ]
        sequence = draw(st.sampled_from([5, MAX_INT32]))
        producer = draw(st.sampled_from([{}, {"producer_id": 7, "producer_epoch": 0, "base_sequence": sequence}]))
        if producer and draw(st.booleans()):
            attributes |= TRANSACTIONAL
        newest = NOW + max(row.timestamp_delta for row in rows)
        header = {"base_offset": offset, "max_timestamp": newest, "attributes": attributes, **producer}
        # A dump has the base timestamp of no batch: it is the first record's.
        rows = [replace(row, timestamp_delta=row.timestamp_delta - rows[0].timestamp_delta) for row in rows]
        base = NOW if is_log_append_time else newest - max(row.timestamp_delta for row in rows)
        return v2_batch(rows, codec=codec, base_timestamp=base, **header)
    if codec not in CODECS[:3]:
        return message(magic, offset, draw(CONTENT), draw(CONTENT), attributes=attributes)
    base = offset if magic == 0 else 0
    inner = [
        message(magic, base + place, draw(CONTENT), draw(CONTENT), timestamp=NOW, attributes=attributes)
        for place in places
    ]
    return wrapper(magic, offset + places[-1], inner, codec, attributes=attributes)


@st.composite
def logs(draw: st.DrawFn) -> bytes:
    log, offset = b"", draw(st.integers(0, 1000))
    for _ in range(draw(st.integers(1, 5))):
        log += draw(batches(offset))
        offset = records(log, control=True)[-1].offset + draw(st.integers(1, 9))
    return log


def exported(source: Path, target: Path) -> None:
    result = export_segment(ExportJob(str(source), str(target), "jsonl", Conversion()))
    assert result.error is None
    publish(result.staged)


@given(logs())
@examples(150)
def test_out_and_in(tmp_path: Path, log: bytes) -> None:
    source, lines, again = tmp_path / f"{0:020}.log", tmp_path / "rows.jsonl", tmp_path / "again.log"
    source.write_bytes(log)
    exported(source, lines)
    got = converted(lines, again, from_json=True)
    assert records(got, control=True) == records(log, control=True)
    assert [entry[16:17] for entry in entries(got)] == [entry[16:17] for entry in entries(log)]
    for new, old in zip(entries(got), entries(log), strict=True):
        if not (old[22] if old[16] == 2 else old[17]) & 7:
            assert new == old


def test_markers_come_back(captures_partition: Path, tmp_path: Path) -> None:
    exported(captures_partition, tmp_path / "rows.jsonl")
    got = converted(tmp_path / "rows.jsonl", tmp_path / captures_partition.name, from_json=True)
    assert got == captures_partition.read_bytes()
    assert any(entry[22] & CONTROL for entry in entries(got))
    for suffix in ("index", "timeindex", "txnindex"):
        made = (tmp_path / captures_partition.name).with_suffix(f".{suffix}")
        if suffix != "index":
            assert made.read_bytes()


@pytest.mark.parametrize(("key", "value"), [(None, b"v"), (b"\0\0", b"v"), (b"\0\0\0\1", None), (b"\0\0\0\1", b"\0\0")])
def test_control_records_that_kafka_cannot_read_come_back(
    tmp_path: Path, key: bytes | None, value: bytes | None
) -> None:
    log = tmp_path / f"{0:020}.log"
    row = Row(0, 0, key, value, [])
    log.write_bytes(v2_batch([row], attributes=CONTROL | TRANSACTIONAL, producer_id=7, producer_epoch=0))
    exported(log, tmp_path / "rows.jsonl")
    assert converted(tmp_path / "rows.jsonl", tmp_path / "again.log", from_json=True) == log.read_bytes()


@pytest.fixture
def captures_partition() -> Path:
    return ROOT / "fixtures" / "segments" / "v2-txn-0" / f"{0:020}.log"


def lines(folder: Path, *rows: object) -> Path:
    path = folder / "rows.jsonl"
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


def test_by_hand(tmp_path: Path) -> None:
    rows = lines(
        tmp_path,
        {"key": "a", "value": "1"},
        {"key": {"base64": "//8="}},
        "",
        {"offset": 10, "timestamp": NOW, "value": "", "headers": [["h", None], ["é", {"base64": "AA=="}]]},
        {},
    )
    got = records(converted(rows, tmp_path / "out.log", from_json=True))
    assert [(record.offset, record.timestamp, record.key, record.value) for record in got] == [
        (0, -1, b"a", b"1"),
        (1, -1, b"\xff\xff", None),
        (10, NOW, None, b""),
        (11, -1, None, None),
    ]
    assert got[2].headers == ((b"h", None), ("é".encode(), b"\0"))
    (batch,) = entries((tmp_path / "out.log").read_bytes())
    assert parse_header(batch).producer_id == -1


@pytest.mark.parametrize(
    ("named", "base_offset", "sequence"), [(5, 5, MAX_INT32), (3, 3, MAX_INT32 - 2), (9, 7, 1), (1, 7, 1)]
)
def test_base_offset(tmp_path: Path, named: int, base_offset: int, sequence: int) -> None:
    """A batch begins where its lines say, unless that is after its first record or before the end of another batch."""
    batch = {"producerId": 1, "producerEpoch": 0, "batchBaseOffset": named}
    rows = lines(
        tmp_path,
        {"offset": 2, "batchBaseOffset": 2},
        {"offset": 7, "sequence": 1, **batch},
        {"offset": 8, "sequence": 2, "value": "x" * 20_000, **batch},
    )
    got = entries(converted(rows, tmp_path / "out.log", from_json=True))
    headers = list(map(parse_header, got))
    assert [header.last_offset for header in headers] == [2, 8]
    assert headers[1].base_offset == base_offset
    assert headers[1].base_sequence == sequence


def test_wrappers_of_two_segments(tmp_path: Path) -> None:
    """Both are the first of their files."""
    log = {"magic": 1, "compression": "gzip", "position": 0, "batchBaseOffset": None}
    rows = lines(tmp_path, *({**log, "file": name, "offset": at} for at, name in enumerate("aabb")))
    got = entries(converted(rows, tmp_path / "out.log", from_json=True))
    assert [struct.unpack_from(">q", wrapper)[0] for wrapper in got] == [1, 3]


def test_long_lines(tmp_path: Path) -> None:
    """Longer than what is read at a time, and the last one without an end."""
    rows = tmp_path / "rows.jsonl"
    values = ["x" * size for size in (3 << 20, 1, (1 << 20) - 12, 1 << 21)]
    rows.write_text("\n".join(json.dumps({"value": value}) for value in values))
    got = records(converted(rows, tmp_path / "out.log", from_json=True))
    assert [record.value for record in got] == [value.encode() for value in values]


@pytest.mark.slow
def test_a_record_larger_than_a_stream_may_have(tmp_path: Path) -> None:
    """Entries of 16 MiB and more are refused in a stream, as a length there is no evidence; kdump made this one."""
    value = "x" * (17 << 20)
    got = records(converted(lines(tmp_path, {"value": value}), tmp_path / "out.log", from_json=True))
    assert [record.value for record in got] == [value.encode()]


def test_headers_have_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonlog, "_MOST_HEADERS", 3)
    result = convert(lines(tmp_path, {"headers": [["", None]] * 4}), tmp_path / "out.log", from_json=True)
    assert result.error is not None
    assert result.error.message == "line 1: more than 3 headers"


def test_records_of_one_batch_have_a_bound_of_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lines of a batch are in memory together, however large they are."""
    monkeypatch.setattr(jsonlog, "_MOST_BYTES", 1000)
    values = lines(tmp_path, *[{"position": 0, "value": "x" * 300}] * 5)
    out = entries(converted(values, tmp_path / "values.log", from_json=True))
    assert [parse_header(batch).record_count for batch in out] == [3, 2]
    monkeypatch.setattr(jsonlog, "_MOST_BYTES", 3 * 4 * HEADER_COST)
    headers = lines(tmp_path, *[{"position": 0, "headers": [["", None]] * 4}] * 5)
    out = entries(converted(headers, tmp_path / "headers.log", from_json=True))
    assert [parse_header(batch).record_count for batch in out] == [3, 2]


def test_small_batches(tmp_path: Path) -> None:
    """Records of no named batch go together as a producer would send them."""
    rows = lines(tmp_path, *({"value": "x" * 5000} for _ in range(10)))
    got = entries(converted(rows, tmp_path / "out.log", from_json=True))
    assert [parse_header(batch).record_count for batch in got] == [3, 3, 3, 1]


def test_headers_count_in_a_batch(tmp_path: Path) -> None:
    """Records of headers only made one batch of any size."""
    rows = lines(tmp_path, *({"headers": [["h", "x" * 5000]]} for _ in range(10)))
    got = entries(converted(rows, tmp_path / "out.log", from_json=True))
    assert [parse_header(batch).record_count for batch in got] == [3, 3, 3, 1]


@pytest.mark.parametrize("row", [{}, {"position": 0}])
def test_empty_records_do_not_fill_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, row: dict[str, object]
) -> None:
    """They took no bytes of a batch, so all lines of a file were one."""
    monkeypatch.setattr(jsonlog, "_MOST_RECORDS", 10)
    rows = lines(tmp_path, *[row] * 25)
    out = converted(rows, tmp_path / "out.log", from_json=True)
    assert [parse_header(batch).record_count for batch in entries(out)] == [10, 10, 5]
    assert [record.offset for record in records(out)] == list(range(25))


@pytest.mark.parametrize("magic", [0, 1])
def test_by_hand_in_old_formats(tmp_path: Path, magic: int) -> None:
    time = NOW if magic else -1
    rows = lines(tmp_path, {"magic": magic, "value": "a", "timestamp": time}, {"magic": magic, "value": "b"})
    got = converted(rows, tmp_path / "out.log", from_json=True)
    assert [record[:2] for record in records(got)] == [(0, time), (1, -1)]
    assert [entry[16] for entry in entries(got)] == [magic, magic]


def test_findings_of_a_dump_are_passed_over(tmp_path: Path) -> None:
    rows = lines(tmp_path, {"type": "finding", "code": "KD108"}, {"type": "record", "value": "a"})
    assert len(records(converted(rows, tmp_path / "out.log", from_json=True))) == 1


REFUSED = {
    "no JSON": ('{"value": ', "line 2: no JSON: "),
    "nested": ("[" * 100_000, "line 2: no JSON: "),
    "old time": ({"magic": 0, "timestamp": 1}, "line 2: a record of magic 0 has no timestamp"),
    "old producer": ({"magic": 1, "producerId": 7}, "line 2: a record of magic 1 has no producer"),
    "old transaction": ({"magic": 1, "isTransactional": True}, "line 2: a record of magic 1 has no transaction"),
    "outcome": ({"isTransactional": True, "txnState": "ended"}, "line 2: txnState is 'ended', not one of committed, "),
    "no transaction": ({"txnState": "aborted"}, "line 2: txnState is 'aborted', but isTransactional is not true"),
    "no object": ("[]", "line 2: not a JSON object"),
    "batch": ({"type": "batch"}, "line 2: a row of type 'batch', only records can be converted"),
    "offset": ({"offset": "7"}, "line 2: offset is '7', not a number from 0 to 9223372036854775807"),
    "negative": ({"offset": -1}, "line 2: offset is -1, "),
    "boolean": ({"timestamp": True}, "line 2: timestamp is True, "),
    "number": ({"value": 7}, "line 2: the value is neither text nor "),
    "base64": ({"key": {"base64": "!"}}, "line 2: the key is no base64: "),
    "surrogate": ('{"key": "\\ud800"}', "line 2: the key has a lone surrogate, "),
    "header": ({"headers": [["only a key"]]}, "line 2: headers is no array of [key, value] pairs"),
    "headers": ({"headers": {"a": "b"}}, "line 2: headers is no array of [key, value] pairs"),
    "header key": ({"headers": [[None, "a"]]}, "line 2: a header key is null"),
    "magic": ({"magic": 3}, "line 2: magic is 3, not a number from 0 to 2"),
    "codec": ({"compression": "zip"}, "line 2: compression is 'zip', not one of none, gzip, snappy, lz4, zstd"),
    "old codec": (
        {"compression": "zstd", "magic": 1},
        "line 2: compression is 'zstd', not one of none, gzip, snappy, lz4",
    ),
    "old headers": ({"magic": 1, "headers": [["a", "b"]]}, "line 2: a record of magic 1 has no headers"),
    "no contents": ({"keySize": -1, "valueSize": 7}, "line 2: the value is left out "),
    "flag": ({"isControl": 1.5}, "line 2: isControl is 1.5, not true or false"),
    "number as flag": ({"isTransactional": 1}, "line 2: isTransactional is 1, not true or false"),
    "another encoding": ("\0\0x", "line 2: no JSON: Expecting value"),
}


@pytest.mark.parametrize(("row", "said"), REFUSED.values(), ids=REFUSED.keys())
def test_lines_that_are_no_records(tmp_path: Path, row: object, said: str) -> None:
    result = convert(lines(tmp_path, {"value": "a"}, row), tmp_path / "out.log", from_json=True)
    assert result.error is not None
    assert result.error.code is Codes.JSON_LINE
    assert result.error.message.startswith(said)
    assert [path.name for path in tmp_path.iterdir()] == ["rows.jsonl"]


def test_there_is_an_offset_that_is_the_last(tmp_path: Path) -> None:
    result = convert(lines(tmp_path, {"offset": (1 << 63) - 1}, {"value": "a"}), tmp_path / "out.log", from_json=True)
    assert result.error is not None
    assert result.error.message.startswith("line 2: offset is 9223372036854775808, ")


def test_offsets_must_rise(tmp_path: Path) -> None:
    result = convert(lines(tmp_path, {"offset": 5}, {"offset": 5}), tmp_path / "out.log", from_json=True)
    assert result.error is not None
    assert result.error.code is Codes.OFFSETS_BACKWARDS
