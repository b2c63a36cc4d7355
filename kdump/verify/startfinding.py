"""Whether a start fails because of what was found in a partition directory.

Source: docs/spec/startup.md#rule-28-what-an-exception-stops.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import TypeVar

from kdump.codes import Codes, Finding, KdumpError, Severity
from kdump.log import files
from kdump.log.lock import is_held
from kdump.log.names import METADATA_DIRECTORY, parse_file_name
from kdump.verify.settling import Watch, settled_findings

_Item = TypeVar("_Item")


def with_start(folder: str, items: Iterable[_Item]) -> Iterator[_Item | Finding]:
    """What was found in a partition directory, and whether a start fails because of it.

    The model of a start is asked only after a warning or a leftover, and where no error says already that the partition
    needs help. The stop before it counts as clean: then a broker believes these files. After another one it rebuilds
    most of them from the logs, which are known to have no error.
    """
    is_asked = has_error = False
    for item in items:
        if isinstance(item, Finding):
            has_error |= item.severity is Severity.ERROR
            is_asked |= item.severity is Severity.WARNING or item.code is Codes.LEFTOVER
        has_error |= isinstance(item, KdumpError)
        yield item
    if is_asked and not has_error and _is_loaded(folder):
        yield from _start_finding(folder)


def _is_loaded(folder: str) -> bool:
    """A broker loads it as a partition; not the metadata of a cluster, nor a copy of remote storage."""
    if os.path.basename(files.absolute(folder)) == METADATA_DIRECTORY:
        return False
    names = (parse_file_name(entry.name) for entry in files.listing(folder))
    return not any(name is not None and name.is_remote for name in names)


def _start_finding(folder: str) -> list[Finding]:
    """The failure of a start, as far as it is for what is in the directory."""
    # Most directories need no model of a start, whose modules take their time.
    from kdump.kafka.segmentindexes import DEFAULT_INDEX_SIZE
    from kdump.kafka.startup.directory import Directory
    from kdump.kafka.startup.logdirectory import partition_settings, read_log_directory
    from kdump.kafka.startup.names import INDEX
    from kdump.kafka.startup.start import start

    watch = Watch(folder)
    above = os.path.dirname(files.absolute(folder))

    def check() -> Iterator[Finding]:
        nonlocal watch
        directory = Directory.on_disk(folder)
        watch = Watch(folder, *(os.path.join(folder, name) for name in directory.before))
        # An index may be as large as the configuration allows, which is not known.
        largest = max((content.size for name, content in directory.before.items() if name.endswith(INDEX)), default=0)
        known = partition_settings(folder, read_log_directory(above))
        settings = known._replace(is_clean=True, max_index_size=max(DEFAULT_INDEX_SIZE, largest))
        failure = start(directory, settings).failure
        if failure is not None:
            message = f"a start after a clean stop fails: {failure.message} ({failure.java_class or 'without an end'})"
            yield Finding(Codes.START_STOPS, message, 0, path=folder)

    try:
        return settled_findings(check, lambda: watch.has_changed or is_held(above))
    except KdumpError:
        # What cannot be read is told where it is read.
        return []
