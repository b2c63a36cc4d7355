"""The transactions that touch a segment. As many segments of its partition are read as that needs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress

from kdump.codes import Codes, KdumpError
from kdump.log.named import reads_once
from kdump.log.names import base_of, parse_file_name
from kdump.log.partition import segments_around
from kdump.reading.transactions import Transactions, least


class TransactionReader:
    """Follows the transactions of partitions, segment by segment. One object serves a whole run.

    For a segment, reading begins at the nearest producer snapshot at or before it (which tells what was open there),
    else at the first segment of the directory. It goes on after the segment until every transaction that is open at its
    end has ended. No segment is read twice.
    """

    def __init__(self) -> None:
        self._partitions: dict[str, _PartitionSegments] = {}
        self._announced: dict[str, dict[str, None]] = {}

    def announce(self, path: str) -> None:
        """Begin no later than with this segment, once a segment of its directory is asked for.

        Where the end of a transaction is lost, what is open in a segment depends on those that were read before it. So
        what is found is the same whether the segments before need to be read or not.
        """
        self._announced.setdefault(os.path.dirname(path), {})[path] = None

    def of(self, path: str) -> Transactions:
        """The transactions that touch the segment at ``path``.

        Raises:
            KdumpError: a file cannot be read, or ``path`` is a stream, which cannot be read ahead.
        """
        return self._partition(path).read_through(path)

    def first_open(self, path: str) -> tuple[int, int] | None:
        """(first offset, producer id) where a reader with ``read_committed`` stops at or before the segment's end.

        None: it reads all of it. Raises as ``of``.
        """
        partition = self._partition(path)
        transactions = partition.read_through(path)
        still_open = transactions.opened.first_still(partition.number(path))
        undecided = transactions.first_undecided
        return least(still_open, undecided if undecided and undecided[0] < partition.end_of[path] else None)

    def open_before(self, path: str) -> Mapping[int, int]:
        """The transactions that are open where the segment at ``path`` begins: first offsets by producer id.

        Raises as ``of``.
        """
        return self._partition(path).open_before(path)

    def _partition(self, path: str) -> _PartitionSegments:
        for announced in self._announced.pop(os.path.dirname(path), ()):
            with suppress(KdumpError):
                self._around(announced).read_through(announced)
        return self._around(path)

    def _around(self, path: str) -> _PartitionSegments:
        if reads_once(path):
            raise KdumpError(Codes.UNREADABLE, "transactions cannot be followed in a stream", path=path)
        partition = self._partitions.get(os.path.dirname(path))
        if partition is None or path not in partition.segments:
            partition = self._partitions[os.path.dirname(path)] = _PartitionSegments(path)
        return partition


class _PartitionSegments:
    """The segments of one directory from a start on. A file outside of the sequence is alone."""

    def __init__(self, path: str) -> None:
        self._transactions = Transactions()
        self._read = 0
        self._unread: dict[str, KdumpError] = {}
        self.end_of: dict[str, int] = {}
        name = parse_file_name(path)
        around = segments_around(path) if name is not None and not name.state else [path]
        start = around.index(path)
        while start > 0 and not self._transactions.read_snapshot(around[start]):
            start -= 1
        self.segments = around[start:]
        self._numbers = {segment: number for number, segment in enumerate(self.segments, start=1)}

    def number(self, path: str) -> int:
        """The number of a segment, from 1 on."""
        return self._numbers[path]

    def open_before(self, path: str) -> dict[int, int]:
        """First offsets of the transactions that are open where ``path`` begins, by producer id."""
        before = self.number(path) - 1
        if before:
            self._read_up_to(self.segments[before - 1])
        return self._transactions.opened.after(before)

    def read_through(self, path: str) -> Transactions:
        """Read up to the end of ``path``, and further while one of its transactions is open."""
        self._read_up_to(path)
        while self._read < len(self.segments) and self._transactions.opened.is_any_still(self.number(path)):
            self._read_next()
        return self._transactions

    def _read_up_to(self, path: str) -> None:
        """Read up to the end of ``path``. Raises KdumpError, for one segment the same error each time."""
        while path not in self.end_of:
            if path in self._unread:
                raise self._unread[path]
            self._read_next()

    def _read_next(self) -> None:
        segment = self.segments[self._read]
        self._read += 1
        try:
            self._transactions.read_segment(segment, *map(base_of, self.segments[self._read : self._read + 1]))
        except KdumpError as error:
            self._unread[segment] = error
            raise
        self.end_of[segment] = self._transactions.end_offset
