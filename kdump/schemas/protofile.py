"""The text of a .proto file as a FileDescriptorProto, which protobuf's pools take. No compiler is needed.

Source: the specifications of proto2, proto3 and editions on protobuf.dev. Only what changes how bytes are read or shown
is kept: other options, services and reserved numbers are passed over. ``option map_entry``, which protoc refuses, is
taken: registries write maps so.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    Edition,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)

_TOKEN: Final = re.compile(
    r"""\s+|//[^\n]*|/\*.*?\*/"""
    r"""|(?P<word>\.?[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*)"""
    r"""|(?P<number>(?:0[xX][0-9a-fA-F]+|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fF]?)"""
    r"""|(?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')"""
    r"""|(?P<sign>[{}\[\]()<>=;,:+\-/.])""",
    re.DOTALL,
)
_ESCAPE: Final = re.compile(
    rb"\\(?:([0-7]{1,3})|[xX]([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL
)
_ESCAPED: Final = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"v": b"\v"}
_DEEPEST: Final = 30
"""Messages inside one another."""
_SCALARS: Final = {
    name.removeprefix("TYPE_").lower(): number
    for name, number in FieldDescriptorProto.Type.items()
    if name not in ("TYPE_MESSAGE", "TYPE_ENUM", "TYPE_GROUP")
}
_LABELS: Final = {
    "optional": FieldDescriptorProto.LABEL_OPTIONAL,
    "required": FieldDescriptorProto.LABEL_REQUIRED,
    "repeated": FieldDescriptorProto.LABEL_REPEATED,
}


def parse_proto(name: str, text: str) -> FileDescriptorProto:
    """The descriptor of a file. Its dependencies are those that it imports.

    Raises:
        ValueError: it is no such text.
    """
    return _Parser(name, text).file


class _Parser:
    """Reads one file.

    Messages that maps and groups make come after those that are declared beside them, as the registry counts messages.
    """

    def __init__(self, name: str, text: str) -> None:
        self._tokens = _tokens(text)
        self._at = 0
        self.file = FileDescriptorProto(name=name)
        self._statements(
            {
                "syntax": self._syntax,
                "edition": self._syntax,
                "package": self._package,
                "import": self._import,
                "option": lambda: self._option(self.file.options),
                "message": lambda: self._message(self.file.message_type.add(), 0),
                "enum": lambda: self._enum(self.file.enum_type.add()),
                "extend": lambda: self._extend(self.file.extension, self.file.message_type, 0),
                "service": self._block,
            },
            None,
            "",
        )

    # Tokens.

    def _next(self) -> str:
        kind, text, _ = self._tokens[self._at]
        if kind == "end":
            raise self._error("the text ends early")
        self._at += 1
        return text

    @property
    def _kind(self) -> str:
        return self._tokens[self._at][0]

    @property
    def _text(self) -> str:
        return self._tokens[self._at][1]

    def _take(self, text: str) -> bool:
        """The next token is this one, and read."""
        if self._text == text and self._kind != "string":
            self._at += 1
            return True
        return False

    def _expect(self, text: str) -> None:
        if not self._take(text):
            raise self._error(f"'{text}' was expected")

    def _of(self, kind: str) -> str:
        if self._kind != kind:
            raise self._error(f"a {kind} was expected")
        return self._next()

    def _error(self, what: str) -> ValueError:
        _, text, line = self._tokens[self._at]
        return ValueError(f"line {line} of {self.file.name}: {what}, not '{text[:40]}'")

    def _integer(self) -> int:
        sign = -1 if self._take("-") else 1
        text = self._of("number")
        try:
            return sign * int(text, 8 if re.fullmatch(r"0[0-7]+", text) else 0)
        except ValueError:
            raise self._error(f"{text[:40]} is no whole number") from None

    def _string(self) -> bytes:
        """Literals side by side are one."""
        found = b""
        while True:
            found += _unescaped(self._of("string")[1:-1].encode("utf-8", "surrogatepass"))
            if self._kind != "string":
                return found

    # Statements.

    def _statements(
        self, known: dict[str, Callable[[], None]], otherwise: Callable[[], None] | None, end: str = "}"
    ) -> None:
        """Statements up to ``end``; '': up to the end of the text."""
        while not (self._kind == "end" if not end else self._take(end)):
            if self._take(";"):
                continue
            after = self._tokens[min(self._at + 1, len(self._tokens) - 1)]
            # A field may have a type with the name of a keyword's like: what follows tells.
            if self._text in known and self._kind == "word" and not (otherwise and after[1] in ("=", ".")):
                known[self._next()]()
            elif otherwise is not None:
                otherwise()
            else:
                raise self._error("a declaration was expected")

    def _syntax(self) -> None:
        self._expect("=")
        self.file.syntax = found = self._string().decode("utf-8", "replace")
        if found not in ("proto2", "proto3"):
            self.file.syntax = "editions"
            if f"EDITION_{found}" not in Edition.keys():  # noqa: SIM118
                raise self._error(f"the edition {found[:40]} is unknown")
            self.file.edition = Edition.Value(f"EDITION_{found}")
        self._expect(";")

    def _package(self) -> None:
        self.file.package = self._of("word")
        self._expect(";")

    def _import(self) -> None:
        is_public = self._take("public")
        if not is_public:
            self._take("weak")
        if is_public:
            self.file.public_dependency.append(len(self.file.dependency))
        self.file.dependency.append(self._string().decode("utf-8", "replace"))
        self._expect(";")

    def _block(self) -> None:
        """Pass over everything up to the end of the next block, or of the statement."""
        depth = 0
        while True:
            text, is_string = self._text, self._kind == "string"
            self._next()
            if is_string:
                continue
            depth += (text in "{[") - (text in "}]")
            if depth <= 0 and text in ("}", ";"):
                return

    def _option(self, options: Any) -> None:
        name = self._option_name()
        self._expect("=")
        self._set_option(options, name)
        self._expect(";")

    def _option_name(self) -> str:
        parts = []
        while not (self._kind != "word" and self._text in ("=", "]", ",", ";")):
            parts.append(self._next())
        return "".join(parts)

    def _set_option(self, options: Any, name: str) -> None:
        """Set an option that protobuf itself knows; pass over any other one."""
        value = self._constant()
        target: Any = options
        *path, last = name.split(".")
        for part in path:
            field = target.DESCRIPTOR.fields_by_name.get(part)
            if part != "features" or field is None:
                return
            target = getattr(target, part)
        field = target.DESCRIPTOR.fields_by_name.get(last)
        if last not in ("map_entry", "packed", "allow_alias", "message_set_wire_format") and path != ["features"]:
            return
        if field is not None and field.enum_type is not None and value in field.enum_type.values_by_name:
            setattr(target, last, field.enum_type.values_by_name[value].number)
        elif field is not None and value in ("true", "false"):
            setattr(target, last, value == "true")

    def _constant(self) -> str | bytes | None:
        """A value: a word or number as text, a string as bytes; None: something in brackets, which is passed over."""
        if self._kind == "string":
            return self._string()
        if self._text in ("{", "["):
            depth = 0
            while True:
                text, is_string = self._text, self._kind == "string"
                self._next()
                depth += 0 if is_string else (text in "{[") - (text in "}]")
                if not depth:
                    return None
        sign = "-" if self._take("-") else ""
        self._take("+")
        return sign + self._next()

    # Messages.

    def _message(self, found: DescriptorProto, depth: int) -> None:
        found.name = self._of("word")
        self._expect("{")
        self._body(found, depth)

    def _body(self, found: DescriptorProto, depth: int) -> None:
        if depth > _DEEPEST:
            raise self._error(f"messages are nested more than {_DEEPEST} deep")
        made: list[DescriptorProto] = []
        """Of maps and groups."""
        self._statements(
            {
                "message": lambda: self._message(found.nested_type.add(), depth + 1),
                "enum": lambda: self._enum(found.enum_type.add()),
                "extend": lambda: self._extend(found.extension, made, depth),
                "option": lambda: self._option(found.options),
                "oneof": lambda: self._oneof(found, made, depth),
                "extensions": lambda: self._extensions(found),
                "reserved": self._block,
            },
            lambda: self._field(found.field.add(), made, depth),
        )
        found.nested_type.extend(made)
        for field in found.field:
            if field.proto3_optional:
                field.oneof_index = len(found.oneof_decl)
                found.oneof_decl.add(name=f"_{field.name}")

    def _oneof(self, found: DescriptorProto, made: list[DescriptorProto], depth: int) -> None:
        index = len(found.oneof_decl)
        oneof = found.oneof_decl.add(name=self._of("word"))
        self._expect("{")
        self._statements(
            {"option": lambda: self._option(oneof.options)},
            lambda: self._field(found.field.add(oneof_index=index), made, depth),
        )

    def _extensions(self, found: DescriptorProto) -> None:
        while True:
            first = last = self._integer()
            if self._take("to"):
                last = (1 << 29) - 1 if self._take("max") else self._integer()
            found.extension_range.add(start=first, end=last + 1)
            if not self._take(","):
                break
        self._block()

    def _extend(self, fields: Any, made: Any, depth: int) -> None:
        extendee = self._of("word")
        self._expect("{")
        self._statements({}, lambda: self._field(fields.add(extendee=extendee), made, depth))

    def _field(self, field: FieldDescriptorProto, made: Any, depth: int) -> None:
        label = self._text if self._text in _LABELS and self._kind == "word" else None
        if label is not None:
            self._next()
        field.label = _LABELS[label or "optional"]
        field.proto3_optional = label == "optional" and self.file.syntax == "proto3" and not field.extendee
        kind = self._of("word")
        if kind == "map" and self._take("<"):
            key = self._of("word")
            self._expect(",")
            value = self._of("word")
            self._expect(">")
            self._name_and_number(field)
            entry = DescriptorProto(name="".join(map(_capital, field.name.split("_"))) + "Entry")
            entry.options.map_entry = True
            for number, (name, of) in enumerate((("key", key), ("value", value)), 1):
                _set_type(entry.field.add(name=name, number=number, label=_LABELS["optional"]), of)
            field.label = _LABELS["repeated"]
            field.type_name = entry.name
            made.append(entry)
        elif kind == "group":
            self._name_and_number(field)
            group = DescriptorProto(name=field.name)
            field.type, field.type_name, field.name = FieldDescriptorProto.TYPE_GROUP, field.name, field.name.lower()
            if self._text == "[":
                self._field_options(field)
            self._expect("{")
            self._body(group, depth + 1)
            made.append(group)
            return
        else:
            _set_type(field, kind)
            self._name_and_number(field)
        self._field_options(field)
        self._expect(";")

    def _name_and_number(self, field: FieldDescriptorProto) -> None:
        field.name = self._of("word")
        self._expect("=")
        number = self._integer()
        if not 0 < number < 1 << 29:
            raise self._error(f"field {field.name} has the number {number}")
        field.number = number

    def _field_options(self, field: FieldDescriptorProto) -> None:
        if not self._take("["):
            return
        while not self._take("]"):
            name = self._option_name()
            self._expect("=")
            if name == "default":
                value = self._constant()
                if isinstance(value, bytes):
                    is_text = field.type == FieldDescriptorProto.TYPE_STRING
                    value = value.decode("utf-8", "replace") if is_text else _escaped(value)
                field.default_value = value or ""
            else:
                self._set_option(field.options, name)
            self._take(",")

    def _enum(self, found: EnumDescriptorProto) -> None:
        found.name = self._of("word")
        self._expect("{")

        def value() -> None:
            name = self._of("word")
            self._expect("=")
            found.value.add(name=name, number=self._integer())
            if self._text == "[":
                self._constant()
            self._expect(";")

        self._statements({"option": lambda: self._option(found.options), "reserved": self._block}, value)


def _tokens(text: str) -> list[tuple[str, str, int]]:
    """Kind, text and line of each; at last one of the kind ``end``."""
    found, at, line = [], 0, 1
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise ValueError(f"line {line}: '{text[at : at + 40]}' is no token of a .proto file")
        if match.lastgroup is not None:
            found.append((match.lastgroup, match[0], line))
        line += match[0].count("\n")
        at = match.end()
    return [*found, ("end", "", line)]


def _set_type(field: FieldDescriptorProto, name: str) -> None:
    """A type that is no scalar has its name only; the pool finds what it names."""
    if name in _SCALARS:
        field.type = _SCALARS[name]
    else:
        field.type_name = name


def _capital(word: str) -> str:
    return word[:1].upper() + word[1:]


def _unescaped(data: bytes) -> bytes:
    def one(match: re.Match[bytes]) -> bytes:
        octal, hexadecimal, short, long, other = match.groups()
        if octal or hexadecimal:
            return bytes([int(octal, 8) & 0xFF if octal else int(hexadecimal, 16)])
        if short or long:
            return chr(min(int(short or long, 16), 0x10FFFF)).encode("utf-8", "surrogatepass")
        return _ESCAPED.get(other, other)

    return _ESCAPE.sub(one, data)


def _escaped(data: bytes) -> str:
    """Bytes as a default value has them."""
    return "".join(chr(byte) if 0x20 <= byte < 0x7F and byte not in b"\\\"'" else f"\\{byte:03o}" for byte in data)
