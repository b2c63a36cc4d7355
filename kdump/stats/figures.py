"""The figures of one group, out of a settled fold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kdump.format.batch import NO_TIMESTAMP_TYPE, TIMESTAMP_TYPES, codec_name
from kdump.reading.outcomes import ABORTED, COMMITTED, OPEN
from kdump.stats.fold import StatsFold
from kdump.stats.grouping import Key
from kdump.stats.keys import DistinctKeys, HeavyKey
from kdump.stats.producers import ProducerStats
from kdump.stats.sizes import SizeSummary
from kdump.stats.timeline import TimelineStep

_TIMESTAMP_TYPES: Final = (NO_TIMESTAMP_TYPE, *TIMESTAMP_TYPES)
HEAVY_KEYS: Final = 10
MOST_PRODUCERS: Final = 20


@dataclass(frozen=True, slots=True)
class Share:
    """Batches, records and bytes of one codec or magic."""

    name: str
    batches: int
    records: int
    size: int
    stored: int = 0
    """Bytes of the records as they are stored, of entries whose records were read."""
    uncompressed: int = 0

    @property
    def ratio(self) -> float | None:
        """Uncompressed bytes a stored one; None: no records were read."""
        return self.uncompressed / self.stored if self.stored else None


@dataclass(frozen=True, slots=True)
class OutcomeShare:
    """Transactions, and the batches in them."""

    transactions: int
    size: int
    records: int


@dataclass(frozen=True, slots=True)
class Figures:
    """One group; None where headers do not tell, or where there is nothing to tell of."""

    group: str | None
    """None: all of them."""
    files: int
    sums: dict[str, int]
    """By the names of ``fold.SUMS``."""
    min_offset: int | None
    max_offset: int | None
    min_timestamp: int | None
    max_timestamp: int | None
    step_back: int | None
    """Milliseconds."""
    sizes: dict[str, SizeSummary | None]
    """By the names of ``fold.SIZES``."""
    size_histograms: dict[str, list[tuple[int, int]]]
    """(upper bound, count)."""
    codecs: tuple[Share, ...]
    magics: tuple[Share, ...]
    timestamp_types: dict[str, int]
    """Records."""
    transactions: dict[str, OutcomeShare]
    """By outcome."""
    producers: tuple[ProducerStats, ...]
    """Those with the most bytes first."""
    distinct_keys: DistinctKeys | None
    heaviest_keys: tuple[HeavyKey, ...]
    timeline: tuple[TimelineStep, ...]
    step: int
    """Milliseconds of the timeline's steps."""
    with_records: bool
    errors: int | None
    """Findings of ``verify``; None: they are not of one group."""
    warnings: int | None

    @property
    def seconds(self) -> float | None:
        """Between the first and the last timestamp; None where there are not two."""
        if self.min_timestamp is None or self.max_timestamp is None or self.max_timestamp <= self.min_timestamp:
            return None
        return (self.max_timestamp - self.min_timestamp) / 1000

    def rate(self, name: str) -> float | None:
        """A sum by second."""
        return None if self.seconds is None else self.sums[name] / self.seconds

    @property
    def bytes_per_index_entry(self) -> float | None:
        """How dense the offset indexes are; None: there are none, or they are empty."""
        entries = self.sums["index_entries"]
        return self.sums["index_bytes"] / entries if entries else None

    @property
    def is_damaged(self) -> bool:
        """There are errors, or batches with a wrong CRC."""
        return bool(self.errors) or self.sums["damaged_batches"] > 0


@dataclass(frozen=True, slots=True)
class Damage:
    """What ``verify`` finds, by severity."""

    errors: int = 0
    warnings: int = 0


@dataclass(frozen=True, slots=True)
class FiguresReport:
    """All groups in order, and all of them as one."""

    groups: tuple[Figures, ...]
    total: Figures


def report(fold: StatsFold, damage: dict[Key, Damage], total_damage: Damage) -> FiguresReport:
    """The figures of a settled fold.

    Args:
        fold: settled.
        damage: by group key; nothing is said of groups that are not of files.
        total_damage: of all.
    """
    total = StatsFold(fold.by, with_records=fold.with_records)
    total.groups.id_of(None)
    total.merge(fold, into_one=True)
    figures = _Figures(fold)
    groups = []
    for group, key in fold.groups.in_order(fold.by):
        own = damage.get(key, Damage()) if fold.by.is_of_files else None
        groups.append(figures.of(group, fold.by.label(key), own))
    return FiguresReport(tuple(groups), _Figures(total).of(0, None, total_damage))


class _Figures:
    def __init__(self, fold: StatsFold) -> None:
        self._fold = fold
        self._producers = fold.producers.by_group()
        self._files: dict[int, int] = {}
        for group, _ in fold.files:
            self._files[group] = self._files.get(group, 0) + 1

    def of(self, group: int, label: str | None, damage: Damage | None) -> Figures:
        fold = self._fold
        sums = fold.sums.of(group)
        least, most = fold.least.of(group), fold.most.of(group)
        offsets, times = (_range(least[name], most[name]) for name in ("offset", "timestamp"))
        types, counts = fold.timestamp_types.of(group)
        return Figures(
            group=label,
            files=self._files.get(group, 0),
            sums=sums,
            min_offset=offsets[0],
            max_offset=offsets[1],
            min_timestamp=times[0],
            max_timestamp=times[1],
            step_back=max(0, most["step_back"]) if fold.with_records else None,
            sizes={name: sizes.of(group) for name, sizes in fold.sizes.items()},
            size_histograms={name: sizes.histogram(group) for name, sizes in fold.sizes.items()},
            codecs=tuple(
                Share(codec_name(codec), *figures)
                for codec, figures in zip(*(column.tolist() for column in fold.codecs.of(group)), strict=True)
            ),
            magics=tuple(
                Share(str(magic), *figures)
                for magic, figures in zip(*(column.tolist() for column in fold.magics.of(group)), strict=True)
            ),
            timestamp_types={
                _TIMESTAMP_TYPES[number]: count
                for number, (count,) in zip(types.tolist(), counts.tolist(), strict=True)
                if count
            },
            transactions={
                outcome: OutcomeShare(
                    sums[f"{outcome}_transactions"], sums[f"{outcome}_bytes"], sums[f"{outcome}_records"]
                )
                for outcome in (COMMITTED, ABORTED, OPEN)
            },
            producers=tuple(self._producers.get(group, ())),
            distinct_keys=fold.keys.distinct(group) if fold.with_records else None,
            heaviest_keys=tuple(fold.keys.heaviest(group, HEAVY_KEYS)),
            timeline=tuple(fold.timeline.of(group)),
            step=fold.timeline.step,
            with_records=fold.with_records,
            errors=None if damage is None else damage.errors,
            warnings=None if damage is None else damage.warnings,
        )


def _range(least: int, most: int) -> tuple[int, int] | tuple[None, None]:
    """Nothing was there where both are as they began; a number as large as that can be stored."""
    return (least, most) if least <= most else (None, None)
