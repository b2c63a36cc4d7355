"""``stats`` on Spark: stretches of logs are folded in parallel, and put together here in file order."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from kdump.spark.sessions import translated_errors
from kdump.spark.tasks import Worker, collected, tasks_of
from kdump.stats.run import StatsOptions, StatsRun, fold_split, unpacked_fold
from kdump.tasks.splits import SPLIT_BYTES, LogFile, Split, find_logs, plan
from kdump.verify.readings import groups_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FOLDS: Final = pa.schema([("log", pa.binary()), ("place", pa.int64()), ("fold", pa.binary())])


def take_folds(
    spark: SparkSession,
    paths: Sequence[str],
    options: StatsOptions,
    run: StatsRun,
    *,
    split_bytes: int = SPLIT_BYTES,
) -> None:
    """Let Spark fold the logs of ``paths``, and give the folds to ``run``.

    Raises:
        KdumpError: the job fails.
    """
    logs = _logs_of(paths)
    found: dict[str, list[tuple[int, bytes]]] = {}
    tasks = plan(logs, split_bytes=split_bytes)
    if tasks:
        with translated_errors("Spark"):
            table = collected(spark, tasks, _folder(options), _FOLDS)
        for log, place, fold in zip(*(column.to_pylist() for column in table.columns), strict=True):
            found.setdefault(os.fsdecode(log), []).append((place, fold))
    for log in logs:
        # An empty one was in no task.
        own = sorted(found.get(log.path, ())) or [(0, fold_split(Split(log, 0, log.size), options))]
        run.take(log.path, [unpacked_fold(fold) for _, fold in own])


def _logs_of(paths: Sequence[str]) -> list[LogFile]:
    """The logs in the order in which ``StatsRun.judge`` would be asked for them; what is wrong is said there."""
    segments = dict.fromkeys(segment for path in paths for group in groups_of(path) for segment in group.segments)
    return find_logs(segments, lambda error: None)


def _folder(options: StatsOptions) -> Worker:
    def fold(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for splits in tasks_of(batches):
            for split in splits:
                row = {
                    "log": [os.fsencode(split.log.path)],
                    "place": [split.first],
                    "fold": [fold_split(split, options)],
                }
                yield pa.RecordBatch.from_pydict(row, schema=_FOLDS)

    return fold
