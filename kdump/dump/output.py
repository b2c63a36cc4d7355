"""The options of a dump, and what an output format does for the run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeAlias

from kdump.codes import DamageError, Finding
from kdump.dump.targets import Target
from kdump.log.walk import Chunk
from kdump.payloads.choice import DecoderChoice
from kdump.payloads.decoded import Undecoded
from kdump.reading.printing import OffsetObserver, Printer, RowsT, RowT
from kdump.reading.reporter import Reporter
from kdump.reading.selection import RowBudget
from kdump.reading.view import ViewOptions

if TYPE_CHECKING:
    from kdump.reading.outcomes import Outcomes

OutputMaker: TypeAlias = (
    "Callable[[DumpOptions, Callable[[Any], None], Reporter, RowBudget, bool], DumpOutput[Any, Any]]"
)
"""Makes the output of one run; it takes what ``DumpOutput`` takes."""


@dataclass(frozen=True, slots=True)
class DumpOptions:
    """What is shown, and in which format."""

    output: OutputMaker
    """The output format, with its own options. It must be picklable for a dump on Spark."""
    view: ViewOptions = field(default_factory=ViewOptions)
    read_committed: bool = False
    secret: bytes | None = None
    """Given: keys and values are replaced by hashes keyed with it."""
    decoding: DecoderChoice = field(default_factory=DecoderChoice)
    """How keys and values are decoded."""

    @property
    def joins_logs(self) -> bool:
        """The rows of all logs are made in one way, so that those of several can be made together."""
        return self.view.with_records and not self.decoding.is_made


class DumpOutput(ABC, Generic[RowT, RowsT]):
    """One format of a dump: the compatible text, rows as text, or rows for a program.

    For each file the run calls ``begin``, then either ``small_file`` or ``begin_log``, ``printer`` and
    ``begin_entries``, and at last ``end``, also after an error.

    Args:
        options: what is shown.
        write: takes whole rows, of a text whole lines for stdout.
        reporter: takes what goes to stderr.
        budget: how many batches or records are shown.
        is_first: nothing was written before this run.
    """

    def __init__(
        self,
        options: DumpOptions,
        write: Callable[[RowsT], None],
        reporter: Reporter,
        budget: RowBudget,
        is_first: bool,
    ) -> None:
        self.options = options
        self.write = write
        self.reporter = reporter
        self.budget = budget
        self.is_first = is_first

    @property
    def shows_transactions(self) -> bool:
        """What becomes of transactions is shown, or decides what is."""
        return False

    def emit(self, rows: RowsT) -> None:
        """Take whole rows of a log."""
        self.write(rows)

    @abstractmethod
    def ignore(self, name: str) -> None:
        """A name of ``--files`` is no segment file."""

    def knows(self, target: Target) -> bool:
        """Files of this kind are shown. False: ``ignore`` is called for it, and nothing else."""
        return True

    @abstractmethod
    def begin(self, target: Target) -> None:
        """A file begins."""

    @abstractmethod
    def small_file(self, target: Target) -> None:
        """Show a file that holds no batches. KdumpError when it cannot be read, DamageError when it is damaged."""

    def begin_log(self, target: Target) -> None:
        """Show what comes before the rows of a log. KdumpError when the name of the file does not tell it."""

    @abstractmethod
    def printer(self, target: Target, outcomes: Outcomes, undecoded: Undecoded) -> Printer[RowT, RowsT]:
        """The printer of a log's rows.

        Args:
            target: the log.
            outcomes: of the log's transactions.
            undecoded: takes what does not decode.

        Raises:
            KdumpError: a decoder cannot be loaded.
        """

    def observer(self) -> OffsetObserver | None:
        """Takes the offsets of the records that ``printer`` prints."""
        return None

    def begin_entries(self, chunk: Chunk | None) -> None:
        """The first chunk of a log; None: the log was read and has no entries. It may be called again."""

    def reads_records(self, target: Target) -> bool:
        """The rows of a log are those of its records."""
        return self.options.view.with_records

    def end_entries(self, target: Target, end: int) -> None:
        """A log was read up to its end; ``end`` is where its last whole entry ends."""

    @abstractmethod
    def skipped(self, finding: Finding) -> None:
        """Show damage that was skipped, or that the log is a file of another type."""

    def shows_damage(self, target: Target, error: DamageError) -> bool:
        """Show in the words of the format what ended the file. False: the run reports it in its own words."""
        return False

    def end(self, target: Target) -> None:
        """The file is over, whatever happened."""

    def finish(self) -> Iterator[str]:
        """Lines for stderr after the last file, with line ends."""
        return iter(())
