"""The page cache of this machine: reading a file leaves the cache as it was.

A broker serves its consumers from the page cache. A log that kdump reads once would push their pages out. So the pages
that only kdump's reading brought in are given back, and pages that were there before stay (posix_fadvise(2),
mincore(2), cachestat(2)).
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, ClassVar, Final

if TYPE_CHECKING:
    import ctypes

_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_GATHERED: Final = 8 << 20
"""Bytes that are read before their pages are given back: a call for each read would cost too much."""
_READ_AHEAD: Final = 8 << 20
"""The system reads at most about so much after the bytes that it was asked for."""
_PAUSES: Final = tuple(0.001 * 2**step for step in range(7))
"""Seconds to wait for what the system is still reading ahead: 0.127 in all."""
_SMALL: Final = 4 << 20
"""Bytes of the first files of a process that stay: a command on small files must not load ctypes."""
_FEW_PAGES: Final = 1 << 20
"""Pages of a file that are asked for whatever its blocks: 4 GiB, more than a log that a broker preallocates."""
_MOST_PAGES: Final = 128
"""Pages that are asked for, for each page that the file system stores. A sparse file can have 2**51 of them."""
_MAP_SHARED: Final = 1
_CACHESTAT: Final = 451 if os.uname().sysname == "Linux" else None
"""The number of the system call, since Linux 6.5; None: there is none."""
_LOWEST_BIT: Final = bytes(number & 1 for number in range(256))


class _Process:
    """What this process did: bytes of the files that it opened, and whether it said that pages stay.

    ``shared``: paths of files whose pages another process gives back.
    """

    opened = 0
    is_told = False
    shared: ClassVar[frozenset[str]] = frozenset()


def stored_bytes(status: os.stat_result) -> int:
    """Bytes that the file system stores for a file: fewer than its size if it is sparse."""
    return status.st_blocks * 512


def share(paths: Iterable[str]) -> None:
    """Leave the pages of these files to another process: see ``SharedPages``."""
    _Process.shared = frozenset(paths)


class SharedPages:
    """The pages that several processes of a job bring in. None of them knows which ones the others brought in.

    Args:
        most: bytes of files whose pages may wait until they are given back.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._waiting: dict[str, bytes] = {}
        """What was resident of a file before the job, in the order of its tasks."""

    def add(self, path: str) -> None:
        """A process is to read a part of this file."""
        if path in self._waiting:
            return
        with _opened(path) as opened:
            self._waiting[path] = b"" if opened is None else _resident(*opened, path) or b""
        while len(self._waiting) > 1 and sum(map(len, self._waiting.values())) * _PAGE > self._most:
            self._give_back(next(iter(self._waiting)))

    def close(self) -> None:
        """No process reads any more."""
        for path in list(self._waiting):
            self._give_back(path)

    def _give_back(self, path: str) -> None:
        resident = self._waiting.pop(path)
        if resident:
            with _opened(path) as opened:
                if opened is not None:
                    _give_back_at_the_end(opened[0], resident, 0, len(resident) * _PAGE)


@contextmanager
def _opened(path: str) -> Iterator[tuple[int, os.stat_result] | None]:
    """A descriptor and the status of a regular file; None for all else, which whoever reads it judges."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except (OSError, ValueError):
        yield None
        return
    try:
        status = os.fstat(descriptor)
        yield (descriptor, status) if stat.S_ISREG(status.st_mode) else None
    finally:
        os.close(descriptor)


def brought_pages(descriptor: int, status: os.stat_result, path: str) -> BroughtPages | None:
    """What gives back the pages that reading a file brings in; None where all stay. Ask before the first read.

    Args:
        descriptor: of a regular file; whoever opened it closes it, after ``BroughtPages.close``.
        status: of the file.
        path: for what is said.
    """
    resident = None if path in _Process.shared else _resident(descriptor, status, path)
    return None if resident is None else BroughtPages(descriptor, resident)


class BroughtPages:
    """The pages that reading one file brings into the page cache.

    Args:
        descriptor: of the file.
        resident: a byte for each page, 1 where it was there before.
    """

    __slots__ = ("_descriptor", "_end", "_given_back", "_resident", "_start")

    def __init__(self, descriptor: int, resident: bytes) -> None:
        self._descriptor = descriptor
        self._resident = resident
        self._start = self._end = self._given_back = 0

    def read(self, start: int, end: int) -> None:
        """The bytes from ``start`` to ``end`` were read and are not needed again."""
        if not self._end:
            self._start = self._given_back = start
        elif start < self._start:
            self._start = start
        self._end = max(self._end, end)
        if end - self._given_back >= _GATHERED:
            _give_back(self._descriptor, self._resident, self._given_back, end)
            self._given_back = end

    def close(self) -> None:
        """No other read follows: give back what is left, also what the system read ahead."""
        _give_back_at_the_end(self._descriptor, self._resident, self._start, self._end + _READ_AHEAD)


def _give_back_at_the_end(descriptor: int, resident: bytes, start: int, end: int) -> None:
    """Give back the pages of these bytes, also those that the system is still reading: they go when they are read."""
    _give_back(descriptor, resident, start, end)
    before = resident.count(1)
    for pause in _PAUSES:
        if _cached_pages().of(descriptor, len(resident) * _PAGE) <= before:
            return
        time.sleep(pause)
        _give_back(descriptor, resident, start, end)


def _give_back(descriptor: int, resident: bytes, start: int, end: int) -> None:
    for first, after in _absent(resident, start // _PAGE, -(-end // _PAGE)):
        os.posix_fadvise(descriptor, first * _PAGE, (after - first) * _PAGE, os.POSIX_FADV_DONTNEED)


def _absent(resident: bytes, first: int, after: int) -> Iterator[tuple[int, int]]:
    """The runs of pages, first and the one after the last, that were not resident, in pages ``first`` to ``after``."""
    after = min(after, len(resident))
    while first < after and (first := resident.find(0, first, after)) >= 0:
        end = resident.find(1, first, after)
        yield first, after if end < 0 else end
        if end < 0:
            return
        first = end


def _resident(descriptor: int, status: os.stat_result, path: str) -> bytes | None:
    """A byte for each page, 1 where it is resident; None: no page is to be given back."""
    size = status.st_size
    _Process.opened += size
    if _Process.opened <= _SMALL or not size or not hasattr(os, "posix_fadvise"):
        return None
    if size > _PAGE * _FEW_PAGES and size > _MOST_PAGES * stored_bytes(status):
        return None
    try:
        if not _may_ask(status, descriptor):
            raise PermissionError("it belongs to another user")
        if _cached_pages().of(descriptor, size) * _PAGE >= size:
            return None
        resident = _mincore(descriptor, size)
    except (OSError, AttributeError) as error:
        _tell(path, error)
        return None
    return resident if 0 in resident else None


def _may_ask(status: os.stat_result, descriptor: int) -> bool:
    """The kernel tells the truth: of files that others own and that one may not write it says that all is resident."""
    return os.geteuid() in (0, status.st_uid) or os.access(f"/proc/self/fd/{descriptor}", os.W_OK, effective_ids=True)


@cache
def _system() -> ctypes.CDLL:
    """The C library."""
    import ctypes  # slow, and not needed for small files

    system = ctypes.CDLL(None, use_errno=True)
    system.mmap.restype = ctypes.c_void_p
    system.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *(ctypes.c_int,) * 3, ctypes.c_long)
    system.mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
    system.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    system.syscall.restype = ctypes.c_long
    system.syscall.argtypes = (ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint)
    return system


class _CachedPages:
    """Counts the pages of an open file that are resident, for a fifth of the cost of ``_mincore``."""

    def __init__(self) -> None:
        import ctypes

        self._call = _system().syscall
        # A range: start and size. Then how many pages are cached, dirty, being written, evicted, evicted lately.
        self._range, self._counts = (ctypes.c_uint64 * 2)(), (ctypes.c_uint64 * 5)()
        self._addresses = ctypes.addressof(self._range), ctypes.addressof(self._counts)

    def of(self, descriptor: int, size: int) -> int:
        """The number of pages of the first ``size`` bytes; 0 also where the kernel does not count them."""
        self._range[1] = size
        if _CACHESTAT is None or self._call(_CACHESTAT, descriptor, *self._addresses, 0):
            return 0
        return self._counts[0]


@cache
def _cached_pages() -> _CachedPages:
    return _CachedPages()


def _mincore(descriptor: int, size: int) -> bytes:
    """A byte for each page of the file. Raises OSError."""
    import ctypes

    system = _system()
    # Nothing can be read through this mapping (PROT_NONE), so no file that another process cuts can kill this one.
    address = system.mmap(None, size, 0, _MAP_SHARED, descriptor, 0)
    if address == ctypes.c_void_p(-1).value:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    try:
        pages = ctypes.create_string_buffer(-(-size // _PAGE))
        if system.mincore(address, size, pages):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    finally:
        system.munmap(address, size)
    # The other bits mean nothing.
    return pages.raw.translate(_LOWEST_BIT)


def _tell(path: str, error: Exception) -> None:
    """Log once in a process that pages stay."""
    if _Process.is_told:
        return
    _Process.is_told = True
    import logging

    reason = getattr(error, "strerror", None) or str(error)
    what = "kdump: %s: what the page cache holds of it is unknown (%s): the pages that kdump reads stay there"
    logging.getLogger("kdump").info(what, path, reason)
