"""The output of a decompressor, within a limit."""

from __future__ import annotations

from kdump.codes import Codes, DamageError


def too_large(limit: int) -> DamageError:
    """The error of a payload that would grow over ``limit`` bytes."""
    return DamageError(
        Codes.PAYLOAD_TOO_LARGE, f"the decompressed records are over {limit:,} bytes (--max-decompressed-size)"
    )


class Output:
    """Collects the parts of a payload, which has ``limit`` bytes at most.

    Parts are joined at once: a hostile payload has millions of them, and each would cost an object.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._content: bytes | bytearray = b""
        self.room = limit
        """Bytes that may still come."""

    def need(self, size: int) -> None:
        """Ask before ``size`` bytes are allocated: DamageError PAYLOAD_TOO_LARGE when they exceed the limit."""
        if size > self.room:
            raise too_large(self._limit)

    def add(self, part: bytes | bytearray) -> None:
        """Take a part. Raises as ``need``."""
        self.need(len(part))
        self.room -= len(part)
        if not self._content:
            self._content = part
        elif isinstance(self._content, bytearray):
            self._content += part
        else:
            self._content = bytearray(self._content)
            self._content += part

    def content(self) -> bytes | bytearray:
        """All parts, joined."""
        return self._content
