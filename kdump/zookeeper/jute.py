"""The types of jute, ZooKeeper's record format.

Source: docs/spec/zookeeper.md#11-jute-types.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from kdump.codes import DamageError
from kdump.wire.cursor import Cursor
from kdump.wire.packeditems import PackedItems

MAX_BUFFER: Final = 0xFFFFF
"""``jute.maxbuffer``; a server of 3.5.6 and later reads twice as much, for what it adds to a request."""

_FEW_RULES: Final = 1 << 10
"""Rules of an ACL that need no packing."""


class RefusedBytesError(DamageError):
    """ZooKeeper throws an IOException at these bytes, and does not take them for the end of a file."""


class AccessRule(NamedTuple):
    """One entry of the ACL of a node; ``perms``: 1 read, 2 write, 4 create, 8 delete, 16 admin."""

    perms: int
    scheme: str
    id: str


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
        size = self.integer(4)
        if not -1 <= size <= self.most:
            raise RefusedBytesError(self.code, f"Unreasonable length = {size}")
        return None if size == -1 else self.take(size)

    def text(self) -> str:
        """The next string; null is read as empty. Bytes that are no UTF-8 become U+FFFD, as in Java."""
        return (self.buffer_or_none() or b"").decode("utf-8", "replace")

    def count(self) -> int:
        """The length of the next vector; a null vector has none."""
        return max(self.integer(4), 0)

    def acl(self) -> Sequence[AccessRule]:
        """The next vector of ACL entries. That of a snapshot may have millions, of 12 bytes each."""
        count = self.count()
        rules = (AccessRule(self.integer(4), self.text(), self.text()) for _ in range(count))
        return tuple(rules) if count <= _FEW_RULES else PackedItems(rules, tuple, AccessRule._make)
