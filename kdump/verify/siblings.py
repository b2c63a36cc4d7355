"""The files beside a log against the log: index files, producer snapshots, leader epochs, file names.

Source: docs/spec/formats.md#5-directories-and-names (sections 5 to 7 and 9); what a broker does with each file at its
start: docs/spec/startup.md. The functions that take bytes yield findings about that one file. Those that take a path
read the files there (nothing is ever written), and their findings have a path.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple, Protocol, TypeAlias

from kdump.codes import Codes, DamageError, Finding, KdumpError, Severity
from kdump.format import checkpoint
from kdump.format.index import TXN_ENTRY_SIZE, AbortedTxn, parse_txn_index
from kdump.format.snapshot import parse_snapshot
from kdump.log import files
from kdump.log.names import (
    CLEANER_STATES,
    INDEX_KINDS,
    SIBLING_TEXT_FILES,
    SWAP_STATE,
    FileName,
    Kind,
    parse_file_name,
    sibling,
)
from kdump.log.partition import has_gone
from kdump.log.siblings import read_beside
from kdump.verify.indexedlog import IndexedLog, NamedPlaces
from kdump.verify.indexes import check_offset_index, check_time_index, grouped, named_places, without_appended

Content: TypeAlias = bytes | KdumpError | None
"""The bytes of a file, or why it cannot be read; None without a file."""

_OFFSET_DIGITS: Final = 20
_LEFTOVERS: Final = (".deleted", *CLEANER_STATES)
_SNAPSHOT_HEAD: Final = 10
_SNAPSHOT_ENTRY: Final = 46


class EpochRange(NamedTuple):
    """Neighbouring batches of one partitionLeaderEpoch: the first one's base offset, the last one's last offset."""

    epoch: int
    first_offset: int
    last_offset: int


class LogSummary(NamedTuple):
    """What the files of a partition are compared with.

    ``end_offset``: after the last record, None without a log. ``reached``: after the last record that the log ever had,
    as far as ``reach.PartitionEvidence`` proves it; None: not asked. ``epochs``: of the magic 2 batches whose epoch is
    not -1, in file order.
    """

    end_offset: int | None
    epochs: Sequence[EpochRange] = ()
    reached: int | None = None


def check_txn_index(
    data: bytes,
    log: IndexedLog | None,
    aborted: Sequence[AbortedTxn] | None = None,
    *,
    begun_before: Set[tuple[int, int]] = frozenset(),
    idle_aborts: Set[tuple[int, int]] = frozenset(),
    is_compacted: bool = False,
) -> Iterator[Finding]:
    """Check a .txnindex.

    Args:
        data: the file.
        log: the segment it belongs to; None: that is not there.
        aborted: transactions whose ABORT marker is in the segment; None: not known.
        begun_before: (producer id, offset) of ABORT markers whose transaction may begin before what was read.
        idle_aborts: (producer id, offset) of ABORT markers for which no record was read. Brokers up to 2.4 write an
            entry also for a transaction that wrote nothing, with the marker's offset in both fields. Their log cleaner
            drops the entry of a transaction of which only empty batches are left.
        is_compacted: records of a transaction may be gone, so that the log tells less than the index.
    """
    rest = len(data) % TXN_ENTRY_SIZE
    if rest:
        message = f"{len(data)} bytes are no multiple of {TXN_ENTRY_SIZE}"
        yield Finding(Codes.INDEX, message, len(data) - rest, rest)
    try:
        entries = parse_txn_index(data)
    except DamageError as error:
        yield Finding(error.code, error.message, error.position or 0, TXN_ENTRY_SIZE)
        return
    odd = {number: text for number, text in enumerate(_odd_transactions(data, entries, log)) if text}
    yield from grouped(list(odd), TXN_ENTRY_SIZE, Codes.TXN_INDEX_ENTRY, odd.__getitem__)
    if aborted is None:
        return
    by_marker = {(entry.producer_id, entry.last_offset): entry for entry in aborted}
    wrong = {}
    for number, entry in enumerate(entries):
        name = entry.producer_id, entry.last_offset
        marker = by_marker.pop(name, None)
        may_begin_earlier = is_compacted or name in begun_before
        if number in odd or (may_begin_earlier and (marker is None or entry.first_offset <= marker.first_offset)):
            continue
        if marker is None and entry.first_offset == entry.last_offset and name in idle_aborts:
            continue
        if marker is None:
            wrong[number] = f"the log has no ABORT marker of producer {entry.producer_id} at {entry.last_offset}"
        elif marker.first_offset != entry.first_offset:
            wrong[number] = f"offsets from {entry.first_offset} on, in the log from {marker.first_offset}"
    yield from grouped(list(wrong), TXN_ENTRY_SIZE, Codes.TXN_INDEX_ENTRY, wrong.__getitem__)
    for name, entry in by_marker.items():
        if name in idle_aborts:
            continue
        yield Finding(
            Codes.TXN_INDEX_ENTRY,
            f"no entry for the transaction of producer {entry.producer_id} aborted at {entry.last_offset}",
            len(data),
        )


def check_snapshot(data: bytes, offset: int | None) -> Iterator[Finding]:
    """Check a producer snapshot.

    Args:
        data: the file.
        offset: the first one that it does not include; None: not known.
    """
    try:
        entries = parse_snapshot(data)
    except DamageError as error:
        yield Finding(error.code, error.message, 0, len(data))
        return
    odd: dict[int, str] = {}
    seen: set[int] = set()
    for number, entry in enumerate(entries):
        if offset is not None and max(entry.last_offset, entry.current_txn_first_offset) >= offset:
            odd[number] = f"producer {entry.producer_id} has offsets after {offset}, that of the snapshot"
        elif entry.producer_id in seen:
            odd[number] = f"producer {entry.producer_id} is there twice"
        seen.add(entry.producer_id)
    for finding in grouped([*odd], _SNAPSHOT_ENTRY, Codes.SNAPSHOT_ENTRY, odd.__getitem__):
        yield replace(finding, position=_SNAPSHOT_HEAD + finding.position)


def check_leader_epochs(data: bytes, log: LogSummary) -> Iterator[Finding]:
    """Check a leader-epoch-checkpoint: its entries rise, begin within the log, and fit the batches."""
    try:
        entries = checkpoint.parse_leader_epoch_checkpoint(data)
    except DamageError as error:
        yield Finding(error.code, error.message, error.position or 0)
        return
    for number, entry in enumerate(entries):
        if number and (
            entry.epoch <= entries[number - 1].epoch or entry.start_offset <= entries[number - 1].start_offset
        ):
            message = f"epoch {entry.epoch} from {entry.start_offset} on after {tuple(entries[number - 1])}"
            yield Finding(Codes.LEADER_EPOCH_ORDER, message, 0)
        if log.end_offset is not None and entry.start_offset > log.end_offset:
            message = f"epoch {entry.epoch} begins at {entry.start_offset}, the log ends before {log.end_offset}"
            yield Finding(Codes.LEADER_EPOCH_RANGE, message, 0)
    entries.sort(key=_start_offset)
    wrong = [text for batches in log.epochs if (text := _epoch_difference(batches, entries))]
    for finding in grouped(range(len(wrong)), 0, Codes.LEADER_EPOCH_RANGE, wrong.__getitem__):
        yield replace(finding, message=finding.message.partition(": ")[2], length=None)


def check_names(names: Iterable[str]) -> Iterator[Finding]:
    """Check the file names of a partition directory: numbers, padding, leftovers, index files without a log."""
    parsed = {name: parse_file_name(name) for name in sorted(names)}
    logs = {name.stem for name in parsed.values() if name and name.kind is Kind.LOG and not name.state}
    for name, parts in parsed.items():
        for code, message in _name_problems(name, parts, logs):
            yield Finding(code, message, 0, path=name)


class SegmentFiles:
    """The index files beside a log as they are when this object is made. The log may have grown since it was read.

    Args:
        log_path: that of the log.
    """

    def __init__(self, log_path: str) -> None:
        self.log_path = log_path
        # Most logs have no .txnindex: to ask for it costs less than to open it.
        paths = {kind: sibling(log_path, kind) for kind in INDEX_KINDS}
        self.contents = {kind: _contents(path) if files.exists(path) else None for kind, path in paths.items()}
        # Read after the index files, so that the log has everything that they name up to this size.
        try:
            self.log_size: int | None = files.size(log_path)
        except KdumpError:
            self.log_size = None

    @property
    def are_being_swapped(self) -> bool:
        """Whether the log cleaner has replaced the log, and not yet all of its index files."""
        return any(
            content is None and files.exists(sibling(self.log_path, kind) + SWAP_STATE)
            for kind, content in self.contents.items()
        )

    def named(self) -> NamedPlaces:
        """The places of the log that its indexes name."""
        name = parse_file_name(self.log_path)
        index, time_index = (self.contents[kind] or b"" for kind in (Kind.INDEX, Kind.TIME_INDEX))
        return named_places(
            index if isinstance(index, bytes) else b"",
            time_index if isinstance(time_index, bytes) else b"",
            0 if name is None else name.base_offset or 0,
        )

    def known_to(self, log: IndexedLog, kind: Kind) -> Content:
        """The contents of a file, without its last entries if these are for batches appended since ``log`` was read."""
        content = self.contents[kind]
        if not isinstance(content, bytes) or self.log_size is None or self.log_size <= log.size:
            return content
        return without_appended(content, kind, log, self.log_size)


def _contents(path: str) -> Content:
    """The bytes of a file, or why it cannot be read; None without a file."""
    for _ in range(2):
        try:
            return read_beside(path)
        except KdumpError as error:
            failed = error
        if has_gone(path, failed):
            return None
        # A missing file that is there now: the log cleaner has just put it in its place.
    return failed


def check_segment_files(
    beside: SegmentFiles,
    log: IndexedLog,
    *,
    is_closed: bool,
    aborted: Sequence[AbortedTxn] | None = None,
    begun_before: Set[tuple[int, int]] = frozenset(),
    idle_aborts: Set[tuple[int, int]] = frozenset(),
    is_compacted: bool = False,
) -> Iterator[Finding]:
    """Check the index files ``beside`` a log against it; for the other arguments see the checks of each kind."""
    log_path = beside.log_path
    has_timestamps = bool(log.position.size) and int(log.largest[-1]) >= 0
    check_aborted = partial(
        check_txn_index,
        log=log,
        aborted=aborted,
        begun_before=begun_before,
        idle_aborts=idle_aborts,
        is_compacted=is_compacted,
    )
    checks: tuple[tuple[Kind, bool, Callable[[bytes], Iterator[Finding]]], ...] = (
        (Kind.INDEX, True, lambda data: check_offset_index(data, log)),
        # Without timestamps the log needs no time index.
        (Kind.TIME_INDEX, has_timestamps, lambda data: check_time_index(data, log, is_closed=is_closed)),
        (Kind.TXN_INDEX, False, check_aborted),
    )
    for kind, is_needed, check in checks:
        path = sibling(log_path, kind)
        content = beside.known_to(log, kind)
        if content is not None:
            yield from _judged(path, content, check)
        elif is_needed and not (kind is Kind.TIME_INDEX and log.is_legacy and not _has_time_indexes(log_path)):
            yield Finding(Codes.INDEX_MISSING, f"there is no {os.path.basename(path)}", 0, path=path)
        elif kind is Kind.TXN_INDEX and aborted:
            # Without this file a broker serves aborted records as committed ones.
            yield from _judged(path, b"", check)


def _has_time_indexes(log_path: str) -> bool:
    """Whether the partition has a time index: brokers before 0.10.1, which wrote magic 0 or 1, had none."""
    try:
        listing = files.listing(files.directory_of(log_path))
    except KdumpError:
        return False
    return any(entry.name.endswith(Kind.TIME_INDEX.value) for entry in listing)


class PartitionListing:
    """The names in a partition directory, and its text files, as they are when this object is made.

    Nothing is wrong with a directory that is gone: it has no files.
    """

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.error: KdumpError | None = None
        """Why it cannot be listed."""
        self.names: Set[str] = frozenset()
        try:
            self.names = {entry.name for entry in files.listing(directory) if not entry.is_directory}
        except KdumpError as error:
            self.error = error if files.exists(directory) else None
        self.texts = {name: _contents(os.path.join(directory, name)) for name in _TEXT_CHECKS if name in self.names}

    def read(self, name: str) -> bytes:
        """The bytes of a file. Raises KdumpError as ``read_beside``."""
        known = self.texts.get(name)
        return known if isinstance(known, bytes) else read_beside(os.path.join(self.directory, name))

    def has_snapshot(self, log_path: str) -> bool:
        """Whether there is a producer snapshot at the base offset of a log in it."""
        return os.path.basename(sibling(log_path, Kind.SNAPSHOT)) in self.names


def check_partition_files(beside: PartitionListing, log: LogSummary) -> Iterator[Finding]:
    """Check names, producer snapshots and text files of a partition directory; index files go with their segments.

    Args:
        beside: the files. They were read before the log, so that the log covers what they name.
        log: what they are compared with.
    """
    directory, names, texts = beside.directory, beside.names, beside.texts
    if beside.error is not None:
        yield Finding(beside.error.code, beside.error.message, 0, path=directory)
    for finding in check_names(names):
        yield replace(finding, path=os.path.join(directory, finding.path or ""))
    for name in sorted(names):
        parsed = parse_file_name(name)
        if parsed is None:
            if name in texts:
                yield from _judged(os.path.join(directory, name), texts[name], partial(_TEXT_CHECKS[name], log=log))
        elif parsed.kind is Kind.SNAPSHOT and parsed.base_offset is not None and not parsed.state:
            # A snapshot in remote storage is that of the next base offset, which its name does not tell.
            check = (
                partial(check_snapshot, offset=None) if parsed.is_remote else snapshot_check(parsed.base_offset, log)
            )
            yield from _read_and_check(os.path.join(directory, name), check)
        elif parsed.kind is Kind.TXN_INDEX and sibling(name, Kind.LOG) not in names:
            yield from _read_and_check(os.path.join(directory, name), partial(check_txn_index, log=None))


def refused_text_files(directory: str) -> Iterator[Finding]:
    """TEXT_FILE for each text file of a partition directory that a broker cannot read."""
    for name, check in _TEXT_CHECKS.items():
        path = os.path.join(directory, name)
        if files.exists(path):
            found = _read_and_check(path, partial(check, log=LogSummary(None)))
            yield from (finding for finding in found if finding.code is Codes.TEXT_FILE)


def beyond_end(code: Codes, message: str, offset: int, end_offset: int, reached: int | None) -> Finding:
    """The finding of a file that names ``offset``, above the end of the log.

    ``reached``: the offset (exclusive) up to which the log is believed to have been, None: anywhere. No offset beyond
    it is lost: the number in the file is wrong.
    """
    if reached is not None and offset > reached:
        return Finding(code, f"{message}; nothing else says that it was there", 0, graded=Severity.WARNING)
    return Finding(code, message, 0, first_offset=end_offset, last_offset=offset - 1)


def snapshot_check(offset: int, log: LogSummary) -> Callable[[bytes], Iterator[Finding]]:
    """The check of the producer snapshot at ``offset`` of a log."""

    def check(data: bytes) -> Iterator[Finding]:
        if log.end_offset is not None and offset > log.end_offset:
            message = f"the snapshot includes offsets up to {offset - 1}, the log ends before {log.end_offset}"
            yield beyond_end(Codes.SNAPSHOT_BEYOND_LOG, message, offset, log.end_offset, log.reached)
        yield from check_snapshot(data, offset)

    return check


def _read_and_check(path: str, check: Callable[[bytes], Iterator[Finding]]) -> Iterator[Finding]:
    return _judged(path, _contents(path), check)


def _judged(path: str, content: Content, check: Callable[[bytes], Iterator[Finding]]) -> Iterator[Finding]:
    """Check a file with these contents; nothing is wrong with a file that has gone."""
    if isinstance(content, KdumpError):
        yield Finding(content.code, content.message, content.position or 0, path=path)
    elif content is not None:
        yield from (replace(finding, path=path) for finding in check(content))


class _TextCheck(Protocol):
    def __call__(self, data: bytes, log: LogSummary) -> Iterator[Finding]: ...


def _refusal(parse: Callable[[bytes], object]) -> _TextCheck:
    """A check that only asks if the file can be read."""

    def check(data: bytes, log: LogSummary) -> Iterator[Finding]:
        try:
            parse(data)
        except DamageError as error:
            yield Finding(error.code, error.message, error.position or 0)

    return check


_TEXT_CHECKS: Final[Mapping[str, _TextCheck]] = {
    checkpoint.LEADER_EPOCH_CHECKPOINT: check_leader_epochs,
    checkpoint.PARTITION_METADATA: _refusal(checkpoint.parse_topic_id),
    checkpoint.QUORUM_STATE: _refusal(checkpoint.parse_quorum_state),
}


def _odd_transactions(data: bytes, entries: Sequence[AbortedTxn], log: IndexedLog | None) -> Iterator[str]:
    """What is impossible about each entry, by itself and after the one before; '' for nothing."""
    last_offset = log.base_offset - 1 if log else -1
    for number, entry in enumerate(entries):
        # Brokers read only the first byte of the version; none has written anything but 0.
        version = int.from_bytes(data[number * TXN_ENTRY_SIZE : number * TXN_ENTRY_SIZE + 2], "big", signed=True)
        before, last_offset = last_offset, max(last_offset, entry.last_offset)
        if version != 0:
            yield f"version {version}"
        elif entry.last_offset <= before:
            yield f"last offset {entry.last_offset} does not rise above {before}"
        # The cleaner of 1.1 writes the marker's offset into both fields.
        elif not 0 <= entry.first_offset <= entry.last_offset or entry.last_stable_offset > entry.last_offset + 1:
            yield f"offsets {entry.first_offset}..{entry.last_offset}, last stable offset {entry.last_stable_offset}"
        elif log and entry.last_offset > log.end_offset and not log.has_gaps:
            yield f"last offset {entry.last_offset} is after the end of the log, {log.end_offset}"
        else:
            yield ""


def _start_offset(entry: checkpoint.EpochEntry) -> int:
    return entry.start_offset


def _epoch_difference(batches: EpochRange, ascending: Sequence[checkpoint.EpochEntry]) -> str:
    """How an epoch differs from the cached one; '' if they are equal, or nothing is cached for offsets so low."""
    number = bisect_right(ascending, batches.last_offset, key=_start_offset)
    if ascending and (number == 0 or ascending[number - 1].epoch == batches.epoch):
        return ""
    known = f"epoch {ascending[number - 1].epoch}" if ascending else "no epoch"
    return f"batches {batches.first_offset}..{batches.last_offset} are of epoch {batches.epoch}, the file has {known}"


def _name_problems(name: str, parsed: FileName | None, logs: set[str]) -> Iterator[tuple[Codes, str]]:
    if name in SIBLING_TEXT_FILES:
        return
    if name.endswith(_LEFTOVERS):
        is_numbered = parsed is not None and parsed.base_offset is not None
        if name.endswith(CLEANER_STATES) and not is_numbered:
            yield Codes.UNNUMBERED_NAME, "the name does not begin with an offset"
        else:
            yield Codes.LEFTOVER, f"a leftover ({os.path.splitext(name)[1]})"
    elif parsed is None or parsed.kind in (Kind.CHECKPOINT, Kind.WORLD_LOG) or parsed.state:
        return
    elif parsed.base_offset is None:
        yield Codes.UNNUMBERED_NAME, "the name does not begin with an offset"
    else:
        if parsed.stem != f"{parsed.base_offset:0{_OFFSET_DIGITS}d}" and "-" not in parsed.stem[1:]:
            yield (
                Codes.NAME_PADDING,
                f"a broker opens {parsed.base_offset:0{_OFFSET_DIGITS}d}{parsed.kind.value} instead",
            )
        if parsed.kind in INDEX_KINDS and parsed.stem not in logs:
            yield Codes.LOG_MISSING, f"there is no {parsed.stem}{Kind.LOG.value}"
