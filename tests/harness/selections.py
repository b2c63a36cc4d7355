"""Ranges and filters applied to rows that were dumped whole: what every filtered dump has to equal.

``Wanted`` is a selection in plain terms; ``selection()`` is what kdump is asked for, ``keeps_record`` and
``keeps_batch`` are the same said in terms of rows.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hypothesis import strategies as st

from kdump.reading.selection import HeaderFilter, Range, Selection
from tests.harness.plainoutput import bytes_of
from tests.harness.row_runs import Row

Bounds = tuple[int | None, int | None]

BASE_TIMESTAMP = slice(27, 35)
"""Of a v2 batch; the rows of batches have no such column."""


@dataclass(frozen=True)
class Wanted:
    """Some of what the options can ask for."""

    offsets: Bounds = (None, None)
    times: Bounds = (None, None)
    key: bytes | None = None
    value: bytes | None = None
    header: tuple[bytes, bytes | None] | None = None
    producer_ids: frozenset[int] = frozenset()
    control: bool | None = None
    tombstones: bool = False

    def selection(self) -> Selection:
        header = self.header and HeaderFilter(self.header[0], _compiled(self.header[1]))
        return Selection(
            Range(*self.offsets),
            Range(*self.times),
            _compiled(self.key),
            _compiled(self.value),
            (header,) if header else (),
            self.producer_ids,
            self.control,
            self.tombstones,
        )

    def keeps_record(self, row: Row) -> bool:
        return (
            _within(row["offset"], self.offsets)
            and _within(row["timestamp"], self.times)
            and _found(self.key, bytes_of(row["key"]))
            and _found(self.value, bytes_of(row["value"]))
            and (not self.tombstones or (row["key"] is not None and row["value"] is None))
            and (self.header is None or any(_is_header(self.header, *header) for header in row["headers"]))
            and self._keeps_producer(row)
        )

    def keeps_batch(self, row: Row, file: bytes, previous_offset: int) -> bool:
        """``file``: all bytes of its log; ``previous_offset``: that of the entry before it."""
        first, latest = row["baseOffset"], row["maxTimestamp"]
        earliest = latest
        if row["magic"] < 2:
            # A wrapper says neither where its offsets nor where its timestamps begin.
            if row["compression"] == "none":
                first = row["lastOffset"]
            else:
                first = min(previous_offset + 1, row["lastOffset"])
                earliest = None if latest is None else -(2**63)
        elif row["timestampType"] == "CreateTime":
            data = file[row["position"] :][BASE_TIMESTAMP]
            earliest = min(int.from_bytes(data, "big", signed=True), latest)
            if row["deleteHorizonMs"] is not None:
                earliest = -1
        return (
            _overlaps(first, row["lastOffset"], self.offsets)
            and (self.times == (None, None) or (latest is not None and _overlaps(earliest, latest, self.times)))
            and self._keeps_producer(row)
        )

    def _keeps_producer(self, row: Row) -> bool:
        return (not self.producer_ids or row["producerId"] in self.producer_ids) and (
            self.control is None or bool(row["isControl"]) == self.control
        )


def wanted(rows: Sequence[Row]) -> st.SearchStrategy[Wanted]:
    """Selections with bounds, keys and so on that occur in these records."""
    if not rows:
        return st.just(Wanted())
    row = st.sampled_from(rows)
    nothing = st.none()

    def bounds(name: str) -> st.SearchStrategy[Bounds]:
        value = row.map(lambda row: row[name] or 0) | st.integers(-1, 10)
        bound = nothing | st.builds(int.__add__, value, st.integers(-1, 1))
        return st.tuples(bound, bound)

    def pattern(name: str) -> st.SearchStrategy[bytes]:
        pieces = st.builds(
            lambda row, first, size: re.escape((bytes_of(row[name]) or b"")[first : first + size]),
            row,
            st.integers(0, 3),
            st.integers(0, 4),
        )
        return pieces | pieces.map(lambda piece: b"^" + piece) | pieces.map(lambda piece: piece + b"$")

    keys = sorted({bytes_of(key) or b"" for row in rows for key, _ in row["headers"]}) or [b"h"]
    header = st.tuples(st.sampled_from(keys), nothing | st.sampled_from([b"", b"1", b"^v", rb"\d$"]))
    producer_ids = sorted({row["producerId"] for row in rows if row["producerId"] is not None}) or [7]
    return st.builds(
        Wanted,
        offsets=st.just((None, None)) | bounds("offset"),
        times=st.just((None, None)) | bounds("timestamp"),
        key=nothing | pattern("key"),
        value=nothing | nothing | pattern("value"),
        header=nothing | nothing | nothing | header,
        producer_ids=st.just(frozenset()) | st.frozensets(st.sampled_from(producer_ids), max_size=2),
        control=st.sampled_from([None, None, False, True]),
        tombstones=st.sampled_from([False, False, False, True]),
    )


def expected_batches(rows: Sequence[Row], path: Path, asked: Wanted) -> list[Row]:
    """Of all batches of one log those that are asked for."""
    file = path.read_bytes()
    kept = []
    previous_offset = -1
    for row in rows:
        if asked.keeps_batch(row, file, previous_offset):
            kept.append(row)
        previous_offset = row["lastOffset"]
    return kept


def _compiled(pattern: bytes | None) -> re.Pattern[bytes] | None:
    return None if pattern is None else re.compile(pattern)


def _within(value: int | None, bounds: Bounds) -> bool:
    return bounds == (None, None) or (value is not None and _overlaps(value, value, bounds))


def _overlaps(lowest: int, highest: int, bounds: Bounds) -> bool:
    first, end = bounds
    is_empty = first is not None and end is not None and first >= end
    return not is_empty and (first is None or first <= highest) and (end is None or lowest < end)


def _found(pattern: bytes | None, data: bytes | None) -> bool:
    return pattern is None or (data is not None and re.search(pattern, data) is not None)


def _is_header(asked: tuple[bytes, bytes | None], key: object, value: object) -> bool:
    return bytes_of(key) == asked[0] and _found(asked[1], bytes_of(value))
