"""What a broker's start would cost a partition: the model's answer, and which data is gone after it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from functools import cache, partial
from operator import itemgetter
from typing import Final, NamedTuple

from kdump.format.batch import HEADER_SIZE, MAGIC_OFFSET, parse_header
from kdump.kafka.startup.batches import batches
from kdump.kafka.startup.directory import Directory, FileAction, LoadSettings
from kdump.kafka.startup.names import LOG, file_name, offset_of
from kdump.kafka.startup.outcome import (
    OpenTransaction,
    RecoveredSegment,
    RemovalReason,
    Start,
    StartFailureError,
    StartOutcome,
)
from kdump.kafka.startup.start import open_transactions, start
from kdump.log.content import Content, ContentSource, sha256
from kdump.verify.batchtable import BatchTable, TailEnd, ValidData, read_table, tail_end, valid_data
from kdump.verify.reach import AlreadyLost, LastSegment, PartitionEvidence, SegmentReach, Witness
from kdump.verify.swapped import OFFSET_BYTES, first_offset_of, swapped

_NO_OFFSET: Final = 2**63
"""Greater than every offset."""


class LossReason(Enum):
    """Why offsets cannot be read after a start."""

    CUT = "cut"
    """After the first damage in a segment that is recovered."""
    BEHIND_CUT = "behind-cut"
    """In a segment after one that is cut."""
    EMPTIED = "emptied"
    """In a segment whose index would go backwards."""
    LOG_START = "log-start"
    """The log ends before its log start offset, so all of it goes."""
    REPLACED = "replaced"
    """In the range of segments that a .swap file replaces."""
    HIDDEN = "hidden"
    """Still in the last segment, but its .index does not lead there; new batches get the same offsets."""


class LostRange(NamedTuple):
    """Offsets (inclusive) that a start loses.

    ``records`` counts by the headers of the batches, and includes the damaged batch at a cut if it can be believed.
    ``good_records`` counts only batches whose CRC is right.
    """

    first_offset: int
    last_offset: int
    records: int
    reason: LossReason
    good_records: int


class StartedFile(NamedTuple):
    """A file right after the start.

    ``size`` and ``sha256`` are None if it is gone, ``sha256`` also if it was not asked for. ``size_before`` is that of
    the file that had this name before, None without one.
    """

    name: str
    action: FileAction
    size: int | None
    sha256: str | None
    size_before: int | None


class TransactionStart(NamedTuple):
    """``timestamp``: ms, of the first record, None if that is gone; ``transactional_id``: None if not known."""

    timestamp: int | None
    transactional_id: str | None


@dataclass(frozen=True, slots=True)
class StartCheck:
    """One start of one partition directory.

    Attributes:
        path: that of the directory.
        settings: what the broker knows of it.
        start: how it ends.
        files: every file there is or was.
        lost: what it loses, in offset order.
        already_lost: what was lost before, if that was asked for. The start does not change it.
        swapped: pairs of logs that were exchanged, if that was asked for.
        end_before: the log end offset before the start, as far as the log was read.
        forgotten: open transactions that the broker does not know any more.
        bytes_read: how many bytes of the files the broker reads.
        begun: what is known of transactions left open or forgotten, by first offset; if that was asked for.
        world: whose broker it is, see ``World.title``; '': a broker of today.
    """

    path: str
    settings: LoadSettings
    start: Start
    files: tuple[StartedFile, ...]
    lost: tuple[LostRange, ...]
    already_lost: tuple[AlreadyLost, ...]
    swapped: tuple[tuple[str, str], ...]
    end_before: int | None
    forgotten: tuple[OpenTransaction, ...]
    bytes_read: int
    begun: Mapping[int, TransactionStart] = field(default_factory=dict)
    world: str = ""

    @property
    def is_harmless(self) -> bool:
        """Whether the partition starts and keeps everything it had, whatever was lost before."""
        return self.start.outcome is StartOutcome.STARTS and not (self.lost or self.forgotten)


class Obstacle(NamedTuple):
    """What stops a log directory or the whole broker, whatever is in its partitions: a directory, or a checkpoint."""

    path: str
    java_class: str | None
    message: str
    outcome: StartOutcome = StartOutcome.BROKER_STOPS


@dataclass(frozen=True, slots=True)
class LogDirectoryCheck:
    """A log directory as a whole: its partitions, those that do not start, and how many cannot be read.

    ``strays``: how many partitions become strays. ``misnamed``: how many have the topic id of another topic, so that
    nobody serves them. ``world``: as of StartCheck.
    """

    path: str
    is_clean: bool
    partitions: int
    failed: tuple[StartCheck, ...]
    unread: int
    obstacles: tuple[Obstacle, ...]
    world: str = ""
    strays: int = 0
    misnamed: int = 0

    @property
    def outcome(self) -> StartOutcome:
        """How the directory starts; if it does not start, whether its broker stops too."""
        return worst_outcome(self.failed, self.obstacles)


def worst_outcome(failed: Iterable[StartCheck], obstacles: Iterable[Obstacle]) -> StartOutcome:
    """What becomes of a log directory because of all this."""
    outcomes = {check.start.outcome for check in failed} | {obstacle.outcome for obstacle in obstacles}
    if StartOutcome.BROKER_STOPS in outcomes:
        return StartOutcome.BROKER_STOPS
    return StartOutcome.DIR_OFFLINE if outcomes else StartOutcome.STARTS


def check_start(
    directory: Directory,
    settings: LoadSettings,
    *,
    checksums: bool = False,
    evidence: PartitionEvidence | None = None,
    transactional_id: Callable[[int], str | None] | None = None,
) -> StartCheck:
    """Predict what a broker's start makes of a partition directory.

    Args:
        directory: the files as they are. It is changed to what a start leaves.
        settings: what the broker knows of it.
        checksums: compute digests of the files too, which reads all of them.
        evidence: the files beside the logs before the start, to find what was lost already; None: do not ask.
        transactional_id: returns that of a producer id; None: do not ask when transactions began and whose they are.

    Raises:
        KdumpError: a file cannot be opened.
    """
    result = start(directory, settings)
    bytes_read = directory.bytes_read
    lost = tuple(_merged(_losses(directory, result)))
    served = result.served
    forgotten: tuple[OpenTransaction, ...] = ()
    if served is not None and served.is_forgotten:
        before = Directory(directory.path, directory.before)
        forgotten = open_transactions(before, settings, served.log_start_offset, served.end_offset)
    files = started_files(directory, checksums=checksums)
    exchanged = () if evidence is None else tuple(_swapped(directory))
    already_lost: tuple[AlreadyLost, ...] = ()
    # What one log lacks may be in a log of another name then.
    if evidence is not None and not exchanged:
        already_lost = tuple(_already_lost(directory, evidence, _end_before(result, lost)))
        # A part of an entry is nothing that the start loses.
        lost = tuple(
            one for one in lost if not any(gone.has(one.first_offset, one.last_offset) for gone in already_lost)
        )
    end_before = _end_before(result, lost)
    begun = {}
    if transactional_id is not None and served is not None:
        open_ones = (*forgotten, *served.open_transactions)
        timestamps = _timestamps_at(directory, {one.first_offset for one in open_ones})
        for one in open_ones:
            timestamp = timestamps.get(one.first_offset)
            begun[one.first_offset] = TransactionStart(timestamp, transactional_id(one.producer_id))
    return StartCheck(
        directory.path, settings, result, files, lost, already_lost, exchanged, end_before, forgotten, bytes_read, begun
    )


def _end_before(result: Start, lost: Iterable[LostRange]) -> int | None:
    """The log end offset before the start, as far as the log was read; None if it does not start."""
    if result.served is None:
        return None
    return max((result.served.end_offset, *(loss.last_offset + 1 for loss in lost)))


def started_files(directory: Directory, *, checksums: bool) -> tuple[StartedFile, ...]:
    """What a start did to each file of a directory; ``checksums``: with those of the contents after it.

    Raises:
        KdumpError: a file cannot be read.
    """
    return tuple(
        StartedFile(
            name,
            action,
            None if content is None else content.size,
            sha256(content) if checksums and content is not None else None,
            directory.before[name].size if name in directory.before else None,
        )
        for name, action, content in directory.changes()
    )


def _timestamps_at(directory: Directory, offsets: Collection[int]) -> dict[int, int]:
    """The timestamps (ms) of the magic 2 batches that begin at some offsets, in the logs before the start."""
    logs = sorted((base_offset, name) for base_offset, name, _ in _logs(directory))
    asked: dict[str, list[int]] = {}
    for offset in sorted(offsets):
        number = bisect_right(logs, offset, key=itemgetter(0))
        if number:
            asked.setdefault(logs[number - 1][1], []).append(offset)
    found = {}
    for name, wanted in asked.items():
        number = 0
        with ContentSource(name, directory.before[name]) as source, suppress(StartFailureError):
            for batch in batches(source, 0):
                # Offsets that are lower were passed over: they begin no batch.
                number = bisect_left(wanted, batch.base_offset, number)
                if number < len(wanted) and wanted[number] == batch.base_offset:
                    head = batch.data[:HEADER_SIZE]
                    if len(head) == HEADER_SIZE and head[MAGIC_OFFSET] == 2:
                        found[batch.base_offset] = parse_header(head).base_timestamp
                    number += 1
                if number == len(wanted):
                    break
    return found


def _swapped(directory: Directory) -> Iterator[tuple[str, str]]:
    """Pairs of names of logs that were exchanged."""
    logs = sorted(_logs(directory), key=lambda log: log[0])
    firsts = []
    for _, name, content in logs:
        with ContentSource(name, content) as source:
            firsts.append(first_offset_of(source.read(0, OFFSET_BYTES)))
    for one, other in swapped([base_offset for base_offset, _, _ in logs], firsts):
        yield logs[one][1], logs[other][1]


def _already_lost(directory: Directory, evidence: PartitionEvidence, end_before: int | None) -> list[AlreadyLost]:
    """What the logs lacked before the start.

    Args:
        directory: as it is after the start.
        evidence: as it was before the start.
        end_before: the log end offset before the start, with what is left of damaged batches at its end; None if the
            log does not start.
    """
    logs = {
        base_offset: (name, content) for base_offset, name, content in sorted(_logs(directory), key=lambda log: log[0])
    }
    last_base = max(logs, default=0)

    @cache
    def table(base_offset: int) -> BatchTable:
        with ContentSource(*logs[base_offset]) as source:
            return read_table(source)

    @cache
    def end_of(base_offset: int) -> int:
        # Most partitions lack nothing: their logs are not read again.
        if end_before is not None and base_offset == last_base and not is_named(end_before):
            return end_before
        return max(base_offset, table(base_offset).end_offset or 0)

    @cache
    def is_indexed_later(end: int) -> bool:
        return evidence.names_later(last_base, end)

    def is_named(end: int) -> bool:
        return any(True for _ in evidence.ends(end)) or is_indexed_later(end)

    def end_of_tail() -> TailEnd:
        with ContentSource(*logs[last_base]) as source:
            return table(last_base).tail_end(source, last_base)

    def was_cleaned() -> bool:
        bases = [*logs][-2:] if segments[-1].is_empty else [last_base]
        return table(bases[0]).was_cleaned(bases[0])

    def index_ends() -> Iterator[Witness]:
        if not segments[-1].is_empty and is_indexed_later(end_of(last_base)):
            yield from evidence.index_ends(table(last_base).log_view(last_base, logs[last_base][1].size, []))

    segments = [SegmentReach(base, not content.size, partial(end_of, base)) for base, (_, content) in logs.items()]
    return evidence.already_lost(segments, LastSegment(was_cleaned, index_ends, end_of_tail) if segments else None)


def _losses(directory: Directory, result: Start) -> Iterator[LostRange]:
    """What each log that was there before has lost; not in order."""
    covered: list[tuple[int, int]] | None = None
    cuts = {one.base_offset: one for one in result.recovered if one.bytes_cut}
    for base_offset, name, before in _logs(directory):
        after = directory.get(name)
        if after == before:
            continue
        cut = cuts.get(base_offset)
        # After a split the log of this name is a part, of which a cut may have taken less.
        if after and cut and after.size == before.size - cut.bytes_cut and after.starts_as(before):
            with ContentSource(name, before) as source:
                yield from _cut(source, after.size, cut)
        elif base_offset in result.removed:
            with ContentSource(name, before) as source:
                yield from _range(valid_data(source), _REMOVED[result.removed[base_offset]])
        else:
            covered = _covered(directory) if covered is None else covered
            yield from _uncovered(before, covered)
    yield from _hidden(directory, result)


_REMOVED: Final = {RemovalReason.BEHIND_CUT: LossReason.BEHIND_CUT, RemovalReason.LOG_START: LossReason.LOG_START}


def _logs(directory: Directory) -> Iterator[tuple[int, str, Content]]:
    """(base offset, name, content) of the logs before the start, without leftovers and misnamed ones."""
    for name, content in directory.before.items():
        if name.endswith(LOG):
            try:
                base_offset = offset_of(name)
            except StartFailureError:
                continue
            if name == file_name(base_offset, LOG):
                yield base_offset, name, content


def _cut(source: ContentSource, size: int, cut: RecoveredSegment) -> Iterator[LostRange]:
    """What came after the new end of a log, at the position ``size``."""
    found = valid_data(source, size)
    if cut.is_emptied:
        yield from _range(found, LossReason.EMPTIED)
        return
    good_records = found.records
    torn = tail_end(source, size, cut.end_offset, found.first_offset).torn
    if torn > cut.end_offset:
        found += ValidData(1, torn - cut.end_offset, cut.end_offset, torn - 1)
    for lost in _range(found, LossReason.CUT):
        yield lost._replace(good_records=good_records)


def _uncovered(before: Content, covered: list[tuple[int, int]]) -> Iterator[LostRange]:
    """What a log that others replace had outside of their offsets."""
    start = end = 0
    with ContentSource("", before) as source:
        try:
            for batch in batches(source, 0):
                number = bisect_right(covered, (batch.base_offset, _NO_OFFSET)) - 1
                if number >= 0 and batch.base_offset < covered[number][1]:
                    yield from _replaced(before.part(start, end))
                    start = batch.position + batch.size
                end = batch.position + batch.size
        except StartFailureError:
            end = before.size
    yield from _replaced(before.part(start, end))


def _replaced(lost: Content) -> Iterator[LostRange]:
    with ContentSource("", lost) as source:
        yield from _range(valid_data(source), LossReason.REPLACED)


def _covered(directory: Directory) -> list[tuple[int, int]]:
    """The offset ranges (first, end) of all logs that have changed, rising and disjoint."""
    found: list[tuple[int, int]] = []
    for name in directory.names():
        if name.endswith(LOG) and directory[name] != directory.before.get(name):
            with directory.open(name) as source:
                last_offset = valid_data(source).last_offset
            if last_offset is not None:
                found.append((offset_of(name), last_offset + 1))
    apart: list[tuple[int, int]] = []
    for first, end in sorted(found):
        if apart and first <= apart[-1][1]:
            apart[-1] = apart[-1][0], max(apart[-1][1], end)
        else:
            apart.append((first, end))
    return apart


def _hidden(directory: Directory, result: Start) -> Iterator[LostRange]:
    served = result.served
    if served is not None:
        base_offset, size = served.segments[-1]
        if served.visible_size < size:
            with directory.open(file_name(base_offset, LOG)) as source:
                yield from _range(valid_data(source, served.visible_size), LossReason.HIDDEN)


def _range(found: ValidData, reason: LossReason) -> Iterator[LostRange]:
    if found.first_offset is not None and found.last_offset is not None:
        yield LostRange(found.first_offset, found.last_offset, found.records, reason, found.records)


def _merged(losses: Iterable[LostRange]) -> list[LostRange]:
    """The losses in offset order; neighbouring ranges of one kind are joined."""
    merged: list[LostRange] = []
    for loss in sorted(losses, key=lambda loss: (loss.first_offset, loss.last_offset)):
        last = merged[-1] if merged else None
        if last is not None and last.reason is loss.reason and last.last_offset + 1 == loss.first_offset:
            merged[-1] = last._replace(
                last_offset=loss.last_offset,
                records=last.records + loss.records,
                good_records=last.good_records + loss.good_records,
            )
        else:
            merged.append(loss)
    return merged
