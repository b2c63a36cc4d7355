"""What the copies of a partition differ in, and whether that is explained: ranges of offsets with their kinds.

Source: docs/spec/replicas.md#5-what-differs-between-healthy-replicas.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import combinations, groupby
from typing import Final

import numpy as np

from kdump.codes import Codes, Severity
from kdump.diff.cleaning import CleanedCopy, cleaned_last, is_compacted
from kdump.diff.contents import CopyContents, DiffOptions
from kdump.diff.copies import LoadedCopy
from kdump.diff.pairs import CopyPair, Held, Intervals, Stretch
from kdump.kafka.image.names import TopicNames
from kdump.log.files import absolute
from kdump.verify.reach import PartitionEvidence, SegmentReach


class DifferenceKind(Enum):
    """What copies differ in. Those whose code is of severity INFO are explained."""

    RECORD = Codes.COPY_RECORD
    LEADER_EPOCH = Codes.COPY_EPOCH
    DAMAGE = Codes.COPY_DAMAGE
    GAP = Codes.COPY_GAP
    TOPIC_ID = Codes.COPY_TOPIC_ID
    HIGH_WATERMARK = Codes.COPY_HIGH_WATERMARK
    EPOCH_START = Codes.COPY_EPOCH_START
    TAIL = Codes.COPY_TAIL
    CLUSTER = Codes.COPY_CLUSTER
    CHANGED = Codes.COPY_CHANGED
    LAG = Codes.COPY_LAG
    RETENTION = Codes.COPY_RETENTION
    DELETES = Codes.COPY_DELETED
    COMPACTION = Codes.COPY_COMPACTED
    REWRITTEN = Codes.COPY_REWRITTEN
    SEGMENTS = Codes.COPY_SEGMENTS

    @property
    def word(self) -> str:
        """Its name in outputs, such as ``leader-epoch``."""
        return self.name.lower().replace("_", "-")

    @property
    def severity(self) -> Severity:
        """That of its code."""
        code: Codes = self.value
        return code.value.severity

    @property
    def is_explained(self) -> bool:
        """Healthy copies differ in this."""
        return self.severity is Severity.INFO


@dataclass(frozen=True, slots=True)
class CopyDifference:
    """Offsets, both inclusive, at which copies differ; None: it is about no offset.

    ``copies``: the numbers of the copies that it is about, rising: those that lack or have what others have not; where
    copies hold different records all of them. ``records``: how many there are; None: not known. ``sides``: where copies
    hold different records or are of different topics, those that agree, the fewest first; empty elsewhere.
    """

    kind: DifferenceKind
    first_offset: int | None
    last_offset: int | None
    copies: tuple[int, ...]
    message: str
    records: int | None = None
    sides: tuple[tuple[int, ...], ...] = ()


_HAS_SIDES: Final = frozenset({DifferenceKind.RECORD, DifferenceKind.LEADER_EPOCH})
_UNREPLACED: Final = (Held.UNREPLACED_FIRST, Held.UNREPLACED_SECOND)


class Comparison:
    """The copies of one partition, loaded.

    Args:
        copies: in the order of the PATHs.
        options: how records are compared.
    """

    def __init__(self, copies: Sequence[LoadedCopy], options: DiffOptions) -> None:
        self.copies = tuple(copies)
        self.options = options
        self._contents = [CopyContents(copy, options) for copy in copies]
        self._pairs: dict[tuple[int, int], CopyPair] = {}
        self._cleaned: dict[int, CleanedCopy] = {}
        self._is_compacted = any(map(is_compacted, copies))
        self._parted: set[tuple[int, int]] = set()

    def pair(self, first: int, second: int) -> CopyPair:
        """Two copies, by their numbers."""
        if (first, second) not in self._pairs:
            self._pairs[first, second] = CopyPair(self._contents[first], self._contents[second])
        return self._pairs[first, second]

    @property
    def common(self) -> tuple[int, int] | None:
        """The offsets that all copies may hold, first and last; None where there are none."""
        lower = max((copy.log_start for copy in self.copies), default=0)
        upper = min((copy.log_end for copy in self.copies), default=0)
        return (lower, upper - 1) if lower < upper else None

    def differences(self) -> list[CopyDifference]:
        """All of them, findings first, in the order of their offsets.

        Raises:
            KdumpError: a log cannot be read.
        """
        found = [*self._of_identities(), *self._of_single_copies()]
        for first, second in combinations(range(len(self.copies)), 2):
            if self.are_comparable(first, second):
                found += self._of_pair(first, second)
        found += [*self._of_starts(), *self._of_ends(), *self._of_segments()]
        return _merged(found)

    def are_comparable(self, *numbers: int) -> bool:
        """These copies are of one topic, as far as that is known."""
        ids = {self.copies[number].place.topic_id for number in numbers} - {None}
        return len(ids) < 2 or self.options.only_content

    def _of_identities(self) -> Iterator[CopyDifference]:
        if self.options.only_content:
            return
        for kind, ids in (
            (DifferenceKind.TOPIC_ID, [copy.place.topic_id for copy in self.copies]),
            (DifferenceKind.CLUSTER, [copy.place.cluster_id for copy in self.copies]),
        ):
            known = {number: known for number, known in enumerate(ids) if known is not None}
            if len(set(known.values())) > 1:
                what = "cluster ids"
                if kind is DifferenceKind.TOPIC_ID:
                    what = "topic ids"
                    names = TopicNames(copy.place.directory for copy in self.copies)
                    known = {
                        number: names.text(topic_id, self.copies[number].place.directory)
                        for number, topic_id in known.items()
                    }
                listed = ", ".join(sorted(set(known.values())))
                message = f"the copies have different {what}: {listed}"
                sides = {tuple(other for other in known if known[other] == name) for name in known.values()}
                yield CopyDifference(kind, None, None, tuple(known), message, sides=_fewest_first(sides))

    def _of_single_copies(self) -> Iterator[CopyDifference]:
        for number, copy in enumerate(self.copies):
            if copy.failure is not None:
                message = f"a broker does not start on this copy: {copy.failure}"
                yield CopyDifference(DifferenceKind.DAMAGE, None, None, (number,), message)
            for first, last, message in damaged_ranges(copy):
                yield CopyDifference(DifferenceKind.DAMAGE, first, last, (number,), message)
            known = copy.place.high_watermark
            if known is not None and copy.log_end < known < 2**63 - 1 and not cleaned_last(copy):
                message = f"the log ends at {copy.log_end}, and its own checkpoint has the high watermark {known}"
                yield CopyDifference(DifferenceKind.HIGH_WATERMARK, copy.log_end, known - 1, (number,), message)

    def _of_pair(self, first: int, second: int) -> Iterator[CopyDifference]:
        ours, theirs = self.copies[first], self.copies[second]
        lower, upper = max(ours.log_start, theirs.log_start), min(ours.log_end, theirs.log_end)
        pair = self.pair(first, second)
        if lower >= upper or pair.are_equal(lower, upper):
            return
        held = _without_damage(pair.held(lower, upper, self._both_cleaned(first, second)), [ours, theirs])
        stretches = list(held.stretches())
        self._note_parting(stretches, first, second)
        numbers = (first, second)
        yield from _findings(stretches, numbers, self.copies)
        yield from _explained_differences(stretches, numbers)
        if not self.options.only_content:
            yield from self._epoch_starts(numbers, lower, upper)

    def _both_cleaned(self, first: int, second: int) -> tuple[CleanedCopy, CleanedCopy] | None:
        """Two copies as far as the log cleaner may have been at them; None: it has been at neither."""
        cleaned = self._cleaned_copy(first), self._cleaned_copy(second)
        return cleaned if any(copy.may_be_cleaned for copy in cleaned) else None

    def _note_parting(self, stretches: Sequence[Stretch], first: int, second: int) -> None:
        """Two histories parted for good where the last offsets that both hold have different leader epochs."""
        both = [stretch.held for stretch in stretches if stretch.held <= Held.OTHER_RECORD]
        if both and both[-1] == Held.OTHER_EPOCH:
            self._parted |= {(first, second), (second, first)}

    def _epoch_starts(self, numbers: tuple[int, int], lower: int, upper: int) -> Iterator[CopyDifference]:
        """Leader epochs that both copies hold, and that begin at different offsets, which both hold too."""
        starts = [_epoch_starts(self.copies[number]) for number in numbers]
        for epoch in sorted(starts[0].keys() & starts[1].keys()):
            offsets = sorted((starts[0][epoch], starts[1][epoch]))
            if offsets[0] == offsets[1] or not (lower <= offsets[0] and offsets[1] < upper):
                continue
            if any(not _holds(self.copies[number], offset) for number in numbers for offset in offsets):
                continue
            if self._is_compacted:
                continue
            message = (
                f"leader epoch {epoch} starts at {starts[0][epoch]} in one copy and at {starts[1][epoch]} in another"
            )
            yield CopyDifference(DifferenceKind.EPOCH_START, offsets[0], offsets[1], numbers, message)

    def _of_starts(self) -> Iterator[CopyDifference]:
        """Copies that begin after another one."""
        for number, copy in enumerate(self.copies):
            others = [
                other.log_start
                for at, other in enumerate(self.copies)
                if at != number and self.are_comparable(number, at)
            ]
            lowest = min(others, default=copy.log_start)
            if lowest >= copy.log_start or copy.place.log is not None:
                continue
            lost = _lost_at_start(copy)
            if lost is not None and lost[0] < copy.log_start and lost[1] >= lowest:
                first, last = max(lost[0], lowest), min(lost[1], copy.log_start - 1)
                message = f"the first segments are missing: {lost[2]}"
                yield CopyDifference(DifferenceKind.GAP, first, last, (number,), message)
                if first == lowest:
                    continue
                lowest_end = first
            else:
                lowest_end = copy.log_start
            bases = [segment.base_offset for segment in copy.table.segments]
            is_raised = bool(bases) and copy.log_start > bases[0]
            kind = DifferenceKind.DELETES if is_raised else DifferenceKind.RETENTION
            why = "its log start offset was raised" if is_raised else "retention removed what is before"
            yield CopyDifference(
                kind, lowest, lowest_end - 1, (number,), f"this copy starts at {copy.log_start}: {why}"
            )

    def _of_ends(self) -> Iterator[CopyDifference]:
        """Copies that end before another one: lag, or a tail of another history."""
        for number, copy in enumerate(self.copies):
            longer = [
                at
                for at, other in enumerate(self.copies)
                if other.log_end > copy.log_end and self.are_comparable(number, at)
            ]
            parted = [at for at in longer if (number, at) in self._parted]
            lagging = [at for at in longer if at not in parted]
            if lagging and copy.place.log is None:
                end = max(self.copies[at].log_end for at in lagging)
                message = f"this copy ends at {copy.log_end}, another one at {end}"
                if copy.cut and copy.cut[-1][1] >= copy.log_end:
                    message += f"; the next start of a broker cuts off what it has up to {copy.cut[-1][1]}"
                yield CopyDifference(DifferenceKind.LAG, copy.log_end, end - 1, (number,), message)
            for at in parted:
                end = self.copies[at].log_end
                message = f"another history ends at {copy.log_end}, this one goes on to {end}"
                yield CopyDifference(DifferenceKind.TAIL, copy.log_end, end - 1, (at,), message)

    def _of_segments(self) -> Iterator[CopyDifference]:
        """Segments that begin elsewhere, within what all hold."""
        if self.common is None or not self.are_comparable(*range(len(self.copies))):
            return
        lower, upper = self.common
        whole = [number for number, copy in enumerate(self.copies) if copy.place.log is None]
        bases = {
            number: {
                segment.base_offset
                for segment in self.copies[number].table.segments
                if lower < segment.base_offset <= upper
            }
            for number in whole
        }
        everywhere = set.intersection(*bases.values()) if bases else set()
        apart = set().union(*bases.values()) - everywhere
        if apart:
            message = f"{len(apart)} segment{'s begin' if len(apart) > 1 else ' begins'} in some copies only"
            yield CopyDifference(DifferenceKind.SEGMENTS, min(apart), max(apart), tuple(whole), message)

    def _cleaned_copy(self, number: int) -> CleanedCopy:
        if number not in self._cleaned:
            self._cleaned[number] = CleanedCopy(self._contents[number], is_topic_compacted=self._is_compacted)
        return self._cleaned[number]


def damaged_ranges(copy: LoadedCopy) -> Iterator[tuple[int, int | None, str]]:
    """The offsets (first, last) at which a copy is damaged, and how; last is None where it is not known."""
    for finding in copy.damage:
        if finding.first_offset is not None:
            where = f"{finding.path} at {finding.position}"
            yield finding.first_offset, finding.last_offset, f"{where}: {finding.message}"


def _without_damage(held: Intervals, copies: Iterable[LoadedCopy]) -> Intervals:
    """Label what lies where one of two copies is damaged: that is told of the copy alone."""
    ranges = sorted(
        (first, first if last is None else last) for copy in copies for first, last, _ in damaged_ranges(copy)
    )
    if not ranges:
        return held
    first = np.array([one[0] for one in ranges], np.int64)
    last = np.maximum.accumulate(np.array([one[1] for one in ranges], np.int64))
    number = np.searchsorted(first, held.last, side="right") - 1
    is_damaged = (number >= 0) & (last[np.maximum(number, 0)] >= held.first)
    # A batch that both have is whole in both, whatever a broken length field claims.
    is_damaged &= held.label > Held.OTHER_EPOCH
    return replace(held, label=np.where(is_damaged, Held.DAMAGED, held.label))


def _findings(
    stretches: Iterable[Stretch], numbers: tuple[int, int], copies: Sequence[LoadedCopy]
) -> Iterator[CopyDifference]:
    """Those that nothing explains."""
    for held, first, last, records in stretches:
        what = f"{records:,} record{'s' if records != 1 else ''}"
        match held:
            case Held.OTHER_RECORD:
                message = f"{what} with the same offset and another content"
                yield CopyDifference(DifferenceKind.RECORD, first, last, numbers, message, records)
            case Held.OTHER_EPOCH:
                message = f"{what} with the same offset under another leader epoch"
                yield CopyDifference(DifferenceKind.LEADER_EPOCH, first, last, numbers, message, records)
            case Held.ONLY_FIRST | Held.ONLY_SECOND:
                lacking = numbers[1] if held == Held.ONLY_FIRST else numbers[0]
                message, kind = f"{what} of another copy missing", DifferenceKind.GAP
                if any(cut[0] <= first and last <= cut[1] for cut in copies[lacking].cut):
                    message, kind = f"{what} that the next start of a broker cuts off", DifferenceKind.DAMAGE
                yield CopyDifference(kind, first, last, (lacking,), message, records)


def _explained_differences(stretches: Sequence[Stretch], numbers: tuple[int, int]) -> Iterator[CopyDifference]:
    """What the log cleaner did: one difference for each copy, however many offsets it took."""
    cleaned = "removed by the log cleaner"
    for labels, kind, copies, what in (
        ((Held.SAME_RECORD,), DifferenceKind.REWRITTEN, numbers, "in other batches"),
        ((Held.CLEANED_FIRST, Held.UNREPLACED_FIRST), DifferenceKind.COMPACTION, numbers[:1], cleaned),
        ((Held.CLEANED_SECOND, Held.UNREPLACED_SECOND), DifferenceKind.COMPACTION, numbers[1:], cleaned),
    ):
        own = [stretch for stretch in stretches if stretch.held in labels]
        if not own:
            continue
        records = sum(stretch.records for stretch in own)
        message = f"{records:,} record{'s' if records != 1 else ''} {what}"
        unreplaced = sum(stretch.records for stretch in own if stretch.held in _UNREPLACED)
        if unreplaced:
            message += f", {unreplaced:,} of them without a later record of the key: cut after cleaning, or a tombstone"
        yield CopyDifference(kind, own[0].first, own[-1].last, copies, message, records)


def _epoch_starts(copy: LoadedCopy) -> dict[int, int]:
    """The first offset of each leader epoch, as the batches have it."""
    rows = copy.table.rows
    valid = np.flatnonzero(rows["is_valid"] & (rows["leader_epoch"] >= 0))
    epochs, at = np.unique(rows["leader_epoch"][valid], return_index=True)
    return dict(zip(epochs.tolist(), copy.table.first[valid[at]].tolist(), strict=True))


def _holds(copy: LoadedCopy, offset: int) -> bool:
    table = copy.table
    number = int(np.searchsorted(table.last_sorted, offset))
    return number < table.last.size and int(table.first_sorted[number]) <= offset


def _lost_at_start(copy: LoadedCopy) -> tuple[int, int, str] | None:
    """Offsets before the first segment that the files beside the logs still tell of, and which files do."""
    segments = [
        SegmentReach(segment.base_offset, not segment.size, lambda: copy.log_end) for segment in copy.table.segments
    ]
    if not segments:
        return None
    evidence = PartitionEvidence.of_directory(absolute(copy.place.directory))
    for lost in evidence.already_lost(segments, None):
        if lost.last_offset < copy.log_start:
            return lost.first_offset, lost.last_offset, f"known from {', '.join(lost.witnesses)}"
    return None


def _merged(found: Iterable[CopyDifference]) -> list[CopyDifference]:
    """Those of several pairs that say the same of the same offsets, as one."""

    def place(one: CopyDifference) -> tuple[bool, int, int, str]:
        first = -1 if one.first_offset is None else one.first_offset
        return one.kind.is_explained, first, -1 if one.last_offset is None else one.last_offset, one.kind.name

    merged: list[CopyDifference] = []
    for _, same in groupby(sorted(found, key=place), key=place):
        several = list(same)
        if several[0].kind is DifferenceKind.DAMAGE:
            merged += dict.fromkeys(several)
            continue
        copies = tuple(sorted({number for one in several for number in one.copies}))
        sides = several[0].sides
        if several[0].kind in _HAS_SIDES:
            sides = _sides(copies, {one.copies for one in several})
        merged.append(replace(several[0], copies=copies, sides=sides))
    return merged


def _sides(copies: tuple[int, ...], apart: set[tuple[int, ...]]) -> tuple[tuple[int, ...], ...]:
    """Copies that hold the same, the fewest first; ``apart``: pairs that do not."""
    sides = {
        tuple(other for other in copies if other == one or (min(one, other), max(one, other)) not in apart)
        for one in copies
    }
    return _fewest_first(sides)


def _fewest_first(sides: Iterable[tuple[int, ...]]) -> tuple[tuple[int, ...], ...]:
    return tuple(sorted(sides, key=lambda side: (len(side), side)))
