"""``verify`` on Spark: logs are read in parallel, then each partition is judged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from kdump.codes import Codes, Finding, Severity
from kdump.inputs import Input
from kdump.kafka.failures import FailureKind
from kdump.kafka.recover import Cut, CutReason, Recovery, RecoveryFailure, RecoveryOutcome
from kdump.log.named import STDIN
from kdump.spark.sessions import translated_errors
from kdump.spark.tasks import Worker, distributed, on_spark, record_batches, tasks_of
from kdump.tasks.logs import TASK_BYTES
from kdump.tasks.plaindata import PlainData
from kdump.tasks.work import Work, Workplace
from kdump.verify.judging import DistributedCheck, judge
from kdump.verify.logdir import PartitionExtent
from kdump.verify.partition import Judgement, PartitionCheck
from kdump.verify.readings import PIECES, Group, ReadingPiece, ReadingTask, absolute, plan_readings, read_pieces
from kdump.verify.run import Judge
from kdump.verify.segment import CheckOptions
from kdump.verify.summary import SegmentSummary

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PIECES: Final = pa.schema(
    [("group", pa.int32()), ("segment", pa.int32()), ("number", pa.int32()), ("piece", pa.binary())]
)  # fmt: skip
_JUDGEMENTS: Final = pa.schema([("group", pa.int32()), ("number", pa.int64()), ("item", pa.binary())])
_JUDGEMENT: Final = PlainData(
    (
        Codes, Cut, CutReason, FailureKind, Finding, PartitionExtent, Recovery, RecoveryFailure, RecoveryOutcome,
        SegmentSummary, Severity,
    )
)  # fmt: skip
_FEW_TASKS: Final = 16
"""The driver judges the results of up to this many tasks, which saves the shuffle and a stage."""
_MOST_SEEN: Final = 16 << 20
"""Bytes from one of few tasks: 200,000 batches, more than most segments have. Of partitions that come to more the
driver does not want to know."""
_TOO_MUCH: Final = -1
"""Stands for the number of a piece: the task has more results than that."""


class SparkJudge(DistributedCheck):
    """A judge of all partitions of some inputs. All of them are judged before this is made.

    Args:
        spark: the session.
        inputs: as they will be given to ``Verification.items``.
        options: how deep.
        here: checks what the job did not find in this process; None: with ``options``.
        task_bytes: of a task.

    Raises:
        KdumpError: the job fails.
    """

    def __init__(
        self,
        spark: SparkSession,
        inputs: Sequence[Input],
        options: CheckOptions,
        *,
        here: Judge | None = None,
        task_bytes: int = TASK_BYTES,
    ) -> None:
        def judged(groups: Sequence[Group]) -> Iterator[tuple[int, Iterable[Judgement]]]:
            place = Workplace.of([found.path for found in inputs if found.path != STDIN])
            items = judgements(spark, absolute(groups), options, place, task_bytes=task_bytes)
            by_group = groupby(sorted(items, key=itemgetter(0)), itemgetter(0))
            return ((number, map(itemgetter(1), own)) for number, own in by_group)

        super().__init__(inputs, judged, here or PartitionCheck(options))


def judgements(
    spark: SparkSession,
    groups: Sequence[Group],
    options: CheckOptions,
    place: Workplace,
    *,
    task_bytes: int = TASK_BYTES,
) -> Iterator[tuple[int, Judgement]]:
    """The judgement of groups of segments: (group, item), the items of a group together and in order.

    Args:
        spark: the session.
        groups: their paths must mean the same here and on every worker.
        options: how deep.
        place: what a worker needs to find the files of the groups.
        task_bytes: of a task.

    Raises:
        KdumpError: a job fails.
    """
    tasks = plan_readings(groups, task_bytes=task_bytes)
    if 0 < len(tasks) <= _FEW_TASKS:
        work = Work(partial(_at_most, options=options, most=_MOST_SEEN), PIECES.pack, PIECES.unpack)
        pieces = list(on_spark(spark, [[task] for task in tasks], work))
        left = {piece.group for piece in pieces if piece.number == _TOO_MUCH}
        known = sorted((piece for piece in pieces if piece.group not in left), key=_place_of)
        yield from judge(groups, known, options)
        tasks = [own for task in tasks if (own := [log for log in task if log.group in left])]
    if not tasks:
        return
    with translated_errors("Spark"):
        rows = _judged_there(spark, groups, tasks, options, place).toArrow()
    rows = rows.sort_by([("group", "ascending"), ("number", "ascending")])
    for group, packed in zip(rows["group"].to_pylist(), rows["item"].to_pylist(), strict=True):
        yield group, _JUDGEMENT.unpack(packed)


def _place_of(piece: ReadingPiece) -> tuple[int, int, int]:
    return piece.group, piece.segment, piece.number


def _pieces(tasks: Sequence[ReadingTask], options: CheckOptions) -> Iterator[ReadingPiece]:
    return (piece for task in tasks for piece in read_pieces(task, options))


def _at_most(tasks: Sequence[ReadingTask], options: CheckOptions, most: int) -> Iterator[ReadingPiece]:
    """The pieces of a task; where they come to more than ``most`` bytes, their groups are to be read again."""
    size = 0
    for piece in _pieces(tasks, options):
        size += piece.size
        if size > most:
            yield from (ReadingPiece(task.group, task.segment, _TOO_MUCH, []) for task in tasks)
            return
        yield piece


def _judged_there(
    spark: SparkSession,
    groups: Sequence[Group],
    tasks: Sequence[Sequence[ReadingTask]],
    options: CheckOptions,
    place: Workplace,
) -> DataFrame:
    """The judgements of the workers: one of them gathers all pieces of a group."""
    from pyspark.sql.pandas.types import from_arrow_schema

    seen = distributed(spark, tasks).mapInArrow(_reader(options), from_arrow_schema(_PIECES))
    judges = min(len(groups), len(tasks))
    gathered = seen.repartition(judges, "group").sortWithinPartitions("group", "segment", "number")
    return gathered.mapInArrow(_judge(groups, options, place), from_arrow_schema(_JUDGEMENTS))


def _reader(options: CheckOptions) -> Worker:
    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for tasks in tasks_of(batches):
            pieces = _pieces(tasks, options)
            yield from record_batches(((*_place_of(piece), PIECES.pack(piece)) for piece in pieces), _PIECES)

    return read


def _judge(groups: Sequence[Group], options: CheckOptions, place: Workplace) -> Worker:
    def judged(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with place.entered():
            items = enumerate(judge(groups, _unpacked(batches), options))
            rows = ((group, number, _JUDGEMENT.pack(item)) for number, (group, item) in items)
            yield from record_batches(rows, _JUDGEMENTS)

    return judged


def _unpacked(batches: Iterable[pa.RecordBatch]) -> Iterator[ReadingPiece]:
    return (PIECES.unpack(piece.as_py()) for batch in batches for piece in batch["piece"])
