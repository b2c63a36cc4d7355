"""What the log and the files around it say of the transactions that touch a gap.

Nothing is believed that contradicts the log. What the files mean is in ``kdump.scan.lostmarkers``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kdump.checks.table import first_offset, read_columns, row_at
from kdump.codes import KdumpError
from kdump.format import control
from kdump.format.batch import MAX_INT32
from kdump.format.index import AbortedTxn
from kdump.kafka.producers import ProducerState
from kdump.log import gaps as bytegaps
from kdump.log.names import parse_file_name
from kdump.log.resync import ResyncWalk
from kdump.log.siblings import read_snapshot, read_txn_index
from kdump.log.source import open_source
from kdump.mend.surroundings import Surroundings
from kdump.mend.table import Table, has_cleaned
from kdump.mend.transactions import TouchedTransactions
from kdump.scan.lostmarkers import Evidence, Gap, SegmentIndex, Snapshot, are_sound

Hole = tuple[int, int]
"""The offsets lost, first and last."""

_ENDLESS: Final = 2**63 - 1


def with_room(holes: Sequence[Hole], table: Table, damaged: NDArray[np.void], around: Surroundings) -> list[Gap]:
    """How many of the offsets lost may have been markers.

    The others were records: of producers whose sequence numbers are missing there, or of a batch of several records
    whose header still has just these offsets.

    Args:
        holes: rising.
        table: the good batches.
        damaged: batches whose CRC is wrong.
        around: the files around the log.
    """
    first, last = np.array(holes, np.int64).reshape(-1, 2).T
    room = last - first + 1
    if not _is_compacted(table, around):
        records = _missing_records(first, table.rows, around)
        room -= np.where(records <= room, records, 0)
    batches = damaged[(damaged["magic"] >= 2) & (damaged["last_offset"] > damaged["base_offset"])]
    for batch_first, batch_last in zip(batches["base_offset"].tolist(), batches["last_offset"].tolist(), strict=True):
        room[(first == batch_first) & (last == batch_last)] = 0
    return [Gap(*one) for one in zip(first.tolist(), last.tolist(), room.tolist(), strict=True)]


def _is_compacted(table: Table, around: Surroundings) -> bool:
    return around.was_cleaned or has_cleaned(table)


def _missing_records(gap_first: NDArray[np.int64], rows: NDArray[np.void], around: Surroundings) -> NDArray[np.int64]:
    """How many records are missing in each gap by sequence numbers; those missing over several gaps are left out."""
    missing = np.zeros(gap_first.size, np.int64)
    rows = rows[(rows["magic"] >= 2) & (rows["producer_id"] >= 0) & (rows["base_sequence"] >= 0)]
    rows = rows[np.argsort(rows["producer_id"], kind="stable")]
    producer, epoch = rows["producer_id"], rows["producer_epoch"]
    sequence, offset = rows["base_sequence"].astype(np.int64), rows["base_offset"]
    next_sequence = (sequence + rows["last_offset"] - offset + 1) & MAX_INT32
    next_offset = rows["last_offset"] + 1
    is_next = producer[1:] == producer[:-1]
    # A producer begins each epoch with sequence 0.
    expected = np.where(epoch[1:] == epoch[:-1], next_sequence[:-1], 0)
    count = np.where(is_next, (sequence[1:] - expected) & MAX_INT32, 0)
    jumps = np.flatnonzero(count).tolist()
    found = [(int(next_offset[number]), int(offset[number + 1]), int(count[number])) for number in jumps]
    for number in np.flatnonzero(np.concatenate(([True], ~is_next))[: producer.size]).tolist():
        state = around.producers.by_id.get(int(producer[number]), ProducerState())
        if state.last_sequence >= 0 or around.base_offset == 0:
            known = (state.last_sequence + 1) & MAX_INT32 if state.epoch == epoch[number] else 0
            found.append((state.last_offset + 1, int(offset[number]), int(sequence[number]) - known & MAX_INT32))
    for after, before, records in found:
        start, stop = np.searchsorted(gap_first, (after, before)).tolist()
        if stop - start == 1 and records <= MAX_INT32 // 2:
            missing[start] += records
    return missing


def gather(followed: TouchedTransactions, table: Table, around: Surroundings) -> Evidence:
    """All evidence of the transactions that ``followed`` has seen up to the end of the log; it sees what is behind."""
    base_offset = around.base_offset or 0
    end = _ENDLESS if around.next_base is None else around.next_base
    index = _sound_index(around.aborted, table.rows, followed, base_offset)
    indexes = []
    is_compacted = _is_compacted(table, around)
    open_before = set(around.producers.ongoing.values())
    if index and (is_compacted or followed.agrees(index, base_offset, around.next_base, base_offset, open_before)):
        indexes.append(SegmentIndex(index, base_offset, min(end, max(around.flushed, index[-1].last_offset + 1))))
    followed.end_log()
    expected = end
    for number, path in enumerate(around.following):
        if not followed.is_waiting:
            break
        following = _base_of(around.following[number + 1]) if number + 1 < len(around.following) else None
        indexes += _follow(followed, path, expected, following)
        expected = _ENDLESS if following is None else following
    return Evidence(indexes, map(_snapshot, around.snapshots), is_compacted=is_compacted)


def _follow(
    followed: TouchedTransactions, path: str, base_offset: int, next_base: int | None
) -> Iterator[SegmentIndex]:
    """Show the batches and gaps of a segment to ``followed``; gives its .txnindex where that agrees with them."""
    parts: list[NDArray[np.void]] = []
    for item in _rows_and_gaps(path, base_offset, next_base):
        if isinstance(item, Gap):
            followed.gap(item)
        else:
            parts.append(item[item["marker_type"] == control.ABORT])
            followed.see(item, ())
    index = _sound_index(read_txn_index(path), np.concatenate(parts), followed, base_offset) if parts else []
    if index:
        end = index[-1].last_offset + 1 if next_base is None else next_base
        yield SegmentIndex(index, base_offset, end)


def _rows_and_gaps(path: str, base_offset: int, next_base: int | None) -> Iterator[NDArray[np.void] | Gap]:
    """The good batches of a segment, and the offsets lost between them, in offset order."""
    expected = base_offset
    is_behind_hole = False
    try:
        with open_source(path) as source:
            for item in ResyncWalk(source).items():
                if isinstance(item, bytegaps.Gap):
                    is_behind_hole = True
                    continue
                rows = read_columns(item, is_behind_hole)
                is_behind_hole = not rows["is_valid"][-1]
                rows = rows[rows["is_valid"]]
                for part in np.split(rows, np.flatnonzero(rows["is_behind_hole"])):
                    if not part.size:
                        continue
                    start = first_offset(row_at(part, 0))
                    if part["is_behind_hole"][0] and start > expected:
                        yield _wide(expected, start - 1)
                    yield part
                    expected = max(expected, int(part["last_offset"][-1]) + 1)
    except KdumpError:
        is_behind_hole = True
    end = _ENDLESS if next_base is None else next_base
    if is_behind_hole and end > expected:
        yield _wide(expected, end - 1)


def _wide(first: int, last: int) -> Gap:
    return Gap(first, last, last - first + 1)


def _sound_index(
    entries: Sequence[AbortedTxn] | None, rows: NDArray[np.void], followed: TouchedTransactions, base_offset: int
) -> Sequence[AbortedTxn]:
    """The entries of a .txnindex; none where one has no ABORT marker among ``rows`` or where offsets are lost."""
    is_abort = (rows["marker_type"] == control.ABORT) & (rows["producer_id"] >= 0)
    markers = set(zip(rows["producer_id"][is_abort].tolist(), rows["base_offset"][is_abort].tolist(), strict=True))

    def is_there(producer_id: int, offset: int) -> bool:
        return (producer_id, offset) in markers or followed.is_lost(offset)

    return entries if entries and are_sound(entries, base_offset, is_there) else ()


def _snapshot(path: str) -> Snapshot:
    """One that cannot be read says nothing."""
    open_from = {entry.producer_id: entry.current_txn_first_offset for entry in read_snapshot(path)}
    return Snapshot(_base_of(path), open_from)


def _base_of(path: str) -> int:
    name = parse_file_name(path)
    return 0 if name is None or name.base_offset is None else name.base_offset
