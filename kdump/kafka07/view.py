"""One log of Kafka 0.7 on its way to a reader.

Source: docs/spec/old-kafka.md#13-offsets, docs/spec/old-kafka.md#14-compressed-sets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from kdump.kafka07.message import MIN_LENGTH, Message07, Record07, parse_message, read_records
from kdump.kafka07.resync import ResyncWalk07, Walk07
from kdump.log.gaps import Gap
from kdump.log.walk import Chunk
from kdump.reading.printing import RowsT, RowT
from kdump.reading.view import LogView

if TYPE_CHECKING:
    from collections.abc import Callable

    from kdump.reading.printing import AnyRecord


class LogView07(LogView[RowT, RowsT]):
    """A pass over one 0.7 log, or over the part of it that is selected; see LogView.

    Args:
        base_offset: the byte position of the log's first byte in the partition.
        view: as of LogView.
        options: as of LogView.
    """

    _walk = Walk07
    _smallest = MIN_LENGTH

    def __init__(self, base_offset: int, *view: Any, **options: Any) -> None:
        super().__init__(*view, **options)
        self._base_offset = base_offset

    def _items_past_damage(self, limit: int | None, start: int, chunk_size: int) -> Iterator[Chunk | Gap]:
        return ResyncWalk07(self._source, self._base_offset, limit=limit, start=start, chunk_size=chunk_size).items()

    def _span(self) -> tuple[int, int | None]:
        """From the first entry on: nothing but the walk tells where an entry begins."""
        return 0, None

    def _has_columns(self, chunk: Chunk) -> bool:
        return False

    def _show_entry(self, data: memoryview, start: int, end: int, position: int, rows: list[RowT]) -> Iterable[None]:
        message = parse_message(data[start:end], self._base_offset + position)
        if self._selects and not self._may_be_wanted(message):
            return ()
        is_valid = message.is_valid
        self._judge(is_valid)
        if not self._with_records:
            self._admit(partial(self._printer.entry, message, position, is_valid), rows)
            return ()
        before = self._printer.entry(message, position, is_valid)
        return self._records(before, self._records_of(message, position), rows)

    def _records_of(self, message: Message07, position: int) -> Iterator[tuple[AnyRecord, Callable[[], RowT], bool]]:
        for record in read_records(message, self._options.max_decompressed_size):
            if not self._selects or self._selection.accepts_legacy_record(record, message):
                is_valid = record.message.is_valid
                yield record, partial(self._printer.legacy_record, message, position, is_valid, record), is_valid

    def _may_be_wanted(self, message: Message07) -> bool:
        """From the outside, a message or something in it can be selected: none has a timestamp."""
        selection = self._selection
        if not selection.times.is_open or message.offset not in selection.offsets:
            return False
        if self._with_records:
            return True
        return selection.accepts_legacy_record(Record07.of(message, message.next_offset), message)
