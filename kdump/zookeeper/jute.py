"""The types of jute, ZooKeeper's record format.

Source: docs/spec/zookeeper.md#11-jute-types.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final, NamedTuple

from kdump.codes import DamageError
from kdump.wire.cursor import Cursor

MAX_BUFFER: Final = 0xFFFFF
"""``jute.maxbuffer``; a server of 3.5.6 and later reads twice as much, for what it adds to a request."""


class RefusedBytesError(DamageError):
    """ZooKeeper throws an IOException at these bytes, and does not take them for the end of a file."""


class AccessRule(NamedTuple):
    """One entry of the ACL of a node; ``perms``: 1 read, 2 write, 4 create, 8 delete, 16 admin."""

    perms: int
    scheme: str
    id: str


class Acl(Collection[AccessRule]):
    """The rules of an ACL. It holds their bytes, and makes the rules while somebody iterates over them.

    A snapshot of 64 MiB may have millions, of 12 bytes each; as objects each takes 110.

    ``stored``: the vector in a file, which ``JuteReader.skip_acl`` has read without an error.
    """

    __slots__ = ("stored",)

    def __init__(self, stored: bytes) -> None:
        self.stored = stored

    def __len__(self) -> int:
        return JuteReader(self.stored).count()

    def __iter__(self) -> Iterator[AccessRule]:
        reader = JuteReader(self.stored)
        return (AccessRule(reader.integer(4), reader.text(), reader.text()) for _ in range(reader.count()))

    def __contains__(self, rule: object) -> bool:
        return any(rule == one for one in self)


NO_ACL: Final = Acl(bytes(4))


class JuteReader(Cursor):
    """Reads the fields of jute records. Every read past the end is a DamageError.

    ``most``: the bytes of the largest buffer.
    """

    most = 2 * MAX_BUFFER

    def boolean(self) -> bool:
        """The next byte is not 0."""
        return self.integer(1) != 0

    def buffer_or_none(self) -> bytes | None:
        """The next buffer; None: it is null. RefusedBytesError for other negative lengths and those over ``most``."""
        size = self._buffer_size()
        return None if size == -1 else self.take(size)

    def text(self) -> str:
        """The next string; null is read as empty. Bytes that are no UTF-8 become U+FFFD, as in Java."""
        return (self.buffer_or_none() or b"").decode("utf-8", "replace")

    def count(self) -> int:
        """The length of the next vector; a null vector has none."""
        return max(self.integer(4), 0)

    def acl(self) -> Acl:
        """The next vector of ACL entries."""
        start = self.position
        self.skip_acl()
        return Acl(bytes(self.buffer[start : self.position]))

    def skip_acl(self) -> None:
        """Pass over the next vector of ACL entries. Raises as ``acl`` does."""
        for _ in range(self.count()):
            self.integer(4)
            for _text in ("scheme", "id"):
                self._advance(max(self._buffer_size(), 0))

    def _buffer_size(self) -> int:
        size = self.integer(4)
        if not -1 <= size <= self.most:
            raise RefusedBytesError(self.code, f"Unreasonable length = {size}")
        return size
