"""One way to run the tasks of a job: here, in a pool of processes (``tasks.pool``), or on Spark (``spark.tasks``).

A job is a ``Work`` and a list of tasks. A task is a value that can be pickled. All runners give the same results in the
same order, so a command plans its tasks without knowing where they run.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import chdir, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Generic, NoReturn, Protocol, Self, TypeVar

from kdump.codes import KdumpError
from kdump.log import files
from kdump.log.metering import metered

TaskT = TypeVar("TaskT")
ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class Workplace:
    """What a process needs to find the files that another process planned to read.

    ``directory``: where relative paths start; None where there are none. ``given``: the PATHs of the user, with the
    credentials of URIs. ``rate``: bytes a second that the process may read; None: any number.
    """

    directory: str | None = None
    given: tuple[str, ...] = field(default=(), repr=False)
    rate: int | None = None

    @classmethod
    def of(cls, given: Iterable[str], others: Iterable[str] = (), *, rate: int | None = None) -> Self:
        """The place for work on the PATHs ``given`` (without credentials) and on ``others``.

        Its directory is that of this process.
        """
        given = tuple(given)
        is_relative = any(files.absolute(path) != path for path in (*given, *others))
        return cls(os.getcwd() if is_relative else None, tuple(map(files.with_credentials, given)), rate)

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Set up the process before its first task. At the end it is in its own directory again."""
        for path in self.given:
            files.strip_credentials(path)
        with metered(self.rate), nullcontext() if self.directory is None else chdir(self.directory):
            yield


def _raise(task: object, results: Sequence[object], error: KdumpError) -> NoReturn:
    raise error


@dataclass(frozen=True, slots=True)
class Work(Generic[TaskT, ResultT]):
    """What is done with each task.

    Attributes:
        function: gives the results of a task, as they are made. For other processes it must be a function of a
            module, or a ``functools.partial`` of one.
        pack: a result as bytes, for its way from another process; see ``plaindata``.
        unpack: the result that was packed.
        place: what another process sets up before its first task.
        lost: called when a process was killed, with the task, its results so far, and the error. It gives what takes
            the place of the missing results. By default it raises the error.
        is_large: the results of all tasks together may need more than memory.
    """

    function: Callable[[TaskT], Iterable[ResultT]]
    pack: Callable[[ResultT], bytes]
    unpack: Callable[[bytes], ResultT]
    place: Workplace = Workplace()
    lost: Callable[[TaskT, Sequence[ResultT], KdumpError], Iterable[ResultT]] = _raise
    is_large: bool = False


class Runner(Protocol):
    """Runs tasks somewhere."""

    def __call__(self, tasks: Sequence[TaskT], work: Work[TaskT, ResultT]) -> Iterator[ResultT]:
        """The results of all tasks, in the order of the tasks. Raises KdumpError where the job fails."""


def in_process(tasks: Sequence[TaskT], work: Work[TaskT, ResultT]) -> Iterator[ResultT]:
    """A ``Runner`` that runs one task after the other in this process, when its results are needed."""
    for task in tasks:
        yield from work.function(task)
