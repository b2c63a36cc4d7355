"""``.index`` and ``.timeindex`` files as DumpLogSegments up to 1.1 prints and checks them.

Source: docs/spec/dump-output.md#11-differences-between-tool-versions, and ``dumpIndex`` and ``dumpTimeIndex`` of
0.8.2.2, 0.10.2.2 and 1.1.1. Brokers of these versions indexed the first offset of a batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from kdump.codes import Codes, DamageError
from kdump.dump.dialects.lines import too_new
from kdump.dump.text.batches import NO_TIMESTAMP, BatchSearch, MaxTimestamps, batch_at
from kdump.dump.text.indexes import DumpedIndex, bad_entry, index_search
from kdump.dump.text.options import TextOptions
from kdump.dump.text.reports import Reports
from kdump.format import legacy
from kdump.format import record as v2
from kdump.format.batch import ATTRIBUTES_LOW_BYTE, CODEC_MASK, MAGIC_OFFSET, is_read_as_batch, parse_header
from kdump.format.index import OFFSET_ENTRY_SIZE, TIME_ENTRY_SIZE, OffsetEntry, parse_offset_index, parse_time_index
from kdump.wire.compression import DEFAULT_LIMIT, ZSTD


class IndexByFirstRecord(DumpedIndex):
    """An .index entry is compared with the first record at its position; entries of zeros are checked as others are.

    All methods raise TooNewError where the log holds what ``version`` did not know.
    """

    version: ClassVar[str]
    newest_magic: ClassVar[int]

    def offset_index_lines(self, options: TextOptions, reports: Reports) -> Iterator[str]:
        """See DumpedIndex."""
        entries = parse_offset_index(self.data, self.base_offset)
        if options.index_sanity_check:
            if entries and entries[-1].offset <= self.base_offset:
                raise DamageError(
                    Codes.INDEX,
                    f"the last offset {entries[-1].offset} is no greater than the base offset {self.base_offset}",
                )
            self.check_size(OFFSET_ENTRY_SIZE)
            yield f"{self.name} passed sanity check.\n"
            return
        known: dict[int, tuple[int, int]] = {}
        for number, entry in enumerate(entries):
            offset = self._first_offset(number, entry, options, known)
            if offset != entry.offset:
                reports.index_mismatches.note(self.path, entry.offset, offset)
            if number and entry.offset == self.base_offset:
                return
            if not options.verify_index_only:
                yield f"offset: {entry.offset} position: {entry.position}\n"

    def _first_offset(
        self, number: int, entry: OffsetEntry, options: TextOptions, known: dict[int, tuple[int, int]]
    ) -> int:
        """The offset of the first record from the position of an entry on.

        ``known``: what was found from positions, which entries may share: offset, and the end of the batch.

        Raises:
            DamageError: there is none.
        """
        position, size = entry.position, self.log.size or 0
        end = min(position + options.max_message_size, size)
        passed = []
        while position not in known and position >= 0 and (batch := batch_at(self.log, position, end)) is not None:
            self._require_known(position)
            passed.append(position)
            position += batch.size
            first = next(_offsets(memoryview(self.log.read(batch.position, batch.size))), None)
            if first is not None:
                known[batch.position] = first, position
                position = batch.position
            # A cleaner leaves batches without records.
        found = known.get(position)
        if found is None or found[1] > end:
            raise bad_entry(number, OFFSET_ENTRY_SIZE, f"no record from position {entry.position} of the log on")
        known.update(dict.fromkeys(passed, found))
        return found[0]

    def time_index_lines(self, options: TextOptions, reports: Reports, limit: int) -> Iterator[str]:
        """See DumpedIndex; an entry of zeros ends the list only where its batch begins the log."""
        entries = parse_time_index(self.data, self.base_offset)
        if options.index_sanity_check:
            self.check_time_entries(entries)
            yield f"{self.name} passed sanity check.\n"
            return
        if not entries:
            return
        self._require_known(0)
        index = parse_offset_index(self.index_data, self.base_offset)
        table = BatchSearch(self.log)
        timestamps = MaxTimestamps(self.log, limit)
        previous = NO_TIMESTAMP
        for number, entry in enumerate(entries):
            position = 0
            if index and index[0].offset <= entry.offset:
                position = index_search(index, entry.offset, 0, len(index) - 1)
            if position < 0:
                raise bad_entry(number, TIME_ENTRY_SIZE, f"the index leads to position {position}")
            batch = table.first_reaching(entry.offset, position)
            if batch is None or batch.last_offset != entry.offset:
                reports.not_found.note(self.path, entry.offset, -1 if batch is None else batch.last_offset)
            else:
                self._require_known(batch.position)
                timestamp = timestamps.of(batch)
                if timestamp != entry.timestamp:
                    reports.timestamp_mismatches.note(self.path, entry.timestamp, timestamp)
                if previous >= entry.timestamp:
                    reports.out_of_order.note(self.path, entry.timestamp, previous)
                if number and entry.offset == self.base_offset:
                    return
            if not options.verify_index_only:
                yield f"timestamp: {entry.timestamp} offset: {entry.offset}\n"
            previous = entry.timestamp

    def _require_known(self, position: int) -> None:
        """Raises TooNewError for a magic, or a codec of a batch, that this version did not know."""
        head = self.log.read(position, ATTRIBUTES_LOW_BYTE + 1)
        if len(head) <= ATTRIBUTES_LOW_BYTE:
            return
        magic = int.from_bytes(head[MAGIC_OFFSET : MAGIC_OFFSET + 1], "big", signed=True)
        if magic > self.newest_magic:
            raise too_new(f"magic {magic}", position, self.version)
        if is_read_as_batch(magic & 0xFF) and head[ATTRIBUTES_LOW_BYTE] & CODEC_MASK == ZSTD:
            raise too_new("the codec zstd", position, self.version)


def _offsets(data: memoryview) -> Iterator[int]:
    """Of the records of a batch or message."""
    if is_read_as_batch(data[MAGIC_OFFSET]):
        return (record.offset for record in v2.read_records(parse_header(data), data, DEFAULT_LIMIT))
    return (record.offset for record in legacy.read_records(legacy.parse_message(data), DEFAULT_LIMIT))
