"""Which files a PATH stands for.

Source: shared/spec/formats.md section 5; the order is that of the offsets in the names.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from kdump.codes import Codes, KdumpError
from kdump.log.names import Kind, parse_file_name, parse_partition_directory

_SIBLING_ORDER = {kind: order for order, kind in enumerate(Kind)}


def segment_files(directory: str, *, all_files: bool = False) -> Iterator[str]:
    """The segment files of a partition directory, or of every partition of a log directory, in offset order.

    Files with a state suffix (``.deleted``, ``.swap``, ...) are left out: they are dumped when named. Of the folders
    only those called ``<topic>-<n>`` are entered.

    Args:
        directory: the path, which starts every path given back.
        all_files: the siblings of the .log files too.

    Raises:
        KdumpError: NO_SEGMENTS, or UNREADABLE.
    """
    found = False
    for folder, names in _folders(directory):
        chosen = []
        for name in names:
            parsed = parse_file_name(name)
            if parsed is not None and not parsed.state and (all_files or parsed.kind is Kind.LOG):
                # A name without a number comes last: it is an error of that file, not of the directory.
                unnumbered = parsed.base_offset is None
                chosen.append((unnumbered, parsed.base_offset or 0, _SIBLING_ORDER[parsed.kind], name))
        for *_, name in sorted(chosen):
            found = True
            yield os.path.join(folder, name)
    if not found:
        raise KdumpError(Codes.NO_SEGMENTS, "no segment files in this directory", path=directory)


def _folders(directory: str) -> Iterator[tuple[str, list[str]]]:
    """(path, names of regular files) of the directory itself and of the partitions in it, sorted by partition."""
    try:
        entries = list(os.scandir(directory))
        yield directory, [entry.name for entry in entries if entry.is_file()]
    except OSError as error:
        raise KdumpError(Codes.UNREADABLE, error.strerror or str(error), path=directory) from error
    partitions = []
    for entry in entries:
        parsed = parse_partition_directory(entry.name)
        if parsed is not None and entry.is_dir():
            partitions.append((parsed, entry.path))
    for _, path in sorted(partitions):
        try:
            yield path, [entry.name for entry in os.scandir(path) if entry.is_file()]
        except OSError as error:
            raise KdumpError(Codes.UNREADABLE, error.strerror or str(error), path=path) from error
