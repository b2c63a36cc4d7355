"""Converts the entries of one log.

Source: docs/contract.md#5-convert; docs/spec/down-conversion.md#1-down-conversion for older formats. Up to magic 2
Kafka converts only while it appends, and gives new offsets. Here offsets, timestamps, their types and the bounds of
wrappers are kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from enum import IntEnum, auto
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from kdump.codes import Codes, DamageError
from kdump.convert.batches import encode_batch, write_batches, write_large_batch
from kdump.convert.conversion import Conversion, Losses, LossKind, refuse_too_large
from kdump.convert.offsetmap import OffsetMap
from kdump.convert.slices import Selected, SliceTransactions, select, select_large, selected_groups, selected_pieces
from kdump.fast.encoded import EncodedEntries
from kdump.fast.entries import Entries, LargeEntry
from kdump.fast.headers import native_column
from kdump.fast.messageruns import message_runs
from kdump.fast.recordtable import RecordGroups
from kdump.format.batch import (
    CODEC_MASK,
    CONTROL,
    HEADER_SIZE,
    MAGIC,
    NO_SEQUENCE,
    TRANSACTIONAL,
    BatchHeader,
    parse_header,
    write_batch,
)
from kdump.format.legacy import NO_TIMESTAMP
from kdump.kafka.downconvert import convert_down, convert_large
from kdump.reading.outcomes import ABORTED, OPEN, STATES, Outcomes
from kdump.verify.validentries import EntryReader
from kdump.wire import compression


class _EntryFate(IntEnum):
    """What is done with an entry."""

    COPY = auto()
    RECODE = auto()
    """The records stay; header fields or the codec change."""
    WRITE = auto()
    """The records are written in new batches of magic 2."""
    WRITE_OLD = auto()
    """The records are written in new messages of magic 0 or 1."""


class Converter:
    """Converts one log.

    Args:
        reader: yields its entries.
        conversion: the options; ``renumber`` is the first offset of this log.
        outcomes: of the log's transactions; None: they cannot be followed (a stream).
        part: the transactions of the part that is kept; None: no part, or one without markers.
        stretches: takes old and new offsets where the log is renumbered.

    At the end ``records`` is the number of written records, ``losses`` what could not be kept, and ``left_out`` the
    number of unwanted records of aborted transactions.
    """

    def __init__(
        self,
        reader: EntryReader,
        conversion: Conversion,
        outcomes: Outcomes | None,
        part: SliceTransactions | None = None,
        stretches: OffsetMap | None = None,
    ) -> None:
        self._stretches = stretches
        self._reader = reader
        self._conversion = conversion
        self._outcomes = outcomes
        self._part = part
        self._next_offset = conversion.renumber
        self._to_magic = conversion.to_magic
        self._threads = ThreadPoolExecutor(thread_name_prefix="codec")
        self.records = 0
        self.losses = Losses()
        self.left_out = 0

    def entries(self) -> Iterator[EncodedEntries]:
        """The converted entries, in order.

        Raises:
            DamageError: NO_CODEC, the format asked for does not have the codec; SLICE_OPEN, a part would have a
                transaction without an end; OFFSET_TOO_LARGE, the new offsets would be too large; PAYLOAD_TOO_LARGE, a
                batch would become a wrapper over the limit.
            KdumpError: a stream cannot be read.
        """
        highest = self._conversion.highest_epoch
        for encoded in self._converted():
            yield encoded if highest is None else encoded.with_epochs_up_to(highest)

    def _converted(self) -> Iterator[EncodedEntries]:
        for entries in self._reader.entries():
            found = self._batches(entries) if entries.is_v2 else self._messages(entries)
            yield from (encoded for encoded in found if encoded.count)
        if self._part is not None:
            for marker in self._part.finish():
                self.records += marker.count
                yield marker

    def _messages(self, entries: Entries) -> Iterator[EncodedEntries]:
        """Convert entries of magic 0 and 1."""
        groups, selected = entries.groups, self._select(entries)
        self.records += int(selected.kept.sum())
        codec = self._codecs(groups)
        to_magic = groups.magic if self._to_magic is None else np.minimum(groups.magic, self._to_magic)
        if self._to_magic == MAGIC:
            fate = np.full(groups.count, _EntryFate.WRITE)
        else:
            is_changed = (to_magic < groups.magic) | (selected.kept < groups.rows) | self._is_recoded(groups, codec)
            fate = np.where(is_changed | (self._next_offset is not None), _EntryFate.WRITE_OLD, _EntryFate.COPY)
        left = np.flatnonzero(selected.kept > 0)
        for first, last in _runs(fate[left], to_magic[left]):
            numbers = left[first:last]
            kind, magic = fate[numbers[0]], int(to_magic[numbers[0]])
            if kind == _EntryFate.COPY:
                yield _copied(entries, numbers)
                continue
            if isinstance(entries, LargeEntry):
                yield from self._large_message(entries, kind, magic, int(codec[0]))
                continue
            part, part_codec = self._numbered(selected_groups(groups, selected, numbers)), codec[numbers]
            if kind == _EntryFate.WRITE or self._conversion.codec:
                runs = message_runs(part)
                part, part_codec = part.regrouped(runs), part_codec[runs[:-1]]
            if kind == _EntryFate.WRITE:
                yield write_batches(part, part_codec, self._conversion.level)
                continue
            if part_codec.max() == compression.ZSTD:
                raise _no_zstd(f"the message at offset {part.table.offset[0]}", magic)
            if magic == 0:
                self._lose_timestamps(part)
            yield from convert_down(part, magic, part_codec, self._conversion.level)

    def _large_message(self, entry: LargeEntry, fate: _EntryFate, magic: int, codec: int) -> Iterator[EncodedEntries]:
        """Rewrite a wrapper whose records come in pieces."""
        records = self._large_records(entry)
        if fate == _EntryFate.WRITE:
            yield write_large_batch(records, codec, self._conversion.level)
            return
        if codec == compression.ZSTD:
            raise _no_zstd(f"the message at offset {entry.first_offset}", magic)
        yield from self._large_older(records, magic, codec)

    def _large_older(self, records: Iterator[RecordGroups], magic: int, codec: int) -> Iterator[EncodedEntries]:
        """The records of one entry, which come in pieces, as messages of an older format."""

        def counted() -> Iterator[RecordGroups]:
            for part in records:
                self._lose(LossKind.HEADERS, part.table.header_count > 0)
                if magic == 0:
                    self._lose_timestamps(part)
                yield part

        yield from convert_large(counted(), magic, codec, self._conversion.level, self._conversion.limit)

    def _large_records(self, entry: LargeEntry) -> Iterator[RecordGroups]:
        """The selected records of a large entry, with their new offsets."""
        return map(self._numbered, selected_pieces(entry, self._conversion))

    def _select(self, entries: Entries) -> Selected:
        if isinstance(entries, LargeEntry):
            return select_large(entries, self._conversion)
        return select(entries.groups, self._conversion)

    def _batches(self, entries: Entries) -> Iterator[EncodedEntries]:
        """Convert entries of magic 2."""
        groups, selected = entries.groups, self._select(entries)
        if self._part is not None:
            is_kept = (selected.kept > 0) | selected.is_whole
            selected = selected.with_whole(groups, self._part.needed(entries, is_kept))
        is_dropped, is_unmarked = self._drop(entries, selected)
        self.records += int(selected.kept[~is_dropped].sum())
        if self._to_magic is not None and self._to_magic < MAGIC:
            yield from self._older(entries, selected, is_dropped, self._to_magic)
            return
        codec = self._codecs(groups)
        drops_producers = self._next_offset is not None
        if drops_producers:
            self._lose(LossKind.PRODUCERS, _has_producer(groups) & ~is_dropped)
        is_recoded = self._is_recoded(groups, codec)
        fate = np.where(is_unmarked | is_recoded, _EntryFate.RECODE, _EntryFate.COPY)
        fate[~selected.is_whole | drops_producers] = _EntryFate.WRITE
        left = np.flatnonzero(~is_dropped)
        if (fate[left] == _EntryFate.RECODE).any():
            # Every second batch may be a marker. If markers were copied, each run would have one batch.
            fate[fate == _EntryFate.COPY] = _EntryFate.RECODE
        for first, last in _runs(fate[left]):
            numbers = left[first:last]
            if fate[numbers[0]] == _EntryFate.COPY:
                yield _copied(entries, numbers)
                continue
            headers = _new_headers(entries, numbers, is_unmarked, codec, drops_producers)
            if fate[numbers[0]] == _EntryFate.RECODE:
                yield self._recoded(entries, numbers, headers, is_recoded)
            elif isinstance(entries, LargeEntry):
                records = self._large_records(entries)
                yield write_large_batch(records, int(codec[0]), self._conversion.level, headers[0])
            else:
                part = self._numbered(selected_groups(groups, selected, numbers))
                yield write_batches(part, codec[numbers], self._conversion.level, headers)

    def _older(
        self, entries: Entries, selected: Selected, is_dropped: NDArray[np.bool_], to_magic: int
    ) -> Iterator[EncodedEntries]:
        """Write batches as messages of an older format."""
        groups = entries.groups
        codec = self._codecs(groups)
        if self._conversion.codec is not None:
            # Kafka refuses zstd of empty batches too; with another codec asked for, they only vanish.
            is_dropped = is_dropped | (selected.kept == 0)
        if (codec[~is_dropped] == compression.ZSTD).any():
            first = int(np.flatnonzero(~is_dropped & (codec == compression.ZSTD))[0])
            raise _no_zstd(f"the batch at offset {_base_offset(entries, first)}", to_magic)
        is_dropped = is_dropped | (selected.kept == 0)
        self._lose(LossKind.ZSTD, (groups.codec == compression.ZSTD) & ~is_dropped)
        self._lose(LossKind.PRODUCERS, _has_producer(groups) & ~is_dropped)
        numbers = np.flatnonzero(~is_dropped)
        if not numbers.size:
            return
        if isinstance(entries, LargeEntry):
            yield from self._large_older(self._large_records(entries), to_magic, int(codec[0]))
            return
        part = self._numbered(selected_groups(groups, selected, numbers))
        self._lose(LossKind.HEADERS, part.table.header_count > 0)
        if to_magic == 0:
            self._lose_timestamps(part)
        yield from convert_down(part, to_magic, codec[numbers], self._conversion.level)

    def _drop(self, entries: Entries, selected: Selected) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Which batches are left out, and which lose the marker that ends their transaction; shapes (batches,)."""
        headers, conversion, kept = entries.groups.headers, self._conversion, selected.kept
        assert headers is not None
        attributes = native_column(headers, "attributes")
        is_control = attributes & CONTROL != 0
        is_dropped = (kept == 0) & ~(selected.is_whole & (self._next_offset is None))
        if conversion.keeps_markers:
            return is_dropped, np.zeros(is_dropped.size, np.bool_)
        self._lose(LossKind.CONTROL_RECORDS, np.repeat(is_control, kept))
        is_dropped |= is_control
        is_unmarked = (attributes & TRANSACTIONAL != 0) & ~is_control & ~is_dropped
        if not is_unmarked.any():
            return is_dropped, is_unmarked
        if self._outcomes is None:
            self._lose(LossKind.UNDECIDED, np.repeat(is_unmarked, kept))
        else:
            state = self._outcomes.column(headers)
            is_aborted = is_unmarked & (state == STATES.index(ABORTED))
            if conversion.read_committed:
                self.left_out += int(kept[is_aborted].sum())
                is_dropped |= is_aborted
                is_unmarked &= ~is_aborted
            else:
                self._lose(LossKind.ABORTED, np.repeat(is_aborted, kept))
            self._lose(LossKind.OPEN, np.repeat(is_unmarked & (state == STATES.index(OPEN)), kept))
        self._lose(LossKind.TRANSACTIONS, is_unmarked)
        return is_dropped, is_unmarked

    def _codecs(self, groups: RecordGroups) -> NDArray[np.int64]:
        """The codec that each entry gets."""
        if self._conversion.codec is None:
            return groups.codec
        codec = np.full(groups.count, self._conversion.codec)
        if groups.headers is None:
            return codec
        # Markers are never compressed, and batches without records have nothing to compress.
        is_fixed = (groups.rows == 0) | (native_column(groups.headers, "attributes") & CONTROL != 0)
        return np.where(is_fixed, groups.codec, codec)

    def _is_recoded(self, groups: RecordGroups, codec: NDArray[np.int64]) -> NDArray[np.bool_]:
        mask: NDArray[np.bool_] = codec != groups.codec
        if self._conversion.level is not None:
            mask |= (codec == self._conversion.codec) & (groups.rows > 0)
        return mask

    def _recoded(
        self, entries: Entries, numbers: NDArray[np.intp], headers: list[BatchHeader], is_recoded: NDArray[np.bool_]
    ) -> EncodedEntries:
        """Batches with other headers. If they are recoded, their records are in the codec of the header."""
        view, bodies = entries.data, entries.bodies.data

        def encode(number: int, header: BatchHeader) -> bytes:
            if not is_recoded[number]:
                start, end = entries.bounds[number : number + 2].tolist()
                return write_batch(header, view[start + HEADER_SIZE : end])
            records = bodies[int(entries.body_start[number]) : int(entries.body_end[number])]
            return encode_batch(header, records, self._conversion.level)

        # The codecs release the interpreter lock.
        pieces = list(self._threads.map(encode, numbers.tolist(), headers))
        return EncodedEntries.join(MAGIC, pieces, *entries.extents(numbers))

    def _numbered(self, groups: RecordGroups) -> RecordGroups:
        """The groups with new offsets, if these are asked for."""
        if self._next_offset is None:
            return groups
        first, self._next_offset = self._next_offset, self._next_offset + groups.table.rows
        if self._stretches is not None:
            self._stretches.see(groups.table.offset, first)
        refuse_too_large(first, groups.table.rows)
        return groups.with_offsets(first + np.arange(groups.table.rows, dtype=np.int64))

    def _lose(self, loss: LossKind, lost: NDArray[np.bool_]) -> None:
        count = int(np.count_nonzero(lost))
        if count:
            self.losses[loss] += count

    def _lose_timestamps(self, groups: RecordGroups) -> None:
        self._lose(LossKind.TIMESTAMPS, groups.table.timestamp != NO_TIMESTAMP)


def _runs(*columns: NDArray[np.generic]) -> Iterator[tuple[int, int]]:
    """Ranges of entries that are equal in all columns."""
    size = columns[0].size
    is_cut = np.zeros(max(size - 1, 0), np.bool_)
    for column in columns:
        is_cut |= column[1:] != column[:-1]
    return pairwise([0, *(np.flatnonzero(is_cut) + 1).tolist(), size]) if size else iter(())


def _copied(entries: Entries, numbers: NDArray[np.intp]) -> EncodedEntries:
    """The entries unchanged."""
    start, end = entries.bounds[numbers], entries.bounds[numbers + 1]
    # The memory of the chunk is reused.
    data = b"".join(
        entries.data[int(start[first]) : int(end[last - 1])] for first, last in _runs(numbers - np.arange(numbers.size))
    )
    bounds = np.append(0, np.cumsum(end - start))
    magic = int(entries.groups.magic[numbers[0]])
    return EncodedEntries(magic, data, bounds, *entries.extents(numbers))


def _has_producer(groups: RecordGroups) -> NDArray[np.bool_]:
    assert groups.headers is not None
    return native_column(groups.headers, "producer_id") >= 0


def _base_offset(entries: Entries, number: int) -> int:
    return parse_header(entries.data, int(entries.bounds[number])).base_offset


def _new_headers(
    entries: Entries,
    numbers: NDArray[np.intp],
    is_unmarked: NDArray[np.bool_],
    codec: NDArray[np.int64],
    drops_producers: bool,
) -> list[BatchHeader]:
    """The headers of some batches, with other codecs, without fields that they cannot keep."""
    headers = []
    columns = (entries.bounds[numbers], is_unmarked[numbers], codec[numbers])
    for start, loses_marker, kind in zip(*(column.tolist() for column in columns), strict=True):
        header = parse_header(entries.data, start)
        attributes = header.attributes & ~CODEC_MASK | kind
        if loses_marker:
            attributes &= ~TRANSACTIONAL
        header = header._replace(attributes=attributes)
        if drops_producers:
            header = header._replace(producer_id=-1, producer_epoch=-1, base_sequence=NO_SEQUENCE)
        headers.append(header)
    return headers


def _no_zstd(what: str, magic: int) -> DamageError:
    return DamageError(
        Codes.NO_CODEC, f"{what} would have to be compressed with zstd, which magic {magic} does not have (see --codec)"
    )
