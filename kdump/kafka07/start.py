"""``kdump verify --startup`` for the partitions of Kafka 0.7: what its loader makes of them, and what it loses.

Source: docs/spec/old-kafka.md#16-recovery, docs/spec/old-kafka.md#17-broker-start-and-directory-names.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from kdump.kafka.startup.directory import Directory, LoadSettings
from kdump.kafka.startup.outcome import Start
from kdump.kafka07.loader import folder_failure, start_07
from kdump.kafka07.names import TITLE, is_log
from kdump.kafka07.verify import count_entries
from kdump.log.content import ContentSource
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
