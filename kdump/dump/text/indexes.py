"""``.index`` and ``.timeindex`` files as DumpLogSegments prints and checks them.

Source: docs/spec/dump-output.md#6-offset-indexes, docs/spec/dump-output.md#7-time-indexes. Unlike the Java tool, kdump
never trims or creates a file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from kdump.codes import Codes, DamageError
from kdump.dump.text.batches import NO_TIMESTAMP, BatchSearch, Located, MaxTimestamps, batch_at
from kdump.dump.text.options import TextOptions
from kdump.dump.text.reports import Reports
from kdump.format.index import (
    OFFSET_ENTRY_SIZE,
    TIME_ENTRY_SIZE,
    OffsetEntry,
    TimeEntry,
    parse_offset_index,
    parse_time_index,
    used_entries,
)
from kdump.log.source import Source

_WARM_ENTRIES_BYTES = 8192
_ENTRIES_AT_A_TIME = 2048


@dataclass(frozen=True, slots=True)
class DumpedIndex:
    """An index to be printed: its path, printed name, base offset and contents, and the log beside it.

    ``index_data``: for a .timeindex, the contents of the .index.
    """

    path: str
    name: str
    base_offset: int
    data: bytes
    log: Source
    index_data: bytes = b""

    def offset_index_lines(self, options: TextOptions, reports: Reports) -> Iterator[str]:
        """The lines of an .index, lazily; mismatches go to ``reports``. DamageError where the Java tool aborts."""
        data = self.data
        entries = parse_offset_index(data, self.base_offset)
        if not entries:
            yield f"{self.name} is empty.\n"
            return
        if options.index_sanity_check:
            self.check_last_offset(entries)
            self.check_size(OFFSET_ENTRY_SIZE)
            yield f"{self.name} passed sanity check.\n"
            return
        size = self.log.size or 0
        for number, entry in used_entries(entries, self.base_offset):
            if not 0 <= entry.position <= size:
                raise bad_entry(number, OFFSET_ENTRY_SIZE, f"its position {entry.position} lies outside the log")
            batch = batch_at(self.log, entry.position, min(entry.position + options.max_message_size, size))
            if batch is None:
                raise bad_entry(number, OFFSET_ENTRY_SIZE, f"no whole batch at position {entry.position} of the log")
            if batch.last_offset != entry.offset:
                reports.index_mismatches.note(self.path, entry.offset, batch.last_offset)
            if not options.verify_index_only:
                yield f"offset: {entry.offset} position: {entry.position}\n"

    def time_index_lines(self, options: TextOptions, reports: Reports, limit: int) -> Iterator[str]:
        """The lines of a .timeindex, lazily; what does not fit the log goes to ``reports``.

        ``limit`` bounds a decompressed batch (bytes). DamageError where the Java tool aborts.
        """
        data = self.data
        entries = parse_time_index(data, self.base_offset)
        if options.index_sanity_check:
            self.check_time_entries(entries)
            yield f"{self.name} passed sanity check.\n"
            return
        if not entries:
            return
        index = parse_offset_index(self.index_data, self.base_offset)
        table = BatchSearch(self.log)
        timestamps = MaxTimestamps(self.log, limit)
        previous = NO_TIMESTAMP
        used = used_entries(entries, self.base_offset)
        while part := list(islice(used, _ENTRIES_AT_A_TIME)):
            found = [(entry, self._locate(number, entry, index, table)) for number, entry in part]
            timestamps.prepare(
                batch for entry, batch in found if isinstance(batch, Located) and batch.last_offset == entry.offset
            )
            for entry, batch in found:
                if isinstance(batch, DamageError):
                    raise batch
                if batch is None or batch.last_offset != entry.offset:
                    reports.not_found.note(self.path, entry.offset, -1 if batch is None else batch.last_offset)
                else:
                    timestamp = timestamps.of(batch)
                    if timestamp != entry.timestamp:
                        reports.timestamp_mismatches.note(self.path, entry.timestamp, timestamp)
                    if previous >= entry.timestamp:
                        reports.out_of_order.note(self.path, entry.timestamp, previous)
                if not options.verify_index_only:
                    yield f"timestamp: {entry.timestamp} offset: {entry.offset}\n"
                previous = entry.timestamp

    def check_time_entries(self, entries: Sequence[TimeEntry]) -> None:
        """The sanity check of a .timeindex. Raises DamageError INDEX."""
        if entries and entries[-1].timestamp < entries[0].timestamp:
            raise DamageError(
                Codes.INDEX, f"the last timestamp {entries[-1].timestamp} is below the first, {entries[0].timestamp}"
            )
        self.check_last_offset(entries)
        self.check_size(TIME_ENTRY_SIZE)

    def check_last_offset(self, entries: Sequence[OffsetEntry] | Sequence[TimeEntry]) -> None:
        """Raises DamageError INDEX where the last entry lies below the base offset."""
        if entries and entries[-1].offset < self.base_offset:
            raise DamageError(
                Codes.INDEX, f"the last offset {entries[-1].offset} is less than the base offset {self.base_offset}"
            )

    def check_size(self, entry_size: int) -> None:
        """Raises DamageError INDEX where the file ends inside an entry."""
        if len(self.data) % entry_size:
            raise DamageError(Codes.INDEX, f"{len(self.data)} bytes are not a multiple of {entry_size}")

    def _locate(
        self, number: int, entry: TimeEntry, index: Sequence[OffsetEntry], table: BatchSearch
    ) -> Located | DamageError | None:
        """The batch that a time index entry leads to; an error is given back, to be raised in its turn."""
        position = lookup(index, entry.offset)
        if not 0 <= position <= (self.log.size or 0):
            return bad_entry(number, TIME_ENTRY_SIZE, f"the index leads to position {position}, outside the log")
        try:
            return table.first_reaching(entry.offset, position)
        except DamageError as error:
            return error


def lookup(index: Sequence[OffsetEntry], offset: int) -> int:
    """``OffsetIndex.lookup``: the position of the greatest entry at or below ``offset``, 0 when there is none.

    The search takes the steps of the broker, warm section first. Where entries do not rise (zero padding after the used
    ones, damage), other steps would find another entry.
    """
    if not index:
        return 0
    last = len(index) - 1
    first_warm = max(0, last - _WARM_ENTRIES_BYTES // OFFSET_ENTRY_SIZE)
    if index[first_warm].offset < offset:
        return index_search(index, offset, first_warm, last)
    if index[0].offset > offset:
        return 0
    return index_search(index, offset, 0, first_warm)


def index_search(index: Sequence[OffsetEntry], offset: int, low: int, high: int) -> int:
    """The position of the greatest entry at or below ``offset`` among ``low`` to ``high``, of which the first is."""
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


def bad_entry(number: int, entry_size: int, what: str) -> DamageError:
    """The error of an entry that leads nowhere."""
    return DamageError(Codes.INDEX_ENTRY, f"entry {number}: {what}", position=number * entry_size)
