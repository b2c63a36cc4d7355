"""What the log loader of Kafka 0.7 makes of a partition directory, and its recovery of the last log.

Source: docs/spec/old-kafka.md#16-recovery, docs/spec/old-kafka.md#17-broker-start-and-directory-names.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from kdump.codes import Codes, DamageError
from kdump.kafka.failures import FailureKind
from kdump.kafka.recover import Cut, CutReason, Recovery, RecoveryFailure, RecoveryOutcome
from kdump.kafka.startup.directory import Directory
from kdump.kafka.startup.outcome import (
    ILLEGAL_STATE,
    NUMBER_FORMAT,
    STRING_INDEX,
    RecoveredSegment,
    Served,
    Start,
    StartFailure,
    StartFailureError,
    StartOutcome,
)
from kdump.kafka07.message import parse_message
from kdump.kafka07.names import SUFFIX
from kdump.kafka07.walk import Walk07
from kdump.log.content import Content
from kdump.log.source import Source
from kdump.log.walk import Stop
from kdump.payloads.java import parse_int, parse_long

_FAILURES: Final = {
    Codes.MAGIC: FailureKind.UNKNOWN_MAGIC,
    Codes.LEGACY_MESSAGE: FailureKind.MESSAGE_CUT,
}


def recover_07(source: Source, base_offset: int) -> Recovery:
    """What recovery would make of a log: it cuts before the first entry that is not whole or whose CRC is wrong.

    Args:
        source: the log, a regular file.
        base_offset: the offset in its name.

    Raises:
        KdumpError: the log cannot be read.
    """
    walk = Walk07(source)
    size = source.size or 0
    for chunk in walk.chunks():
        for start, end in chunk.entries():
            position = chunk.position + start
            try:
                is_valid = parse_message(chunk.data[start:end], base_offset + position).is_valid
            except DamageError as error:
                return _recovery(base_offset, size, position, RecoveryFailure(_FAILURES[error.code], error.message))
            if not is_valid:
                return _recovery(base_offset, size, position, Cut(CutReason.CRC, "the CRC is wrong"))
    if walk.stop is Stop.LENGTH_TOO_SMALL:
        cut = Cut(CutReason.LENGTH_TOO_SMALL, f"a length field of {walk.bad_length}")
        return _recovery(base_offset, size, walk.position, cut)
    if walk.position < size:
        cut = Cut(CutReason.TRAILING_BYTES, "what is left is no whole entry")
        return _recovery(base_offset, size, walk.position, cut)
    return not_recovered_07(base_offset, size)


def not_recovered_07(base_offset: int, size: int) -> Recovery:
    """What a start leaves of a log that is not the last one: all of it, because no start reads such a log."""
    return _recovery(base_offset, size, size, None)


def _recovery(base_offset: int, size: int, end: int, end_reason: Cut | RecoveryFailure | None) -> Recovery:
    cut = end_reason if isinstance(end_reason, Cut) else None
    failure = end_reason if isinstance(end_reason, RecoveryFailure) else None
    outcome = RecoveryOutcome.FAILED if failure else RecoveryOutcome.TRUNCATED if cut else RecoveryOutcome.UNCHANGED
    return Recovery(outcome, size, end, base_offset + end, -1, [], cut, failure)


def start_07(directory: Directory, *, is_clean: bool) -> Start:
    """Load a partition directory. It is changed to what the loader leaves.

    Raises:
        KdumpError: the last log cannot be read.
    """
    try:
        logs = _logs_in(directory)
        if not logs:
            name = f"{0:020}{SUFFIX}"
            directory[name] = Content.of_bytes(b"")
            logs = [(0, name)]
        for (base_offset, name), (following, next_name) in pairwise(logs):
            if base_offset + directory[name].size != following:
                raise StartFailureError(ILLEGAL_STATE, f"The following segments don't validate: {name}, {next_name}")
        recovered = () if is_clean else _recover_last(directory, *logs[-1])
    except StartFailureError as error:
        return Start(StartOutcome.BROKER_STOPS, None, StartFailure(error.java_class, error.message))
    segments = tuple((base_offset, directory[name].size) for base_offset, name in logs)
    last_base, last_size = segments[-1]
    end_offset = last_base + last_size
    served = Served(segments[0][0], end_offset, end_offset, None, segments, last_size, (), False)
    return Start(StartOutcome.STARTS, served, None, recovered)


def _logs_in(directory: Directory) -> list[tuple[int, str]]:
    """(base offset, name) of the logs, in order.

    Raises:
        StartFailureError: a name is no number.
    """
    logs = []
    for name in directory.names():
        if name.endswith(SUFFIX):
            number = name.removesuffix(SUFFIX)
            base_offset = parse_long(number)
            if base_offset is None:
                raise StartFailureError(NUMBER_FORMAT, f'For input string: "{number}"')
            logs.append((base_offset, name))
    return sorted(logs, key=lambda log: log[0])


def _recover_last(directory: Directory, base_offset: int, name: str) -> tuple[RecoveredSegment, ...]:
    with directory.open(name) as source:
        recovery = recover_07(source, base_offset)
    if recovery.failure is not None:
        raise StartFailureError(recovery.failure.kind.java_class, recovery.failure.message)
    if recovery.bytes_cut:
        directory.resize(name, recovery.end)
    return (RecoveredSegment(base_offset, recovery.bytes_cut, recovery.next_offset),)


def folder_failure(name: str) -> StartFailure | None:
    """Why a broker stops over a directory of this name, after it has loaded it; None: it does not."""
    _, hyphen, number = name.rpartition("-")
    if not hyphen:
        return StartFailure(STRING_INDEX, f"begin 0, end -1, length {len(name)}")
    if parse_int(number) is None:
        return StartFailure(NUMBER_FORMAT, f'For input string: "{number}"')
    return None
