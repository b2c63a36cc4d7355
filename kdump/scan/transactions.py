"""What became of the transactions in a log: committed, aborted, or open.

Source: KIP-98; shared/spec/formats.md sections 3 and 6. The markers of a producer end its transactions in order, so
the outcome of a batch is its producer's first marker behind it; a transaction index names aborted ones where their
marker is lost.
"""

from __future__ import annotations

import os
from bisect import bisect_right, insort
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from kdump.codes import Codes, DamageError, KdumpError
from kdump.format import control
from kdump.format import record as v2
from kdump.format.batch import (
    ATTRIBUTES_LOW_BYTE,
    CONTROL,
    HEADER_SIZE,
    MAGIC_OFFSET,
    TRANSACTIONAL,
    BatchHeader,
    parse_header,
)
from kdump.format.index import parse_txn_index
from kdump.format.snapshot import parse_snapshot
from kdump.log.names import Kind, parse_file_name, sibling
from kdump.log.partition import segments_around
from kdump.log.resync import ResyncWalk
from kdump.log.source import open_source, read_whole, reads_once
from kdump.log.walk import Chunk
from kdump.scan.outcomes import ABORTED, COMMITTED, OPEN, STATES

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class TransactionReader:
    """Follows the transactions of partitions, segment by segment; one object serves a whole run.

    For a segment it reads from the nearest producer snapshot at or before it (what was open there), else from the first
    segment of the directory, and on behind it until every transaction that is open at its end has ended. Segments
    that were read for one are not read again for the next.
    """

    def __init__(self) -> None:
        self._partitions: dict[str, _Partition] = {}

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
        still_open = partition.read_through(path).open_transactions & partition.open_behind[path]
        return min(((offset, producer) for producer, offset in still_open), default=None)

    def open_before(self, path: str) -> Mapping[int, int]:
        """The transactions that are open where the segment at ``path`` begins: first offsets by producer id.

        Raises as ``of``.
        """
        return dict(self._partition(path).open_before(path))

    def _partition(self, path: str) -> _Partition:
        if reads_once(path):
            raise KdumpError(Codes.UNREADABLE, "transactions cannot be followed in a stream", path=path)
        partition = self._partitions.get(os.path.dirname(path))
        if partition is None or path not in partition.segments:
            partition = self._partitions[os.path.dirname(path)] = _Partition(path)
        return partition


class _Partition:
    """The segments of one directory, from a start on; a file outside of the sequence is alone."""

    def __init__(self, path: str) -> None:
        self._transactions = Transactions()
        self._read = 0
        self.open_behind: dict[str, frozenset[tuple[int, int]]] = {}
        name = parse_file_name(path)
        around = segments_around(path) if name is not None and not name.state else [path]
        start = around.index(path)
        while start > 0 and not self._transactions.read_snapshot(around[start]):
            start -= 1
        self.segments = around[start:]
        self._open_at_start = self._transactions.open_transactions

    def open_before(self, path: str) -> frozenset[tuple[int, int]]:
        """(producer id, first offset) of the transactions that are open where ``path`` begins."""
        number = self.segments.index(path)
        if not number:
            return self._open_at_start
        before = self.segments[number - 1]
        while before not in self.open_behind:
            self._read_next()
        return self.open_behind[before]

    def read_through(self, path: str) -> Transactions:
        """Read up to the end of ``path``, and on while one of its transactions is open."""
        while path not in self.open_behind:
            self._read_next()
        while self._read < len(self.segments) and self._transactions.open_transactions & self.open_behind[path]:
            self._read_next()
        return self._transactions

    def _read_next(self) -> None:
        segment = self.segments[self._read]
        self._transactions.read_segment(segment)
        self._read += 1
        self.open_behind[segment] = self._transactions.open_transactions


class AbortedRanges:
    """What the transaction indexes of some segments say: first offset and marker of aborted transactions."""

    def __init__(self) -> None:
        self._of_producers: dict[int, list[tuple[int, int]]] = {}

    def read(self, path: str) -> None:
        """Take in the index of the segment ``path``; a damaged or missing one says nothing."""
        with suppress(KdumpError, ValueError):
            for txn in parse_txn_index(read_whole(sibling(path, Kind.TXN_INDEX))):
                self._of_producers.setdefault(txn.producer_id, []).append((txn.first_offset, txn.last_offset))

    def of_producer(self, producer_id: int) -> Sequence[tuple[int, int]]:
        """(first offset, offset of the marker) of its transactions."""
        return self._of_producers.get(producer_id, ())

    def has_lost_marker(self, producer_id: int, offset: int, marker: int) -> bool:
        """The batch of a producer at ``offset`` had another marker than the first one in the log, at ``marker``.

        An entry ends before that one, where its own marker was, or ends there and begins behind the batch.
        """
        return any(
            (first <= offset <= last < marker) or (last == marker and first > offset)
            for first, last in self.of_producer(producer_id)
        )


class Transactions:
    """The markers of some segments of one partition, read in offset order."""

    def __init__(self) -> None:
        self._markers: dict[int, list[tuple[int, str]]] = {}
        self._aborted = AbortedRanges()
        self._open: dict[int, int] = {}

    @property
    def open_transactions(self) -> frozenset[tuple[int, int]]:
        """(producer id, first offset) of those that no marker read so far ends."""
        return frozenset(self._open.items())

    def read_segment(self, path: str) -> None:
        """Take in the next segment: transactional headers and markers, behind damage too, and its transaction index.

        KdumpError when the log cannot be read; a damaged or missing index says nothing.
        """
        with open_source(path) as source:
            # A wrong length may lead past markers to what only looks like an entry: CRCs are looked at from the start.
            for item in ResyncWalk(source).items():
                if isinstance(item, Chunk):
                    self._see_chunk(item)
        self._aborted.read(path)

    def read_snapshot(self, path: str) -> bool:
        """Begin with what was open at the segment ``path``; False when it has no sound producer snapshot."""
        try:
            producers = parse_snapshot(read_whole(sibling(path, Kind.SNAPSHOT)))
        except KdumpError:
            return False
        for producer in producers:
            if producer.current_txn_first_offset >= 0:
                self._open[producer.producer_id] = producer.current_txn_first_offset
        return True

    def state(self, header: BatchHeader) -> str | None:
        """The outcome of a batch's transaction; None for batches outside of any, and for markers."""
        if not header.is_transactional or header.is_control:
            return None
        return self.outcome(header.producer_id, header.base_offset)

    def column(self, headers: NDArray[np.void]) -> NDArray[np.int8]:
        """``state`` of every batch as an index of STATES; shape (batches,)."""
        import numpy as np

        states = np.zeros(headers.size, np.int8)
        is_data = headers["attributes"] & (TRANSACTIONAL | CONTROL) == TRANSACTIONAL
        for row in np.flatnonzero(is_data).tolist():
            outcome = self.outcome(int(headers["producer_id"][row]), int(headers["base_offset"][row]))
            states[row] = STATES.index(outcome)
        return states

    def end(self, producer_id: int, offset: int) -> int | None:
        """Offset of the marker that ends the transaction of a producer's batch at ``offset``.

        None: it has none, or the marker is lost.
        """
        markers = self._markers.get(producer_id, [])
        following = bisect_right(markers, offset, key=lambda marker: marker[0])
        if following == len(markers) or self._aborted.has_lost_marker(producer_id, offset, markers[following][0]):
            return None
        return markers[following][0]

    def outcome(self, producer_id: int, offset: int) -> str:
        """What became of the transactional batch of a producer at an offset."""
        markers = self._markers.get(producer_id, [])
        following = bisect_right(markers, offset, key=lambda marker: marker[0])
        marker_offset, outcome = markers[following] if following < len(markers) else (None, OPEN)
        for first, last in self._aborted.of_producer(producer_id):
            # A transaction index ends at the marker. It counts only where that marker is lost: the log says more.
            if first <= offset <= last and (marker_offset is None or last < marker_offset):
                return ABORTED
        return outcome

    def _see_chunk(self, chunk: Chunk) -> None:
        data = chunk.data
        for start, end in chunk.entries():
            if data[start + MAGIC_OFFSET] == 2 and data[start + ATTRIBUTES_LOW_BYTE] & TRANSACTIONAL:
                self._see(chunk, start, end)

    def _see(self, chunk: Chunk, start: int, end: int) -> None:
        if end - start < HEADER_SIZE:
            return
        header = parse_header(chunk.data, start)
        producer_id = header.producer_id
        if not header.is_control:
            self._open.setdefault(producer_id, header.base_offset)
            return
        outcome = marked_outcome(header, chunk.data[start:end])
        if outcome is not None:
            insort(self._markers.setdefault(producer_id, []), (header.base_offset, outcome))
            self._open.pop(producer_id, None)


def marked_outcome(header: BatchHeader, batch: memoryview) -> str | None:
    """The outcome that a control batch (header included) gives its producer's transaction; None: it is no marker."""
    try:
        marker = next(iter(v2.read_records(header, batch)), None)
        kind = None if marker is None else control.parse_type(marker.key)
    except DamageError:
        return None
    return {control.ABORT: ABORTED, control.COMMIT: COMMITTED}.get(kind)  # type: ignore[arg-type]
