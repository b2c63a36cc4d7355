"""The .index beside a log, as far as it can be used to find positions."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import overload

from kdump.codes import KdumpError
from kdump.format.index import OffsetEntry, parse_offset_index, rising_part
from kdump.log.names import Kind, sibling
from kdump.log.opening import read_whole


def rising_entries(log_path: str, base_offset: int | None) -> Sequence[OffsetEntry]:
    """The used entries of the .index beside a log up to the first whose position does not rise; none without a name."""
    if base_offset is None:
        return []
    try:
        entries = parse_offset_index(read_whole(sibling(log_path, Kind.INDEX)), base_offset)
    except KdumpError:
        return []
    return rising_part(entries, attrgetter("position"), base_offset)


class RisingEntries(Sequence[OffsetEntry]):
    """The ``rising_entries`` of a log. The file is read when one of them is asked for."""

    def __init__(self, log_path: str, base_offset: int | None) -> None:
        self._log_path = log_path
        self._base_offset = base_offset
        self._entries: Sequence[OffsetEntry] | None = None

    def _read(self) -> Sequence[OffsetEntry]:
        if self._entries is None:
            self._entries = rising_entries(self._log_path, self._base_offset)
        return self._entries

    def __len__(self) -> int:
        return len(self._read())

    @overload
    def __getitem__(self, number: int) -> OffsetEntry: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[OffsetEntry]: ...
    def __getitem__(self, number: int | slice) -> OffsetEntry | Sequence[OffsetEntry]:
        return self._read()[number]
