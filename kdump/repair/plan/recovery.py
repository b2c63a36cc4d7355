"""Hash and recover: one pass over a log for its digests, what a broker's recovery makes of it, and perhaps a copy.

Source: docs/spec/recovery.md (LogSegment.recover).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from kdump.kafka.recover import Recovery, SegmentRecovery
from kdump.kafka.segmentindexes import IndexBuilder
from kdump.log.names import Kind
from kdump.log.opening import check_holes
from kdump.log.source import Source
from kdump.log.walk import DEFAULT_CHUNK_SIZE, Walk
from kdump.repair.plan.producersat import ProducersAt, WatchedProducers

if TYPE_CHECKING:
    from hashlib import _Hash


class _Digests(NamedTuple):
    """``whole`` of all bytes, in hexadecimal; ``kept`` of those up to the end of recovery."""

    whole: str
    kept: _Hash


@dataclass(frozen=True, slots=True)
class HashAndRecover:
    """What recovery makes of a log; its digests raise ValueError where they were not asked for."""

    recovery: Recovery
    _digests: _Digests | None

    @property
    def sha256(self) -> str:
        """Of the whole log, in hexadecimal."""
        return self._asked_for.whole

    @property
    def kept_sha256(self) -> str:
        """Of the bytes up to ``recovery.end``."""
        return self._asked_for.kept.hexdigest()

    def kept(self) -> _Hash:
        """The digest of these bytes, to go on with."""
        return self._asked_for.kept.copy()

    @property
    def _asked_for(self) -> _Digests:
        if self._digests is None:
            raise ValueError("the digests were not asked for")
        return self._digests


def read_through(
    source: Source,
    recovery: SegmentRecovery,
    copy: Callable[[memoryview], None] | None = None,
    *,
    digests: bool = True,
) -> HashAndRecover:
    """Feed a log to ``recovery`` and digest it; every byte is read once.

    Args:
        source: the log, a regular file.
        recovery: a fresh one.
        copy: takes the bytes that recovery keeps, and perhaps some after them; cut the copy at ``recovery.end``.
        digests: digest the log; False: what lies after the end of recovery is not read.

    Raises:
        KdumpError: the log cannot be read, or the copy not written.
    """
    if source.size is None:
        raise ValueError("only a file whose size is known can be repaired")
    kept = hashlib.sha256() if digests else None
    walk = Walk(source)
    if recovery.open(source.size):
        consumer = _Consumer(copy, alongside=source.size > DEFAULT_CHUNK_SIZE)
        try:
            for chunk in walk.chunks():
                before, entries = None if kept is None else kept.copy(), chunk.data[: chunk.end]
                consumer.start(kept, entries)
                goes_on = recovery.take(chunk)
                consumer.wait()
                if not goes_on:
                    if before is not None:
                        before.update(entries[: recovery.end - chunk.position])
                    kept = before
                    break
        finally:
            consumer.close()
    result = recovery.finish(walk.stop, walk.bad_length)
    if kept is None:
        return HashAndRecover(result, None)
    whole = kept.copy()
    _digest_rest(source, source.size, result.end, whole)
    return HashAndRecover(result, _Digests(whole.hexdigest(), kept))


def digested(source: Source, recovery: Recovery) -> HashAndRecover:
    """Digest a log whose recovery is known. Raises KdumpError where it cannot be read."""
    kept = hashlib.sha256()
    _digest_rest(source, recovery.end, 0, kept)
    whole = kept.copy()
    _digest_rest(source, recovery.size, recovery.end, whole)
    return HashAndRecover(recovery, _Digests(whole.hexdigest(), kept))


def start_sha256(source: Source, size: int) -> str:
    """Of the first ``size`` bytes of a file, in hexadecimal."""
    return start_digest(source, size).hexdigest()


def start_digest(source: Source, size: int) -> _Hash:
    """Of the first ``size`` bytes of a file, to be continued."""
    digest = hashlib.sha256()
    _digest_rest(source, size, 0, digest)
    return digest


class _Consumer:
    """Digests and copies a chunk; ``alongside``: in two threads, because both let other threads run meanwhile."""

    def __init__(self, copy: Callable[[memoryview], None] | None, *, alongside: bool) -> None:
        self._copy = copy
        self._executor = ThreadPoolExecutor(1 if copy is None else 2, "digest") if alongside else None
        self._started: list[Future[None]] = []

    def start(self, digest: _Hash | None, entries: memoryview) -> None:
        """Take ``entries``, which must not change before ``wait``."""
        if digest is not None:
            self._run(digest.update, entries)
        if self._copy is not None:
            self._run(self._copy, entries)

    def wait(self) -> None:
        """Raises what went wrong."""
        started, self._started = self._started, []
        for future in started:
            future.result()

    def close(self) -> None:
        """Let the threads end."""
        if self._executor is not None:
            self._executor.shutdown()

    def _run(self, consume: Callable[[memoryview], None], entries: memoryview) -> None:
        if self._executor is None:
            consume(entries)
        else:
            self._started.append(self._executor.submit(consume, entries))


def _digest_rest(source: Source, size: int, position: int, digest: _Hash) -> None:
    """Raises KdumpError FILE_SIZE for a sparse file that would take hours."""
    check_holes(source)
    buffer = memoryview(bytearray(min(_PIECE, max(size - position, 0))))
    while position < size:
        # A part of the file without data is digested, but not read.
        zeros = min(source.data_from(position), size) - position
        if zeros >= _PIECE:
            block = bytes(_PIECE)
            for _ in range(zeros // _PIECE):
                digest.update(block)
            position += zeros // _PIECE * _PIECE
            continue
        count = source.read_into(buffer[: size - position], position)
        if not count:
            break
        digest.update(buffer[:count])
        position += count


_PIECE: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Recovered:
    """What a broker's recovery makes of a log.

    ``producers``: those after it. ``keeps_txn_index``: too little is known of the log before to rebuild the .txnindex.
    """

    read: HashAndRecover
    producers: WatchedProducers
    keeps_txn_index: bool

    @property
    def recovery(self) -> Recovery:
        """What recovery does."""
        return self.read.recovery

    def index_files(self, *, has_txn_index: bool) -> dict[Kind, bytes]:
        """The contents of the index files that recovery leaves; those that are not in it stay as they are.

        ``has_txn_index``: there is one now, which recovery empties where it has nothing to put in it.
        """
        built = self.recovery.indexes
        if built is None:
            raise ValueError("the index files were not asked for")
        files = {Kind.INDEX: built.index, Kind.TIME_INDEX: built.time_index}
        if not self.keeps_txn_index and (built.txn_index is not None or has_txn_index):
            files[Kind.TXN_INDEX] = built.txn_index or b""
        return files

    def without_indexes(self) -> Recovered:
        """A copy that forgets the contents of the index files."""
        return replace(self, read=replace(self.read, recovery=replace(self.recovery, indexes=None)))

    def without_producers(self) -> Recovered:
        """A copy that forgets the producers: it has none."""
        return replace(self, producers=WatchedProducers())


def recover_log(
    source: Source,
    base_offset: int,
    producers: ProducersAt,
    *,
    index_interval: int,
    copy: Callable[[memoryview], None] | None = None,
    digests: bool = True,
) -> Recovered:
    """Recover a log as a broker does.

    Args:
        source: the log.
        base_offset: of its name.
        producers: at that offset. Their states are changed to those after the log.
        index_interval: index.interval.bytes.
        copy: see read_through.
        digests: see read_through.

    Raises:
        KdumpError: the log cannot be read, or the copy not written.
    """
    indexes = IndexBuilder(base_offset, interval=index_interval)
    states = producers.states
    read = read_through(source, SegmentRecovery(base_offset, states, indexes), copy, digests=digests)
    return Recovered(read, states, not producers.is_known and states.has_unbegun_marker)
