"""What-if: the records and bytes that a compaction of a partition would leave."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kdump.fast.entries import Entries
from kdump.fast.headers import native_column
from kdump.fast.recordtable import RecordGroups
from kdump.format.batch import HEADER_SIZE
from kdump.kafka.compaction import Retained
from kdump.releases import Release
from kdump.stats.whatif.answer import Answer, than_now
from kdump.stats.whatif.sizes import body_sizes, first_of_each, message_bytes
from kdump.system.units import bytes_text, counted


class CompactionSizes:
    """Counts what one run of the log cleaner leaves of a partition.

    Rewritten batches keep their codec, at Kafka's default level. A batch that is read in pieces is compressed in
    pieces, which takes a little more.
    """

    def __init__(self) -> None:
        self.records_now = 0
        self.batches_now = 0
        self.bytes_now = 0
        self.records = 0
        self.control_records = 0
        self.batches = 0
        self.empty_batches = 0
        self.bytes_as_v2 = 0
        """As the cleaner of Kafka 4 leaves them: messages of magic 0 and 1 become batches of magic 2."""
        self._bytes_as_they_are = 0

    @property
    def bytes(self) -> int:
        """Bytes with messages of magic 0 and 1 in their own format, as the cleaner of Kafka up to 3.9 leaves them.

        Never more than now: only delete horizons make a log of tombstones larger, until the tombstones go.
        """
        return min(self._bytes_as_they_are, self.bytes_now)

    def keep(self, entries: Entries) -> None:
        """Add entries of a segment that is not cleaned."""
        size = int(entries.sizes.sum())
        self._count(entries, entries.groups.rows)
        self.batches += entries.groups.count
        self._bytes_as_they_are += size
        self.bytes_as_v2 += size

    def clean(self, entries: Entries, retained: Retained) -> None:
        """Add entries of a segment that is cleaned."""
        sizes = entries.sizes
        self._count(entries, retained.left)
        is_left = ~(retained.is_gone | retained.is_emptied)
        self.batches += int(np.count_nonzero(~retained.is_gone))
        self.empty_batches += int(np.count_nonzero(retained.is_emptied))
        fixed = int(sizes[is_left & ~retained.is_rewritten].sum())
        fixed += HEADER_SIZE * int(np.count_nonzero(retained.is_emptied))
        as_v2 = fixed + self._rewritten(entries, retained)
        self.bytes_as_v2 += as_v2
        self._bytes_as_they_are += as_v2 if entries.is_v2 else self._in_their_format(entries, retained, is_left)

    def _count(self, entries: Entries, left: NDArray[np.int64]) -> None:
        groups = entries.groups
        self.records_now += int(groups.rows.sum())
        self.batches_now += groups.count
        self.bytes_now += int(entries.sizes.sum())
        self.records += int(left.sum())
        self.control_records += int(left[groups.is_control].sum())

    @staticmethod
    def _rewritten(entries: Entries, retained: Retained) -> int:
        """Bytes of the batches that are rewritten."""
        chosen = retained.is_rewritten
        if not chosen.any():
            return 0
        size = HEADER_SIZE * int(np.count_nonzero(chosen))
        for kept in _kept_groups(entries, retained):
            is_there = chosen & (kept.rows > 0)
            part = kept.select(is_there)
            base_offset = first_of_each(part)[0] if part.headers is None else native_column(part.headers, "base_offset")
            size += int(body_sizes(part, base_offset, retained.base_timestamp[is_there]).sum())
        return size

    @staticmethod
    def _in_their_format(entries: Entries, retained: Retained, is_left: NDArray[np.bool_]) -> int:
        """Bytes of what stays of messages of magic 0 and 1; what stays of a wrapper is in a smaller wrapper."""
        groups = entries.groups
        is_whole = retained.left == groups.rows
        size = int(entries.sizes[is_left & is_whole].sum())
        for kept in _kept_groups(entries, retained):
            for magic in (0, 1):
                size += message_bytes(kept.select(is_left & ~is_whole & (groups.magic == magic)), magic)
        return size


def _kept_groups(entries: Entries, retained: Retained) -> Iterator[RecordGroups]:
    """The records that stay, in the groups they were in; those of a large entry in pieces."""
    end = 0
    for groups in entries.record_groups():
        first, end = end, end + groups.table.rows
        yield groups.select_rows(retained.rows[first:end])


@dataclass(frozen=True, slots=True)
class CompactedPartition:
    """What compaction makes of one partition.

    ``keys``: distinct keys in what is cleaned; ``tombstones``: those that stay for now; ``without_key``: records that
    go because they have no key; ``open_from``: the first offset of an open transaction.
    """

    directory: str
    topic: str | None
    partition: int | None
    sizes: CompactionSizes
    keys: int
    tombstones: int
    without_key: int
    cleaned_segments: int
    segments: int
    open_from: int | None


def compaction_answer(partitions: Sequence[CompactedPartition], release: Release) -> Answer:
    """One row per partition. ``release``: of the broker whose cleaner runs."""
    answer = Answer("compaction")
    for each in partitions:
        sizes = each.sizes
        answer.rows.append(
            {
                "records": sizes.records,
                "bytes": sizes.bytes,
                "batches": sizes.batches,
                "controlRecords": sizes.control_records,
                "emptyBatches": sizes.empty_batches,
                "keys": each.keys,
                "tombstones": each.tombstones,
                "withoutKey": each.without_key,
                "bytesAsV2": sizes.bytes_as_v2,
                "recordsNow": sizes.records_now,
                "bytesNow": sizes.bytes_now,
                "batchesNow": sizes.batches_now,
                "cleanedSegments": each.cleaned_segments,
                "segments": each.segments,
                "directory": each.directory,
                "topic": each.topic,
                "partition": each.partition,
                "brokerVersion": release.name,
            }
        )
        answer.words.extend(_words(each))
    if partitions:
        answer.words.append(f"So does the log cleaner of Kafka {release.name}.")
    return answer


def _words(each: CompactedPartition) -> list[str]:
    sizes = each.sizes
    words = [
        f"{each.directory}: of {counted(sizes.records_now, 'record')} {sizes.records:,} would be left, of "
        f"{bytes_text(sizes.bytes_now)} {bytes_text(sizes.bytes)}, {than_now(sizes.bytes, sizes.bytes_now)}; "
        f"{counted(each.keys, 'distinct key')} in {counted(each.cleaned_segments, 'cleaned segment')} of "
        f"{each.segments}."
    ]
    if each.cleaned_segments < each.segments:
        why = "the active segment is never cleaned"
        if each.open_from is not None:
            why += f", nor are segments from the one with offset {each.open_from} on: a transaction is open there"
        words.append(f"  The rest stays as it is: {why}.")
    if each.tombstones:
        words.append(
            f"  {counted(each.tombstones, 'tombstone')} among them would go in a later run, delete.retention.ms after."
        )
    if each.without_key:
        words.append(
            f"  Careful: {counted(each.without_key, 'record')} without key would be dropped; a compacted topic refuses "
            "new ones."
        )
    if sizes.bytes_as_v2 != sizes.bytes:
        words.append(
            f"  Kafka 4 would leave {sizes.bytes_as_v2:,} bytes: its cleaner turns messages of magic 0 and 1 into "
            "batches of magic 2, and notes when tombstones may go."
        )
    return words
