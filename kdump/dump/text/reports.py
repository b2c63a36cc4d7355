"""The reports that DumpLogSegments prints on stderr after the last file.

Source: docs/spec/dump-output.md#10-end-of-run-reports.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

from kdump.log.names import is_uri
from kdump.payloads.java import hash_map_order

_Found = TypeVar("_Found")
_Pair = tuple[int, int]


class _ByPath(Generic[_Found]):
    """What was found in each file, in the order of the Java tool's map of absolute paths."""

    def __init__(self, make: Callable[[], _Found]) -> None:
        self._make = make
        self._found: dict[str, _Found] = {}
        self._is_asked_again = False

    def at(self, path: str) -> _Found:
        """Of a file; to be asked for each thing that is found, as the map is."""
        path = _absolute(path)
        self._is_asked_again = path in self._found
        if not self._is_asked_again:
            self._found[path] = self._make()
        return self._found[path]

    def items(self) -> Iterator[tuple[str, _Found]]:
        """All of it."""
        for path in hash_map_order(self._found, asked_again=self._is_asked_again):
            yield path, self._found[path]


class Reports:
    """What the files seen so far do not agree on, in five groups by absolute path."""

    def __init__(self) -> None:
        self._index_mismatches: _ByPath[dict[int, int]] = _ByPath(dict)
        self._timestamp_mismatches: _ByPath[list[_Pair]] = _ByPath(list)
        self._out_of_order: _ByPath[list[_Pair]] = _ByPath(list)
        self._not_found: _ByPath[list[_Pair]] = _ByPath(list)
        self._non_consecutive: _ByPath[dict[int, int]] = _ByPath(dict)

    def index_mismatch(self, path: str, index_offset: int, log_offset: int) -> None:
        """An .index entry names another offset than its batch has."""
        self._index_mismatches.at(path)[index_offset] = log_offset

    def timestamp_mismatch(self, path: str, index_timestamp: int, log_timestamp: int) -> None:
        """A .timeindex entry has another timestamp than its batch's largest."""
        self._timestamp_mismatches.at(path).append((index_timestamp, log_timestamp))

    def timestamp_out_of_order(self, path: str, index_timestamp: int, previous: int) -> None:
        """A .timeindex entry does not rise."""
        self._out_of_order.at(path).append((index_timestamp, previous))

    def offset_not_found(self, path: str, index_offset: int, log_offset: int) -> None:
        """A .timeindex entry names an offset that ends no batch."""
        self._not_found.at(path).append((index_offset, log_offset))

    def non_consecutive(self, path: str, pairs: Iterable[_Pair], found: int) -> None:
        """Record offsets of a log that do not follow one another.

        ``found``: how many pairs the Java tool notes, those that are not reported included. The order in which the
        files come depends on all of them.
        """
        for _ in range(min(found, 2)):
            self._non_consecutive.at(path).update(pairs)

    def lines(self) -> Iterator[str]:
        """All reports, with line ends, in the order of the Java tool."""
        for path, offsets in self._index_mismatches.items():
            yield f"Mismatches in :{path}\n"
            for index_offset in sorted(offsets, reverse=True):
                yield f"  Index offset: {index_offset}, log offset: {offsets[index_offset]}\n"
        for path, pairs in self._timestamp_mismatches.items():
            yield f"Found timestamp mismatch in :{path}\n"
            for index_timestamp, log_timestamp in pairs:
                yield f"  Index timestamp: {index_timestamp}, log timestamp: {log_timestamp}\n"
        for path, pairs in self._out_of_order.items():
            yield f"Found out of order timestamp in :{path}\n"
            for index_timestamp, previous in pairs:
                yield f"  Index timestamp: {index_timestamp}, Previously indexed timestamp: {previous}\n"
        for path, pairs in self._not_found.items():
            yield f"The following indexed offsets are not found in :{path}\n"
            for index_offset, log_offset in pairs:
                yield f"Indexed offset: {index_offset}, found log offset: {log_offset}\n"
        for path, offsets in self._non_consecutive.items():
            if offsets:
                yield f"Non-consecutive offsets in {path}\n"
            for last in sorted(offsets):
                yield f"  {last} is followed by {offsets[last]}\n"


def _absolute(path: str) -> str:
    """The working directory in front, nothing else changed (``File.getAbsolutePath``); a URI is absolute."""
    return path if path.startswith("/") or is_uri(path) else f"{os.getcwd()}/{path}"
