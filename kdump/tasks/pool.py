"""A pool of processes on this machine that do the work of a job.

A thread here feeds each process. It sends a task, takes the results as they come, and starts another process where one
was killed. Results come as plain data, as from a cluster, so that both give the same.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from multiprocessing import get_context, parent_process, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import ForkContext, SpawnContext
from multiprocessing.process import BaseProcess
from threading import Condition, Thread
from typing import Any, Final, Generic

from kdump.codes import Codes, KdumpError
from kdump.system.modules import only_own_modules
from kdump.tasks.plaindata import PlainData
from kdump.tasks.work import ItemT, ResultT, Work

MOST_HELD: Final = 16 << 20
"""Bytes of results for each process that are held until it is their turn."""
_LEAST: Final = 256
"""What a result counts at least, in bytes."""
_ERROR: Final = PlainData(())
_RESULT, _OVER, _FAILED, _BROKEN = b"r", b"o", b"f", b"b"
"""How a message of a process begins: a result, the end of an item, a KdumpError, another error."""


class ProcessPool:
    """A ``Runner``. Its processes live as long as one job.

    Args:
        jobs: how many processes.
        rate: bytes a second that all of them together may read; None: any.
        progress: takes what is done, and the bytes of it that are done.
        most_held: see MOST_HELD.
    """

    def __init__(
        self,
        jobs: int,
        *,
        rate: int | None = None,
        progress: Callable[[str, int], None] = lambda what, done: None,
        most_held: int = MOST_HELD,
    ) -> None:
        self._jobs = jobs
        self._rate = None if rate is None else max(1, rate // jobs)
        self._progress = progress
        self._most_held = most_held * jobs

    def __call__(self, tasks: Sequence[Sequence[ItemT]], work: Work[ItemT, ResultT]) -> Generator[ResultT, None, None]:
        """See Runner. Raises KdumpError where the function does, and what ``Work.lost`` raises."""
        if self._rate is not None:
            work = replace(work, place=replace(work.place, rate=self._rate))
        job = _Job(tasks, work, min(self._jobs, len(tasks)), self._most_held)
        what = f"{sum(map(len, tasks)):,} logs"
        try:
            for result in job.results():
                self._progress(what, job.done)
                yield result
            # The last item may have been done only after its last result.
            self._progress(what, job.done)
        finally:
            job.end()


class _Task(Generic[ItemT]):
    """The items of a task, and what came of them so far."""

    def __init__(self, items: Sequence[ItemT]) -> None:
        self.items = items
        self.results: deque[bytes | Callable[[], Any]] = deque()
        """Packed ones, and functions that give what stands for them."""
        self.is_over = False


class _Job(Generic[ItemT, ResultT]):
    """One run of a pool: the tasks that wait, those that are done, and the threads that feed the processes.

    ``done``: the bytes of the items that are done.
    """

    def __init__(
        self, tasks: Sequence[Sequence[ItemT]], work: Work[ItemT, ResultT], processes: int, most_held: int
    ) -> None:
        self.done = 0
        self._work = work
        self._most_held = most_held
        self._held = 0
        self._tasks = deque(map(_Task, tasks))
        self._waiting = deque(self._tasks)
        self._changed = Condition()
        self._is_ended = False
        order = pickle.dumps((work.function, work.pack, work.place), pickle.HIGHEST_PROTOCOL) if tasks else b""
        self._workers = [_Worker(order) for _ in range(processes)]
        if _may_fork():
            for worker in self._workers:
                worker.fork()
        self._threads = [Thread(target=self._feed, args=(worker,), daemon=True) for worker in self._workers]
        for thread in self._threads:
            thread.start()

    def results(self) -> Iterator[ResultT]:
        """Of all items in order, as they come."""
        while self._tasks:
            with self._changed:
                task = self._tasks[0]
                while not task.results and not task.is_over:
                    self._changed.wait()
                if not task.results:
                    self._tasks.popleft()
                    self._changed.notify_all()
                    continue
                result = task.results.popleft()
                if isinstance(result, bytes):
                    self._held -= max(len(result), _LEAST)
                self._changed.notify_all()
            if isinstance(result, bytes):
                unpacked = self._work.unpack(result)
                # It may be large, and is not held beside what it became.
                del result
                yield unpacked
            else:
                yield from result()

    def end(self) -> None:
        """Kill the processes."""
        with self._changed:
            self._is_ended = True
            self._changed.notify_all()
        for worker in self._workers:
            worker.end()
        # The threads see that their processes are gone, and end too.
        for thread in self._threads:
            thread.join()
        for worker in self._workers:
            worker.close()

    def _feed(self, worker: _Worker) -> None:
        """Give one task after the other to a process. This is what a thread does."""
        while not self._is_ended:
            with self._changed:
                if not self._waiting:
                    break
                task = self._waiting.popleft()
            try:
                self._run(task, worker)
            except Exception as error:
                # The job fails there; what this process has sent of other items is not read any more.
                self._put(task, partial(_raise, error))
                break
            finally:
                with self._changed:
                    task.is_over = True
                    self._changed.notify_all()
        worker.end()

    def _run(self, task: _Task[ItemT], worker: _Worker) -> None:
        """Have a process do the items of a task; where it is killed, another one does those after that item."""
        left = deque(task.items)
        while left and not self._is_ended:
            count = 0
            try:
                worker.send(pickle.dumps(tuple(left), pickle.HIGHEST_PROTOCOL))
                while left:
                    kind, packed = worker.receive()
                    if kind == _RESULT:
                        count += 1
                        self._put(task, packed)
                        continue
                    if kind == _FAILED:
                        raise _ERROR.unpack(packed)
                    if kind == _BROKEN:
                        raise RuntimeError(packed.decode())
                    with self._changed:
                        self.done += self._work.size(left.popleft())
                    count = 0
            except (EOFError, ConnectionError, OSError):
                error = KdumpError(Codes.UNREADABLE, f"the process that read it {worker.death()}")
                self._put(task, partial(self._work.lost, left.popleft(), count, error))

    def _put(self, task: _Task[ItemT], result: bytes | Callable[[], Any]) -> None:
        """Hand a result on, once not too many are held. One that is asked for now need not wait."""
        with self._changed:
            if isinstance(result, bytes):
                while self._held >= self._most_held and not self._is_ended:
                    if task is self._tasks[0] and not task.results:
                        break
                    self._changed.wait()
                self._held += max(len(result), _LEAST)
            task.results.append(result)
            self._changed.notify_all()


def _raise(error: Exception) -> Iterator[Any]:
    raise error


def _may_fork() -> bool:
    """Nothing but this thread runs here. A fork copies the locks that other threads hold, and none of the threads.

    Linux tells the threads of libraries too, such as those of numpy's BLAS (``__main__`` wants none). pyarrow starts
    its threads when it wants to. On other systems a library may have any.
    """
    try:
        threads = len(os.listdir("/proc/self/task"))
    except OSError:
        return False
    return threads == 1 and "pyarrow" not in sys.modules


class _Worker:
    """A process that is started when a task is sent to it, and again for the next one when it was killed.

    Args:
        order: what a process does with each item.
    """

    def __init__(self, order: bytes) -> None:
        self._order = order
        self._process: BaseProcess | None = None
        self._connection: Connection | None = None
        self._is_over = False

    def fork(self) -> None:
        """Start the process as a copy of this one, which takes no time."""
        self._start(get_context("fork"))

    def send(self, task: bytes) -> None:
        """Send a task. Raises OSError where the process is gone."""
        if self._connection is None:
            with only_own_modules():
                # It starts first, as it lets interrupts through again.
                resource_tracker.ensure_running()
                self._start(get_context("spawn"))
        assert self._connection is not None, "it was started"
        self._connection.send_bytes(task)

    def _start(self, context: ForkContext | SpawnContext) -> None:
        self._connection, other = context.Pipe()
        with other, _without_interrupts():
            process = context.Process(target=_work, args=(other,), daemon=True)
            process.start()
        self._process = process
        if self._is_over:
            self.end()
        self._connection.send_bytes(self._order)

    def receive(self) -> tuple[bytes, bytes]:
        """The next message: how it begins, and the rest. Raises EOFError or OSError where the process is gone."""
        assert self._connection is not None, "a task was sent"
        return self._connection.recv_bytes(), self._connection.recv_bytes()

    def death(self) -> str:
        """How the process ended. The next task gets a new one."""
        process, connection = self._process, self._connection
        self._process = self._connection = None
        if connection is not None:
            connection.close()
        if process is None:
            return "did not start"
        process.join()
        code = process.exitcode or 0
        if code >= 0:
            return f"ended with status {code}"
        return f"was killed by signal {-code}" + (", as where memory runs out" if -code == signal.SIGKILL else "")

    def end(self) -> None:
        """Kill the process, and start no other."""
        self._is_over = True
        if (process := self._process) is not None:
            process.kill()

    def close(self) -> None:
        """Give back what the process was talked to with."""
        if self._connection is not None:
            self._connection.close()


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """What is started in here never gets the interrupt of a terminal: it is killed by the process that did get it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _work(connection: Connection) -> None:
    """What a process does: one task after the other, until the process that sends them is gone."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    Thread(target=_end_with_parent, daemon=True).start()

    def send(kind: bytes, packed: bytes = b"") -> None:
        connection.send_bytes(kind)
        connection.send_bytes(packed)

    def do(item: Any) -> None:
        for result in function(item):
            send(_RESULT, pack(result))

    with suppress(EOFError, OSError):
        function, pack, place = pickle.loads(connection.recv_bytes())
        with place.entered():
            while True:
                for item in pickle.loads(connection.recv_bytes()):
                    try:
                        do(item)
                    except KdumpError as error:
                        send(_FAILED, _ERROR.pack(error))
                    except ConnectionError:
                        raise
                    except Exception:
                        send(_BROKEN, traceback.format_exc().encode())
                    else:
                        send(_OVER)


def _end_with_parent() -> None:
    """Nobody wants what is made after the process that asked for it is gone, however it ended."""
    parent = parent_process()
    if parent is not None:
        parent.join()
    os._exit(1)
