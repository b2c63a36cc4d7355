"""What becomes of a partition that is restored, and what of it cannot be. Nothing is written to find it out."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final, NamedTuple

import numpy as np

from kdump.convert.conversion import Conversion
from kdump.diff.places import CopyPlace, PartitionName
from kdump.diff.table import TableSegment
from kdump.format.batch import CONTROL, MAGIC, TRANSACTIONAL
from kdump.kafka.image.topicsettings import MAX_MESSAGE_BYTES
from kdump.kafka.retention import deleted_segments
from kdump.kafka.transactionends import Ending, EndingOf, not_at_hand
from kdump.payloads.topics import INTERNAL_TOPICS
from kdump.reading.selection import Range
from kdump.releases import NEWEST, Release
from kdump.repair.salvage.pieces import TxnPolicy
from kdump.restore.source import SourcePartition
from kdump.restore.target import TargetPartition

TARGET_MAGIC: Final = MAGIC


class Placing(Enum):
    """How a log that need not change comes to its new place."""

    COPY = "copy"
    HARD_LINK = "hard"
    """A second name of the same file; the last log of a partition is copied, because a broker writes to it."""
    REFLINK = "reflink"
    """A copy that shares its blocks with the source until one of them is written to."""


@dataclass(frozen=True, slots=True)
class RestoreOptions:
    """What is asked for.

    Attributes:
        conversion: of the logs.
        is_converted: ``conversion`` changes logs, whatever is in them.
        placing: of logs that need not change.
        forgets_producers: the new cluster begins with no producer.
        transactions: what becomes of those without an end: LEAVE, ABORT or COMMIT; None: what their coordinator would
            do, and LEAVE where nobody can know that.
        by_producer: the same of single ones, by producer id.
        refuses_losses: nothing is written of a partition that a conversion does not keep whole.
        overwrites: a log that has records is replaced.
        backup: where what is replaced goes; None: into the partition.
        force: go on even if it is unknown whether a broker runs.
        release: of the broker.
    """

    conversion: Conversion = field(default_factory=Conversion)
    is_converted: bool = False
    placing: Placing = Placing.COPY
    forgets_producers: bool = False
    transactions: TxnPolicy | None = None
    by_producer: Mapping[int, TxnPolicy] = field(default_factory=dict)
    refuses_losses: bool = False
    overwrites: bool = False
    backup: str | None = None
    force: bool = False
    release: Release = NEWEST

    def conversion_for(self, target: TargetPartition) -> Conversion:
        """Of one partition: damage is left out, and leader epochs are none that the target does not know."""
        return replace(self.conversion, skip_damaged=True, highest_epoch=target.highest_epoch)


class NoteKind(Enum):
    """What a plan says of a partition."""

    DAMAGE = "damage"
    MISSING_OFFSETS = "missing-offsets"
    OVERLAP = "offsets-overlap"
    NO_TARGET = "no-target"
    """The target cluster has no place for it."""
    SEVERAL_SOURCES = "several-sources"
    UNREADABLE = "unreadable"
    LARGE_BATCH = "large-batch"
    """A producer could not write it to the target."""
    OPEN_TRANSACTION = "open-transaction"
    PRODUCER_IDS = "producer-ids"
    """The target may give out producer ids that the log has."""
    OLD_FORMAT = "old-format"
    BROKER_STATE = "broker-state"
    """Brokers keep their own state in the topic, and this is that of others."""
    RETENTION = "retention"
    """The target deletes segments as soon as it runs."""


_LOSSES: Final = frozenset(
    {
        NoteKind.DAMAGE,
        NoteKind.MISSING_OFFSETS,
        NoteKind.OVERLAP,
        NoteKind.NO_TARGET,
        NoteKind.SEVERAL_SOURCES,
        NoteKind.UNREADABLE,
    }
)


@dataclass(frozen=True, slots=True)
class RestoreNote:
    """Something to know about a partition; offsets are the first and last ones concerned."""

    kind: NoteKind
    message: str
    first_offset: int | None = None
    last_offset: int | None = None

    @property
    def is_loss(self) -> bool:
        """Something cannot be restored."""
        return self.kind in _LOSSES


@dataclass(frozen=True, slots=True)
class RestorePlan:
    """A partition that can be restored. It is small: a run plans all partitions before it writes the first.

    Attributes:
        place: of the source.
        segments: of the source.
        rewritten: of each segment, whether it cannot stay as it is.
        log_start: log start offset of the source.
        log_end: its log end offset.
        target: what it becomes.
        notes: what is not as it was.
        transactions: what becomes of those without an end, by producer id.
    """

    place: CopyPlace
    segments: tuple[TableSegment, ...]
    rewritten: tuple[bool, ...]
    log_start: int
    log_end: int
    target: TargetPartition
    notes: tuple[RestoreNote, ...]
    transactions: Mapping[int, TxnPolicy]

    @property
    def source(self) -> str:
        """The path of the source."""
        return self.place.log or self.place.directory


UNFINISHED_COPY: Final = RestoreNote(
    NoteKind.UNREADABLE,
    "only a copy is left that a broker had not finished (-future); kdump restore -o --topic restores it",
)


@dataclass(frozen=True, slots=True)
class LeftPartition:
    """A partition of the source that is not restored."""

    name: PartitionName
    directory: str
    note: RestoreNote


_STATE: Final = {
    INTERNAL_TOPICS["transaction-log"]: "the target would go on with their transactions and producer ids",
    INTERNAL_TOPICS["share-group-state"]: "it names topics by ids that the target does not have",
    INTERNAL_TOPICS["remote-log-metadata"]: "it names topics by ids that the target does not have",
}
"""Why the state that brokers keep in a topic is of no use to those of another cluster, or does harm.

Committed offsets are no such state: they name topics by their names, and restored logs keep their offsets.
"""


def foreign_state(topic: str, source_id: str | None, target_id: str | None) -> RestoreNote | None:
    """What to know where a topic has the state of other brokers; None: it has none, or it is the same topic.

    Not the cluster id decides: many clusters were made with the same one, and a topic may have been made anew.
    """
    if topic not in _STATE or (source_id is not None and source_id == target_id):
        return None
    return RestoreNote(NoteKind.BROKER_STATE, f"it has the state of brokers of another cluster: {_STATE[topic]}")


def plan_restore(
    source: SourcePartition, target: TargetPartition, options: RestoreOptions, ending: EndingOf = not_at_hand
) -> RestorePlan:
    """The plan of one partition, with everything that is not as it was.

    ``ending``: says what the coordinator of the source would do about an open transaction.
    """
    transactions = list(_transactions(source, options, ending)) if options.conversion.keeps_markers else []
    return RestorePlan(
        source.place,
        source.segments,
        tuple(source.must_be_rewritten(target.highest_epoch)),
        source.log_start,
        source.log_end,
        target,
        tuple(_notes(source, target, options, transactions)),
        {one.producer_id: one.policy for one in transactions},
    )


class _OpenTransaction(NamedTuple):
    """A transaction without an end marker, and what becomes of it."""

    producer_id: int
    policy: TxnPolicy
    note: RestoreNote


def open_transactions(source: SourcePartition, offsets: Range) -> dict[int, tuple[int, int]]:
    """Transactions without an end marker in a range of offsets: first offset and newest epoch by producer id."""
    found: dict[int, tuple[int, int]] = {}
    rows = source.good[(source.good["magic"] >= MAGIC) & (source.good["attributes"] & TRANSACTIONAL != 0)]
    if offsets.first is not None:
        rows = rows[rows["last_offset"] >= offsets.first]
    if offsets.end is not None:
        rows = rows[rows["base_offset"] < offsets.end]
    is_control = rows["attributes"] & CONTROL != 0
    columns = (rows[name].tolist() for name in ("producer_id", "producer_epoch", "base_offset"))
    for producer_id, epoch, offset, ends in zip(*columns, is_control.tolist(), strict=True):
        if ends:
            found.pop(producer_id, None)
        else:
            first, _ = found.get(producer_id, (max(offset, offsets.first or 0), epoch))
            found[producer_id] = first, epoch
    return found


def _notes(
    source: SourcePartition,
    target: TargetPartition,
    options: RestoreOptions,
    transactions: Sequence[_OpenTransaction],
) -> Iterator[RestoreNote]:
    foreign = foreign_state(target.topic, source.place.topic_id, target.topic_id)
    if foreign is not None:
        yield foreign
    for one in source.damage:
        message = f"{one.path}: {one.code.value.code} {one}"
        yield RestoreNote(NoteKind.DAMAGE, message, one.first_offset, one.last_offset)
    for first, last in source.missing():
        yield RestoreNote(NoteKind.MISSING_OFFSETS, "no entry has these offsets", first, last)
    if not source.rises:
        message = "entries come again, or out of order: their offsets do not rise"
        yield RestoreNote(NoteKind.OVERLAP, message)
    if not options.is_converted:
        yield from _old_formats(source)
        limit = target.max_message_bytes
        unit = "max.message.bytes" if limit != MAX_MESSAGE_BYTES else "the default of max.message.bytes"
        for offset, size in source.larger_than(limit):
            yield RestoreNote(NoteKind.LARGE_BATCH, f"{size:,} bytes, {unit} is {limit:,}", offset, offset)
    if options.conversion.keeps_markers:
        yield from (one.note for one in transactions)
        yield from _producers(source, target, options)
    if not options.conversion.selects:
        yield from _deleted(source, target)


def _old_formats(source: SourcePartition) -> Iterator[RestoreNote]:
    magics = source.good["magic"]
    old = np.flatnonzero(magics < TARGET_MAGIC)
    if old.size:
        lowest = int(magics[old].min())
        message = f"{old.size:,} entries have magic {lowest}, which brokers read; --to-magic 2 converts them"
        first, last = source.good["last_offset"][old[[0, -1]]].tolist()
        yield RestoreNote(NoteKind.OLD_FORMAT, message, first, last)


def _transactions(source: SourcePartition, options: RestoreOptions, ending: EndingOf) -> Iterator[_OpenTransaction]:
    found = open_transactions(source, options.conversion.offsets)
    for producer_id, (offset, epoch) in sorted(found.items(), key=lambda item: item[1]):
        answer = ending(producer_id, epoch)
        policy = options.by_producer.get(producer_id, options.transactions)
        why = ""
        if policy is None:
            policy, why = _POLICIES.get(answer.ending, TxnPolicy.LEAVE), f"{answer}; "
        if policy is TxnPolicy.LEAVE:
            outcome = "readers of committed records wait there; --open-transactions abort or commit ends it"
        else:
            outcome = f"a marker {policy.value.upper()} is added at the end"
        message = f"the transaction{answer.whose} of producer {producer_id} has no end marker: {why}{outcome}"
        yield _OpenTransaction(producer_id, policy, RestoreNote(NoteKind.OPEN_TRANSACTION, message, offset, None))


_POLICIES: Final = {
    Ending.COMMIT: TxnPolicy.COMMIT,
    Ending.ABORT: TxnPolicy.ABORT,
    Ending.TIMEOUT: TxnPolicy.ABORT,
}
"""In a new cluster there is no coordinator that would wait for a timeout."""


def _deleted(source: SourcePartition, target: TargetPartition) -> Iterator[RestoreNote]:
    segments = source.retained()
    now = time.time_ns() // 1_000_000
    reasons = deleted_segments(segments, target.retention, now=now, log_start_offset=None)
    if reasons:
        rules = " and ".join(sorted({reason.value for reason in reasons}))
        message = (
            f"by {rules} the target deletes {len(reasons)} of {len(segments)} segments as soon as it runs: set "
            "retention.ms and retention.bytes of the topic to -1 before"
        )
        yield RestoreNote(NoteKind.RETENTION, message, source.log_start, None)


def _producers(source: SourcePartition, target: TargetPartition, options: RestoreOptions) -> Iterator[RestoreNote]:
    """The target counts producer ids from its own beginning, and may give one out that the log knows."""
    ids = source.good["producer_id"]
    highest, given_next = int(ids.max(initial=-1)), target.next_producer_id
    if highest < 0 or options.forgets_producers or (given_next is not None and highest < given_next):
        return
    known = "" if given_next is None else f", and the target gives out {given_next} next"
    message = (
        f"the log has producer ids up to {highest:,}{known}: of a new producer with such an id the broker refuses "
        "batches, or takes them for repetitions; --forget-producers"
    )
    yield RestoreNote(NoteKind.PRODUCER_IDS, message)
