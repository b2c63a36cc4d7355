"""Reading at a bounded rate, beside a broker that needs the disk more."""

from __future__ import annotations

import time

from kdump.log.source import Source

_PIECE = 1 << 18


class ThrottledSource(Source):
    """Another source, read at ``rate`` bytes a second at most."""

    def __init__(self, source: Source, rate: int) -> None:
        super().__init__(source.path, source.size)
        self._source = source
        self._rate = rate
        self._began = time.monotonic()
        self._read = 0

    def read_into(self, view: memoryview, position: int) -> int:
        """See Source."""
        filled = 0
        while filled < len(view):
            count = self._paced(view[filled : filled + _PIECE], position + filled)
            if count == 0:
                break
            filled += count
        return filled

    def _paced(self, view: memoryview, position: int) -> int:
        count = self._source.read_into(view, position)
        self._read += count
        ahead = self._read / self._rate - (time.monotonic() - self._began)
        if ahead > 0:
            time.sleep(ahead)
        return count

    def close(self) -> None:
        """See Source."""
        self._source.close()
