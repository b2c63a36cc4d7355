"""``verify`` on Spark: looks at stretches of logs in parallel, then a judge for each partition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from kdump.codes import Codes, Finding, Severity
from kdump.kafka.failures import FailureKind
from kdump.kafka.producers import ProducerState, ProducerStates
from kdump.kafka.recover import Cut, CutReason, Recovery, RecoveryFailure, RecoveryOutcome
from kdump.log import files
from kdump.log.source import STDIN
from kdump.spark.sessions import translated_errors
from kdump.spark.tasks import Worker, collected, distributed, tasks_of
from kdump.tasks.plaindata import PlainData
from kdump.tasks.splits import SPLIT_BYTES
from kdump.verify.logdir import PartitionExtent
from kdump.verify.partition import Judgement, PartitionCheck
from kdump.verify.readings import (
    Group,
    ReadingPiece,
    ReadingTask,
    groups_of,
    judge,
    plan_readings,
    read_piece,
)
from kdump.verify.run import Judge
from kdump.verify.segment import CheckOptions
from kdump.verify.summary import SegmentSummary

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PIECES: Final = pa.schema(
    [
        ("group", pa.int32()),
        ("segment", pa.int32()),
        ("place", pa.int64()),
        ("number", pa.int32()),
        ("seen", pa.binary()),
    ]
)
_JUDGEMENTS: Final = pa.schema([("group", pa.int32()), ("number", pa.int64()), ("item", pa.binary())])
_JUDGEMENT: Final = PlainData(
    (
        Codes,
        Cut,
        CutReason,
        RecoveryFailure,
        FailureKind,
        Finding,
        RecoveryOutcome,
        PartitionExtent,
        ProducerState,
        ProducerStates,
        Recovery,
        SegmentSummary,
        Severity,
    )
)
_ROWS_AT_A_TIME: Final = 64
_FEW_TASKS: Final = 64
"""What so many see is judged by the driver, which saves the shuffle and a stage."""
_MOST_SEEN: Final = 4 << 20
"""Bytes from one of few tasks: 50,000 batches. Of partitions that come to more the driver does not want to know."""
_TOO_MUCH: Final = -1
"""In the place of a piece's number: its task saw more than that."""


def judgements(
    spark: SparkSession,
    groups: Sequence[Group],
    options: CheckOptions,
    *,
    split_bytes: int = SPLIT_BYTES,
    stores: Sequence[str] = (),
) -> Iterator[tuple[int, Judgement]]:
    """What is to be said of groups of segments: (group, item), the items of a group together and in order.

    Args:
        spark: the session.
        groups: their paths must mean the same here and on every worker.
        options: how deep.
        split_bytes: of a task.
        stores: paths that a worker enters first, with their credentials.

    Raises:
        KdumpError: a job fails.
    """
    tasks = plan_readings(groups, split_bytes=split_bytes)
    if 0 < len(tasks) <= _FEW_TASKS:
        with translated_errors("Spark"):
            pieces = list(_pieces(collected(spark, tasks, _looker(options, _MOST_SEEN), _PIECES).to_batches()))
        left = {piece.group for piece in pieces if piece.number == _TOO_MUCH}
        known = sorted((piece for piece in pieces if piece.group not in left), key=lambda piece: piece[:-1])
        for group, _, item in judge(groups, known, options):
            yield group, item
        tasks = [own for task in tasks if (own := [look for look in task if look.group in left])]
    if not tasks:
        return
    with translated_errors("Spark"):
        rows = _judged_there(spark, groups, tasks, options, stores).toArrow()
    rows = rows.sort_by([("group", "ascending"), ("number", "ascending")])
    for group, packed in zip(rows["group"].to_pylist(), rows["item"].to_pylist(), strict=True):
        yield group, _JUDGEMENT.unpack(packed)


def _judged_there(
    spark: SparkSession,
    groups: Sequence[Group],
    tasks: Sequence[Sequence[ReadingTask]],
    options: CheckOptions,
    stores: Sequence[str],
) -> DataFrame:
    """The same by the workers: a group's pieces are gathered by one of them."""
    from pyspark.sql.pandas.types import from_arrow_schema

    seen = distributed(spark, tasks).mapInArrow(_looker(options), from_arrow_schema(_PIECES))
    judges = min(len(groups), len(tasks))
    gathered = seen.repartition(judges, "group").sortWithinPartitions("group", "segment", "place", "number")
    return gathered.mapInArrow(_judge(groups, options, stores), from_arrow_schema(_JUDGEMENTS))


class SparkJudge:
    """Stands for ``PartitionCheck`` in a ``Verification``: the partitions of all paths are judged before, on Spark.

    Args:
        spark: the session.
        paths: as they will be given to ``Verification.path``.
        options: how deep.
        here: checks what the job did not find (an empty segment, a new one, a stream) in this process.

    Raises:
        KdumpError: the job fails.
    """

    def __init__(
        self,
        spark: SparkSession,
        paths: Sequence[str],
        options: CheckOptions,
        *,
        here: Judge | None = None,
        split_bytes: int = SPLIT_BYTES,
    ) -> None:
        self._here = here or PartitionCheck(options).segments
        # A path that is given twice is judged once.
        found = list(dict.fromkeys(group for path in paths for group in groups_of(path)))
        self._judged: dict[str | tuple[str, ...], list[Judgement]] = {}
        # A worker has another working directory.
        groups = [group.absolute() for group in found]
        stores = [files.with_credentials(path) for path in paths if path != STDIN]
        for number, item in judgements(spark, groups, options, split_bytes=split_bytes, stores=stores):
            self._judged.setdefault(_name(found[number]), []).append(found[number].as_given(item))

    def segments(self, segments: Sequence[str], folder: str | None) -> Iterator[Judgement]:
        """See PartitionCheck."""
        known = self._judged.get(_name(Group(tuple(segments), folder)))
        return self._here(segments, folder) if known is None else iter(known)


def _name(group: Group) -> str | tuple[str, ...]:
    """A whole partition is the same one when a broker has made or deleted segments since."""
    return group.segments if group.folder is None else group.folder


def _looker(options: CheckOptions, most: int | None = None) -> Worker:
    """``most``: bytes that a task may see."""

    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for tasks in tasks_of(batches):
            yield from _batches(_seen(tasks, options, most), _PIECES)

    return look


def _seen(tasks: Sequence[ReadingTask], options: CheckOptions, most: int | None) -> Iterator[ReadingPiece]:
    seen = 0
    for task in tasks:
        for piece in read_piece(task, options):
            seen += len(piece.seen)
            if most is not None and seen > most:
                # Their groups are looked at again, by those who send it elsewhere.
                yield from (ReadingPiece(each.group, each.segment, 0, _TOO_MUCH, b"") for each in tasks)
                return
            yield piece


def _judge(groups: Sequence[Group], options: CheckOptions, stores: Sequence[str]) -> Worker:
    def judged(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for store in stores:
            files.strip_credentials(store)
        rows = (
            (group, number, _JUDGEMENT.pack(item)) for group, number, item in judge(groups, _pieces(batches), options)
        )
        yield from _batches(rows, _JUDGEMENTS)

    return judged


def _pieces(batches: Iterable[pa.RecordBatch]) -> Iterator[ReadingPiece]:
    return (ReadingPiece(*row) for batch in batches for row in zip(*batch.to_pydict().values(), strict=True))


def _batches(rows: Iterable[Sequence[object]], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    held: list[Sequence[object]] = []
    for row in rows:
        held.append(row)
        if len(held) == _ROWS_AT_A_TIME:
            yield _batch(held, schema)
            held = []
    if held:
        yield _batch(held, schema)


def _batch(rows: Sequence[Sequence[object]], schema: pa.Schema) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    return pa.RecordBatch.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema=schema
    )
