"""DumpLogSegments as the output of a dump: what it prints of each kind of file, and what it reports at the end.

Source: docs/spec/dump-output.md#3-per-file-dispatch, docs/spec/dump-output.md#4-logs-and-checkpoints,
docs/spec/dump-output.md#8-other-files, docs/spec/dump-output.md#9-damaged-logs,
docs/spec/dump-output.md#10-end-of-run-reports.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from kdump.codes import Codes, DamageError, Finding, KdumpError
from kdump.dump.output import DumpOutput, OutputMaker
from kdump.dump.targets import Target
from kdump.dump.text.dialect import NEWEST_DIALECT, Dialect
from kdump.dump.text.options import TextOptions
from kdump.dump.text.reports import OffsetContinuity, Reports
from kdump.format.batch import LENGTH_OFFSET, LOG_OVERHEAD
from kdump.log import files
from kdump.log.names import BOOTSTRAP_CHECKPOINT, SNAPSHOT_NAME, Kind, is_uri, last_name, sibling
from kdump.log.opening import open_source, read_whole
from kdump.log.walk import Chunk
from kdump.payloads.java import normalize_path, parse_int, parse_long
from kdump.reading.printing import Printer, TextBytes
from kdump.worlds import World

if TYPE_CHECKING:
    from kdump.dump.text.decoders import TextDecoding
    from kdump.dump.text.indexes import DumpedIndex
    from kdump.format.index import AbortedTxn
    from kdump.payloads.decoded import Undecoded
    from kdump.reading.outcomes import Outcomes

_Read = TypeVar("_Read")

_LINES_AT_A_TIME = 4096
_MOST_ATTEMPTS = 20
_PAUSE = 0.05
"""Seconds between two attempts to read the files of a segment that is being replaced."""
_NAME_OFFSET_SIZE = 20
_NAME_EPOCH = slice(21, 31)


def text_output(options: TextOptions, dialect: Dialect = NEWEST_DIALECT) -> OutputMaker:
    """Makes the compatible text."""
    return partial(TextOutput, options, dialect)


class TextOutput(DumpOutput[str, TextBytes]):
    """The compatible text of a run.

    Args:
        text_options: what DumpLogSegments was asked for.
        dialect: of which version it is.
        run: as of DumpOutput.
    """

    def __init__(self, text_options: TextOptions, dialect: Dialect, *run: Any) -> None:
        super().__init__(*run)
        self._text_options = text_options
        self._dialect = dialect
        self._reports = Reports(dialect)
        selection = self.options.view.selection
        # Where only some rows are shown, a file without any of them is not named.
        self._holds_headings = not (selection.is_everything and self.budget.is_unlimited)
        self._held = ""
        self._is_line_open = False
        self._awaits_offset = False
        self._continuity: OffsetContinuity | None = None

    def emit(self, text: TextBytes) -> None:
        """See DumpOutput; headings that were held come first."""
        if self._held and len(text):
            self.write(self._held.encode("utf-8", "surrogateescape"))
            self._held = ""
        self._is_line_open = False
        self.write(text)

    def ignore(self, name: str) -> None:
        """See DumpOutput. The Java tool prints its name nevertheless."""
        if self._dialect.names_ignored:
            self._line(f"Dumping {normalize_path(name)}\n")
            self.reporter.complain(f"Ignoring unknown file {normalize_path(name)}")

    def knows(self, target: Target) -> bool:
        """See DumpOutput."""
        return target.kind not in self._dialect.ignores

    def begin(self, target: Target) -> None:
        """See DumpOutput."""
        # A text file need not end with a line end.
        self._held = "\n" if self._is_line_open else ""
        self._continuity = None
        if target.kind is not None:
            self._heading(f"Dumping {_displayed(target)}\n")

    def small_file(self, target: Target) -> None:
        """See DumpOutput."""
        _SMALL_FILES[target.kind](self, target)

    def begin_log(self, target: Target) -> None:
        """See DumpOutput."""
        self._awaits_offset = target.unnamed
        if target.unnamed:
            return
        if target.world is not None:
            self._heading(f"{_text_of(target.world).START_LABEL}: {_number(target)}\n")
        elif target.kind is Kind.LOG:
            self._heading(f"{self._dialect.start_label}: {_number(target)}\n")
        else:
            self._heading(_checkpoint_heading(target.file_name))

    def printer(self, target: Target, outcomes: Outcomes, undecoded: Undecoded) -> Printer[str, TextBytes]:
        """See DumpOutput."""
        if target.world is not None:
            return _text_of(target.world).printer(self._text_options)
        view = self.options.view
        # Only a whole log shows whether its offsets follow one another.
        if view.selection.is_everything and not self.options.read_committed and not self.budget.is_skipping:
            self._continuity = self._dialect.continuity(with_records=view.with_records)
        decoding = self._decoding(target, undecoded)
        return self._dialect.printer(self._text_options, decoding, self._continuity, with_records=view.with_records)

    def observer(self) -> OffsetContinuity | None:
        """See DumpOutput."""
        return self._continuity

    def begin_entries(self, chunk: Chunk | None) -> None:
        """See DumpOutput; the first entry of a stream tells the offset for its heading."""
        if self._awaits_offset:
            self._awaits_offset = False
            offset = 0 if chunk is None else int.from_bytes(chunk.data[:LENGTH_OFFSET], "big", signed=True)
            self._line(f"{self._dialect.start_label}: {offset}\n")

    def reads_records(self, target: Target) -> bool:
        """See DumpOutput; the tools of other worlds do not look into wrappers."""
        return super().reads_records(target) and target.world is None

    def end_entries(self, target: Target, end: int) -> None:
        """See DumpOutput; the tool of another world says where the log ends."""
        if target.world is not None and not self._holds_headings:
            self._line(_text_of(target.world).end_line((target.base_offset or 0) + end))

    def skipped(self, finding: Finding) -> None:
        """See DumpOutput. The text does not show it."""

    def shows_damage(self, target: Target, error: DamageError) -> bool:
        """See DumpOutput: the Java tool goes on after invalid bytes at the end and after a damaged snapshot."""
        if target.world is not None:
            if error.code in _text_of(target.world).ENDS and error.position is not None:
                self.end_entries(target, error.position)
            return False
        if target.is_log:
            error = self._as_older(target, error)
        if error.code is Codes.TRAILING_BYTES:
            self._line(f"Found {error.message} of {target.file_name}\n")
            return True
        if target.kind is Kind.SNAPSHOT:
            self.reporter.complain(self._dialect.snapshot_complaint(target.path, error))
            return True
        return False

    def end(self, target: Target) -> None:
        """See DumpOutput."""
        if self._continuity is not None:
            pairs = self._continuity.reported(target.base_offset)
            self._reports.non_consecutive(target.path, pairs, self._continuity.found)

    def finish(self) -> Iterator[str]:
        """See DumpOutput: the end-of-run reports."""
        return self._reports.lines()

    def _as_older(self, target: Target, error: DamageError) -> DamageError:
        """The damage that ends a log, as the dialect sees it."""
        dialect, position = self._dialect, error.position
        if not dialect.largest_is_checked or target.unnamed or position is None:
            return error
        with target.open() as source:
            head, size = source.read(position, LOG_OVERHEAD), source.size or 0
        length = int.from_bytes(head[LENGTH_OFFSET:], "big", signed=True)
        if error.code is Codes.TRAILING_BYTES and len(head) == LOG_OVERHEAD:
            if length > self._text_options.max_message_size:
                return DamageError(Codes.LENGTH_TOO_LARGE, f"a message of {length} bytes, over --max-message-size")
        elif error.code is Codes.LENGTH_TOO_SMALL and dialect.ends_at_bad_length:
            return DamageError(Codes.TRAILING_BYTES, f"{size - position} invalid bytes at the end", position=position)
        return error

    def _heading(self, text: str) -> None:
        if self._holds_headings:
            self._held += text
        else:
            self._line(text)

    def _line(self, text: str) -> None:
        self.emit(text.encode("utf-8", "surrogateescape"))

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
            self.emit(data)
            self._is_line_open = not data.endswith(b"\n")
        for _ in READERS[target.file_name](data):
            pass

    def _decoding(self, target: Target, undecoded: Undecoded) -> TextDecoding | None:
        decoder = self.options.decoding.decoder(target.topic)
        if decoder is None:
            return None
        contents = self._dialect.contents_decoder(decoder, goes_on=self.options.view.resync)
        if contents is None:
            return None
        from kdump.dump.text.decoders import TextDecoding  # not needed by a plain dump

        return TextDecoding(contents, undecoded)

    def _dump_offset_index(self, target: Target) -> None:
        with _index_file(target, self._dialect.index()) as index:
            self._lines(index.offset_index_lines(self._text_options, self._reports))

    def _dump_time_index(self, target: Target) -> None:
        with _index_file(target, self._dialect.index()) as index:
            limit = self.options.view.max_decompressed_size
            self._lines(index.time_index_lines(self._text_options, self._reports, limit))

    def _dump_txn_index(self, target: Target) -> None:
        from kdump.format.index import parse_txn_index  # not needed by a dump of logs

        _number(target)
        try:
            data = read_whole(target.path)
        except KdumpError as error:
            if error.code is Codes.MISSING and target.may_be_missing:
                return
            raise
        self._lines(map(_aborted_txn_line, parse_txn_index(data, self._dialect.release)))

    def _dump_snapshot(self, target: Target) -> None:
        from kdump.format.snapshot import parse_snapshot  # not needed by a dump of logs

        self._lines(map(self._dialect.producer_line, parse_snapshot(read_whole(target.path))))


class WorldText(Protocol):
    """What the tool of another world prints: the module ``text`` of its package.

    ``START_LABEL``: of the heading with the first offset. ``ENDS``: damage that it takes for the end of a log.
    """

    START_LABEL: str
    ENDS: tuple[Codes, ...]

    def printer(self, options: TextOptions) -> Printer[str, TextBytes]:
        """Prints the entries."""

    def end_line(self, offset: int) -> str:
        """The line at the end of a log, with the offset after it."""


def _text_of(world: World) -> WorldText:
    text: WorldText = world.answer("text")
    return text


_SMALL_FILES: dict[Kind | None, Callable[[TextOutput, Target], None]] = {
    None: TextOutput._dump_text_file,
    Kind.INDEX: TextOutput._dump_offset_index,
    Kind.TIME_INDEX: TextOutput._dump_time_index,
    Kind.TXN_INDEX: TextOutput._dump_txn_index,
    Kind.SNAPSHOT: TextOutput._dump_snapshot,
}


def _checkpoint_heading(name: str) -> str:
    if name == BOOTSTRAP_CHECKPOINT:
        return "KRaft bootstrap snapshot\n"
    offset = parse_long(name[:_NAME_OFFSET_SIZE])
    epoch = parse_int(name[_NAME_EPOCH])
    if len(name) < _NAME_EPOCH.stop or offset is None or epoch is None:
        raise KdumpError(Codes.NAME, f"the name is not {SNAPSHOT_NAME}")
    return f"Snapshot end offset: {offset}, epoch: {epoch}\n"


def _displayed(target: Target) -> str:
    """What a file is called on stdout."""
    return target.path if is_uri(target.path) else normalize_path(target.path)


def _number(target: Target) -> int:
    if target.base_offset is None and not files.exists(target.path):
        raise KdumpError(Codes.MISSING, "no such file or directory")
    if target.base_offset is None:
        raise KdumpError(Codes.NAME, "the file name holds no offset (text before its first dot)")
    return target.base_offset


@contextmanager
def _index_file(target: Target, index_type: type[DumpedIndex]) -> Iterator[DumpedIndex]:
    """An index and the files that it is checked with, all of one state of the segment.

    A log cleaner replaces them one after the other. The index is read first, so that a log that a broker writes to
    never ends before its index.
    """
    base_offset = _number(target)
    for attempt in range(_MOST_ATTEMPTS):
        before = _inodes(target)
        with ExitStack() as opened:
            error = None
            try:
                data = read_whole(target.path)
                log = opened.enter_context(_needed(open_source, target, Kind.LOG))
                index_data = _needed(read_whole, target, Kind.INDEX) if target.kind is Kind.TIME_INDEX else b""
            except KdumpError as caught:
                error = caught
            if _inodes(target) != before and attempt < _MOST_ATTEMPTS - 1:
                time.sleep(_PAUSE)
                continue
            if error is not None:
                raise error
            yield index_type(target.path, _displayed(target), base_offset, data, log, index_data)
            return


def _inodes(target: Target) -> list[int | None]:
    """Inodes of the index, the log and the .index of a segment. None: no such file, or it is in an object store."""
    found: list[int | None] = []
    for path in (target.path, sibling(target.path, Kind.LOG), sibling(target.path, Kind.INDEX)):
        try:
            found.append(os.stat(path).st_ino)
        except OSError:
            found.append(None)
    return found


def _needed(read: Callable[[str], _Read], target: Target, kind: Kind) -> _Read:
    """Read another file of the segment, without which this one cannot be checked."""
    try:
        return read(sibling(target.path, kind))
    except KdumpError as error:
        if error.code is not Codes.MISSING:
            raise
        raise KdumpError(
            Codes.SIBLING_MISSING, f"cannot be dumped without {last_name(error.path or '')}, which is missing"
        ) from error


def _aborted_txn_line(txn: AbortedTxn) -> str:
    return (
        f"version: {txn.version} producerId: {txn.producer_id} firstOffset: {txn.first_offset} "
        f"lastOffset: {txn.last_offset} lastStableOffset: {txn.last_stable_offset}\n"
    )
