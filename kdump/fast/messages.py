"""Messages of one schema and version as columns.

It accepts only whole messages in which ``format.message`` would refuse nothing. Schemas with arrays or structs in that
version have no columns, and neither has a row with unusual tagged fields.

Source: docs/spec/formats.md#10-messages-with-a-schema.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kdump.fast.ragged import windows
from kdump.fast.varints import read_varints
from kdump.format.messagereader import FIXED_SIZES, LONGEST_STRING, UUID_SIZE, Layout, Member

NULL: Final = -1
_INTEGERS: Final = {"int8": ">i1", "int16": ">i2", "int32": ">i4", "int64": ">i8", "uint16": ">u2", "uint32": ">u4"}
_FLAT: Final = frozenset({*_INTEGERS, "bool", "string", "uuid"})


@dataclass(frozen=True, slots=True)
class FieldColumn:
    """One member of every row.

    Of an integer or a boolean the ``values``; of a string or uuid where its bytes are: ``start`` and ``size`` in the
    arena, NULL for null. ``is_there``: a tagged member is not at its default; None: it is in every row. Shape (rows,).
    """

    member: Member
    values: NDArray[np.int64]
    start: NDArray[np.int64]
    size: NDArray[np.int64]
    is_there: NDArray[np.bool_] | None = None


@dataclass(frozen=True, slots=True)
class MessageColumns:
    """The members of the messages in the order of the schema. The values of refused rows have no meaning."""

    accepted: NDArray[np.bool_]
    """Shape (rows,)."""
    fields: tuple[FieldColumn, ...]


def is_flat(layout: Layout) -> bool:
    """Messages of this layout have columns.

    They have no arrays and structs, and their tagged members come last, in the order of their tags, and are of one
    size each.
    """
    # -1 for untagged members, which come first.
    tags = [-1 if member.tag is None else member.tag for member in layout.members]
    return tags == sorted(tags) and max(tags[:1], default=-1) < 0 and all(map(_is_flat, layout.members))


def _is_flat(member: Member) -> bool:
    return (
        member.type in _FLAT
        and not member.is_array
        and (member.tag is None or (not member.is_nullable and member.type != "string"))
    )


def read_messages(
    layout: Layout, arena: NDArray[np.uint8], start: NDArray[np.int64], end: NDArray[np.int64]
) -> MessageColumns:
    """Read the message at ``arena[start:end]`` of every row; shapes (rows,), one row or more.

    ``layout``: a flat one. Bytes after a message are not looked at.
    """
    reader = _RowCursor(layout.is_flexible, arena, start)
    fields = [reader.read(member) for member in layout.members if member.tag is None]
    if layout.is_flexible:
        fields += reader.read_tagged([member for member in layout.members if member.tag is not None])
    return MessageColumns(reader.accepted & (reader.at <= end), tuple(fields))


class _RowCursor:
    """A position for each row. A position after the end is found at last, as positions only grow."""

    def __init__(self, is_flexible: bool, arena: NDArray[np.uint8], at: NDArray[np.int64]) -> None:
        self._is_flexible = is_flexible
        self._arena = arena
        self._nothing = np.zeros(at.size, np.int64)
        self.at = at
        self.accepted = np.ones(at.size, np.bool_)

    def read(self, member: Member) -> FieldColumn:
        """The next member, of every row."""
        match member.type:
            case "string":
                return self._string(member)
            case "uuid":
                start = self.at
                self.at = start + UUID_SIZE
                return FieldColumn(member, self._nothing, start, np.full(start.size, UUID_SIZE))
            case "bool":
                return FieldColumn(member, (self._integers(">i1") != 0).astype(np.int64), self.at, self._nothing)
        return FieldColumn(member, self._integers(_INTEGERS[member.type]), self.at, self._nothing)

    def _integers(self, layout: str) -> NDArray[np.int64]:
        width = int(layout[2:])
        if self._arena.size < width:
            self.at = self.at + width
            return self._nothing
        inside = np.minimum(self.at, self._arena.size - width)
        self.at = self.at + width
        return windows(self._arena, width)[inside].view(layout).astype(np.int64)

    def _string(self, member: Member) -> FieldColumn:
        if self._is_flexible:
            # A size that is negative in Java is larger than the longest string here, and refused.
            raw, start = read_varints(self._arena, self.at)
            size = raw.astype(np.int64) - 1
        else:
            size = np.maximum(self._integers(">i2"), NULL)
            start = self.at
        self.accepted &= (size >= (NULL if member.is_nullable else 0)) & (size <= LONGEST_STRING)
        self.at = start + np.maximum(size, 0)
        return FieldColumn(member, self._nothing, start, size)

    def read_tagged(self, members: list[Member]) -> list[FieldColumn]:
        """The tagged section: known members, each at most once and in order, and nothing else."""
        count, self.at = read_varints(self._arena, self.at)
        self.accepted &= count <= len(members)
        left = np.where(self.accepted, count, 0).astype(np.int64)
        fields = []
        for member in members:
            is_there = left > 0
            fields.append(self._tagged(member, is_there))
            left -= is_there
        self.accepted &= left == 0
        return fields

    def _tagged(self, member: Member, is_there: NDArray[np.bool_]) -> FieldColumn:
        """The next member where ``is_there`` (in: more members follow, out: this one does)."""
        before = self.at
        tag, after_tag = read_varints(self._arena, before)
        size, after_size = read_varints(self._arena, after_tag)
        is_there &= tag == member.tag
        width = UUID_SIZE if member.type == "uuid" else FIXED_SIZES[member.type]
        self.accepted &= ~is_there | (size == width)
        self.at = after_size
        column = self.read(member)
        self.at = np.where(is_there, self.at, before)
        return replace(column, is_there=is_there & ~self._is_default(column))

    def _is_default(self, column: FieldColumn) -> NDArray[np.bool_]:
        member = column.member
        if member.type != "uuid":
            assert isinstance(member.default, int)
            return np.asarray(column.values == member.default)
        default = np.frombuffer(str(member.default).encode(), np.uint8)
        return np.asarray((uuid_texts(self._arena, column.start) == default).all(axis=1))


_SEXTETS: Final = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", np.uint8)
_UUID_CHARACTERS: Final = len(urlsafe_b64encode(bytes(UUID_SIZE)).rstrip(b"="))


def uuid_texts(arena: NDArray[np.uint8], start: NDArray[np.int64]) -> NDArray[np.uint8]:
    """The 22 characters of the uuid at each ``start``; shape (rows, 22). One after the arena is anything."""
    padded = np.zeros((start.size, 18), np.uint32)
    if arena.size >= UUID_SIZE:
        inside = np.minimum(start, arena.size - UUID_SIZE)
        padded[:, :UUID_SIZE] = windows(arena, UUID_SIZE)[inside].view(np.uint8).reshape(-1, UUID_SIZE)
    triples = padded[:, 0::3] << 16 | padded[:, 1::3] << 8 | padded[:, 2::3]
    sextets = np.stack([triples >> shift & 0x3F for shift in (18, 12, 6, 0)], axis=2)
    return _SEXTETS[sextets.reshape(start.size, -1)[:, :_UUID_CHARACTERS]]
