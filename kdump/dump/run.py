"""The run of a dump over several files, in any output format.

An error of one file is reported, and the next file follows.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from kdump.codes import INPUT_CODES, Codes, DamageError, Finding, KdumpError
from kdump.dump.output import DumpOptions
from kdump.dump.targets import Target
from kdump.fast.policy import ShownRows
from kdump.log.partition import has_gone
from kdump.log.source import Source
from kdump.log.walk import Chunk
from kdump.reading.outcomes import LateOutcomes, Outcomes
from kdump.reading.printing import Printer, RowsT, RowT
from kdump.reading.reporter import Reporter
from kdump.reading.selection import RowBudget, Selection
from kdump.reading.view import RECORDS_CHUNK, LogView
from kdump.rows.logs import items_past_damage, view_of

if TYPE_CHECKING:
    from kdump.reading.joint import JointLogs
    from kdump.reading.transactionreader import TransactionReader


class ReadLog(NamedTuple):
    """What was read of a log.

    ``first_undecoded``: the offset of the first record that does not decode, and why; ``undecoded``: how many there
    are.
    """

    bytes_read: int = 0
    is_columnar: bool = False
    first_undecoded: tuple[int, KdumpError] | None = None
    undecoded: int = 0


class DumpRun:
    """A run over several files.

    ``damaged`` and ``unreadable`` say what was met, for exit status 1 and 3. After the steps of a log, ``read`` says
    what was read (None: it could not be opened).

    Args:
        options: what is shown, and in which format.
        emit: takes the rows, of a text whole lines for stdout.
        reporter: takes what goes to stderr.
        budget: how many batches or records are shown.
        is_first: nothing was written before this run.
        size: bytes of all logs, as far as they are known.
    """

    def __init__(
        self,
        options: DumpOptions,
        emit: Callable[[Any], None],
        reporter: Reporter,
        *,
        budget: RowBudget | None = None,
        is_first: bool = True,
        size: int = 0,
    ) -> None:
        self.reporter = reporter
        self.damaged = False
        self.unreadable = False
        self.read: ReadLog | None = None
        self._options = options
        self._budget = budget or RowBudget()
        self._output = options.output(options, emit, reporter, self._budget, is_first)
        self._shown_rows = ShownRows(size)
        self._joint: JointLogs[Any] | None = None
        self._reported_open: set[tuple[str, int, int]] = set()

    def expect(self, targets: Iterable[Target]) -> None:
        """Note what is dumped next, in its order: small logs are read together. What came before is forgotten."""
        self.close()
        coming = {target.path: target for target in targets if target.is_log and target.world is None}
        if len(coming) > 1 and self._options.joins_logs:
            from kdump.reading.joint import JointLogs

            self._joint = JointLogs(coming, lambda path: coming[path].open(), RECORDS_CHUNK)

    def close(self) -> None:
        """Close what is open of the logs that are expected."""
        if self._joint is not None:
            self._joint.close()
        self._joint = None

    def dump(self, target: Target) -> None:
        """Dump one file. What is wrong with it is reported as one error, and the run goes on."""
        for _ in self.steps(target):
            pass
        if self.read is not None:
            self.sum_up(target.path, self.read)

    def steps(self, target: Target) -> Generator[None, None, None]:
        """Dump one file in steps of some megabytes. What was read is not summed up."""
        self.read = None
        if self._budget.is_spent:
            return
        output = self._output
        if not output.knows(target):
            output.ignore(target.path)
            return
        output.begin(target)
        try:
            with self._file(target):
                if target.is_log:
                    yield from self._log(target)
                else:
                    self._small_file(target)
        finally:
            output.end(target)

    def begin_elsewhere(self, target: Target) -> None:
        """Other runs dump all files, and this is the first one: show what comes before its rows."""
        self._output.begin(target)
        if target.is_log:
            self._output.begin_log(target)

    def ignore(self, name: str) -> None:
        """A name of ``--files`` is no segment file."""
        self._output.ignore(name)

    def finish(self) -> Iterator[str]:
        """Lines for stderr after the last file, with line ends."""
        self.close()
        return self._output.finish()

    def fail(self, error: KdumpError) -> None:
        """Report an error and remember it."""
        if error.code in INPUT_CODES:
            self.unreadable = True
        else:
            self.damaged = True
        self.reporter.show_error(error)

    @contextmanager
    def _file(self, target: Target) -> Iterator[None]:
        """Errors of kdump in this context are errors of this file."""
        try:
            yield
        except KdumpError as error:
            if not (target.is_listed and has_gone(target.path, error)):
                self.fail(error.located(target.path))

    def _small_file(self, target: Target) -> None:
        try:
            self._output.small_file(target)
        except DamageError as error:
            if not self._output.shows_damage(target, error):
                raise
            self.damaged = True

    def _log(self, target: Target) -> Iterator[None]:
        output = self._output
        output.begin_log(target)
        opened = None if self._joint is None else self._joint.take(target.path)
        with opened or target.open() as source:
            view = self._view(target, source)
            self.read = ReadLog()
            try:
                yield from view.steps()
                output.begin_entries(None)
                if view.trailing:
                    raise DamageError(
                        Codes.TRAILING_BYTES, f"{view.trailing} invalid bytes at the end", position=view.end
                    )
                if view.damaged and not self._options.view.resync:
                    self._is_foreign(source)
                output.end_entries(target, view.end)
            except DamageError as error:
                self._stop(target, error, source)
            finally:
                self.damaged |= view.damaged
                self.read = self.read._replace(bytes_read=view.bytes_read, is_columnar=view.is_columnar)

    def _view(self, target: Target, source: Source) -> LogView[Any, Any]:
        options, output = self._options, self._output
        view_options = options.view
        if view_options.with_records is not output.reads_records(target):
            view_options = replace(view_options, with_records=not view_options.with_records)
        if options.read_committed:
            view_options = replace(view_options, selection=self._committed(view_options.selection, target.path))

        if output.shows_transactions:
            self._transactions.announce(target.path)

        def read_transactions() -> Outcomes | None:
            return None if source.size is None else self._transactions.of(target.path)

        def skip(finding: Finding) -> None:
            self.reporter.note(f"{target.path}: skipped {finding.skipped}")
            output.skipped(finding)

        printer = output.printer(target, LateOutcomes(read_transactions), self._note_undecoded)
        return view_of(target.world, target.base_offset)(
            source,
            printer if options.secret is None else _redacting(printer, options.secret),
            output.emit,
            view_options,
            budget=self._budget,
            observer=output.observer(),
            on_first=output.begin_entries,
            reporter=self.reporter,
            on_finding=skip,
            shown_rows=self._shown_rows,
            joint=self._joint,
        )

    def _stop(self, target: Target, error: DamageError, source: Source) -> None:
        """Report the damage up to which a log was read, and whether more entries come after it."""
        is_shown = self._output.shows_damage(target, error)
        self.damaged |= is_shown
        if self._is_foreign(source):
            return
        if not is_shown:
            self.fail(error.located(source.path))
        if error.position is not None and _has_more(source, error.position, target):
            self.reporter.note(f"{source.path}: more entries follow position {error.position}; --resync shows them")

    def _is_foreign(self, source: Source) -> bool:
        """Whether a damaged log is a file of another type. If so, report it."""
        from kdump.log.filetypes import identify

        foreign = identify(source)
        if foreign is None:
            return False
        self.fail(foreign.error(source.path))
        self._output.skipped(foreign.finding(source.path, source.size))
        return True

    @cached_property
    def _transactions(self) -> TransactionReader:
        """The transactions of the partitions of this run."""
        from kdump.reading.transactionreader import TransactionReader  # not needed by a plain dump

        return TransactionReader()

    def _committed(self, selection: Selection, path: str) -> Selection:
        """The selection for a reader of committed transactions. Reports where an open transaction ends it."""
        transactions = self._transactions.of(path)
        found = self._transactions.first_open(path)
        if found is not None and (one := (os.path.dirname(path), *found)) not in self._reported_open:
            self._reported_open.add(one)
            offset, producer = found
            what = f"producer {producer} has a transaction open"
            self.reporter.note(f"{path}: read_committed ends at offset {offset}: {what}")
        return selection.read_committed(transactions, found and found[0])

    def _note_undecoded(self, offset: int, error: KdumpError) -> None:
        read = self.read or ReadLog()
        first = read.first_undecoded or (offset, error)
        self.read = read._replace(first_undecoded=first, undecoded=read.undecoded + 1)

    def sum_up(self, path: str, read: ReadLog) -> None:
        """Report how a log was read, and what of it did not decode: the first record, and how many there are."""
        if self.reporter.verbose:
            decoder = "columnar" if read.is_columnar else "scalar"
            self.reporter.note(f"{path}: {read.bytes_read:,} bytes, {decoder} decoder")
        if read.first_undecoded is None:
            return
        offset, error = read.first_undecoded
        more = f" (and {read.undecoded - 1:,} more)" if read.undecoded > 1 else ""
        self.reporter.note(f"{path}: offset {offset}: {error.code.value.code} {error.message}{more}")


def _has_more(source: Source, position: int, target: Target) -> bool:
    """Entries begin after ``position``, where reading stopped."""
    if source.size is None:
        return False
    for item in items_past_damage(target.world, source, target.base_offset, position):
        if isinstance(item, Chunk):
            return item.position + item.starts[-1] > position or item.position + item.end < source.size
    return False


def _redacting(printer: Printer[RowT, RowsT], secret: bytes) -> Printer[RowT, RowsT]:
    from kdump.dump.redacted import RedactingPrinter  # not needed by a plain dump

    return RedactingPrinter(printer, secret)
