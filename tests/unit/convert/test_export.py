"""Parquet: Spark's Kafka columns, and all that a log holds of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kdump.convert.conversion import Conversion, LossKind
from kdump.convert.export import ExportJob, export_segment
from kdump.reading.selection import Range
from kdump.system.files import publish
from tests.harness.batches import CONTROL, GZIP, LOG_APPEND_TIME, NOW, ZSTD, message, v2_batch, wrapper
from tests.harness.captures import FIXTURES
from tests.harness.conversions import records
from tests.harness.fast_reference import Row

pq = pytest.importorskip("pyarrow.parquet")

SEGMENT = min((FIXTURES / "segments" / "v2-txn-0").glob("*.log"))
LOG = (
    v2_batch([Row(0, 0, b"k", None, [(b"h", b"\xff"), (b"n", None)]), Row(5, 1, b"\0\xff", b"")], codec=ZSTD)
    + v2_batch([Row(0, 0, None, b"late")], base_offset=2, attributes=LOG_APPEND_TIME)
    + v2_batch(
        [Row(0, 0, b"\0\0\0\0", b"\0\0\0\0\0\0")], base_offset=3, attributes=CONTROL, producer_id=1, producer_epoch=0
    )
    + wrapper(1, 5, [message(1, 0, None, b"old"), message(1, 1, b"k", b"v", timestamp=NOW)], GZIP)
    + message(0, 6, b"older", None)
)


def export(source: Path, target: Path, **settings: object) -> tuple[object, int, int]:
    """The table, the number of records written, and of control records left out."""
    conversion = Conversion(**settings)  # type: ignore[arg-type]
    result = export_segment(ExportJob(str(source), str(target), "parquet", conversion))
    assert result.error is None, result.error
    publish(result.staged)
    assert result.records is not None
    return pq.read_table(target.open("rb")), result.records, result.losses[LossKind.CONTROL_RECORDS]


def test_names_that_are_no_utf8(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"t\xff-0")
    folder.mkdir()
    log = folder / f"{0:020}.log"
    log.write_bytes(LOG)
    _, written, _ = export(log, folder / "x.parquet")
    assert written == 6
    assert set(pq.read_table((folder / "x.parquet").open("rb")).column("topic").to_pylist()) == {"t\ufffd"}


def test_schema_and_values(tmp_path: Path) -> None:
    log = tmp_path / "orders-7" / f"{0:020}.log"
    log.parent.mkdir()
    log.write_bytes(LOG)
    table, written, control = export(log, tmp_path / "x.parquet")
    assert [f"{field.name}: {field.type}" for field in table.schema] == [
        "key: binary",
        "value: binary",
        "topic: string",
        "partition: int32",
        "offset: int64",
        "timestamp: timestamp[ms, tz=UTC]",
        "timestampType: int32",
        "headers: list<element: struct<key: string, value: binary>>",
        "txnState: string",
    ]
    assert (written, control) == (6, 1)
    columns = {name: table.column(name).to_pylist() for name in table.column_names}
    assert columns["offset"] == [0, 1, 2, 4, 5, 6]
    assert columns["key"] == [b"k", b"\0\xff", None, None, b"k", b"older"]
    assert columns["value"] == [None, b"", b"late", b"old", b"v", None]
    assert set(columns["topic"]) == {"orders"}
    assert set(columns["partition"]) == {7}
    assert columns["timestampType"] == [0, 0, 1, 0, 0, -1]
    assert [time and round(time.timestamp() * 1000) for time in columns["timestamp"]] == [
        NOW,
        NOW + 5,
        NOW,
        NOW,
        NOW,
        None,
    ]
    assert columns["headers"][0] == [{"key": "h", "value": b"\xff"}, {"key": "n", "value": None}]
    codecs = {
        pq.ParquetFile(tmp_path / "x.parquet").metadata.row_group(0).column(column).compression for column in range(9)
    }
    assert codecs == {"ZSTD"}


@pytest.mark.parametrize("settings", [{}, {"offsets": Range(20, 60)}, {"read_committed": True}])
def test_a_capture(tmp_path: Path, settings: dict[str, object]) -> None:
    table, written, control = export(SEGMENT, tmp_path / "x.parquet", **settings)
    everything = records(SEGMENT.read_bytes())
    offsets = table.column("offset").to_pylist()
    assert written == len(offsets) == table.num_rows
    by_offset = {record.offset: record for record in everything}
    for offset, key, value in zip(
        offsets, table.column("key").to_pylist(), table.column("value").to_pylist(), strict=True
    ):
        assert (key, value) == (by_offset[offset].key, by_offset[offset].value)
    if not settings:
        assert offsets == [record.offset for record in everything]
        assert control > 0
    elif "offsets" in settings:
        assert offsets == [record.offset for record in everything if 20 <= record.offset < 60]
    else:
        assert 0 < written < len(everything)


def test_every_timestamp_fits(tmp_path: Path) -> None:
    log = tmp_path / f"{0:020}.log"
    log.write_bytes(
        v2_batch([Row(0, 0, None, b"a")], base_timestamp=1 << 62, max_timestamp=1 << 62) + message(0, 1, b"k", b"v")
    )
    result = export_segment(ExportJob(str(log), str(tmp_path / "x.parquet"), "parquet", Conversion()))
    assert result.error is None, result.error
    assert result.losses == {}
    publish(result.staged)
    times = pq.read_table(tmp_path / "x.parquet").column("timestamp").cast("int64")
    assert times.to_pylist() == [1 << 62, None]


def test_an_empty_log(tmp_path: Path) -> None:
    log = tmp_path / f"{0:020}.log"
    log.write_bytes(b"")
    table, written, _ = export(log, tmp_path / "x.parquet")
    assert (table.num_rows, written) == (0, 0)
    assert len(table.schema) == 9
