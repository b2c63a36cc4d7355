"""Keys and values in the wire formats of a schema registry."""

from __future__ import annotations

import struct
import sys
import uuid
from typing import Any

import pytest

from kdump.payloads.decoded import RecordPart
from kdump.schemas.decoder import NotFramedError, SchemaDecoder, parse_frame
from kdump.schemas.registry import Registry
from tests.harness.schemas import registry, schema_key, schema_value, schemas

LONG, TEXT = '"long"', '"string"'
PROTO = 'syntax = "proto3"; message A { message B { int32 n = 1; } } message C { string s = 1; }'


def value_decoder(found: Registry, topic: str | None = "t", *, is_asked: bool = True) -> SchemaDecoder:
    return SchemaDecoder(RecordPart.VALUE, topic, found, is_asked=is_asked)


def prefix(number: int) -> bytes:
    return struct.pack(">bi", 0, number)


def guid_of(found: Registry, number: int = 1) -> bytes:
    return b"\1" + uuid.UUID(next(found.of_id(".", number)).guid).bytes


def header(value: bytes | None, name: bytes = b"__value_schema_id") -> tuple[bytes, bytes | None]:
    return name, value


def test_frames() -> None:
    assert parse_frame(prefix(-2) + b"x") == (-2, None, 5)
    assert parse_frame(b"\1" + bytes(15) + b"\7") == (None, "00000000-0000-0000-0000-000000000007", 17)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "is empty"),
        (b"\0\0\0\0", "it has 4 bytes, a prefix with an id has 5"),
        (b"\1" + bytes(15), "it has 16 bytes, a prefix with a GUID has 17"),
        (b"\3\0" + bytes(16), "AWS Glue"),
        (b"{}", "it begins with 0x7b"),
    ],
)
def test_what_is_no_frame(data: bytes, reason: str) -> None:
    with pytest.raises(NotFramedError, match=reason):
        parse_frame(data)
    assert value_decoder(schemas(a=LONG), is_asked=False)(data) is data
    with pytest.raises(ValueError, match=reason):
        value_decoder(schemas(a=LONG))(data)


def test_the_wires() -> None:
    found = schemas(a=LONG, b=TEXT)
    decode = value_decoder(found)
    head = {
        "id": 1,
        "guid": next(found.of_id(".", 1)).guid,
        "type": "AVRO",
        "subjects": [{"subject": "a", "version": 1}],
    }
    assert decode(prefix(1) + b"\4") == {"schema": head, "data": 2}
    assert decode(guid_of(found) + b"\4") == {"schema": head, "data": 2}
    assert decode(b"\4", [header(guid_of(found))]) == {"schema": head, "data": 2}
    assert decode(b"\4", [header(prefix(1))]) == {"schema": head, "data": 2}
    # A header is before a prefix, the last one of a name counts, and neither null nor another name does.
    assert decode(prefix(1), [header(prefix(2))])["data"] == ""
    assert decode(b"\4", [header(prefix(2)), header(prefix(1))])["data"] == 2
    assert decode(prefix(1) + b"\4", [header(None), header(prefix(2), b"__key_schema_id")])["data"] == 2
    key = SchemaDecoder(RecordPart.KEY, "t", found)
    assert key(b"\4", [header(prefix(1), b"__key_schema_id")])["data"] == 2


@pytest.mark.parametrize("bad", [b"", b"\1\2", b"\7"])
def test_a_bad_header_is_said(bad: bytes) -> None:
    for is_asked in (True, False):
        with pytest.raises(ValueError, match="its header __value_schema_id: it"):
            value_decoder(schemas(a=LONG), is_asked=is_asked)(prefix(1) + b"\4", [header(bad)])


def test_ids_that_nobody_has() -> None:
    found = schemas(a=LONG)
    with pytest.raises(ValueError, match=r"^the id 2 is not in the registry$"):
        value_decoder(found)(prefix(2))
    with pytest.raises(ValueError, match=r"^the GUID 00000000-.* is not in the registry$"):
        value_decoder(found)(b"\1" + bytes(16))
    # A number of eight bytes is no value of a registry, unless the registry has a subject of the topic.
    number = struct.pack(">q", 7)
    assert value_decoder(found, is_asked=False)(number) is number
    with pytest.raises(ValueError, match="the id 0 is not in the registry"):
        value_decoder(registry((schema_key("t-value", 1), schema_value("t-value", 1, 1, LONG))), is_asked=False)(number)


def test_contexts() -> None:
    found = registry(
        (schema_key("a", 1), schema_value("a", 1, 1, LONG)),
        (schema_key(":.eu:t-value", 1), schema_value(":.eu:t-value", 1, 1, TEXT)),
        (schema_key(":.eu:t-value", 2), schema_value(":.eu:t-value", 2, 2, TEXT + " ")),
        (schema_key(":.us:x", 1), schema_value(":.us:x", 1, 3, '"int"')),
    )
    own, other = value_decoder(found), value_decoder(found, "u")
    # The default context is what a client asks, but the topic's own subject is elsewhere.
    shown = own(prefix(1) + b"\4")
    assert (shown["data"], shown["schema"]["doubt"]) == (2, "in another context the id 1 is :.eu:t-value 1")
    assert "doubt" not in other(prefix(1) + b"\4")["schema"]
    with pytest.raises(ValueError, match=r"it ends early \(schema 1; in another context the id 1 is :.eu:t-value 1\)"):
        other(prefix(1))
    assert own(prefix(2) + b"\2x")["schema"]["subjects"] == [{"subject": ":.eu:t-value", "version": 2}]
    with pytest.raises(ValueError, match=r"the id 2 is not in the registry; it is in the contexts .eu$"):
        other(prefix(2))
    # A GUID is searched in all contexts.
    guid = b"\1" + uuid.UUID(next(found.of_id(".us", 3)).guid).bytes
    assert own(guid + b"\4")["data"] == 2


def test_message_indexes() -> None:
    found = registry((schema_key("p", 1), schema_value("p", 1, 1, PROTO, schemaType="PROTOBUF")))
    decode = value_decoder(found)
    assert decode(prefix(1) + b"\0")["data"] == decode(prefix(1) + b"\2\0")["data"] == {}
    assert decode(prefix(1) + b"\2\2" + b"\x0a\1x")["data"] == {"s": "x"}
    assert decode(prefix(1) + b"\4\0\0" + b"\x08\7")["data"] == {"n": 7}
    assert decode(b"\x08\7", [header(guid_of(found) + b"\4\0\0")])["data"] == {"n": 7}
    for index, reason in [
        (b"", "its message index cannot be read: a variable-length integer is cut short"),
        (b"\1", "its message index has -1 numbers"),
        (b"\xff\xff\xff\xff\x0f", "its message index has -2147483648 numbers"),
        (b"\xff" * 11, "its message index cannot be read: a variable-length integer is longer than 5 bytes"),
        (b"\2\4", r"the schema has no message \[2\]"),
        (b"\2\1", r"the schema has no message \[-1\]"),
    ]:
        with pytest.raises(ValueError, match=reason):
            decode(prefix(1) + index)


@pytest.mark.parametrize(
    ("data", "expected"),
    [(b'{"a":[1,null,"x"]}', {"a": [1, None, "x"]}), (b"1e400", {"$float": "Infinity"}), (b'{"a":1,"a":2}', {"a": 2})],
)
def test_json(data: bytes, expected: Any) -> None:
    found = schemas(a=schema_value("a", 1, 1, "{}", schemaType="JSON"))
    assert value_decoder(found)(prefix(1) + data)["data"] == expected


@pytest.mark.parametrize(
    "data", [b"", b"{", b"NaN", b"[" * 100_000, b"[" * 200 + b"]" * 200, b"\xff", b"[0" + b",0" * 10**6]
)
def test_what_is_no_json(data: bytes) -> None:
    found = schemas(a=schema_value("a", 1, 1, "{}", schemaType="JSON"))
    if data.startswith(b"[0"):
        assert len(value_decoder(found)(prefix(1) + data + b"]")["data"]) == 10**6 + 1
    with pytest.raises(ValueError, match=r"\(schema 1\)$"):
        value_decoder(found)(prefix(1) + data)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (schema_value("a", 1, 1, "no JSON"), "its schema 1 cannot be used: "),
        (schema_value("a", 1, 1, '"nothing"'), "its schema 1 cannot be used: UnknownType: nothing"),
        (schema_value("a", 1, 1, '{"type":"record","name":"R"}'), "cannot be used: KeyError: 'fields'"),
        (schema_value("a", 1, 1, "x", schemaType="THRIFT"), "schemas of the type THRIFT are unknown"),
        (schema_value("a", 1, 1, "message", schemaType="PROTOBUF"), "line 1 of schema 1: a word was expected"),
        (
            schema_value("a", 1, 1, '"B"', references=[{"name": "B", "subject": "b", "version": 3}]),
            "its schema 1 cannot be used: b version 3 is not in the registry",
        ),
    ],
)
def test_faults_of_schemas(value: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        value_decoder(registry((schema_key("a", 1), value)))(prefix(1))


def test_references_that_go_round_are_read_once() -> None:
    refers = {"a": "b", "b": "a"}
    pairs = [
        (schema_key(one, 1), schema_value(one, 1, number, LONG, references=[{"name": to, "subject": to, "version": 1}]))
        for number, (one, to) in enumerate(refers.items(), 1)
    ]
    assert value_decoder(registry(*pairs))(prefix(1) + b"\4")["data"] == 2


def test_a_branch_and_a_symbol_that_are_not_there_are_said() -> None:
    found = schemas(a='["null", "long"]', b='{"type": "enum", "name": "E", "symbols": ["A"]}')
    for number in (1, 2):
        with pytest.raises(ValueError, match=rf"that the schema does not have \(schema {number}\)"):
            value_decoder(found)(prefix(number) + b"\x08")


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastavro", None)
    with pytest.raises(ValueError, match="its schema needs fastavro: pip install fastavro"):
        value_decoder(schemas(a=LONG))(prefix(1) + b"\4")


def test_a_schema_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from kdump.schemas import avro

    made = []
    whole = avro.avro_decoder
    monkeypatch.setattr(avro, "avro_decoder", lambda *given: made.append(given) or whole(*given))
    found = schemas(a=LONG)
    for topic in ("t", "t", "u"):
        decode = value_decoder(found, topic)
        assert [decode(prefix(1) + bytes([2 * number]))["data"] for number in range(9)] == list(range(9))
    assert len(made) == 1
