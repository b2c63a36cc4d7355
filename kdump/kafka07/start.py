"""What the start of a broker of Kafka 0.7 makes of a partition directory, and what it loses.

Source: docs/spec/old-kafka.md#16-recovery, docs/spec/old-kafka.md#17-broker-start-and-directory-names.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import pairwise

from kdump.kafka.startup.directory import Directory, LoadSettings
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
from kdump.kafka07.lognames import SUFFIX, TITLE, is_log
from kdump.kafka07.recovery import recover_07
from kdump.kafka07.verify import count_entries
from kdump.log.content import Content, ContentSource
from kdump.payloads.java import parse_int, parse_long
from kdump.verify.startcheck import LossReason, LostRange, Obstacle, StartCheck, started_files


def check_start(directory: Directory, settings: LoadSettings, *, checksums: bool) -> StartCheck:
    """See WorldStarts.

    Raises:
        KdumpError: a file cannot be read.
    """
    start = start_07(directory, is_clean=settings.is_clean)
    bytes_read = directory.bytes_read
    lost = tuple(_lost(directory, start))
    end_before = None
    if start.served is not None:
        end_before = max((start.served.end_offset, *(loss.last_offset + 1 for loss in lost)))
    started = started_files(directory, checksums=checksums)
    return StartCheck(directory.path, settings, start, started, lost, (), (), end_before, (), bytes_read, world=TITLE)


def _lost(directory: Directory, start: Start) -> Iterator[LostRange]:
    for base_offset, bytes_cut, end_offset, _ in start.recovered:
        if not bytes_cut:
            continue
        name = next(
            name for name, content in directory.before.items() if directory.get(name) != content and is_log(name)
        )
        before = directory.before[name]
        with ContentSource(name, before) as source:
            records, good = count_entries(source, end_offset - base_offset)
        yield LostRange(end_offset, base_offset + before.size - 1, records, LossReason.CUT, good)


def obstacles(path: str, folders: Iterable[str]) -> list[Obstacle]:
    """See WorldStarts."""
    failures = ((name, folder_failure(name)) for name in folders)
    return [
        Obstacle(os.path.join(path, name), failure.java_class or "", failure.message)
        for name, failure in failures
        if failure is not None
    ]


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
