"""Repaired copies in another directory: they are staged there, made durable, then moved to their names all at once."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self

from kdump.codes import Codes, KdumpError
from kdump.log.names import INDEX_KINDS, Kind, parse_file_name, sibling
from kdump.log.partition import log_directory_above
from kdump.repair.apply import disk
from kdump.repair.plan.repaireddirectory import RepairedDirectory, index_files
from kdump.system.files import Staged, like_of
from kdump.system.paths import name_with, normal_path, physical


def write_logs(directory: RepairedDirectory, staging: Staging) -> None:
    """Write the logs of a repaired directory with the index files that a broker's recovery builds.

    Files get the mode of the files that they come from, and their owner if the system allows it. A copy has no state
    suffix.
    """
    for segment in directory.segments:
        plan, parsed = segment.plan, parse_file_name(segment.name)
        assert parsed is not None
        if segment.log is None:
            continue
        name, status = f"{parsed.stem}{parsed.kind.value}", like_of(plan.like)
        with staging.file(name, status) as copy:
            recovered = segment.recover(copy.write, digests=False)
            copy.finish(size=recovered.recovery.end, modified=plan.modified)
        for kind, content in index_files(plan.path, recovered).items():
            origin = content.pieces[0].path
            staging.write(sibling(name, kind), content.read(), status if origin is None else like_of(origin))
        plan.fingerprint.check(plan.path)


def write_others(directory: RepairedDirectory, staging: Staging) -> None:
    """Write the files of a repaired directory that belong to no single segment."""
    plan = directory.plan
    for name, content in directory.copied_others.items():
        path = os.path.join(plan.place.directory, name)
        is_there = os.path.lexists(path)
        status = like_of(path if is_there else plan.segments[0].like)
        staging.write(name, content.read(), status, status.st_mtime_ns if is_there else None)


def account_name(target: str) -> str:
    """The name of the file beside copies that describes them; ``target``: the name of the partition or the log."""
    return name_with(target, "kdump-", ".json")


class Staging:
    """A hidden directory in ``directory`` (made if it is missing) that holds new files until they are complete.

    Used as a context: what is not committed is removed, if possible. Raises KdumpError UNWRITABLE, and REPAIR_REFUSED
    for a directory of a source or of a broker.

    Args:
        directory: for the copies.
        source: the directory of the files that are copied.
        others: directories of which files are read too.
        written: files of this run, to which those of the directory are added. Other files that are there are replaced,
            but never a directory. None: nothing is replaced.
    """

    def __init__(
        self, directory: str, source: str, *, others: Iterable[str] = (), written: set[str] | None = None
    ) -> None:
        above = log_directory_above(directory)
        if above is not None:
            message = f"{above} is the log directory of a broker; give a directory outside of it"
            raise KdumpError(Codes.REPAIR_REFUSED, message, path=directory)
        directory = physical(directory)
        _refuse_source(directory, (source, *others))
        self._target = directory
        self._written = written
        self._names: list[str] = []
        missing = normal_path(directory)
        to_make: list[str] = []
        while missing and not os.path.lexists(missing):
            to_make.append(missing)
            missing = os.path.dirname(missing)
        self._hidden = os.path.join(directory, f".kdump-{os.getpid()}-{time.time_ns()}")
        self._directory = os.path.join(self._hidden, "files")
        made: list[str] = []
        like = like_of(source or os.curdir)
        try:
            for path in (*reversed(to_make), self._hidden, self._directory):
                disk.make_directory_for_copies(path, like)
                made.append(path)
        except BaseException:
            disk.remove_made(made)
            raise

    def file(self, name: str, like: os.stat_result | None = None) -> disk.NewDiskFile:
        """Open a new file; the caller finishes it."""
        self._names.append(name)
        return disk.NewDiskFile(os.path.join(self._directory, name), like)

    def write(self, name: str, data: bytes, like: os.stat_result | None = None, modified: int | None = None) -> None:
        """Write a whole new file."""
        self._names.append(name)
        disk.write_file(os.path.join(self._directory, name), data, like, modified=modified)

    def path(self, name: str) -> str:
        """Where a file lies until it is committed."""
        return os.path.join(self._directory, name)

    def commit_files(self, account: str, data: Iterable[bytes]) -> None:
        """Give every file its name in the directory; also the file ``account``, which describes them.

        An old index beside a log goes: it does not fit the new log.
        """
        logs = [name for name in self._names if (parsed := parse_file_name(name)) and parsed.kind is Kind.LOG]
        indexes = dict.fromkeys(sibling(log, kind) for log in logs for kind in INDEX_KINDS)
        stale = [name for name in indexes if name not in self._names and disk.exists(self._place(name))]
        self._commit({name: self.path(name) for name in self._names}, account, data, stale)

    def commit_directory(self, name: str, account: str, data: Iterable[bytes]) -> None:
        """Make all files the new directory ``name`` at one moment; ``account`` as for ``commit_files``."""
        disk.sync_directory(self._directory)
        self._commit({name: self._directory}, account, data)

    def _commit(
        self, places: Mapping[str, str], account: str, data: Iterable[bytes], stale: Sequence[str] = ()
    ) -> None:
        """Move what is staged to its names, and remove what is stale. After an error the old files are back.

        ``places``: by its name where a file is now.
        """
        names = [account, *stale, *places]
        self.refuse_existing(names)
        described = os.path.join(self._hidden, account)
        with disk.NewDiskFile(described) as file:
            for block in data:
                file.write(block)
            file.finish()
        staged = [Staged(path, self._place(name)) for name, path in ((account, described), *places.items())]
        try:
            disk.publish(staged, map(self._place, stale))
        except BaseException:
            _remove(described)
            raise
        if self._written is not None:
            self._written.update(map(self._place, names))
        self._names.clear()

    def _place(self, name: str) -> str:
        """Where a file lies once it is committed."""
        return os.path.join(self._target, name)

    def refuse_existing(self, names: list[str]) -> None:
        """Raises KdumpError OUTPUT_EXISTS for a name that is taken in the directory."""
        for name in names:
            path = self._place(name)
            if self._written is not None and path in self._written:
                message = "is a copy that this run has made; give another directory"
                raise KdumpError(Codes.OUTPUT_EXISTS, message, path=path)
            if self._written is not None and os.path.isfile(path) and not os.path.islink(path):
                continue
            if os.path.lexists(path):
                # A directory is never replaced.
                hint = ", or --overwrite" if os.path.isfile(path) and not os.path.islink(path) else ""
                message = f"is there already; give another directory{hint}"
                raise KdumpError(Codes.OUTPUT_EXISTS, message, path=path)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for name in self._names:
            _remove(self.path(name))
        # The directory that the caller named stays, even without copies.
        disk.remove_made((self._hidden, self._directory))


def _refuse_source(directory: str, sources: Iterable[str]) -> None:
    """Raises KdumpError REPAIR_REFUSED for a directory of a source: copies would take the place of its files."""
    for source in sources:
        with suppress(OSError):
            if os.path.samefile(directory, source or os.curdir):
                message = "is a directory of the source; give another one for the copies"
                raise KdumpError(Codes.REPAIR_REFUSED, message, path=directory)


def _remove(path: str) -> None:
    """Remove a file that is not needed any more, if possible: its name is hidden."""
    with suppress(KdumpError):
        if disk.exists(path):
            disk.remove(path)
