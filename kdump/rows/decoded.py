"""Decoded keys and values as JSON, for many records: those of coordinators as columns, the others one by one.

The text is that of ``payloads.message_json``. Source: docs/spec/decoders.md#2-json-text,
docs/spec/decoders.md#3-coordinator-decoders.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kdump.fast.messages import FieldColumn, MessageColumns, is_flat, read_messages, uuid_texts
from kdump.fast.ragged import windows
from kdump.fast.recordheaders import HeaderColumns
from kdump.fast.records import RecordColumns
from kdump.fast.text import Bytes, Choice, Column, Integer, Literal, RaggedText, assemble
from kdump.format.messagereader import Layout
from kdump.format.record import Headers
from kdump.payloads.decoded import RecordDecoder
from kdump.payloads.internal import CoordinatorDecoder
from kdump.payloads.message_json import json_value

_NUMBER_BYTES: Final = 2
"""Bytes of the type in front of a key, and of the version in front of a value."""
_DELETED: Final = 1 << 20
"""Stands for the version of a null value."""
_NONE: Final = -1 << 20
"""Stands for a missing type or version."""
_IS_PLAIN: Final = np.ones(256, np.bool_)
_IS_PLAIN[:0x20] = _IS_PLAIN[0x80:] = _IS_PLAIN[list(b'"\\')] = False
"""Bytes of a string that JSON shows as they are."""
_BOOLEANS: Final = (b"false", b"true")


@dataclass(frozen=True, slots=True)
class JsonGroup:
    """Records of one type and version, at ``rows`` (ascending), with keys and values as text columns."""

    rows: NDArray[np.intp]
    key: list[Column]
    value: list[Column] | None
    """None: the values are null."""


@dataclass(frozen=True, slots=True)
class Contents:
    """Positions of keys and values of some records in an arena. A size of -1 is null. Shapes (rows,)."""

    arena: NDArray[np.uint8]
    key_start: NDArray[np.int64]
    key_size: NDArray[np.integer]
    value_start: NDArray[np.int64]
    value_size: NDArray[np.integer]
    header_first: NDArray[np.int64]
    header_count: NDArray[np.int32]
    """The headers of each record, by their number in ``headers``."""
    headers: HeaderColumns

    def pairs(self) -> tuple[list[bytes | None], list[bytes | None]]:
        """The keys and the values."""
        return self._pieces(self.key_start, self.key_size), self._pieces(self.value_start, self.value_size)

    def record_headers(self) -> list[Headers]:
        """The headers of each record."""
        if not self.header_count.any():
            return [()] * self.header_count.size
        keys = self._pieces(self.headers.key_start, self.headers.key_size)
        found = list(zip(keys, self._pieces(self.headers.value_start, self.headers.value_size), strict=True))
        return [
            tuple((key or b"", value) for key, value in found[first : first + count])
            for first, count in zip(self.header_first.tolist(), self.header_count.tolist(), strict=True)
        ]

    def _pieces(self, start: NDArray[np.int64], size: NDArray[np.integer]) -> list[bytes | None]:
        view = self.arena.data
        return [
            None if length < 0 else bytes(view[first : first + length])
            for first, length in zip(start.tolist(), size.tolist(), strict=True)
        ]

    def part(self, rows: NDArray[np.intp]) -> Contents:
        """Of some of the records."""
        return Contents(
            self.arena,
            self.key_start[rows],
            self.key_size[rows],
            self.value_start[rows],
            self.value_size[rows],
            self.header_first[rows],
            self.header_count[rows],
            self.headers,
        )


def contents_of(arena: NDArray[np.uint8], records: RecordColumns, rows: slice = slice(None)) -> Contents:
    """The contents of the records of a block."""
    first = np.cumsum(records.header_count, dtype=np.int64) - records.header_count
    return Contents(
        arena,
        records.key_start[rows],
        records.key_size[rows],
        records.value_start[rows],
        records.value_size[rows],
        first[rows],
        records.header_count[rows],
        records.headers,
    )


def json_groups(decoder: CoordinatorDecoder, records: Contents) -> Iterator[JsonGroup]:
    """The records that have columns, each in one group. All other records are in none."""
    if not records.key_size.size:
        return
    types = _numbers(records.arena, records.key_start, records.key_size)
    versions = _numbers(records.arena, records.value_start, records.value_size)
    versions[records.value_size < 0] = _DELETED
    pairs, which = np.unique(np.stack((types, versions)), axis=1, return_inverse=True)
    for group, (record_type, version) in enumerate(pairs.T.tolist()):
        layouts = _layouts(decoder, record_type, version)
        if layouts is not None:
            rows = np.flatnonzero(which.reshape(-1) == group)
            yield from _group(records, rows, record_type, version, layouts)


def _layouts(decoder: CoordinatorDecoder, record_type: int, version: int) -> tuple[Layout, Layout | None] | None:
    """The layouts of keys and values; None where there are no columns."""
    key, value = decoder.key_schema(record_type), decoder.value_schema(record_type)
    if key is None or value is None or not is_flat(key.layout(0)):
        return None
    if version == _DELETED:
        return key.layout(0), None
    if version not in value.versions or not is_flat(value.layout(version)):
        return None
    return key.layout(0), value.layout(version)


def _group(
    records: Contents,
    rows: NDArray[np.intp],
    record_type: int,
    version: int,
    layouts: tuple[Layout, Layout | None],
) -> Iterator[JsonGroup]:
    part = records.part(rows)
    keys = _read(layouts[0], part.arena, part.key_start, part.key_size)
    accepted = keys.accepted & _are_plain(part.arena, keys)
    if layouts[1] is not None:
        values = _read(layouts[1], part.arena, part.value_start, part.value_size)
        accepted &= values.accepted & _are_plain(part.arena, values)
    if not accepted.all():
        # Read again: a second read now and then costs less than a selection in all columns each time.
        if accepted.any():
            yield from _group(records, rows[accepted], record_type, version, layouts)
        return
    key = _framed(b'{"type":"%d","data":' % record_type, part.arena, keys)
    value = None
    if layouts[1] is not None:
        value = _framed(b'{"version":"%d","data":' % version, part.arena, values)
    yield JsonGroup(rows, key, value)


def _numbers(arena: NDArray[np.uint8], start: NDArray[np.int64], size: NDArray[np.integer]) -> NDArray[np.int64]:
    numbers = np.full(start.size, _NONE, np.int64)
    there = size >= _NUMBER_BYTES
    numbers[there] = windows(arena, _NUMBER_BYTES)[start[there]].view(">i2")
    return numbers


def _read(
    layout: Layout, arena: NDArray[np.uint8], start: NDArray[np.int64], size: NDArray[np.integer]
) -> MessageColumns:
    return read_messages(layout, arena, start + _NUMBER_BYTES, start + size)


def _are_plain(arena: NDArray[np.uint8], messages: MessageColumns) -> NDArray[np.bool_]:
    """JSON shows all strings of a row unchanged. Rows that are refused anyway are not checked."""
    plain = np.ones(messages.accepted.size, np.bool_)
    for field in messages.fields:
        if field.member.type == "string":
            size = np.where(messages.accepted, field.size, 0)
            strings = assemble([Bytes(arena, field.start, size)], size.size)
            odd = np.flatnonzero(~_IS_PLAIN[strings.data])
            plain[np.searchsorted(strings.bounds, odd, side="right") - 1] = False
    return plain


def _framed(head: bytes, arena: NDArray[np.uint8], messages: MessageColumns) -> list[Column]:
    columns: list[Column] = [Literal(head + b"{")]
    for number, field in enumerate(messages.fields):
        name = b'%s"%s":' % (b"," if number else b"", field.member.name.encode())
        if field.is_there is None:
            columns += [Literal(name), *_value(arena, field)]
        else:
            text = assemble([Literal(name), *_value(arena, field)], field.is_there.size)
            columns.append(Bytes(text.data, text.bounds[:-1], np.where(field.is_there, np.diff(text.bounds), 0)))
    return [*columns, Literal(b"}}")]


def _value(arena: NDArray[np.uint8], field: FieldColumn) -> list[Column]:
    match field.member.type:
        case "string":
            if field.size.min() < 0:
                is_there = field.size >= 0
                quote = Choice(is_there, (b"", b'"'))
                return [Choice(is_there, (b"null", b"")), quote, Bytes(arena, field.start, field.size), quote]
            return [Literal(b'"'), Bytes(arena, field.start, field.size), Literal(b'"')]
        case "uuid":
            text = uuid_texts(arena, field.start)
            rows, width = text.shape
            column = Bytes(text.reshape(-1), np.arange(rows) * width, np.full(rows, width))
            return [Literal(b'"'), column, Literal(b'"')]
        case "bool":
            return [Choice(field.values, _BOOLEANS)]
    return [Integer(field.values)]


@dataclass(frozen=True, slots=True)
class DecodedJson:
    """Decoded keys and values: one text for each record. The empty text stands for null."""

    key: RaggedText
    value: RaggedText
    failed: NDArray[np.bool_]
    """Shape (rows,): a part of the record does not decode, and is null here."""


def decoded_json(decoder: RecordDecoder, records: Contents) -> DecodedJson:
    """The columns ``decodedKey`` and ``decodedValue``."""
    count = records.key_size.size
    failed = np.zeros(count, np.bool_)
    is_left = np.ones(count, np.bool_)
    keys: list[tuple[NDArray[np.intp], RaggedText]] = []
    values: list[tuple[NDArray[np.intp], RaggedText]] = []
    for group in json_groups(decoder, records) if isinstance(decoder, CoordinatorDecoder) else ():
        is_left[group.rows] = False
        keys.append((group.rows, assemble(group.key, group.rows.size)))
        if group.value is not None:
            values.append((group.rows, assemble(group.value, group.rows.size)))
    left = np.flatnonzero(is_left)
    if left.size:
        # Of all these records only the text is held: their objects are many times as large.
        texts: tuple[list[bytes], list[bytes]] = [], []
        part = records.part(left)
        for row, key, value, headers in zip(left.tolist(), *part.pairs(), part.record_headers(), strict=True):
            decoded = decoder.decode(key, value, headers)
            failed[row] = bool(decoded.findings)
            texts[0].append(_json(decoded.key))
            texts[1].append(_json(decoded.value))
        for parts, found in zip((keys, values), texts, strict=True):
            parts.append((left, RaggedText.join(found)))
    return DecodedJson(merged(count, keys), merged(count, values), failed)


_encode: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=json_value).encode
"""Asks ``json_value`` where there are bytes, and fails where there is a number that JSON does not have."""


def _json(value: Any) -> bytes:
    if value is None or isinstance(value, bytes):
        return b""
    try:
        return _encode(value).encode()
    except ValueError:
        return _encode(json_value(value)).encode()


def merged(rows: int, parts: list[tuple[NDArray[np.intp], RaggedText]]) -> RaggedText:
    """One text for each row, from parts that each have texts for some rows. Other rows have an empty text."""
    if len(parts) == 1 and parts[0][0].size == rows:
        return parts[0][1]
    if not parts:
        return RaggedText(np.empty(0, np.uint8), np.zeros(rows + 1, np.int64))
    data = np.concatenate([text.data for _, text in parts])
    start, size = np.zeros(rows, np.int64), np.zeros(rows, np.int64)
    before = 0
    for at, text in parts:
        start[at] = text.bounds[:-1] + before
        size[at] = np.diff(text.bounds)
        before += text.data.size
    return assemble([Bytes(data, start, size)], rows)
