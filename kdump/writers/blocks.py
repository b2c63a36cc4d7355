"""Standard output in big blocks."""

from __future__ import annotations

import os
import re
import select

_BLOCK_SIZE = 1 << 20
_CONTROL = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]")


class BlockWriter:
    r"""Collects bytes and writes them to a descriptor a block at a time.

    On a terminal every call is written at once, and control characters (all but line end and tab) appear as
    ``\xNN``: nothing stored in a file may drive the terminal. Anywhere else the bytes are exact.

    Args:
        descriptor: where the bytes go.
        is_terminal: None: ask the descriptor. A pager's pipe is one, too.
        escapes: False when control characters are escaped already (what is left are colours).

    Raises:
        BrokenPipeError: the reader is gone.
        OSError: the descriptor cannot be written.
    """

    def __init__(self, descriptor: int, *, is_terminal: bool | None = None, escapes: bool = True) -> None:
        self._descriptor = descriptor
        self._at_once = os.isatty(descriptor) if is_terminal is None else is_terminal
        self._escapes = self._at_once and escapes
        self._pending: list[bytes | memoryview] = []
        self._size = 0

    def write(self, data: bytes | memoryview) -> None:
        """Take ``data``; it is on its way at the latest after ``flush``."""
        if self._escapes:
            data = _CONTROL.sub(_escape, data)
        self._pending.append(data)
        self._size += len(data)
        if self._size >= _BLOCK_SIZE or self._at_once:
            self.flush()

    def flush(self) -> None:
        """Write what is pending."""
        pending, self._pending, self._size = self._pending, [], 0
        view = memoryview(pending[0] if len(pending) == 1 else b"".join(pending))
        while view:
            try:
                view = view[os.write(self._descriptor, view) :]
            except BlockingIOError:
                # Whoever is at the other end made the descriptor non-blocking: wait for room.
                select.select([], [self._descriptor], [])


def _escape(match: re.Match[bytes]) -> bytes:
    return b"\\x%02x" % match[0][-1]
