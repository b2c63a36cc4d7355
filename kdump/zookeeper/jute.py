"""The types of jute, ZooKeeper's record format.

Source: docs/spec/zookeeper.md#11-jute-types.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

from kdump.codes import Codes, DamageError, KdumpError
from kdump.limits import ELEMENTS, hint, most
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


Acl: TypeAlias = tuple[AccessRule, ...]
"""The rules of a node."""


class JuteReader(Cursor):
    """Reads the fields of jute records. Every read past the end is a DamageError.

    ``largest``: the bytes of the largest buffer.
    """

    largest = 2 * MAX_BUFFER
    _kept = 0

    def boolean(self) -> bool:
        """The next byte is not 0."""
        return self.integer(1) != 0

    def buffer_or_none(self) -> bytes | None:
        """The next buffer; None: it is null. RefusedBytesError for other lengths below 0 and those over ``largest``."""
        size = self.integer(4)
        if not -1 <= size <= self.largest:
            raise RefusedBytesError(self.code, f"Unreasonable length = {size}")
        return None if size == -1 else self.take(size)

    def text(self) -> str:
        """The next string; null is read as empty. Bytes that are no UTF-8 become U+FFFD, as in Java."""
        return (self.buffer_or_none() or b"").decode("utf-8", "replace")

    def count(self) -> int:
        """The length of the next vector; a null vector has none."""
        return max(self.integer(4), 0)

    def acl(self) -> Acl:
        """The next vector of ACL entries. Raises as ``keep``."""
        rules = []
        self.keep(1)
        for _ in range(self.count()):
            rules.append(AccessRule(self.integer(4), self.text(), self.text()))
            self.keep(1)
        return tuple(rules)

    def keep(self, count: int) -> None:
        """So many more elements are kept. Raises KdumpError FILE_SIZE where they are more than kdump keeps."""
        self._kept += count
        if self._kept > most(ELEMENTS):
            raise KdumpError(Codes.FILE_SIZE, f"has more sessions and ACLs than kdump keeps; {hint(ELEMENTS)}")
