"""The figures of one group, from a settled fold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kdump.codes import Severity
from kdump.format.batch import NO_TIMESTAMP_TYPE, TIMESTAMP_TYPES, codec_name
from kdump.stats.fold import StatsFold
from kdump.stats.grouping import Key
from kdump.stats.keys import DistinctKeys, HeavyKey
from kdump.stats.producers import GroupProducers
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
    """Stored bytes of the records that were read."""
    uncompressed: int = 0

    @property
    def ratio(self) -> float | None:
        """Uncompressed bytes per stored byte; None: no records were read."""
        return self.uncompressed / self.stored if self.stored else None


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of one group; None if headers do not show one, or where there is nothing to measure."""

    group: str | None
    """None: the figures of all groups together."""
    files: int
    sums: dict[str, int]
    """Sums by the names of ``fold.SUMS``."""
    min_offset: int | None
    max_offset: int | None
    min_timestamp: int | None
    max_timestamp: int | None
    step_back: int | None
    """Milliseconds."""
    sizes: dict[str, SizeSummary | None]
    """Sizes by the names of ``fold.SIZES``."""
    codecs: tuple[Share, ...]
    magics: tuple[Share, ...]
    timestamp_types: dict[str, int]
    """Number of records."""
    producers: GroupProducers
    """Producers, those with the most bytes first."""
    distinct_keys: DistinctKeys | None
    heaviest_keys: tuple[HeavyKey, ...]
    timeline: tuple[TimelineStep, ...]
    step: int
    """Length of the timeline's steps, ms."""
    with_records: bool
    errors: int | None
    """Findings of ``verify``; None: they cannot be counted per group."""
    warnings: int | None

    @property
    def seconds(self) -> float | None:
        """Seconds between the first and the last timestamp; None if there are not two."""
        if self.min_timestamp is None or self.max_timestamp is None or self.max_timestamp <= self.min_timestamp:
            return None
        return (self.max_timestamp - self.min_timestamp) / 1000

    def rate(self, name: str) -> float | None:
        """A sum per second."""
        return None if self.seconds is None else self.sums[name] / self.seconds

    @property
    def bytes_per_index_entry(self) -> float | None:
        """Bytes of log per entry of the offset indexes; None: there is no index, or all are empty."""
        entries = self.sums["index_entries"]
        return self.sums["index_bytes"] / entries if entries else None

    @property
    def is_damaged(self) -> bool:
        """Whether there are errors, or batches with a wrong CRC."""
        return bool(self.errors) or self.sums["damaged_batches"] > 0


@dataclass(frozen=True, slots=True)
class FiguresReport:
    """The figures of all groups in order, and of all of them together.

    ``batch_sizes``: (upper bound, count) of all batches. ``gaps_are_normal``: the log cleaner explains each offset that
    is missing.
    """

    groups: Sequence[Figures]
    total: Figures
    batch_sizes: Sequence[tuple[int, int]]
    gaps_are_normal: bool = False


def report(fold: StatsFold, damage: Mapping[Key, Counter[Severity]], total_damage: Counter[Severity]) -> FiguresReport:
    """The figures of a settled fold.

    Args:
        fold: settled.
        damage: findings of ``verify`` by group key; not used if groups are not made of files.
        total_damage: of all groups.
    """
    total = StatsFold(fold.by, with_records=fold.with_records)
    total.groups.id_of(None)
    total.merge(fold, into_one=True)
    files = fold.files.counts(fold.groups.count)
    groups = []
    for key, group in fold.groups.in_order(fold.by):
        own = damage.get(key, Counter[Severity]()) if fold.by.is_of_files else None
        groups.append(_figures(fold, group, fold.by.label(key), files, own))
    if fold.by.is_of_contents:
        groups.sort(key=lambda each: (-each.sums["bytes"], each.group))
    figures = _figures(total, 0, None, total.files.counts(1), total_damage)
    return FiguresReport(groups, figures, total.sizes["batch"].histogram(0))


def _figures(
    fold: StatsFold, group: int, label: str | None, files: NDArray[np.int64], damage: Counter[Severity] | None
) -> Figures:
    """The figures of a group; ``files``: how many each group has rows of, shape (groups,)."""
    sums = fold.sums.of(group)
    if fold.by.is_of_contents and label is not None:
        # No batch is in the group: these are the bytes of its records.
        sums["bytes"] = sums["key_bytes"] + sums["value_bytes"] + sums["header_bytes"]
    least, most = fold.least.of(group), fold.most.of(group)
    offsets, times = (_range(least[name], most[name]) for name in ("offset", "timestamp"))
    types, counts = fold.timestamp_types.of(group)
    return Figures(
        group=label,
        files=int(files[group]),
        sums=sums,
        min_offset=offsets[0],
        max_offset=offsets[1],
        min_timestamp=times[0],
        max_timestamp=times[1],
        step_back=max(0, most["step_back"]) if fold.with_records else None,
        sizes={name: sizes.of(group) for name, sizes in fold.sizes.items()},
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
        producers=fold.producers.of(group),
        distinct_keys=fold.keys.distinct(group) if fold.with_records else None,
        heaviest_keys=tuple(fold.keys.heaviest(group, HEAVY_KEYS)),
        timeline=tuple(fold.timeline.of(group)),
        step=fold.timeline.step,
        with_records=fold.with_records,
        errors=None if damage is None else damage[Severity.ERROR],
        warnings=None if damage is None else damage[Severity.WARNING],
    )


def _range(least: int, most: int) -> tuple[int, int] | tuple[None, None]:
    """The range; none if both still have their initial values, which a log may also store."""
    return (least, most) if least <= most else (None, None)
