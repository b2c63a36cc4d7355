"""Hash and recover: one pass over a log for its digests, what a broker's recovery makes of it, and perhaps a copy.

Source: docs/spec/recovery.md (LogSegment.recover).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from kdump.kafka.recover import Recovery, SegmentRecovery
from kdump.kafka.segmentindexes import IndexBuilder
from kdump.log.names import Kind
from kdump.log.opening import check_holes
from kdump.log.source import Source
from kdump.log.walk import Walk
from kdump.repair.plan.producersat import ProducersAt

if TYPE_CHECKING:
    from hashlib import _Hash


class LogDigests(NamedTuple):
    """SHA-256: ``whole`` of a log, in hexadecimal, and ``kept`` of its bytes up to the end of recovery."""

    whole: str
    kept: _Hash


def digested(source: Source, recovery: Recovery) -> LogDigests:
    """Digest a log whose recovery is known. Raises KdumpError where it cannot be read."""
    kept = hashlib.sha256()
    _digest_rest(source, recovery.end, 0, kept)
    return _digests(source, recovery.size, recovery.end, kept)


def _digests(source: Source, size: int, end: int, kept: _Hash) -> LogDigests:
    """``kept``: of the bytes up to ``end``."""
    whole = kept.copy()
    _digest_rest(source, size, end, whole)
    return LogDigests(whole.hexdigest(), kept)


def start_sha256(source: Source, size: int) -> str:
    """Of the first ``size`` bytes of a file, in hexadecimal."""
    return start_digest(source, size).hexdigest()


def start_digest(source: Source, size: int) -> _Hash:
    """Of the first ``size`` bytes of a file, to be continued."""
    digest = hashlib.sha256()
    _digest_rest(source, size, 0, digest)
    return digest


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
    ``digests``: None where they were not asked for.
    """

    recovery: Recovery
    producers: ProducersAt
    keeps_txn_index: bool
    digests: LogDigests | None

    @property
    def asked_digests(self) -> LogDigests:
        """The digests. Raises ValueError where they were not asked for."""
        if self.digests is None:
            raise ValueError("the digests were not asked for")
        return self.digests

    @property
    def sha256(self) -> str:
        """Of the whole log, in hexadecimal; see ``asked_digests``."""
        return self.asked_digests.whole

    @property
    def kept_sha256(self) -> str:
        """Of the bytes up to ``recovery.end``; see ``asked_digests``."""
        return self.asked_digests.kept.hexdigest()

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
        return replace(self, recovery=replace(self.recovery, indexes=None))

    def without_producers(self) -> Recovered:
        """A copy that forgets the producers: it has none."""
        return replace(self, producers=ProducersAt())


def recover_log(
    source: Source,
    base_offset: int,
    producers: ProducersAt,
    *,
    index_interval: int,
    copy: Callable[[memoryview], None] | None = None,
    digests: bool = True,
) -> Recovered:
    """Recover a log as a broker does, and digest it; every byte is read once.

    Args:
        source: the log, a regular file.
        base_offset: of its name.
        producers: at that offset. They are changed to those after the log.
        index_interval: index.interval.bytes.
        copy: takes the bytes that recovery keeps, and perhaps some after them; cut the copy at ``recovery.end``.
        digests: digest the log; False: what lies after the end of recovery is not read.

    Raises:
        KdumpError: the log cannot be read, or the copy not written.
    """
    if source.size is None:
        raise ValueError("only a file whose size is known can be repaired")
    indexes = IndexBuilder(base_offset, interval=index_interval)
    recovery = SegmentRecovery(base_offset, producers, indexes)
    kept = hashlib.sha256() if digests else None
    walk = Walk(source)
    if recovery.open(source.size):
        # Digests and copies let the recovery run meanwhile.
        with ThreadPoolExecutor(2, "digest") as threads:
            for chunk in walk.chunks():
                before, entries = None if kept is None else kept.copy(), chunk.data[: chunk.end]
                takers = [] if kept is None else [kept.update]
                started = [threads.submit(take, entries) for take in (*takers, *([] if copy is None else [copy]))]
                goes_on = recovery.take(chunk)
                for one in started:
                    one.result()
                if not goes_on:
                    if before is not None:
                        before.update(entries[: recovery.end - chunk.position])
                    kept = before
                    break
    result = recovery.finish(walk.stop, walk.bad_length)
    found = None if kept is None else _digests(source, source.size, result.end, kept)
    return Recovered(result, producers, not producers.is_known and producers.has_unbegun_marker, found)
