"""DumpLogSegments: one file after the other, what each kind prints, and what is left to say at the end.

Source: docs/spec/dump-output.md#3-per-file-dispatch, docs/spec/dump-output.md#8-other-files,
docs/spec/dump-output.md#10-end-of-run-reports.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from kdump.codes import Codes, DamageError, KdumpError
from kdump.dump.run import FileRun, Target
from kdump.dump.text.indexes import DumpedIndex
from kdump.dump.text.logs import LogDump
from kdump.dump.text.options import DumpOptions
from kdump.dump.text.reports import Reports
from kdump.format.index import AbortedTxn, parse_txn_index
from kdump.format.snapshot import ProducerEntry, parse_snapshot
from kdump.log import files
from kdump.log.names import BOOTSTRAP_CHECKPOINT, Kind, is_uri, sibling
from kdump.log.opening import open_source, read_whole
from kdump.log.source import Source
from kdump.payloads.java import normalize_path, parse_int, parse_long
from kdump.reading.printing import Emit
from kdump.reading.reporter import Reporter
from kdump.reading.selection import RowBudget

if TYPE_CHECKING:
    from kdump.dump.text.decoders import TextDecoding

_LINES_AT_A_TIME = 4096
_NAME_OFFSET_SIZE = 20
_NAME_EPOCH = slice(21, 31)


class DumpTool(FileRun):
    """A run over several files.

    Args:
        options: what to show.
        emit: takes whole lines for stdout.
        reporter: takes what goes to stderr.
        budget: how many batches or records are shown.
    """

    def __init__(
        self, options: DumpOptions, emit: Emit, reporter: Reporter, *, budget: RowBudget | None = None
    ) -> None:
        super().__init__(reporter)
        self._options = options
        self._write = emit
        self._budget = budget or RowBudget()
        self._reports = Reports()
        # Where only some rows are shown, a file that has none of them is not named.
        self._holds_headings = not (options.selection.is_everything and self._budget.is_unlimited)
        self._held = ""
        self._is_line_open = False

    def ignore(self, name: str) -> None:
        """See FileRun; the Java tool names it all the same."""
        self._line(f"Dumping {normalize_path(name)}\n")
        self.reporter.complain(f"Ignoring unknown file {normalize_path(name)}")

    def dump(self, target: Target) -> None:
        """See FileRun."""
        if self._budget.is_spent:
            return
        # A text file need not end with a line end.
        self._held = "\n" if self._is_line_open else ""
        if target.kind is None:
            with self.file(target):
                self._dump_text_file(target)
            return
        self._heading(f"Dumping {_displayed(target)}\n")
        with self.file(target):
            _KINDS[target.kind](self, target)

    def finish(self) -> Iterator[str]:
        """See FileRun: the end-of-run reports."""
        return self._reports.lines()

    def _heading(self, text: str) -> None:
        if self._holds_headings:
            self._held += text
        else:
            self._line(text)

    def _line(self, text: str) -> None:
        self._emit(text.encode("utf-8", "surrogateescape"))

    def _emit(self, text: bytes | memoryview) -> None:
        if self._held and len(text):
            self._write(self._held.encode("utf-8", "surrogateescape"))
            self._held = ""
        self._is_line_open = False
        self._write(text)

    def _lines(self, lines: Iterator[str]) -> None:
        pending: list[str] = []
        try:
            for line in lines:
                pending.append(line)
                if len(pending) >= _LINES_AT_A_TIME:
                    self._line("".join(pending))
                    pending.clear()
        finally:
            self._line("".join(pending))

    def _dump_text_file(self, target: Target) -> None:
        """As it is; DamageError where a broker would refuse it."""
        from kdump.format.checkpoint import READERS  # not needed by a dump of segments

        data = read_whole(target.path)
        if data:
            self._emit(data)
            self._is_line_open = not data.endswith(b"\n")
        for _ in READERS[target.file_name](data):
            pass

    def _dump_log(self, target: Target) -> None:
        if not target.unnamed:
            self._heading(f"Log starting offset: {_number(target)}\n")
        self._dump_batches(target)

    def _dump_checkpoint(self, target: Target) -> None:
        name = target.file_name
        if name == BOOTSTRAP_CHECKPOINT:
            self._heading("KRaft bootstrap snapshot\n")
        else:
            offset = parse_long(name[:_NAME_OFFSET_SIZE])
            epoch = parse_int(name[_NAME_EPOCH])
            if len(name) < _NAME_EPOCH.stop or offset is None or epoch is None:
                raise KdumpError(Codes.NAME, "the name is not <20-digit end offset>-<10-digit epoch>.checkpoint")
            self._heading(f"Snapshot end offset: {offset}, epoch: {epoch}\n")
        self._dump_batches(target)

    def _dump_batches(self, target: Target) -> None:
        options = self._options
        if options.read_committed:
            options = replace(options, selection=self.read_committed(options.selection, target.path))
        with target.open() as source:
            log = LogDump(
                source,
                target.file_name,
                options,
                self._emit,
                heading=target.unnamed,
                budget=self._budget,
                reporter=self.reporter,
                on_finding=lambda finding: self.skip(target.path, finding),
                decoding=self._decoding(target),
            )
            try:
                log.run()
                if log.trailing:
                    self.hint(source, log.end)
                elif log.damaged and not options.resync:
                    self.is_foreign(source)
            except DamageError as error:
                self.stop(error, source)
            finally:
                self.note_read(target.path, log)
                self.sum_up_undecoded(target.path)
                self.damaged |= log.damaged
                pairs = log.continuity.reported(target.base_offset)
                self._reports.non_consecutive(target.path, pairs, log.continuity.found)

    def _decoding(self, target: Target) -> TextDecoding | None:
        decoder = self._options.decoding.decoder(target.topic)
        if decoder is None:
            return None
        from kdump.dump.text.decoders import TextDecoding, contents_decoder  # not needed by a plain dump

        return TextDecoding(contents_decoder(decoder, goes_on=self._options.resync), self.note_undecoded)

    def _dump_offset_index(self, target: Target) -> None:
        with self._index_file(target) as index:
            self._lines(index.offset_index_lines(self._options, self._reports))

    def _dump_time_index(self, target: Target) -> None:
        with self._index_file(target) as time_index, _open_sibling(target, Kind.INDEX) as index:
            self._lines(time_index.time_index_lines(index.path, self._options, self._reports))

    @contextmanager
    def _index_file(self, target: Target) -> Iterator[DumpedIndex]:
        base_offset = _number(target)
        # Read to tell a missing file from a missing log before anything is printed, and before the log, which a broker
        # may be writing to: that is never behind its index then.
        data = read_whole(target.path)
        with _open_sibling(target, Kind.LOG) as log:
            yield DumpedIndex(target.path, _displayed(target), base_offset, data, log)

    def _dump_txn_index(self, target: Target) -> None:
        _number(target)
        try:
            data = read_whole(target.path)
        except KdumpError as error:
            if error.code is Codes.MISSING and target.may_be_missing:
                return
            raise
        self._lines(map(_aborted_txn_line, parse_txn_index(data)))

    def _dump_snapshot(self, target: Target) -> None:
        data = read_whole(target.path)
        try:
            entries = parse_snapshot(data)
        except DamageError as error:
            # These are the Java tool's own words, and a report rather than an abort.
            self.damaged = True
            self.reporter.complain(error.message)
            return
        self._lines(map(_producer_line, entries))


_KINDS: dict[Kind, Callable[[DumpTool, Target], None]] = {
    Kind.LOG: DumpTool._dump_log,
    Kind.CHECKPOINT: DumpTool._dump_checkpoint,
    Kind.INDEX: DumpTool._dump_offset_index,
    Kind.TIME_INDEX: DumpTool._dump_time_index,
    Kind.TXN_INDEX: DumpTool._dump_txn_index,
    Kind.SNAPSHOT: DumpTool._dump_snapshot,
}


def _displayed(target: Target) -> str:
    """What a file is called on stdout."""
    return target.path if is_uri(target.path) else normalize_path(target.path)


def _number(target: Target) -> int:
    if target.base_offset is None and not files.exists(target.path):
        raise KdumpError(Codes.MISSING, "no such file or directory")
    if target.base_offset is None:
        raise KdumpError(Codes.NAME, "the file name holds no offset (text before its first dot)")
    return target.base_offset


def _open_sibling(target: Target, kind: Kind) -> Source:
    """Another file of the same segment, without which this one cannot be checked."""
    try:
        return open_source(sibling(target.path, kind))
    except KdumpError as error:
        if error.code is not Codes.MISSING:
            raise
        raise KdumpError(
            Codes.SIBLING_MISSING, f"cannot be dumped without {PurePosixPath(error.path or '').name}, which is missing"
        ) from error


def _aborted_txn_line(txn: AbortedTxn) -> str:
    return (
        f"version: {txn.version} producerId: {txn.producer_id} firstOffset: {txn.first_offset} "
        f"lastOffset: {txn.last_offset} lastStableOffset: {txn.last_stable_offset}\n"
    )


def _producer_line(entry: ProducerEntry) -> str:
    first_offset = entry.current_txn_first_offset
    line = (
        f"producerId: {entry.producer_id} producerEpoch: {entry.producer_epoch} "
        f"coordinatorEpoch: {entry.coordinator_epoch} currentTxnFirstOffset: "
        f"{'OptionalLong.empty' if first_offset < 0 else f'OptionalLong[{first_offset}]'} "
        f"lastTimestamp: {entry.timestamp}"
    )
    if entry.last_offset >= 0:
        line += (
            f" firstSequence: {entry.first_sequence} lastSequence: {entry.last_sequence} "
            f"lastOffset: {entry.last_offset} offsetDelta: {entry.offset_delta} timestamp: {entry.timestamp}"
        )
    return line + "\n"
