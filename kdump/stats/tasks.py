"""``stats`` as tasks: logs are folded anywhere, and merged here in the order of the files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Final, TypeAlias

from kdump.codes import ignore_error
from kdump.fast.memory import give_back_freed_memory
from kdump.inputs import Input, file_by_name
from kdump.log import files
from kdump.log.context import FileContext
from kdump.log.source import Source
from kdump.stats.fold import FOLD_CLASSES, StatsFold
from kdump.stats.run import StatsOptions, StatsReading, StatsRun, fold_log, part_of
from kdump.tasks.logs import TASK_BYTES, LogFile, log_files, packed_in_order
from kdump.tasks.plaindata import PlainData
from kdump.tasks.work import Runner, Work, in_process
from kdump.verify.gaps import NextSegment
from kdump.verify.judging import DistributedCheck, judged_groups
from kdump.verify.partition import Judgement
from kdump.verify.readings import (
    PIECE_CLASSES,
    Group,
    ReadingEnd,
    ReadingPiece,
    ReadingTask,
    absolute,
    died,
    log_size,
    plan_readings,
    read_pieces,
)
from kdump.verify.run import Judge
from kdump.verify.segment import SeenSegment

_FoldedLog: TypeAlias = tuple[str, StatsFold]
"""The absolute path of a log, and its fold."""
_RESULT: Final = PlainData(FOLD_CLASSES)
_PIECE: Final = PlainData((*FOLD_CLASSES, *PIECE_CLASSES))


def folding_judge(
    inputs: Iterable[Input],
    options: StatsOptions,
    into: StatsRun,
    run: Runner,
    *,
    min_tasks: int = 1,
    takes_small: bool = False,
) -> Judge:
    """A judge of partitions whose logs are read by a runner, and folded ``into`` the figures in the same pass.

    Args:
        inputs: as they will be given to ``Verification.items``, in that order.
        options: what is counted.
        into: takes the folds of the logs that are judged.
        run: reads the logs.
        min_tasks: see ``plan_readings``.
        takes_small: see ``pooled_judge``.
    """

    def take(folded: _FoldedLog) -> None:
        into.take_fold(*folded)

    def judged(groups: Sequence[Group]) -> Iterator[tuple[int, Iterable[Judgement]]]:
        tasks = plan_readings(groups, min_tasks=min_tasks)
        work = Work(partial(_read_and_fold, options=options), _packed, _PIECE.unpack, lost=died, size=log_size)
        # A single task is done here: its fold would be held twice on its way from another process.
        pieces = (run if len(tasks) > 1 else in_process)(tasks, work)
        contexts = {files.absolute(path): FileContext.of(path) for group in groups for path in group.segments}

        def read(source: Source, following: NextSegment) -> SeenSegment:
            return into.read(source, following, contexts[source.path])

        return judged_groups(absolute(groups), pieces, options.checks, read=read, take=take)

    # To count records costs more than to take the figures from another process.
    leaves_small = not (takes_small or options.with_records)
    return DistributedCheck(inputs, judged, into.judge(), leaves_small=leaves_small)


def _read_and_fold(task: ReadingTask, options: StatsOptions) -> Iterator[ReadingPiece]:
    """The pieces of a log, the last one with its fold."""
    fold, log = options.fold(), task.log

    def look(source: Source, following: NextSegment) -> SeenSegment:
        return StatsReading(source, following, part_of(log, fold), options)

    return read_pieces(task, options.checks, look, lambda: (log.path, fold))


def _packed(piece: ReadingPiece) -> bytes:
    packed = _PIECE.pack(piece)
    if isinstance(piece.seen, ReadingEnd):
        # The fold is all that is left of the log. It may wait long, beside the folds of other processes.
        give_back_freed_memory()
    return packed


def take_folds(inputs: Iterable[Input], options: StatsOptions, into: StatsRun, run: Runner) -> None:
    """Fold the logs of ``inputs`` in tasks, and give the folds to ``into``; the checks of the logs come after this.

    Raises:
        KdumpError: the job fails.
    """
    # In the order in which ``StatsRun.judge`` is asked for them; it also reports what is wrong with them.
    groups = (group for found in inputs for group in Group.all_of(found))
    segments = filter(None, map(file_by_name, dict.fromkeys(path for group in groups for path in group.segments)))
    # Paths of logs are absolute, and have their credentials.
    work = Work(partial(_folded, options=options), _RESULT.pack, _RESULT.unpack)
    for folded in run(packed_in_order(log_files(segments, ignore_error), task_bytes=TASK_BYTES), work):
        into.take_fold(*folded)


def _folded(log: LogFile, options: StatsOptions) -> Iterator[_FoldedLog]:
    yield log.path, fold_log(log, options)
