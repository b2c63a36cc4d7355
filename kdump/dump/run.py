"""A run over several files: what goes wrong with one is said and the next one follows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from kdump.codes import INPUT_CODES, DamageError, Finding, KdumpError
from kdump.log.files import exists
from kdump.log.growing import GrowingFile
from kdump.log.names import Kind
from kdump.log.opening import open_source
from kdump.log.paths import LogSegment, OtherFile, PathDirectory, Sibling, Stream, TextFile, resolve, topic_of
from kdump.log.source import Source
from kdump.log.walk import Chunk
from kdump.reading.reporter import ReadSummary, Reporter
from kdump.reading.selection import Selection

if TYPE_CHECKING:
    from kdump.reading.transactions import TransactionReader


@dataclass(frozen=True, slots=True)
class Follow:
    """A log is to be read as it grows, until ``is_over``; ``on_wait`` is called before each wait for more."""

    is_over: Callable[[], bool]
    on_wait: Callable[[], None]


@dataclass(frozen=True, slots=True)
class Target:
    """One file to dump: where it is, what kind, and its base offset (None: the name has none).

    ``kind`` None: a text file, one of ``names.TEXT_FILES``, which is shown as it is.
    ``unnamed``: a stream, whose base offset can only be that of its first batch. ``may_be_missing``: the Java tool
    takes a missing transaction index for an empty one. ``is_listed``: it was found in a directory, not named; that it
    has gone since is nothing to tell.
    """

    path: str
    kind: Kind | None
    base_offset: int | None
    unnamed: bool = False
    may_be_missing: bool = False
    is_listed: bool = False
    follow: Follow | None = None

    def open(self) -> Source:
        """The file, read-only. Raises as ``open_source``."""
        if self.follow is None:
            return open_source(self.path)
        return GrowingFile(self.path, self.follow.is_over, self.follow.on_wait)

    @property
    def topic(self) -> str | None:
        """See ``topic_of``; None of a stream."""
        return None if self.unnamed else topic_of(self.path, self.kind)

    @property
    def file_name(self) -> str:
        """Last component of the path."""
        return PurePosixPath(self.path).name


def target_of(found: Stream | LogSegment | Sibling | TextFile) -> Target:
    """What a PATH means, to be dumped."""
    match found:
        case Stream(path=path):
            return Target(path, Kind.LOG, None, unnamed=True)
        case TextFile(path=path):
            return Target(path, None, None)
        case LogSegment() | Sibling():
            return Target(found.path, found.kind, found.base_offset)


def target_by_path(path: str) -> Target | None:
    """The stream or the file of a segment that a PATH means; None for anything else, text files too."""
    found = resolve(path)
    return None if isinstance(found, PathDirectory | OtherFile) else target_of(found)


class FileRun(ABC):
    """Remembers what was met, for the exit status: ``damaged`` calls for 1, ``unreadable`` for 3."""

    def __init__(self, reporter: Reporter) -> None:
        self.reporter = reporter
        self._said_open: set[tuple[int, int]] = set()
        self._first_undecoded: tuple[int, KdumpError] | None = None
        self._undecoded_count = 0
        self.damaged = False
        self.unreadable = False

    @abstractmethod
    def dump(self, target: Target) -> None:
        """Dump one file; whatever is wrong with it is one error and the run goes on."""

    @abstractmethod
    def ignore(self, name: str) -> None:
        """A name of ``--files`` that is no segment file."""

    @abstractmethod
    def finish(self) -> Iterator[str]:
        """What is left to say on standard error behind the last file, line by line with line ends."""

    @cached_property
    def transactions(self) -> TransactionReader:
        """The transactions of the partitions of this run."""
        from kdump.reading.transactions import TransactionReader  # not needed by a plain dump

        return TransactionReader()

    def fail(self, error: KdumpError) -> None:
        """Say what is wrong and remember it."""
        if error.code in INPUT_CODES:
            self.unreadable = True
        else:
            self.damaged = True
        self.reporter.show_error(error)

    def stop(self, error: DamageError, source: Source, show: Callable[[Finding], None] = lambda finding: None) -> None:
        """A log was read up to a damaged place: say so, and whether more lies behind it; ``show``: see is_foreign."""
        if self.is_foreign(source, show):
            return
        self.fail(error.located(source.path))
        if error.position is not None:
            self._hint(source, error.position)

    def hint(self, source: Source, position: int) -> None:
        """What is at ``position``, where the reading of a log ended, was said: say so when entries lie behind it."""
        if not self.is_foreign(source):
            self._hint(source, position)

    def is_foreign(self, source: Source, show: Callable[[Finding], None] = lambda finding: None) -> bool:
        """A damaged log is no log but a file of another type, which is said; ``show`` takes it for the output."""
        from kdump.log.filetypes import identify

        foreign = identify(source)
        if foreign is None:
            return False
        self.fail(foreign.error(source.path))
        show(foreign.finding(source.path, source.size))
        return True

    def _hint(self, source: Source, position: int) -> None:
        if _has_more(source, position):
            self.reporter.note(f"{source.path}: more lies behind {position}, which --resync would show")

    def read_committed(self, selection: Selection, path: str) -> Selection:
        """What a reader of committed transactions gets of a log; says where an open one stops it."""
        transactions = self.transactions.of(path)
        found = self.transactions.first_open(path)
        if found is not None and found not in self._said_open:
            self._said_open.add(found)
            offset, producer = found
            what = f"producer {producer} has a transaction open"
            self.reporter.note(f"{path}: read_committed ends at offset {offset}: {what}")
        return selection.read_committed(transactions, found and found[0])

    def skip(self, path: str, finding: Finding) -> None:
        """A damaged place in a log was gone past."""
        self.reporter.note(f"{path}: skipped {finding}")

    def note_undecoded(self, offset: int, error: KdumpError) -> None:
        """A key or value of the log that is being read does not decode."""
        self._first_undecoded = self._first_undecoded or (offset, error)
        self._undecoded_count += 1

    def sum_up_undecoded(self, path: str) -> None:
        """Say what of a log did not decode: the first one, and how many there are."""
        if self._first_undecoded is None:
            return
        offset, error = self._first_undecoded
        others = self._undecoded_count - 1
        more = f" (and {others:,} more)" if others else ""
        self.reporter.note(f"{path}: offset {offset}: {error.code.value.code} {error.message}{more}")
        self._first_undecoded, self._undecoded_count = None, 0

    def note_read(self, path: str, view: ReadSummary) -> None:
        """With ``verbose``: how a log was read."""
        if self.reporter.verbose:
            decoder = "columnar" if view.is_columnar else "scalar"
            self.reporter.note(f"{path}: {view.bytes_read:,} bytes, {decoder} decoder")

    @contextmanager
    def file(self, target: Target) -> Iterator[None]:
        """Whatever kdump raises in here is this file's failure."""
        try:
            yield
        except KdumpError as error:
            if not (target.is_listed and not exists(target.path)):
                self.fail(error.located(target.path))


def _has_more(source: Source, position: int) -> bool:
    """Entries begin behind ``position``, where reading stopped."""
    if source.size is None:
        return False
    from kdump.log.resync import ResyncWalk

    for item in ResyncWalk(source, start=position).items():
        if isinstance(item, Chunk):
            return item.position + item.starts[-1] > position or item.position + item.end < source.size
    return False
