"""Standard output in big blocks."""

from __future__ import annotations

import os
import re
import select
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future, ThreadPoolExecutor

_BLOCK_SIZE = 1 << 20
_CONTROL = re.compile(
    "[\x00-\x1f\x7f-\x9f"
    # Marks that make a terminal show text in another order.
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
    # Bytes that are no UTF-8, as surrogateescape has them.
    "\ud800-\udfff]"
)
_LAYOUT = "\n\t"


class BlockWriter:
    r"""Collects bytes and writes them to a descriptor a block at a time.

    On a terminal every call is written at once, and control characters (all but line end and tab) appear as
    ``\xNN``: nothing stored in a file may drive the terminal. Anywhere else the bytes are exact.

    Args:
        descriptor: where the bytes go.
        at_once: write every call; None: on a terminal.
        escapes: escape control characters; None: on a terminal.
        before: called before each write, to take away what else is on the terminal.

    Raises:
        BrokenPipeError: the reader is gone.
        OSError: the descriptor cannot be written.
    """

    def __init__(
        self,
        descriptor: int,
        *,
        at_once: bool | None = None,
        escapes: bool | None = None,
        before: Callable[[], None] | None = None,
    ) -> None:
        is_terminal = os.isatty(descriptor)
        self._descriptor = descriptor
        self._before = before
        self._at_once = is_terminal if at_once is None else at_once
        self._escapes = is_terminal if escapes is None else escapes
        self._pending: list[bytes | memoryview] = []
        self._size = 0
        self._thread: ThreadPoolExecutor | None = None
        self._written: Future[None] | None = None

    def write(self, data: bytes | memoryview) -> None:
        """Take ``data``, which must not change any more. It is written at the latest by ``flush``."""
        self._keep(data)
        if self._at_once:
            self.flush()
        elif self._size >= _BLOCK_SIZE:
            self._hand_over()

    def flush(self) -> None:
        """Write what is pending; everything is written when this returns."""
        self._wait()
        self._write_all(self._take())

    def write_through(self, data: bytes | memoryview) -> None:
        """Write ``data``, after what is pending; it may change when this has returned."""
        self._keep(data)
        self.flush()

    def flush_and_check_reader(self) -> None:
        """Write what is pending before a long wait. BrokenPipeError: the reader has gone."""
        self.flush()
        poll = select.poll()
        poll.register(self._descriptor, 0)
        if any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0)):
            raise BrokenPipeError

    def _keep(self, data: bytes | memoryview) -> None:
        if self._escapes:
            text = bytes(data).decode("utf-8", "surrogateescape")
            data = escaped(text, keep=_LAYOUT).encode("utf-8", "surrogateescape")
        if len(data):
            self._pending.append(data)
            self._size += len(data)

    def _hand_over(self) -> None:
        """Let a thread write. Half of the time of a large dump is the system's copying, which needs no Python."""
        self._wait()
        if self._thread is None:
            from concurrent.futures import ThreadPoolExecutor

            self._thread = ThreadPoolExecutor(1, "stdout")
        self._written = self._thread.submit(self._write_all, self._take())

    def _wait(self) -> None:
        written, self._written = self._written, None
        if written is not None:
            written.result()

    def _take(self) -> list[bytes | memoryview]:
        pending, self._pending, self._size = self._pending, [], 0
        return pending

    def _write_all(self, pending: list[bytes | memoryview]) -> None:
        if pending and self._before is not None:
            self._before()
        view = memoryview(pending[0] if len(pending) == 1 else b"".join(pending))
        while view:
            try:
                view = view[os.write(self._descriptor, view) :]
            except BlockingIOError:
                # The process at the other end made the descriptor non-blocking: wait for room.
                select.select([], [self._descriptor], [])


def escaped(text: str, keep: str = "") -> str:
    r"""Control characters as ``\xNN`` or ``\uNNNN``: nothing stored in a file may drive the terminal.

    ``keep``: characters that are left as they are.
    """
    return _CONTROL.sub(lambda match: match[0] if match[0] in keep else _escape(ord(match[0])), text)


def _escape(code: int) -> str:
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    return f"\\x{code:02x}" if code <= 0xFF else f"\\u{code:04x}"
