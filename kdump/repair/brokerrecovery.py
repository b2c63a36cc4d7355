"""The broker's way: a log that ends where recovery cuts it, and the index files that recovery builds.

Source: docs/spec/recovery.md (LogSegment.recover).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from kdump.kafka.recover import Recovery, SegmentRecovery
from kdump.kafka.segmentindexes import DEFAULT_INDEX_SIZE, IndexBuilder
from kdump.log.names import Kind
from kdump.log.source import Source
from kdump.repair.hashandrecover import HashAndRecover, read_through
from kdump.repair.producersat import ProducersAt, WatchedProducers


@dataclass(frozen=True, slots=True)
class Recovered:
    """What a log is for a broker that recovers it.

    ``producers`` are those behind it. ``keeps_txn_index``: not enough is known of what lies before to rebuild the
    .txnindex.
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
        """The same; the contents of the index files are forgotten."""
        return replace(self, read=replace(self.read, recovery=replace(self.recovery, indexes=None)))


def recover_log(
    source: Source,
    base_offset: int,
    producers: ProducersAt,
    *,
    index_interval: int,
    copy: Callable[[memoryview], None] | None = None,
    digests: bool = True,
) -> Recovered:
    """Take a log the way a broker's recovery goes.

    Args:
        source: the log.
        base_offset: of its name.
        producers: at that offset; their states are changed and are those behind the log afterwards.
        index_interval: index.interval.bytes.
        copy: see read_through.
        digests: see read_through.

    Raises:
        KdumpError: the log cannot be read, or the copy not written.
    """
    indexes = IndexBuilder(base_offset, interval=index_interval, size=DEFAULT_INDEX_SIZE, keep=True)
    states = producers.states
    read = read_through(source, SegmentRecovery(base_offset, states, indexes), copy, digests=digests)
    return Recovered(read, states, not producers.is_known and states.has_unbegun_marker)
