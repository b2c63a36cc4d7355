"""The files of partitions out of a bucket, byte for byte as the broker had them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from kdump.codes import Codes, KdumpError
from kdump.log import files
from kdump.log.names import SIBLING_TEXT_FILES, parse_file_name, parse_partition_directory
from kdump.log.opening import open_source
from kdump.system.files import NewFile, Staged, discard, make_directories, publish, remove_empty

_PIECE: Final = 1 << 20


class ExtractedPartition(NamedTuple):
    """What was written of a partition."""

    directory: str
    files: int
    bytes: int


def extract(
    source: str, destination: str, on_error: Callable[[KdumpError], bool], *, overwrites: bool
) -> list[ExtractedPartition]:
    """Write the partitions of a store; none of them where ``on_error`` says so.

    Args:
        source: a store of partitions, a directory or a file in one.
        destination: the directory; of a single file also the file.
        on_error: takes why a file cannot be read; False: nothing is written.
        overwrites: files that are there already are replaced.

    Raises:
        KdumpError: the source cannot be listed, or a file is there already (OUTPUT_EXISTS).
        OSError: a file cannot be written.
    """
    staged: list[Staged] = []
    made: list[str] = []
    done: dict[str, list[int]] = {}
    try:
        for path, target in list(_targets(source, destination)):
            if not overwrites and os.path.lexists(target):
                raise KdumpError(Codes.OUTPUT_EXISTS, "is there already (--overwrite)", path=target)
            made = [*make_directories(os.path.dirname(target)), *made]
            try:
                new = _copied(path, target)
            except KdumpError as error:
                if on_error(error):
                    continue
                discard(staged)
                remove_empty(made)
                return []
            staged.append(new[0])
            done.setdefault(os.path.dirname(target), []).append(new[1])
        publish(staged)
    except BaseException:
        discard(staged)
        remove_empty(made)
        raise
    return [ExtractedPartition(directory, len(sizes), sum(sizes)) for directory, sizes in done.items()]


def _targets(source: str, destination: str) -> Iterator[tuple[str, str]]:
    """Each file of the source, and where it goes."""
    if not files.is_directory(source):
        into = destination.endswith("/") or os.path.isdir(destination)
        yield source, os.path.join(destination, os.path.basename(source)) if into else destination
        return
    own = parse_partition_directory(os.path.basename(source.rstrip("/")))
    folders = [source]
    if own is None:
        entries = sorted(files.listing(source))
        folders = [entry.path for entry in entries if entry.is_directory and parse_partition_directory(entry.name)]
    for folder in folders:
        name = os.path.basename(folder.rstrip("/"))
        for entry in sorted(files.listing(folder)):
            parsed = parse_file_name(entry.name)
            is_own = entry.name in SIBLING_TEXT_FILES if parsed is None else not parsed.state
            if is_own and not entry.is_directory:
                yield entry.path, os.path.join(destination, name, entry.name)


def _copied(path: str, target: str) -> tuple[Staged, int]:
    """A copy that is not in its place yet, and its bytes."""
    with open_source(path) as source:
        new = NewFile(target)
        try:
            while part := source.read(new.size, _PIECE):
                new.write(part)
        except BaseException:
            new.discard()
            raise
    return new.finish(), new.size
