"""Where a command works: in this process, in several, or on Spark.

Source: docs/contract.md#10-engines.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from kdump.cli.console import Console
from kdump.cli.options.shared import EngineArguments, JobsArguments
from kdump.codes import Codes, KdumpError
from kdump.inputs import Input, log_paths
from kdump.log import files
from kdump.log.lock import is_held
from kdump.log.names import is_uri
from kdump.system.units import counted

if TYPE_CHECKING:
    from kdump.spark.sessions import Session
    from kdump.tasks.pool import ProcessPool
    from kdump.tasks.work import Runner

LEAST_FOR_POOL: Final = 64 << 20
"""Bytes of logs. To read fewer, a second process is not worth its start."""
_LARGEST_LOG: Final = 1 << 31
"""Bytes of a log that a broker writes (segment.bytes is an int32)."""
LEAST_FOR_SPARK: Final = 32 << 30
"""Bytes of logs from which on the start of a Spark session takes less than 3 % of the job.

See "Which engine" in kdump-spark(7) for how it was measured.
"""
_TASKS_A_PROCESS: Final = 4


class Engine:
    """Where a command works: on Spark, in several processes, or where there is neither in this one.

    Args:
        spark: the session.
        pool: the processes.
        jobs: how many work at the same time in the pool.
    """

    def __init__(self, spark: Session | None = None, pool: ProcessPool | None = None, jobs: int = 1) -> None:
        self.spark = spark
        self.pool = pool
        self.jobs = jobs

    @property
    def min_tasks(self) -> int:
        """Small logs make so many tasks of a pool at least, so that all processes end at about the same time."""
        return _TASKS_A_PROCESS * self.jobs

    @property
    def run(self) -> Runner:
        """Does the work, on Spark or in processes."""
        if self.spark is not None:
            from kdump.spark.tasks import on_spark

            return partial(on_spark, self.spark)
        from kdump.tasks.work import in_process

        return self.pool or in_process


def choose_engine(
    given: EngineArguments,
    inputs: Sequence[Input],
    console: Console,
    *,
    only_here: str | None = None,
) -> Engine:
    """Where the command works. With ``-v`` the choice and its reason are told, and that of Spark always.

    Args:
        given: the command's options.
        inputs: what it is to work on.
        console: takes the choice, and shows how far a pool is.
        only_here: what is asked for that only one process can do.

    Raises:
        KdumpError: Spark was asked for and is not installed, or does not start.
    """
    is_spark, jobs, reason = _choice(given, inputs, only_here)
    if not is_spark:
        if given.verbose:
            console.note(f"engine: local, {counted(jobs, 'process', 'processes')} ({reason})")
        if jobs == 1:
            return Engine()
        from kdump.tasks.pool import ProcessPool

        pool = ProcessPool(jobs, rate=given.rate, progress=console.progress.show)
        return Engine(pool=pool, jobs=jobs)
    from kdump.spark.sessions import session, where, why_not

    missing = why_not(given.master)
    if missing is not None:
        raise KdumpError(Codes.UNREADABLE, missing)
    console.note(f"engine: spark, {where(given.master)} ({reason})")
    console.show_log(verbose=given.verbose)
    return Engine(session(given.master, dict(given.conf)))


def _choice(given: EngineArguments, inputs: Sequence[Input], only_here: str | None) -> tuple[bool, int, str]:
    """Whether to take Spark, else in how many processes to work, and why.

    Source: docs/contract.md#10-engines.
    """
    if only_here is not None:
        return False, 1, f"{only_here} is for one process"
    if given.engine == "spark" or given.master:
        return True, 1, "--engine spark" if given.engine == "spark" else "--master"
    prints = not isinstance(given, JobsArguments)
    jobs = given.jobs if isinstance(given, JobsArguments) else None
    if jobs == 1:
        return False, 1, "-j 1"
    may_be_spark = given.engine == "auto" and jobs is None and given.rate is None and not given.idle
    if prints and not may_be_spark:
        return False, 1, "it prints from one process"
    size, _ = log_totals(inputs, LEAST_FOR_SPARK if may_be_spark else LEAST_FOR_POOL)
    least = LEAST_FOR_SPARK if prints else LEAST_FOR_POOL
    if size < least:
        return False, 1, f"less than {_shown(least)} of logs"
    if jobs is not None:
        return False, jobs, f"-j {jobs}"
    if _held_directories(found.path for found in inputs):
        # The broker's requests need the other cores, and the disk.
        return False, 1, "a broker runs here"
    from kdump.system.processes import usable_cores

    cores = 1 if prints else usable_cores()
    if not may_be_spark or size < LEAST_FOR_SPARK:
        return False, cores, f"{_shown(LEAST_FOR_POOL)} of logs or more"
    from kdump.spark.sessions import why_not

    reason, missing = f"{_shown(LEAST_FOR_SPARK)} of logs or more", why_not()
    return missing is None, cores, reason if missing is None else f"{reason}. {missing}"


def log_totals(inputs: Iterable[Input], enough: int = sys.maxsize) -> tuple[int, int]:
    """The bytes on disk of the logs that inputs mean, and how many there are.

    Nothing more is looked at once the bytes are ``enough``.

    A store may say any size: of a log no more counts than a broker writes.
    """
    total = count = 0
    for log in log_paths(inputs):
        count += 1
        # What is wrong with it is said when its turn comes.
        with suppress(KdumpError):
            size = files.allocated(log)
            total += min(size, _LARGEST_LOG) if is_uri(log) else size
        if total >= enough:
            break
    return total, count


def _shown(size: int) -> str:
    return f"{size >> 30} GiB" if size >> 30 else f"{size >> 20} MiB"


def tell_brokers(paths: Iterable[str], console: Console) -> None:
    """Say on standard error which log directories a broker holds."""
    for directory in _held_directories(paths):
        console.note(f"{directory}: a broker holds the lock: the files may change while they are read")


def _held_directories(paths: Iterable[str]) -> list[str]:
    """The log directories that ``paths`` are, or are in, and that a broker holds."""
    places: dict[str, None] = {}
    for path in map(files.absolute, paths):
        places |= dict.fromkeys((path, os.path.dirname(path), os.path.dirname(os.path.dirname(path))))
    return list(filter(is_held, places))
