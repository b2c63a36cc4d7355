"""format.message: the table of Kafka's messages and the reader that it drives."""

from __future__ import annotations

import base64
import contextlib
import json
import math
import struct
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.format.message import MessageError, Schema, read_message, record_schemas, schemas
from kdump.format.messagereader import UNKNOWN_TAGS, Value, unknown_tag_numbers
from kdump.payloads.javadouble import double_string
from kdump.payloads.message_json import json_value, message_json, shown
from kdump.releases import KAFKA_4_3
from kdump.wire.cursor import Cursor
from tests.harness.examples import examples
from tests.harness.messages import UNKNOWN_TAG, expected_members, random_values, unsigned_varint, write_message

EVERY_VERSION = [
    pytest.param(schema, version, id=f"{schema.name}-{version}")
    for schema in schemas().values()
    for version in range(schema.versions.low, schema.versions.high + 1)
]


_MEMBER, _BROKER = "ConsumerGroupMemberMetadataValue", "RegisterBrokerRecord"


def read(name: str, version: int, data: bytes) -> dict[str, Value]:
    return read_message(schemas()[name], version, Cursor(data))


def cause(name: str, version: int, data: bytes) -> str | None:
    with pytest.raises(MessageError) as caught:
        read(name, version, data)
    return caught.value.cause


def same(one: Any, other: Any) -> bool:
    """Equal, types too; NaN is itself and zero has a sign."""
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[name], other[name]) for name in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and repr(one) == repr(other)


def test_the_table_is_whole() -> None:
    assert len(schemas()) == 92
    assert [
        len(record_schemas(group, "coordinator-value")) for group in ("group-coordinator", "share-coordinator")
    ] == [22, 2]
    assert set(record_schemas("group-coordinator", "coordinator-key")) == {*range(24)} - {9, 18}
    assert set(record_schemas("cluster-metadata", "metadata")) == {*range(30)} - {6, 13, 16}
    assert set(record_schemas("remote-log-metadata", "metadata")) == {*range(4)}


def known(value: Any) -> Any:
    """A value without the tagged fields that no schema has."""
    if isinstance(value, dict):
        return {name: known(item) for name, item in value.items() if name != UNKNOWN_TAGS}
    return [known(item) for item in value] if isinstance(value, list) else value


def test_unknown_tags_are_kept() -> None:
    data = b"\0\0\0\7" + b"\1" + unsigned_varint(UNKNOWN_TAG) + b"\2ab"
    values = read_message(schemas()["UnregisterControllerRecord"], 0, Cursor(data))
    assert values == {"controllerId": 7, UNKNOWN_TAGS: [{"tag": UNKNOWN_TAG, "data": b"ab"}]}
    assert list(unknown_tag_numbers(values)) == [UNKNOWN_TAG]
    assert UNKNOWN_TAGS not in read_message(schemas()["UnregisterControllerRecord"], 0, Cursor(b"\0\0\0\7\0"))


@pytest.mark.parametrize(
    ("tags", "cause"),
    [
        (b"\xff\xff\xff\xff\x0f", "Invalid negative number of tagged fields -1"),
        (b"\x03abc"[:3], "Tried to read 3 tagged fields, but there are only 2 bytes remaining."),
        (
            unsigned_varint(10_001) + bytes(20_002),
            "Tried to read 10001 tagged fields, which exceeds the maximum allowed count of 10000.",
        ),
    ],
)
def test_the_number_of_tags_is_checked_first(tags: bytes, cause: str) -> None:
    """As the readers of 4.4 do; those of 4.3 read on, and take a negative number for none."""
    with pytest.raises(MessageError) as raised:
        read_message(schemas()["UnregisterControllerRecord"], 0, Cursor(b"\0\0\0\7" + tags))
    assert raised.value.cause == cause
    older = schemas(KAFKA_4_3.name)["TopicRecord"]
    head = b"\2t" + bytes(16)
    if "negative" in cause:
        assert read_message(older, 0, Cursor(head + tags))["name"] == "t"
    elif "remaining" in cause:
        with pytest.raises(MessageError) as raised:
            read_message(older, 0, Cursor(head + tags))
        assert "tagged" not in (raised.value.cause or "")


def test_an_older_release_does_not_know_what_came_later() -> None:
    older = schemas(KAFKA_4_3.name)
    assert set(schemas()) - set(older) == {"UnregisterControllerRecord"}
    assert 29 not in record_schemas("cluster-metadata", "metadata", KAFKA_4_3.name)
    data = bytes(12) + b"\1\2\4\0\0\0\7"
    assert read_message(schemas()["StreamsGroupMetadataValue"], 0, Cursor(data))["storedDescriptionTopologyEpoch"] == 7
    assert list(unknown_tag_numbers(read_message(older["StreamsGroupMetadataValue"], 0, Cursor(data)))) == [2]


@pytest.mark.parametrize(("schema", "version"), EVERY_VERSION)
@given(random=st.randoms(use_true_random=False))
@examples(15)
def test_every_message_reads_back_and_prints(schema: Schema, version: int, random: Random) -> None:
    values = random_values(schema.fields, version, random)
    data = write_message(schema, version, values, random)
    cursor = Cursor(data + b"tail")
    found = read_message(schema, version, cursor)
    assert cursor.position == len(data)
    assert same(known(found), values)
    for _ in range(2):
        # The second time it is remembered.
        assert same(known(schema.layout(version).read_whole(b"head" + data, 4)), values)
    expected = expected_members(schema.fields, version, values)
    assert same(shown(schema.layout(version), found), expected)
    text = message_json(schema, version, found)
    assert same(json.loads(text), json.loads(json.dumps(json_value(expected))))
    assert [character for character in text if character < " "] == []


@pytest.mark.parametrize(("schema", "version"), EVERY_VERSION)
@given(random=st.randoms(use_true_random=False))
@examples(8)
def test_no_damage_crashes_the_reader(schema: Schema, version: int, random: Random) -> None:
    data = bytearray(write_message(schema, version, random_values(schema.fields, version, random), random))
    if data:
        data[random.randrange(len(data))] = random.randrange(256)
    cut = Cursor(bytes(data[: random.randrange(len(data) + 1)]))
    read_as = random.choice((version, version + 1, 9, -1))
    values = None
    with contextlib.suppress(MessageError):
        values = read_message(schema, read_as, cut)
    whole = schema.layout(read_as).read_whole(bytes(cut.buffer), 0)
    assert same(whole, None if cut.remaining else values)


def test_a_tagged_field_is_shown_when_it_is_not_at_its_default() -> None:
    schema = schemas()["OffsetCommitValue"]
    fields = struct.pack(">qi", 7, -1) + b"\x01" + struct.pack(">q", 9)
    topic_id = bytes(range(16))
    with_id = read_message(schema, 4, Cursor(fields + b"\x01\x00\x10" + topic_id))
    assert with_id["topicId"] == "AAECAwQFBgcICQoLDA0ODw"
    assert list(shown(schema.layout(4), with_id))[-1] == "topicId"
    for tags in (b"\x00", b"\x01\x00\x10" + bytes(16), b"\x01" + unsigned_varint(UNKNOWN_TAG) + b"\x01x"):
        assert "topicId" not in shown(schema.layout(4), read_message(schema, 4, Cursor(fields + tags)))


def test_what_is_shown_belongs_to_the_caller() -> None:
    schema = schemas()["PartitionRecord"]
    data = struct.pack(">i16s", 1, bytes(16)) + b"\1" * 4 + struct.pack(">iii", 1, 2, 3) + b"\0"
    for _ in range(2):
        found = shown(schema.layout(0), read_message(schema, 0, Cursor(data)))
        replicas = found["replicas"]
        assert replicas == []
        assert isinstance(replicas, list)
        replicas.append(1)


@pytest.mark.parametrize(
    ("name", "version", "data", "expected"),
    [
        ("OffsetCommitKey", 0, b"\x00", None),
        ("OffsetCommitKey", 0, b"\x00\x05ab", "Error reading byte array of 5 byte(s): only 2 byte(s) available"),
        ("OffsetCommitKey", 0, b"\xff\xff", "non-nullable field group was serialized as null"),
        (_MEMBER, 0, b"\x00\x00\x81\x80\x02", "string field clientId had invalid length 32768"),
        (_MEMBER, 0, b"\0\0\1\1\2\0", "non-nullable field subscribedTopicNames element was serialized as null"),
        ("ShareSnapshotValue", 0, bytes(19), None),
        (
            "GroupMetadataValue",
            0,
            bytes(6) + b"\xff\xff\xff\xff\0\0\0\x46",
            "Tried to allocate a collection of size 70, but there are only 0 bytes remaining.",
        ),
        (
            "TopicRecord",
            0,
            b"\xff\xff\xff\xff\xff\x01",
            "Varint is too long, the most significant bit in the 5th byte is set, converted value: ffffffff",
        ),
        (_BROKER, 0, bytes(4 + 16 + 8) + b"\1\1\0\1\1\1\x10", "Tag 1 is not valid for version 0"),
        (_BROKER, 9, bytes(4 + 1 + 16 + 8) + b"\2\2n\2h\0\1\0\1\0", "Can't read version 9 of BrokerEndpoint"),
        ("EndTransactionRecord", 0, b"\x01\x05\xff\xff\xff\xff\x0f", "-1"),
    ],
)  # fmt: skip
def test_what_kafka_says_of_a_broken_message(name: str, version: int, data: bytes, expected: str | None) -> None:
    assert cause(name, version, data) == expected


def test_a_version_above_the_known_ones_is_read_as_the_newest() -> None:
    data = write_message(schemas()["TopicRecord"], 0, {"name": "t", "topicId": "A" * 22})
    assert read("TopicRecord", 7, data) == read("TopicRecord", 0, data)
    assert read("ConsumerProtocolAssignment", -5, bytes(8)) == {"assignedPartitions": [], "userData": b""}


def test_a_length_wraps_around_as_in_java() -> None:
    # 2^31 - 1 is a length that is too long, 2^31 a negative one, which is null.
    assert cause("ConsumerGroupMemberMetadataValue", 0, b"\x80\x80\x80\x80\x08") == (
        "string field instanceId had invalid length 2147483647"
    )
    assert cause("ConsumerGroupMemberMetadataValue", 0, b"\x81\x80\x80\x80\x08" + b"\0\0") == (
        "non-nullable field clientId was serialized as null"
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"), (-0.0, "-0.0"), (1.0, "1.0"), (1e7, "1.0E7"), (9999999.999, "9999999.999"), (0.001, "0.001"),
        (0.00099, "9.9E-4"), (1e23, "9.999999999999999E22"), (2e23, "1.9999999999999998E23"), (5e-324, "4.9E-324"),
        (1.7976931348623157e308, "1.7976931348623157E308"), (2.2250738585072014e-308, "2.2250738585072014E-308"),
        (float.fromhex("0x1.eec248868affdp84"), "3.7382926990482452E25"), (123456789.125, "1.23456789125E8"),
        (2.0**64, "1.8446744073709552E19"), (-1234.5, "-1234.5"), (0.1 + 0.2, "0.30000000000000004"), (100.0, "100.0"),
        (8.41e21, "8.409999999999999E21"), (2e-3, "0.002"), (5e-5, "5.0E-5"),
        (math.nan, "NaN"), (math.inf, "Infinity"), (-math.inf, "-Infinity"),
    ],
)  # fmt: skip
def test_doubles_as_jdk_17_writes_them(value: float, text: str) -> None:
    assert double_string(value) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_doubles_read_back(value: float) -> None:
    read_back = float(double_string(value))
    # Not always the shortest digits, nor the nearest number: JDK 17 is off by one in the last place at times.
    assert read_back == value or math.isclose(read_back, value, rel_tol=3e-16)


def test_json_of_odd_values() -> None:
    schema = schemas()["ClientQuotaRecord"]
    values: dict[str, Value] = {"entity": [], "key": "a\x1f\x7f\u2028/'\"\\", "value": math.nan, "remove": True}
    assert message_json(schema, 0, values) == (
        '{"entity":[],"key":"a\\u001F\x7f\u2028/\'\\"\\\\","value":"NaN","remove":true}'
    )
    scram = schemas()["UserScramCredentialRecord"]
    given_values = read_message(scram, 0, Cursor(b"\1\0\5" + b"\0\1\xfe\xff" + b"\1\1" + bytes(4) + b"\0"))
    assert f'"salt":"{base64.b64encode(bytes([0, 1, 254, 255])).decode()}"' in message_json(scram, 0, given_values)
