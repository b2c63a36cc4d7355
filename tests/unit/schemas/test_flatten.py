"""Fields of decoded values as columns."""

from __future__ import annotations

import json
import pickle
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

from kdump.inputs import inputs_of  # noqa: E402
from kdump.schemas.flatten import Flattening, Used, flattened_topics, flattening  # noqa: E402
from kdump.schemas.topic import registries_at, schema_places  # noqa: E402
from tests.harness.cli_runs import CLEAN, USAGE, kdump  # noqa: E402
from tests.harness.schemas import answers, schema_cases, schema_value, write_registry  # noqa: E402


def flat(*topics: str) -> tuple[Any, str]:
    """The table of ``dump --flatten``, and the notes."""
    run = kdump("dump", "--output", "parquet", "--flatten", "--schemas", ".", *topics, cwd=schema_cases() / "logdir")
    assert run.returncode == CLEAN
    return parquet.read_table(pa.BufferReader(run.stdout)), run.stderr.decode()


def test_versions_side_by_side() -> None:
    table, notes = flat("orders-0")
    names = [name for name in table.schema.names if name.startswith("value.")]
    assert names == [f"value.{one}" for one in ("order_id", "customer", "amount", "note", "status", "client", "lines")]
    assert table.schema.field("value.amount").type == pa.decimal128(12, 2)
    assert table.schema.field("value.lines").type == pa.list_(pa.struct({"sku": pa.string(), "qty": pa.int32()}))
    assert "kdump: --flatten: the columns value.* are those of 3 schemas\n" in notes
    assert "decodedValue" not in table.schema.names
    expected = [one for one in answers("records.jsonl") if (one["topic"], one["partition"]) == ("orders", 0)]
    rows = {row["offset"]: row for row in table.to_pylist() if not row["isControl"]}
    assert len(expected) == len(rows) > 5
    for one in expected:
        row, value = rows[one["offset"]], one["value"].get("python") or {}
        assert row["valueSchemaId"] == one["value"].get("id")
        assert row["value.order_id"] == value.get("order_id")
        assert row["value.customer"] == value.get("customer")
        assert row["value.amount"] == (Decimal(value["amount"]["$decimal"]) if value else None)
        assert row["value.lines"] == value.get("lines")


def test_all_types_of_avro() -> None:
    table, _ = flat("everything-0")
    types = {field.name.removeprefix("value."): field.type for field in table.schema if "value." in field.name}
    assert {name: str(types[name]) for name in ("b", "i", "l", "f", "d", "by", "s", "en", "fx")} == {
        "b": "bool",
        "i": "int32",
        "l": "int64",
        "f": "float",
        "d": "double",
        "by": "binary",
        "s": "string",
        "en": "string",
        "fx": "binary",
    }
    assert {name: str(types[name]) for name in ("dt", "tm", "tu", "tsm", "tsu", "ltm", "ltu", "un")} == {
        "dt": "date32[day]",
        "tm": "time32[ms]",
        "tu": "time64[us]",
        "tsm": "timestamp[ms, tz=UTC]",
        "tsu": "timestamp[us, tz=UTC]",
        "ltm": "timestamp[ms]",
        "ltu": "timestamp[us]",
        "un": "string",
    }
    row = table.to_pylist()[0]
    assert row["value.decb"] == Decimal("0.001")
    assert row["value.tsu"].isoformat() == "2026-11-28T12:34:56.123456+00:00"
    assert row["value.ltm"].isoformat() == "2026-11-28T12:34:56.789000"
    assert (row["value.dt"].isoformat(), row["value.tu"].isoformat()) == ("2026-11-28", "00:00:00.000001")
    assert (row["value.by"], row["value.uid"]) == (bytes.fromhex("00ff0180"), "12345678-9abc-def0-1234-56789abcdef0")
    assert row["value.mp"] == [("k", [1.0, 2.5]), ("e", [])]
    assert json.loads(table.to_pylist()[1]["value.un"]) == 5


def test_protobuf_and_what_differs() -> None:
    table, notes = flat("invoices-0", "prims-0", "orders-0")
    assert "JSON text, as their types differ: " in notes
    row = next(row for row in table.to_pylist() if row["topic"] == "invoices")
    assert row["value.total"] == {"currency": "EUR", "units": 12, "nanos": -5}
    assert dict(row["value.taxes"])["vat"]["units"] == 1
    assert (row["value.big"], row["value.sig"], row["value.tier"]) == (2**64 - 1, b"\x00\xff\x01", "SILVER")
    assert json.loads(row["value.lines"])[0]["sku"] == "s"
    assert next(row for row in table.to_pylist() if row["topic"] == "prims")["value.data"] == '"h\u00e9llo"'


def test_each_file_of_an_export_has_the_columns_of_its_topic(tmp_path: Path) -> None:
    logdir = schema_cases() / "logdir"
    words = ("--to", "parquet", "--schemas", ".", "--flatten", "-o", str(tmp_path))
    assert kdump("convert", "customers-0", *words, cwd=logdir).returncode == CLEAN
    (file,) = tmp_path.iterdir()
    table = parquet.read_table(file)
    geo = pa.struct({"lat": pa.float64(), "lon": pa.float64()})
    home = table.schema.field("value.home").type
    assert home == pa.struct({"street": pa.string(), "geo": geo})
    assert table.schema.names[-3:] == ["value.work", "value.at", "problem"]


def test_what_it_needs(tmp_path: Path) -> None:
    logdir = schema_cases() / "logdir"
    for words in (
        ("dump", "--flatten", "--output", "jsonl", "--schemas", ".", "orders-0"),
        ("dump", "--flatten", "--output", "arrow", "orders-0"),
        ("convert", "orders-0", "--to", "parquet", "--flatten", "-o", str(tmp_path / "x")),
    ):
        assert kdump(*words, cwd=logdir).returncode == USAGE


def test_it_travels() -> None:
    logdir = str(schema_cases() / "logdir")
    found = flattening(schema_places(logdir), inputs_of([f"{logdir}/orders-0", f"{logdir}/tree-0"], print), print)
    again: Flattening = pickle.loads(pickle.dumps(found))
    given = pa.schema([("offset", pa.int64()), ("decodedValue", pa.string())])
    assert again.schema_of(given) == found.schema_of(given)
    by_topic = dict(flattened_topics(found))
    assert [field.name for field in by_topic["tree"].schema_of(given)] == [
        "offset", "valueSchemaId", "value.name", "value.children", "value.next",
    ]  # fmt: skip
    # A type inside itself is JSON text.
    assert by_topic["tree"].schema_of(given).field("value.next").type == pa.string()


def test_what_does_not_fit_is_null(tmp_path: Path) -> None:
    schema = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "d", "type": {"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 0}},
            {"name": "i", "type": "int"},
            {"name": "t", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        ],
    }
    write_registry(tmp_path / "_schemas-0", a=schema_value("a", 1, 7, schema))
    found = Flattening(schema_places(str(tmp_path)), (_used(tmp_path),))
    values = [
        {"d": {"$decimal": "12"}, "i": 1, "t": {"$timestamp": "1970-01-01T00:00:01.000000+00:00"}},
        {"d": {"$decimal": "1234"}, "i": 2**40, "t": 2**60},
        {"d": 7, "i": "x", "t": None},
    ]
    head = {"id": 7, "guid": found.used[0].guid}
    texts = [json.dumps({"schema": head, "data": value}) for value in values]
    rows = pa.RecordBatch.from_pydict({"decodedValue": pa.array([*texts, None], pa.string())})
    shown = found.of(rows).select(["valueSchemaId", "value.d", "value.i"]).to_pydict()
    assert shown["valueSchemaId"] == [7, 7, 7, None]
    assert shown["value.d"] == [Decimal(12), None, None, None]
    assert shown["value.i"] == [1, None, None, None]
    assert found.of(rows).column("value.t").cast(pa.int64()).to_pylist() == [1000, 2**60, None, None]


def _used(directory: Path) -> Any:
    version = next(registries_at(schema_places(str(directory))).of_topic(None).of_id(".", 7))
    return Used("t", "value", 7, version.guid)
