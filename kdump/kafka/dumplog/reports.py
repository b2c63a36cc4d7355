"""The reports that DumpLogSegments prints on stderr after the last file.

Source: shared/spec/dump-output.md section 10.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

from kdump.kafka.java import hash_map_order
from kdump.log.names import is_uri

_Found = TypeVar("_Found")
_Pairs = list[tuple[int, int]]


class Reports:
    """What the files seen so far do not agree on, in five groups by absolute path."""

    def __init__(self) -> None:
        self._index_mismatches: defaultdict[str, dict[int, int]] = defaultdict(dict)
        self._timestamp_mismatches: defaultdict[str, _Pairs] = defaultdict(list)
        self._out_of_order: defaultdict[str, _Pairs] = defaultdict(list)
        self._not_found: defaultdict[str, _Pairs] = defaultdict(list)
        self._non_consecutive: defaultdict[str, dict[int, int]] = defaultdict(dict)

    def index_mismatch(self, path: str, index_offset: int, log_offset: int) -> None:
        """An .index entry names another offset than its batch has."""
        self._index_mismatches[_absolute(path)][index_offset] = log_offset

    def timestamp_mismatch(self, path: str, index_timestamp: int, log_timestamp: int) -> None:
        """A .timeindex entry has another timestamp than its batch's largest."""
        self._timestamp_mismatches[_absolute(path)].append((index_timestamp, log_timestamp))

    def timestamp_out_of_order(self, path: str, index_timestamp: int, previous: int) -> None:
        """A .timeindex entry does not rise."""
        self._out_of_order[_absolute(path)].append((index_timestamp, previous))

    def offset_not_found(self, path: str, index_offset: int, log_offset: int) -> None:
        """A .timeindex entry names an offset that ends no batch."""
        self._not_found[_absolute(path)].append((index_offset, log_offset))

    def non_consecutive(self, path: str, pairs: Iterable[tuple[int, int]]) -> None:
        """Record offsets of a log that do not follow one another."""
        for last, offset in pairs:
            self._non_consecutive[_absolute(path)][last] = offset

    def lines(self) -> Iterator[str]:
        """All reports, with line ends, in the order of the Java tool."""
        for path, offsets in _in_order(self._index_mismatches):
            yield f"Mismatches in :{path}\n"
            for index_offset in sorted(offsets, reverse=True):
                yield f"  Index offset: {index_offset}, log offset: {offsets[index_offset]}\n"
        for path, pairs in _in_order(self._timestamp_mismatches):
            yield f"Found timestamp mismatch in :{path}\n"
            for index_timestamp, log_timestamp in pairs:
                yield f"  Index timestamp: {index_timestamp}, log timestamp: {log_timestamp}\n"
        for path, pairs in _in_order(self._out_of_order):
            yield f"Found out of order timestamp in :{path}\n"
            for index_timestamp, previous in pairs:
                yield f"  Index timestamp: {index_timestamp}, Previously indexed timestamp: {previous}\n"
        for path, pairs in _in_order(self._not_found):
            yield f"The following indexed offsets are not found in :{path}\n"
            for index_offset, log_offset in pairs:
                yield f"Indexed offset: {index_offset}, found log offset: {log_offset}\n"
        for path, offsets in _in_order(self._non_consecutive):
            yield f"Non-consecutive offsets in {path}\n"
            for last in sorted(offsets):
                yield f"  {last} is followed by {offsets[last]}\n"


def _in_order(found: Mapping[str, _Found]) -> Iterator[tuple[str, _Found]]:
    for path in hash_map_order(found):
        yield path, found[path]


def _absolute(path: str) -> str:
    """The working directory in front, nothing else changed (``File.getAbsolutePath``); a URI is absolute."""
    return path if path.startswith("/") or is_uri(path) else f"{os.getcwd()}/{path}"
