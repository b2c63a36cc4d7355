"""``stats`` as tasks: splits of logs are folded anywhere, and merged here in the order of the files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple

from kdump.codes import KdumpError
from kdump.fast.memory import give_back_freed_memory
from kdump.log import files
from kdump.log.context import FileContext
from kdump.log.extents import Extent
from kdump.log.source import Source, keep_size
from kdump.stats.fold import FOLD_CLASSES, StatsFold
from kdump.stats.run import StatsOptions, StatsRun, fold_split, split_reading
from kdump.tasks.plaindata import PlainData
from kdump.tasks.splits import SPLIT_BYTES, LogFile, Split, listed_logs, plan
from kdump.tasks.work import Packed, Runner, Work, in_process
from kdump.verify.gaps import NextSegment
from kdump.verify.judging import DistributedCheck, has_small_logs, judged_groups
from kdump.verify.partition import Judgement
from kdump.verify.readings import (
    PIECE_CLASSES,
    Beside,
    Group,
    ReadingPiece,
    ReadingTask,
    absolute,
    died,
    file_of,
    groups_of,
    plan_readings,
    read_piece,
    split_size,
)
from kdump.verify.run import Judge
from kdump.verify.segment import SeenSegment


class FoldedSplit(NamedTuple):
    """The fold of what lies in a log from the file position ``first`` on. ``log``: its absolute path."""

    log: str
    first: int
    fold: StatsFold


_RESULT: Final = PlainData((*FOLD_CLASSES, FoldedSplit))
_PIECE: Final = PlainData((*FOLD_CLASSES, *PIECE_CLASSES, Beside, FoldedSplit))


def folding_judge(
    paths: Iterable[str],
    options: StatsOptions,
    into: StatsRun,
    run: Runner,
    *,
    min_tasks: int = 1,
    takes_small: bool = False,
) -> Judge:
    """A judge of partitions whose logs are read by a runner, and folded ``into`` the figures in the same pass.

    Args:
        paths: as they will be given to ``Verification.path``, in that order.
        options: what is counted.
        into: takes the folds of the logs that are judged.
        run: reads the logs.
        min_tasks: see ``plan_readings``. Sketches of records are merged from the same splits everywhere, so these do
            not become smaller.
        takes_small: see ``pooled_judge``.
    """

    def take(split: FoldedSplit) -> None:
        into.take_split(split.log, split.first, split.fold)

    def judged(groups: Sequence[Group]) -> Iterator[tuple[int, Iterable[Judgement]]]:
        tasks = plan_readings(groups, min_tasks=min_tasks, cuts_smaller=not options.with_records)
        work = Work(
            partial(_read_and_fold, options=options),
            _packed,
            _PIECE.unpack,
            lost=died,
            size=split_size,
            shared_file=file_of,
        )
        # A single task is done here: its fold would be held twice on its way from another process.
        pieces = (run if len(tasks) > 1 else in_process)(tasks, work)
        contexts = {files.absolute(path): FileContext.of(path) for group in groups for path in group.segments}

        def read(source: Source, following: NextSegment) -> SeenSegment:
            return into.read(source, following, contexts[source.path])

        return judged_groups(absolute(groups), pieces, options.checks, read=read, take=take)

    # Logs of which records are decoded are not read together.
    leaves_out = (lambda group: False) if takes_small or options.with_records else has_small_logs
    return DistributedCheck(paths, judged, into.judge(), leaves_out=leaves_out)


def _read_and_fold(task: ReadingTask, options: StatsOptions) -> Iterator[ReadingPiece]:
    """The pieces of a split, and at last its fold."""
    fold, split = options.fold(), task.split

    def look(source: Source, following: NextSegment, extent: Extent) -> SeenSegment:
        return split_reading(split, source, following, extent, options=options, fold=fold)

    count = 0
    for piece in read_piece(task, options.checks, look):
        yield piece
        count += 1
    folded = Beside(FoldedSplit(split.log.path, split.first, fold))
    yield ReadingPiece(task.group, task.segment, split.first, count, folded)


def _packed(piece: ReadingPiece) -> Packed:
    pieces = _PIECE.pieces(piece)
    if isinstance(piece.seen, Beside):
        # The fold is all that is left of the split. It may wait long, beside the folds of other processes.
        give_back_freed_memory()
    return pieces


def take_folds(
    paths: Sequence[str], options: StatsOptions, into: StatsRun, run: Runner, *, split_bytes: int = SPLIT_BYTES
) -> None:
    """Fold the logs of ``paths`` in tasks, and give the folds to ``into``; the checks of the logs come after this.

    Raises:
        KdumpError: the job fails.
    """
    logs = _logs_of(paths)
    # Paths of logs are absolute, and have their credentials.
    work = Work(partial(_folded, options=options), _RESULT.pieces, _RESULT.unpack)
    found: dict[str, list[FoldedSplit]] = {}
    tasks = plan(logs, split_bytes=split_bytes)
    counts = Counter(split.log.path for task in tasks for split in task)
    for part in run(tasks, work):
        found.setdefault(part.log, []).append(part)
    for log in logs:
        own = sorted(found.get(log.path, ()), key=lambda part: part.first)
        if own and len(own) == counts[log.path]:
            for part in own:
                into.take_split(log.path, part.first, part.fold)
        else:
            # It is empty and was in no task, or it was cut at a false place.
            _fold_here(log, into)


def _logs_of(paths: Sequence[str]) -> list[LogFile]:
    """The logs in the order in which ``StatsRun.judge`` is asked for them; it also reports what is wrong with them."""
    segments = dict.fromkeys(segment for path in paths for group in groups_of(path) for segment in group.segments)
    return listed_logs(segments)


def _folded(split: Split, options: StatsOptions) -> Iterator[FoldedSplit]:
    fold = fold_split(split, options)
    if fold is not None:
        yield FoldedSplit(split.log.path, split.first, fold)


def _fold_here(log: LogFile, into: StatsRun) -> None:
    """Fold a log in this process. The judge of the partition reports what cannot be read."""
    with suppress(KdumpError), log.open() as source:
        keep_size(source, log.size)
        for _ in into.read(source, NextSegment(), log.context).items():
            pass
