"""One way to run the work of a job: here, in a pool of processes (``tasks.pool``), or on Spark (``spark.tasks``).

A job is a ``Work`` and a list of tasks, each a list of items. An item is a value that can be pickled; those of a task
are done one after the other by one process. All runners give the same results in the order of the items, so a command
plans its items and merges their results without knowing where they are done.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import chdir, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Generic, NoReturn, Protocol, Self, TypeVar

from kdump import limits
from kdump.codes import KdumpError
from kdump.log import files
from kdump.log.metering import metered

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class Workplace:
    """What a process needs to find the files that another process planned to read.

    ``directory``: where relative paths start; None where there are none. ``given``: the PATHs of the user, with the
    credentials of URIs. ``rate``: bytes a second that the process may read; None: any number. ``limits``: those of
    ``kdump.limits`` that were set.
    """

    directory: str | None = None
    given: tuple[str, ...] = field(default=(), repr=False)
    rate: int | None = None
    limits: Mapping[str, int] = field(default_factory=limits.given)

    @classmethod
    def of(cls, given: Iterable[str], others: Iterable[str] = ()) -> Self:
        """The place for work on the PATHs ``given`` (without credentials) and on ``others``.

        Its directory is that of this process.
        """
        given = tuple(given)
        is_relative = any(files.absolute(path) != path for path in (*given, *others))
        return cls(os.getcwd() if is_relative else None, tuple(map(files.with_credentials, given)))

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Set up the process before its first task. At the end it is in its own directory again."""
        for path in self.given:
            files.strip_credentials(path)
        limits.set_limits(self.limits)
        with metered(self.rate), nullcontext() if self.directory is None else chdir(self.directory):
            yield


def _raise(item: object, count: int, error: KdumpError) -> NoReturn:
    raise error


def _no_size(item: object) -> int:
    return 0


@dataclass(frozen=True, slots=True)
class Work(Generic[ItemT, ResultT]):
    """What is done with each item.

    Attributes:
        function: gives the results of an item, as they are made. Outside of this process it must be one that can be
            pickled: a function of a module, a ``functools.partial`` of one, or an object with ``__call__``. Each
            process gets it once, so an object may keep what it needs for the next item.
        pack: a result as bytes, for its way from another process; see ``plaindata``.
        unpack: the result that was packed.
        place: what another process does before its first item.
        lost: gives what takes the place of the results that an item still owed when its process was killed, by the
            item, the number of results before, and the error. By default it raises the error.
        size: the bytes of an item, to show how far the job is.
        is_large: the results of all items together may be more than memory holds.
    """

    function: Callable[[ItemT], Iterable[ResultT]]
    pack: Callable[[ResultT], bytes]
    unpack: Callable[[bytes], ResultT]
    place: Workplace = Workplace()
    lost: Callable[[ItemT, int, KdumpError], Iterable[ResultT]] = _raise
    size: Callable[[ItemT], int] = _no_size
    is_large: bool = False


class Runner(Protocol):
    """Does work somewhere."""

    def __call__(self, tasks: Sequence[Sequence[ItemT]], work: Work[ItemT, ResultT]) -> Generator[ResultT, None, None]:
        """The results of all items, in order. Raises KdumpError where the job fails.

        Once the generator is closed, nobody works on the job any more.
        """


def in_process(tasks: Sequence[Sequence[ItemT]], work: Work[ItemT, ResultT]) -> Generator[ResultT, None, None]:
    """A ``Runner``: one item after the other in this process, each when its results are asked for."""
    for task in tasks:
        for item in task:
            yield from work.function(item)
