"""Protobuf schemas as decoders of values, by the package protobuf. Values are those of protobuf's JSON mapping."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any, Final

from google.protobuf import descriptor_pool, json_format, message_factory
from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from kdump.schemas.protofile import parse_proto

_OWN: Final = "google/protobuf/"
_OPEN: Final = frozenset({f"google.protobuf.{name}" for name in ("Struct", "Value", "ListValue", "Any")})
"""Messages whose JSON has any names."""
_KNOWN: Final = {
    "confluent/type/decimal.proto": """
        syntax = "proto3";
        package confluent.type;
        message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }
    """,
    "google/type/date.proto": """
        syntax = "proto3";
        package google.type;
        message Date { int32 year = 1; int32 month = 2; int32 day = 3; }
    """,
    "google/type/timeofday.proto": """
        syntax = "proto3";
        package google.type;
        message TimeOfDay { int32 hours = 1; int32 minutes = 2; int32 seconds = 3; int32 nanos = 4; }
    """,
}
"""Files that the registry's clients bring with them."""


class ProtobufFile:
    """The messages of a schema.

    Args:
        name: by which its errors name it; no file that it refers to has it.
        text: the schema.
        references: the texts of the files that it imports, and that these import, by name.

    Raises:
        ValueError: it is no schema, or lacks what it refers to.
    """

    def __init__(self, name: str, text: str, references: Mapping[str, str]) -> None:
        self._pool = descriptor_pool.DescriptorPool()
        self._references = {**_KNOWN, **references}
        self._added: dict[str, bool] = {}
        self._file = parse_proto(name, text)
        try:
            self._add(self._file)
        except TypeError as error:
            # So the pool says what is wrong with a file.
            raise ValueError(str(error)) from None
        self._decoders: dict[tuple[int, ...], Callable[[bytes], Any]] = {}

    def _add(self, file: FileDescriptorProto) -> None:
        """Add a file after those that it imports. What nobody has brought is left out: options may come from it."""
        self._added[file.name] = False
        found = [name for name in file.dependency if self._has(name)]
        file.public_dependency[:] = [
            found.index(file.dependency[number])
            for number in file.public_dependency
            if file.dependency[number] in found
        ]
        file.dependency[:] = found
        self._pool.AddSerializedFile(file.SerializeToString())
        self._added[file.name] = True

    def _has(self, name: str) -> bool:
        """A file is in the pool, or could be added."""
        if name in self._added:
            if not self._added[name]:
                raise ValueError(f"{name} imports itself")
            return True
        if name in self._references:
            self._add(parse_proto(name, self._references[name]))
            return True
        if name.startswith(_OWN):
            module = f"{name.removesuffix('.proto').replace('/', '.')}_pb2"
            try:
                described = import_module(module).DESCRIPTOR
            except ImportError:
                return False
            self._add(FileDescriptorProto.FromString(described.serialized_pb))
            return True
        return False

    def decoder(self, index: tuple[int, ...]) -> Callable[[bytes], Any]:
        """The decoder of the message at a path of nested messages. It raises ValueError or others.

        Raises:
            ValueError: there is no such message.
        """
        found = self._decoders.get(index)
        if found is None:
            found = self._decoders[index] = self._made(self._descriptor(index))
        return found

    def messages(self) -> Iterator[Descriptor]:
        """The messages of the file that are in no other one."""
        for number in range(len(self._file.message_type)):
            yield self._descriptor((number,))

    def _descriptor(self, index: tuple[int, ...]) -> Descriptor:
        names = [self._file.package] if self._file.package else []
        messages: Any = self._file.message_type
        for number in index:
            if not 0 <= number < len(messages):
                raise ValueError(f"the schema has no message {list(index)}")
            message = messages[number]
            names.append(message.name)
            messages = message.nested_type
        found = self._pool.FindMessageTypeByName(".".join(names))
        if found.GetOptions().map_entry:
            raise ValueError(f"message {list(index)} is an entry of a map")
        return found

    def _made(self, descriptor: Descriptor) -> Callable[[bytes], Any]:
        read = message_factory.GetMessageClass(descriptor).FromString
        pool = self._pool
        has_maps = _has_maps(descriptor, set())

        def decode(data: bytes) -> Any:
            found = json_format.MessageToDict(read(data), preserving_proto_field_name=True, descriptor_pool=pool)
            return _ordered(found, descriptor) if has_maps else found

        return decode


def _has_maps(descriptor: Descriptor, seen: set[str]) -> bool:
    """The order of names is another one in each process, here or in a message inside."""
    if descriptor.full_name in seen:
        return False
    seen.add(descriptor.full_name)
    return (
        descriptor.GetOptions().map_entry
        or descriptor.full_name in _OPEN
        or any(_has_maps(field.message_type, seen) for field in descriptor.fields if field.message_type is not None)
    )


def _ordered(value: Any, descriptor: Descriptor | None) -> Any:
    """A message in JSON with the names of its maps sorted. ``descriptor``: None sorts all names."""
    if isinstance(value, list):
        return [_ordered(item, descriptor) for item in value]
    if not isinstance(value, dict):
        return value
    if descriptor is None or descriptor.full_name in _OPEN:
        return {name: _ordered(value[name], None) for name in sorted(value)}
    found = {}
    for name, item in value.items():
        field = descriptor.fields_by_name.get(name)
        inner = None if field is None else field.message_type
        if inner is None:
            found[name] = item
        elif inner.GetOptions().map_entry:
            of = inner.fields_by_name["value"].message_type
            found[name] = {key: item[key] if of is None else _ordered(item[key], of) for key in sorted(item)}
        else:
            found[name] = _ordered(item, inner)
    return found
