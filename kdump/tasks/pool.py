"""A pool of processes on this machine that run tasks.

A thread here feeds each process. It sends a task, takes the results as they come, and starts another process where one
was killed. Results come as plain data, as from a cluster, so that both give the same.
"""

from __future__ import annotations

import pickle
import signal
import traceback
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import islice
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext, ForkServerProcess
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Final, Self, TypeAlias

from kdump.codes import Codes, KdumpError
from kdump.tasks.plaindata import PlainData
from kdump.tasks.work import ResultT, TaskT, Work

_AHEAD: Final = 2
"""Tasks for each process that begin before their results are needed. It bounds the results in memory."""
_ERROR: Final = PlainData(())
_RESULT, _OVER, _FAILED, _BROKEN = b"r", b"o", b"f", b"b"
"""How a message of a worker begins: a result, the end of the task, a KdumpError, an error that nobody foresaw."""

_Results: TypeAlias = "tuple[list[bytes], KdumpError | None]"
"""The packed results of a task, and the error where its process was killed before the end."""


class ProcessPool:
    """Some processes. They are started when there is work, and killed at the end of ``with``.

    Args:
        jobs: how many processes.
        preload: the module of the functions to run. It is imported once, not once for each process.
    """

    def __init__(self, jobs: int, preload: str) -> None:
        # A plain fork would copy the locks of this process' threads, but not the threads.
        context = get_context("forkserver")
        context.set_forkserver_preload([preload])
        self._workers = [_Worker(context) for _ in range(jobs)]
        self._idle: SimpleQueue[_Worker] = SimpleQueue()
        for worker in self._workers:
            self._idle.put(worker)
        self._threads = ThreadPoolExecutor(jobs)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        for worker in self._workers:
            worker.end()
        # The threads see that their processes are gone, and end too.
        self._threads.shutdown()

    def run(self, tasks: Sequence[TaskT], work: Work[TaskT, ResultT]) -> Iterator[ResultT]:
        """A ``Runner``. Raises KdumpError where a task does, and what ``Work.lost`` raises."""
        left = iter(tasks)
        begun: deque[tuple[TaskT, Future[_Results]]] = deque()
        while True:
            for task in islice(left, _AHEAD * len(self._workers) - len(begun)):
                begun.append((task, self._threads.submit(self._run_one, work, task)))
            if not begun:
                return
            task, future = begun.popleft()
            packed, error = future.result()
            results = list(map(work.unpack, packed))
            yield from results
            if error is not None:
                yield from work.lost(task, results, error)

    def _run_one(self, work: Work[Any, Any], task: object) -> _Results:
        """Run a task in a free process. This is called in a thread."""
        worker = self._idle.get()
        results: list[bytes] = []
        try:
            worker.send(pickle.dumps((work.function, work.pack, work.place, task), pickle.HIGHEST_PROTOCOL))
            while (message := worker.receive())[:1] == _RESULT:
                results.append(message[1:])
        except (EOFError, OSError):
            return results, KdumpError(Codes.UNREADABLE, f"the process that read it {worker.death()}")
        finally:
            self._idle.put(worker)
        if message[:1] == _FAILED:
            raise _ERROR.unpack(message[1:])
        if message[:1] == _BROKEN:
            raise RuntimeError(message[1:].decode())
        return results, None


class _Worker:
    """A process. It is started when a task is sent to it, and again for the next task when it was killed."""

    def __init__(self, context: ForkServerContext) -> None:
        self._context = context
        self._process: ForkServerProcess | None = None
        self._connection: Connection | None = None
        self._is_over = False

    def send(self, order: bytes) -> None:
        """Send a task. Raises OSError where the process is gone."""
        if self._connection is None:
            self._connection, other = self._context.Pipe()
            with other, _without_interrupts():
                process = self._context.Process(target=_work, args=(other,), daemon=True)
                process.start()
            self._process = process
        if self._is_over:
            self.end()
        self._connection.send_bytes(order)

    def receive(self) -> bytes:
        """The next message. Raises EOFError or OSError where the process is gone."""
        assert self._connection is not None, "a task was sent"
        return self._connection.recv_bytes()

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


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Processes that are started in this context do not get the interrupt of a terminal.

    The process that gets it kills them.
    """
    # It is started first, because it lets interrupts through again.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _work(connection: Connection) -> None:
    """The loop of a process: it runs one task after the other until the sending process is gone."""
    with suppress(EOFError, OSError):
        while True:
            function, pack, place, task = pickle.loads(connection.recv_bytes())
            try:
                with place.entered():
                    for result in function(task):
                        connection.send_bytes(_RESULT + pack(result))
            except KdumpError as error:
                end = _FAILED + _ERROR.pack(error)
            except ConnectionError:
                raise
            except Exception:
                end = _BROKEN + traceback.format_exc().encode()
            else:
                end = _OVER
            connection.send_bytes(end)
