"""Transaction logs as ZooKeeper reads them.

Source: docs/spec/zookeeper.md#12-transaction-log, docs/spec/zookeeper.md#16-damaged-files.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator
from enum import Enum, auto
from typing import Final, NamedTuple
from zlib import adler32

from kdump.codes import DamageError
from kdump.wire.rangeadler import RangeAdler
from kdump.zookeeper.datafiles import DataFile
from kdump.zookeeper.jute import MAX_BUFFER, RefusedBytesError
from kdump.zookeeper.transactions import Transaction, parse_transaction
from kdump.zookeeper.tree import ServerRelease

LOG_MAGIC: Final = 0x5A4B4C47
_HEADER_SIZE: Final = 16
_ENTRY: Final = struct.Struct(">qi")
_END_MARK: Final = 0x42
_STARTS: Final = re.compile(rb"(?=\0\0\0\0[^\0])")
"""Where an entry may begin: the upper half of a checksum is 0, the lower half hardly ever begins with 0."""


class EndKind(Enum):
    """How reading a log ends."""

    COMPLETE = auto()
    """After the last transaction: the padding or the end of the file."""
    QUIET = auto()
    """In a transaction that is not whole. ZooKeeper goes on with the next log and says nothing."""
    FAILURE = auto()
    """ZooKeeper throws an exception, and does not start."""


class LogEnd(NamedTuple):
    """Where reading a log ends, and why. ``reason`` of a failure: the exception."""

    position: int
    kind: EndKind
    reason: str = ""


class LogEntry(NamedTuple):
    """A transaction. ``position``: of its checksum in the log; ``size``: bytes from there to the end mark."""

    position: int
    size: int
    transaction: Transaction


class TxnLog:
    """One transaction log. ``end`` tells after ``entries`` how it ended.

    Args:
        data: all bytes.
        release: its limits count.
        path: as messages of ZooKeeper show it.
    """

    def __init__(self, data: bytes, release: ServerRelease, path: str = "") -> None:
        self.data = data
        self.end = LogEnd(0, EndKind.COMPLETE)
        self._path = path
        self._most = MAX_BUFFER * (2 if release >= ServerRelease.V35 else 1)

    @classmethod
    def of(cls, file: DataFile, release: ServerRelease) -> TxnLog:
        """The log in a file. Raises as ``DataFile.content``."""
        return cls(file.content(), release, file.path)

    def entries(self) -> Iterator[LogEntry]:
        """All transactions that ZooKeeper reads."""
        if len(self.data) < _HEADER_SIZE:
            self.end = LogEnd(0, EndKind.FAILURE, "java.io.EOFException")
            return
        magic = int.from_bytes(self.data[:4], "big", signed=True)
        if magic != LOG_MAGIC:
            reason = (
                f"java.io.IOException: Transaction log: {self._path} has invalid magic number {magic} != {LOG_MAGIC}"
            )
            self.end = LogEnd(0, EndKind.FAILURE, reason)
            return
        position = _HEADER_SIZE
        while True:
            found = self._entry(position)
            if isinstance(found, LogEnd):
                self.end = found
                return
            yield found
            position += found.size

    def later_entries(self) -> Iterator[LogEntry]:
        """Whole transactions after ``end``, which ZooKeeper does not read."""
        # The zeros after the last transaction are most of many logs.
        end = len(self.data.rstrip(b"\0"))
        read = self.end.position + 1
        checksum = RangeAdler(self.data)
        for match in _STARTS.finditer(self.data, self.end.position, end):
            position = match.start()
            while position >= read and isinstance(size := self._size(position, checksum), int):
                # Bytes with the right checksum are a transaction, also where they cannot be read.
                found = self._parsed(position, size)
                if isinstance(found, LogEntry):
                    yield found
                position = read = position + _ENTRY.size + size + 1

    def _entry(self, position: int) -> LogEntry | LogEnd:
        size = self._size(position, lambda start, end: adler32(self.data[start:end]))
        return self._parsed(position, size) if isinstance(size, int) else size

    def _size(self, position: int, checksum_of: Callable[[int, int], int]) -> int | LogEnd:
        """The bytes of the transaction at a position, if its checksum is right."""
        left = len(self.data) - position
        if not left:
            return LogEnd(position, EndKind.COMPLETE)
        if left < _ENTRY.size:
            kind = EndKind.QUIET if any(self.data[position:]) else EndKind.COMPLETE
            return LogEnd(position, kind, "the checksum and the length are cut")
        checksum, size = _ENTRY.unpack_from(self.data, position)
        if not size:
            kind = EndKind.QUIET if checksum else EndKind.COMPLETE
            return LogEnd(position, kind, "a transaction of no bytes with a checksum")
        if size == -1:
            return LogEnd(position, EndKind.FAILURE, "java.lang.NullPointerException")
        if not 0 < size <= self._most:
            return LogEnd(position, EndKind.FAILURE, f"java.io.IOException: Unreasonable length = {size}")
        start = position + _ENTRY.size
        end = start + size
        if end >= len(self.data):
            return LogEnd(
                position, EndKind.QUIET, f"{size} bytes are announced where {len(self.data) - start} are left"
            )
        if self.data[end] != _END_MARK:
            return LogEnd(position, EndKind.QUIET, f"the end mark is 0x{self.data[end]:02x}")
        if checksum_of(start, end) != checksum:
            return LogEnd(position, EndKind.FAILURE, "java.io.IOException: CRC check failed")
        return int(size)

    def _parsed(self, position: int, size: int) -> LogEntry | LogEnd:
        """The transaction of so many bytes at a position."""
        start = position + _ENTRY.size
        try:
            transaction = parse_transaction(self.data[start : start + size], self._most)
        except RefusedBytesError as error:
            return LogEnd(position, EndKind.FAILURE, f"java.io.IOException: {error.message}")
        except DamageError as error:
            # Too few bytes are the end of a log to ZooKeeper.
            return LogEnd(position, EndKind.QUIET, error.message)
        return LogEntry(position, _ENTRY.size + size + 1, transaction)
