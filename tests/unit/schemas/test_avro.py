"""Avro: conventions of values, and schemas and values that are made to hurt."""

from __future__ import annotations

import json
from io import BytesIO
from typing import Any

import pytest

fastavro = pytest.importorskip("fastavro")

from kdump.schemas.avro import avro_decoder  # noqa: E402


def decoded(schema: Any, data: bytes, **references: Any) -> Any:
    return avro_decoder(json.dumps(schema), {name: json.dumps(one) for name, one in references.items()})(data)


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


def long(number: int) -> bytes:
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema("long"), number)
    return out.getvalue()


@pytest.mark.parametrize(
    ("schema", "data", "expected"),
    [
        ("bytes", b"\4ab", {"$bytes": "046162"}),
        (["null", "bytes"], b"\2\4ab", {"$bytes": "6162"}),
        ({"type": "fixed", "name": "F", "size": 2}, b"ab", {"$bytes": "6162"}),
        (logical("bytes", "decimal", precision=4, scale=2), b"\2\xff", {"$decimal": "-0.01"}),
        (logical("bytes", "decimal", precision=4), b"\2\x0c", {"$decimal": "12"}),
        (["null", logical("bytes", "decimal", precision=1, scale=10**9)], b"\2\2\x0c", {"$bytes": "0c"}),
        (["null", logical("bytes", "decimal", scale=2)], b"\2\2\x0c", {"$bytes": "0c"}),
        (["null", logical("bytes", "unknown")], b"\2\2\x0c", {"$bytes": "0c"}),
        (logical("bytes", "unknown"), b"\2\x0c", {"$bytes": "020c"}),
        (logical("string", "uuid"), b"\2x", "x"),
        (logical("int", "date"), long(-1), {"$date": "1969-12-31"}),
        (logical("int", "date"), long(2**31 - 1), 2**31 - 1),
        (logical("int", "time-millis"), long(1), {"$time": "00:00:00.001000"}),
        (logical("int", "time-millis"), long(86_400_000), 86_400_000),
        (logical("long", "time-micros"), long(-1), -1),
        (logical("long", "timestamp-millis"), long(0), {"$timestamp": "1970-01-01T00:00:00.000000+00:00"}),
        (logical("long", "timestamp-millis"), long(2**63 - 1), 2**63 - 1),
        (logical("long", "local-timestamp-micros"), long(1), {"$local_timestamp": "1970-01-01T00:00:00.000001"}),
        (logical("long", "timestamp-nanos"), long(1), 1),
        (logical("string", "timestamp-millis"), b"\2x", "x"),
        ("float", bytes.fromhex("0000807f"), {"$float": "Infinity"}),
        ("double", bytes.fromhex("000000000000f8ff"), {"$float": "NaN"}),
        ("string", b"\2\xff", "\ufffd"),
        ("long", b"\2trailing", 1),
        ({"type": {"type": "map", "values": {"type": "int"}}}, b"\2\2k\4\0", {"k": 2}),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, b"\2", "B"),
    ],
)
def test_values(schema: Any, data: bytes, expected: Any) -> None:
    assert decoded(schema, data) == expected


def test_references() -> None:
    geo = {"type": "record", "name": "Geo", "namespace": "x", "fields": [{"name": "lat", "type": "double"}]}
    home = {"type": "record", "name": "Home", "namespace": "x", "fields": [{"name": "at", "type": "Geo"}]}
    both = {"type": "record", "name": "B", "namespace": "y", "fields": [{"name": "h", "type": "x.Home"}]}
    assert decoded(both, bytes(8), **{"x.Geo": geo, "x.Home": home}) == {"h": {"at": {"lat": 0.0}}}


NODE = {"type": "record", "name": "N", "fields": [{"name": "next", "type": ["null", "N"]}]}
NOTHING = {"type": "record", "name": "R", "fields": [{"name": f"f{number}", "type": "null"} for number in range(100)]}


def chain(names: int, *, width: int) -> dict[str, Any]:
    """Records with ``width`` fields each, of which each holds the next record: width ** names values."""
    schema: Any = "null"
    for number in range(names):
        of: list[dict[str, Any]] = [{"name": "a", "type": schema}]
        of += [{"name": f"b{other}", "type": f"R{number - 1}" if number else "null"} for other in range(width - 1)]
        schema = {"type": "record", "name": f"R{number}", "fields": of}
    assert isinstance(schema, dict)
    return schema


@pytest.mark.parametrize(
    ("schema", "data", "reason"),
    [
        (NODE, b"\2" * 200, "nested more than 100 deep"),
        (NODE, b"\2" * 10**6, "nested more than 100 deep"),
        (NODE, b"\4", "a union has no branch 2"),
        ({"type": "array", "items": "null"}, long(2**62) + b"\0", "2?[0-9]+ bytes become too many values"),
        ({"type": "array", "items": NOTHING}, long(10**6) + b"\0", "bytes become too many values"),
        ({"type": "map", "values": NOTHING}, (long(200) + b"\0" * 200) * 500 + b"\0", "bytes become too many values"),
        ({"type": "array", "items": NODE}, long(2**62) + b"\0" * 10, "20 bytes become too many values"),
        ({"type": "array", "items": NODE}, long(100) + b"\0" * 10, "it ends early"),
        ({"type": "array", "items": NODE}, b"\xff" * 11, "a number has more than 64 bits"),
    ],
)
def test_values_that_are_made_to_hurt(schema: Any, data: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        decoded(schema, data)


@pytest.mark.parametrize("data", [long(2**31), long(-5), long(2**62), b"\x80" * 100, b""])
@pytest.mark.parametrize(
    "schema", [["null", "bytes"], "string", {"type": "array", "items": "string"}, {"type": "map", "values": "long"}]
)
def test_lengths_that_are_not_there(schema: Any, data: bytes) -> None:
    with pytest.raises((EOFError, ValueError, IndexError, OverflowError, MemoryError)):
        decoded(schema, (b"\2" if isinstance(schema, list) else b"") + data)


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (chain(30, width=2), "too large or too deep"),
        (chain(120, width=1), "too large or too deep|nested more than"),
        ([], r"."),
        ({"type": "array"}, "items"),
        ({"type": "fixed", "name": "F", "size": -1}, "it has a type that Avro does not know"),
        ({"type": "record", "name": "R", "fields": [{}]}, "name"),
        (7, r"."),
        ({"type": "record", "name": "R", "fields": 7}, r"."),
        ("Nobody", "Nobody"),
    ],
)
def test_schemas_that_are_made_to_hurt(schema: Any, reason: str) -> None:
    with pytest.raises(Exception, match=reason):
        decoded(schema, b"\0" * 100)


def test_text_that_is_nested_too_deep() -> None:
    with pytest.raises(ValueError, match="nested more than 100 deep"):
        avro_decoder('{"type":"array","items":' * 400 + '"int"' + "}" * 400, {})
    with pytest.raises(ValueError, match=r"nested more than 100 deep|recursion"):
        avro_decoder("[" * 10**6, {})


def test_what_a_byte_may_become() -> None:
    """A record of one byte is the smallest thing of which many are taken; of a large value they are counted."""
    flag = {"type": "array", "items": {"type": "record", "name": "R", "fields": [{"name": "b", "type": "boolean"}]}}
    assert len(decoded(flag, long(10**5) + b"\1" * 10**5 + b"\0")) == 10**5
    with pytest.raises(ValueError, match="2,000,005 bytes become too many values"):
        decoded(flag, long(2 * 10**6) + b"\1" * (2 * 10**6) + b"\0")


def test_a_deep_value_that_is_not_too_deep() -> None:
    value = decoded(NODE, b"\2" * 40 + b"\0")
    for _ in range(40):
        value = value["next"]
    assert value == {"next": None}
    assert len(decoded({"type": "array", "items": NODE}, long(10**5) + b"\0" * 10**5 + b"\0")) == 10**5
