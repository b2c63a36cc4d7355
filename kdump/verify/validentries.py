"""The entries of a log as groups of records, without damaged ones.

Damage is what ``kdump verify`` reports as an error of the log itself, and what keeps records from being read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import chain, pairwise
from operator import attrgetter
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kdump.codes import Codes, Finding, Severity
from kdump.fast.blocks import BatchBlock, BlockReader, EntryRange
from kdump.fast.entries import Entries, LargeEntry
from kdump.fast.legacymessages import read_messages
from kdump.fast.pieces import batch_pieces
from kdump.fast.recordtable import RecordGroups
from kdump.format import legacy
from kdump.format import record as v2
from kdump.format.batch import HEADER_SIZE, MAGIC, MAGIC_OFFSET, MAX_INT32, header_dtype, parse_header
from kdump.format.record import in_pieces, is_large
from kdump.log.gaps import Gap
from kdump.log.resync import CheckedChunk, ResyncWalk
from kdump.log.source import Source
from kdump.verify.columns import are_right
from kdump.verify.contents import check_batch
from kdump.verify.entries import EntryChecks
from kdump.verify.gaps import GapChecks, NextSegment
from kdump.verify.headers import check_headers
from kdump.verify.legacycontents import LegacyContents, check_entry
from kdump.verify.table import read_rows

_CHUNK_SIZE: Final = 4 << 20
_STAYS_AS_WRONG: Final = frozenset(
    {
        Codes.CONTROL_RECORD,
        Codes.CONTROL_TYPE,
        Codes.HEADER_ENCODING,
        Codes.INNER_MAGIC,
        Codes.MAX_TIMESTAMP,
        Codes.PRODUCER_FIELDS,
        Codes.UNUSED_ATTRIBUTES,
    }
)
"""Findings of entries that Kafka reads all the same. A conversion keeps these entries."""


class EntryReader:
    """Reads one log. ``findings`` has the errors in what was read so far.

    Args:
        source: the log.
        limit: most bytes to which one entry may decompress.
        in_order: an entry that begins before the end of the previous one is damage.
        base_offset: of the segment; an entry with offsets that do not fit it is damage. None: all fit.
        items: the chunks of the log and the gaps between them; None: what a walk finds in the source.
    """

    def __init__(
        self,
        source: Source,
        limit: int,
        *,
        in_order: bool = False,
        base_offset: int | None = None,
        items: Iterator[CheckedChunk | Gap] | None = None,
    ) -> None:
        self._source = source
        self._items = ResyncWalk(source, chunk_size=_CHUNK_SIZE).items() if items is None else items
        self._limit = limit
        self._gaps = GapChecks(source, NextSegment())
        self._entries = EntryChecks(deep=False, limit=limit)
        self._reader = BlockReader(limit, with_records=True, largest_count=MAX_INT32, only_valid=True)
        self._in_order = in_order
        self._base_offset = base_offset
        self._before = range(0)  # The offsets of the last entry that was in order.
        self.findings: list[Finding] = []
        self.position = 0
        """Bytes read so far."""

    def entries(self) -> Iterator[Entries]:
        """The valid entries in file order.

        Raises:
            KdumpError: a stream cannot be read, or FOREIGN_FILE: the file is no log at all, which is no damage.
        """
        for item in self._items:
            if item.position == self.position == 0 and (isinstance(item, Gap) or 0 in item.damaged[:1]):
                self._refuse_foreign()
            if isinstance(item, Gap):
                self._note(self._gaps.see_gap(item))
                self.position = item.end
                continue
            chunk = _with_magic_2(item)
            damaged = self._check(chunk)
            bounds = [*chunk.starts, chunk.end]
            for part in self._reader.read(chunk.data, bounds, chunk.position, damaged=chunk.damaged):
                if isinstance(part, EntryRange):
                    yield from self._messages(chunk, part, damaged)
                else:
                    yield from self._batches(chunk, part, damaged)
            self.position = chunk.position + chunk.end
        self._note(self._gaps.finish())

    def _refuse_foreign(self) -> None:
        from kdump.log.filetypes import identify

        foreign = identify(self._source)
        if foreign is not None:
            raise foreign.error(self._source.path)

    def _note(self, findings: Iterable[Finding]) -> set[int]:
        """Keep the errors among the findings; returns their positions."""
        errors = [
            finding
            for finding in findings
            if finding.severity is Severity.ERROR and finding.code not in _STAYS_AS_WRONG
        ]
        self.findings += errors
        return {finding.position for finding in errors}

    def _check(self, chunk: CheckedChunk) -> NDArray[np.bool_]:
        """Whether each entry is damaged, as far as its header shows; shape (entries,)."""
        rows = read_rows(chunk, is_after_gap=False)
        damage = self._gaps.see_chunk(chunk, rows)
        found = chain(check_headers(rows), damage, self._entries.check(chunk, rows, in_columns=False))
        positions = self._note(sorted(found, key=attrgetter("position")))
        damaged = np.isin(rows["position"], list(positions)) if positions else np.zeros(rows.size, np.bool_)
        damaged[chunk.damaged] = True
        return damaged

    def _batches(self, chunk: CheckedChunk, block: BatchBlock, damaged: NDArray[np.bool_]) -> Iterator[Entries]:
        assert block.records is not None
        first = int(block.numbers[0])
        bounds = np.array(chunk.bounds(first, first + block.numbers.size), np.int64)
        groups = RecordGroups.of_batches(block)
        entries = Entries(chunk.data, bounds, groups, block.arena, block.body_start, block.body_end)
        valid = are_right(block, block.records)
        yield from self._without_damage(chunk, entries, valid, damaged[first : first + valid.size])

    def _messages(self, chunk: CheckedChunk, legacy: EntryRange, damaged: NDArray[np.bool_]) -> Iterator[Entries]:
        # Unknown codecs and magics are errors of the headers.
        bounds = np.array(chunk.bounds(legacy.first, legacy.last), np.int64)
        for part in read_messages(chunk.data, bounds[:-1], bounds[1:], self._limit):
            own = bounds[part.first : part.last + 1]
            is_damaged = damaged[legacy.first + part.first : legacy.first + part.last]
            yield from self._without_damage(chunk, _legacy(chunk.data, own, part.groups), part.accepted, is_damaged)

    def _without_damage(
        self,
        chunk: CheckedChunk,
        entries: Entries,
        accepted: NDArray[np.bool_],
        damaged: NDArray[np.bool_],
    ) -> Iterator[Entries]:
        """Runs of entries that are not damaged; those that were not accepted are read one by one."""
        kind = np.where(damaged, 2, np.where(accepted, 0, 1))
        cuts = [0, *(np.flatnonzero(np.diff(kind)) + 1).tolist(), kind.size]
        for begin, end in pairwise(cuts):
            if kind[begin] == 0:
                yield from self._ordered(_between(entries, begin, end), chunk.position)
            elif kind[begin] == 1:
                for number in range(begin, end):
                    start, stop = entries.bounds[number : number + 2].tolist()
                    yield from self._alone(chunk.data[start:stop], chunk.position + start)

    def _alone(self, data: memoryview, position: int) -> Iterator[Entries]:
        if data[MAGIC_OFFSET] == MAGIC:
            if not self._note(check_batch(data, position, self._limit)):
                yield from self._ordered(read_batch(data, self._limit), position)
            return
        contents = check_entry(data, position, self._limit)
        if not self._note(iter(contents.findings)):
            yield from self._ordered(_read_message(data, contents, self._limit), position)

    def _ordered(self, entries: Entries, position: int) -> Iterator[Entries]:
        """The entries without those that do not fit the segment, or are out of order.

        ``position``: where their data begins in the log.
        """
        base = self._base_offset
        if base is None:
            yield from self._rising(entries, position)
            return
        first, last, _ = entries.extents(slice(None))
        fits = (first >= base) & (last >= base) & (last - base <= MAX_INT32)
        for begin, end in pairwise([0, *(np.flatnonzero(np.diff(fits)) + 1).tolist(), fits.size]):
            if fits[begin]:
                yield from self._rising(_between(entries, begin, end), position)
                continue
            start, stop = entries.bounds[[begin, end]].tolist()
            message = f"offsets {first[begin]}..{last[begin]} do not fit the file name's {base}"
            if end - begin > 1:
                message += f", with {end - begin - 1:,} more entries"
            self.findings.append(Finding(Codes.OFFSET_RANGE, message, position + start, stop - start))

    def _rising(self, entries: Entries, position: int) -> Iterator[Entries]:
        """The entries without those out of order; their data begins at ``position`` of the log."""
        first, last, _ = entries.extents(slice(None))
        is_after = first > np.append(self._before.stop - 1, last[:-1])
        if is_after.all() or not self._in_order:
            self._before = range(int(first[-1]), int(last[-1]) + 1)
            yield entries
            return
        before = []
        for number, (start, final) in enumerate(zip(first.tolist(), last.tolist(), strict=True)):
            before.append(self._before)
            is_after[number] = start >= self._before.stop
            if is_after[number]:
                self._before = range(start, final + 1)
        for begin, end in pairwise([0, *(np.flatnonzero(np.diff(is_after)) + 1).tolist(), is_after.size]):
            if is_after[begin]:
                yield _between(entries, begin, end)
                continue
            start, stop = entries.bounds[[begin, end]].tolist()
            code, kept = Codes.OFFSETS_BACKWARDS, before[begin]
            if first[begin] >= kept.start:
                code = Codes.OFFSETS_OVERLAP
            message = f"offsets {first[begin]}..{last[begin]} "
            message += f"follow {kept.start}..{kept.stop - 1}" if kept else "are below 0"
            if end - begin > 1:
                message += f", with {end - begin - 1:,} more entries up to {last[begin:end].max()}"
            self.findings.append(Finding(code, message, position + start, stop - start))


def _with_magic_2(chunk: CheckedChunk) -> CheckedChunk:
    """The chunk with 2 in place of the magic of higher ones, as brokers and a dump read them. No CRC covers it."""
    starts = np.array(chunk.starts, np.int64)
    magic = np.frombuffer(chunk.data, np.int8)[starts + MAGIC_OFFSET]
    higher = starts[magic > MAGIC]
    if not higher.size:
        return chunk
    data = bytearray(chunk.data)
    np.frombuffer(data, np.uint8)[higher + MAGIC_OFFSET] = MAGIC
    return replace(chunk, data=memoryview(data))


def _between(entries: Entries, first: int, last: int) -> Entries:
    if first == 0 and last == entries.groups.count:
        return entries
    return Entries(
        entries.data,
        entries.bounds[first : last + 1],
        entries.groups.between(first, last),
        entries.bodies,
        entries.body_start[first:last],
        entries.body_end[first:last],
    )


def read_batch(data: memoryview, limit: int) -> Entries:
    """Read a large batch, or one that only the scalar decoder reads (with warnings, or with padded numbers)."""
    header = parse_header(data)
    body = np.frombuffer(v2.batch_body(header, data, limit), np.uint8)
    headers = np.frombuffer(data[:HEADER_SIZE], header_dtype())

    bounds, one = np.array([0, len(data)]), np.array([0])
    if not is_large(header.record_count, body.size):
        groups = RecordGroups.of_entry(list(v2.read_records(header, data, limit)), header, headers)
        return Entries(data, bounds, groups, body, one, one + body.size)
    groups = RecordGroups.of_entry([], header, headers, header.record_count)
    pieces = partial(batch_pieces, header, data, body, limit)
    return LargeEntry(data, bounds, groups, body, one, one + body.size, pieces, header.base_offset, header.last_offset)


def _read_message(data: memoryview, contents: LegacyContents, limit: int) -> Entries:
    """Read a message of magic 0 or 1 that only the scalar decoder reads, or a large one."""
    entry = legacy.parse_message(data)

    def pieces() -> Iterator[RecordGroups]:
        return (RecordGroups.of_entry(records, entry) for records in in_pieces(legacy.plain_records(entry, limit)))

    bounds = np.array([0, len(data)])
    if not is_large(contents.record_count, contents.size):
        return _legacy(data, bounds, RecordGroups.of_entry(list(legacy.plain_records(entry, limit)), entry))
    assert contents.first_offset is not None
    assert contents.last_offset is not None
    groups = RecordGroups.of_entry([], entry, None, contents.record_count)
    none, one = np.empty(0, np.uint8), np.array([0])
    return LargeEntry(data, bounds, groups, none, one, one, pieces, contents.first_offset, contents.last_offset)


def _legacy(data: memoryview, bounds: NDArray[np.int64], groups: RecordGroups) -> Entries:
    none = np.zeros(groups.count, np.int64)
    return Entries(data, bounds, groups, np.empty(0, np.uint8), none, none)
