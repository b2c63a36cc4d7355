"""payloads: records of internal topics as Python values, decoders by name, and what does not decode."""

from __future__ import annotations

import struct
import subprocess
import sys
import uuid
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kdump.payloads
from kdump.codes import Codes, KdumpError, Severity
from kdump.dump.text.decoders import contents_decoder
from kdump.payloads import registry
from kdump.payloads.choice import DecoderChoice
from kdump.payloads.decoded import Decoded, DecodeErrorKind
from kdump.payloads.internal import DECODERS
from kdump.payloads.message_json import json_value
from kdump.payloads.plain import DECODERS as PLAIN
from kdump.payloads.registry import PlainRecordDecoder, names, plain_decoder
from kdump.payloads.topics import INTERNAL_TOPICS

OFFSETS = "__consumer_offsets"


def string(text: str) -> bytes:
    return struct.pack(">h", len(text.encode())) + text.encode()


def sized(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


KEY = struct.pack(">h", 1) + string("g") + string("t") + struct.pack(">i", 3)
VALUE = struct.pack(">hqi", 3, 42, -1) + string("meta") + struct.pack(">q", 1_700_000_000_000)
TOPIC_RECORD = b"\x01\x02\x00\x03ab" + bytes(range(16)) + b"\x00"


def group_value(subscription: bytes, assignment: bytes, protocol_type: str = "consumer") -> bytes:
    member = string("m") + b"\xff\xff" + string("c") + string("/h") + struct.pack(">ii", 1, 2)
    head = struct.pack(">h", 3) + string(protocol_type) + struct.pack(">i", 1) + string("range") + string("m")
    return head + struct.pack(">q", 5) + struct.pack(">i", 1) + member + sized(subscription) + sized(assignment)


def troubles(decoded: Decoded) -> list[DecodeErrorKind]:
    return [finding.trouble for finding in decoded.findings]


def test_a_commit() -> None:
    decoded = kdump.payloads.decode(OFFSETS, KEY, VALUE)
    key, value = decoded
    assert key == decoded.key == {"type": "1", "data": {"group": "g", "topic": "t", "partition": 3}}
    data = {"offset": 42, "leaderEpoch": -1, "metadata": "meta", "commitTimestamp": 1_700_000_000_000}
    assert value == decoded.value == {"version": "3", "data": data}
    assert decoded.findings == ()


def test_the_library_has_it_without_an_import_of_its_own() -> None:
    program = "import kdump; print(kdump.decode('x', b'k', None))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "(b'k', None)\n"


def test_a_tombstone() -> None:
    assert kdump.payloads.decode(OFFSETS, KEY, None).value is None


def test_a_metadata_record() -> None:
    decoded = kdump.payloads.decode("__cluster_metadata", None, TOPIC_RECORD)
    data = {"name": "ab", "topicId": "AAECAwQFBgcICQoLDA0ODw"}
    assert decoded == (None, {"type": "TOPIC_RECORD", "version": 0, "data": data})


def test_another_topic_keeps_its_bytes() -> None:
    decoded = kdump.payloads.decode("orders", b"k", None)
    assert decoded == (b"k", None)
    assert decoded.findings == ()


@pytest.mark.parametrize(
    ("topic", "key", "value", "trouble", "code"),
    [
        (OFFSETS, struct.pack(">h", 99) + b"x", VALUE, DecodeErrorKind.UNKNOWN_TYPE, Codes.PAYLOAD_UNKNOWN),
        (OFFSETS, KEY, b"\0\x09" + VALUE[2:], DecodeErrorKind.UNKNOWN_VERSION, Codes.PAYLOAD_UNKNOWN),
        (OFFSETS, KEY, VALUE[:9], DecodeErrorKind.BROKEN, Codes.DECODER),
        (OFFSETS, KEY, b"\0", DecodeErrorKind.CUT, Codes.DECODER),
        (OFFSETS, KEY[:5], VALUE, DecodeErrorKind.BROKEN, Codes.DECODER),
        (OFFSETS, b"", VALUE, DecodeErrorKind.CUT, Codes.DECODER),
        (OFFSETS, None, VALUE, DecodeErrorKind.MISSING, Codes.DECODER),
        ("__cluster_metadata", None, b"\x02\x02\x00", DecodeErrorKind.FRAME_VERSION, Codes.PAYLOAD_UNKNOWN),
        ("__cluster_metadata", None, b"\x01\x63\x00", DecodeErrorKind.UNKNOWN_TYPE, Codes.PAYLOAD_UNKNOWN),
        ("__cluster_metadata", None, b"\x01\x80\x80\x02", DecodeErrorKind.TOO_LARGE, Codes.DECODER),
        ("__cluster_metadata", None, TOPIC_RECORD + b"x", DecodeErrorKind.BYTES_LEFT, Codes.DECODER),
        ("__cluster_metadata", None, TOPIC_RECORD[:-2], DecodeErrorKind.BROKEN, Codes.DECODER),
        ("__cluster_metadata", None, None, DecodeErrorKind.CUT, Codes.DECODER),
    ],
)
def test_what_does_not_decode_stays_and_says_why(
    topic: str, key: bytes | None, value: bytes | None, trouble: DecodeErrorKind, code: Codes
) -> None:
    decoded = kdump.payloads.decode(topic, key, value)
    assert troubles(decoded) == [trouble]
    assert decoded.findings[0].code is code
    assert decoded.value == value
    if trouble is DecodeErrorKind.UNKNOWN_VERSION:
        assert decoded.key["data"]["group"] == "g"
    assert code.value.severity is not Severity.ERROR


def test_bytes_after_a_coordinators_record_are_left_alone() -> None:
    assert kdump.payloads.decode(OFFSETS, KEY + b"x", VALUE + b"y") == kdump.payloads.decode(OFFSETS, KEY, VALUE)


def test_members_of_a_consumer_group() -> None:
    topics = struct.pack(">i", 1) + string("t")
    subscription = struct.pack(">h", 0) + topics + b"\xff\xff\xff\xff"
    assignment = struct.pack(">h", 0) + struct.pack(">i", 1) + string("t") + struct.pack(">ii", 1, 7) + sized(b"u")
    key = struct.pack(">h", 2) + string("g")
    member = kdump.payloads.decode(OFFSETS, key, group_value(subscription, assignment)).value["data"]["members"][0]
    assert member["subscription"] == {"topics": ["t"], "userData": None}
    assert member["assignment"] == {"assignedPartitions": [{"topic": "t", "partitions": [7]}], "userData": b"u"}
    other = kdump.payloads.decode(OFFSETS, key, group_value(subscription, b"", "connect")).value["data"]["members"][0]
    assert (other["subscription"], other["assignment"]) == (subscription, b"")


def test_a_members_newer_version_is_read_as_the_newest_known() -> None:
    """The Java tool leaves it as it is where structs are inside."""
    assignment = struct.pack(">hi", 9, 1) + string("t") + struct.pack(">ii", 1, 7) + b"\xff\xff\xff\xff" + b"new"
    key = struct.pack(">h", 2) + string("g")
    member = kdump.payloads.decode(OFFSETS, key, group_value(b"", assignment)).value["data"]["members"][0]
    assert member["assignment"] == {"assignedPartitions": [{"topic": "t", "partitions": [7]}], "userData": None}
    assert member["subscription"] == b""


@given(st.sampled_from(sorted(INTERNAL_TOPICS.values())), st.none() | st.binary(), st.none() | st.binary())
def test_rubbish_never_raises(topic: str, key: bytes | None, value: bytes | None) -> None:
    decoded = kdump.payloads.decode(topic, key, value)
    for finding in decoded.findings:
        assert getattr(decoded, finding.part.value) in (key, value)
        assert finding.message


def test_choice_by_topic() -> None:
    by_topic = DecoderChoice(by_topic=True, value="hex")
    assert by_topic.decoder("__transaction_state") is DECODERS["transaction-log"]
    assert by_topic.decoder("orders") == PlainRecordDecoder(None, "hex", None, PLAIN["hex"])
    assert DecoderChoice(by_topic=True).decoder("orders") is None
    assert DecoderChoice(internal="offsets").decoder("orders") is DECODERS["offsets"]
    assert not DecoderChoice().is_made


@pytest.mark.parametrize(
    ("name", "data", "expected"),
    [
        ("text", "é".encode(), "é"),
        ("hex", b"\x00\xff", "00ff"),
        ("base64", b"\x00\xff", "AP8="),
        ("json", b' {"a": [1, 2.5, null, "\\u00e9"]} ', {"a": [1, 2.5, None, "é"]}),
        ("json", b"12345678901234567890", 12345678901234567890),
        ("int32", b"\xff\xff\xff\xfe", -2),
        ("int64", b"\0\0\0\0\0\0\1\0", 256),
        ("float64", struct.pack(">d", 2.5), 2.5),
        ("uuid", bytes(range(16)), "00010203-0405-0607-0809-0a0b0c0d0e0f"),
        ("uuid", str(uuid.UUID(int=7)).encode(), str(uuid.UUID(int=7))),
        ("uuid", b"00010203-0405-0607-0809-0A0B0C0D0E0F", "00010203-0405-0607-0809-0a0b0c0d0e0f"),
    ],
)
def test_plain_decoders(name: str, data: bytes, expected: Any) -> None:
    decoded = PlainRecordDecoder.of(name, name).decode(data, None)
    assert decoded == (expected, None)
    assert decoded.findings == ()


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("text", b"\xff"),
        ("json", b"{"),
        ("json", b"\xff"),
        ("json", b"NaN"),
        ("json", b"1e999"),
        ("json", b'"\\ud800"'),
        ("json", b"[" * 100_000),
        ("json", b"[" * 500 + b"]" * 500),
        ("json", b"9" * 10_000),
        ("json", b'{"a": {"b": 1, "b": 2}}'),
        ("int32", b"\0\0\0"),
        ("int64", b""),
        ("float64", bytes(9)),
        ("uuid", bytes(15)),
        ("uuid", b"x" * 36),
        ("uuid", b"{00010203-0405-0607-0809-0a0b0c0d0e}"),
        ("uuid", b"{{{{000102030405060708090a0b0c0d0e0f"),
        ("uuid", b"0_1_2_3_-0405-0607-0809-0a0b0c0d0e0f"),
    ],
)
def test_what_a_plain_decoder_does_not_take(name: str, data: bytes) -> None:
    decoded = PlainRecordDecoder.of(None, name).decode(b"k", data)
    assert decoded == (b"k", data)
    assert troubles(decoded) == [DecodeErrorKind.REFUSED]
    assert f"the value does not decode as {name}: " in decoded.findings[0].message


@given(st.binary())
def test_views_of_bytes_lose_nothing(data: bytes) -> None:
    assert bytes.fromhex(PLAIN["hex"](data)) == data
    assert PLAIN["base64"](data) == b64encode(data).decode()


HOSTILE = ("sly", "slyname", "vast", "liar", "ends", "laughs", "laughter")


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A distribution with decoders of its own, found as an installed one is."""
    (tmp_path / "other_decoders.py").write_text(
        "def upper(data): return data.decode().upper()\n"
        "def fails(data): raise RuntimeError('no schema 7')\n"
        "def odd(data): return {1, 2}\n"
        "def raw(data): return data\n"
        "def pair(data): return 1, (float('nan'), {'x': (2,)})\n"
        "def huge(data): return [10**5000]\n"
        "def leaves(data): raise SystemExit(0)\n"
        "class Mute(Exception):\n"
        "    def __str__(self): raise RuntimeError\n"
        "def mute(data): raise Mute\n"
        "def loud(data): raise ValueError('\\x1b[31m\\nkdump: all is well')\n"
        "class Panic(BaseException): pass\n"
        "def panics(data): raise Panic('as those of Rust')\n"
        "word = 'x'\n"
        "class Text(str): pass\n"
        "class Whole(int): pass\n"
        "class Part(float): pass\n"
        "class Sly(str):\n"
        "    def encode(self, *options): return b''\n"
        "    def __str__(self): raise SystemExit(9)\n"
        "class Vast(int):\n"
        "    def bit_length(self): return 1\n"
        "class Liar:\n"
        "    __class__ = bool\n"
        "class Ends(Exception):\n"
        "    def __str__(self): raise SystemExit(9)\n"
        "def sly(data): return [Sly('\\ud800')]\n"
        "def slyname(data): return {Sly('\\ud800'): 1}\n"
        "def vast(data): return Vast(1 << 20_000)\n"
        "def liar(data): return [Liar()]\n"
        "def ends(data): raise Ends\n"
        "def laughs(data):\n"
        "    value = 'ha'\n"
        "    for level in range(40): value = [value, value]\n"
        "    return value\n"
        "def laughter(data): return [['ha' * 500] * 500] * 50\n"
        "def fields(data): return [{'a long name': byte} for byte in data]\n"
        "def own(data): return {Text('name'): [Text('text'), Whole(2), Part(0.5)]}\n"
    )
    info = tmp_path / "other-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1.0\n")
    (tmp_path / "no_decoders.py").write_text("raise SystemExit(7)\n")
    functions = [
        "upper",
        "fails",
        "odd",
        "own",
        "raw",
        "pair",
        "huge",
        "leaves",
        "mute",
        "loud",
        "panics",
        "word",
        "missing",
        *HOSTILE,
        "fields",
    ]
    entries = "".join(f"{name} = other_decoders:{name}\n" for name in functions) + "gone = no_decoders:x\n"
    (info / "entry_points.txt").write_text(f"[{registry.GROUP}]\n{entries}hex = other_decoders:upper\n")
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.usefixtures("installed")
def test_decoders_of_others() -> None:
    others = ["fails", "gone", "huge", "leaves", "loud", "missing", "mute", "odd", "own", "pair"]
    others += ["panics", "raw", "schema", "upper", "word"]
    assert names() == [*PLAIN, "none", *sorted([*others, *HOSTILE, "fields"])]
    decoded = PlainRecordDecoder.of("upper", "fails").decode(b"k", b"v")
    assert decoded == ("K", b"v")
    assert decoded.findings[0].message == "the value does not decode as fails: RuntimeError: no schema 7"
    for name in ("odd", "raw", "huge", "leaves", "mute", "loud", "panics"):
        decoded = PlainRecordDecoder.of(name, None).decode(b"k", None)
        assert decoded.key == b"k"
        assert troubles(decoded) == [DecodeErrorKind.REFUSED]


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_objects_of_others_are_findings(name: str) -> None:
    decoded = PlainRecordDecoder.of(None, name).decode(None, b"v")
    assert decoded.value == b"v"
    assert troubles(decoded) == [DecodeErrorKind.REFUSED]


@pytest.mark.usefixtures("installed")
def test_shared_lists_of_others_are_bounded_by_the_payload() -> None:
    """40 lists, each of which holds the one before it twice, say 2^40 texts."""
    [finding] = PlainRecordDecoder.of(None, "laughs").decode(None, bytes(1000)).findings
    assert finding.message == "the value does not decode as laughs: ValueError: it becomes more than 294,144 bytes"
    many = PlainRecordDecoder.of(None, "fields").decode(None, bytes(200_000))
    assert (len(many.value), many.findings) == (200_000, ())


@pytest.mark.parametrize("text", [b"[" + b"0," * 250_000 + b"0]", b"[" + b"[]," * 200_000 + b"0]"])
def test_no_json_becomes_too_much(text: bytes) -> None:
    assert PlainRecordDecoder.of(None, "json").decode(None, text).findings == ()


@pytest.mark.parametrize("name", ["text", "hex", "base64", "json"])
def test_what_has_many_megabytes_stays_bytes(name: str) -> None:
    """Text takes many times as much while it is written, and lists in JSON even more."""
    largest = b"1" * (8 << 20)
    decoded = PlainRecordDecoder.of(None, name).decode(None, largest + b"1")
    assert decoded.value == largest + b"1"
    reason = "it has 8,388,609 bytes, kdump decodes 8,388,608 at most"
    assert [one.message for one in decoded.findings] == [f"the value does not decode as {name}: {reason}"]
    if name != "json":
        assert PlainRecordDecoder.of(None, name).decode(None, largest).findings == ()


@pytest.mark.usefixtures("installed")
def test_what_decoders_of_others_say_is_one_line_without_controls() -> None:
    messages = [PlainRecordDecoder.of(name, None).decode(b"k", None).findings[0].message for name in ("mute", "loud")]
    assert messages == [
        "the key does not decode as mute: Mute",
        r"the key does not decode as loud: ValueError: \x1b[31m\x0akdump: all is well",
    ]


@pytest.mark.usefixtures("installed")
def test_tuples_of_others_are_lists_in_every_output() -> None:
    """So that a NaN inside is no bare one in JSON, and the text shows them."""
    decoder = PlainRecordDecoder.of(None, "pair")
    assert contents_decoder(decoder).contents(0, None, b"v").payload == '[1,["NaN",{"x":[2]}]]'
    assert json_value(decoder.decode(None, b"v").value) == [1, ["NaN", {"x": [2]}]]


@pytest.mark.usefixtures("installed")
def test_objects_of_subclasses_are_those_of_their_bases() -> None:
    """Results travel between processes as plain data."""
    value = PlainRecordDecoder.of(None, "own").decode(None, b"v").value
    assert value == {"name": ["text", 2, 0.5]}
    assert [type(one) for one in (*value, *value["name"])] == [str, str, int, float]


@pytest.mark.usefixtures("installed")
def test_kdumps_own_names_are_not_for_others() -> None:
    assert plain_decoder("hex") is PLAIN["hex"]


@pytest.mark.usefixtures("installed")
def test_decoders_that_cannot_be_had() -> None:
    for name in ("word", "missing", "gone"):
        with pytest.raises(KdumpError, match=f"decoder '{name}' .(other|no)_decoders:.*. cannot be"):
            plain_decoder(name)
    with pytest.raises(KeyError):
        plain_decoder("avro")


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"null", "null"),
        (None, None),
        (b'{"a\\"\\nb": 1}', r'{"a\"\nb":1}'),
    ],
)
def test_json_as_text(data: bytes | None, text: str | None) -> None:
    """A null that is stored is not a value that is not there, and names are escaped as texts are."""
    assert contents_decoder(PlainRecordDecoder.of(None, "json")).contents(0, None, data).payload == text


def test_none_decodes_nothing() -> None:
    assert plain_decoder("none") is None
    assert PlainRecordDecoder.of("none", "none").decode(b"\xff", None) == (b"\xff", None)


def test_messages_of_many_megabytes_stay_bytes() -> None:
    """Lists of structs would become gigabytes."""
    many = kdump.payloads.decode(OFFSETS, KEY, VALUE + bytes(9 << 20))
    assert isinstance(many.value, bytes)
    (error,) = many.findings
    assert "kdump decodes 8,388,608 at most" in str(error)
    topic = kdump.payloads.decode("__cluster_metadata", None, TOPIC_RECORD + bytes(9 << 20))
    assert isinstance(topic.value, bytes)
    assert "kdump decodes 8,388,608 at most" in str(topic.findings[0])
