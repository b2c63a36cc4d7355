"""The partitions of a bucket as files of this machine, for work that needs such files."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from kdump.codes import KdumpError
from kdump.format.checkpoint import LOG_START_CHECKPOINT, with_offset
from kdump.log import files
from kdump.log.names import parse_partition_directory
from kdump.tiered.extract import extract
from kdump.tiered.mount import store_of


@contextmanager
def staged(path: str, beside: str) -> Iterator[list[str]]:
    """The partition directories of a store, or the one that ``path`` is, as long as they are needed.

    Args:
        path: a store of partitions, or a partition in it.
        beside: a path on the disk that has room for them.

    Raises:
        KdumpError: something cannot be read.
        OSError: something cannot be written.
    """
    store = store_of(path)
    directory = tempfile.mkdtemp(prefix=".kdump-tier-", dir=os.path.dirname(files.absolute(beside).rstrip("/")))
    try:
        errors: list[KdumpError] = []

        def refuse(error: KdumpError) -> bool:
            errors.append(error)
            return False

        extract(path, directory, refuse, overwrites=False)
        if errors:
            raise errors[0]
        names = [name for name in sorted(os.listdir(directory)) if parse_partition_directory(name)]
        lines = b""
        for name in names:
            start, parsed = store.start_offset(f"{store.root}/{name}"), parse_partition_directory(name)
            if start is not None and parsed is not None:
                lines = with_offset(lines, *parsed, start)
        if lines:
            with open(os.path.join(directory, LOG_START_CHECKPOINT), "wb") as checkpoint:
                checkpoint.write(lines)
        yield [os.path.join(directory, name) for name in names]
    finally:
        shutil.rmtree(directory, ignore_errors=True)
