"""What the pipeline knows of a partition, and what is new in it: ranges of logs that are to land.

A partition is known by the place up to which it has landed (``positions``), and by what its files looked like then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, NamedTuple

from kdump.codes import KdumpError
from kdump.log import files
from kdump.reading.transactionreader import TransactionReader
from kdump.spark.byteranges import byte_ranges_between
from kdump.spark.landing import LandRange
from kdump.spark.partitions import PartitionLog
from kdump.spark.positions import UNLIMITED, StreamPosition, StreamTracker, status
from kdump.tasks.plaindata import PlainData


@dataclass(frozen=True, slots=True)
class Known:
    """What has landed of a partition.

    Attributes:
        place: as ``StreamPosition.to_json`` has it.
        next: the offset after the last one that was accounted for.
        seen: see ``seen_files``; None: more was there than has landed.
        tail: segment, position and size of damage at the end of the newest segment that is in quarantine already.
        is_gone: it was not there when a run looked for it, and ``runs`` says so.
    """

    place: Mapping[str, Any]
    next: int
    seen: list[int] | None = None
    tail: list[int] | None = None
    is_gone: bool = False


class LandingPlan(NamedTuple):
    """What is new in a partition.

    ``first``: the offset at which its account begins; ``previous``: the one at which the last account ended, None
    where there was none. ``known``: what is known when all has landed (``next`` is at least that). ``pending``: bytes
    after the last range. ``notes``: what a broker or a person did to the files. ``error``: why it cannot be read.
    """

    directory: str
    ranges: list[LandRange]
    first: int = 0
    previous: int | None = None
    known: Known | None = None
    pending: int = 0
    notes: list[str] = []  # noqa: RUF012  (never changed)
    error: str | None = None


PLANS: Final = PlainData((LandingPlan, LandRange, Known))


def seen_files(log: PartitionLog) -> list[int] | None:
    """What changes when a partition has news; None where it cannot be told. A store tells less than a disk."""
    try:
        found = status(log.path(log.newest))
    except KdumpError:
        return None
    return [len(log.bases), log.bases[0], log.bases[-1], *(int(value) for value in asdict(found).values())]


def plan_partition(item: tuple[PartitionLog, Known | None], *, only_committed: bool) -> Iterator[LandingPlan]:
    """The plan of one partition, in any process. Its files are read from near the known place on."""
    log, known = item
    try:
        yield _planned(log, known, only_committed=only_committed)
    except KdumpError as error:
        yield LandingPlan(log.directory, [], error=str(error))


def _planned(log: PartitionLog, known: Known | None, *, only_committed: bool) -> LandingPlan:
    notes: list[str] = []
    tracker = StreamTracker(notes.append)
    seen = seen_files(log)
    begun = None if known is None else StreamPosition.from_json(known.place)
    start = tracker.earliest(log) if begun is None else tracker.located(log, begun)
    end = tracker.advanced(log, start, UNLIMITED)
    first, previous = start.next, None
    if known is not None and begun is not None:
        previous = known.next
        # Otherwise offsets were deleted or compacted, which the account says.
        is_again = bool(notes) and (start.next < begun.next or start.topic_id != begun.topic_id)
        first = start.next if is_again else known.next
    is_held_up = False
    if only_committed and (still_open := TransactionReader().first_open(log.path(_number(log, end)))) is not None:
        # As a consumer does, the pipeline waits for the end of the first open transaction.
        cut = tracker.at_offset(log, still_open[0])
        is_held_up = still_open[0] < end.next
        if is_held_up:
            end = cut if (cut.segment, cut.position) > (start.segment, start.position) else start
    ranges: list[LandRange] = []
    for found in byte_ranges_between(tracker, log, start, end):
        base = found.log.base_offset or 0
        number = _number(log, replace(start, segment=base))
        is_last = base == end.segment
        high = log.bases[number + 1] if number < log.newest and not (is_last and is_held_up) else None
        ranges.append(
            LandRange(
                found.log.path,
                "",
                base,
                found.first,
                found.log.size,
                base if ranges else first,
                high,
                end.next if high is None else high,
                end.position if high is None else found.log.size,
                found.rolled_size,
            )
        )
    tail = _tail(log, end) if not is_held_up else None
    if tail is not None and (known is None or known.tail != tail):
        segment, position, size = tail
        if ranges and ranges[-1].base_offset == segment:
            ranges[-1] = replace(ranges[-1], stop=size)
        else:
            low = segment if ranges else first
            path = log.path(log.newest)
            ranges.append(LandRange(path, "", segment, position, size, low, None, low, position, None))
    read = tail[2] if tail is not None else end.position if end.segment == log.bases[-1] else 0
    pending = max(0, files.size(log.path(log.newest)) - read)
    now = Known(end.to_json(), first, seen, tail)
    return LandingPlan(log.directory, ranges, first, previous, now, pending, notes)


def _number(log: PartitionLog, place: StreamPosition) -> int:
    number = log.number_of(place.segment)
    assert number is not None, "the place is in the log"
    return number


def _tail(log: PartitionLog, end: StreamPosition) -> list[int] | None:
    """Bytes after the last whole batch of a file that nobody writes to: segment, position, size. None: there are none.

    The place stays before them: a broker that starts on the log cuts them off, and goes on there.
    """
    newest = log.bases[-1]
    found = status(log.path(log.newest))
    position = end.position if end.segment == newest else 0
    return [newest, position, found.size] if found.is_settled and found.size > position else None


def gone_partition(directory: str, known: Known) -> LandingPlan:
    """Of a partition that is not there any more. Its place is kept, and is told once."""
    now = replace(known, seen=None, is_gone=True)
    return LandingPlan(directory, [], known.next, known.next, now, notes=["the partition is not there any more"])


def part_known(plan: LandingPlan, following: LandRange) -> Known:
    """What is known when all ranges before ``following`` have landed, which is a whole log."""
    assert plan.known is not None, "a partition with ranges can be read"
    topic_id = plan.known.place.get("topic_id")
    place = StreamPosition(following.base_offset, 0, following.base_offset, topic_id=topic_id)
    return Known(place.to_json(), following.low)
