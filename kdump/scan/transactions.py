"""What became of the transactions in a log: committed, aborted, or open.

Source: KIP-98; shared/spec/formats.md sections 3 and 6. The markers of a producer end its transactions in order, so
the outcome of a batch is its producer's first marker behind it; a transaction index names aborted ones where their
marker is lost.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from contextlib import suppress
from typing import TYPE_CHECKING, Final

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
from kdump.log.partition import segments_behind
from kdump.log.source import Source, open_source, read_whole
from kdump.log.walk import Chunk, Walk

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

COMMITTED, ABORTED, OPEN = "committed", "aborted", "open"
STATES: Final = (None, COMMITTED, ABORTED, OPEN)
"""Outcomes by the numbers that ``Transactions.column`` gives; None: not a transactional batch."""


def transactions_of(path: str) -> Transactions:
    """The transactions that touch the segment at ``path``.

    Read are the producer snapshot at its base offset (what was open before it), its own headers and transaction
    index, and the segments behind it in the directory, until no transaction is open.

    Raises:
        KdumpError: a file cannot be read, or ``path`` is a stream, whose end is not known before it is shown.
    """
    found = Transactions()
    name = parse_file_name(path)
    if name is not None:
        found.read_siblings(path)
    with open_source(path) as source:
        if source.size is None:
            raise KdumpError(Codes.UNREADABLE, "transactions cannot be followed in a stream", path=path)
        found.read_segment(source)
    if name is not None and not name.state:
        for segment in segments_behind(path):
            if not found.has_open:
                break
            with open_source(segment) as source:
                found.read_segment(source)
    return found


class Transactions:
    """The markers of some segments of one partition, read in offset order."""

    def __init__(self) -> None:
        self._markers: dict[int, list[tuple[int, str]]] = {}
        self._aborted: dict[int, list[tuple[int, int]]] = {}
        self._open: dict[int, int] = {}

    @property
    def has_open(self) -> bool:
        """A transaction has begun that no marker read so far ends."""
        return bool(self._open)

    @property
    def first_open_offset(self) -> int | None:
        """Where a reader with ``read_committed`` stops; None: nowhere."""
        return min(self._open.values(), default=None)

    def read_segment(self, source: Source) -> None:
        """Take in the next segment: its transactional headers and its markers. KdumpError when it cannot be read."""
        for chunk in Walk(source).chunks():
            data = chunk.data
            for start, end in chunk.entries():
                if data[start + MAGIC_OFFSET] == 2 and data[start + ATTRIBUTES_LOW_BYTE] & TRANSACTIONAL:
                    self._see(chunk, start, end)

    def read_siblings(self, path: str) -> None:
        """Take in the producer snapshot and the transaction index beside a segment; damaged ones count as missing."""
        with suppress(KdumpError):
            for producer in parse_snapshot(read_whole(sibling(path, Kind.SNAPSHOT))):
                if producer.current_txn_first_offset >= 0:
                    self._open[producer.producer_id] = producer.current_txn_first_offset
        with suppress(KdumpError):
            for txn in parse_txn_index(read_whole(sibling(path, Kind.TXN_INDEX))):
                self._aborted.setdefault(txn.producer_id, []).append((txn.first_offset, txn.last_offset))

    def state(self, header: BatchHeader) -> str | None:
        """The outcome of a batch's transaction; None for batches outside of any, and for markers."""
        if not header.is_transactional or header.is_control:
            return None
        return self._outcome(header.producer_id, header.base_offset)

    def column(self, headers: NDArray[np.void]) -> NDArray[np.int8]:
        """``state`` of every batch as an index of STATES; shape (batches,)."""
        import numpy as np

        states = np.zeros(headers.size, np.int8)
        is_data = headers["attributes"] & (TRANSACTIONAL | CONTROL) == TRANSACTIONAL
        for row in np.flatnonzero(is_data).tolist():
            outcome = self._outcome(int(headers["producer_id"][row]), int(headers["base_offset"][row]))
            states[row] = STATES.index(outcome)
        return states

    def _outcome(self, producer_id: int, offset: int) -> str:
        if any(first <= offset <= last for first, last in self._aborted.get(producer_id, ())):
            return ABORTED
        markers = self._markers.get(producer_id, [])
        following = bisect_right(markers, offset, key=lambda marker: marker[0])
        return markers[following][1] if following < len(markers) else OPEN

    def _see(self, chunk: Chunk, start: int, end: int) -> None:
        if end - start < HEADER_SIZE:
            return
        header = parse_header(chunk.data, start)
        producer_id = header.producer_id
        if not header.is_control:
            self._open.setdefault(producer_id, header.base_offset)
            return
        try:
            marker = next(iter(v2.read_records(header, chunk.data[start:end])), None)
            kind = None if marker is None else control.parse_type(marker.key)
        except DamageError:
            return
        if kind in (control.ABORT, control.COMMIT):
            outcome = ABORTED if kind == control.ABORT else COMMITTED
            insort(self._markers.setdefault(producer_id, []), (header.base_offset, outcome))
            self._open.pop(producer_id, None)
