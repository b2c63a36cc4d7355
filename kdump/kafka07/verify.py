"""The check of the logs of a Kafka 0.7 partition: the chain of their names, framing, CRCs and wrappers.

Source: docs/spec/old-kafka.md#1-the-07-log-on-disk.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Final, TypeAlias

from kdump.codes import HOSTILE_CODES, Codes, DamageError, Finding, KdumpError, Severity
from kdump.kafka.recover import Recovery
from kdump.kafka07.lognames import SUFFIX, is_log
from kdump.kafka07.message import Message07, parse_message, read_records
from kdump.kafka07.recovery import not_recovered_07, recover_07
from kdump.kafka07.resync import ResyncWalk07
from kdump.log.files import listing
from kdump.log.gaps import Gap
from kdump.log.names import is_uri
from kdump.log.opening import open_source
from kdump.log.source import Source
from kdump.log.walk import Chunk
from kdump.payloads.java import parse_long
from kdump.verify.partition import Item, counted
from kdump.verify.segment import CheckOptions
from kdump.verify.summary import SegmentSummary

_USED_ATTRIBUTES: Final = 3


_See: TypeAlias = Callable[[str, Sequence[tuple[Message07, int]]], None]


def check_logs(
    paths: Sequence[str], options: CheckOptions, *, named: bool = True, see: _See
) -> Iterator[Item | KdumpError]:
    """See WorldChecks; each entry is shown with its position."""
    check = _PartitionCheck07(options, see)
    for number, path in enumerate(paths):
        is_last = number == len(paths) - 1 and (len(paths) > 1 or not named or is_last_log(path))
        try:
            yield from check.log(path, is_last=is_last, named=named)
        except KdumpError as error:
            if error.code in HOSTILE_CODES:
                yield Finding(error.code, error.message, 0, path=path)
            else:
                yield error.located(path)


class _PartitionCheck07:
    def __init__(self, options: CheckOptions, see: _See) -> None:
        self._options = options
        self._see = see
        self._end_before: int | None = None
        """Where the log before this one ends; None: there is none, or nothing tells."""

    def log(self, path: str, *, is_last: bool, named: bool) -> Iterator[Item]:
        """Check one log after the one before it; its summary comes last."""
        counts = dict.fromkeys(Severity, 0)
        base_offset = _base_offset(path) if named else None
        end_before, self._end_before = self._end_before, None
        with open_source(path) as source:
            if named:
                for finding in _check_name(path, base_offset, end_before):
                    yield counted(finding, path, counts)
            self._see(path, ())
            reading = _LogReading07(source, base_offset or 0, self._options, partial(self._see, path))
            for finding in reading.findings():
                yield counted(finding, path, counts)
            if base_offset is not None and source.size is not None:
                self._end_before = base_offset + source.size
            recovery = None
            if counts[Severity.ERROR]:
                recovery = _recovery(source, base_offset, is_last=is_last)
            yield SegmentSummary(
                path, source.size, reading.entries, reading.first_offset, reading.last_offset, counts, recovery
            )


def _base_offset(path: str) -> int | None:
    """The offset in a name as the loader of 0.7 reads it."""
    return parse_long(os.path.basename(path).removesuffix(SUFFIX))


def _recovery(source: Source, base_offset: int | None, *, is_last: bool) -> Recovery | None:
    if source.size is None or base_offset is None:
        return None
    return recover_07(source, base_offset) if is_last else not_recovered_07(base_offset, source.size)


def _check_name(path: str, base_offset: int | None, end_before: int | None) -> Iterator[Finding]:
    name = os.path.basename(path)
    if base_offset is None:
        message = f"{name} does not begin with a number: a broker of Kafka 0.7 does not start"
        yield Finding(Codes.UNNUMBERED_NAME, message, 0, graded=Severity.ERROR)
        return
    if end_before is None or end_before == base_offset:
        return
    tail = "a broker of Kafka 0.7 does not start"
    if base_offset > end_before:
        message = f"the log before ends before offset {end_before}, this one begins at {base_offset}: {tail}"
        yield Finding(
            Codes.SEGMENT_MISSING, message, 0, None, end_before, base_offset - 1, base_offset, graded=Severity.ERROR
        )
    else:
        message = f"begins at offset {base_offset}, before the end {end_before} of the log before: {tail}"
        yield Finding(Codes.SEGMENT_OVERLAP, message, 0)


def is_last_log(path: str, names: Iterable[str] | None = None) -> bool:
    """No log in its directory has a higher offset: only the last one is recovered.

    ``names``: of the files in the directory; None: it is listed. Raises KdumpError where it cannot be.
    """
    own = _base_offset(path)
    if own is None:
        return True
    if names is None:
        names = () if is_uri(path) else [entry.name for entry in listing(os.path.dirname(path) or ".")]
    others = (_base_offset(name) for name in names if is_log(name))
    return all(other is None or other <= own for other in others)


def count_entries(source: Source, start: int) -> tuple[int, int]:
    """How many messages a log has from a position on, and how many of them have the right CRC.

    Raises:
        KdumpError: the log cannot be read.
    """
    entries = good = 0
    for item in ResyncWalk07(source, 0, start=start).items():
        if not isinstance(item, Gap):
            for message, _ in entries_of(item, 0):
                entries += 1
                good += message.is_valid
    return entries, good


def entries_of(chunk: Chunk, base_offset: int) -> Iterator[tuple[Message07, int]]:
    """The entries of a chunk of a ``ResyncWalk07``, each with its position in the file."""
    for start, end in chunk.entries():
        position = chunk.position + start
        yield parse_message(chunk.data[start:end], base_offset + position), position


class _LogReading07:
    """One pass over a log; the figures are those of what was read until now."""

    def __init__(
        self,
        source: Source,
        base_offset: int,
        options: CheckOptions,
        see: Callable[[Sequence[tuple[Message07, int]]], None],
    ) -> None:
        self._source = source
        self._see = see
        self._base_offset = base_offset
        self._options = options
        self.entries = 0
        self.first_offset: int | None = None
        self.last_offset: int | None = None

    def findings(self) -> Iterator[Finding]:
        """What is wrong, in file order."""
        for item in ResyncWalk07(self._source, self._base_offset).items():
            if isinstance(item, Gap):
                yield item.finding
                continue
            entries = list(entries_of(item, self._base_offset))
            self._see(entries)
            for message, position in entries:
                self.entries += 1
                if self.first_offset is None:
                    self.first_offset = message.offset
                self.last_offset = message.offset
                yield from self._check(message, position)

    def _check(self, message: Message07, position: int) -> Iterator[Finding]:
        if not message.is_valid:
            last = message.next_offset - 1
            text = "the CRC of the message is wrong"
            yield Finding(Codes.BATCH_CRC, text, position, message.size, message.offset, last, message.next_offset)
            return
        if message.attributes & ~_USED_ATTRIBUTES:
            text = f"attributes {message.attributes:#04x}: bits without a meaning"
            yield Finding(Codes.UNUSED_ATTRIBUTES, text, position, message.size)
        if not self._options.deep or not message.codec:
            return
        try:
            for record in read_records(message, self._options.limit):
                if not record.message.is_valid:
                    text = "a message inside has a wrong CRC"
                    yield Finding(Codes.INNER_CRC, text, position, message.size)
        except DamageError as error:
            yield Finding(error.code, error.message, position, message.size)
