"""One segment of a broker: where an offset is, where it ends, its recovery, its new names.

Source: docs/spec/startup.md#3-loading-the-segments (rules 8, 9, 11 and 14; LogSegment), docs/spec/recovery.md.
"""

from __future__ import annotations

from collections.abc import Iterator

from kdump.codes import DamageError
from kdump.format.batch import MAX_INT32
from kdump.format.index import TIME_ENTRY_SIZE, TXN_ENTRY_SIZE, AbortedTxn, txn_entries
from kdump.kafka.failures import FailureKind, KafkaFailureError
from kdump.kafka.producers import ProducerStates
from kdump.kafka.recover import Recovery, recover
from kdump.kafka.startup.batches import StoredBatch, batches_of, chunks
from kdump.kafka.startup.directory import Directory, LoadSettings
from kdump.kafka.startup.indexfiles import IndexFile, OffsetIndexFile
from kdump.kafka.startup.names import INDEX, LOG, SEGMENT_SUFFIXES, TIME_INDEX, TXN_INDEX, file_name
from kdump.kafka.startup.outcome import ILLEGAL_ARGUMENT, KAFKA, StartFailureError
from kdump.kafka.startup.textfiles import LeaderEpochs
from kdump.log.content import Content


class OffsetOverflowError(Exception):
    """A batch does not fit the segment, which would be split."""

    def __init__(self, segment: StartSegment, message: str) -> None:
        super().__init__(message)
        self.segment = segment
        self.message = message


class StartSegment:
    """The files of one base offset; the .log is made if it is missing.

    Args:
        directory: where they lie.
        base_offset: in the names.
        settings: what the broker knows of the partition.
        suffix: after the names, ``.swap``.

    Raises:
        StartFailureError: a log of 2 GiB and more.
    """

    def __init__(self, directory: Directory, base_offset: int, settings: LoadSettings, suffix: str = "") -> None:
        self.base_offset = base_offset
        self._directory = directory
        self._max_index_size = settings.max_index_size
        self._release = settings.release
        self._names = {kind: file_name(base_offset, kind) + suffix for kind in SEGMENT_SUFFIXES}
        self._index: OffsetIndexFile | None = None
        self._time_index: IndexFile | None = None
        log = self._names[LOG]
        if log not in directory:
            directory[log] = Content.of_bytes(b"")
        if directory[log].size > MAX_INT32:
            raise StartFailureError(KAFKA, f"{log} has {directory[log].size} bytes, {MAX_INT32} are the most")
        self._has_txn_index = self._names[TXN_INDEX] in directory
        self.visible_size = 0
        """Bytes up to the end of the batch that ``next_offset`` found last."""

    @property
    def log_name(self) -> str:
        """The present name of the .log."""
        return self._names[LOG]

    @property
    def size(self) -> int:
        """Bytes of the log."""
        return self._directory[self._names[LOG]].size

    @property
    def index(self) -> OffsetIndexFile:
        """The .index, full of zeros if it was missing."""
        if self._index is None:
            name = self._names[INDEX]
            self._index = OffsetIndexFile(self._directory, name, self.base_offset, self._max_index_size)
        return self._index

    @property
    def time_index(self) -> IndexFile:
        """The .timeindex, full of zeros if it was missing."""
        if self._time_index is None:
            name = self._names[TIME_INDEX]
            self._time_index = IndexFile(self._directory, name, TIME_ENTRY_SIZE, self._max_index_size)
        return self._time_index

    def needs_recovery(self) -> bool:
        """Whether the check fails that a broker makes when it loads a segment.

        Raises:
            StartFailureError: an entry of the .txnindex of an unknown version.
        """
        if self._names[INDEX] not in self._directory:
            return True
        if self._names[TIME_INDEX] not in self._directory:
            self.time_index.resize(0)
        return any(entry.last_offset < self.base_offset for entry in self._aborted())

    def find(self, offset: int) -> tuple[int, int] | None:
        """(position, base offset) of the batch that holds an offset, or of the first one after it; None at the end.

        Raises:
            StartFailureError: a broken length field or header on the way.
        """
        with self._directory.open(self.log_name) as source:
            previous: tuple[tuple[int, int], StoredBatch] | None = None
            for chunk in chunks(source, self.index.position_of(offset)):
                for batch in batches_of(chunk):
                    found = batch.position, batch.base_offset
                    if found[1] >= offset:
                        is_held = found[1] > offset and previous and previous[1].last_offset >= offset
                        return previous[0] if is_held and previous else found
                    previous = found, batch
                if previous is not None:
                    previous = previous[0], previous[1].detached()
            return previous[0] if previous is not None and previous[1].last_offset >= offset else None

    def next_offset(self) -> int:
        """The offset after the last whole batch, if the last entry of the .index leads to one; else the base offset.

        Raises:
            StartFailureError: as ``find``.
        """
        offset = self.index.last_offset()
        is_found = False
        last: StoredBatch | None = None
        with self._directory.open(self.log_name) as source:
            for chunk in chunks(source, self.index.position_of(offset)):
                found = batches_of(chunk)
                while not is_found and (batch := next(found, None)) is not None:
                    is_found, last = batch.base_offset >= offset, batch
                if is_found:
                    start = chunk.starts[-1]
                    last = StoredBatch(chunk.position + start, chunk.end - start, chunk.data[start:])
                last = last and last.detached()
            if last is None or not (is_found or last.last_offset >= offset):
                self.visible_size = 0
                return self.base_offset
            self.visible_size = last.position + last.size
            return last.last_offset + 1

    def read_range(self, offset: int, end: int) -> tuple[int, int] | None:
        """The positions from the batch that holds ``offset`` up to ``end``; None if no batch holds it.

        Raises:
            StartFailureError: as ``find``, and when that batch lies after ``end``.
        """
        found = self.find(offset)
        if found is None:
            return None
        position, _ = found
        if position > end:
            message = f"offset {offset} is at position {position} of {self.log_name}, after {end}"
            raise StartFailureError(ILLEGAL_ARGUMENT, message)
        return position, end

    def recover(self, producers: ProducerStates, epochs: LeaderEpochs) -> Recovery:
        """Walk the log, cut it, and rebuild its index files.

        Args:
            producers: at the base offset; they are changed to those at the end.
            epochs: new ones are added.

        Raises:
            OffsetOverflowError: a batch does not fit.
            KafkaFailureError: any other failure.
        """
        index, time_index, txn_index = self.index, self.time_index, self._names[TXN_INDEX]
        size, latest = self._max_index_size, epochs.latest
        with self._directory.open(self.log_name) as source:
            result = recover(source, self.base_offset, producers, index_size=size, latest_leader_epoch=latest)
        failure, built = result.failure, result.indexes
        assert built is not None, "they are needed"
        is_cut = failure is None or failure.after_truncation
        if is_cut:
            self._directory.resize(self.log_name, result.end)
        index.rebuild(built.index, is_complete=is_cut)
        time_index.rebuild(built.time_index, is_complete=failure is None)
        if self._has_txn_index or built.txn_index is not None:
            self._directory[txn_index] = Content.of_bytes(built.txn_index or b"")
            self._has_txn_index = True
        for epoch, base_offset in result.leader_epochs:
            epochs.assign(epoch, base_offset)
        if failure is None:
            return result
        if failure.kind is FailureKind.OFFSET_OVERFLOW:
            raise OffsetOverflowError(self, failure.message)
        raise KafkaFailureError(failure.kind, failure.message)

    def truncate_to(self, offset: int) -> int:
        """Cut the log before the first batch with this offset or a higher one; returns the bytes cut.

        Raises:
            StartFailureError: as ``find``.
        """
        found = self.find(offset)
        cut = 0 if found is None else self.size - found[0]
        self.index.empty()
        self.time_index.empty()
        name = self._names[TXN_INDEX]
        for number, entry in enumerate(self._aborted()):
            if entry.last_offset >= offset:
                self._directory.resize(name, number * TXN_ENTRY_SIZE)
                break
        self.index.grow()
        self.time_index.grow()
        self._directory.resize(self.log_name, self.size - cut)
        return cut

    def rename(self, suffix: str, new_suffix: str) -> list[str]:
        """Replace the suffix of all names; returns the new names."""
        for kind, name in self._names.items():
            self._names[kind] = name.removesuffix(suffix) + new_suffix
            self._directory.rename(name, self._names[kind])
        for file, kind in ((self._index, INDEX), (self._time_index, TIME_INDEX)):
            if file is not None:
                file.name = self._names[kind]
        return list(self._names.values())

    def _aborted(self) -> Iterator[AbortedTxn]:
        if self._has_txn_index:
            name = self._names[TXN_INDEX]
            try:
                yield from txn_entries(self._directory.read(name), self._release)
            except DamageError as error:
                raise StartFailureError(KAFKA, f"{name}: {error.message}") from None
