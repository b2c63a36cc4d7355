"""The types of jute, ZooKeeper's record format.

Source: docs/spec/zookeeper.md#11-jute-types.
"""

from __future__ import annotations

from typing import NamedTuple

from kdump.wire.cursor import Cursor


class AccessRule(NamedTuple):
    """One entry of the ACL of a node; ``perms``: 1 read, 2 write, 4 create, 8 delete, 16 admin."""

    perms: int
    scheme: str
    id: str


class JuteReader(Cursor):
    """Reads the fields of jute records. Every read past the end is a DamageError."""

    def boolean(self) -> bool:
        """The next byte is not 0."""
        return self.integer(1) != 0

    def buffer_or_none(self) -> bytes | None:
        """The next buffer; None: it is null. DamageError for other negative lengths."""
        size = self.integer(4)
        return None if size == -1 else self.take(size)

    def text(self) -> str:
        """The next string; null is read as empty. Bytes that are no UTF-8 become U+FFFD, as in Java."""
        return (self.buffer_or_none() or b"").decode("utf-8", "replace")

    def count(self) -> int:
        """The length of the next vector; a null vector has none."""
        return max(self.integer(4), 0)

    def acl(self) -> tuple[AccessRule, ...]:
        """The next vector of ACL entries."""
        return tuple(AccessRule(self.integer(4), self.text(), self.text()) for _ in range(self.count()))
