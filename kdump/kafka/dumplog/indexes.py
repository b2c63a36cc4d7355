"""``.index`` and ``.timeindex`` files as DumpLogSegments prints and checks them.

Source: shared/spec/dump-output.md sections 6 and 7. Unlike the Java tool nothing is ever trimmed or created.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kdump.codes import Codes, DamageError
from kdump.format import legacy
from kdump.format import record as v2
from kdump.format.batch import HEADER_SIZE, MAGIC_OFFSET, parse_header
from kdump.format.index import (
    OFFSET_ENTRY_SIZE,
    TIME_ENTRY_SIZE,
    OffsetEntry,
    TimeEntry,
    parse_offset_index,
    parse_time_index,
    used_entries,
)
from kdump.kafka.dumplog.batches import BatchTable, Located, batch_at
from kdump.kafka.dumplog.options import DumpOptions
from kdump.kafka.dumplog.reports import Reports
from kdump.log.source import Source, read_whole

_WARM_ENTRIES_BYTES = 8192
_NO_TIMESTAMP = -1


@dataclass(frozen=True, slots=True)
class IndexFile:
    """An index on its way to text: its path, its printed name, the base offset in its name, the log beside it."""

    path: str
    name: str
    base_offset: int
    log: Source

    def offset_index_lines(self, options: DumpOptions, reports: Reports) -> Iterator[str]:
        """The lines of an .index, lazily; mismatches go to ``reports``. DamageError where the Java tool aborts."""
        data = read_whole(self.path)
        entries = parse_offset_index(data, self.base_offset)
        if not entries:
            yield f"{self.name} is empty.\n"
            return
        if options.index_sanity_check:
            _check_sanity(len(data), OFFSET_ENTRY_SIZE, entries, self.base_offset)
            yield f"{self.name} passed sanity check.\n"
            return
        size = self.log.size or 0
        for number, entry in used_entries(entries, self.base_offset):
            if not 0 <= entry.position <= size:
                raise _bad_entry(number, OFFSET_ENTRY_SIZE, f"its position {entry.position} lies outside the log")
            batch = batch_at(self.log, entry.position, min(entry.position + options.max_message_size, size))
            if batch is None:
                raise _bad_entry(number, OFFSET_ENTRY_SIZE, f"no whole batch at position {entry.position} of the log")
            if batch.last_offset != entry.offset:
                reports.index_mismatch(self.path, entry.offset, batch.last_offset)
            if not options.verify_index_only:
                yield f"offset: {entry.offset} position: {entry.position}\n"

    def time_index_lines(self, index_path: str, options: DumpOptions, reports: Reports) -> Iterator[str]:
        """The lines of a .timeindex, lazily; what does not fit the log goes to ``reports``.

        ``index_path`` is the .index beside it. DamageError where the Java tool aborts.
        """
        data = read_whole(self.path)
        entries = parse_time_index(data, self.base_offset)
        if options.index_sanity_check:
            if entries and entries[-1].timestamp < entries[0].timestamp:
                raise DamageError(
                    Codes.INDEX,
                    f"the last timestamp {entries[-1].timestamp} is below the first, {entries[0].timestamp}",
                )
            _check_sanity(len(data), TIME_ENTRY_SIZE, entries, self.base_offset)
            yield f"{self.name} passed sanity check.\n"
            return
        if not entries:
            return
        index = parse_offset_index(read_whole(index_path), self.base_offset)
        table = BatchTable(self.log)
        previous = _NO_TIMESTAMP
        for number, entry in used_entries(entries, self.base_offset):
            position = lookup(index, entry.offset)
            if not 0 <= position <= (self.log.size or 0):
                raise _bad_entry(number, TIME_ENTRY_SIZE, f"the index leads to position {position}, outside the log")
            batch = table.first_reaching(entry.offset, position)
            if batch is None:
                reports.offset_not_found(self.path, entry.offset, -1)
            elif batch.last_offset != entry.offset:
                reports.offset_not_found(self.path, entry.offset, batch.last_offset)
            else:
                timestamp = max_timestamp(self.log, batch, options.max_decompressed_size)
                if timestamp != entry.timestamp:
                    reports.timestamp_mismatch(self.path, entry.timestamp, timestamp)
                if previous >= entry.timestamp:
                    reports.timestamp_out_of_order(self.path, entry.timestamp, previous)
            if not options.verify_index_only:
                yield f"timestamp: {entry.timestamp} offset: {entry.offset}\n"
            previous = entry.timestamp


def lookup(index: list[OffsetEntry], offset: int) -> int:
    """``OffsetIndex.lookup``: the position of the greatest entry at or below ``offset``, 0 when there is none.

    The search is the broker's own, warm section first: on entries that do not rise (zero padding behind the used
    ones, damage) only the same steps end at the same entry.
    """
    if not index:
        return 0
    last = len(index) - 1
    first_warm = max(0, last - _WARM_ENTRIES_BYTES // OFFSET_ENTRY_SIZE)
    if index[first_warm].offset < offset:
        return _search(index, offset, first_warm, last)
    if index[0].offset > offset:
        return 0
    return _search(index, offset, 0, first_warm)


def _search(index: list[OffsetEntry], offset: int, low: int, high: int) -> int:
    while low < high:
        middle = (low + high + 1) >> 1
        found = index[middle].offset
        if found == offset:
            return index[middle].position
        if found > offset:
            high = middle - 1
        else:
            low = middle
    return index[low].position


def max_timestamp(log: Source, batch: Located, limit: int) -> int:
    """The largest record timestamp (ms) of a batch by decoding it, -1 for none. DamageError when it does not decode."""
    data = memoryview(log.read(batch.position, batch.size))
    try:
        if 2 <= data[MAGIC_OFFSET] <= 127:
            if len(data) < HEADER_SIZE:
                raise DamageError(Codes.HEADER_CUT, "the batch is shorter than its header")
            timestamps = (record.timestamp for record in v2.read_records(parse_header(data), data, limit))
        else:
            entry = legacy.parse_message(data)
            timestamps = (record.timestamp for record in legacy.read_records(entry, limit))
        return max(_NO_TIMESTAMP, max(timestamps, default=_NO_TIMESTAMP))
    except DamageError as error:
        raise error.located(log.path, batch.position) from None


def _check_sanity(size: int, entry_size: int, entries: list[OffsetEntry] | list[TimeEntry], base_offset: int) -> None:
    if entries and entries[-1].offset < base_offset:
        raise DamageError(
            Codes.INDEX, f"the last offset {entries[-1].offset} is less than the base offset {base_offset}"
        )
    if size % entry_size:
        raise DamageError(Codes.INDEX, f"{size} bytes are not a multiple of {entry_size}")


def _bad_entry(number: int, entry_size: int, what: str) -> DamageError:
    return DamageError(Codes.INDEX_ENTRY, f"entry {number}: {what}", position=number * entry_size)
