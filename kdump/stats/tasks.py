"""``stats`` as tasks: splits of logs are folded anywhere, and merged here in the order of the files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

from kdump.stats.fold import FOLD_CLASSES, StatsFold
from kdump.stats.run import StatsOptions, StatsRun, fold_split
from kdump.tasks.plaindata import PlainData
from kdump.tasks.splits import SPLIT_BYTES, LogFile, Split, listed_logs, plan
from kdump.tasks.work import Runner, Work
from kdump.verify.readings import groups_of


class FoldedSplit(NamedTuple):
    """The fold of the split of a log that begins at the file position ``first``."""

    log: str
    first: int
    fold: StatsFold


_RESULT: Final = PlainData((*FOLD_CLASSES, FoldedSplit))


def take_folds(
    paths: Sequence[str], options: StatsOptions, into: StatsRun, run: Runner, *, split_bytes: int = SPLIT_BYTES
) -> None:
    """Fold the logs of ``paths`` in tasks, and give the folds to ``into``.

    Raises:
        KdumpError: the job fails.
    """
    logs = _logs_of(paths)
    # Paths of logs are absolute and contain their credentials.
    work = Work(partial(_fold_all, options=options), _RESULT.pack, _RESULT.unpack)
    found: dict[str, list[FoldedSplit]] = {}
    for part in run(plan(logs, split_bytes=split_bytes), work):
        found.setdefault(part.log, []).append(part)
    for log in logs:
        # An empty log was in no task.
        own = sorted(found.get(log.path, ()), key=lambda part: part.first) or [
            _folded(Split(log, 0, log.size), options)
        ]
        into.take(log.path, [part.fold for part in own])


def _logs_of(paths: Sequence[str]) -> list[LogFile]:
    """The logs in the order in which ``StatsRun.judge`` is asked for them; it also reports what is wrong with them."""
    segments = dict.fromkeys(segment for path in paths for group in groups_of(path) for segment in group.segments)
    return listed_logs(segments)


def _fold_all(splits: Sequence[Split], options: StatsOptions) -> Iterator[FoldedSplit]:
    return (_folded(split, options) for split in splits)


def _folded(split: Split, options: StatsOptions) -> FoldedSplit:
    return FoldedSplit(split.log.path, split.first, fold_split(split, options))
