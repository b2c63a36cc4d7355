"""Messages of magic 0 and 1, and the messages inside their wrappers, as columns. It only accepts.

Source: docs/spec/formats.md#2-messages-v0-and-v1. A plain entry is accepted when its key and value fill it. A wrapper
is accepted when it has no key, and its inner messages fill its payload, are not compressed, and have right CRCs and a
possible timestamp type. ``kdump.format.legacy`` reads any other entry.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kdump.codes import DamageError
from kdump.fast.blocks import BatchBlock, EntryRange
from kdump.fast.ragged import windows
from kdump.fast.recordheaders import HeaderColumns
from kdump.fast.records import RecordColumns
from kdump.fast.recordtable import RecordGroups, RecordTable
from kdump.fast.writemessages import message_crcs
from kdump.format.batch import (
    CODEC_MASK,
    CODEC_NAMES,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC_OFFSET,
    MIN_ENTRY_LENGTH,
    header_dtype,
)
from kdump.format.legacy import NO_TIMESTAMP, head_dtype
from kdump.wire import compression
from kdump.wire.checksum import Buffer

_HEAD: Final = head_dtype(1)
"""As large as the smallest entry; in magic 0 the timestamp's place holds other fields."""
_KEY_POSITION: Final = np.array([18, 26])
"""By magic."""
_SHARED: Final = CODEC_MASK | LOG_APPEND_TIME
"""Attributes that messages of magic 1 share with batches."""
_SMALLEST: Final = LOG_OVERHEAD + MIN_ENTRY_LENGTH
_ARENA_SIZE: Final = 8 << 20
"""Bytes of decompressed wrappers that are decoded together."""
_LARGEST_CONTENT: Final = 4 << 20
"""The largest decompressed wrapper in bytes. Larger ones are read message by message, in less memory."""
_FEW_LANES: Final = 32
"""Up to this many wrappers, each is walked alone: a numpy step would cost more than a loop over them."""


@dataclass(frozen=True, slots=True)
class _Messages:
    """The fields of whole entries of magic 0 or 1; every array has the shape (messages,)."""

    offset: NDArray[np.int64]
    crc: NDArray[np.uint32]
    magic: NDArray[np.int64]
    attributes: NDArray[np.uint8]
    timestamp: NDArray[np.int64]
    """Its own, -1 for magic 0."""
    key_start: NDArray[np.int64]
    key_size: NDArray[np.int32]
    value_start: NDArray[np.int64]
    value_size: NDArray[np.int32]
    fits: NDArray[np.bool_]
    """The magic is 0 or 1, and key and value fill the message."""

    @classmethod
    def read(cls, arena: NDArray[np.uint8], start: NDArray[np.int64], end: NDArray[np.int64]) -> _Messages:
        """Messages at ``arena[start:end]``, of 26 bytes or more each."""
        heads = windows(arena, _HEAD.itemsize)[start].view(_HEAD)
        fits = (heads["magic"] >= 0) & (heads["magic"] <= 1)
        magic = np.where(fits, heads["magic"], 0).astype(np.int64)
        # A size that would lie outside is read at the end instead; such a message does not fit.
        last = end - 4
        at = start + _KEY_POSITION[magic]
        fits &= at <= last
        key_size = _int32_at(arena, np.minimum(at, last))
        key_start = at + 4
        at = key_start + np.maximum(key_size, 0)
        fits &= (key_size >= -1) & (at <= last)
        value_size = _int32_at(arena, np.minimum(at, last))
        value_start = at + 4
        fits &= (value_size >= -1) & (value_start + np.maximum(value_size, 0) == end)
        return cls(
            heads["offset"].astype(np.int64),
            heads["crc"].astype(np.uint32),
            magic,
            np.ascontiguousarray(heads["attributes"]),
            np.where(magic == 0, NO_TIMESTAMP, heads["timestamp"]).astype(np.int64),
            key_start,
            key_size.astype(np.int32),
            value_start,
            value_size.astype(np.int32),
            fits,
        )

    def take(self, index: NDArray[np.intp] | NDArray[np.bool_] | slice) -> _Messages:
        """Some messages, in the order of ``index``."""
        return _Messages(*(getattr(self, name)[index] for name in self.__slots__))

    def joined(self, others: _Messages) -> _Messages:
        """These, and ``others`` after them."""
        return _Messages(*(np.concatenate((getattr(self, name), getattr(others, name))) for name in self.__slots__))


@dataclass(frozen=True, slots=True)
class MessagePart:
    """Entries ``first`` to ``last`` (exclusive) of those that were asked for."""

    first: int
    last: int
    accepted: NDArray[np.bool_]
    """Shape (last - first,)."""
    groups: RecordGroups
    """A group an entry; that of a refused one is empty."""


def read_messages(
    view: memoryview, starts: NDArray[np.int64], ends: NDArray[np.int64], limit: int
) -> Iterator[MessagePart]:
    """The records of legacy entries whose framing and CRCs are right, in order.

    Args:
        view: the chunk; the records of plain messages refer to it.
        starts: where each entry begins in it, shape (entries,), one or more.
        ends: where each one ends.
        limit: most bytes that one wrapper may decompress to; those of more than some megabytes are refused.
    """
    arena = np.frombuffer(view, np.uint8)
    entries = _Messages.read(arena, starts, ends)
    codec = (entries.attributes & CODEC_MASK).astype(np.int64)
    accepted = entries.fits & (codec <= compression.LZ4) & ((codec == 0) | (entries.key_size < 0))
    wrappers = np.flatnonzero(accepted & (codec > 0))
    for first, last, contents in _contents(view, entries, codec, wrappers, limit):
        part = slice(first, last)
        yield MessagePart(first, last, *_read_part(view, entries.take(part), codec[part], accepted[part], contents))


def message_blocks(
    view: memoryview,
    bounds: NDArray[np.int64],
    first: int,
    position: int,
    limit: int,
    *,
    with_records: bool,
    only_valid: bool,
) -> Iterator[BatchBlock | EntryRange]:
    """Legacy entries in the form of batches, in order. Those that have no columns are refused or in a range.

    The headers have what a message has too; ``crc`` is its CRC-32, and of magic 0 ``max_timestamp`` is -1.

    Args:
        view: the chunk.
        bounds: where each entry begins in it, and where the last one ends.
        first: number of the first entry in the chunk.
        position: of the chunk in the file.
        limit: see ``read_messages``.
        with_records: decode the records too; wrappers with a wrong CRC are refused then.
        only_valid: refuse all entries with a wrong CRC.
    """
    arena = np.frombuffer(view, np.uint8)
    starts, ends = bounds[:-1], bounds[1:]
    entries = _Messages.read(arena, starts, ends)
    is_valid = message_crcs(arena, starts, ends) == entries.crc
    codec = entries.attributes & CODEC_MASK
    eligible = (arena[starts + MAGIC_OFFSET] <= 1) & (codec < len(CODEC_NAMES))
    eligible &= is_valid | ((codec == 0) | (not with_records)) & (not only_valid)
    # What is refused is judged by the scalar decoder.
    is_valid |= ~eligible
    headers = np.zeros(starts.size, header_dtype())
    headers["base_offset"], headers["crc"], headers["magic"] = entries.offset, entries.crc, entries.magic
    headers["batch_length"] = ends - starts - LOG_OVERHEAD
    headers["max_timestamp"] = entries.timestamp
    headers["attributes"] = np.where(eligible, entries.attributes & np.where(entries.magic, _SHARED, CODEC_MASK), 0)
    numbers = np.arange(first, first + starts.size)

    def block(part: slice, arena: NDArray[np.uint8], records: RecordColumns | None) -> BatchBlock:
        places = starts[part], ends[part]
        return BatchBlock(numbers[part], headers[part], places[0] + position, is_valid[part], arena, records, *places)

    if with_records:
        for found in read_messages(view, starts, ends, limit):
            part = slice(found.first, found.last)
            accepted = found.accepted & eligible[part]
            records = _as_records(found, entries.offset[part])
            if accepted.all():
                yield block(part, found.groups.table.arena, records)
            else:
                records = replace(records, accepted=accepted).select(accepted[records.batch], np.ones_like(accepted))
                yield block(part, found.groups.table.arena, records)
        return
    cuts = np.flatnonzero(np.diff(eligible, prepend=not eligible[0], append=not eligible[-1])).tolist()
    for begin, end in pairwise(cuts):
        yield block(slice(begin, end), arena, None) if eligible[begin] else EntryRange(first + begin, first + end)


def _as_records(part: MessagePart, base_offset: NDArray[np.int64]) -> RecordColumns:
    """The records of a part; ``base_offset``, shape (entries,), is that of the entries."""
    table, rows = part.groups.table, part.groups.rows
    batch = np.repeat(np.arange(rows.size, dtype=np.int32), rows)
    return RecordColumns(
        part.accepted,
        part.groups.bounds[:-1],
        rows,
        table.headers,
        batch,
        table.timestamp,
        table.offset - base_offset.take(batch),
        table.key_start,
        table.key_size,
        table.value_start,
        table.value_size,
        table.header_count,
    )


def stored_crcs(arena: NDArray[np.uint8], key_start: NDArray[np.int64], magic: NDArray[np.int64]) -> NDArray[np.int64]:
    """The CRCs that messages have whose keys begin there; shapes (messages,)."""
    at = key_start - (_KEY_POSITION + 4)[magic] + LOG_OVERHEAD
    crcs: NDArray[np.int64] = windows(arena, 4)[at].view(">u4").astype(np.int64)
    return crcs


def _read_part(
    view: memoryview,
    entries: _Messages,
    codec: NDArray[np.int64],
    accepted: NDArray[np.bool_],
    contents: list[Buffer],
) -> tuple[NDArray[np.bool_], RecordGroups]:
    """Which entries are accepted, which is changed in place, and a group an entry; ``contents``: of each wrapper."""
    arena = np.frombuffer(view, np.uint8)
    number = np.flatnonzero(accepted & (codec == 0))
    messages, offset, timestamp = entries.take(number), entries.offset[number], entries.timestamp[number]
    wrappers = np.flatnonzero(accepted & (codec > 0))
    if wrappers.size:
        ends_inside = np.cumsum(np.fromiter(map(len, contents), np.int64, len(contents))) + arena.size
        arena = np.frombuffer(b"".join((view, *contents)), np.uint8)
        inside = _InnerMessages.read(arena, np.append(len(view), ends_inside)[:-1], ends_inside, entries.take(wrappers))
        accepted[wrappers[~inside.accepted]] = False
        number = np.concatenate((number, wrappers[inside.wrapper]))
        order = np.argsort(number, kind="stable")
        number = number[order]
        messages = messages.joined(inside.messages).take(order)
        offset = np.concatenate((offset, inside.offset))[order]
        timestamp = np.concatenate((timestamp, inside.timestamp))[order]
    table = RecordTable(
        arena,
        offset,
        timestamp,
        messages.key_start,
        messages.key_size,
        messages.value_start,
        messages.value_size,
        np.zeros(number.size, np.int32),
        HeaderColumns.none(),
    )
    groups = RecordGroups(
        table,
        np.append(0, np.cumsum(np.bincount(number, minlength=codec.size))),
        entries.magic,
        codec,
        (entries.magic == 1) & (entries.attributes & LOG_APPEND_TIME != 0),
        entries.timestamp,
    )
    return accepted, groups


def _contents(
    view: memoryview, entries: _Messages, codec: NDArray[np.int64], wrappers: NDArray[np.intp], limit: int
) -> Iterator[tuple[int, int, list[Buffer]]]:
    """(first, last, contents) of ranges of entries: what is inside each wrapper; nothing where it is not decompressed.

    A range has some megabytes of contents, or the one wrapper that has more.
    """
    first = size = 0
    contents: list[Buffer] = []
    columns = (wrappers, *(column[wrappers] for column in (entries.value_start, entries.value_size)))
    columns = (*columns, codec[wrappers], entries.magic[wrappers])
    for number, start, length, kind, magic in zip(*(column.tolist() for column in columns), strict=True):
        try:
            content: Buffer = compression.decompress(
                kind, view[start : start + length], magic=magic, limit=min(limit, _LARGEST_CONTENT)
            )
        except (DamageError, ValueError):
            content = b""
        contents.append(content)
        size += len(content)
        if size >= _ARENA_SIZE:
            yield first, number + 1, contents
            first, size, contents = number + 1, 0, []
    if first < codec.size:
        yield first, codec.size, contents


@dataclass(frozen=True, slots=True)
class _InnerMessages:
    """The messages inside the accepted ones of some wrappers, in order."""

    accepted: NDArray[np.bool_]
    """Shape (wrappers,)."""
    wrapper: NDArray[np.intp]
    """Shape (messages,), as all below: the number of the message's wrapper."""
    messages: _Messages
    offset: NDArray[np.int64]
    """Absolute."""
    timestamp: NDArray[np.int64]
    """As consumers see it."""

    @classmethod
    def read(
        cls, arena: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64], wrappers: _Messages
    ) -> _InnerMessages:
        """The contents of wrapper w lie in ``arena[starts[w]:ends[w]]``."""
        start, end, wrapper, accepted = _walk(arena, starts, ends)
        messages = _Messages.read(arena, start, end)
        # As verify wants it: the magic of the wrapper, and rising offsets up to the wrapper's own.
        right = messages.fits & (messages.attributes & CODEC_MASK == 0) & (messages.magic == wrappers.magic[wrapper])
        right &= message_crcs(arena, start, end) == messages.crc
        is_log_append_time = (wrappers.magic == 1) & (wrappers.attributes & LOG_APPEND_TIME != 0)
        has_time_of_wrapper = is_log_append_time[wrapper] & (messages.timestamp == wrappers.timestamp[wrapper])
        right &= (messages.attributes & LOG_APPEND_TIME == 0) | has_time_of_wrapper
        is_first = np.diff(wrapper, prepend=-1) > 0
        right &= is_first | (np.diff(messages.offset, prepend=0) > 0)
        last = np.flatnonzero(np.diff(wrapper, append=accepted.size))
        base = np.zeros(accepted.size, np.int64)
        is_relative = (wrappers.magic == 1) & (wrappers.offset != 0)
        last_offset = wrappers.offset.copy()
        last_offset[wrapper[last]] = messages.offset[last]
        base[is_relative] = np.where(wrappers.offset < last_offset, -1, wrappers.offset - last_offset)[is_relative]
        accepted &= (base >= 0) & ((wrappers.magic == 1) | (wrappers.offset == last_offset))
        accepted[wrapper[~right]] = False
        timestamp = np.where(is_log_append_time[wrapper], wrappers.timestamp[wrapper], messages.timestamp)
        keep = accepted[wrapper]
        offset = (base[wrapper] + messages.offset)[keep]
        return cls(accepted, wrapper[keep], messages.take(keep), offset, timestamp[keep])


def _walk(
    arena: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.intp], NDArray[np.bool_]]:
    """The messages that lie side by side in each of some ranges of the arena, range by range.

    Returns where each begins and ends and the number of its range, and which ranges they fill. While there are many
    ranges, all are walked in step. The walk of a range ends at damage.
    """
    lanes = np.arange(starts.size)
    found = [(starts[:0], ends[:0], lanes[:0])]
    at = starts.copy()
    filled = np.zeros(starts.size, np.bool_)
    while lanes.size > _FEW_LANES:
        is_open = at <= ends[lanes] - _SMALLEST
        lanes, at = lanes[is_open], at[is_open]
        if not lanes.size:
            break
        end = at + LOG_OVERHEAD + _int32_at(arena, at + 8)
        is_whole = (end >= at + _SMALLEST) & (end <= ends[lanes])
        lanes, at, end = lanes[is_whole], at[is_whole], end[is_whole]
        found.append((at, end, lanes))
        filled[lanes[end == ends[lanes]]] = True
        at = end
    for lane, start in zip(lanes.tolist(), at.tolist(), strict=True):
        bounds = _walk_alone(arena[start : ends[lane]].tobytes())
        filled[lane] |= bounds[-1] == ends[lane] - start > 0
        places = np.array(bounds, np.int64) + start
        found.append((places[:-1], places[1:], np.full(len(bounds) - 1, lane)))
    start, end, lane_of = (np.concatenate(column) for column in zip(*found, strict=True))
    order = np.argsort(lane_of, kind="stable")
    return start[order], end[order], lane_of[order], filled


def _walk_alone(body: bytes) -> list[int]:
    """The bounds of the messages in ``body``, as far as they go."""
    bounds = [0]
    position = 0
    while len(body) - position >= _SMALLEST:
        length = int.from_bytes(body[position + 8 : position + LOG_OVERHEAD], "big", signed=True)
        position += LOG_OVERHEAD + length
        if length < MIN_ENTRY_LENGTH or position > len(body):
            break
        bounds.append(position)
    return bounds


def _int32_at(arena: NDArray[np.uint8], at: NDArray[np.int64]) -> NDArray[np.int64]:
    return windows(arena, 4)[at].view(">i4").astype(np.int64)
