"""Which batches and records are shown: ranges and filters, for one record at a time.

``kdump.reading.masks`` applies the same filters to many records at once.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, AnyStr, NamedTuple

from kdump.format.batch import BatchHeader
from kdump.format.legacy import LegacyRecord, Message
from kdump.format.record import Headers, Record
from kdump.reading.outcomes import ABORTED

if TYPE_CHECKING:
    from kdump.reading.outcomes import Outcomes


@dataclass(frozen=True, slots=True)
class Range:
    """``first <= value < end``; a None bound is open."""

    first: int | None = None
    end: int | None = None

    def __contains__(self, value: int) -> bool:
        return (self.first is None or value >= self.first) and (self.end is None or value < self.end)

    def overlaps(self, lowest: int, highest: int) -> bool:
        """Some value from ``lowest`` to ``highest`` (inclusive) is in the range."""
        return (
            not self.is_empty
            and (self.first is None or highest >= self.first)
            and (self.end is None or lowest < self.end)
        )

    def intersection(self, other: Range) -> Range:
        """The values that are in both ranges."""
        firsts = [bound for bound in (self.first, other.first) if bound is not None]
        ends = [bound for bound in (self.end, other.end) if bound is not None]
        return Range(max(firsts, default=None), min(ends, default=None))

    @property
    def is_empty(self) -> bool:
        """No value is in the range."""
        return self.first is not None and self.end is not None and self.first >= self.end

    @property
    def is_open(self) -> bool:
        """Every value is in the range."""
        return self.first is None and self.end is None


def compiled(expression: AnyStr) -> re.Pattern[AnyStr]:
    """The regular expression. Raises ValueError for what is none."""
    try:
        return re.compile(expression)
    except (re.error, OverflowError) as error:
        raise ValueError(str(error)) from error
    except RecursionError as error:
        raise ValueError("it is nested too deep") from error


class HeaderFilter(NamedTuple):
    """A record has a header with this key and, when a pattern is given, a value in which it is found."""

    key: bytes
    value: re.Pattern[bytes] | None = None

    def accepts(self, headers: Headers) -> bool:
        """One of the headers fits."""
        return any(key == self.key and _found(self.value, value) for key, value in headers)


@dataclass(frozen=True, slots=True)
class Selection:
    """What is shown. All given conditions must hold. Times are ms since 1970."""

    offsets: Range = field(default_factory=Range)
    times: Range = field(default_factory=Range)
    key: re.Pattern[bytes] | None = None
    value: re.Pattern[bytes] | None = None
    headers: tuple[HeaderFilter, ...] = ()
    producer_ids: frozenset[int] = frozenset()
    control: bool | None = None
    tombstones: bool = False
    """Only records with a key and without a value."""
    coordinated: re.Pattern[bytes] | None = None
    """Given: only records of one group or transactional id, by their keys."""
    committed: Outcomes | None = None
    """Given: batches of aborted transactions are left out."""

    @property
    def is_everything(self) -> bool:
        """All rows are shown."""
        return self == _EVERYTHING

    def read_committed(self, outcomes: Outcomes, first_open: int | None) -> Selection:
        """The selection for a reader of committed transactions, up to the offset of the first open one."""
        ends = [end for end in (self.offsets.end, first_open) if end is not None]
        return replace(self, committed=outcomes, offsets=Range(self.offsets.first, min(ends, default=None)))

    def starting_at(self, offset: int) -> Selection:
        """The selection of what has no lower offset."""
        return replace(self, offsets=self.offsets.intersection(Range(offset, None)))

    @property
    def by_contents(self) -> bool:
        """Keys, values or headers decide, so only records can be selected."""
        patterns = (self.key, self.value, self.coordinated)
        return bool(self.headers) or self.tombstones or any(pattern is not None for pattern in patterns)

    def accepts_batch(self, header: BatchHeader) -> bool:
        """By its header, a v2 batch overlaps the ranges and passes the filters. Nothing is decoded."""
        return (
            self._accepts_header(header)
            and self.offsets.overlaps(header.base_offset, header.last_offset)
            and self.times.overlaps(_lowest_timestamp(header), header.max_timestamp)
        )

    def may_hold_records(self, header: BatchHeader) -> bool:
        """By its header, some record of the batch may be accepted. Impossible header fields are ignored."""
        return self._accepts_header(header) and (
            header.record_count > header.last_offset_delta + 1
            or self.offsets.overlaps(header.base_offset, header.last_offset)
        )

    def accepts_record(self, record: Record) -> bool:
        """A record is accepted. Its batch ``may_hold_records``."""
        return (
            record.offset in self.offsets
            and record.timestamp in self.times
            and self._accepts_contents(record.key, record.value, record.headers)
        )

    def accepts_entry(self, entry: Message, previous_offset: int) -> bool:
        """By its own fields, a legacy entry overlaps the ranges.

        A wrapper can hold any offset after the entry before it, up to its own, and any timestamp up to its own.
        """
        if not self.accepts_messages:
            return False
        if not entry.codec:
            return entry.offset in self.offsets and self._accepts_time(entry.magic, entry.timestamp)
        in_time = self.times.is_open or (entry.magic > 0 and (self.times.first or -1) <= entry.timestamp)
        return in_time and self.offsets.overlaps(min(previous_offset + 1, entry.offset), entry.offset)

    def accepts_legacy_record(self, record: LegacyRecord, entry: Message) -> bool:
        """A record of a legacy entry is accepted."""
        return (
            self.accepts_messages
            and record.offset in self.offsets
            and self._accepts_time(entry.magic, record.timestamp)
            and (not self.by_contents or self._accepts_contents(record.message.key(), record.message.value(), ()))
        )

    def _accepts_time(self, magic: int, timestamp: int) -> bool:
        # Magic 0 has no timestamps: any range of times leaves it out.
        return self.times.is_open or (magic > 0 and timestamp in self.times)

    @property
    def accepts_messages(self) -> bool:
        """Messages of magic 0 and 1, which have no producers and are no control records, can be accepted."""
        return not self.producer_ids and self.control is not True

    def _accepts_header(self, header: BatchHeader) -> bool:
        return (
            (not self.producer_ids or header.producer_id in self.producer_ids)
            and (self.control is None or header.is_control == self.control)
            and (self.committed is None or self.committed.state(header) != ABORTED)
        )

    def _accepts_contents(self, key: bytes | None, value: bytes | None, headers: Headers) -> bool:
        return (
            _found(self.key, key)
            and _found(self.coordinated, key)
            and _found(self.value, value)
            and all(wanted.accepts(headers) for wanted in self.headers)
            and (not self.tombstones or (key is not None and value is None))
        )


_EVERYTHING = Selection()


def _found(pattern: re.Pattern[bytes] | None, data: bytes | None) -> bool:
    return pattern is None or (data is not None and pattern.search(data) is not None)


def _lowest_timestamp(header: BatchHeader) -> int:
    """The timestamp of the first record, by the header. The field may hold a delete horizon instead."""
    if header.is_log_append_time:
        return header.max_timestamp
    return min(header.base_timestamp, header.max_timestamp) if header.delete_horizon_ms is None else -1


class RowBudget:
    """How many rows of the view are skipped first, and how many are shown then (None: all)."""

    def __init__(self, skip: int = 0, take: int | None = None) -> None:
        self._skip = skip
        self._take = take
        self.seen = 0

    @property
    def is_unlimited(self) -> bool:
        """Every row is shown."""
        return self._take is None and not self._skip

    @property
    def is_skipping(self) -> bool:
        """The next row will be skipped."""
        return self.seen < self._skip

    @property
    def is_spent(self) -> bool:
        """No further row will be shown."""
        return self._take is not None and self.seen >= self._skip + self._take

    def admit(self, rows: int) -> tuple[int, int]:
        """The range (first, end) of the next ``rows`` rows that is shown."""
        first = min(max(self._skip - self.seen, 0), rows)
        end = rows if self._take is None else min(max(self._skip + self._take - self.seen, 0), rows)
        self.seen += rows
        return first, max(first, end)
