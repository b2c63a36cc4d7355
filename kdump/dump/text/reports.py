"""The reports that DumpLogSegments prints on stderr after the last file, and what watches the offsets for them.

Source: docs/spec/dump-output.md#10-end-of-run-reports, docs/spec/dump-output.md#55-offset-continuity-report.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, ClassVar

from kdump.format.batch import wrap_int64
from kdump.log.names import is_uri
from kdump.payloads.java import hash_map_order

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

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

    def note(self, path: str, expected: int, found: int) -> None:
        """What an entry of a file says, and what was found in its place."""
        self.at(path).append((expected, found))

    def items(self) -> Iterator[tuple[str, Pairs]]:
        """All of it."""
        for path in self._style.files_in_order(self._found, asked_again=self._is_asked_again):
            yield path, self._found[path]


class Reports:
    """What the files seen so far do not agree on, in five groups by absolute path.

    Attributes:
        index_mismatches: an .index entry names another offset than its batch has.
        timestamp_mismatches: a .timeindex entry has another timestamp than its batch's largest.
        out_of_order: a .timeindex entry does not rise above the one before.
        not_found: a .timeindex entry names an offset that ends no batch.
    """

    def __init__(self, style: ReportStyle) -> None:
        self._style = style
        self.index_mismatches = _ByPath(style)
        self.timestamp_mismatches = _ByPath(style)
        self.out_of_order = _ByPath(style)
        self.not_found = _ByPath(style)
        self._non_consecutive = _ByPath(style)

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
        for of, heading, line in (
            (self.index_mismatches, "Mismatches in :{path}", "  Index offset: {}, log offset: {}"),
            (
                self.timestamp_mismatches,
                "Found timestamp mismatch in :{path}",
                "  Index timestamp: {}, log timestamp: {}",
            ),
            (
                self.out_of_order,
                "Found out of order timestamp in :{path}",
                "  Index timestamp: {}, Previously indexed timestamp: {}",
            ),
            (self.not_found, style.not_found, "Indexed offset: {}, found log offset: {}"),
            (self._non_consecutive, style.non_consecutive, "  {} is followed by {}"),
        ):
            for path, noted in of.items():
                pairs: Iterable[tuple[int, int]] = noted
                if of is self.index_mismatches:
                    pairs = style.mismatches_in_order(noted)
                elif of is self._non_consecutive:
                    pairs = style.gaps_in_order(noted)
                if noted:
                    yield f"{heading.format(path=path)}\n"
                yield from (f"{line.format(*pair)}\n" for pair in pairs)


_NO_OFFSET = -1


class OffsetContinuity:
    """Sees every record offset of a file in order and keeps the pairs that are not consecutive.

    ``gaps``: an offset and the one that follows it, as they come.
    """

    def __init__(self) -> None:
        self.gaps: list[tuple[int, int]] = []
        self._last = _NO_OFFSET

    def see(self, offset: int) -> None:
        """The next record."""
        if offset != self._last + 1 and offset != wrap_int64(self._last + 1):
            self.gaps.append((self._last, offset))
        self._last = offset

    def see_column(self, offsets: NDArray[np.int64]) -> None:
        """The next records; shape (rows,)."""
        if not offsets.size:
            return
        import numpy as np

        previous = np.empty_like(offsets)
        previous[0] = self._last
        previous[1:] = offsets[:-1]
        rows = np.flatnonzero(offsets != previous + 1)
        self.gaps += zip(previous[rows].tolist(), offsets[rows].tolist(), strict=True)
        self._last = int(offsets[-1])

    def pass_over(self, offset: int) -> None:
        """The next record, which may have any offset."""
        self._last = offset

    @property
    def found(self) -> int:
        """How many pairs the tool notes, those that are not reported included."""
        return len(self.gaps)

    def reported(self, base_offset: int | None) -> list[tuple[int, int]]:
        """The pairs that are reported.

        A log need not start at offset 0: what precedes the first record is reported only where the file's name
        says that offset 0 belongs in it.
        """
        return self.gaps if base_offset == 0 else self._after_first()

    def _after_first(self) -> list[tuple[int, int]]:
        """Without the pair of the first record."""
        return [pair for pair in self.gaps if pair[0] != _NO_OFFSET]


class LaterContinuity(OffsetContinuity):
    """As the tools up to 4.1 do: the first record of a log may have any offset."""

    @property
    def found(self) -> int:
        """See OffsetContinuity."""
        return len(self._after_first())

    def reported(self, base_offset: int | None) -> list[tuple[int, int]]:
        """See OffsetContinuity."""
        return self._after_first()


def _absolute(path: str) -> str:
    """The working directory in front, nothing else changed (``File.getAbsolutePath``); a URI is absolute."""
    return path if path.startswith("/") or is_uri(path) else f"{os.getcwd()}/{path}"
