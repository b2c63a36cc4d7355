"""The parser of .proto files against protoc, and texts that are none."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("google.protobuf")

from google.protobuf import descriptor_pool
from google.protobuf.any_pb2 import DESCRIPTOR as ANY
from google.protobuf.descriptor_pb2 import DESCRIPTOR, DescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.timestamp_pb2 import DESCRIPTOR as TIMESTAMP

from kdump.schemas.protobuf import ProtobufFile
from kdump.schemas.protofile import parse_proto
from tests.harness.archives import CASES

BESIDE = [FileDescriptorProto.FromString(one.serialized_pb) for one in (DESCRIPTOR, ANY, TIMESTAMP)]


def resolved(file: FileDescriptorProto) -> FileDescriptorProto:
    """The file with all names and types found, without what does not change how bytes are read or shown."""
    pool = descriptor_pool.DescriptorPool()
    for one in (*BESIDE, file):
        pool.AddSerializedFile(one.SerializeToString())
    found = FileDescriptorProto()
    pool.FindFileByName(file.name).CopyToProto(found)
    for field in ("options", "service", "weak_dependency"):
        found.ClearField(field)
    for message in found.message_type:
        _plain_message(message)
    for enum in found.enum_type:
        _plain_enum(enum)
    for extension in found.extension:
        _plain_field(extension)
    return found


def _plain_message(message: DescriptorProto) -> None:
    is_entry = message.options.map_entry
    for field in ("options", "reserved_range", "reserved_name"):
        message.ClearField(field)
    message.options.map_entry = is_entry
    for item in (*message.field, *message.extension):
        _plain_field(item)
    for extensions in message.extension_range:
        extensions.ClearField("options")
    for oneof in message.oneof_decl:
        oneof.ClearField("options")
    for enum in message.enum_type:
        _plain_enum(enum)
    for nested in message.nested_type:
        _plain_message(nested)
    # Messages of maps and groups are last here.
    copies = [DescriptorProto.FromString(one.SerializeToString()) for one in message.nested_type]
    nested_types = sorted(copies, key=lambda one: one.name)
    del message.nested_type[:]
    message.nested_type.extend(nested_types)


def _plain_field(field: Any) -> None:
    packed = field.options.packed if field.options.HasField("packed") else None
    features = field.options.features.SerializeToString()
    field.ClearField("options")
    field.ClearField("json_name")
    if packed is not None:
        field.options.packed = packed
    field.options.features.ParseFromString(features)


def _plain_enum(enum: Any) -> None:
    is_aliased = enum.options.allow_alias
    for field in ("options", "reserved_range", "reserved_name"):
        enum.ClearField(field)
    enum.options.allow_alias = is_aliased
    for value in enum.value:
        value.ClearField("options")


@pytest.mark.parametrize("name", ["proto2", "proto3", "edition"])
def test_as_protoc(name: str) -> None:
    text = (CASES / "protos" / f"{name}.proto").read_text()
    (compiled,) = FileDescriptorSet.FromString((CASES / "protos" / f"{name}.desc").read_bytes()).file
    assert resolved(parse_proto(f"{name}.proto", text)) == resolved(compiled)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("message", "line 1 of x: a word was expected, not ''"),
        ('syntax = "proto3";\nmessage A {', "line 2 of x: the text ends early|line 2 of x: a word"),
        ("message A { int32 a = 0; }", "field a has the number 0"),
        ("message A { int32 a = 536870912; }", "field a has the number 536870912"),
        ("message A { int32 a = x; }", "a number was expected, not 'x'"),
        ("message A { int32 a = 1.5; }", "1.5 is no whole number"),
        ("enum A { A = 09; }", "09 is no whole number"),
        ("message A { int32 = 1; }", "a word was expected, not '='"),
        ('edition = "1999";', "the edition 1999 is unknown"),
        ("\n/* never ends", "line 2: '\\* never ends' is no token"),
        ('option a = "never ends', "is no token of a .proto file"),
        ("\x00", "is no token"),
        ("hello world", "a declaration was expected, not 'hello'"),
        ("message A { reserved 1", "the text ends early"),
        ("service S { rpc", "the text ends early"),
        ("message A {" * 100, "messages are nested more than 30 deep"),
        ("message A { optional group B = 1 {" * 100, "nested more than 30 deep"),
    ],
)
def test_what_is_no_text_of_a_file(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_proto("x", text)


def decode(text: str, data: bytes, *index: int, **references: str) -> Any:
    found = {name.replace("_", "/") + ".proto": one for name, one in references.items()}
    return ProtobufFile("x", text, found).decoder(index or (0,))(data)


def test_imports() -> None:
    other = 'syntax = "proto3"; package o; import public "a/third.proto"; message O { int32 n = 1; }'
    third = 'syntax = "proto3"; package o; message T { string s = 1; }'
    text = 'syntax = "proto3"; import "a/other.proto"; message M { o.O o = 1; o.T t = 2; google.protobuf.Any x = 3; }'
    with pytest.raises(ValueError, match="Any"):
        decode(text, b"", a_other=other, a_third=third)
    text = text.replace("message M", 'import "google/protobuf/any.proto"; import "options/of/nobody.proto"; message M')
    assert decode(text, bytes.fromhex("0a02080712030a0178"), a_other=other, a_third=third) == {
        "o": {"n": 7},
        "t": {"s": "x"},
    }
    decimal = 'syntax = "proto3"; import "confluent/type/decimal.proto"; message M { confluent.type.Decimal d = 1; }'
    assert decode(decimal, bytes.fromhex("0a021802")) == {"d": {"scale": 2}}


def test_imports_that_go_round() -> None:
    one = 'syntax = "proto3"; import "a/two.proto";'
    with pytest.raises(ValueError, match=r"a/one.proto imports itself"):
        decode('syntax = "proto3"; import "a/one.proto"; message M {}', b"", a_one=one, a_two=one.replace("two", "one"))


def test_types_that_are_not_there() -> None:
    with pytest.raises(ValueError, match=r"Nobody"):
        decode("message A { optional Nobody n = 1; }", b"")
    with pytest.raises(ValueError, match=r"message \[0, 0\] is an entry of a map"):
        decode('syntax = "proto3"; message A { map<string, int32> m = 1; }', b"", 0, 0)


def test_names_of_maps_are_sorted() -> None:
    text = """
        syntax = "proto3";
        import "google/protobuf/struct.proto";
        message A { map<string, A> m = 1; google.protobuf.Struct s = 2; }
    """
    names = [f"k{number}" for number in range(20)]

    def entry(name: str, value: bytes) -> bytes:
        key = name.encode()
        inner = b"\x0a" + bytes([len(key)]) + key + b"\x12" + bytes([len(value)]) + value
        return b"\x0a" + bytes([len(inner)]) + inner

    maps = b"".join(entry(name, entry("x", b"")) for name in reversed(names))
    struct = b"".join(entry(name, b"\x20\x01") for name in reversed(names[:9]))
    found = decode(text, maps + b"\x12" + bytes([len(struct)]) + struct)
    assert list(found["m"]) == sorted(names)
    assert found["m"]["k3"] == {"m": {"x": {}}}
    assert list(found["s"]) == sorted(names[:9])


RECURSIVE = 'syntax = "proto3"; message A { A a = 1; repeated A many = 2; string s = 3; repeated bool b = 4; }'


@pytest.mark.parametrize(
    "data",
    [
        b"\x0a\x7f",
        b"\x0a\xff\xff\xff\xff\x07",
        b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
        b"\x1a\x01\xff",
        b"\xff" * 20,
        b"\x07",
    ],
)
def test_values_that_are_none(data: bytes) -> None:
    with pytest.raises(Exception, match=r"."):
        decode(RECURSIVE, data)


def test_values_that_are_nested() -> None:
    def nested(depth: int) -> bytes:
        data = b""
        for _ in range(depth):
            size = bytearray()
            left = len(data)
            while left > 127:
                size.append(left & 127 | 128)
                left >>= 7
            data = b"\x0a" + bytes([*size, left]) + data
        return data

    assert decode(RECURSIVE, nested(50))
    with pytest.raises(Exception, match=r"."):
        decode(RECURSIVE, nested(5000))
    assert len(decode(RECURSIVE, b"\x12\x00" * 100_000)["many"]) == 100_000
