"""``kdump.testing``: segments for tests. Kafka itself reads them in tests/oracle/test_convert.py."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import kdump
from kdump import testing
from tests.harness.cli_runs import kdump as command

LOG = f"{0:020}.log"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@pytest.mark.parametrize("magic", [0, 1, 2])
@pytest.mark.parametrize("codec", CODECS)
def test_what_is_written_is_read(tmp_path: Path, magic: int, codec: str) -> None:
    pairs = [(f"k{number}".encode(), b"v" * number if number % 7 else None) for number in range(500)]
    if magic < 2 and codec == "zstd":
        with pytest.raises(ValueError, match="compression"):
            testing.write_segment(tmp_path, pairs, magic=magic, codec=codec)
        return
    path = testing.write_segment(tmp_path / "orders-3", pairs, magic=magic, codec=codec, records_per_batch=9)
    assert path == tmp_path / "orders-3" / LOG
    records = list(kdump.scan(path))
    assert [(record.key, record.value) for record in records] == pairs
    assert [record.offset for record in records] == list(range(500))
    assert {(record.magic, record.compression, record.partition) for record in records} == {(magic, codec, 3)}
    batches = list(kdump.scan(path).batches())
    assert len(batches) == (500 if magic < 2 and codec == "none" else 56)
    assert [finding.code for finding in kdump.findings(path.parent) if finding.severity != "info"] == []


def test_a_record_says_more(tmp_path: Path) -> None:
    row: dict[str, Any] = {
        "offset": 7,
        "timestamp": 1_700_000_000_000,
        "key": "k",
        "value": b"\xff",
        "headers": [["a", b"1"]],
    }
    path = testing.write_segment(tmp_path / "t-0", [row, (None, "x")])
    assert path.name == f"{7:020}.log"
    first, second = kdump.scan(path)
    assert (first.offset, first.timestamp, first.key, first.value) == (7, 1_700_000_000_000, b"k", b"\xff")
    assert first.headers == (("a", b"1"),)
    assert (second.offset, second.key, second.value, second.timestamp) == (8, None, b"x", -1)


@pytest.mark.parametrize(("transactional", "state"), [("commit", "committed"), ("abort", "aborted"), (True, "open")])
def test_transactions(tmp_path: Path, transactional: Any, state: str) -> None:
    path = testing.write_segment(tmp_path / "t-0", [("k", "v")] * 3, producer=(9, 1), transactional=transactional)
    records = list(kdump.scan(path))
    assert [(record.sequence, record.txn_state) for record in records[:3]] == [(number, state) for number in range(3)]
    assert [record.control_type for record in records[3:]] == ([] if state == "open" else [transactional.upper()])
    assert (path.with_suffix(".txnindex")).exists() == (state == "aborted")
    committed = [r.offset for r in kdump.scan(path, isolation="read_committed") if not r.is_control]
    assert committed == ([0, 1, 2] if state == "committed" else [])


def test_markers_among_records(tmp_path: Path) -> None:
    rows: list[testing.GivenRecord] = []
    for producer in ((1, 0), (2, 0)):
        rows += [
            {"value": "v", "producerId": producer[0], "producerEpoch": 0, "isTransactional": True, "sequence": 0},
            testing.marker("commit" if producer[0] == 1 else "abort", producer, coordinator_epoch=4),
        ]
    records = list(kdump.scan(testing.write_segment(tmp_path / "t-0", rows)))
    assert [record.txn_state or record.control_type for record in records] == [
        "committed",
        "COMMIT",
        "aborted",
        "ABORT",
    ]
    assert records[1].control == {"coordinatorEpoch": 4}


def test_the_same_bytes_as_the_command(tmp_path: Path) -> None:
    path = testing.write_segment(tmp_path / "a-0" / LOG, [("k", str(number)) for number in range(2000)], codec="lz4")
    lines = command("dump", "--output", "jsonl", "--records", str(path), cwd=tmp_path).stdout
    (tmp_path / "lines.jsonl").write_bytes(lines)
    (tmp_path / "b-0").mkdir()
    run = command("convert", "--from", "jsonl", "lines.jsonl", "-o", f"b-0/{LOG}", cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    for name in os.listdir(path.parent):
        assert (path.parent / name).read_bytes() == (tmp_path / "b-0" / name).read_bytes()


def test_without_indexes(tmp_path: Path) -> None:
    path = testing.write_segment(tmp_path / "t-0", [("k", "v")], index=False)
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.parametrize(
    ("records", "settings", "words"),
    [
        ([("k", "v")], {"codec": "brotli"}, "codec"),
        ([("k", "v")], {"transactional": "commit"}, "producer"),
        ([{"value": "v", "headers": [["a", "b"]]}], {"magic": 1}, "headers"),
        ([{"offset": 5}, {"offset": 4}], {}, "offset"),
        ([("k", 3)], {}, "neither text"),
        ([("k", object())], {}, "neither bytes nor text"),
    ],
)
def test_what_no_segment_can_hold(tmp_path: Path, records: Any, settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        testing.write_segment(tmp_path / "t-0", records, **settings)
    assert list(tmp_path.rglob("*.*")) == []


def test_damage(tmp_path: Path) -> None:
    path = testing.write_segment(tmp_path / "t-0", [("k", "v" * 100)] * 20, records_per_batch=5)
    size = path.stat().st_size
    testing.truncate(path, -3)
    assert path.stat().st_size == size - 3
    assert [finding.name for finding in kdump.findings(path)] == ["truncated"]
    testing.flip_bit(path, 70, 7)
    assert next(iter(kdump.findings(path))).name == "batch-crc"
    testing.flip_bit(path, 70, 7)
    testing.truncate(path, size // 2)
    assert path.stat().st_size == size // 2
    with pytest.raises(ValueError, match="bits 0 to 7"):
        testing.flip_bit(path, 0, 8)
