"""A pool of processes on this machine that do the work of a job.

A thread here feeds each process. It sends a task, takes the results as they come, and starts another process where one
was killed. Results come as plain data, as from a cluster, so that both give the same.
"""

from __future__ import annotations

import os
import pickle
import signal
import struct
import sys
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from itertools import accumulate, pairwise
from multiprocessing import get_context, parent_process, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import ForkContext, SpawnContext
from multiprocessing.process import BaseProcess
from threading import Condition, Thread, active_count
from typing import Any, Final, Generic, NamedTuple

from kdump.codes import Codes, KdumpError
from kdump.system.modules import only_own_modules
from kdump.system.pagecache import SharedPages, share
from kdump.tasks.plaindata import PlainData
from kdump.tasks.slots import SLOT_BYTES, Slots
from kdump.tasks.work import ItemT, Packed, ResultT, Work

MOST_HELD: Final = 16 << 20
"""Bytes of results for each process that are held until it is their turn, beside those in slots."""
_MOST_WAITING: Final = 1 << 30
"""Bytes of files for each process whose pages stay in the page cache until the files are done: about a segment."""
_LEAST: Final = 256
"""What a result counts at least, in bytes."""
_LEAST_FOR_SLOT: Final = 1 << 15
"""Bytes. Smaller results go through the pipe."""
_ERROR: Final = PlainData(())
_RESULT, _STORED, _OVER, _FAILED, _BROKEN, _LONG = b"r", b"s", b"o", b"f", b"b", b"l"
"""How a message of a process begins: a result, a slot with some, the end of an item, a KdumpError, another error.

After _STORED come the number of the slot (a byte) and the sizes of the results in it (_SIZE). After _LONG comes the
size (_LENGTH) of the message that the next ones are blocks of.
"""
_SIZE: Final = struct.Struct("<I")
_LENGTH: Final = struct.Struct("<Q")


class ProcessPool:
    """A ``Runner``. Its processes live as long as one job.

    Args:
        jobs: how many processes.
        rate: bytes a second that all of them together may read; None: any.
        progress: takes what is done, the bytes of it that are done, and all of them.
        most_held: see MOST_HELD.
    """

    def __init__(
        self,
        jobs: int,
        *,
        rate: int | None = None,
        progress: Callable[[str, int, int | None], None] = lambda what, done, size: None,
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
        total = sum(work.size(item) for task in tasks for item in task)
        what = f"{sum(map(len, tasks)):,} parts of logs"
        try:
            for result in job.results():
                self._progress(what, job.done, total)
                yield result
        finally:
            job.end()


class _InSlot(NamedTuple):
    """Packed results that lie one after the other in a slot, by their sizes."""

    slots: Slots
    slot: int
    sizes: Sequence[int]

    def results(self) -> Iterator[memoryview]:
        """Each of them. It must not be used once the next one is asked for."""
        for start, end in pairwise(accumulate(self.sizes, initial=0)):
            yield self.slots.part(self.slot, start, end).toreadonly()
        self.slots.release(self.slot)


class _Task(Generic[ItemT]):
    """The items of a task, and what came of them so far."""

    def __init__(self, items: Sequence[ItemT]) -> None:
        self.items = items
        self.results: deque[memoryview | _InSlot | Callable[[], Any]] = deque()
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
        self._pages = SharedPages(_MOST_WAITING * processes)
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
                if isinstance(result, memoryview):
                    self._held -= max(len(result), _LEAST)
                self._changed.notify_all()
            match result:
                case memoryview():
                    unpacked = self._work.unpack(result)
                    # It may be large, and is not held beside what it became.
                    del result
                    yield unpacked
                case _InSlot():
                    # Only who says that results are large knows that they do not stay.
                    stays = memoryview if self._work.is_large else bytes
                    yield from (self._work.unpack(stays(stored)) for stored in result.results())
                case _:
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
        self._pages.close()

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
                worker.send(pickle.dumps((tuple(left), self._shared_files(left)), pickle.HIGHEST_PROTOCOL))
                while left:
                    message = worker.receive()
                    if message[:1] == _RESULT:
                        count += 1
                        self._put(task, message[1:])
                        continue
                    if message[:1] == _STORED:
                        stored = worker.stored(message)
                        count += len(stored.sizes)
                        self._put(task, stored)
                        continue
                    if message[:1] == _FAILED:
                        raise _ERROR.unpack(message[1:])
                    if message[:1] == _BROKEN:
                        raise RuntimeError(str(message[1:], "utf-8"))
                    with self._changed:
                        self.done += self._work.size(left.popleft())
                    count = 0
            except (EOFError, ConnectionError, OSError):
                error = KdumpError(Codes.UNREADABLE, f"the process that read it {worker.death()}")
                self._put(task, partial(self._work.lost, left.popleft(), count, error))

    def _shared_files(self, items: Iterable[ItemT]) -> list[str]:
        """The files of these items that other processes may read too."""
        if (shared_file := self._work.shared_file) is None:
            return []
        paths = list(dict.fromkeys(map(shared_file, items)))
        with self._changed:
            for path in paths:
                self._pages.add(path)
        return paths

    def _put(self, task: _Task[ItemT], result: memoryview | _InSlot | Callable[[], Any]) -> None:
        """Hand a result on, once not too many are held. One that is asked for now need not wait."""
        with self._changed:
            if isinstance(result, memoryview):
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

    pyarrow has threads of its own, which nobody counts. Those of numpy's BLAS are fit for a fork.
    """
    return active_count() == 1 and "pyarrow" not in sys.modules


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
        self._slots: Slots | None = None

    def fork(self) -> None:
        """Start the process as a copy of this one, which takes no time. It shares slots with this one."""
        self._slots = Slots()
        self._start(get_context("fork"), self._slots)

    def stored(self, message: memoryview) -> _InSlot:
        """What a message says of stored results."""
        assert self._slots is not None, "the process has slots"
        return _InSlot(self._slots, message[1], [size for (size,) in _SIZE.iter_unpack(message[2:])])

    def send(self, task: bytes) -> None:
        """Send a task. Raises OSError where the process is gone."""
        if self._connection is None:
            with only_own_modules():
                # It starts first, as it lets interrupts through again.
                resource_tracker.ensure_running()
                self._start(get_context("spawn"), None)
        assert self._connection is not None, "it was started"
        self._connection.send_bytes(task)

    def _start(self, context: ForkContext | SpawnContext, slots: Slots | None) -> None:
        self._connection, other = context.Pipe()
        with other, _without_interrupts():
            process = context.Process(target=_work, args=(other, slots), daemon=True)
            process.start()
        self._process = process
        if self._is_over:
            self.end()
        self._connection.send_bytes(self._order)

    def receive(self) -> memoryview:
        """The next message, also one that comes in blocks. Raises EOFError or OSError where the process is gone."""
        assert self._connection is not None, "a task was sent"
        message = self._connection.recv_bytes()
        if message[:1] != _LONG:
            return memoryview(message)
        whole = bytearray(*_LENGTH.unpack(message[1:]))
        end = 0
        while end < len(whole):
            end += self._connection.recv_bytes_into(whole, end)
        return memoryview(whole)

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
        if self._slots is not None:
            self._slots.close()


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """What is started in here never gets the interrupt of a terminal: it is killed by the process that did get it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _work(connection: Connection, slots: Slots | None) -> None:
    """What a process does: one task after the other, until the process that sends them is gone."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    Thread(target=_end_with_parent, daemon=True).start()
    with suppress(EOFError, OSError):
        function, pack, place = pickle.loads(connection.recv_bytes())
        with place.entered():
            outbox = _Outbox(connection, slots)
            while True:
                items, shared = pickle.loads(connection.recv_bytes())
                share(shared)
                for item in items:
                    try:
                        _send_all(map(pack, function(item)), outbox)
                    except KdumpError as error:
                        end = _FAILED + _ERROR.pack(error)
                    except ConnectionError:
                        raise
                    except Exception:
                        end = _BROKEN + traceback.format_exc().encode()
                    else:
                        end = _OVER
                    outbox.send(end)


def _send_all(results: Iterable[Packed], outbox: _Outbox) -> None:
    """Send the results of an item, and hold none of them when this returns. Raises as ``_Outbox.put``."""
    for packed in results:
        outbox.put(packed)


class _Outbox:
    """Sends results from a process. Large ones are gathered in a slot where there are slots."""

    def __init__(self, connection: Connection, slots: Slots | None) -> None:
        self._connection = connection
        self._slots = slots
        self._slot = 0
        self._end = 0
        self._sizes: list[int] = []

    def put(self, packed: Packed) -> None:
        """Send a result, or keep it until the slot is full. Raises OSError where nobody takes it."""
        pieces = (packed,) if isinstance(packed, bytes) else packed
        size = sum(map(len, pieces))
        if size > SLOT_BYTES:
            self.send(_LONG + _LENGTH.pack(len(_RESULT) + size))
            for block in _blocks((_RESULT, *pieces)):
                self._connection.send_bytes(block)
            return
        if self._slots is None or size < _LEAST_FOR_SLOT:
            self.send(b"".join((_RESULT, *pieces)))
            return
        if self._end + size > SLOT_BYTES:
            self._send_slot()
        if not self._sizes:
            self._slot = self._slots.take()
        for piece in pieces:
            self._slots.part(self._slot, self._end, self._end + len(piece))[:] = piece
            self._end += len(piece)
        self._sizes.append(size)

    def send(self, message: bytes) -> None:
        """Send a message after all results that were kept. Raises as ``put``."""
        self._send_slot()
        self._connection.send_bytes(message)

    def _send_slot(self) -> None:
        if self._sizes:
            sizes = b"".join(map(_SIZE.pack, self._sizes))
            self._connection.send_bytes(_STORED + bytes((self._slot,)) + sizes)
            self._end = 0
            self._sizes = []


def _blocks(pieces: Iterable[bytes | memoryview]) -> Iterator[bytes]:
    """Pieces as a few messages. A large result is never a second time in memory as a whole."""
    block: list[bytes | memoryview] = []
    size = 0
    for piece in pieces:
        if size + len(piece) > SLOT_BYTES:
            yield b"".join(block)
            block, size = [], 0
        block.append(piece)
        size += len(piece)
    yield b"".join(block)


def _end_with_parent() -> None:
    """Nobody wants what is made after the process that asked for it is gone, however it ended."""
    parent = parent_process()
    if parent is not None:
        parent.join()
    os._exit(1)
