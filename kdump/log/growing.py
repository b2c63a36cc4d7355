"""A log that a broker still writes to, read as it grows."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from kdump.codes import Codes, KdumpError
from kdump.log.heads import LARGEST_ENTRY
from kdump.log.opening import open_source
from kdump.log.source import FileSource, Source

_POLL_SECONDS: Final = 0.25
_PAUSE_SECONDS: Final = 0.05
_REMEMBERED: Final = 64
"""The newest bytes that are read again after a wait. A CRC and an offset are among them."""
_HEAD_SIZE: Final = 17
"""The bytes of an entry up to its magic. Some of them are not zero."""


class GrowingFile(Source):
    """A file that is still written to, read like a stream.

    Args:
        path: the file.
        is_over: says whether nothing more will come (a later segment is there).
        on_wait: called before each wait for more, with what a reader should know of it, mostly ''.
    """

    def __init__(self, path: str, is_over: Callable[[], bool], on_wait: Callable[[str], None]) -> None:
        super().__init__(path, None)
        file = open_source(path)
        if not isinstance(file, FileSource):
            file.close()
            raise KdumpError(Codes.UNREADABLE, "only a file can be followed", path=path)
        self._file = file
        self._is_over = is_over
        self._on_wait = on_wait
        self._last: tuple[int, bytes] = (0, b"")
        """The newest bytes that were read, and where they end."""
        self._expected: tuple[int, int] | None = None
        self._told: tuple[int, int] | None = None

    def read_into(self, view: memoryview, position: int) -> int:
        """See Source; waits until the view is full or nothing more will come."""
        filled = 0
        while filled < len(view):
            count = self.read_some(view[filled:], position + filled)
            if count == 0:
                break
            filled += count
        return filled

    def read_some(self, view: memoryview, position: int) -> int:
        """See Source; waits for at least a byte."""
        # How it ends is asked only where nothing is there: the directory may have very many names.
        count = self._file.read_into(view, position)
        has_waited = False
        while not count:
            is_replaced, is_over = self._ending()
            count = self._file.read_into(view, position)
            if count or is_over:
                break
            self._wait(position, is_replaced=is_replaced)
            has_waited = True
        if has_waited and count:
            self._check_last(position)
        if count and position + count >= self._last[0]:
            self._last = position + count, bytes(view[max(0, count - _REMEMBERED) : count])
        return count

    def expects(self, position: int, size: int) -> None:
        """See Source."""
        self._expected = position, size

    def _check_last(self, position: int) -> None:
        """Raises UNREADABLE where other bytes than those that were read lie before what has come."""
        end, data = self._last
        if end == position and self._file.read(end - len(data), len(data)) != data:
            what = "was cut and written again while it was followed: what was shown is not in it any more"
            raise KdumpError(Codes.UNREADABLE, what, path=self.path, position=position)

    @property
    def stored(self) -> int | None:
        """See Source."""
        return self._file.stored

    def awaits(self, position: int) -> bool:
        """See Source: a file that was allocated ahead, which is cut to its contents when the next segment is made."""
        while True:
            is_replaced, is_over = self._ending()
            head = self._file.read(position, _HEAD_SIZE)
            if any(head) or not head:
                # The rest of a write follows at once.
                time.sleep(_PAUSE_SECONDS)
                return True
            if is_over:
                return False
            self._wait(position, is_replaced=is_replaced)

    def head(self, size: int) -> bytes:
        """See Source: what is there now."""
        return self._file.read(0, size)

    def _ending(self) -> tuple[bool, bool]:
        """Whether the path does not lead to the file any more, and whether nothing more will come.

        Call it before looking at the file: what was written before the next segment is still read.

        A broker makes the next segment before it deletes an old one.
        """
        return self._file.is_replaced, self._is_over()

    def _wait(self, position: int, *, is_replaced: bool) -> None:
        """Wait, as nothing new was at ``position``. Raises UNREADABLE where nothing ever will be."""
        what = ""
        if is_replaced:
            what = "was deleted or replaced"
        elif self._file.current_size < position:
            what = "was cut"
        if what:
            what += " while it was followed"
            raise KdumpError(Codes.UNREADABLE, what, path=self.path, position=position)
        self._on_wait(self._news())
        time.sleep(_POLL_SECONDS)

    def _news(self) -> str:
        """That it waits for an entry that may never come; '' where that was told, or there is none."""
        if self._expected is None or self._expected == self._told or self._expected[1] <= LARGEST_ENTRY:
            return ""
        self._told = position, size = self._expected
        what = f"the entry at {position:,} has {size:,} bytes by its length field, which may be wrong"
        return f"{self.path}: {what}; nothing after it is shown before it is whole"

    def close(self) -> None:
        """See Source."""
        self._file.close()
