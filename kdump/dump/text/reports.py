"""The reports that DumpLogSegments prints on stderr after the last file.

Source: docs/spec/dump-output.md#10-end-of-run-reports.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import ClassVar

from kdump.log.names import is_uri
from kdump.payloads.java import hash_map_order

Pairs = list[tuple[int, int]]
"""Two offsets or timestamps each."""


class ReportStyle:
    """The reports of the newest Kafka: their words and their order."""

    not_found: ClassVar = "The following indexed offsets are not found in :{path}"
    non_consecutive: ClassVar = "Non-consecutive offsets in {path}"

    def files_in_order(self, paths: Iterable[str], *, asked_again: bool) -> list[str]:
        """The order of reports on files, given as they were noted; ``asked_again``: see ``hash_map_order``."""
        return hash_map_order(paths, asked_again=asked_again)

    def mismatches_in_order(self, pairs: Pairs) -> Iterable[tuple[int, int]]:
        """The order in which entries of an .index, as they were noted, are reported. Of one offset the last counts."""
        return sorted(dict(pairs).items(), reverse=True)

    def gaps_in_order(self, pairs: Pairs) -> Iterable[tuple[int, int]]:
        """The order in which offsets that do not follow one another are reported. Of one offset the last counts."""
        return sorted(dict(pairs).items())


class _ByPath:
    """What was found in each file, in the order of the tool's map of absolute paths."""

    def __init__(self, style: ReportStyle) -> None:
        self._style = style
        self._found: dict[str, Pairs] = {}
        self._is_asked_again = False

    def at(self, path: str) -> Pairs:
        """Of a file; to be asked for each thing that is found, as the map is."""
        path = _absolute(path)
        self._is_asked_again = path in self._found
        return self._found.setdefault(path, [])

    def items(self) -> Iterator[tuple[str, Pairs]]:
        """All of it."""
        for path in self._style.files_in_order(self._found, asked_again=self._is_asked_again):
            yield path, self._found[path]


class Reports:
    """What the files seen so far do not agree on, in five groups by absolute path."""

    def __init__(self, style: ReportStyle) -> None:
        self._style = style
        self._index_mismatches = _ByPath(style)
        self._timestamp_mismatches = _ByPath(style)
        self._out_of_order = _ByPath(style)
        self._not_found = _ByPath(style)
        self._non_consecutive = _ByPath(style)

    def index_mismatch(self, path: str, index_offset: int, log_offset: int) -> None:
        """An .index entry names another offset than its batch has."""
        self._index_mismatches.at(path).append((index_offset, log_offset))

    def timestamp_mismatch(self, path: str, index_timestamp: int, log_timestamp: int) -> None:
        """A .timeindex entry has another timestamp than its batch's largest."""
        self._timestamp_mismatches.at(path).append((index_timestamp, log_timestamp))

    def timestamp_out_of_order(self, path: str, index_timestamp: int, previous: int) -> None:
        """A .timeindex entry does not rise."""
        self._out_of_order.at(path).append((index_timestamp, previous))

    def offset_not_found(self, path: str, index_offset: int, log_offset: int) -> None:
        """A .timeindex entry names an offset that ends no batch."""
        self._not_found.at(path).append((index_offset, log_offset))

    def non_consecutive(self, path: str, pairs: Pairs, found: int) -> None:
        """Record offsets of a log that do not follow one another.

        ``found``: how many pairs the Java tool notes, those that are not reported included. The order in which the
        files come depends on all of them.
        """
        if found:
            self._non_consecutive.at(path).extend(pairs)
        if found > 1:
            self._non_consecutive.at(path)

    def lines(self) -> Iterator[str]:
        """All reports, with line ends, in the order of the Java tool."""
        style = self._style
        for path, pairs in self._index_mismatches.items():
            yield f"Mismatches in :{path}\n"
            for index_offset, log_offset in style.mismatches_in_order(pairs):
                yield f"  Index offset: {index_offset}, log offset: {log_offset}\n"
        for path, pairs in self._timestamp_mismatches.items():
            yield f"Found timestamp mismatch in :{path}\n"
            for index_timestamp, log_timestamp in pairs:
                yield f"  Index timestamp: {index_timestamp}, log timestamp: {log_timestamp}\n"
        for path, pairs in self._out_of_order.items():
            yield f"Found out of order timestamp in :{path}\n"
            for index_timestamp, previous in pairs:
                yield f"  Index timestamp: {index_timestamp}, Previously indexed timestamp: {previous}\n"
        for path, pairs in self._not_found.items():
            yield f"{style.not_found.format(path=path)}\n"
            for index_offset, log_offset in pairs:
                yield f"Indexed offset: {index_offset}, found log offset: {log_offset}\n"
        for path, pairs in self._non_consecutive.items():
            if pairs:
                yield f"{style.non_consecutive.format(path=path)}\n"
            for last, offset in style.gaps_in_order(pairs):
                yield f"  {last} is followed by {offset}\n"


def _absolute(path: str) -> str:
    """The working directory in front, nothing else changed (``File.getAbsolutePath``); a URI is absolute."""
    return path if path.startswith("/") or is_uri(path) else f"{os.getcwd()}/{path}"
